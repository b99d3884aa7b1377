"""Our side of a contest: the generated kernels as a caller uses them.

A module may hold the kernels of a program in several schedules, such as `attention_lean_forward` beside
`attention_forward`, and where the program has a scalar output, a kernel for value and gradient together. Kernels that
work block by block take a workspace that calls reuse. What there is, is read from the module and from the signatures,
so that a benchmark runs with every kernel.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.timing import Run


def module_of(name: str, target: str) -> Any:
    """The module with the generated kernels of a program."""
    return importlib.import_module(f"generated.{target}.{name}")


def has_schedule(name: str, target: str, schedule: str) -> bool:
    """Whether there are kernels of a program in a schedule other than the usual one."""
    return hasattr(module_of(name, target), f"{name}_{schedule}_forward")


def settings(kernel: Callable[..., Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the wanted settings that the kernel has."""
    return {name: value for name, value in wanted.items() if name in inspect.signature(kernel).parameters}


def memory(kernel: Callable[..., Any], target: str) -> dict[str, Any]:
    """A new workspace to be passed to each call, if the kernel takes one."""
    if "workspace" not in inspect.signature(kernel).parameters:
        return {}
    return {"workspace": importlib.import_module(f"generated.{target}.workspace").Workspace()}


def there_and_back(
    name: str,
    target: str,
    arguments: Sequence[Any],
    upstream: Any,
    *,
    schedule: str = "",
    workspace: bool = True,
    **options: Any,
) -> Run:
    """A run of the forward and the backward kernel: the value and all gradients."""
    module = module_of(name, target)
    title = f"{name}_{schedule}" if schedule else name
    forward, backward = getattr(module, f"{title}_forward"), getattr(module, f"{title}_backward")
    shared = memory(forward, target) or memory(backward, target) if workspace else {}
    there, back = options | settings(forward, shared), settings(backward, shared)

    def run() -> tuple[Any, ...]:
        value, saved = forward(*arguments, **there)
        return (value, *backward(upstream, saved, **back))

    return run


def value_and_gradient(
    name: str, target: str, arguments: Sequence[Any], *, workspace: bool = True, **options: Any
) -> Run:
    """A run of the kernel for value and gradient together where there is one, of the two kernels otherwise."""
    kernel = getattr(module_of(name, target), f"{name}_value_and_gradient", None)
    if kernel is None:
        return there_and_back(name, target, arguments, 1.0, workspace=workspace, **options)
    there = options | (memory(kernel, target) if workspace else {})
    return lambda: kernel(*arguments, **there)

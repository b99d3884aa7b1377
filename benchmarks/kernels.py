"""Our side of a contest: the generated kernels as a caller uses them, with the settings that their signatures offer.

A kernel may offer a choice of schedule and take a workspace that calls reuse, and a program with a scalar output may have a
kernel for value and gradient together. Whether it does is read from its signature, so that a benchmark runs with every
kernel and uses what there is.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.timing import Run


def parameters(kernel: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a kernel by name."""
    return inspect.signature(kernel).parameters


def settings(kernel: Callable[..., Any], target: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the wanted settings that the kernel has; `workspace=True` stands for a new one of the target's."""
    taken = {name: value for name, value in wanted.items() if name in parameters(kernel)}
    if taken.get("workspace") is True:
        taken["workspace"] = importlib.import_module(f"generated.{target}.workspace").Workspace()
    return taken


def has_schedules(name: str, target: str) -> bool:
    """Whether the caller can choose the schedule of a kernel."""
    return "schedule" in parameters(getattr(importlib.import_module(f"generated.{target}.{name}"), f"{name}_forward"))


def there_and_back(
    name: str,
    target: str,
    arguments: Sequence[Any],
    upstream: Any,
    *,
    schedule: str | None = None,
    workspace: bool = True,
    **options: Any,
) -> Run:
    """A run of the forward and the backward kernel: the value and all gradients."""
    module = importlib.import_module(f"generated.{target}.{name}")
    forward, backward = getattr(module, f"{name}_forward"), getattr(module, f"{name}_backward")
    wanted: dict[str, Any] = {"workspace": True} if workspace else {}
    if schedule is not None:
        wanted["schedule"] = schedule
    there = {**options, **settings(forward, target, wanted)}
    shared = {"workspace": there["workspace"]} if "workspace" in there else wanted
    back = settings(backward, target, shared)

    def run() -> tuple[Any, ...]:
        value, saved = forward(*arguments, **there)
        return (value, *backward(upstream, saved, **back))

    return run


def value_and_gradient(
    name: str, target: str, arguments: Sequence[Any], upstream: Any, *, workspace: bool = True, **options: Any
) -> Run:
    """A run of the kernel for value and gradient together where there is one, of the two kernels otherwise."""
    module = importlib.import_module(f"generated.{target}.{name}")
    kernel = getattr(module, f"{name}_value_and_gradient", None)
    if kernel is None:
        return there_and_back(name, target, arguments, upstream, workspace=workspace, **options)
    there = {**options, **settings(kernel, target, {"workspace": True} if workspace else {})}

    def run() -> tuple[Any, ...]:
        value, gradients = kernel(*arguments, **there)
        return (value, *gradients)

    return run

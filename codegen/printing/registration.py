"""Kernels as operators of PyTorch: what a file says about its kernels so that PyTorch can use them as its own.

Part of emission, for the targets whose library keeps a registry of operators. A kernel's file gets, beside the forward
and the backward function, an `Operator` and a differentiable function of the kernel's own name. What registration means
is the same for every kernel and stands in the target's `operators.py` and `rules.py`; here it is said, from the plan
alone, which arrays go in and out, which are saved, and whether a batch may become one more leading dimension.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codegen.errors import KernelError
from codegen.ir.insides import is_truth
from codegen.ir.nodes import Axes, Contract, Gather, Identity, Node, Position, Read, Reduce, Scatter, Size
from codegen.planning.routines import Kernel, Parameter, Routine
from derive.language import Flag, Scalar

MODULES = ("operators.py", "rules.py")  # what registers a kernel, beside its own file
Call = Callable[..., Sequence[str]]  # (start, arguments, end): a call on one line where it fits, else on several


@dataclass(frozen=True)
class Registration:
    """A name in the registry, the lines that make the operator, and those of the registered function's body."""

    name: str
    operator: tuple[str, ...]
    body: tuple[str, ...]


def as_forward(kernel: Kernel) -> Kernel:
    """The kernel with its plain function called NAME_forward, so that NAME is the registered one."""
    if kernel.backward is not None:
        return kernel
    return replace(kernel, forward=replace(kernel.forward, name=f"{kernel.program.name}_forward"))


def version_of(code: str) -> str:
    """What tells this operator from another of its name: a digest of its code, and of what registers it.

    PyTorch keeps compiled graphs on disk. One that was made for other kernels must not be run with these.
    """
    folder = Path(__file__).parent / "templates"
    parts = [*((folder / f"{name}.jinja").read_text(encoding="utf-8") for name in MODULES), code]
    return f"v{hashlib.sha256(''.join(parts).encode()).hexdigest()[:8]}"


def registration(
    kernel: Kernel, saved: Sequence[str], options: Sequence[str], version: str, call: Call
) -> Registration:  # fmt: skip
    """The registration of a kernel.

    Args:
        kernel: the plan, its forward routine called NAME_forward.
        saved: the names of what the forward kernel hands to the backward one, in order.
        options: the names of the options, in the order of the signature.
        version: the name of the overload.
        call: lays out a call.

    Raises:
        KernelError: something is saved of which nothing is known.
    """
    forward, backward = kernel.forward, kernel.backward
    kept, truths, counted = _computed(kernel, saved, options)
    separate = tuple(routine is not None and is_independent(routine) for routine in (forward, backward))
    fields: dict[str, Sequence[str]] = {
        "arrays": [_spec(parameter) for parameter in forward.parameters],
        "outputs": [_spec(parameter) for parameter in forward.returns],
        "options": [f"{_option_type(name, kernel)} {name}" for name in options],
        "saved": saved,
        "kept": kept,
        "truths": truths,
        "counted": counted,
        "variables": [str(symbol.name) for symbol in kernel.variables],
    }
    called = forward.name.removesuffix("_forward")
    variable = f"_{called[len(kernel.program.name) + 1 :]}_operator" if called != kernel.program.name else "_operator"
    lines = [f'"{called}",', f"{forward.name},", *([f"{backward.name},"] if backward is not None else [])]
    lines.append(f'version="{version}",')
    for name, texts in fields.items():
        if texts:
            lines += call(f"{name}=(", [f'"{text}"' for text in texts], ",)," if len(texts) == 1 else "),")
    if any(separate):
        lines.append(f"independent={separate},")
    names = [*(parameter.name for parameter in forward.parameters), *options]
    body = (*call(f"result: {result_type(kernel)} = {variable}(", names, ")"), "return result")
    return Registration(called, (f"{variable} = Operator(", *(f"    {line}" for line in lines), ")"), body)


def result_type(kernel: Kernel) -> str:
    """The type of what the registered function returns."""
    kinds = ["torch.Tensor" for _ in kernel.forward.returns]
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


def summary(kernel: Kernel) -> str:
    """One sentence about the registered function."""
    names = ", ".join(parameter.name for parameter in kernel.forward.returns)
    variables = ", ".join(str(symbol.name) for symbol in kernel.variables)
    able = f"differentiable with respect to {variables}" if variables else "without a gradient"
    called = kernel.forward.name.removesuffix("_forward").removeprefix(kernel.program.name).strip("_")
    how = f"an operator of PyTorch ({called})" if called else "an operator of PyTorch"
    return f"{names} of {kernel.program.title or kernel.program.name}, as {how}: {able}."


def differentiated_numbers(kernel: Kernel) -> set[str]:
    """The options that gradients are returned for."""
    return {str(symbol.name) for symbol in kernel.variables if isinstance(symbol, Scalar)}


def _option_type(name: str, kernel: Kernel) -> str:
    """The type of an option in an operator's schema: a number to be differentiated for is a tensor there."""
    if name in differentiated_numbers(kernel):
        return "Tensor"
    flags = {str(symbol.name) for symbol in kernel.program.all_inputs() if isinstance(symbol, Flag)}
    return "bool" if name in flags else "float"


def _computed(kernel: Kernel, saved: Sequence[str], options: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Of what is saved: the arrays that the forward kernel computes, those that are conditions, and whole numbers."""
    given = {parameter.name for parameter in (*kernel.forward.parameters, *kernel.forward.returns)}
    sizes = {size for parameter in kernel.forward.parameters for size in parameter.sizes}
    made = {statement.name: statement for statement in kernel.forward.statements}
    leading = next((p.sizes[0] for p in kernel.forward.parameters if p.leading), None)
    kept, truths, counted = [], [], []
    for name in saved:
        if name in given or name in sizes or name in options or name in ("leading", "types"):
            continue
        if name in made:
            axes = tuple(str(index.extent) for index in made[name].axes)
            kept.append(_spec(Parameter(name, axes, bool(axes) and axes[0] == leading)))
            if is_truth(made[name].node):
                truths.append(name)
        elif name in kernel.saved:
            raise KernelError(f"{kernel.program.name}: {name} is saved, but no statement computes it")
        else:
            counted.append(name)
    return kept, truths, counted


def _spec(parameter: Parameter) -> str:
    axes = [f"{parameter.sizes[0]}...", *parameter.sizes[1:]] if parameter.leading else parameter.sizes
    return f"{parameter.name}: {' '.join(axes)}".strip()


# ---------------------------------------------------------------------------------------------------------------------


def is_independent(routine: Routine) -> bool:
    """Whether each entry of the leading dimensions is treated by itself, so that a batch can be one more of them.

    So it is when everything that is returned has them, and no statement sums over them, regards their positions or
    their number, or looks up other entries than its own.
    """
    sizes = {parameter.sizes[0] for parameter in (*routine.parameters, *routine.returns) if parameter.leading}
    if len(sizes) != 1 or not all(parameter.leading for parameter in routine.returns):
        return False
    (size,) = sizes
    return all(
        not _has(statement.axes[1:], size) and all(_keeps_apart(node, size) for node in _inner(statement.node))
        for statement in routine.statements
    )


def _inner(node: Node) -> list[Node]:
    """The nodes of a statement, but for the positions of look-ups that name the entry's own place."""
    if isinstance(node, (Gather, Scatter)):
        own, others = node.positions[:1], node.children[1:]
        first = [] if own and isinstance(own[0], Position) else [part for position in own for part in _inner(position)]
        return [node, *first, *(part for child in others for part in _inner(child))]
    return [node, *(part for child in node.children for part in _inner(child))]


def _keeps_apart(node: Node, size: str) -> bool:
    if isinstance(node, (Reduce, Contract)):
        return not _has(node.over, size)
    if isinstance(node, Size):
        return str(node.extent) != size
    if isinstance(node, Read):
        return not _has(node.where[1:], size)
    return not (isinstance(node, (Position, Identity)) and _has(node.axes, size))


def _has(axes: Axes, size: str) -> bool:
    return any(str(index.extent) == size for index in axes)

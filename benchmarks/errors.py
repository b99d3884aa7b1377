"""How far rounding takes the kernels from the exact result, on ordinary and on extreme inputs.

Every kernel of `benchmarks.extremes` is run on its inputs, for NumPy and torch, in float32 and float64, and compared
with `benchmarks.references`, which computes the same from the same floating-point numbers with 40 digits. The error of
a value that is made element by element is the distance in units in the last place (ulp) of the exact value; everywhere
else it is the distance in rounding units (eps) of the largest exact entry in its row, or of the largest term where a
whole row cancels, for there entries are sums, and one that cancels has no digits of its own. PyTorch's own functions
stand beside ours, as a measure of what is usual.

Without --quick the table is written to docs/errors.md.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import references
from benchmarks.extremes import KERNELS, Kernel
from benchmarks.kernels import there_and_back
from benchmarks.timing import Note, Row, as_numpy
from codegen.generate import write_whole

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
LIMIT = 4.0  # for errors of both kinds, in float32
RIVAL = "torch's own"
TYPES = ("float32", "float64")


@dataclass(frozen=True, kw_only=True)
class Error(Row):
    """The largest error of one result on one kind of inputs."""

    kernel: str
    result: str
    inputs: str
    type: str
    error: float
    unit: str
    limit: float | None = None


# Measuring ----------------------------------------------------------------------------------------------------------


def measure(quick: bool, note: Note) -> list[Error]:
    """The errors of all kernels; without `quick` the page in docs/ is written too."""
    targets = ["numpy"]
    if importlib.util.find_spec("torch") is not None:
        targets += ["torch", RIVAL]
    else:
        note("torch is not installed; left out: the target torch, and PyTorch's own functions")
    rows = [row for kernel in KERNELS for row in errors_of(kernel, targets, quick)]
    for row in rows:
        if row.limit is not None and row.error > row.limit:
            what = f"{row.kernel}, {row.target}: {row.result} on inputs {row.inputs}"
            note(f"{what}: {row.error:g} {row.unit}, expected at most {row.limit:g}")
    if not quick:
        write_whole(PAGE, page(rows))
        note(f"wrote {PAGE.name}")
    return rows


def errors_of(kernel: Kernel, targets: Sequence[str], quick: bool, types: Sequence[str] = TYPES) -> Iterator[Error]:
    """The errors of a kernel's results, for each kind of inputs, type and target."""
    exact = getattr(references, kernel.name)
    for kind in types:
        for label, arguments, upstream in kernel.inputs(np.random.default_rng(7), quick):
            given, above = [_typed(argument, kind) for argument in arguments], _typed(upstream, kind)
            wanted = references.reference(exact, given, above, **dict(kernel.options))
            for target in targets:
                found = run(kernel, target, given, above)
                for name, one, other in zip(kernel.results, found, wanted, strict=True):
                    distance = references.units if name in kernel.by_entry else references.of_the_row
                    yield Error(
                        f"{kernel.title}: {name}, {label}, {kind}",
                        target,
                        kernel=kernel.title,
                        result=name,
                        inputs=label,
                        type=kind,
                        error=float(f"{distance(as_numpy(one), other):.3g}"),
                        unit="ulp" if name in kernel.by_entry else "eps of the row",
                        limit=LIMIT if target != RIVAL and kernel.limit(name, label, kind) else None,
                    )


def run(kernel: Kernel, target: str, given: list[Any], above: Any) -> Sequence[Any]:
    """The value and the gradients, by our kernels or PyTorch's own function."""
    with np.errstate(all="ignore"):
        if target == "numpy":
            return there_and_back(kernel.name, "numpy", given, above, **dict(kernel.options))()
        import torch

        tensors = [torch.from_numpy(np.asarray(value)) for value in (*given, above)]
        if target == "torch":
            return there_and_back(kernel.name, "torch", tensors[:-1], tensors[-1], **dict(kernel.options))()
        if kernel.rival is None:
            raise ValueError(f"{kernel.name}: PyTorch has no function of its own to compare with")
        leaves = [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in tensors[:-1]]
        value = kernel.rival(torch, leaves)
        return (value, *torch.autograd.grad(value, [leaf for leaf in leaves if leaf.requires_grad], tensors[-1]))


def _typed(value: Any, kind: str) -> Any:
    return value.astype(kind) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


# The page -----------------------------------------------------------------------------------------------------------

PREFACE = """# Rounding errors of the kernels

Written by `python -m benchmarks errors`; do not edit.

The largest error on each kind of inputs, against a reference of {digits} digits that starts from the same
floating-point numbers. Errors of values that are made element by element are in units in the last place (ulp) of the
exact value. All others are in rounding units (eps, {eps32:.3g} in float32 and {eps64:.3g} in float64) of the largest
exact entry in their row, or of the largest term where a whole row cancels: there entries are sums, and one that cancels
has no digits of its own. A cell gives the error of the generated NumPy kernel / the generated torch kernel / PyTorch's
own function. Limits are for the generated kernels in float32.

"""


def page(rows: Sequence[Error]) -> str:
    """The text of docs/errors.md: a table for each kernel, a line for each result and kind of inputs."""
    parts = [PREFACE.format(digits=references.DIGITS, eps32=np.finfo(np.float32).eps, eps64=np.finfo(np.float64).eps)]
    for kernel in dict.fromkeys(row.kernel for row in rows):
        parts += [f"## {kernel}\n\n", "| result | inputs | float32 | float64 | limit |\n|---|---|---|---|---|\n"]
        mine = [row for row in rows if row.kernel == kernel]
        for result, label in dict.fromkeys((row.result, row.inputs) for row in mine):
            line = [row for row in mine if (row.result, row.inputs) == (result, label)]
            cells = [" / ".join(number(row.error) for row in line if row.type == kind) for kind in TYPES]
            limits = {row.limit for row in line if row.limit is not None}
            limit = f"{min(limits):.0f} {line[0].unit}" if limits else line[0].unit
            parts.append(f"| {result} | {label} | {cells[0]} | {cells[1]} | {limit} |\n")
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def number(error: float) -> str:
    """An error with two significant digits."""
    return f"{error:.1f}" if error < 100 else f"{error:.1e}"

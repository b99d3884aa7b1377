"""What becomes of a program after the algebraic passes, for a reader: what is saved, and which blocks are computed.

Beside `codegen.algebra.trace`, which tells of those passes. `gradproof generate --explain KERNEL` prints both. What is
told here is read off the same statements and loops that are printed as code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.algebra.costs import BYTES, NOTHING, Amount, Sizes, entries, typical_sizes
from codegen.backends import LIBRARIES, Library
from codegen.planning.routines import Kernel
from codegen.planning.summed import with_plain_summands
from codegen.printing.sweeps import Step, Sweep, steps


def overview(kernel: Kernel) -> Iterator[str]:
    """The lines that tell how each function of a kernel is computed, schedule by schedule and library by library."""
    sizes = typical_sizes(kernel.program)
    for schedule in (kernel, *kernel.variants):
        told: dict[tuple[str, ...], list[str]] = {}
        for name, library in LIBRARIES.items():
            told.setdefault(tuple(_functions(schedule, library, sizes)), []).append(name)
        for lines, names in told.items():
            yield ""
            yield f"{schedule.forward.name}, as computed with {' and '.join(names)}"
            yield from lines


def _functions(kernel: Kernel, library: Library, sizes: Sizes) -> Iterator[str]:
    kernel = with_plain_summands(kernel) if library.plain_summands else kernel
    forward, backward = steps(kernel, library)
    yield from _steps(forward)
    if kernel.backward is None:
        return
    axes = {statement.name: statement.axes for statement in kernel.forward.statements}
    made = [name for name in kernel.saved if name in axes]
    given = [name for name in kernel.saved if name not in axes]
    amount = sum((entries(axes[name]) for name in made), NOTHING)
    yield f"  saved: {', '.join(made) or 'nothing'}{_bytes(amount, sizes)}"
    yield f"  of what it was given: {', '.join(given) or 'nothing'}"
    yield f"  {kernel.backward.name}"
    yield from _steps(backward)


def _bytes(amount: Amount, sizes: Sizes) -> str:
    amount = amount.times(BYTES)
    return f"; bytes: {amount} = {amount.at(sizes):.3g}" if amount.terms else ""


def _steps(planned: Sequence[Step]) -> Iterator[str]:
    for step in planned:
        if not isinstance(step, Sweep):
            yield f"    {step.name}{_reason(step.because)}"
            continue
        outer = "".join(f" for each {index}," for index in step.loop.outer)
        tiles = f", by tiles of {step.tile}" if step.tile is not None else ""
        maxima = ", without row maxima below a bound" if step.light is not None else ""
        yield f"    block by block of {step.loop.row},{outer[:-1]}{tiles}{maxima}:".replace(",:", ":")
        for statement in step.loop.body:
            where = "added up" if statement.name in step.loop.accumulated else ""
            where = where or ("stored" if statement.name in step.loop.stored else "in the block")
            yield f"      {statement.name}, {where}{_reason(statement.because)}"


def _reason(because: str) -> str:
    return f"; by {because}" if because else ""

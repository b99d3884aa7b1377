"""What the compiler costs: from statements to the text of kernels, for the library and for programs of growing length.

The library: every module is imported, every program with kernels is derived, planned, and emitted for every target,
once, in a process that has done nothing else. The chains are those of `benchmarks.proof`: L pre-norm Transformer blocks
in one program, with the gradients of all weights. Their cost for each definition must not grow with L. Seconds are
processor time, so that a neighbour does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.timing import Note, Row

CHAINS = (1, 2, 4, 8, 16)
QUICK_CHAINS = (1, 2, 4)
TARGETS = "numpy, torch"
LIMIT = 30.0  # seconds for the library


@dataclass(frozen=True, kw_only=True)
class Cost(Row):
    """Seconds of processor time for a stage; `definitions` counts those of the statement and of its gradient.

    The target is both: what is derived and planned is planned for all.
    """

    stage: str
    definitions: int
    seconds: float
    ms_per_definition: float
    limit_s: float | None = None


def measure(quick: bool, note: Note) -> list[Cost]:
    """The cost of the library and of each chain."""
    rows = library()
    for blocks in QUICK_CHAINS if quick else CHAINS:
        rows += chain_of(blocks)
    if sum(row.seconds for row in rows if row.limit_s is not None) > LIMIT:
        note(f"the library took more than {LIMIT:.0f} s")
    return rows


def library() -> list[Cost]:
    """The cost of importing the statements of the library, and of turning them into kernels."""

    def state() -> list[Any]:
        from derive.library import load

        return [program for program in load() if program.request is not None]

    programs, stating = timed(state)

    def compile_all() -> None:
        from codegen.generate import render_all

        render_all(programs)

    _, compiling = timed(compile_all)
    count = sum(definitions(program) for program in programs)
    return [
        row("library", "import and state", count, stating, LIMIT),
        row("library", "derive, plan, emit", count, compiling, LIMIT),
    ]


def chain_of(blocks: int) -> list[Cost]:
    """The cost of turning a chain of that many Transformer blocks into kernels."""
    from benchmarks.proof import chain
    from codegen.generate import render_all

    def state() -> Any:
        program, output = chain(blocks)
        program.kernel(output, wrt=[symbol for symbol in program.all_inputs() if str(symbol.name) != "eps"])
        return program

    program, stating = timed(state)
    _, compiling = timed(lambda: render_all([program]))
    count = definitions(program)
    case = f"{blocks} Transformer block{'s' * (blocks > 1)}"
    return [row(case, "state", count, stating), row(case, "derive, plan, emit", count, compiling)]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and its seconds of processor time."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def row(case: str, stage: str, count: int, seconds: float, limit: float | None = None) -> Cost:
    """The row for a stage."""
    return Cost(
        case,
        TARGETS,
        ours_ms=round(1000 * seconds, 1),
        stage=stage,
        definitions=count,
        seconds=round(seconds, 3),
        ms_per_definition=round(1000 * seconds / count, 3),
        limit_s=limit,
    )


def definitions(program: Any) -> int:
    """How many definitions a program and, where a backward kernel is asked for, its gradient have."""
    wanted: Sequence[Any] = program.request.wrt
    count = len(program.definitions)
    return count + len(program.gradient(program.request.outputs[0], wrt=wanted).definitions) if wanted else count

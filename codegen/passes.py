"""The algebraic passes of a routine, one after the other, each from definitions to definitions.

Between the choice of definitions in `codegen.schedule` and lowering. Every name keeps its value through all passes:
what changes is the formula by which it is computed, and which names are computed at all. So each rewrite is a claim
about the program as it was derived, old body = new body, and a test has the prover decide every one of every kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.costs import Cost, typical_sizes
from codegen.reuse import Definitions, Rewrite, Setting, eliminated, reused, routine_cost
from derive.gradient import Gradient
from derive.program import Definition

MOST_ROUNDS = 4

Pass = Callable[[Definitions, Setting], tuple[Definitions, tuple[Rewrite, ...]]]
PASSES: tuple[tuple[str, Pass], ...] = (
    ("read what is at hand", reused),
    ("write in what is read once", eliminated),
)


@dataclass(frozen=True)
class Stage:
    """The definitions of a routine after one pass, what the pass rewrote, and what the routine costs then."""

    name: str
    definitions: Definitions
    rewrites: tuple[Rewrite, ...]
    cost: Cost


def backward_stages(
    gradient: Gradient, adjoints: Sequence[Definition], forward: Sequence[Definition], wanted: Sequence[str]
) -> tuple[Stage, ...]:
    """The adjoints as they were derived, and after each pass that changes something.

    `forward` are the definitions that the forward kernel computes, `wanted` the adjoints that are returned.
    """
    program = gradient.forward
    outputs = program.request.outputs if program.request is not None else ()
    free = {*(str(symbol.name) for symbol in (*gradient.all_inputs(), *outputs))}
    setting = Setting(gradient, tuple(forward), frozenset(free), frozenset(wanted), typical_sizes(program))
    return stages(tuple(adjoints), setting)


def stages(definitions: Definitions, setting: Setting) -> tuple[Stage, ...]:
    """The definitions before all passes and after each one that changes something, until none does."""
    made = [Stage("as derived", definitions, (), routine_cost(definitions, setting))]
    for _ in range(MOST_ROUNDS):
        before = len(made)
        for name, change in PASSES:
            definitions, rewrites = change(definitions, setting)
            if rewrites:
                made.append(Stage(name, definitions, rewrites, routine_cost(definitions, setting)))
        if len(made) == before:
            break
    return tuple(made)

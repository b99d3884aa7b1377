"""The algebraic passes of a routine, one after the other, each from definitions to definitions.

First stage of the compiler, between the choice of definitions in `codegen.planning.schedule` and
`codegen.stability.rules`. Every name keeps its value through all passes: what changes is the formula by which it is
computed, and which names are computed at all. So each rewrite is a claim about the program as it was derived, old body
= new body, and a test has the prover decide every one of every kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.algebra.arguments import with_arguments_named
from codegen.algebra.costs import Cost, typical_sizes
from codegen.algebra.elimination import eliminated
from codegen.algebra.estimates import routine_cost
from codegen.algebra.logspace import in_log_space
from codegen.algebra.reuse import reused
from codegen.algebra.rewriting import Definitions, Rewrite, Setting
from codegen.algebra.scaling import scaled
from derive.gradient import Gradient
from derive.language import Flag, Scalar
from derive.program import Program
from derive.statements import Definition

MOST_ROUNDS = 4  # of the passes that make room for each other

Pass = Callable[[Definitions, Setting], tuple[Definitions, tuple[Rewrite, ...]]]
REPEATED: tuple[tuple[str, Pass], ...] = (
    ("read what is at hand", reused),
    ("write in what costs more with a name", eliminated),
)
STATED: tuple[tuple[str, Pass], ...] = (("name what functions are of", with_arguments_named),)
FIRST: tuple[tuple[str, Pass], ...] = (("divide, and take logarithms, in log space", in_log_space),)
LAST: tuple[tuple[str, Pass], ...] = (("scale the smaller operand", scaled),)


@dataclass(frozen=True)
class Stage:
    """The definitions of a routine after one pass, what the pass rewrote, and what the routine costs then."""

    name: str
    definitions: Definitions
    rewrites: tuple[Rewrite, ...]
    cost: Cost


def forward_stages(program: Program, forward: Sequence[Definition]) -> tuple[Stage, ...]:
    """The definitions of the forward routine as they are stated, and after each pass that changes something."""
    outputs = program.request.outputs if program.request is not None else ()
    wanted = frozenset(str(symbol.name) for symbol in outputs)
    return _stages(tuple(forward), _setting(program, program, (), wanted), (*STATED, *FIRST), (), LAST, "as stated")


def backward_stages(
    gradient: Gradient, adjoints: Sequence[Definition], forward: Sequence[Definition], wanted: Sequence[str]
) -> tuple[Stage, ...]:
    """The adjoints as they were derived, and after each pass that changes something.

    `forward` are the definitions that the forward kernel computes, `wanted` the adjoints that are returned.
    """
    setting = _setting(gradient, gradient.forward, tuple(forward), frozenset(wanted))
    return _stages(tuple(adjoints), setting, FIRST, REPEATED, LAST, "as derived")


def _setting(program: Program, stated: Program, forward: Definitions, wanted: frozenset[str]) -> Setting:
    inputs = program.all_inputs()
    outputs = stated.request.outputs if stated.request is not None else ()
    free = frozenset(str(symbol.name) for symbol in (*inputs, *outputs))
    options = frozenset(str(symbol.name) for symbol in stated.all_inputs() if isinstance(symbol, (Scalar, Flag)))
    return Setting(program, forward, free, wanted, options, typical_sizes(stated))


def _stages(
    definitions: Definitions, setting: Setting, first: Sequence[tuple[str, Pass]],
    repeated: Sequence[tuple[str, Pass]], last: Sequence[tuple[str, Pass]], start: str,
) -> tuple[Stage, ...]:  # fmt: skip
    """The definitions at the start, and after each pass that changes something; the repeated ones until none does."""
    made = [Stage(start, definitions, (), routine_cost(definitions, setting))]

    def apply(passes: Sequence[tuple[str, Pass]]) -> bool:
        before = len(made)
        for name, change in passes:
            definitions, rewrites = change(made[-1].definitions, setting)
            if rewrites:
                made.append(Stage(name, definitions, rewrites, routine_cost(definitions, setting)))
        return len(made) > before

    apply(first)
    for _ in range(MOST_ROUNDS):
        if not apply(repeated):
            break
    apply(last)
    return tuple(made)

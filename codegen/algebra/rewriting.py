"""What the algebraic passes share: the setting of a routine, a rewrite, and the bookkeeping of definitions.

A pass takes the definitions of a routine to other ones and says what it rewrote (`codegen.algebra.passes`). Names keep
their values; bodies change, and definitions that nothing reads any more are gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sympy import Expr, Indexed

from codegen.algebra.costs import Sizes
from codegen.algebra.networks import names_in
from derive.binders import map_children
from derive.language import Scalar
from derive.program import Program
from derive.statements import Definition

Definitions = tuple[Definition, ...]
Changes = tuple[tuple[Expr, Expr], ...]  # what was replaced, and by what


@dataclass(frozen=True)
class Setting:
    """What the passes know of a routine.

    `program` has the definitions as they were derived: it says what every name means. `forward` are the definitions
    whose values are at hand when the routine runs, `free` the names that are kept in any case, `wanted` what the
    routine returns, `options` the numbers that the caller passes. `constants` keeps answers of the prover.
    """

    program: Program
    forward: Definitions
    free: frozenset[str]
    wanted: frozenset[str]
    options: frozenset[str]
    sizes: Sizes
    constants: dict[Expr, Expr | None] = field(default_factory=dict, compare=False)

    @cached_property
    def given(self) -> frozenset[str]:
        """The names of the values that are at hand."""
        return frozenset(definition.name for definition in self.forward)


@dataclass(frozen=True)
class Rewrite:
    """One definition written in another way: as it was, its new body, and the parts that were replaced."""

    definition: Definition
    body: Expr
    changes: Changes = ()


def name_of(base: Any) -> str:
    """The name of an entry or a scalar; empty for anything else."""
    symbol = base.base if isinstance(base, Indexed) else base
    return str(symbol.name) if isinstance(base, (Indexed, Scalar)) else ""


def depending(name: str, current: Mapping[str, Definition]) -> set[str]:
    """The name, and all others that are computed from it."""
    found, waiting = {name}, [(other, names_in(known.body)) for other, known in current.items() if other != name]
    count = 0
    while len(found) > count:  # twice, where each comes after those that it reads
        count = len(found)
        left = []
        for other, read in waiting:
            if read.isdisjoint(found):
                left.append((other, read))
            else:
                found.add(other)
        waiting = left
    return found


def ordered(definitions: Definitions) -> Definitions:
    """The definitions in an order in which each comes after those that it reads, otherwise as they stand."""
    waiting = list(definitions)
    names = {definition.name for definition in definitions}
    placed: list[Definition] = []
    while waiting:
        done = {definition.name for definition in placed}
        ready = next(d for d in waiting if names_in(d.body) & names <= done)
        waiting.remove(ready)
        placed.append(ready)
    return tuple(placed)


def written_in(node: Any, gone: Definition) -> Any:
    """The expression with a definition written in at every place."""
    if isinstance(node, (Indexed, Scalar)):
        if name_of(node) != gone.name:
            return node
        return gone.at(node)
    return map_children(node, lambda part: written_in(part, gone))

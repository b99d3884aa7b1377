"""Ties: points where a comparison of values switches, which claims about derivatives leave out.

Beside `derive.prove`. A function in pieces has no derivative where one piece takes over from the next, so that a claim
about its derivative says nothing there: relu'(x) = [x > 0] and relu'(x) = [x >= 0] are both right, by two conventions.
The comparisons by which what was differentiated takes its cases (`Program.switches`) are therefore assumed to have no
tie, wherever a proof needs it, and a counterexample at a tie does not count. A claim that rests on values of the
forward program alone is decided as it would be there, ties and all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import sympy
from sympy.core.relational import Relational

from derive.binders import all_names, free_indices, fresh_index, substitute, symbols_of
from derive.exceptional import is_differentiable
from derive.gradient import Gradient, depends_on
from derive.normal.case_analysis import Apart, apart_of
from derive.normal.form import normal_form
from derive.normal.ledger import Ledger
from derive.program import Program
from derive.statements import Claim


def comparisons_of(claim: Claim) -> list[Any]:
    """The comparisons of values by which what was differentiated takes its cases, in a fixed order.

    None for a claim that rests on no derivative.
    """
    if not claim.program.switches or not _rests_on_derivatives(claim):
        return []
    found = {part for switch in claim.program.switches for part in switch.atoms(Relational)}
    return [part for part in sorted(found, key=str) if any(is_differentiable(symbol) for symbol in symbols_of(part))]


def _rests_on_derivatives(claim: Claim) -> bool:
    """Whether a derivative is among what the sides are defined by, or may be: one without a name is not recognised."""
    program: Program | None = claim.program
    names = _behind(claim)
    while program is not None:
        forward = program.forward if isinstance(program, Gradient) else None
        derived = program.bodies.keys() - forward.bodies.keys() if forward is not None else set()
        if program.has_unnamed_derivatives or derived & names:
            return True
        program = forward
    return False


def _behind(claim: Claim) -> set[Any]:
    """The names that the sides mention, and all that these are defined by."""
    mentioned = symbols_of(claim.left) | symbols_of(claim.right)
    return set().union(*(depends_on(claim.program, symbol) for symbol in mentioned))


def jumps(claim: Claim) -> bool:
    """Whether a side, with all that it is defined by, may jump at a tie; a maximum or an absolute value does not."""
    behind = _behind(claim)
    bodies = [d.body for d in claim.program.definitions if d.symbol in behind]
    return any(
        any(map(is_differentiable, symbols_of(part)))
        for side in (claim.left, claim.right, *bodies)
        for part in side.atoms(Relational, sympy.sign)
    )


def without_ties(ledger: Ledger, comparisons: Iterable[Any]) -> tuple[Apart, ...]:
    """What is not 0 because these comparisons have no tie.

    One that has become true or false with definitions written in, relu(x) >= 0, never switches and says nothing.
    """
    found: list[Apart] = []
    for comparison in (known for known in dict.fromkeys(comparisons) if isinstance(known, Relational)):
        left, right = (normal_form(ledger, side) for side in comparison.args)
        found += apart_of(ledger, left - right)
    return tuple(found)


def off_ties(claim: Claim, *, everywhere: bool = True) -> Claim:
    """The claim under the further conditions that its comparisons have no tie, for all of their indices.

    Unless `everywhere`, x[i] and x[j] may be equal where i = j, as they always are.
    """
    apart: list[Any] = []
    for comparison in comparisons_of(claim):
        taken = set(all_names(sympy.Tuple(claim.left, claim.right, comparison)))
        names: dict[Any, Any] = {}
        for index in sorted(free_indices(comparison), key=str):
            names[index] = fresh_index(index, taken)  # an index of the claim would stand for one position only
            taken.add(names[index].name)
        left, right = (substitute(side, names) for side in comparison.args)
        no_tie = sympy.Ne(left, right, evaluate=False)
        meetings = [] if everywhere else _meetings(left, right)
        apart.append(sympy.Or(*meetings, no_tie, evaluate=False) if meetings else no_tie)
    return replace(claim, given=(*claim.given, *apart))


def _meetings(left: Any, right: Any) -> list[Any]:
    """Equations of two indices that make two sides one: i = j for x[i] and x[j]."""
    free = sorted(free_indices(left) | free_indices(right), key=str)
    pairs = [(one, other) for one, other in combinations(free, 2) if one.extent == other.extent]
    return [
        sympy.Eq(one, other)
        for one, other in pairs
        if sympy.expand(substitute(left, {one: other}) - substitute(right, {one: other})) == 0
    ]

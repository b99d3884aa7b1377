"""What is positive because a side of a claim has a value: s, where log(s) stands on it.

Used by `derive.attempts`, once the hypotheses have been read. A claim is about points at which both sides have a value.
Where log(s) is a term or a factor of a side, on its own, s is positive at all of them; where sqrt(s) is, it is at least
0. So log(r s) is log(r) + log(s) in a claim that says so, whatever the signs of r and s may be elsewhere.

SOUND: only what a side always computes is looked at. A bracket that is 0 hides the factors beside it, and a branch the
others, so nothing is read off beside or below a condition, or beside a defined name, which may be one; nor inside a
sum, whose bound indices mean nothing outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import sympy
from sympy import Abs, Indexed, KroneckerDelta, Max, Min, Piecewise, sign
from sympy.core.relational import Relational

from derive.binders import symbols_of
from derive.functions import Defined
from derive.language import Flag, Scalar, Where
from derive.normal.form import normal_form
from derive.normal.ledger import Ledger
from derive.operators import OverInput
from derive.statements import Claim

CONDITIONAL = (Abs, Defined, Flag, KroneckerDelta, Max, Min, OverInput, Piecewise, Where, sign)
COMPUTED = (sympy.Add, sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tanh, sympy.erf, sympy.atan)


def know_what_has_values(ledger: Ledger, sides: Iterable[Any], defined: Iterable[Any]) -> None:
    """Give the ledger the numbers and entries that are positive, or at least 0, wherever all sides have a value."""
    names = frozenset(defined)
    for side in sides:
        for node, strict in _arguments(side, names):
            with ledger.unrecorded():
                key = normal_form(ledger, node).key
            ledger.valued[0 if strict else 1].add(key)


def with_values(claim: Claim) -> Claim:
    """The claim with a hypothesis for each number or entry that has to be positive for its sides to have values.

    It says no more than it did. But where numbers are tried, hypotheses are met and values are left to chance.
    """
    names = frozenset(known.symbol for known in claim.program.definitions)
    found = [pair for side in (claim.left, claim.right) for pair in _arguments(side, names)]
    stated = (node > 0 if strict else node >= 0 for node, strict in dict.fromkeys(found))
    return replace(claim, given=(*claim.given, *(known for known in stated if isinstance(known, Relational))))


def _arguments(node: Any, defined: frozenset[Any]) -> Iterator[tuple[Any, bool]]:
    """Entries and numbers, or their opposites, that the node takes the logarithm or a root of, and whether not of 0."""
    if isinstance(node, sympy.log) and _is_name(node.args[0]):
        yield node.args[0], True
    if isinstance(node, sympy.Pow) and _is_name(node.base) and node.exp.is_Rational and not node.exp.is_Integer:
        yield node.base, bool(node.exp < 0)
    if isinstance(node, (sympy.Mul, sympy.Pow)):
        for place, part in enumerate(node.args):
            if not any(_hides(other, defined) for other in (*node.args[:place], *node.args[place + 1 :])):
                yield from _arguments(part, defined)
    elif isinstance(node, COMPUTED):
        for part in node.args:
            yield from _arguments(part, defined)


def _is_name(node: Any) -> bool:
    """Whether a node is an entry or a number with a name, or the opposite of one."""
    return isinstance(node, (Indexed, Scalar)) or (
        isinstance(node, sympy.Mul) and node.args[0] == -1 and len(node.args) == 2 and _is_name(node.args[1])
    )


def _hides(node: Any, defined: frozenset[Any]) -> bool:
    """Whether a factor may be a condition, so that what stands beside it need not have a value."""
    return bool(node.has(*CONDITIONAL)) or bool(defined & symbols_of(node))

"""Shares of a sum over an index set add up to 1: the sum over j of f(j) / Sum_k f(k).

Used by `derive.normal.form` where the index set is such that the inverse of the sum would be split by cases, which
hides that it is one thing. Read off the statement, before anything is multiplied out.

SOUND: the sum is D / D for a D that does not depend on the index. That is 1 wherever D is not 0, which is recorded;
where D is 0 there is no value.
"""

from __future__ import annotations

from typing import Any

import sympy

from derive.binders import free_indices, substitute
from derive.normal import positivity
from derive.normal.ledger import Ledger
from derive.normal.terms import UNITY, Polynomial


def divided_by(node: Any) -> Any | None:
    """The sum of f(k) of which an unfolded sum over one index adds up the shares f(j); None for any other sum."""
    if len(node.limits) != 1 or not isinstance(node.function, sympy.Mul):
        return None
    index = node.limits[0][0]
    for factor in node.function.args:
        below = factor.base if isinstance(factor, sympy.Pow) and factor.exp == -1 else None
        if not isinstance(below, sympy.Sum) or len(below.limits) != 1 or index in free_indices(below):
            continue
        share = sympy.Mul(*(other for other in node.function.args if other is not factor))
        bound = below.limits[0][0]
        apart = bound == index or bound not in free_indices(share)
        if apart and index.extent == bound.extent and substitute(share, {index: bound}) == below.function:
            return below
    return None


def added(ledger: Ledger, whole: Polynomial) -> Polynomial:
    """What the shares of a whole add up to."""
    positivity.assume(ledger, whole, "!= 0")
    ledger.use("shares of a sum add up to 1")
    return UNITY

"""A sum of a few exponentials relative to the largest of them, as it stands in a divisor or under a logarithm.

Part of `codegen.stability.rules`:

    a exp(u) + b exp(v)       = exp(m) (a exp(u - m) + b exp(v - m))     m = max(u, v), of those that have a weight
    a exp(u) - a exp(v)       = exp(m) (a expm1(u - m) - a expm1(v - m))
                              = exp(u + log_of_chance(log(u - v))) a     where u - v is a multiple of an exponential
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import sympy
from sympy import Add, Expr, Mul, Ne

from codegen.stability.exponents import exponential_parts
from codegen.stability.functions import MOST_TERMS, ExpLess1, Largest, LogOfChance, Weight
from codegen.stability.guards import Definitions
from derive.binders import free_indices
from derive.functions import unfold
from derive.language import Where
from derive.normal.signs import reasons_positive

PAIR = 2  # terms, which may be a difference


def relative_to_largest(node: Expr, known: Definitions) -> tuple[Expr, Expr] | None:
    """(m, rest) with node = exp(m) * rest for a sum of exponentials, m the largest exponent; None for any other."""
    if not isinstance(node, Add) or len(node.args) > MOST_TERMS:
        return None
    parts = [exponential_parts(term, known) for term in node.args]
    if not any(free_indices(exponent) for exponent, _, _ in parts) or any(brackets for _, brackets, _ in parts):
        return None
    cancels = is_difference(node, known)
    apart = _exponentially_apart(parts) if cancels else None
    if apart is not None:
        return apart
    exponents = [exponent for exponent, _, _ in parts] if cancels else _exponents_met(parts)
    largest = Largest(*exponents)
    # Each exponential less 1 does as well where the weights add up to 0, and the difference keeps its digits.
    power = ExpLess1 if cancels else sympy.exp
    terms = zip(exponents, parts, strict=True)
    return largest, Add(*(Mul(*others, power(exponent - largest)) for exponent, (_, _, others) in terms))


def _exponentially_apart(parts: Sequence[tuple[Expr, Sequence[Expr], Sequence[Expr]]]) -> tuple[Expr, Expr] | None:
    """(m, a) with a exp(u) - a exp(v) = a exp(m), where u - v is a positive multiple of an exponential.

    That may underflow, and the difference with it, while its logarithm is an ordinary number.
    """
    for (upper, _, weights), (lower, _, _) in permutations(parts, 2):
        exponent, _, others = exponential_parts(upper - lower, {})
        if (
            exponent != 0
            and len(parts) == PAIR
            and all(reasons_positive(unfold(other)) is not None for other in others)
        ):
            return upper + LogOfChance(exponent + sympy.log(Mul(*others))), Mul(*weights)
    return None


def _exponents_met(parts: Sequence[tuple[Expr, Sequence[Expr], Sequence[Expr]]]) -> list[Expr]:
    """The exponents of the terms of a sum. Of two terms, the one without weight has the exponent of the other.

    It adds 0 then, as it should, and the other one is not 0 beside the larger exponential.
    """
    exponents = [exponent for exponent, _, _ in parts]
    if len(parts) > PAIR:
        return exponents
    weights = [Mul(*others) for _, _, others in parts]
    return [
        own if reasons_positive(unfold(weight)) is not None else Where(Ne(Weight(weight), 0), own, other)
        for own, other, weight in zip(exponents, reversed(exponents), weights, strict=True)
    ]


def is_difference(node: Add, known: Definitions) -> bool:
    """Whether the weights of a sum of exponentials add up to 0."""
    return bool(Add(*(Mul(*exponential_parts(term, known)[2]) for term in node.args)) == 0)

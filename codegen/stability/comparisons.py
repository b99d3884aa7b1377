"""Exponentials that are compared with a number: their exponents are, and what is above a bound is not computed.

Part of `codegen.stability.rules`, before its rules. The smaller of a number and an exponential is an ordinary number
where the exponential is none, and which of the two it is can be told by the exponent. For c > 0 and t = (k - b)/c > 0

    b + c exp(u) < k             =  u < log(t)                        any order; also with positive factors, where k = 0
    min(k, b + c exp(u))         =  b + c exp(min(u, log(t)))         where t = 1, and so for a maximum
    min(k, b + c exp(u))         =  min(k, b + c exp(min(u, m)))      for any other t, m a whole number above log(t)

so that CELU's min(0, a exp(x/a) - a) is a expm1(min(x/a, 0)), and the slope of neither overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Expr, Mul, S
from sympy.core.relational import Relational

from derive.binders import compared, map_children
from derive.functions import unfold
from derive.language import Where
from derive.normal.signs import reasons_positive

KINDS = (sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le)
REVERSED: dict[Any, Any] = dict(zip(KINDS, (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge), strict=True))


@dataclass(frozen=True)
class Comparison:
    """That an expression, made of one exponential, is above or below a number: u is above or below log(t)."""

    side: Expr
    number: Expr
    kind: Any
    exponential: Any
    least: Expr

    @property
    def exponent(self) -> Expr:
        """The u that is compared."""
        exponent: Expr = self.exponential.args[0]
        return exponent


def with_exponents_compared(node: Any) -> Any:
    """The expression with comparisons of exponentials and numbers as comparisons of exponents."""
    if isinstance(node, Where):
        condition, *branches = node.args
        found = _compared(condition) if isinstance(condition, KINDS) else None
        if found is not None and set(branches) == {found.side, found.number}:
            return _bounded(node, found)
    inner = map_children(node, with_exponents_compared)
    found = _compared(inner) if isinstance(inner, KINDS) else None
    return inner if found is None else compared(found.kind, found.exponent, sympy.log(found.least))


def _bounded(node: Any, found: Comparison) -> Any:
    """The larger or the smaller of a number and an exponential, with a bound for the exponent where there is one."""
    condition, yes, no = node.args
    if found.least == 1:
        chosen = (S.Zero, found.exponent) if yes == found.number else (found.exponent, S.Zero)
        return _at(found, Where(compared(found.kind, found.exponent, S.Zero), *chosen))
    is_above = found.kind in (sympy.Gt, sympy.Ge)
    if is_above != (yes == found.number):
        return node  # it overflows where the result does
    bound = sympy.ceiling(sympy.log(found.least)) + 1
    side = _at(found, Where(compared(sympy.Le, found.exponent, bound), found.exponent, bound))
    return Where(condition.xreplace({found.side: side}), *(side if part == found.side else part for part in (yes, no)))


def _at(found: Comparison, exponent: Expr) -> Any:
    return found.side.xreplace({found.exponential: sympy.exp(exponent)})


def _compared(condition: Relational) -> Comparison | None:
    """What a condition says of an exponent; None where it compares anything else than an exponential and a number."""
    kind = type(condition)
    for side, number, order in ((*condition.args, kind), (*condition.args[::-1], REVERSED[kind])):
        if not number.is_number or side.is_number:
            continue
        scale, rest = _scale_and_rest(side) if number == 0 else (S.One, side)
        added, term = rest.as_coeff_Add()
        weight, exponential = term.as_coeff_Mul()
        weight, added = weight * scale, added * scale
        least = (number - added) / weight
        if isinstance(exponential, sympy.exp) and not exponential.is_number and least.is_positive:
            return Comparison(side, number, order if weight.is_positive else REVERSED[order], exponential, least)
    return None


def _scale_and_rest(side: Expr) -> tuple[Expr, Expr]:
    """A side that is compared with 0 as a number and the one factor that may change its sign, or all of it."""
    number, rest = side.as_coeff_Mul()
    factors = [factor for factor in Mul.make_args(rest) if reasons_positive(unfold(factor)) is None]
    return (number, factors[0]) if len(factors) == 1 else (S.One, side)

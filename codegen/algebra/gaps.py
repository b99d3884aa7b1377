"""Differences of two logistic functions, as of the borders of a bin, and the logarithm of one.

Part of `codegen.algebra.logspace`; where no logarithm is taken, `codegen.stability.gaps` does the rest.

    log(sigma(a) - sigma(b))   =  log(1 - exp(b - a)) - log(1 + exp(-a)) - log(1 + exp(b))

which has a value where a > b, as the left side does, and no difference but a - b. What a and b have in common cancels
before it is computed: (x + 1/2) r - (x - 1/2) r is r.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy
from sympy import Add, Expr, Mul, Pow, S, exp, log


def log_of_gap(argument: Expr) -> Expr:
    """The logarithm of an argument, in log space where that is a difference of two logistic functions."""
    for scale, a, b, terms in gaps(argument) if isinstance(argument, Add) else ():
        if len(terms) == len(argument.args) and scale.is_positive:
            logarithms = log(1 - exp(-apart(a, b))) - log(1 + exp(-a)) - log(1 + exp(b))
            return logarithms if scale == 1 else log(scale) + logarithms
    return log(argument)


def gaps(node: Add) -> Iterator[tuple[Expr, Expr, Expr, tuple[Expr, Expr]]]:
    """(c, a, b, both terms) for two terms c sigma(a) and -c sigma(b) of a sum; what has a sign of its own has c > 0."""
    found = [(term, *part) for term in node.args for part in _logistic(term)]
    for place, (term, scale, a) in enumerate(found):
        for other, opposite, b in found[place + 1 :]:
            if scale + opposite == 0 and a != b:
                if scale.could_extract_minus_sign():
                    yield opposite, b, a, (other, term)
                else:
                    yield scale, a, b, (term, other)


def _logistic(term: Expr) -> Iterator[tuple[Expr, Expr]]:
    """(c, u) for a term c/(1 + exp(-u)), and for c exp(u)/(1 + exp(u)), as the slope of log(1 + exp(u)) is written."""
    factors = Mul.make_args(term)
    for factor in factors:
        base = factor.base if isinstance(factor, Pow) and factor.exp == S.NegativeOne else S.Zero
        rest = base - 1
        if isinstance(rest, exp):
            if rest in factors:
                yield Mul(*(other for other in factors if other not in (factor, rest))), rest.args[0]
            yield term / factor, -rest.args[0]


def apart(a: Expr, b: Expr) -> Expr:
    """A - b, multiplied out where something cancels."""
    plain: Expr = a - b
    expanded: Expr = sympy.expand(plain)
    return expanded if len(Add.make_args(expanded)) < len(Add.make_args(sympy.expand(a))) else plain

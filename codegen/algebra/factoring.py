"""Terms put together again: common factors taken out, and what two forms of a term have in common left out.

The way back from `codegen.algebra.networks`: a search (`codegen.algebra.search`) ends with terms, and a definition has
one body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy
from sympy import Add, Expr, Mul, S

from codegen.algebra.networks import Term, components
from derive.binders import free_indices
from derive.language import Scalar, is_bracket

SAFE = (sympy.Indexed, Scalar)  # what has a value wherever the names have


def collected(terms: Sequence[Term]) -> Expr:
    """The sum of the terms, the factor that saves most taken out of those that have it, again and again."""
    shared: dict[Expr, list[int]] = {}
    for place, term in enumerate(terms):
        for part in loose_factors(term):
            shared.setdefault(part, []).append(place)
    gains = [
        (-(len(places) - 1), -len(free_indices(part)), sympy.default_sort_key(part), part)
        for part, places in shared.items() if len(places) > 1
    ]  # fmt: skip
    if not gains:
        return Add(*(term.expression for term in terms))
    part = min(gains)[-1]
    inside = [_without(terms[place], part) for place in shared[part]]
    others = [term for place, term in enumerate(terms) if place not in shared[part]]
    common = _common_coefficient(inside)
    inside = [replace(term, coefficient=term.coefficient / common) for term in inside]
    return Add(Mul(common, part, collected(inside)), collected(others) if others else S.Zero)


def loose_factors(term: Term) -> list[Expr]:
    """The factors outside the term's sums, each to the first power, or to the power of -1.

    Exponentials stay together: exp(x)/(1 + exp(x)) is harmless, and exp(x) alone may overflow. So do a bracket and what
    it stands before: 1/x is no number where [x > 0] is 0.
    """
    outside = [factors for scope, factors in components(term) if not scope]
    if any(is_bracket(base) for factors in outside for base, _ in factors):
        outside = [tuple(factor for factor in group if _is_safe(*factor)) for group in outside]
    bases = [(base, exponent) for factors in outside for base, exponent in factors if not base.has(sympy.exp)]
    return [base if exponent > 0 else 1 / base for base, exponent in bases if abs(exponent) >= 1]


def _is_safe(base: Expr, exponent: Expr) -> bool:
    """Whether a factor has a value wherever the names in it have."""
    return is_bracket(base) or (exponent > 0 and isinstance(base, SAFE))


def _without(term: Term, part: Expr) -> Term:
    base, step = (part.base, -1) if isinstance(part, sympy.Pow) and part.exp == -1 else (part, 1)
    factors = tuple((b, e - step if b == base else e) for b, e in term.factors)
    return replace(term, factors=tuple((b, e) for b, e in factors if e != 0))


def _common_coefficient(terms: Sequence[Term]) -> Expr:
    """What all coefficients have in common: powers of numbers and of sizes."""
    shared = dict(terms[0].coefficient.as_powers_dict())
    for term in terms[1:]:
        other = term.coefficient.as_powers_dict()
        shared = {base: power for base, power in shared.items() if other.get(base) == power}
    return Mul(*(base**power for base, power in shared.items()))


def difference(term: Term, after: Sequence[Term]) -> tuple[Expr, Expr]:
    """A term and what it became, without the factors that both sides have."""
    for part in loose_factors(term):
        if after and all(part in loose_factors(other) for other in after):
            term, after = _without(term, part), [_without(other, part) for other in after]
    scale = term.coefficient if all(other.coefficient == term.coefficient for other in after) else S.One
    term, after = (
        replace(term, coefficient=term.coefficient / scale),
        [replace(other, coefficient=other.coefficient / scale) for other in after],
    )
    return term.expression, collected(after)

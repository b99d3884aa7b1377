"""Sums that have a closed form: counts, powers of an index, geometric sums, and the last terms of a range.

Used by `derive.normal.sums` before a connected component becomes an atom. Each function returns what the sum is by its
law, or None where the law does not apply. A geometric sum is a quotient, which has no value where the ratio is 1; it is
therefore taken in a second try at a proof only, so that what can do without keeps no such condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from derive.normal import comparisons, deltas, powers, products, ranges, renaming, sums
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Bracket,
    Exp,
    Exponent,
    Monomial,
    Polynomial,
    Rational,
    Var,
    number,
    position,
    ratio,
    total,
)

HIGHEST = 12  # power of an index that is summed in closed form
MOST_BORDERS = 3  # of an index that is counted
Factors = list[tuple[Atom, Exponent]]


def last_terms(ledger: Ledger, bound: list[Var], _names: set[str], monomial: Monomial) -> Polynomial | None:
    """A sum over T + 1 as the sum over T and the last term."""
    for var in bound:
        extra = var.extent.terms.get(UNIT, 0)
        start = var.extent - number(extra)
        if not (start.terms and 1 <= extra <= deltas.SHORT):
            continue
        ledger.use("a sum over T + 1 is the sum over T and the last term")
        shorter = ledger.fresh_var(start)
        places: list[Atom] = [shorter, *(position(start + number(k)) for k in range(int(extra)))]
        names = [{var.name: place} for place in places]
        parts = []
        for replaced in names:
            others = [Var(o.name, renaming.renamed(ledger, o.extent, replaced)) for o in bound if o != var]
            ranged = [*others, shorter] if shorter in replaced.values() else others
            parts.append(sums.sum_over(ledger, ranged, renaming.renamed_monomial(ledger, monomial, replaced)))
        return total(parts)
    return None


def powers_of_an_index(ledger: Ledger, variables: list[Var], factors: Factors) -> Polynomial | None:
    """A sum over i of i^k times what does not depend on i, by Faulhaber's formula."""
    for var in variables:
        own = [(atom, power) for atom, power in factors if var.name in atom.free]
        if len(own) != 1 or own[0][0] != var or any(var.name in other.extent.free for other in variables):
            continue
        if own[0][1].denominator != 1 or not 1 <= own[0][1] <= HIGHEST:
            continue
        ledger.use("Faulhaber: Sum i^k in closed form")
        rest = tuple(pair for pair in factors if pair != own[0])
        closed = _power_sum(ledger, var.extent, int(own[0][1]))
        body = products.product(ledger, [Polynomial({rest: ONE}), closed])
        return sums.sum_over(ledger, [other for other in variables if other != var], body)
    return None


def counted(ledger: Ledger, variables: list[Var], factors: Factors) -> Polynomial | None:
    """A sum over i of [i < r], times what does not depend on i, as r; so also of [i >= s], and of both together."""
    for var in variables:
        own = [(atom, power) for atom, power in factors if var.name in atom.free]
        insides = [atom.inside for atom, power in own if isinstance(atom, Bracket) and power == ONE]
        if len(insides) != len(own) or any(var.name in other.extent.free for other in variables):
            continue
        borders = [_border(var, inside) for inside in insides]
        if (times := _count(var, borders[0]) if len(borders) == 1 else None) is not None:
            ledger.use("a sum over i of [i < r] is r")
        elif (times := _count_between(ledger, var, borders)) is not None:
            ledger.use("a sum over i of [s <= i][i < r] is r - s, or 0")
        else:
            continue
        rest = tuple(pair for pair in factors if pair not in own)
        body = products.product(ledger, [Polynomial({rest: ONE}), times])
        return sums.sum_over(ledger, [other for other in variables if other != var], body)
    return None


Border = tuple[bool, Polynomial]  # whether values of an index are below it, and where it is


def _border(var: Var, inside: Polynomial) -> Border | None:
    """The border that an index has by being where the polynomial is positive; None where that does not show."""
    step = inside.terms.get(((var, ONE),), 0)
    rest = inside - Polynomial({((var, ONE),): step} if step else {})
    if abs(step) != 1 or var.name in rest.free or not products.is_integer_valued(inside):
        return None
    return (True, rest) if step < 0 else (False, UNITY - rest)  # i < border, or else i >= border


def _count(var: Var, border: Border | None) -> Polynomial | None:
    """How many values an index has on its side of a border; None where that is not known to be in the range."""
    if border is None:
        return None
    is_upper, place = border
    if not (ranges.never_negative(place) and ranges.never_negative(var.extent - place)):
        return None
    return place if is_upper else var.extent - place


def _count_between(ledger: Ledger, var: Var, borders: Sequence[Border | None]) -> Polynomial | None:
    """How many values an index has on its side of some borders, by cases: which are the nearest, and in the range."""
    if len(borders) > MOST_BORDERS:
        return None
    lows, highs = [(UNITY, ZERO)], [(UNITY, var.extent)]
    for border in borders:
        if border is None:
            return None
        is_upper, place = border
        if is_upper:
            highs = _nearest(ledger, highs, place, -ONE)
        else:
            lows = _nearest(ledger, lows, place, ONE)
    parts = []
    for here, low in lows:
        for there, high in highs:
            between = high - low
            holds = UNITY if ranges.never_negative(between) else comparisons.bracket(ledger, between)
            parts.append(products.product(ledger, [here, there, holds, between]))
    return total(parts)


def _nearest(
    ledger: Ledger, cases: Sequence[tuple[Polynomial, Polynomial]], border: Polynomial, sign: Rational
) -> list[tuple[Polynomial, Polynomial]]:
    """The cases of a border with one more that may be nearer: above it for the sign 1, below it for -1."""
    made: list[tuple[Polynomial, Polynomial]] = []
    for case, place in cases:
        nearer = (border - place).scaled(sign)
        if ranges.never_negative(nearer) or ranges.never_negative(nearer.scaled(-ONE)):
            made.append((case, border if ranges.never_negative(nearer) else place))
            continue
        holds = comparisons.bracket(ledger, nearer)
        made.append((products.product(ledger, [case, holds]), border))
        made.append((products.product(ledger, [case, UNITY - holds]), place))
    return made


def _power_sum(ledger: Ledger, extent: Polynomial, k: int) -> Polynomial:
    """0^k + 1^k + ... + (extent - 1)^k for k > 0, as a polynomial in the extent."""
    terms = [
        powers.power(ledger, extent, k + 1 - j).scaled(ratio(comb(k + 1, j) * number_, k + 1))
        for j, number_ in enumerate(_bernoulli(k))
    ]
    return total(terms)


def _bernoulli(highest: int) -> list[Rational]:
    """The numbers B_0, ..., B_highest, with B_1 = -1/2."""
    found: list[Rational] = []
    for n in range(highest + 1):
        found.append((n == 0) - ratio(sum(comb(n + 1, j) * found[j] for j in range(n)), n + 1))
    return found


def geometric(ledger: Ledger, variables: list[Var], factors: Factors) -> Polynomial | None:
    """A sum over i of q^i as (q^T - 1) / (q - 1), where the ledger divides by what may be 0."""
    exponent = _exponent(factors, variables[0]) if len(variables) == 1 else None
    if exponent is None:
        return None
    if not ledger.divides:
        ledger.could_divide = True
        return None
    ledger.use("geometric sum: Sum q^i = (q^T - 1)/(q - 1)")
    ratio, end = (
        powers.exponential(ledger, products.product(ledger, [exponent, times]))
        for times in (UNITY, variables[0].extent)
    )
    with ledger.everywhere():
        below = powers.power(ledger, ratio - UNITY, -ONE)
    return products.product(ledger, [end - UNITY, below])


def _exponent(factors: Factors, var: Var) -> Polynomial | None:
    """The polynomial a in exp(a i), for a product of exponentials; None for any other product."""
    found = []
    for atom, power in factors:
        if not isinstance(atom, Exp):
            return None
        held = [e for inner, e in atom.monomial if inner == var]
        rest = tuple(pair for pair in atom.monomial if pair[0] != var)
        if held != [ONE] or any(var.name in inner.free for inner, _ in rest):
            return None
        found.append(Polynomial({rest: power}))
    return total(found)

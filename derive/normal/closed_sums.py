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
HIGHEST_BESIDE = 4  # power of an index beside a geometric sequence that is summed in closed form
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
    spans = _spans(ledger, var, borders)
    return None if spans is None else total(products.product(ledger, [holds, high - low]) for holds, low, high in spans)


def _spans(
    ledger: Ledger, var: Var, borders: Sequence[Border | None]
) -> list[tuple[Polynomial, Polynomial, Polynomial]] | None:  # fmt: skip
    """Where an index is on its side of some borders: (holds, low, high), it is low <= i < high where holds is 1."""
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
    spans = []
    for here, low in lows:
        for there, high in highs:
            some = UNITY if ranges.never_negative(high - low) else comparisons.bracket(ledger, high - low)
            spans.append((products.product(ledger, [here, there, some]), low, high))
    return spans


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
    """A sum over i of i^k q^i, also between borders of i, in closed form where the ledger divides by what may be 0.

    For k = 0 it is (q^h - q^l)/(q - 1), with l and h the borders.
    """
    names = {var.name for var in variables}
    for var in variables:
        own = [(atom, power) for atom, power in factors if var.name in atom.free]
        insides = [atom.inside for atom, power in own if isinstance(atom, Bracket) and power == ONE]
        power = dict(own).get(var, 0)
        rest = [pair for pair in own if pair[0] != var and not isinstance(pair[0], Bracket)]
        exponent = _exponent(rest, var) if rest else None
        if exponent is None or exponent.free & names or any(var.name in other.extent.free for other in variables):
            continue
        borders = [_border(var, inside) for inside in insides]
        if not (power.denominator == 1 and 0 <= power <= HIGHEST_BESIDE):
            continue
        if not ledger.divides:
            ledger.could_divide = True
            return None
        spans = _spans(ledger, var, borders)
        if spans is None:
            continue
        ledger.use("geometric sum: Sum q^i = (q^T - 1)/(q - 1)")
        parts = [
            products.product(ledger, [holds, _geometric(ledger, exponent, low, high, int(power))])
            for holds, low, high in spans
        ]
        others = tuple(pair for pair in factors if pair not in own)
        body = products.product(ledger, [Polynomial({others: ONE}), total(parts)])
        return sums.sum_over(ledger, [other for other in variables if other != var], body)
    return None


def _geometric(ledger: Ledger, exponent: Polynomial, low: Polynomial, high: Polynomial, k: int) -> Polynomial:
    """The sum of i^k q^i over low <= i < high, q = exp(exponent), where q is not 1 and low <= high.

    The differences of i^k q^i add up to what it is at high less what it is at low, and each of them is
    i^k q^i (q - 1) and q^(i + 1) times lower powers of i.
    """

    def raised(to: Polynomial) -> Polynomial:
        return powers.exponential(ledger, products.product(ledger, [exponent, to]))

    with ledger.everywhere():
        below = powers.power(ledger, raised(UNITY) - UNITY, -ONE)
    found: list[Polynomial] = []
    for n in range(k + 1):
        ends = [products.product(ledger, [powers.power(ledger, end, n), raised(end)]) for end in (high, low)]
        lower = total(known.scaled(comb(n, j)) for j, known in enumerate(found))
        whole = ends[0] - ends[1] - products.product(ledger, [raised(UNITY), lower])
        found.append(products.product(ledger, [whole, below]))
    return found[k]


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

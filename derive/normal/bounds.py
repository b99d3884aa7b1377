"""Bounds: why a polynomial is never negative, by a few inequalities that everybody knows.

A comparison that is the same everywhere is 1 or 0, and a claim that one holds is proved by that. What structure shows
is seen in `derive.normal.positivity`; here a polynomial p is written as p = g + q, where g is at least 0 at all values
(`derive.normal.gaps`), and q is looked at again. Other steps ask for the sign of something else in place of p:

- u - 1 >= log u; a difference of logarithms is not negative if that of what they are of is not;
- a >= b where a >= 0 and a^2 >= b^2, for roots;
- sine, cosine and erf lie between -1 and 1, brackets between 0 and 1: what is linear in one of them is not
  negative if it is not at both ends;
- a sum over an index, or over pairs of positions, is not negative if its terms are not;
- at last, q is a sum of squares (`derive.normal.gram`).

SOUND: every step goes from "q >= 0" to "p >= 0" wherever p has a value. INCOMPLETE: gaps are taken with the coefficient
that makes a term of p go, and few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from derive.normal import gaps, gram, positions, positivity, powers, products, splitting
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.terms import (
    ONE,
    UNITY,
    Apply,
    Bracket,
    Log,
    Monomial,
    NoValue,
    Polynomial,
    Rational,
    Total,
    Var,
    number,
    ratio,
    sorted_monomial,
    total,
)

MOST_TERMS = 40  # of a polynomial that is looked at
MOST_CASES = 6  # brackets of which each holds or does not
DEPTH = 4  # gaps that are taken one after the other
MOST_HOPELESS = 400  # polynomials that are looked at in vain: what is proved has led to 160 of them at most
WITHIN_ONE = ("sin", "cos", "erf")  # functions with values between -1 and 1
NOTHING, NEVER_NEGATIVE, ALWAYS_POSITIVE = range(3)


def is_zero_by_bounds(ledger: Ledger, polynomial: Polynomial, cases: int = MOST_CASES) -> bool:
    """Whether a polynomial is zero once comparisons that never hold, or always do, are replaced by 0 or 1.

    What no bound settles is taken to hold and not to hold, and then the others are looked at again.
    """
    if polynomial.is_zero or _is_no_case(ledger):
        return True
    brackets = {a for m in polynomial.terms for a, _ in m if isinstance(a, Bracket) and _compares_values(a)}
    if not brackets and ledger.branches:  # at least 0, and at most
        return all(sign_of(ledger, polynomial.scaled(sign)) for sign in (1, -1))
    if not brackets or cases < len(brackets):
        return False
    ordered = sorted(brackets, key=lambda atom: (len(atom.inside.terms), len(atom.key), atom.key))
    for bracket in ordered:
        for holds, sure in ((False, NEVER_NEGATIVE), (True, ALWAYS_POSITIVE)):
            if sign_of(ledger, bracket.inside.scaled(1 if holds else -1)) >= sure:
                case = splitting.case_of(ledger, polynomial, bracket, holds=holds)
                return is_zero_by_bounds(ledger, case, cases - 1)
    first = ordered[0]
    for form, text, holds in zip(splitting.forms_of(first), splitting.texts_of(first), (True, False), strict=True):
        with ledger.within(form, text):
            case = splitting.case_of(ledger, polynomial, first, holds=holds)
            if not is_zero_by_bounds(ledger, case, cases - 1):
                return False
    return True


def _compares_values(bracket: Bracket) -> bool:
    """Whether a bracket is about values, and not about positions alone, as that of a mask is."""
    return any(not positions.is_count(atom) for monomial in bracket.inside.terms for atom, _ in monomial)


def _is_no_case(ledger: Ledger) -> bool:
    """Whether what the branches say contradicts each other."""
    return any(
        sign_of(ledger, fact.scaled(-ONE)) >= (NEVER_NEGATIVE if strict else ALWAYS_POSITIVE)
        for fact, strict in gaps.known(ledger)
    )


def sign_of(ledger: Ledger, polynomial: Polynomial, depth: int = DEPTH) -> int:
    """What is known of the sign, wherever the polynomial has a value: never negative, always positive, or nothing."""
    ledger.spend()
    if len(polynomial.terms) > MOST_TERMS or any(isinstance(a, NoValue) for m in polynomial.terms for a, _ in m):
        return NOTHING
    if positivity.is_nonnegative(polynomial):
        return _noted(ledger, polynomial, ALWAYS_POSITIVE if positivity.is_positive(polynomial) else NEVER_NEGATIVE)
    if all(c > 0 and _has_square_of_sum(ledger, m) for m, c in polynomial.terms.items()):
        positive = any(map(positivity.monomial_is_positive, polynomial.terms))
        ledger.use("a sum of squares is at least 0")
        return _noted(ledger, polynomial, ALWAYS_POSITIVE if positive else NEVER_NEGATIVE)
    for whole in (number(polynomial.terms.get((), 0)), number(0)):
        if (whole.is_zero or positivity.is_positive(whole)) and gram.is_sum_of_squares(polynomial - whole):
            ledger.use("a sum of squares is at least 0")
            return _noted(ledger, polynomial, NEVER_NEGATIVE if whole.is_zero else ALWAYS_POSITIVE)
    here = (polynomial.key, tuple(branch.form.key for branch in ledger.branches))
    if depth <= ledger.hopeless.get(here, 0) or len(ledger.hopeless) >= MOST_HOPELESS:
        return NOTHING  # gaps that are taken away in another order leave the same
    for step in STEPS:
        held = dict(ledger.laws), dict(ledger.facts), dict(ledger.assumed)
        try:
            found = step(ledger, polynomial, depth - 1)
        except (UndefinedError, UndefinedInstanceError):
            found = NOTHING
        if found:
            return found
        ledger.laws, ledger.facts, ledger.assumed = held  # what led nowhere is no part of the proof
    ledger.hopeless[here] = depth
    return NOTHING


def _has_square_of_sum(ledger: Ledger, monomial: Monomial) -> bool:
    """Whether no factor is negative, sums of squares of sums among them: Sum_n,a,b x(n, a) x(n, b)."""
    return all(
        positivity.factor_is_nonnegative(a, e) or (isinstance(a, Total) and gaps.is_square_of_sum(ledger, a))
        for a, e in monomial
    )


def _noted(ledger: Ledger, polynomial: Polynomial, sign: int) -> int:
    """The sign, with the declarations written down that it rests on."""
    for monomial in polynomial.terms:
        positivity.note_positive(ledger, monomial)
    return sign


# ---------------------------------------------------------------------------------------------------------------------
# What is between two ends, and what is a sum of such.


def _between_ends(ledger: Ledger, polynomial: Polynomial, depth: int) -> int:
    """The sign at both ends of a function with known bounds, in which the polynomial is linear, or of a bracket."""
    bracket = splitting.first_bracket(polynomial)
    if bracket is not None:
        found = ALWAYS_POSITIVE
        forms, texts = splitting.forms_of(bracket), splitting.texts_of(bracket)
        for case, form, text in zip(splitting.cases_of(ledger, polynomial, bracket), forms, texts, strict=True):
            with ledger.within(form, text):
                found = min(found, sign_of(ledger, case, depth))
        return found
    for atom in sorted({a for m in polynomial.terms for a, _ in m if isinstance(a, Apply)}, key=lambda a: a.key):
        if atom.function not in WITHIN_ONE or any(dict(m).get(atom, 1) != 1 for m in polynomial.terms):
            continue
        with_it = {m: c for m, c in polynomial.terms.items() if atom in dict(m)}
        rest = polynomial - Polynomial(with_it)
        slope = total(Polynomial({tuple(pair for pair in m if pair[0] != atom): c}) for m, c in with_it.items())
        found = min(sign_of(ledger, rest + slope.scaled(end), depth) for end in (ONE, -ONE))
        if found:
            ledger.use("sine, cosine and erf lie between -1 and 1")
            return found
    return NOTHING


def _term_by_term(ledger: Ledger, polynomial: Polynomial, depth: int) -> int:
    """The sign of the terms of a sum over indices: what does not depend on them is spread over their ranges."""
    for atom in gaps.totals_in(polynomial):
        if any(var.extent.free & {other.name for other in atom.bound} for var in atom.bound):
            continue
        bound = [ledger.fresh_var(var.extent) for var in atom.bound]
        inside = total(_spread(ledger, m, bound).scaled(c) for m, c in polynomial.ordered())
        found = sign_of(ledger, inside, depth)
        if found:
            ledger.use("a sum is at least 0 where its terms are")
            for var in bound:
                _noted(ledger, var.extent, found)
            return found if all(positivity.is_positive(var.extent) for var in bound) else NEVER_NEGATIVE
    return NOTHING


def _spread(ledger: Ledger, monomial: Monomial, bound: list[Var]) -> Polynomial:
    """What is summed over the bound indices in a monomial, or each position's part of it."""
    for atom, power in monomial:
        if isinstance(atom, Total) and power == 1 and gaps.extents(atom.bound) == gaps.extents(bound):
            rest = tuple(pair for pair in monomial if pair[0] != atom)
            return products.product(ledger, [Polynomial({rest: ONE}), gaps.body_of(ledger, atom, bound)])
    parts = [powers.power(ledger, var.extent, -ONE) for var in bound]
    return products.product(ledger, [Polynomial({monomial: ONE}), *parts])


def _pair_by_pair(ledger: Ledger, polynomial: Polynomial, depth: int) -> int:
    """The sign of the terms of a sum over pairs of positions, products of two sums being written as one.

    T Sum f^2 - (Sum f)^2 is the sum of (f(v) - f(w))^2 / 2.
    """
    for atom in gaps.totals_in(polynomial):
        if len(atom.bound) > 1 or not any(_sums_over(m, atom)[1:] for m in polynomial.terms):
            continue
        pair = [ledger.fresh_var(atom.bound[0].extent) for _ in range(2)]
        inside = total(_over_pairs(ledger, m, atom, pair).scaled(c) for m, c in polynomial.ordered())
        found = sign_of(ledger, inside, depth)
        if found:
            ledger.use("a sum is at least 0 where its terms are")
            return _noted(ledger, atom.bound[0].extent, found)
    return NOTHING


def _sums_over(monomial: Monomial, like: Total) -> list[Total]:
    """The sums over the range of another one among the factors of a monomial, a square counting twice."""
    over = ((a, e) for a, e in monomial if isinstance(a, Total) and gaps.extents(a.bound) == gaps.extents(like.bound))
    return [atom for atom, power in over if power in (1, 2) for _ in range(int(power))]


def _over_pairs(ledger: Ledger, monomial: Monomial, like: Total, pair: list[Var]) -> Polynomial:
    """What is summed over all pairs of positions in a monomial, the same for both orders of a pair."""
    taken = _sums_over(monomial, like)[:2]
    left = dict(monomial)
    for atom in taken:
        left[atom] -= 1
    rest = Polynomial({sorted_monomial(left): ratio(1, 2)})
    share = powers.power(ledger, pair[0].extent, -ONE)
    orders = []
    for order in (pair, pair[::-1]):
        bodies = [gaps.body_of(ledger, atom, [var]) for atom, var in zip(taken, order, strict=False)]
        orders.append(products.product(ledger, [rest, *bodies, *[share] * (2 - len(taken))]))
    return total(orders)


# ---------------------------------------------------------------------------------------------------------------------
# Logarithms, roots and gaps.


def _without_logarithms(ledger: Ledger, polynomial: Polynomial, depth: int) -> int:
    """Where a >= b, log a >= log b; and - c m log u is at least c m (1 - u)."""
    groups: dict[Monomial, dict[Monomial, Rational]] = {}
    for monomial, coefficient in polynomial.ordered():
        logs = [(a, e) for a, e in monomial if isinstance(a, Log)]
        if len(logs) == 1 and logs[0][1] == 1 and not (isinstance(logs[0][0], Log) and logs[0][0].formal):
            beside = tuple(pair for pair in monomial if pair != logs[0])
            groups.setdefault(beside, {})[tuple(logs)] = coefficient
    for beside, logs_of in groups.items():
        if not gaps.is_nonnegative(beside):
            continue
        scale = ratio(
            math.gcd(*(c.numerator for c in logs_of.values())), math.lcm(*(c.denominator for c in logs_of.values()))
        )
        inverse = ratio(scale.denominator, scale.numerator)
        if positivity.monomial_is_positive(beside):
            under = powers.power(ledger, Polynomial({beside: scale}), -ONE)
            plain = products.product(ledger, [polynomial, under])
            up, down = (Polynomial({m: c * sign for m, c in plain.terms.items() if c * sign > 0}) for sign in (1, -1))
            found = sign_of(ledger, powers.exponential(ledger, up) - powers.exponential(ledger, down), depth)
            if found:
                ledger.use("log is strictly increasing")
                return _noted(ledger, Polynomial({beside: scale}), found)
        logarithms = Polynomial(logs_of)
        of = powers.exponential(ledger, logarithms.scaled(-inverse))
        gap = products.product(ledger, [Polynomial({beside: scale}), of - UNITY]) + products.product(
            ledger, [Polynomial({beside: ONE}), logarithms]
        )
        found = sign_of(ledger, polynomial - gap, depth)
        if found:
            ledger.use("log u <= u - 1")
            return _noted(ledger, Polynomial({beside: scale}), found)
    return NOTHING


def _without_roots(ledger: Ledger, polynomial: Polynomial, depth: int) -> int:
    """Where a is at least 0 and a^2 >= b^2, a >= b: for the terms a that have a root."""
    if splitting.first_bracket(polynomial) is not None:
        return NOTHING  # it may hide a root without a value, of which nothing follows for the terms beside it
    under = {(a, -e) for m in polynomial.terms for a, e in m if e < 0 and positivity.is_root(a, e)}
    if under:  # a root that is divided by is positive
        times = Polynomial({sorted_monomial(dict(sorted(under, key=lambda pair: (pair[0].key, pair[1])))): ONE})
        return sign_of(ledger, products.product(ledger, [polynomial, times]), depth)
    roots = {m: c for m, c in polynomial.terms.items() if any(e.denominator == 2 for _, e in m)}
    above = Polynomial(roots)
    if not roots or not positivity.is_nonnegative(above):
        return NOTHING
    below = polynomial - above
    found = sign_of(ledger, _squared(ledger, above) - _squared(ledger, below), depth)
    if found:
        ledger.use("a >= b where a >= 0 and a^2 >= b^2")
        _noted(ledger, above, found)
    return found


def _squared(ledger: Ledger, polynomial: Polynomial) -> Polynomial:
    return products.product(ledger, [polynomial, polynomial])


def _less_a_gap(ledger: Ledger, polynomial: Polynomial, depth: int) -> int:
    """The sign of what is left when a gap is taken away."""
    for table in gaps.TABLES:
        for law, gap in table(ledger, polynomial):
            left = polynomial - gap
            if len(left.terms) <= len(polynomial.terms):
                found = sign_of(ledger, left, depth)
                if found:
                    ledger.use(law)
                    return _noted(ledger, gap, found)
    return NOTHING


Step = Callable[[Ledger, Polynomial, int], int]
STEPS: tuple[Step, ...] = (
    _between_ends,
    _without_logarithms,
    _without_roots,
    _less_a_gap,
    _term_by_term,
    _pair_by_pair,
)

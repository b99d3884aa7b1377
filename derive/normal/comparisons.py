"""Brackets of comparisons: [p > 0] in normal form, from which every other condition is built.

[a >= b] is 1 - [b - a > 0]; `and` is a product, `not` is 1 - c. Over the integers [p > 0] and [1 - p > 0] complement
each other, so j <= i and not (i < j) meet. Multiplying by a positive quantity, and applying log to both sides of a
comparison of positive quantities, does not change a bracket: log is strictly increasing on (0, inf). That one law is
why the maximisers of a likelihood and of its logarithm are the same.
"""

from __future__ import annotations

import math

from derive.normal import deltas, logarithms, positivity, powers, products, ranges, splitting
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Base,
    Bracket,
    Entry,
    Exponent,
    Log,
    Polynomial,
    Var,
    from_atom,
    magnitude,
    number,
    position,
    ratio,
    total,
)

MAX_OFFSET = 8  # how many single cases a comparison of integers is taken apart into
MOST_FACTORS = 4  # of a product whose sign is written with theirs


def bracket(ledger: Ledger, argument: Polynomial) -> Polynomial:
    """The normal form of [argument > 0]."""
    value = argument.constant()
    if value is not None:
        return UNITY if value > 0 else ZERO
    split = splitting.case_split(ledger, argument, lambda part: bracket(ledger, part))
    if split is not None:
        return split
    if products.is_integer_valued(argument):
        argument = _divided(ledger, argument)
        outcome = _from_ranges(argument)
        if outcome is not None:
            ledger.use("an index lies in its range")
            return outcome
        if products.leading_term(argument)[1] < 0:
            ledger.use("integers: [p > 0] = 1 - [1 - p > 0]")
            return UNITY - _whole(ledger, number(1) - argument)
        return _whole(ledger, argument)
    for sign, sure in ((1, UNITY), (-1, ZERO)):
        if positivity.is_positive(argument.scaled(sign)):
            _note(ledger, argument)
            ledger.use("a sum of squares, exponentials and positive terms is positive")
            return sure
    logs = as_logs(ledger, argument)
    if logs is not None:
        ledger.use("log is strictly increasing")
        return bracket(ledger, logs)
    content, primitive = powers.content_of(ledger, argument, fractional=True)
    if content.constant() != 1:
        _note(ledger, content)
        ledger.use("[c p > 0] = [p > 0] for c > 0")
        return bracket(ledger, primitive)
    cleared = _without_denominators(ledger, primitive)
    if cleared is not None:
        ledger.use("[p/x > 0] = [x p > 0]")
        return bracket(ledger, cleared)
    return _by_signs(ledger, primitive) or from_atom(Bracket(primitive))


def _without_denominators(ledger: Ledger, argument: Polynomial) -> Polynomial | None:
    """The argument times even powers of what it is divided by, which keeps its sign; None where it is by nothing."""
    lowest: dict[Atom, int] = {}
    for monomial in argument.terms:
        for atom, e in monomial:
            if e < 0 and e.denominator == 1:
                lowest[atom] = min(lowest.get(atom, 0), int(e))
    if not lowest or len(argument.terms) == 1:
        return None
    return total(
        products.normal_monomial(ledger, c, (*m, *((atom, -e + e % 2) for atom, e in lowest.items())))
        for m, c in argument.ordered()
    )


def _by_signs(ledger: Ledger, argument: Polynomial) -> Polynomial | None:
    """[a^e q > 0] by the signs of a and q, for a factor a^e of all terms; None where nothing can be taken apart."""
    common = _common_factors(argument)
    if len(common) > MOST_FACTORS or list(argument.terms) == [tuple(common)] == [((common[0][0], 1),)]:
        return None
    for atom, e in common:
        rest = total(products.normal_monomial(ledger, c, (*m, (atom, -e))) for m, c in argument.terms.items())
        ledger.use("[a q > 0] = [a > 0] [q > 0] + [-a > 0] [-q > 0]")
        above, below = (bracket(ledger, rest.scaled(sign)) for sign in (1, -1))
        if positivity.is_root(atom, e) and isinstance(atom, Base):  # which is not negative
            return products.product(ledger, [bracket(ledger, atom.inside), above])
        up, down = (bracket(ledger, from_atom(atom).scaled(sign)) for sign in (1, -1))
        both = above if e.numerator % 2 == 0 else below
        return products.product(ledger, [up, above]) + products.product(ledger, [down, both])
    return None


def _common_factors(argument: Polynomial) -> list[tuple[Atom, Exponent]]:
    """The factors of all terms, each with the power that all terms have of it."""
    powers_ = [dict(m) for m in argument.terms]
    shared = sorted(set.intersection(*map(set, powers_)), key=lambda atom: atom.key)
    lowest = [(atom, min(known[atom] for known in powers_)) for atom in shared]
    return [(a, e) for a, e in lowest if all(known[a] == e or (e > 0 and e.denominator == 1) for known in powers_)]


def _divided(ledger: Ledger, argument: Polynomial) -> Polynomial:
    """Over the integers, [g q + c > 0] = [q + ceil(c / g) > 0]: what all coefficients share is divided out."""
    shared = math.gcd(*(int(c) for m, c in argument.terms.items() if m != UNIT))
    if shared <= 1:
        return argument
    ledger.use("integers: [g q + c > 0] = [q + ceil(c/g) > 0]")
    constant = ratio(argument.terms.get(UNIT, 0), shared)
    rest = Polynomial({m: ratio(c, shared) for m, c in argument.terms.items() if m != UNIT})
    return rest + number(math.ceil(constant))


def _from_ranges(argument: Polynomial) -> Polynomial | None:
    """1 or 0 where the ranges of the indices decide [argument > 0], else None."""
    highest, lowest = ranges.greatest(argument), ranges.least(argument)
    if highest is not None and highest <= 0:
        return ZERO
    return UNITY if lowest is not None and lowest > 0 else None


def _note(ledger: Ledger, polynomial: Polynomial) -> None:
    for monomial in polynomial.terms:
        positivity.note_positive(ledger, monomial)


def _whole(ledger: Ledger, argument: Polynomial) -> Polynomial:
    """[argument > 0] over the integers, its constant moved out one by one: [q > -1] = [q > 0] + [q = 0]."""
    offset = argument.terms.get(UNIT, 0)
    linear = Polynomial({m: c for m, c in argument.terms.items() if m != UNIT})
    ends = _ends(linear)
    if ends is None or offset == 0 or magnitude(offset) > MAX_OFFSET:
        return _above_zero(ledger, argument)
    ledger.use("integers: [q > -1] = [q > 0] + [q = 0]")
    above, below = ends
    steps = range(int(offset)) if offset > 0 else range(1, 1 - int(offset))
    sign = 1 if offset > 0 else -1
    # offset > 0 adds q = 0, -1, ...; offset < 0 takes away q = 1, 2, ...
    met = [
        deltas.delta(ledger, position(above), position(below + number(step if offset < 0 else -step))) for step in steps
    ]
    return total((_above_zero(ledger, linear), *(one.scaled(sign) for one in met)))


def _above_zero(ledger: Ledger, argument: Polynomial) -> Polynomial:
    """[argument > 0] over the integers, by the ranges of its indices where they leave 0 and what is above it."""
    outcome = _from_ranges(argument)
    if outcome is not None:
        return outcome
    ends = _ends(argument)
    if ends is None and isinstance(position(argument), (Var, Entry)):
        ends = argument, ZERO
    if ends is None or ranges.least(argument) != 0:
        return from_atom(Bracket(argument))
    ledger.use("[q > 0] = 1 - [q = 0] where q is at least 0")
    return UNITY - deltas.delta(ledger, *map(position, ends))


def _ends(linear: Polynomial) -> tuple[Polynomial, Polynomial] | None:
    """(a, b) for an integer polynomial a - b of two indices or sizes; None for any other."""
    up = [(m, c) for m, c in linear.terms.items() if c == 1 and len(m) == 1 and m[0][1] == 1]
    down = [(m, -c) for m, c in linear.terms.items() if c == -1 and len(m) == 1 and m[0][1] == 1]
    if len(up) != 1 or len(down) != 1 or len(linear.terms) != 2:
        return None
    return Polynomial(dict(up)), Polynomial(dict(down))


def as_logs(ledger: Ledger, argument: Polynomial) -> Polynomial | None:
    """For a difference a - b of positive monomials, log a - log b; None otherwise."""
    if len(argument.terms) != 2:
        return None
    up = [(m, c) for m, c in argument.terms.items() if c > 0]
    down = [(m, -c) for m, c in argument.terms.items() if c < 0]
    if len(up) != 1 or len(down) != 1 or not all(positivity.monomial_is_positive(m) for m, _ in (*up, *down)):
        return None
    first, second = (logarithms.logarithm(ledger, Polynomial(dict(part))) for part in (up, down))
    return first - second


def without_logs(ledger: Ledger, argument: Polynomial) -> Polynomial | None:
    """For a difference of logarithms, log a - log b, the difference a - b, which has its zeros; None otherwise."""
    if not all(len(m) == 1 and isinstance(m[0][0], Log) and m[0][1] == 1 for m in argument.terms):
        return None
    up = Polynomial({m: c for m, c in argument.terms.items() if c > 0})
    down = Polynomial({m: -c for m, c in argument.terms.items() if c < 0})
    return powers.exponential(ledger, up) - powers.exponential(ledger, down)

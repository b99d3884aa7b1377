"""Products: multiplying polynomials, and the laws that hold between the factors of one monomial.

A monomial is normal when
- no bracket or delta carries a power (they are idempotent),
- a delta's larger index occurs nowhere else in it (delta(i, j) f(j) = delta(i, j) f(i)),
- primes and power bases carry only what cannot be expanded (B^(3/2) = B * B^(1/2), the first factor multiplied out),
- the leading term of a base does not occur beside its inverse: with B = L + R, L * B^-1 = 1 - R * B^-1. This is what
  makes B * B^-1 = 1 hold for a B that has been multiplied out, wherever it stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from derive.normal import renaming
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Base,
    Bracket,
    Delta,
    Entry,
    Exponent,
    Fixed,
    Monomial,
    Place,
    Polynomial,
    Prime,
    Var,
    from_atom,
    is_idempotent,
    number,
    sorted_monomial,
    total,
    value_of,
)

LARGEST_DIVISOR = 100_000  # that is tried; a longer search would escape the budget


def product(ledger: Ledger, polynomials: Iterable[Polynomial]) -> Polynomial:
    """The product, multiplied out and normal."""
    result = UNITY
    for polynomial in polynomials:
        result = _times(ledger, result, polynomial)
        if result.is_zero:
            return ZERO
    return result


def _times(ledger: Ledger, left: Polynomial, right: Polynomial) -> Polynomial:
    for one, other in ((left, right), (right, left)):
        value = one.constant()
        if value is not None:
            return other.scaled(value)
    parts: list[Polynomial] = []
    for m, c in left.terms.items():
        for n, d in right.terms.items():
            parts.append(normal_monomial(ledger, c * d, (*m, *n)))
    return total(parts)


def normal_monomial(ledger: Ledger, coefficient: Fraction, factors: Iterable[tuple[Atom, Exponent]]) -> Polynomial:
    """Coefficient * product of the factors, as a normal polynomial."""
    ledger.spend()
    powers: dict[Atom, Exponent] = {}
    plain = True
    for atom, power in factors:
        powers[atom] = powers.get(atom, Fraction(0)) + power
        plain = plain and not isinstance(atom, (Delta, Base, Prime)) and not is_idempotent(atom)
    if plain:
        return Polynomial({sorted_monomial(powers): coefficient}) if coefficient else ZERO
    if _excludes_itself(powers):
        ledger.use("[p > 0] [-p > 0] = 0")
        return ZERO
    expanded: list[Polynomial] = []
    for atom, power in list(powers.items()):
        if is_idempotent(atom) and power > 1:
            powers[atom] = ONE
            ledger.use("brackets are idempotent")
        elif isinstance(atom, (Prime, Base)) and (power >= 1 or (isinstance(atom, Prime) and power < 0)):
            whole = math.floor(power)
            powers[atom] = power - whole
            if isinstance(atom, Prime):
                coefficient *= Fraction(atom.value) ** whole
            else:
                expanded += [atom.inside] * whole
    monomial = sorted_monomial(powers)
    moved = _follow_delta(ledger, monomial)
    if moved is None:
        moved = _reduce_quotient(ledger, monomial)
    if moved is None:
        result = Polynomial({monomial: coefficient})
        return product(ledger, [result, *expanded]) if expanded else result
    return product(ledger, [moved.scaled(coefficient), *expanded])


def _excludes_itself(powers: Mapping[Atom, Exponent]) -> bool:
    """Whether two of the brackets cannot hold together, because one quantity would be positive and negative."""
    insides = [atom.inside for atom, power in powers.items() if isinstance(atom, Bracket) and power > 0]
    if len(insides) < 2:
        return False
    keys = {inside.key for inside in insides}
    return any(inside.scaled(-ONE).key in keys for inside in insides)


def _follow_delta(ledger: Ledger, monomial: Monomial) -> Polynomial | None:
    """With delta(i, j) as a factor, j replaced by i in all other factors; None when nothing is to be replaced."""
    for place, (atom, power) in enumerate(monomial):
        if not isinstance(atom, Delta) or power <= 0:
            continue
        gone, kept = delta_direction(atom)
        if gone is None:
            continue
        rest = (*monomial[:place], *monomial[place + 1 :])
        if any(gone.name in other.free for other, _ in rest):
            ledger.use("delta contraction")
            moved = [renaming.renamed_power(ledger, other, power, {gone.name: kept}) for other, power in rest]
            return product(ledger, [*moved, from_atom(atom)])
    return None


def delta_direction(atom: Delta) -> tuple[Var | None, Atom]:
    """The index that a delta eliminates and what replaces it: an index by an entry, a later name by an earlier."""
    for gone, kept in ((atom.right, atom.left), (atom.left, atom.right)):
        if isinstance(gone, Var) and gone.name not in kept.free and not (isinstance(kept, Var) and kept.key > gone.key):
            return gone, kept
    return None, atom.left


def delta(ledger: Ledger, left: Atom, right: Atom) -> Polynomial:
    """The normal form of Kronecker's delta."""
    if left == right:
        ledger.use("delta(i, i) = 1")
        return UNITY
    if all(isinstance(side, (Fixed, Place, Var)) for side in (left, right)):
        apart = (value_of(left) - value_of(right)).constant()
        if apart is not None:
            return ZERO if apart else UNITY
    first, second = sorted((left, right), key=lambda atom: atom.key)
    return from_atom(Delta(first, second))


def _reduce_quotient(ledger: Ledger, monomial: Monomial) -> Polynomial | None:
    """L * B^e with e < 0 rewritten by L = (B - R) / c; None when no base's leading term is there."""
    powers = dict(monomial)
    for base, power in monomial:
        if not isinstance(base, Base) or power >= 0:
            continue
        lead, c = leading_term(base.inside)
        if lead == UNIT or not all(powers.get(atom, Fraction(0)) >= e for atom, e in lead):
            continue
        ledger.use("quotient: B / B = 1")
        left = dict(powers)
        for atom, e in lead:
            left[atom] -= e
        rest = total((base.inside, Polynomial({lead: -c})))
        kept = sorted_monomial(left)
        up = normal_monomial(ledger, 1 / c, (*kept, (base, ONE)))
        return total((up, *(normal_monomial(ledger, -d / c, (*kept, *m)) for m, d in rest.terms.items())))
    return None


def leading_term(polynomial: Polynomial) -> tuple[Monomial, Fraction]:
    """The term that a quotient is reduced by: of highest degree, then first by key; no negative exponents."""

    def rank(term: tuple[Monomial, Fraction]) -> tuple[bool, Fraction]:
        usable = all(e > 0 for _, e in term[0]) and term[0] != UNIT
        return usable, sum((e for _, e in term[0]), Fraction(0))

    best: tuple[Monomial, Fraction] | None = None
    for term in polynomial.ordered():
        if best is None or rank(term) > rank(best):
            best = term
    if best is None or not rank(best)[0]:
        return UNIT, ONE
    return best


def is_integer_valued(polynomial: Polynomial) -> bool:
    """Whether every value is an integer: integer coefficients over indices, sizes and integer entries."""
    return all(
        c.denominator == 1
        and all(
            e.denominator == 1 and e > 0 and (isinstance(a, Var) or (isinstance(a, Entry) and a.integer)) for a, e in m
        )
        for m, c in polynomial.terms.items()
    )


def factorised(value: int) -> dict[int, int]:
    """The prime factors of a positive integer with their multiplicities; what has no small factor is left whole."""
    found: dict[int, int] = {}
    prime = 2
    while prime * prime <= value and prime < LARGEST_DIVISOR:
        while value % prime == 0:
            found[prime] = found.get(prime, 0) + 1
            value //= prime
        prime += 1
    if value > 1:
        found[value] = found.get(value, 0) + 1
    return found


def rational_power(ledger: Ledger, value: Fraction, power: Exponent) -> Polynomial:
    """value^power for a positive rational, primes under fractional powers kept as atoms."""
    factors = [(p, power * k) for p, k in factorised(value.numerator).items()]
    factors += [(p, -power * k) for p, k in factorised(value.denominator).items()]
    if power.denominator == 1:
        return number(value ** int(power))
    return normal_monomial(ledger, ONE, [(Prime(p), e) for p, e in factors])

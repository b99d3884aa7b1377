"""Products: multiplying polynomials, and the laws that hold between the factors of one monomial.

A monomial is normal when
- no bracket or delta carries a power (they are idempotent),
- a delta's larger index occurs nowhere else in it (delta(i, j) f(j) = delta(i, j) f(i)),
- primes and power bases carry only what cannot be expanded (B^(3/2) = B * B^(1/2), the first factor multiplied out),
- a sine has no power above 1 (sin^2 = 1 - cos^2),
- the leading term of a base does not occur beside its inverse: with B = L + R, L * B^-1 = 1 - R * B^-1. This is what
  makes B * B^-1 = 1 hold for a B that has been multiplied out, wherever it stands,
- no x^-1 stands beside B^-1 with B = c + x Q for a number c, nor with B = x + y led by x (partial fractions),
- no [-x > 0] stands beside a product x that contains it: x [-x > 0] = x - x [x > 0], so that x [x = 0] = 0.

Applying them ends. Partial fractions lower the total of negative exponents, which no other law raises; quotients and
sin^2 replace a monomial by smaller ones in one order that products respect: by degree, then by exponents, sines first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import combinations, permutations
from typing import TypeGuard

from derive.normal import deltas, look_ups, ranges, renaming
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Apply,
    Atom,
    Base,
    Bracket,
    Delta,
    Entry,
    Exp,
    Exponent,
    Monomial,
    Polynomial,
    Prime,
    Rational,
    Total,
    Var,
    from_atom,
    is_idempotent,
    number,
    ratio,
    sorted_monomial,
    total,
    whole_power,
)

UNDER_WORK, LAST = re.compile(r"~(\d+)"), 10**9  # names of indices under work, of which later ones come first
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


def _has_laws(atom: Atom) -> bool:
    """Whether a factor of its kind takes part in a law beyond the addition of exponents."""
    if is_idempotent(atom):
        return True
    return isinstance(atom, (Base, Prime, Apply)) or (isinstance(atom, Exp) and atom.alternates)


def normal_monomial(ledger: Ledger, coefficient: Rational, factors: Iterable[tuple[Atom, Exponent]]) -> Polynomial:
    """Coefficient * product of the factors, as a normal polynomial."""
    ledger.spend()
    powers: dict[Atom, Exponent] = {}
    plain = True
    for atom, power in factors:
        powers[atom] = powers[atom] + power if atom in powers else power
        plain = plain and not _has_laws(atom)
    if plain:
        return Polynomial({sorted_monomial(powers): coefficient}) if coefficient else ZERO
    if _exclude_each_other(powers):
        ledger.use("[p > 0] [q > 0] = 0 where p + q is at most 0, for integers at most 1")
        return ZERO
    for bracket in _implied(powers):
        del powers[bracket]
        ledger.use("[p > 0] [q > 0] = [p > 0] where q is at least p")
    expanded: list[Polynomial] = []
    for atom, power in list(powers.items()):
        if is_idempotent(atom) and power > 1:
            powers[atom] = ONE
            ledger.use("brackets are idempotent")
        elif isinstance(atom, Exp) and atom.alternates and not 0 <= power <= 1:
            powers[atom] = power % 2
            ledger.use("(-1)^n (-1)^n = 1")
        elif isinstance(atom, (Prime, Base)) and (power >= 1 or (isinstance(atom, Prime) and power < 0)):
            whole = math.floor(power)
            powers[atom] = power - whole
            if isinstance(atom, Prime):
                coefficient *= whole_power(atom.value, whole)
            else:
                expanded += [atom.inside] * whole
        elif is_sine(atom) and power >= 2:
            ledger.use("sin^2 = 1 - cos^2")
            powers[atom] = power % 2
            cosine = Apply("cos", atom.argument)
            expanded += [UNITY - from_atom(cosine, 2)] * int(power // 2)
    monomial = sorted_monomial(powers)
    moved = _follow_delta(ledger, monomial)
    if moved is None:
        moved = _reduce_quotient(ledger, monomial)
    if moved is None:
        moved = _split_fraction(ledger, monomial)
    if moved is None:
        moved = _turn_bracket(ledger, monomial)
    if moved is None:
        result = Polynomial({monomial: coefficient})
        return product(ledger, [result, *expanded]) if expanded else result
    return product(ledger, [moved.scaled(coefficient), *expanded])


def is_sine(atom: Atom) -> TypeGuard[Apply]:
    """Whether the atom is the sine of something."""
    return isinstance(atom, Apply) and atom.function == "sin"


def _exclude_each_other(powers: Mapping[Atom, Exponent]) -> bool:
    """Whether two of the brackets cannot hold together: where they do, p and q are positive, integers at least 1."""
    for p, q in combinations(_brackets(powers), 2):
        whole = is_integer_valued(p.inside) and is_integer_valued(q.inside)
        both = p.inside + q.inside
        highest, most = (ranges.greatest(both), 1) if whole else (both.constant(), 0)
        if highest is not None and highest <= most:
            return True
    return False


def _implied(powers: Mapping[Atom, Exponent]) -> list[Bracket]:
    """The brackets that hold wherever another one does."""
    found: list[Bracket] = []
    for p, q in permutations(_brackets(powers), 2):
        apart = q.inside - p.inside
        lowest = ranges.least(apart) if is_integer_valued(apart) else apart.constant()
        if lowest is not None and lowest >= 0 and p not in found and q not in found:
            found.append(q)
    return found


def _brackets(powers: Mapping[Atom, Exponent]) -> list[Bracket]:
    """The brackets among the factors, in the order of their keys."""
    held = [atom for atom, power in powers.items() if isinstance(atom, Bracket) and power > 0]
    return sorted(held, key=lambda atom: atom.key)


def _follow_delta(ledger: Ledger, monomial: Monomial) -> Polynomial | None:
    """With delta(i, j) as a factor, j replaced by i in all other factors; None when nothing is to be replaced."""
    for place, (atom, power) in enumerate(monomial):
        if not isinstance(atom, Delta) or power <= 0:
            continue
        rest = (*monomial[:place], *monomial[place + 1 :])
        gone, kept = deltas.delta_direction(atom)
        if gone is None:
            looked_up = look_ups.followed(ledger, atom, rest)
            if looked_up is not None:
                return looked_up
            continue
        if any(gone.name in other.free for other, _ in rest):
            ledger.use("delta contraction")
            moved = [renaming.renamed_power(ledger, other, power, {gone.name: kept}) for other, power in rest]
            return product(ledger, [*moved, from_atom(atom)])
    return None


def _reduce_quotient(ledger: Ledger, monomial: Monomial) -> Polynomial | None:
    """L * B^e with e < 0 rewritten by L = (B - R) / c; None when no base's leading term is there."""
    powers = dict(monomial)
    for base, power in monomial:
        if not isinstance(base, Base) or power >= 0 or any(e < 0 for m in base.inside.terms for _, e in m):
            continue  # with negative exponents in the base there is no end to it
        lead, c = leading_term(base.inside)
        if lead == UNIT or not all(powers.get(atom, 0) >= e for atom, e in lead):
            continue
        ledger.use("quotient: B / B = 1")
        left = dict(powers)
        for atom, e in lead:
            left[atom] -= e
        return _without(ledger, base, sorted_monomial(left), lead, c)
    return None


def _split_fraction(ledger: Ledger, monomial: Monomial) -> Polynomial | None:
    """A quotient x^-e B^-1 with B = c + x Q rewritten by 1 = (B - x Q) / c; None when nothing is to be split."""
    if sum(power < 0 for _, power in monomial) < 2:
        return None
    for base, power in monomial:
        term = _split_off(base) if isinstance(base, Base) and power < 0 else None
        if term is None or not isinstance(base, Base):
            continue
        others = [dict(m) for m in base.inside.terms if m != term]
        if any(e < 0 and all(m.get(atom, 0) >= 1 for m in others) for atom, e in monomial):
            ledger.use("partial fractions: 1/(x B) = (1/x - Q/B)/c for B = c + x Q")
            left = dict(monomial)
            for atom, e in term:
                left[atom] = left.get(atom, 0) - e
            return _without(ledger, base, sorted_monomial(left), term, base.inside.terms[term])
    return None


def _split_off(base: Base) -> Monomial | None:
    """The term c of B = c + x Q: the number, or y of x + y for a positive y that does not lead.

    Of what is no number only single factors serve: each step then goes from one atom to a later one, and that ends.
    """
    if UNIT in base.inside.terms or len(base.inside.terms) != 2:
        return UNIT if UNIT in base.inside.terms else None
    lead, _ = leading_term(base.inside)
    (term,) = (m for m in base.inside.terms if m != lead) if lead != UNIT else (UNIT,)
    return term if len(lead) == len(term) == 1 and term[0][0].positive and term[0][1] > 0 else None


def _turn_bracket(ledger: Ledger, monomial: Monomial) -> Polynomial | None:
    """A product x times [-x > 0] rewritten as x - x [x > 0]; None when there is none."""
    powers = dict(monomial)
    for atom, power in monomial:
        inside = atom.inside.single() if isinstance(atom, Bracket) and power > 0 else None
        if inside is None or inside[1] > 0 or not all(0 < e <= powers.get(a, 0) for a, e in inside[0]):
            continue
        ledger.use("x [-x > 0] = x - x [x > 0]")
        kept = tuple(pair for pair in monomial if pair[0] != atom)
        turned = Bracket(Polynomial({inside[0]: ONE}))
        return normal_monomial(ledger, ONE, kept) - normal_monomial(ledger, ONE, (*kept, (turned, ONE)))
    return None


def _without(ledger: Ledger, base: Base, kept: Monomial, term: Monomial, c: Rational) -> Polynomial:
    """The product kept * term with the term, c * term of the base, replaced by (base - the rest of it) / c."""
    rest = total((base.inside, Polynomial({term: -c})))
    up = normal_monomial(ledger, ratio(1, c), (*kept, (base, ONE)))
    return total((up, *(normal_monomial(ledger, ratio(-d, c), (*kept, *m)) for m, d in rest.terms.items())))


@lru_cache(maxsize=5_000)  # by identity
def leading_term(polynomial: Polynomial) -> tuple[Monomial, Rational]:
    """The term that a quotient is reduced by: the largest, of those without negative exponents.

    The order is by degree, then by the exponents of the atoms one after another in the order of their precedence. It
    respects products (m > n makes m k > n k), and sin^2 is greater than 1 and cos^2, so that reducing ends.
    """
    atoms = sorted({atom for monomial in polynomial.terms for atom, _ in monomial}, key=_precedence)

    def rank(term: tuple[Monomial, Rational]) -> tuple[Rational, list[Rational]]:
        powers = dict(term[0])
        return sum(powers.values(), 0), [powers.get(atom, 0) for atom in atoms]

    usable = [term for term in polynomial.terms.items() if term[0] != UNIT and all(e > 0 for _, e in term[0])]
    return max(usable, key=rank, default=(UNIT, ONE))


def _precedence(atom: Atom) -> tuple[int, int, str]:
    """The order of atoms: sines, then bound indices from the innermost outwards, then sums, then all others by key.

    Sums come early, so that c + Sum is reduced by the sum: in a larger sum c leaves it, and is not there any more.

    An index under work was made later the further in it is bound, so opening a sum does not change which way round a
    comparison of its index with an outer one is written, nor by which of two entries a quotient is reduced.
    """
    if is_sine(atom):
        return 0, 0, atom.key
    if isinstance(atom, Var) and atom.name.startswith("~"):
        return 2, -int(atom.name[1:]), ""
    key = UNDER_WORK.sub(lambda name: f"${LAST - int(name[1])}", atom.key) if "~" in atom.key else atom.key
    if isinstance(atom, Total):
        return 3, 0, key
    return (1 if isinstance(atom, Var) and atom.name.startswith("#") else 4), 0, key


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


def rational_power(ledger: Ledger, value: Rational, power: Exponent) -> Polynomial:
    """value^power for a positive rational, primes under fractional powers kept as atoms."""
    factors = [(p, power * k) for p, k in factorised(value.numerator).items()]
    factors += [(p, -power * k) for p, k in factorised(value.denominator).items()]
    if power.denominator == 1:
        return number(whole_power(value, int(power)))
    return normal_monomial(ledger, ONE, [(Prime(p), e) for p, e in factors])

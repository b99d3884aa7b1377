"""Polynomials: sums of monomials with rational coefficients, what every law of the normal form takes and gives.

A monomial is a product of atoms with rational exponents; which kinds of atoms there are is a matter of
`derive.normal.terms`, which others import. Every atom carries a `key`, a string that says all there is to say about it;
atoms are equal when their keys are, and all ordering is by key, so that the result does not depend on hash seeds or on
the order of construction. Data only; nothing here applies a law.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

# Coefficients and exponents. Nearly all are whole, and an int costs a tenth of what a Fraction does, most of all as a
# key. Equal ones are equal keys in either form. `/` and `**` of ints may leave the rationals; `ratio` and `whole_power`
# never do.
Rational = int | Fraction
Exponent = Rational
ONE = 1


def ratio(above: Rational, below: Rational) -> Rational:
    """The exact quotient."""
    return _simplest(Fraction(above, below))


def whole_power(base: Rational, exponent: int) -> Rational:
    """The exact power with an integer exponent."""
    return _simplest(Fraction(base) ** exponent)


def magnitude(value: Rational) -> Rational:
    """The absolute value."""
    return -value if value < 0 else value


def _simplest(value: Fraction) -> Rational:
    return value.numerator if value.denominator == 1 else value


@dataclass(frozen=True, eq=False)
class Atom:
    """A factor: `key` identifies it, `free` are the names of its free indices, `height` its nesting of sums."""

    key: str = field(init=False)
    free: frozenset[str] = field(init=False)
    height: int = field(init=False)
    positive: bool = field(init=False, default=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def _set(self, key: str, free: frozenset[str], height: int, positive: bool = False) -> None:
        # Frozen to everybody else; a constructor may fill in what follows from the parts.
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "free", free)
        object.__setattr__(self, "height", height)
        object.__setattr__(self, "positive", positive)

    def __str__(self) -> str:
        return self.key


Monomial = tuple[tuple[Atom, Exponent], ...]
UNIT: Monomial = ()


def monomial_key(monomial: Monomial) -> str:
    """The monomial as text, factors in order."""
    return "*".join(atom.key if power == 1 else f"{atom.key}^{power}" for atom, power in monomial) or "1"


def sorted_monomial(factors: Mapping[Atom, Exponent]) -> Monomial:
    """The monomial of the given factors, ordered by key."""
    kept = [pair for pair in factors.items() if pair[1]]
    return tuple(sorted(kept, key=_by_key) if len(kept) > 1 else kept)


def _by_key(factor: tuple[Atom, Exponent]) -> str:
    return factor[0].key


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of monomials with non-zero rational coefficients."""

    terms: Mapping[Monomial, Rational]

    @cached_property
    def key(self) -> str:
        """The polynomial as text, monomials in order."""
        return " + ".join(f"{c}*{k}" if c != 1 else k for k, c in self._keyed) or "0"

    @cached_property
    def _keyed(self) -> list[tuple[str, Rational]]:
        return sorted((monomial_key(m), c) for m, c in self.terms.items())

    @cached_property
    def free(self) -> frozenset[str]:
        """Names of the free indices."""
        return frozenset().union(*(atom.free for monomial in self.terms for atom, _ in monomial))

    @cached_property
    def height(self) -> int:
        """Nesting depth of sums."""
        return max((atom.height for monomial in self.terms for atom, _ in monomial), default=0)

    def ordered(self) -> list[tuple[Monomial, Rational]]:
        """The terms in the order of their keys."""
        return sorted(self.terms.items(), key=lambda term: monomial_key(term[0]))

    @property
    def is_zero(self) -> bool:
        """Whether no term is left."""
        return not self.terms

    def constant(self) -> Rational | None:
        """The value of a constant polynomial, None for any other."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and UNIT in self.terms:
            return self.terms[UNIT]
        return None

    def single(self) -> tuple[Monomial, Rational] | None:
        """The term of a polynomial that has exactly one."""
        return next(iter(self.terms.items())) if len(self.terms) == 1 else None

    def __add__(self, other: Polynomial) -> Polynomial:
        return total((self, other))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return total((self, other.scaled(-1)))

    def scaled(self, factor: Rational) -> Polynomial:
        """The polynomial times a rational number."""
        if factor == 1:
            return self
        return Polynomial({m: c * factor for m, c in self.terms.items()} if factor else {})


def total(polynomials: Iterable[Polynomial]) -> Polynomial:
    """The sum of polynomials, like terms collected."""
    terms: dict[Monomial, Rational] = {}
    for polynomial in polynomials:
        if not terms:
            terms = dict(polynomial.terms)  # a copy asks no monomial for its hash, which is most of the time here
            continue
        for monomial, coefficient in polynomial.terms.items():
            before = terms.get(monomial)
            terms[monomial] = coefficient if before is None else before + coefficient
    for monomial in [monomial for monomial, coefficient in terms.items() if not coefficient]:
        del terms[monomial]
    return Polynomial(terms)


def number(value: Rational) -> Polynomial:
    """A constant polynomial."""
    return Polynomial({UNIT: value} if value else {})


def from_atom(atom: Atom, power: Exponent = ONE) -> Polynomial:
    """The polynomial atom^power."""
    return Polynomial({((atom, power),): ONE})


ZERO = number(0)
UNITY = number(1)

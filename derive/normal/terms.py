"""The terms of the normal form: atoms, monomials, polynomials. Data only; nothing here applies a law.

A polynomial is a sum of monomials with rational coefficients; a monomial is a product of atoms with rational exponents;
an atom is a tensor entry, an exponential, a logarithm, a power base, a sum, a product, a bracket ... in normal form.
Every atom carries a `key`, a string that says all there is to say about it; atoms are equal when their keys are, and
all ordering is by key, so that the result does not depend on hash seeds or on the order of construction.

Bound indices are positional. Inside a sum of height h (one more than the highest sum in its body) the bound indices are
called `#h.0`, `#h.1`, ...; free ones have the names of the statement, and an index under work has a fresh `~n`. A sum's
body therefore never mentions a name that an inner binder uses, and nothing can be captured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

Exponent = Fraction
ONE = Fraction(1)


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
    return tuple(sorted(((a, e) for a, e in factors.items() if e != 0), key=lambda pair: pair[0].key))


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A sum of monomials with non-zero rational coefficients."""

    terms: Mapping[Monomial, Fraction]

    @cached_property
    def key(self) -> str:
        """The polynomial as text, monomials in order."""
        return " + ".join(f"{c}*{k}" if c != 1 else k for k, c in self._keyed) or "0"

    @cached_property
    def _keyed(self) -> list[tuple[str, Fraction]]:
        return sorted((monomial_key(m), c) for m, c in self.terms.items())

    @cached_property
    def free(self) -> frozenset[str]:
        """Names of the free indices."""
        return frozenset().union(*(atom.free for monomial in self.terms for atom, _ in monomial))

    @cached_property
    def height(self) -> int:
        """Nesting depth of sums."""
        return max((atom.height for monomial in self.terms for atom, _ in monomial), default=0)

    def ordered(self) -> list[tuple[Monomial, Fraction]]:
        """The terms in the order of their keys."""
        return sorted(self.terms.items(), key=lambda term: monomial_key(term[0]))

    @property
    def is_zero(self) -> bool:
        """Whether no term is left."""
        return not self.terms

    def constant(self) -> Fraction | None:
        """The value of a constant polynomial, None for any other."""
        if not self.terms:
            return Fraction(0)
        if len(self.terms) == 1 and UNIT in self.terms:
            return self.terms[UNIT]
        return None

    def single(self) -> tuple[Monomial, Fraction] | None:
        """The term of a polynomial that has exactly one."""
        return next(iter(self.terms.items())) if len(self.terms) == 1 else None

    def __add__(self, other: Polynomial) -> Polynomial:
        return total((self, other))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return total((self, other.scaled(Fraction(-1))))

    def scaled(self, factor: Fraction) -> Polynomial:
        """The polynomial times a rational number."""
        if factor == 1:
            return self
        return Polynomial({m: c * factor for m, c in self.terms.items()} if factor else {})


def total(polynomials: Iterable[Polynomial]) -> Polynomial:
    """The sum of polynomials, like terms collected."""
    terms: dict[Monomial, Fraction] = {}
    for polynomial in polynomials:
        for monomial, coefficient in polynomial.terms.items():
            terms[monomial] = terms.get(monomial, Fraction(0)) + coefficient
    return Polynomial({m: c for m, c in terms.items() if c})


def number(value: Fraction | int) -> Polynomial:
    """A constant polynomial."""
    return Polynomial({UNIT: Fraction(value)} if value else {})


def from_atom(atom: Atom, power: Exponent = ONE) -> Polynomial:
    """The polynomial atom^power."""
    return Polynomial({((atom, power),): ONE})


ZERO = number(0)
UNITY = number(1)


# ---------------------------------------------------------------------------------------------------------------------
# The kinds of atoms.


@dataclass(frozen=True, eq=False)
class Var(Atom):
    """An index. As a factor it is its own value."""

    name: str
    extent: Polynomial

    def __post_init__(self) -> None:
        self._set(self.name, frozenset({self.name}), 0)


@dataclass(frozen=True, eq=False)
class Fixed(Atom):
    """A fixed position, as in x[0]. Occurs in index positions only."""

    value: int

    def __post_init__(self) -> None:
        self._set(str(self.value), frozenset(), 0)


@dataclass(frozen=True, eq=False)
class Place(Atom):
    """A position that is computed: t + 1, or T for the last of T + 1. Occurs in index positions only."""

    value: Polynomial

    def __post_init__(self) -> None:
        self._set(f"<{self.value.key}>", self.value.free, self.value.height)

    def shift_of(self, name: str) -> int | None:
        """K when the position is `name` + k, else None."""
        rest = Polynomial({m: c for m, c in self.value.terms.items() if m != UNIT})
        one = rest.single()
        shift = self.value.terms.get(UNIT, Fraction(0))
        if one is None or one[1] != 1 or len(one[0]) != 1 or one[0][0][0].key != name or shift.denominator != 1:
            return None
        return int(shift)


def position(value: Polynomial) -> Atom:
    """The index expression with the given value: an index, a fixed position, or a computed one."""
    constant = value.constant()
    if constant is not None and constant.denominator == 1 and constant >= 0:
        return Fixed(int(constant))
    one = value.single()
    if one is not None and one[1] == 1 and len(one[0]) == 1 and one[0][0][1] == 1:
        atom = one[0][0][0]
        if isinstance(atom, Var) or (isinstance(atom, Entry) and atom.into is not None):
            return atom
    return Place(value)


def value_of(part: Atom) -> Polynomial:
    """The value of an index expression."""
    if isinstance(part, Fixed):
        return number(part.value)
    return part.value if isinstance(part, Place) else from_atom(part)


@dataclass(frozen=True, eq=False)
class Entry(Atom):
    """A tensor entry, or with no indices a scalar, a size, a flag or a constant.

    `sign` is "+" for positive by declaration, "01" for a flag (idempotent), "" otherwise.
    """

    name: str
    where: tuple[Atom, ...] = ()
    sign: str = ""
    integer: bool = False
    into: Polynomial | None = None

    def __post_init__(self) -> None:
        shown = f"{self.name}[{','.join(part.key for part in self.where)}]" if self.where else self.name
        free = frozenset().union(*(part.free for part in self.where))
        self._set(shown, free, max((part.height for part in self.where), default=0), self.sign == "+")


@dataclass(frozen=True, eq=False)
class Constant(Atom):
    """A positive irrational number of which nothing else is used. Its name is none that a statement can declare."""

    name: str

    def __post_init__(self) -> None:
        self._set(self.name, frozenset(), 0, True)


@dataclass(frozen=True, eq=False)
class NoValue(Atom):
    """What an expression is where it has no value: 1/0 behind a bracket that excludes it.

    Nothing is known of it, so that it goes only when the bracket beside it makes it go.
    """

    def __post_init__(self) -> None:
        self._set("(no value)", frozenset(), 0)


@dataclass(frozen=True, eq=False)
class Prime(Atom):
    """A prime number, or a large one without small factors, under a fractional power."""

    value: int

    def __post_init__(self) -> None:
        self._set(f"{self.value}", frozenset(), 0, True)


def _of(monomial: Monomial) -> tuple[frozenset[str], int]:
    return frozenset().union(*(a.free for a, _ in monomial)), max((a.height for a, _ in monomial), default=0)


@dataclass(frozen=True, eq=False)
class Exp(Atom):
    """exp of a monomial without its coefficient: exp(3*x) is Exp(x)^3.

    With a formal logarithm in the monomial it is a power with an integer exponent, which may have either sign; one of
    -1 `alternates`: its square is 1.
    """

    monomial: Monomial
    alternates: bool = field(init=False)

    def __post_init__(self) -> None:
        formal = [atom for atom, _ in self.monomial if isinstance(atom, Log) and atom.formal]
        self._set(f"exp({monomial_key(self.monomial)})", *_of(self.monomial), not formal)
        object.__setattr__(self, "alternates", any(atom.inside.constant() == -1 for atom in formal))


@dataclass(frozen=True, eq=False)
class Log(Atom):
    """Log of a polynomial that is neither a constant nor a product of positive factors.

    A `formal` one stands in the exponent of a power with an integer exponent only, x^n = exp(n ln x), for an x of any
    sign: exp(n ln x) obeys the same laws.
    """

    inside: Polynomial
    formal: bool = False

    def __post_init__(self) -> None:
        value = self.inside.constant()
        name = "ln" if self.formal else "log"
        self._set(f"{name}({self.inside.key})", self.inside.free, self.inside.height, value is not None and value > 1)


@dataclass(frozen=True, eq=False)
class Base(Atom):
    """A polynomial that stands under a negative or fractional power."""

    inside: Polynomial
    sure: bool = False

    def __post_init__(self) -> None:
        self._set(f"({self.inside.key})", self.inside.free, self.inside.height, self.sure)


@dataclass(frozen=True, eq=False)
class Total(Atom):
    """A sum over `bound` of one monomial that no bound index can be separated from."""

    bound: tuple[Var, ...]
    monomial: Monomial
    sure: bool = False

    def __post_init__(self) -> None:
        names = {var.name for var in self.bound}
        free, height = _of(self.monomial)
        ranges = frozenset().union(*(var.extent.free for var in self.bound))
        shown = ",".join(f"{var.name}<{var.extent.key}" for var in self.bound)
        key = f"sum[{shown}]({monomial_key(self.monomial)})"
        self._set(key, (free | ranges) - names, height + 1, self.sure)


@dataclass(frozen=True, eq=False)
class Prod(Atom):
    """A product over one index of a polynomial that need not be positive."""

    bound: Var
    inside: Polynomial

    def __post_init__(self) -> None:
        free = (self.inside.free | self.bound.extent.free) - {self.bound.name}
        key = f"prod[{self.bound.name}<{self.bound.extent.key}]({self.inside.key})"
        self._set(key, free, self.inside.height + 1)


@dataclass(frozen=True, eq=False)
class Delta(Atom):
    """1 where two index expressions agree, else 0."""

    left: Atom
    right: Atom

    def __post_init__(self) -> None:
        self._set(f"delta({self.left.key},{self.right.key})", self.left.free | self.right.free, 0)


@dataclass(frozen=True, eq=False)
class Bracket(Atom):
    """1 where the polynomial is greater than 0, else 0."""

    inside: Polynomial

    def __post_init__(self) -> None:
        self._set(f"[{self.inside.key} > 0]", self.inside.free, self.inside.height)


@dataclass(frozen=True, eq=False)
class Apply(Atom):
    """A scalar function that is not taken apart any further: erf, sin, cos, atan of something."""

    function: str
    argument: Polynomial

    def __post_init__(self) -> None:
        self._set(f"{self.function}({self.argument.key})", self.argument.free, self.argument.height)


def is_idempotent(atom: Atom) -> bool:
    """Whether the atom takes the values 0 and 1 only, so that its square is itself."""
    return isinstance(atom, (Delta, Bracket)) or (isinstance(atom, Entry) and atom.sign == "01")


def parts_of(atom: Atom) -> tuple[Polynomial, ...]:
    """What an atom is made of, where that is more than names: the argument of a function, the body of a sum."""
    if isinstance(atom, (Exp, Total)):
        return (Polynomial({atom.monomial: ONE}),)
    if isinstance(atom, (Log, Base, Prod, Bracket)):
        return (atom.inside,)
    return (atom.argument,) if isinstance(atom, Apply) else ()

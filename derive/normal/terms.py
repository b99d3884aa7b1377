"""The terms of the normal form: the kinds of atoms, over the polynomials of `derive.normal.polynomials`.

An atom is a tensor entry, an exponential, a logarithm, a power base, a sum, a product, a bracket ... in normal form.
Data only; nothing here applies a law.

Bound indices are positional. Inside a sum of height h (one more than the highest sum in its body) the bound indices are
called `#h.0`, `#h.1`, ...; free ones have the names of the statement, and an index under work has a fresh `~n`. A sum's
body therefore never mentions a name that an inner binder uses, and nothing can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from derive.normal.polynomials import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Exponent,
    Monomial,
    Polynomial,
    Rational,
    from_atom,
    magnitude,
    monomial_key,
    number,
    ratio,
    sorted_monomial,
    total,
    whole_power,
)

__all__ = [
    "ONE",
    "UNIT",
    "UNITY",
    "ZERO",
    "Apply",
    "Atom",
    "Base",
    "Bracket",
    "Constant",
    "Delta",
    "Entry",
    "Exp",
    "Exponent",
    "Fixed",
    "Log",
    "Monomial",
    "NoValue",
    "Place",
    "Polynomial",
    "Prime",
    "Prod",
    "Rational",
    "Total",
    "Var",
    "from_atom",
    "is_idempotent",
    "magnitude",
    "monomial_key",
    "number",
    "parts_of",
    "position",
    "ratio",
    "sorted_monomial",
    "total",
    "value_of",
    "whole_power",
]


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
        shift = self.value.terms.get(UNIT, 0)
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

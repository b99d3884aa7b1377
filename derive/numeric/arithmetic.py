"""The kinds of numbers that expressions can be evaluated in.

Part of the numeric side, which shares no code with the symbolic decision procedure. An expression is compiled once and
then run in any arithmetic:

- `Reals`: mpmath at a fixed number of digits, in a context of its own. Everything has a value there, and equality is
  seen up to rounding.
- `Rationals`: Fractions, for conditions that inputs have to meet exactly.
- `PrimeField` (`derive.numeric.prime_field`): residues, exact for what is rational in the inputs and exponentials.
- `BoundedReals` (`derive.numeric.error_bounds`): reals that know how wrong they may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import mpmath
from sympy import integer_nthroot

__all__ = ["Arithmetic", "Exact", "Rationals", "Reals", "UndefinedError", "UnsupportedError", "Value", "reals"]

HUGE = 4000  # binary digits before the point of an exponent that is still worked out

Exact = int | Fraction
Value = Any


class UndefinedError(ArithmeticError):
    """The expression has no (real) value at this point: a division by zero, the logarithm of a negative number."""


class UnsupportedError(ArithmeticError):
    """The expression has a value at this point, but none that this arithmetic can represent."""


class Arithmetic(Protocol):
    """What evaluation asks of a kind of numbers; exact integers and Fractions enter by `rational`."""

    @property
    def name(self) -> str:
        """What the arithmetic is called in a report."""

    def rational(self, number: Exact) -> Value:
        """The value of an exact number."""

    def total(self, terms: Sequence[Value]) -> Value:
        """The sum."""

    def multiply(self, factors: Sequence[Value]) -> Value:
        """The product."""

    def power(self, base: Value, exponent: Exact) -> Value:
        """A power with an exact exponent."""

    def rational_power(self, base: Exact, exponent: Fraction) -> Value:
        """A fractional power of an exact number, for instance the square root of a size."""

    def real_power(self, base: Value, exponent: Value) -> Value:
        """A power whose exponent is a value."""

    def apply(self, name: str, argument: Value) -> Value:
        """A scalar function, by its SymPy class name, or a constant (`Pi`, `Exp1`) of a dummy argument."""

    def order(self, left: Value, right: Value) -> int:
        """-1, 0 or 1 as left is less than, equal to or greater than right."""

    def same(self, left: Value, right: Value) -> bool:
        """Whether two values agree as far as this arithmetic can tell."""

    def show(self, value: Value) -> str:
        """The value in digits."""


# ---------------------------------------------------------------------------------------------------------------------
# Real numbers.


class Reals:
    """Real numbers to a fixed number of decimal digits."""

    def __init__(self, digits: int = 40) -> None:
        """Numbers with `digits` decimal digits, in an mpmath context that nothing else uses."""
        context = mpmath.MPContext()
        context.dps = digits
        self.digits = digits
        self.context = context
        # A comparison must not hang on rounding: closer than this (relative to 1 and to both sides) counts as equal.
        self._close = context.mpf(10) ** -(3 * digits // 4)
        self._agree = context.mpf(10) ** -(5 * digits // 8)
        self._functions: dict[str, Callable[[Value], Value]] = {
            "exp": context.exp, "erf": context.erf, "erfc": context.erfc, "tanh": context.tanh, "sinh": context.sinh,
            "cosh": context.cosh, "sin": context.sin, "cos": context.cos, "atan": context.atan, "log": context.log,
            "Pi": lambda _: +context.pi, "Exp1": lambda _: +context.e,
        }  # fmt: skip

    @property
    def name(self) -> str:
        """What the arithmetic is called in a report."""
        return f"reals to {self.digits} digits"

    def rational(self, number: Exact) -> Value:
        """The nearest number with the context's digits."""
        if isinstance(number, int):
            return self.context.mpf(number)
        return self.context.mpf(number.numerator) / number.denominator

    def total(self, terms: Sequence[Value]) -> Value:
        """The sum, from left to right."""
        result = terms[0]
        for term in terms[1:]:
            result = result + term
        return result

    def multiply(self, factors: Sequence[Value]) -> Value:
        """The product, from left to right."""
        result = factors[0]
        for factor in factors[1:]:
            result = result * factor
        return result

    def power(self, base: Value, exponent: Exact) -> Value:
        """The power base ** exponent.

        Raises:
            UndefinedError: zero to a negative power, or a fractional power of a negative number.
        """
        whole = exponent.denominator == 1
        if base == 0 and exponent < 0:
            raise UndefinedError(f"division by zero: 0**({exponent})")
        if base < 0 and not whole:
            raise UndefinedError(f"a negative number to the power {exponent} is not real")
        if whole:
            return base ** int(exponent)
        if exponent.denominator == 2:
            root = self.context.sqrt(base)
            return root if exponent.numerator == 1 else root**exponent.numerator
        return base ** self.rational(exponent)

    def rational_power(self, base: Exact, exponent: Fraction) -> Value:
        """The power base ** exponent; see `power`."""
        return self.power(self.rational(base), exponent)

    def real_power(self, base: Value, exponent: Value) -> Value:
        """The power base ** exponent, for positive bases only.

        Raises:
            UndefinedError: the base is not positive, or the exponent beyond all bounds.
        """
        if base <= 0:
            raise UndefinedError("a power with a real exponent needs a positive base")
        self._refuse_huge(exponent)
        return base**exponent

    def apply(self, name: str, argument: Value) -> Value:
        """The function's value.

        Raises:
            UndefinedError: it has none here, or its argument is beyond all bounds.
            UnsupportedError: no such function.
        """
        function = self._functions.get(name)
        if function is None:
            raise UnsupportedError(f"{name}: no value in {self.name}; known are {', '.join(sorted(self._functions))}")
        if name == "log" and argument <= 0:
            raise UndefinedError("logarithm of a number that is not positive")
        self._refuse_huge(argument)
        return function(argument)

    def _refuse_huge(self, argument: Value) -> None:
        if abs(argument) > 1 and self.context.mag(argument) > HUGE:
            raise UndefinedError(f"a number of more than {HUGE} binary digits is not worked out as an exponent")

    def order(self, left: Value, right: Value) -> int:
        """-1, 0 or 1; numbers closer than rounding could explain are equal."""
        gap = left - right
        if abs(gap) <= self._close * max(1, abs(left), abs(right)):
            return 0
        return -1 if gap < 0 else 1

    def same(self, left: Value, right: Value) -> bool:
        """Whether the two agree to five eighths of the digits (25 of 40), relative to the larger."""
        return bool(abs(left - right) <= self._agree * max(abs(left), abs(right)))

    def show(self, value: Value) -> str:
        """The value in 15 significant digits."""
        return str(self.context.nstr(value, 15))


@lru_cache(maxsize=8)
def reals(digits: int = 40) -> Reals:
    """The real numbers to that many digits; one object for each precision."""
    return Reals(digits)


# ---------------------------------------------------------------------------------------------------------------------
# Rationals.


class Rationals:
    """Exact rational numbers: everything but functions and fractional powers."""

    name = "rational numbers"

    def rational(self, number: Exact) -> Fraction:
        """The number as a Fraction."""
        return Fraction(number)

    def total(self, terms: Sequence[Fraction]) -> Fraction:
        """The sum."""
        return sum(terms, Fraction(0))

    def multiply(self, factors: Sequence[Fraction]) -> Fraction:
        """The product."""
        result = Fraction(1)
        for factor in factors:
            result *= factor
        return result

    def power(self, base: Fraction, exponent: Exact) -> Fraction:
        """A power with an integer exponent, or a root that is rational: 2 for the square root of 4.

        Raises:
            UndefinedError: zero to a negative power.
            UnsupportedError: the exponent is not an integer, and the root not rational.
        """
        degree = Fraction(exponent).denominator
        if degree > 1:
            parts = [integer_nthroot(part, degree) for part in (base.numerator, base.denominator) if part > 0]
            if len(parts) < 2 or not all(exact for _, exact in parts):
                raise UnsupportedError(f"power {exponent} of {base} has no exact meaning in {self.name}")
            base, exponent = Fraction(int(parts[0][0]), int(parts[1][0])), Fraction(exponent).numerator
        if base == 0 and exponent < 0:
            raise UndefinedError("division by zero")
        return base ** int(exponent)

    def rational_power(self, base: Exact, exponent: Fraction) -> Fraction:
        """A power with an integer exponent, or a rational root; see `power`."""
        return self.power(Fraction(base), exponent)

    def real_power(self, base: Fraction, exponent: Fraction) -> Fraction:
        """A power with an integer exponent, or a rational root; see `power`."""
        return self.power(base, exponent)

    def apply(self, name: str, argument: Fraction) -> Fraction:
        """Refused.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"{name} has no exact meaning in {self.name}")

    def order(self, left: Fraction, right: Fraction) -> int:
        """-1, 0 or 1."""
        return (left > right) - (left < right)

    def same(self, left: Fraction, right: Fraction) -> bool:
        """Whether the two are equal."""
        return left == right

    def show(self, value: Fraction) -> str:
        """The number as a fraction."""
        return str(value)

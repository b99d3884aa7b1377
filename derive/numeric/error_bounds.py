"""Real numbers that know how wrong they may be: what a refutation rests on.

Part of the numeric side, beside `derive.numeric.arithmetic`. In plain floating point, 1 - softmax(x)[i] is exactly 0
once the softmax has rounded to 1, with any number of digits, while a second way to write it gives 1e-584; the two then
differ by all of their value, and both are right to 60 digits of what was subtracted. So before a difference counts,
both sides are evaluated as pairs (value, bound of its error), and the difference must exceed the bounds.

Bounds are carried to first order in the errors, with a margin: every rounding counts as four. A comparison that the
bounds leave open has no value here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from derive.numeric.arithmetic import Exact, Reals, UndefinedError

__all__ = ["BoundedReals", "bounded_reals"]

Real = Any  # an mpmath number
Bounded = tuple[Real, Real]
MARGIN = 10  # how many times the bounds of their errors two values must be apart to count as different


class BoundedReals:
    """Reals to a fixed number of digits, each with a bound of its error."""

    def __init__(self, digits: int = 60) -> None:
        """Numbers with `digits` decimal digits."""
        self.reals = Reals(digits)
        self._zero = self.reals.context.mpf(0)
        self._unit = 4 * self.reals.context.eps

    @property
    def name(self) -> str:
        """What the arithmetic is called in a report."""
        return f"{self.reals.name}, with error bounds"

    def rational(self, number: Exact) -> Bounded:
        """The nearest number; an integer has no error."""
        value = self.reals.rational(number)
        return value, self._zero if isinstance(number, int) else self._rounded(value)

    def _rounded(self, value: Real) -> Real:
        return abs(value) * self._unit

    def total(self, terms: Sequence[Bounded]) -> Bounded:
        """The sum; its rounding is measured by the sum of magnitudes."""
        size = self.reals.total([abs(value) for value, _ in terms])
        error = self.reals.total([error for _, error in terms])
        return self.reals.total([value for value, _ in terms]), error + len(terms) * size * self._unit

    def multiply(self, factors: Sequence[Bounded]) -> Bounded:
        """The product."""
        value, error = factors[0]
        for other, bound in factors[1:]:
            error = error * (abs(other) + bound) + abs(value) * bound
            value = value * other
            error += self._rounded(value)
        return value, error

    def _through(self, function: Callable[[Real], Real], argument: Bounded, low: Real = None) -> Bounded:
        """The function's value; its error is how far it moves to both ends of the argument's range."""
        value, error = argument
        result = function(value)
        if error == 0:
            return result, self._rounded(result)
        ends = function(value - error if low is None else low), function(value + error)
        return result, sum(abs(end - result) for end in ends) + self._rounded(result)

    def power(self, base: Bounded, exponent: Exact) -> Bounded:
        """A power with an exact exponent.

        Raises:
            UndefinedError: zero to a negative power or a fractional power of a negative number, or not known not to be.
        """
        value, error = base
        if exponent < 0 and abs(value) <= error:
            raise UndefinedError("division by a number that may be zero")
        low = None
        if exponent.denominator != 1 and value - error < 0 <= value:
            low = self._zero  # the root of what may be zero
        return self._through(lambda x: self.reals.power(x, exponent), base, low)

    def rational_power(self, base: Exact, exponent: Fraction) -> Bounded:
        """A power of an exact number."""
        return self.power(self.rational(base), exponent)

    def real_power(self, base: Bounded, exponent: Bounded) -> Bounded:
        """A power of a positive base.

        Raises:
            UndefinedError: the base is not positive, or not known to be.
        """
        if base[0] - base[1] <= 0:
            raise UndefinedError("a power with a real exponent needs a positive base")
        value, error = self._through(lambda x: self.reals.real_power(x, exponent[0]), base)
        return value, error + self._through(lambda y: self.reals.real_power(base[0], y), exponent)[1]

    def apply(self, name: str, argument: Bounded) -> Bounded:
        """The function's value.

        Raises:
            UndefinedError: the function has no value here, or not for all that the argument may be.
            UnsupportedError: no such function.
        """
        return self._through(lambda x: self.reals.apply(name, x), argument)

    def order(self, left: Bounded, right: Bounded) -> int:
        """-1, 0 or 1; values computed in the same way are equal.

        Raises:
            UndefinedError: the two are too close to tell.
        """
        if left == right:
            return 0
        gap = left[0] - right[0]
        if abs(gap) <= left[1] + right[1]:
            raise UndefinedError("a comparison of two numbers that are too close to tell")
        return -1 if gap < 0 else 1

    def either(self, left: Bounded, right: Bounded) -> Bounded:
        """A number that may be any of two: the larger of two that are too close to tell is not far from both."""
        return left[0], abs(left[0] - right[0]) + left[1] + right[1]

    def same(self, left: Bounded, right: Bounded) -> bool:
        """Whether the difference can be explained by the errors."""
        return bool(abs(left[0] - right[0]) <= MARGIN * (left[1] + right[1]))

    def show(self, value: Bounded) -> str:
        """The value in 15 significant digits."""
        return self.reals.show(value[0])


@lru_cache(maxsize=8)
def bounded_reals(digits: int = 60) -> BoundedReals:
    """Bounded reals to that many digits; one object for each precision."""
    return BoundedReals(digits)

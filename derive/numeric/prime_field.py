"""Exact evaluation with exponentials: residues modulo a pair of primes.

Part of the numeric side: the arithmetic in which `derive.refutation.confirm` evaluates whatever it can. Take primes p
and q with q | p - 1, and g of order q modulo p. Then x -> g^x turns sums modulo q into products modulo p, so that
exp(x) := g^(x mod q) obeys exp(a + b) = exp(a) exp(b), and every identity that follows from that law and the laws of
fields holds exactly; one that does not follow fails, but for one residue in p.

A number that is rational in the inputs therefore has *two* residues: modulo q for its use inside an exponent, modulo p
for every other use. The value of exp has none modulo q, so its use inside another exponent is refused, not guessed.
Sine and cosine are exponentials of i x, the hyperbolic functions of x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from sympy import factorint
from sympy.ntheory import sqrt_mod

from derive.numeric.arithmetic import Exact, UndefinedError, UnsupportedError

__all__ = ["MODULUS", "ORDER", "PrimeField", "prime_field"]

# q = 1 (mod 8 * 3*5*7*11*13*17*19) and p = 1 (mod 8 * 3*5*7*11*13*17*19 * q), the least such primes with q > 2**31. By
# quadratic reciprocity every prime up to 19, and -1, is then a square modulo both: square roots of sizes exist, and i.
MODULUS = 343218381433767841
ORDER = 2211529321

Residues = tuple[int, int | None]


class PrimeField:
    """Exact numbers as residues modulo a pair of primes; see the head of the module.

    A value is (residue modulo p, residue modulo q, or None where there is none). Refused with UnsupportedError:
    logarithm, erf, atan, comparisons of values, fractional powers of anything but exact numbers, exponents that are
    not exact, and pi (which would need to know that exp(i pi) = -1). Square roots of exact numbers are products of one
    fixed root for each prime factor, so that sqrt(ab) = sqrt(a) sqrt(b), as for positive reals.
    """

    def __init__(self, modulus: int = MODULUS, order: int = ORDER) -> None:
        """The field modulo the prime `modulus`, with exponents modulo the prime `order`, a divisor of modulus - 1.

        Raises:
            ValueError: the order does not divide modulus - 1, or -1 is no square.
        """
        if (modulus - 1) % order:
            raise ValueError(f"PrimeField: expected an order that divides modulus - 1 = {modulus - 1}, found {order}")
        self.modulus = modulus
        self.order_of_base = order
        self.base = pow(2, (modulus - 1) // order, modulus)
        imaginary = sqrt_mod(-1, modulus), sqrt_mod(-1, order)
        if self.base == 1 or None in imaginary:
            raise ValueError(f"PrimeField: modulo {modulus}, 2 gives no element of order {order}, or -1 is no square")
        self._imaginary: tuple[int, int] = int(imaginary[0]), int(imaginary[1])
        self._roots: dict[int, Residues] = {}
        self._functions: dict[str, Callable[[int], int]] = {
            "exp": self._exponential,
            "cosh": lambda x: (self._exponential(x) + self._exponential(-x)) * self._inverse(2),
            "sinh": lambda x: (self._exponential(x) - self._exponential(-x)) * self._inverse(2),
            "tanh": lambda x: (self._exponential(2 * x) - 1) * self._inverse(self._exponential(2 * x) + 1),
            "cos": lambda x: (self._turn(x) + self._turn(-x)) * self._inverse(2),
            "sin": lambda x: (self._turn(x) - self._turn(-x)) * self._inverse(2 * self._imaginary[0]),
            "Exp1": lambda _: self.base,
        }

    @property
    def name(self) -> str:
        """What the arithmetic is called in a report."""
        return f"residues modulo {self.modulus}, exponents modulo {self.order_of_base}"

    def _inverse(self, residue: int) -> int:
        if residue % self.modulus == 0:
            raise UndefinedError("division by zero")
        return pow(residue, -1, self.modulus)

    def _exponential(self, exponent: int) -> int:
        return pow(self.base, exponent % self.order_of_base, self.modulus)

    def _turn(self, angle: int) -> int:
        return self._exponential(self._imaginary[1] * angle)

    def rational(self, number: Exact) -> Residues:
        """The residues of an exact number.

        Raises:
            UndefinedError: a prime divides the denominator.
        """
        if isinstance(number, int):
            return number % self.modulus, number % self.order_of_base
        return self.multiply((self.rational(number.numerator), self.power(self.rational(number.denominator), -1)))

    def total(self, terms: Sequence[Residues]) -> Residues:
        """The sum; it has a residue modulo q where all terms do."""
        first, second = 0, 0
        for index, (value, exponent) in enumerate(terms):
            first += value
            if exponent is None:
                return (first + sum(term[0] for term in terms[index + 1 :])) % self.modulus, None
            second += exponent
        return first % self.modulus, second % self.order_of_base

    def multiply(self, factors: Sequence[Residues]) -> Residues:
        """The product; it has a residue modulo q where all factors do."""
        first: int = 1
        second: int | None = 1
        for value, exponent in factors:
            first = first * value % self.modulus
            second = None if second is None or exponent is None else second * exponent % self.order_of_base
        return first, second

    def power(self, base: Residues, exponent: Exact) -> Residues:
        """A power with an integer exponent.

        Raises:
            UndefinedError: zero to a negative power.
            UnsupportedError: the exponent is not an integer.
        """
        if exponent.denominator > 1:
            raise UnsupportedError(f"power {exponent} of a value has no exact meaning in {self.name}")
        times, (value, residue) = int(exponent), base
        if times < 0 and (value == 0 or residue == 0):
            raise UndefinedError("division by zero")
        return pow(value, times, self.modulus), None if residue is None else pow(residue, times, self.order_of_base)

    def rational_power(self, base: Exact, exponent: Fraction) -> Residues:
        """A power of an exact number whose exponent is a multiple of 1/2.

        Raises:
            UndefinedError: zero to a negative power, or the square root of a negative number.
            UnsupportedError: another exponent, or a prime factor that has no square root in the field.
        """
        if exponent.denominator == 1:
            return self.power(self.rational(base), exponent.numerator)
        if exponent.denominator != 2:
            raise UnsupportedError(f"{base}**({exponent}) has no exact meaning in {self.name}")
        if base < 0 or (base == 0 and exponent < 0):
            raise UndefinedError(f"{base}**({exponent}) is not a real number")
        if base == 0:
            return 0, 0
        number = Fraction(base)
        above = [self.power(self._root(prime), times) for prime, times in factorint(number.numerator).items()]
        below = [self.power(self._root(prime), -times) for prime, times in factorint(number.denominator).items()]
        return self.power(self.multiply([*above, *below]), exponent.numerator)

    def _root(self, prime: int) -> Residues:
        if prime not in self._roots:
            found = sqrt_mod(prime, self.modulus), sqrt_mod(prime, self.order_of_base)
            if None in found:
                raise UnsupportedError(f"sqrt({prime}) does not exist in {self.name}")
            self._roots[prime] = int(found[0]), int(found[1])
        return self._roots[prime]

    def real_power(self, base: Residues, exponent: Residues) -> Residues:
        """Refused.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"a power whose exponent is a value has no exact meaning in {self.name}")

    def apply(self, name: str, argument: Residues) -> Residues:
        """exp, and what is made of it; the result has no residue modulo q.

        Raises:
            UndefinedError: the function has no value here.
            UnsupportedError: the function has no exact meaning, or the argument no residue modulo q.
        """
        function = self._functions.get(name)
        if function is None:
            raise UnsupportedError(f"{name} has no exact meaning in {self.name}")
        if argument[1] is None:
            raise UnsupportedError(f"{name} of what is itself an exponential has no exact meaning in {self.name}")
        return function(argument[1]) % self.modulus, None

    def order(self, left: Residues, right: Residues) -> int:
        """Refused: residues have no order.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"values cannot be compared in {self.name}")

    def same(self, left: Residues, right: Residues) -> bool:
        """Whether the residues modulo p are equal."""
        return left[0] == right[0]

    def show(self, value: Residues) -> str:
        """The residue modulo p."""
        return f"{value[0]} mod {self.modulus}"


@lru_cache(maxsize=1)
def prime_field() -> PrimeField:
    """The field of the standard prime pair."""
    return PrimeField()

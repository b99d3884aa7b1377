"""Sine and cosine, and functions of which only the parity is known: erf, atan.

The laws: f(-x) = -f(x) or f(-x) = f(x), and the value at 0; for sine and cosine the addition theorems, so that those of
a sum, and of a small multiple, are written with those of its terms, and their values at multiples of pi. That
sin^2 = 1 - cos^2 is a law between the factors of a monomial and stands in `derive.normal.products`. A function of cases
is split as everywhere (`derive.normal.splitting`).
"""

from __future__ import annotations

import math
from fractions import Fraction

from derive.normal import powers, products, splitting
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNITY,
    ZERO,
    Apply,
    Constant,
    Polynomial,
    Rational,
    from_atom,
    number,
    ratio,
)

ODD = frozenset({"erf", "sin", "atan"})
EVEN = frozenset({"cos"})
MAX_ANGLES = 6  # of a sum under sine or cosine that is taken apart; each doubles the number of terms
MAX_MULTIPLE = 8  # of an angle that is written with the angle itself
PI = Constant("\N{GREEK SMALL LETTER PI}")
SQUARES = {Fraction(1, 6): Fraction(1, 4), Fraction(1, 4): Fraction(1, 2), Fraction(1, 3): Fraction(3, 4)}
"""Of the sine of so many times pi; that of the cosine is 1 less it."""
TEXT = 64  # letters of an angle that count as one term: sines within sines stay few and grow long


def applied(ledger: Ledger, function: str, argument: Polynomial) -> Polynomial:
    """A function of which the parity, the value at 0 and, for sine and cosine, the addition theorems are used."""
    if argument.is_zero:
        return UNITY if function in EVEN else ZERO
    split = splitting.case_split(ledger, argument, lambda part: applied(ledger, function, part))
    if split is not None:
        return split
    if function in ("sin", "cos"):
        return _sine_and_cosine(ledger, argument)[function == "cos"]
    return _by_parity(ledger, function, argument)


def _by_parity(ledger: Ledger, function: str, argument: Polynomial) -> Polynomial:
    """f(-x) = -f(x) or f(-x) = f(x), so that the first coefficient of the argument is positive."""
    if argument.ordered()[0][1] > 0 or function not in ODD | EVEN:
        return from_atom(Apply(function, argument))
    ledger.use(f"{function} is {'odd' if function in ODD else 'even'}")
    flipped = from_atom(Apply(function, argument.scaled(-ONE)))
    return flipped.scaled(-ONE) if function in ODD else flipped


def _sine_and_cosine(ledger: Ledger, angle: Polynomial) -> tuple[Polynomial, Polynomial]:
    """The sine and the cosine of an angle, by the addition theorems where it is a sum or a multiple.

    sin(x + y) = sin x cos y + cos x sin y and cos(x + y) = cos x cos y - sin x sin y.
    """
    ledger.spend(1 + len(angle.key) // TEXT)
    monomial, coefficient = angle.ordered()[0]
    multiple = abs(coefficient.numerator)
    if len(angle.terms) == 1 and monomial == ((PI, ONE),):
        return _at_multiple_of_pi(ledger, coefficient)
    if 1 < len(angle.terms) <= MAX_ANGLES:
        x = Polynomial({monomial: coefficient})
    elif len(angle.terms) == 1 and 1 < multiple <= MAX_MULTIPLE:
        x = Polynomial({monomial: ratio(coefficient, multiple)})
    else:
        return _by_parity(ledger, "sin", angle), _by_parity(ledger, "cos", angle)
    ledger.use("sine and cosine of a sum")
    (sin_x, cos_x), (sin_y, cos_y) = _sine_and_cosine(ledger, x), _sine_and_cosine(ledger, angle - x)
    sine = products.product(ledger, [sin_x, cos_y]) + products.product(ledger, [cos_x, sin_y])
    return sine, products.product(ledger, [cos_x, cos_y]) - products.product(ledger, [sin_x, sin_y])


def _at_multiple_of_pi(ledger: Ledger, multiple: Rational) -> tuple[Polynomial, Polynomial]:
    """The sine and the cosine of a multiple of pi, by sin(x + pi/2) = cos x and cos(x + pi/2) = -sin x.

    The x that is left, 0 <= x < pi/2, has values that are 0, 1 or, for the angles of `SQUARES`, roots; others are kept.
    """
    ledger.use("sine and cosine of a multiple of pi")
    quarters = math.floor(2 * multiple)
    rest = ratio(2 * multiple - quarters, 2)
    sine, cosine = ZERO, UNITY
    if rest in SQUARES:
        half = ratio(1, 2)
        sine = powers.power(ledger, number(SQUARES[Fraction(rest)]), half)
        cosine = powers.power(ledger, number(1 - SQUARES[Fraction(rest)]), half)
    elif rest:
        angle = Polynomial({((PI, ONE),): rest})
        sine, cosine = from_atom(Apply("sin", angle)), from_atom(Apply("cos", angle))
    for _ in range(quarters % 4):
        sine, cosine = cosine, sine.scaled(-ONE)
    return sine, cosine

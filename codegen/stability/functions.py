"""Functions that stable forms are written in: each is one elementwise operation to whoever lowers it.

Beside `codegen.stability.rules`. SymPy has no use for most of them, and would rewrite the others into what overflows.
"""

from __future__ import annotations

import sympy

MOST_TERMS = 4  # of a sum of exponentials that is written relative to the largest
LEAST_DEGREE, MOST_DEGREE = 2, 3  # of the polynomials that functions are taken of


class Softplus(sympy.Function):
    """log(1 + exp(u)), kept as one elementwise function."""

    nargs = 1


class Largest(sympy.Function):
    """The largest of some numbers."""

    nargs = tuple(range(2, MOST_TERMS + 1))


class Logistic(sympy.Function):
    """1/(1 + exp(-u)), kept as one elementwise function: as an exponential it would have the error of the exponent."""

    nargs = 1


class LogisticSlope(sympy.Function):
    """exp(-u)/(1 + exp(-u))^2, the derivative of the logistic function, kept as one elementwise function."""

    nargs = 1


class ExpLess1(sympy.Function):
    """exp(u) - 1, kept as one elementwise function: near 0 the difference has few digits."""

    nargs = 1


class LogOf1Plus(sympy.Function):
    """log(1 + u), kept as one elementwise function: near 0 the sum has few digits of u."""

    nargs = 1


class LogOfChance(sympy.Function):
    """log(1 - exp(-exp(u))), kept as one elementwise function: the log of the chance of any event at a log rate of u.

    It is about u where that is far below 0, and -exp(-exp(u)) far above.
    """

    nargs = 1


class ErfComplement(sympy.Function):
    """1 - erf(u), kept as one elementwise function; SymPy's own turns erfc(-u) back into 2 - erfc(u)."""

    nargs = 1


class NormalCdf(sympy.Function):
    """(1 + erf(u/sqrt(2)))/2, kept as one elementwise function: u/sqrt(2) has an error that the tail magnifies."""

    nargs = 1


class ScaledCdf(sympy.Function):
    """The product of u and the name of NormalCdf(u): it may be a normal number where that is none."""

    nargs = 2


class ExpAt(sympy.Function):
    """The exponential of a polynomial: x, then the coefficients of 1, x, x^2, x^3."""

    nargs = MOST_DEGREE + 2


class LogisticAt(sympy.Function):
    """The logistic function of a polynomial."""

    nargs = MOST_DEGREE + 2


class LogisticSlopeAt(sympy.Function):
    """The slope of the logistic function, at a polynomial."""

    nargs = MOST_DEGREE + 2


class Weight(sympy.Function):
    """The number itself, but nothing is known of it: a positive number, or an exponential, has its limit at 0."""

    nargs = 1


class Finite(sympy.Function):
    """The number itself, or 0 where it is -inf: what multiplies it is 0 there, as exp(x) is beside x."""

    nargs = 1


class Whole(sympy.Function):
    """The number itself, computed before what stands beside it: (x - m) - d is not x - (m + d) in floating point."""

    nargs = 1

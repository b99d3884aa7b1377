"""Special functions that an array library lacks, as interpolating polynomials computed when the kernels are generated.

NumPy has no erf, erfc or normal cdf. They are built from (x + c) exp(x^2) erfc(x), which is smooth and neither
large nor small on [0, inf): with t = (x - c)/(x + c) it becomes a function on [-1, 1] whose Chebyshev series converges
geometrically (Shepherd and Laframboise 1981). The centre c is one where the powers of t cancel little. The coefficients
come out of 50-digit arithmetic, so they are the same on every machine. exp(-x^2) has the error of x^2 unless x is cut
in two: with h = x of half its digits, h^2 is exact and exp(-x^2) = exp(-h^2) exp(-(x - h)(x + h)).
"""

from __future__ import annotations

from functools import lru_cache

import mpmath

CENTRE = 2.5
DEGREES = {"float32": 10, "float64": 24}
TOPS = {"float32": 11.0, "float64": 28.0}  # where erfc has underflowed to 0
DROPPED = {"float32": 12, "float64": 27}  # binary digits that the first half of a number goes without


@lru_cache(maxsize=8)
def erfc_terms(degree: int) -> tuple[str, ...]:
    """Coefficients of the polynomial of the given degree in t, highest power first, as Python literals.

    It interpolates (x + c) exp(x^2) erfc(x).
    """
    context = mpmath.mp.clone()
    context.dps = 50
    centre = context.mpf(CENTRE)
    count = degree + 1
    angles = [context.pi * (2 * k + 1) / (2 * count) for k in range(count)]
    nodes = [context.cos(angle) for angle in angles]
    values = []
    for t in nodes:
        x = centre * (1 + t) / (1 - t)
        values.append((x + centre) * context.exp(x**2) * context.erfc(x))
    series = [
        (2 - (order == 0))
        * sum(v * context.cos(order * angle) for v, angle in zip(values, angles, strict=True))
        / count
        for order in range(count)
    ]
    return tuple(repr(float(term)) for term in reversed(_monomials(series, context)))


def _monomials(series: list[mpmath.mpf], context: mpmath.ctx_mp.MPContext) -> list[mpmath.mpf]:
    """Coefficients of powers of t from those of Chebyshev polynomials, by T[n+1] = 2 t T[n] - T[n-1]."""
    zero = context.mpf(0)
    before, current = [context.mpf(1)], [zero, context.mpf(1)]
    result = [zero] * len(series)
    for order, weight in enumerate(series):
        polynomial = before if order == 0 else current
        for power, coefficient in enumerate(polynomial):
            result[power] += weight * coefficient
        if order >= 1:
            following = [zero, *(2 * c for c in current)]
            for power, coefficient in enumerate(before):
                following[power] -= coefficient
            before, current = current, following
    return result

"""Linear systems in fractions, and roots with many digits: what `derive.numeric.conditions` moves a point by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

DIGITS = 80  # that a root is found with; more than any evaluation uses
FACTORS = (Fraction(-2), Fraction(-1), Fraction(-1, 2), Fraction(-1, 8), Fraction(0), Fraction(1, 8), Fraction(1, 2),
           Fraction(2), Fraction(5))  # fmt: skip
STEPS = 60  # of a search for a root between two of these times the entry


def solution(columns: Sequence[Sequence[Fraction]], target: Sequence[Fraction]) -> list[Fraction] | None:
    """Factors with which the columns add up to the target, 0 for what is not needed; None where there are none."""
    rows = [[*(column[place] for column in columns), value] for place, value in enumerate(target)]
    pivots: list[int] = []
    for place in range(len(columns)):
        lead = next((row for row in range(len(pivots), len(rows)) if rows[row][place]), None)
        if lead is None:
            continue
        top = len(pivots)
        rows[top], rows[lead] = rows[lead], rows[top]
        rows[top] = [value / rows[top][place] for value in rows[top]]
        for row in range(len(rows)):
            if row != top and rows[row][place]:
                factor = rows[row][place]
                rows[row] = [value - factor * by for value, by in zip(rows[row], rows[top], strict=True)]
        pivots.append(place)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    steps = [Fraction(0)] * len(columns)
    for row, place in enumerate(pivots):
        steps[place] = rows[row][-1]
    return steps


def root(gap: Callable[[Fraction], Any], start: Fraction, field: Any, *, positive: bool) -> Fraction | None:
    """A number near `start` where the gap changes its sign; None where none is found."""
    known: list[tuple[Fraction, Any]] = []
    for factor in sorted({*FACTORS, Fraction(1)}):
        try:
            known.append((factor * start, gap(factor * start)))
        except ArithmeticError:
            continue
    pairs = [(low, high) for low, high in pairwise(known) if low[1] * high[1] < 0]
    pairs = [(low, high) for low, high in pairs if not positive or min(low[0], high[0]) > 0]
    if not pairs:
        return None
    (low, below), (high, above) = min(pairs, key=lambda pair: abs(pair[0][0] - start))
    for _step in range(STEPS):  # the secant, and where it is slow the middle: Illinois
        middle = rounded(low - (high - low) * Fraction(*_ratio(below, above)), field)
        here = gap(middle)
        if here == 0 or low == high:
            return middle
        if here * above < 0:
            low, below = high, above
        else:
            below = below / 2
        high, above = middle, here
        if abs(high - low) <= abs(high) * Fraction(1, 10 ** (DIGITS - 4)):
            break
    return high if abs(above) < field.rational(Fraction(1, 10 ** (DIGITS - 10))) else None


def _ratio(below: Any, above: Any) -> tuple[int, int]:
    """The quotient below / (above - below) to many digits, as a fraction."""
    scale = 10 ** (2 * DIGITS)
    return int(below / (above - below) * scale), scale


def rounded(number: Fraction, field: Any) -> Fraction:
    """The number to as many digits as the field has."""
    scale = 10 ** int(field.digits)
    return Fraction(round(number * scale), scale)


def exact(number: Any) -> Fraction:
    """The number to twice as many digits as a root is found with."""
    scale = 10 ** (2 * DIGITS)
    return Fraction(int(number * scale), scale)

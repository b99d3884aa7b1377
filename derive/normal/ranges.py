"""What an integer quantity can be at most and at least, because every index stays in its range.

An index t over T takes the values 0 .. T - 1, a size is at least 1. So m - n + 1 is at most 0 for an index m below n,
and the position t + 1 lies inside an axis of T + 1. Used by comparisons, which become 0 or 1, by deltas, and by
hypotheses, which say nothing about positions outside the range of their indices. "Not known" is a good answer.
"""

from __future__ import annotations

from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Entry,
    Monomial,
    Polynomial,
    Rational,
    Var,
    total,
    value_of,
)


def greatest(value: Polynomial) -> Rational | None:
    """The largest that an integer polynomial can be, or a bound of it; None where none is known."""
    ended = total(_at_its_end(monomial, c) or Polynomial({monomial: c}) for monomial, c in value.terms.items())
    bound: Rational = 0
    for monomial, c in ended.terms.items():
        if monomial == UNIT or (c < 0 and _is_size(monomial)):
            bound += c
        else:
            return None
    return bound


def least(value: Polynomial) -> Rational | None:
    """The smallest that an integer polynomial can be, or a bound of it; None where none is known."""
    negative = greatest(value.scaled(-ONE))
    return None if negative is None else -negative


def never_zero(value: Polynomial) -> bool:
    """Whether the ranges of the indices keep an integer polynomial away from 0."""
    highest, lowest = greatest(value), least(value)
    return (highest is not None and highest < 0) or (lowest is not None and lowest > 0)


def never_negative(value: Polynomial) -> bool:
    """Whether the ranges of the indices keep an integer polynomial at 0 or above."""
    lowest = least(value)
    return lowest is not None and lowest >= 0


def lies_below(part: Atom, extent: Polynomial) -> bool:
    """Whether an index expression surely takes no value but 0 .. extent - 1."""
    value = value_of(part)
    return never_negative(value) and never_negative(extent - value - UNITY)


def _at_its_end(monomial: Monomial, coefficient: Rational) -> Polynomial | None:
    """The greatest value of coefficient * index; None for anything but an index."""
    if len(monomial) != 1 or monomial[0][1] != 1:
        return None
    atom = monomial[0][0]
    extent = atom.extent if isinstance(atom, Var) else atom.into if isinstance(atom, Entry) else None
    if extent is None or extent.free:
        return None  # a range that depends on an index may change when that one is replaced
    return (extent - UNITY).scaled(coefficient) if coefficient > 0 else ZERO


def _is_size(monomial: Monomial) -> bool:
    """Whether a product of sizes, each at least 1."""
    return all(e >= 1 and isinstance(a, Entry) and a.integer and a.sign == "+" for a, e in monomial)

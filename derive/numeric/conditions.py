"""Moving a point so that equalities among the conditions of a claim hold exactly.

Part of the numeric side. Almost no random point meets a condition such as Sum(y[k], k) = 1 or A B = I. Where it is
affine in the entries of one input, for all positions at once, they are solved for exactly. Else, and where an input
would not stay positive, the inputs that it depends on are scaled, all together, or those of one input, or a single
entry, by the rational factor that makes it hold. A condition that is not rational in the inputs, or not affine in any
of these, is left to chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from derive.evaluation import Evaluator
from derive.numeric.arithmetic import Rationals
from derive.numeric.sampling import Path, Sample, entries, with_entry
from derive.program import Definition

__all__ = ["Equality", "met"]

MOST_UNKNOWNS = 40  # entries of an input that are solved for
ROUNDS = 2  # how often the positions of one equality are gone through: moving one may disturb another


class Equality:
    """A condition left = right between values, which almost no random point meets."""

    def __init__(self, condition: Any, definitions: Sequence[Definition]) -> None:
        """Compile the difference of the two sides."""
        self._evaluator = Evaluator([condition.lhs - condition.rhs], definitions)
        self.indices = self._evaluator.free[0]
        self.names = frozenset(str(known.name) for known in self._evaluator.needs.inputs)

    def unmet(self, sample: Sample) -> list[tuple[int, ...]]:
        """The positions of the condition's free indices where it does not hold.

        Raises:
            ArithmeticError: the difference is undefined at one of them, or not rational in the inputs.
        """
        environment = self._evaluator.at(Rationals(), sample.sizes, sample.inputs)
        return [place for place in environment.places(self.indices) if environment.value(0) != 0]

    def gaps(self, sample: Sample) -> list[Fraction]:
        """The difference left - right at every position.

        Raises:
            ArithmeticError: it is undefined at one of them, or not rational in the inputs.
        """
        environment = self._evaluator.at(Rationals(), sample.sizes, sample.inputs)
        return [environment.value(0) for _ in environment.places(self.indices)]

    def gap(self, sample: Sample, place: Sequence[int]) -> Fraction:
        """The difference left - right at a position.

        Raises:
            ArithmeticError: it is undefined there, or not rational in the inputs.
        """
        environment = self._evaluator.at(Rationals(), sample.sizes, sample.inputs)
        environment.move(self.indices, place)
        gap: Fraction = environment.value(0)
        return gap


def met(sample: Sample, equalities: Sequence[Equality], positive: frozenset[str]) -> Sample:
    """The sample with inputs moved so that the equalities hold, where a linear system, scaling or one entry can do it.

    `positive` names the inputs that must stay positive. What cannot be met is left as it is; whoever checks the
    conditions then passes over the point.
    """
    for equality in equalities:
        try:
            solved = _solved(sample, equality, equalities, positive)
            if solved is not None:
                sample = solved
                continue
            for _round in range(ROUNDS):
                for place in (unmet := equality.unmet(sample)):
                    sample = _met_at(sample, equality, place, positive)
                if not unmet:
                    break
        except ArithmeticError:
            continue
    return sample


def _solved(
    sample: Sample, equality: Equality, equalities: Sequence[Equality], positive: frozenset[str]
) -> Sample | None:
    """The sample with one input solved for, so that the equality holds at all positions; None where that fails.

    An input that no other equality mentions comes first, so that one is not disturbed by the next.
    """
    if not any(equality.gaps(sample)):
        return sample
    for name in sorted(equality.names, key=lambda name: (sum(name in other.names for other in equalities), name)):
        found = _solved_for(sample, equality, name)
        if found is not None and all(value > 0 for owner, _, value in entries(found) if owner in positive):
            return found
    return None


def _solved_for(sample: Sample, equality: Equality, name: str) -> Sample | None:
    """The sample with one input's entries moved so that the equality holds; None where it is not affine in them."""
    unknowns = [((owner, path), value) for owner, path, value in entries(sample) if owner == name]
    if not 0 < len(unknowns) <= MOST_UNKNOWNS:
        return None
    start = equality.gaps(sample)
    moves = (equality.gaps(with_entry(sample, {key: value + 1})) for key, value in unknowns)
    columns = [[after - before for after, before in zip(gaps, start, strict=True)] for gaps in moves]
    steps = _solution(columns, [-gap for gap in start])
    if steps is None:
        return None
    moved = with_entry(sample, {key: value + step for (key, value), step in zip(unknowns, steps, strict=True)})
    return None if any(equality.gaps(moved)) else moved


def _solution(columns: Sequence[Sequence[Fraction]], target: Sequence[Fraction]) -> list[Fraction] | None:
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


def _met_at(sample: Sample, equality: Equality, place: tuple[int, ...], positive: frozenset[str]) -> Sample:
    gap = equality.gap(sample, place)
    if gap == 0:
        return sample
    at = {
        (name, path): value
        for name, path, value in entries(sample)
        if name in equality.names and equality.gap(with_entry(sample, {(name, path): 2 * value}), place) != gap
    }
    groups: list[dict[tuple[str, Path], Fraction]] = [at] if at else []
    groups += [{key: value for key, value in at.items() if key[0] == name} for name in sorted({key[0] for key in at})]
    groups += [{key: at[key]} for key in reversed(list(at))]
    # Scale all entries together, those of one input, then a single entry; make it zero only when nothing else serves.
    for may_vanish, group in product((False, True), groups):

        def scaled(factor: Fraction, group: Mapping[tuple[str, Path], Fraction] = group) -> Sample:
            return with_entry(sample, {key: factor * value for key, value in group.items()})

        slope = equality.gap(scaled(Fraction(2)), place) - gap
        if slope == 0:
            continue
        factor = 1 - gap / slope
        found = scaled(factor)
        keeps_sign = factor > 0 or not any(name in positive for name, _ in group)
        if (factor != 0 or may_vanish) and keeps_sign and equality.gap(found, place) == 0:
            return found
    return sample

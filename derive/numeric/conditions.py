"""Moving a point so that equalities among the conditions of a claim hold exactly.

Part of the numeric side. Almost no random point meets a condition such as Sum(y[k], k) = 1. Here the inputs that it
depends on are scaled, all together, or those of one input, or a single entry, by the rational factor that makes it
hold. A condition that is not rational in the inputs, or not affine in any such factor, is left to chance.
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

# Conditions that are equalities.


class Equality:
    """A condition left = right between values, which almost no random point meets."""

    def __init__(self, condition: Any, definitions: Sequence[Definition]) -> None:
        """Compile the difference of the two sides."""
        self._evaluator = Evaluator([condition.lhs - condition.rhs], definitions)
        self.indices = self._evaluator.free[0]
        self.names = frozenset(str(known.name) for known in self._evaluator.needs.inputs)

    def places(self, sample: Sample) -> list[tuple[int, ...]]:
        """All positions of the condition's free indices."""
        return list(self._evaluator.at(Rationals(), sample.sizes, sample.inputs).places(self.indices))

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
    """The sample with inputs moved so that the equalities hold, where scaling or one entry can do it.

    `positive` names the inputs that must stay positive. What cannot be met is left as it is; whoever checks the
    conditions then passes over the point.
    """
    for equality, _round in product(equalities, range(2)):
        try:
            for place in equality.places(sample):
                sample = _met_at(sample, equality, place, positive)
        except ArithmeticError:
            continue
    return sample


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

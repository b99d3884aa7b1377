"""Moving a point so that the conditions of a claim hold.

Part of the numeric side. Almost no random point meets a condition such as Sum(y[k], k) = 1 or A B = I. Where it is
affine in the entries of one input, for all positions at once, they are solved for exactly. Else, and where an input
would not stay positive, the inputs that it depends on are scaled, all together, or those of one input, or a single
entry, by the rational factor that makes it hold. Where nothing rational does, as for Sum(x[i]^2, i) = 1, a root is
found for single entries with many digits, or for all together by Newton's method where one equality disturbs another,
and the sample is marked as one that is not exact. An inequality is met by chance as a rule; where it is not, it is made
to hold with some room, position by position. A whole number among the inputs is tried at the small values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import sympy

from derive.binders import symbols_of
from derive.evaluation import Evaluator
from derive.numeric.arithmetic import Arithmetic, Rationals, reals
from derive.numeric.roots import DIGITS, exact, root, rounded, solution
from derive.numeric.sampling import Path, Sample, approximate, entries, with_entry
from derive.statements import Definition

__all__ = ["Equality", "conditions_on_values", "met"]

MOST_UNKNOWNS = 40  # entries of an input that are solved for
MOST_MOVES = 1000  # entries that are moved for one position of an equality or another
MOST_PLACES = 12  # of an equality that roots are found for one by one: more disturb each other, and take long
ROUNDS = 2  # how often the positions of one equality are gone through: moving one may disturb another
ROOM = Fraction(1, 3)  # by how much an inequality is made to hold that did not
WHOLE = range(-3, 13)  # what a whole number among the inputs is tried at
NEWTON, TRUSTED = 12, 3  # steps of Newton's method, and how many of them need not come closer
ROUND = 12  # denominator of a round fraction, which a slow iteration is taken to end at
SIMPLE, ERROR = 1000, Fraction(1, 10**50)  # denominator of a simple fraction, and error of an iteration, at most
SLIGHT = Fraction(1, 10**40)  # how far from a number slopes are measured


class Equality:
    """A condition left = right between values, which almost no random point meets.

    Of an inequality, the equality that makes it hold with some room, wanted only where the inequality does not hold.
    """

    def __init__(self, condition: Any, definitions: Sequence[Definition]) -> None:
        """Compile the difference of the two sides."""
        self.is_inequality = not isinstance(condition, sympy.Eq)
        gap = condition.gts - condition.lts - ROOM if self.is_inequality else condition.lhs - condition.rhs
        self._evaluator = Evaluator([gap], definitions)
        self.indices = self._evaluator.free[0]
        self.names = frozenset(str(known.name) for known in self._evaluator.needs.inputs)
        self.settled: frozenset[str] = frozenset()  # inputs that other conditions are about, moved where no other does

    def holds(self, sample: Sample) -> bool:
        """Whether the condition holds at all positions, as far as reals can tell.

        Raises:
            ArithmeticError: the difference is undefined at one of them.
        """
        return not self._unmet(sample, reals())

    def unmet(self, sample: Sample) -> list[tuple[int, ...]]:
        """The positions of the condition's free indices where it does not hold.

        Raises:
            ArithmeticError: the difference is undefined at one of them, or not rational in the inputs.
        """
        return self._unmet(sample, Rationals())

    def _unmet(self, sample: Sample, field: Arithmetic) -> list[tuple[int, ...]]:
        environment = self._evaluator.at(field, sample.sizes, sample.inputs)
        least = field.rational(-ROOM if self.is_inequality else 0)
        orders = [(place, field.order(environment.value(0), least)) for place in environment.places(self.indices)]
        return [place for place, order in orders if (order <= 0 if self.is_inequality else order != 0)]

    def gaps(self, sample: Sample) -> list[Fraction]:
        """The difference left - right at every position.

        Raises:
            ArithmeticError: it is undefined at one of them, or not rational in the inputs.
        """
        environment = self._evaluator.at(Rationals(), sample.sizes, sample.inputs)
        return [environment.value(0) for _ in environment.places(self.indices)]

    def places(self, sample: Sample) -> list[tuple[int, ...]]:
        """All positions of the condition's free indices."""
        return list(self._evaluator.at(Rationals(), sample.sizes, sample.inputs).places(self.indices))

    def gap(self, sample: Sample, place: Sequence[int], arithmetic: Arithmetic | None = None) -> Any:
        """The difference left - right at a position, as a Fraction unless another arithmetic is given.

        Raises:
            ArithmeticError: it is undefined there, or not rational in the inputs.
        """
        environment = self._evaluator.at(arithmetic or Rationals(), sample.sizes, sample.inputs)
        environment.move(self.indices, place)
        return environment.value(0)


def conditions_on_values(
    conditions: Sequence[Any], definitions: Sequence[Definition]
) -> tuple[list[Equality], list[Equality]]:  # fmt: skip
    """The equalities and the inequalities among conditions that inputs can be moved to meet."""
    parts = [part for condition in conditions for part in sympy.And.make_args(condition)]
    kinds = (sympy.Eq,), (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)
    equalities, inequalities = ([Equality(p, definitions) for p in parts if isinstance(p, kind)] for kind in kinds)
    others = set().union(*(symbols_of(part) for part in parts if not isinstance(part, sympy.Eq)))
    for one in equalities:
        one.settled = frozenset(str(known.name) for known in others)
    return [one for one in equalities if one.names], [one for one in inequalities if one.names]


def met(sample: Sample, wanted: Sequence[Equality], positive: frozenset[str]) -> Sample:
    """The sample with inputs moved so that what is wanted holds, where a linear system, scaling or roots can do it.

    `positive` names the inputs that must stay positive. What cannot be met is left as it is; whoever checks the
    conditions then passes over the point.
    """
    for equality in wanted:
        try:
            sample = _met_by_whole_numbers(sample, equality, positive)
            sample = _met_exactly(sample, equality, wanted, positive)
            if not equality.is_inequality and not equality.holds(sample):
                sample = _met_by_roots(sample, equality, positive)
        except ArithmeticError:
            continue
    equalities = [one for one in wanted if not one.is_inequality]
    try:
        if not all(one.holds(sample) for one in equalities):
            return _met_together(sample, equalities, positive)
    except ArithmeticError:
        pass
    return sample


def _met_by_whole_numbers(sample: Sample, equality: Equality, positive: frozenset[str]) -> Sample:
    """The sample with one whole number moved so that the equality holds, the nearest one that does; else as it is.

    Only where it is about nothing else: numbers beside it are moved more easily, and leave it as it was drawn.
    """
    names = [name for name, value in sample.inputs.items() if name in equality.names and type(value) is int]
    if len(names) != 1 or len(equality.names) != 1 or equality.holds(sample):
        return sample
    (name,) = names
    for value in sorted(WHOLE, key=lambda value: (abs(value - sample.inputs[name]), value)):
        moved = replace(sample, inputs={**sample.inputs, name: value})
        if (value > 0 or name not in positive) and equality.holds(moved):
            return moved
    return sample


def _met_exactly(
    sample: Sample, equality: Equality, equalities: Sequence[Equality], positive: frozenset[str]
) -> Sample:  # fmt: skip
    """The sample with the equality met by rational steps, as far as they do."""
    try:
        solved = None if equality.is_inequality else _solved(sample, equality, equalities, positive)
        if solved is not None:
            return solved
        about = sum(name in equality.names for name, _, _ in entries(sample))
        for _round in range(ROUNDS):
            unmet = equality.unmet(sample)
            if len(unmet) * about > MOST_MOVES:
                break
            for place in unmet:
                sample = _met_at(sample, equality, place, positive)
            if not unmet:
                break
    except ArithmeticError:  # not rational in the inputs
        pass
    return sample


def _solved(
    sample: Sample, equality: Equality, equalities: Sequence[Equality], positive: frozenset[str]
) -> Sample | None:
    """The sample with one input solved for, so that the equality holds at all positions; None where that fails.

    An input that no other condition mentions comes first, so that one is not disturbed by the next.
    """
    if not any(equality.gaps(sample)):
        return sample

    def order(name: str) -> tuple[bool, int, str]:
        return name in equality.settled, sum(name in other.names for other in equalities), name

    for name in sorted(equality.names, key=order):
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
    steps = solution(columns, [-gap for gap in start])
    if steps is None:
        return None
    moved = with_entry(sample, {key: value + step for (key, value), step in zip(unknowns, steps, strict=True)})
    return None if any(equality.gaps(moved)) else moved


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


def _met_by_roots(sample: Sample, equality: Equality, positive: frozenset[str]) -> Sample:
    """The sample with one entry for each position moved to a root of the equality, known to many digits."""
    field = reals(DIGITS)
    places = equality.places(sample)
    for place in places if len(places) <= MOST_PLACES else ():
        for name, path, value in reversed(list(entries(sample))):
            if name not in equality.names:
                continue

            gap = partial(_gap_with, equality, sample, place, (name, path), field)
            if field.order(gap(value), field.rational(0)) == 0:
                break
            zero = root(gap, value, field, positive=name in positive)
            if zero is not None:
                found = _settled(sample, {(name, path): zero}, partial(_meets, equality, place))
                if found is not None:
                    sample = found
                    break
    return sample


def _meets(equality: Equality, place: tuple[int, ...], sample: Sample) -> bool:
    return bool(equality.gap(sample, place) == 0)


def _settled(
    sample: Sample, solved: Mapping[tuple[str, Path], Fraction], holds: Callable[[Sample], bool]
) -> Sample | None:
    """The sample with entries that were found by iteration; None where one of them may be 0 as well as not.

    An iteration ends near a solution: what is within its error of a simple fraction, of 0 above all, is taken for that
    if the condition then holds exactly. A number that is nearly 0 instead would be no less wrong by its sign, and
    everything that is made of it by products has no digit that is known.
    """
    simple = {at: value.limit_denominator(SIMPLE) for at, value in solved.items()}
    near = {at: simple[at] if abs(simple[at] - value) < ERROR else value for at, value in solved.items()}
    moved = with_entry(sample, near)
    try:
        if holds(moved):
            return moved
    except ArithmeticError:  # not rational in the inputs
        pass
    faint = any(0 < abs(value) < ERROR for value in solved.values())
    return None if faint else approximate(with_entry(sample, solved))


def _gap_with(
    equality: Equality, sample: Sample, place: tuple[int, ...], at: tuple[str, Path], field: Arithmetic, entry: Fraction
) -> Any:
    """The difference at a position, with another number in place of one entry."""
    return equality.gap(with_entry(sample, {at: entry}), place, field)


def _met_together(sample: Sample, equalities: Sequence[Equality], positive: frozenset[str]) -> Sample:
    """The sample with all entries moved by Newton's method, each step the shortest that meets all equalities at once.

    Raises:
        ArithmeticError: a difference is undefined on the way.
    """
    field = reals(DIGITS)
    names = frozenset().union(*(one.names for one in equalities))
    at = [(name, path) for name, path, _ in entries(sample) if name in names]
    if not 0 < len(at) <= MOST_UNKNOWNS:
        return sample
    solve, matrix = field.context.lu_solve, field.context.matrix
    moved, values = sample, [value for name, path, value in entries(sample) if (name, path) in at]
    worst = None
    for step_number in range(NEWTON):
        gaps = _gaps(moved, equalities, field)
        before, worst = worst, max(map(abs, gaps))
        if before is not None and step_number > TRUSTED and worst > before / 2:
            break  # it does not converge: there may be nothing to converge to
        if worst < field.rational(Fraction(1, 10 ** (DIGITS - 10))):
            solved = dict(zip(at, values, strict=True))
            found = _settled(sample, solved, lambda moved: not any(map(any, (one.gaps(moved) for one in equalities))))
            if found is not None and all(value > 0 for name, _, value in entries(found) if name in positive):
                return found
            return sample
        nearby = [
            _gaps(with_entry(moved, {key: v + SLIGHT}), equalities, field) for key, v in zip(at, values, strict=True)
        ]
        slopes = matrix([[(b - a) / field.rational(SLIGHT) for a, b in zip(gaps, row, strict=True)] for row in nearby])
        square = slopes.T * slopes
        for place in range(len(gaps)):  # equalities may say the same twice
            square[place, place] += field.rational(SLIGHT)
        steps = slopes * solve(square, matrix(gaps))
        values = [rounded(v - exact(step), field) for v, step in zip(values, steps, strict=True)]
        moved = with_entry(moved, dict(zip(at, values, strict=True)))
    # Where a solution is a double one, as of s r = 1 and s + r = 2, each step brings it closer by half only.
    round_ = with_entry(sample, {key: value.limit_denominator(ROUND) for key, value in zip(at, values, strict=True)})
    return sample if any(map(any, (one.gaps(round_) for one in equalities))) else round_


def _gaps(sample: Sample, equalities: Sequence[Equality], field: Any) -> list[Any]:
    return [one.gap(sample, place, field) for one in equalities for place in one.places(sample)]

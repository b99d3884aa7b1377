"""A claim made ready for numbers, and a claim at one point: what counts as a difference.

Part of the numeric side, between `derive.numeric.sampling` (which chooses points) and `derive.refutation` (which draws
conclusions). Both sides must be defined and the conditions of the claim met. A difference must exceed rounding by far
(1e-25 of the larger side, at 40 digits), exceed the bounds of the errors when everything is computed again to 60 digits
(`derive.numeric.error_bounds`), and still be there when all real inputs move a little: at a kink of a piecewise
function the two sides may follow different conventions, and that refutes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

import sympy

from derive.binders import free_indices
from derive.evaluation import Environment, Evaluator
from derive.language import Dim, Index, Tensor
from derive.numeric.arithmetic import Arithmetic, Rationals, reals
from derive.numeric.compilation import ordered_indices
from derive.numeric.conditions import conditions_on_values, met
from derive.numeric.counterexamples import Counterexample
from derive.numeric.error_bounds import bounded_reals
from derive.numeric.reproduction import python_line
from derive.numeric.sampling import Regime, Sample, draw, entries, is_positive, with_entry
from derive.statements import Claim
from derive.wellformed import is_equation

__all__ = ["COARSE", "SEARCH_LIMIT", "VISIBLE", "Place", "Point", "Trial"]

COARSE, FINE = 40, 60  # digits of the two evaluations
SMALL = 1e-25  # errors with which two sides that they explain are taken for equal
VISIBLE = 1e-6  # a relative difference that a reader sees at once in floats
LARGEST = 1e300  # larger differences are not told apart
SEARCH_LIMIT = 100_000  # terms to sum at one point

Place = tuple[int, ...]


class Trial:
    """Both sides and the conditions of a claim, ready to be evaluated at any point."""

    def __init__(self, claim: Claim) -> None:
        definitions = claim.program.definitions
        self.claim = claim
        self.deadline = inf  # after which nothing more is evaluated, by the processor time of this thread
        # A condition on indices (i < j) is met position by position, one on values (Sum(y[n, v], v) = 1) everywhere.
        placed = [free_indices(condition) for condition in claim.given if not condition.atoms(Tensor)]
        self.indices = ordered_indices(free_indices(claim.left).union(free_indices(claim.right), *placed))
        self.evaluator = Evaluator([claim.left, claim.right, *claim.given], definitions)
        self.needs = self.evaluator.needs
        self.stated = _stated_sizes(claim.given)
        self.size_names = [str(size.name) for size in self.needs.dims if str(size.name) not in self.stated]
        self.positive = frozenset(str(known.name) for known in self.needs.inputs if is_positive(known))
        self.equalities, self.inequalities = conditions_on_values(claim.given, definitions)
        free = dict(enumerate(self.evaluator.free[2:], start=2))
        self._equations = {number: free.pop(number) for number, one in enumerate(claim.given, 2) if is_equation(one)}
        self._placed = {n: tuple(index for index in own if index not in self.indices) for n, own in free.items()}
        self._drawn: dict[tuple[str, bool], Sample] = {}
        self._held: WeakKeyDictionary[Environment, bool] = WeakKeyDictionary()

    def sample(
        self, sizes: dict[str, int], flags: dict[str, bool], regime: Regime, seed: int, turn: int = 0, *,
        inequalities: bool = False,
    ) -> Sample:  # fmt: skip
        """The point of a round, drawn for a seed and moved to meet the claim's equalities.

        With `inequalities`, it is also moved to meet these, which random points do as a rule; it is less generic then.
        """
        sizes = {**sizes, **self.stated}
        drawn = f"{seed} {turn} {regime.name} {sorted(sizes.items())} {sorted(flags.items())}"
        if (drawn, inequalities) not in self._drawn:  # one arithmetic after the other asks for the same
            sample = draw(self.needs, sizes, flags, regime, drawn, turn + 1)
            for _ in self.inequalities if inequalities else ():  # to meet one may disturb another
                sample = met(sample, self.inequalities, self.positive)
            self._drawn[drawn, inequalities] = self.met(sample)
        return self._drawn[drawn, inequalities]

    def met(self, sample: Sample) -> Sample:
        """The sample, moved to meet the claim's equalities."""
        return met(sample, self.equalities, self.positive)

    def at(self, sample: Sample, arithmetic: Arithmetic, limit: int = SEARCH_LIMIT) -> Environment:
        """The environment at a point."""
        return self.evaluator.at(arithmetic, sample.sizes, sample.inputs, limit=limit, deadline=self.deadline)

    def admits(self, environment: Environment, place: Place) -> bool:
        """Whether the claim's conditions hold at a position; an index that is not the claim's own stands for all.

        In an equation between values every index does: it is a statement about the inputs.
        """
        if not self.claim.given:
            return True
        if environment not in self._held:
            self._held[environment] = self._hold(environment, self._equations)
        environment.move(self.indices, place)
        return self._held[environment] and self._hold(environment, self._placed)

    def _hold(self, environment: Environment, conditions: Mapping[int, tuple[Index, ...]]) -> bool:
        """Whether conditions hold at all values of the indices listed with them."""
        try:
            return all(
                environment.value(number) for number, free in conditions.items() for _ in environment.places(free)
            )
        except ArithmeticError:
            return False

    def sides(self, environment: Environment, place: Sequence[int]) -> tuple[Any, Any]:
        """Both values at a position."""
        environment.move(self.indices, place)
        return environment.value(0), environment.value(1)

    def rests_on_a_mask(self, sample: Sample, position: Mapping[str, int]) -> bool:
        """Whether a side has its value at a position only because a bracket that is 0 hides a factor without one."""
        claim = self.claim
        strict = Evaluator([claim.left, claim.right, *claim.given], claim.program.definitions, strict=True)
        environment = strict.at(reals(COARSE), sample.sizes, sample.inputs, limit=SEARCH_LIMIT)
        try:
            self.sides(environment, [position[index.name] for index in self.indices])
        except ArithmeticError:
            return True
        return False

    def reported(self, sample: Sample, place: Place, left: str, right: str) -> Counterexample:
        """The counterexample at a position, with the given texts for the two values."""
        position = {index.name: value for index, value in zip(self.indices, place, strict=True)}
        claim = self.claim
        line = python_line(claim.left, claim.right, claim.program.definitions, sample, position)
        return Counterexample(dict(sample.sizes), dict(sample.inputs), position, left, right, line)


class Point:
    """A claim at a point, in reals: with few digits, with more, and with the inputs moved a little, each on demand."""

    def __init__(self, trial: Trial, sample: Sample, limit: int = SEARCH_LIMIT) -> None:
        self.trial = trial
        self.sample = sample
        self.limit = limit  # terms to sum
        self.compared = 0  # positions where both sides had a value

    @cached_property
    def coarse(self) -> Environment:
        """The point with as many digits as usual."""
        return self.trial.at(self.sample, reals(COARSE), self.limit)

    @cached_property
    def fine(self) -> Environment:
        """The point with more digits, and bounds of the errors."""
        return self.trial.at(self.sample, bounded_reals(FINE), self.limit)

    @cached_property
    def nearby(self) -> list[Environment]:
        """The point with every real entry moved by a small factor of its own, up and down."""
        found: list[Environment] = []
        for direction in (1, -1):
            changes = {
                (name, path): value * (1 + Fraction(direction * (number + 7), 10**9))
                for number, (name, path, value) in enumerate(entries(self.sample))
            }
            moved = self.trial.met(with_entry(self.sample, changes))
            found.append(self.trial.at(moved, reals(COARSE), self.limit))
        return found

    def gap(self, environment: Environment, place: Place) -> tuple[float, float]:
        """How far the sides are apart at a position, relative to the larger and absolutely; 0 where undefined."""
        try:
            if not self.trial.admits(environment, place):
                return 0.0, 0.0
            left, right = self.trial.sides(environment, place)
        except ArithmeticError:
            return 0.0, 0.0
        self.compared += 1
        if environment.arithmetic.same(left, right):
            return 0.0, 0.0
        apart = abs(left - right)
        return float(apart / max(abs(left), abs(right))), float(min(apart, LARGEST))

    def refuted(self, place: Place) -> float:
        """The relative difference, when it stands up to more digits and to moving the inputs, or is exact; else 0.

        Raises:
            BudgetExceededError: the sums have more terms than the limit.
        """
        relative, _ = self.gap(self.coarse, place)
        return relative if relative and (self._stands(place) or self._exact_sides(place) is not None) else 0.0

    def _stands(self, place: Place) -> bool:
        """Whether a difference is there with more digits, and with the inputs moved a little."""
        try:
            left, right = self.trial.sides(self.fine, place)
        except ArithmeticError:
            return False
        return not self.fine.arithmetic.same(left, right) and all(
            self.gap(moved, place)[0] > 0 for moved in self.nearby
        )

    def explained(self, place: Place) -> bool:
        """Whether the sides differ by no more than their small errors, as cos(pi/2) in digits does from 0."""
        try:
            left, right = self.trial.sides(self.fine, place)
        except ArithmeticError:
            return False
        return bool(self.fine.arithmetic.same(left, right) and left[1] + right[1] <= SMALL)

    def _exact_sides(self, place: Place) -> tuple[Any, Any] | None:
        """Both sides where they differ as fractions, which needs no room: at a tie, x >= y holds and x > y does not."""
        if not self.sample.exact:
            return None
        try:
            environment = self.trial.at(self.sample, Rationals(), self.limit)
            sides = self.trial.sides(environment, place) if self.trial.admits(environment, place) else (0, 0)
        except ArithmeticError:
            return None
        return sides if sides[0] != sides[1] else None

    def first_refuted(self) -> tuple[Place, float] | None:
        """The first position with a visible difference that stands, or else the first one with any."""
        faint: tuple[Place, float] | None = None
        for place in self.coarse.places(self.trial.indices):
            relative = self.refuted(place)
            if relative >= VISIBLE:
                return place, relative
            if relative > 0 and faint is None:
                faint = place, relative
        return faint

    def counterexample(self, place: Place, digits: int = 15) -> Counterexample:
        """The counterexample at a position where both sides are defined."""
        known = bounded_reals(FINE)
        try:
            sides = self.trial.sides(self.fine, place)
        except ArithmeticError:  # a tie, which only fractions can tell
            first, second = self._exact_sides(place) or (0, 0)
            sides = known.rational(first), known.rational(second)
        left, right = (known.reals.context.nstr(value, digits) for value, _ in sides)
        return self.trial.reported(self.sample, place, left, right)


def _stated_sizes(given: Sequence[Any]) -> dict[str, int]:
    """The sizes that hypotheses give as numbers: T = 100."""
    pairs = (known.args for known in given if isinstance(known, sympy.Eq))
    stated = ((size, int(value)) for size, value in pairs if isinstance(size, Dim) and value.is_Integer)
    return {str(size.name): value for size, value in stated if value > 0}

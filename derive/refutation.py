"""Numbers against a claim: the search for a counterexample, and the second engine behind a proof.

Part of the numeric side, used by `derive.prove`. `find_counterexample` compares both sides of a claim at points from
`derive.sampling`, simplest first, and makes what it finds simpler still; `confirm` evaluates a claim that has been
proved, at a few small sizes, exactly where that is possible. Numbers refute; numbers never prove.

When is a difference a refutation? Both sides must be defined and the conditions of the claim met. The difference must
exceed rounding by far (1e-25 of the larger side, at 40 digits), be the same when everything is computed again to 60
digits, and still be there when all real inputs move a little: at a kink of a piecewise function the two sides may
follow different conventions, and that refutes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import sympy

from derive.arithmetic import Arithmetic, UnsupportedError, reals
from derive.binders import free_indices
from derive.compilation import ordered_indices
from derive.errors import BudgetExceededError
from derive.evaluation import Environment, Evaluator
from derive.prime_field import prime_field
from derive.program import Claim
from derive.reproduction import python_line
from derive.sampling import (
    REGIMES,
    Equality,
    Regime,
    Sample,
    confirmation_sizes,
    draw,
    entries,
    flag_settings,
    is_positive,
    met,
    size_plan,
    with_entry,
)

__all__ = ["Confirmation", "Counterexample", "confirm", "find_counterexample"]

COARSE, FINE = 40, 60  # digits of the two evaluations
VISIBLE = 1e-6  # a relative difference that a reader sees at once in floats
CLEAR = 1e-3  # simpler inputs may not make the difference smaller than this, neither relatively nor absolutely
ROUNDS = 2  # how often the plan of sizes and magnitudes is gone through, with other inputs ...
MORE_ROUNDS, FEW = 12, 300  # ... and how often at most while fewer positions than this have been compared
SEARCH_LIMIT = 100_000  # terms to sum at one point
SIMPLER_LIMIT = 200  # evaluations spent on simpler inputs
CONFIRM_SAMPLES = 4  # points that a proved claim is evaluated at, if its sizes and flags do not ask for more
CONFIRM_LIMIT = 20_000  # terms to sum at one point ...
CONFIRM_WORK = 4_000  # ... and at all points together, after which no new one is begun
SIMPLE = tuple(map(Fraction, ("2", "3", "-2", "1/2", "-3", "-1/2", "4", "1/3", "-4", "2/3", "3/2", "5", "-5", "6")))


@dataclass(frozen=True)
class Counterexample:
    """A point where the two sides of a claim differ, and a line of Python that shows it.

    `inputs` holds ints, Fractions, truth values and nested tuples of them; `left` and `right` are the values in digits.
    """

    sizes: dict[str, int]
    inputs: dict[str, Any]
    position: dict[str, int]
    left: str
    right: str
    line: str

    @property
    def command(self) -> str:
        """The line as a shell command."""
        return f'python -c "{self.line}"'

    def as_dict(self) -> dict[str, Any]:
        """The counterexample in plain values; a fraction becomes the text `3/2`."""
        return {
            "sizes": dict(self.sizes),
            "inputs": {name: _plain(value) for name, value in self.inputs.items()},
            "position": dict(self.position),
            "left": self.left,
            "right": self.right,
            "line": self.line,
        }


@dataclass(frozen=True)
class Confirmation:
    """What the second engine saw: how many positions of how many points agree, and where the first one did not."""

    points: int
    samples: int
    arithmetic: str
    disagreement: Counterexample | None = None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(row) for row in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    return value


# ---------------------------------------------------------------------------------------------------------------------
# A claim, compiled.

Place = tuple[int, ...]


class _Trial:
    """Both sides and the conditions of a claim, ready to be evaluated at any point."""

    def __init__(self, claim: Claim) -> None:
        definitions = claim.program.definitions
        self.claim = claim
        self.compared = 0  # positions where both sides had a value
        self.indices = ordered_indices(free_indices(claim.left) | free_indices(claim.right))
        self.evaluator = Evaluator([claim.left, claim.right, *claim.given], definitions)
        self.needs = self.evaluator.needs
        self.size_names = [str(size.name) for size in self.needs.dims]
        self.positive = frozenset(str(known.name) for known in self.needs.inputs if is_positive(known))
        equalities = [Equality(one, definitions) for one in claim.given if isinstance(one, sympy.Eq)]
        self.equalities = [one for one in equalities if one.names]
        self._extra = [
            tuple(index for index in free if index not in self.indices) for free in self.evaluator.free[2:]
        ]  # fmt: skip

    def sample(self, sizes: dict[str, int], flags: dict[str, bool], regime: Regime, seed: int, turn: int = 0) -> Sample:
        """The point of a round, drawn for a seed and moved to meet the claim's equalities."""
        drawn = f"{seed} {turn} {regime.name} {sorted(sizes.items())} {sorted(flags.items())}"
        return met(draw(self.needs, sizes, flags, regime, drawn, turn + 1), self.equalities, self.positive)

    def at(self, sample: Sample, arithmetic: Arithmetic, limit: int = SEARCH_LIMIT) -> Environment:
        """The environment at a point."""
        return self.evaluator.at(arithmetic, sample.sizes, sample.inputs, limit=limit)

    def admits(self, environment: Environment, place: Place) -> bool:
        """Whether the claim's conditions hold at a position; an index that only a condition has stands for all."""
        environment.move(self.indices, place)
        for number, extra in enumerate(self._extra, start=2):
            try:
                if not all(environment.value(number) for _ in environment.places(extra)):
                    return False
            except ArithmeticError:
                return False
        return True

    def sides(self, environment: Environment, place: Place) -> tuple[Any, Any]:
        """Both values at a position."""
        environment.move(self.indices, place)
        return environment.value(0), environment.value(1)

    def gap(self, sample: Sample, place: Place, digits: int = COARSE) -> tuple[float, Any]:
        """How far the sides are apart at a position: relative to the larger, and signed; 0 where that is undefined."""
        field = reals(digits)
        environment = self.at(sample, field)
        try:
            if not self.admits(environment, place):
                return 0.0, 0
            left, right = self.sides(environment, place)
        except (ArithmeticError, BudgetExceededError):
            return 0.0, 0
        if field.same(left, right):
            return 0.0, 0
        return float(abs(left - right) / max(abs(left), abs(right))), left - right

    def refuted(self, sample: Sample, place: Place) -> float:
        """The relative difference, when it stands up to more digits and to moving the inputs; else 0."""
        relative, coarse = self.gap(sample, place)
        if relative == 0:
            return 0.0
        _, fine = self.gap(sample, place, FINE)
        if abs(fine - coarse) > abs(coarse) / 1000:
            return 0.0
        for direction in (1, -1):
            if self.gap(self.moved(sample, direction), place)[0] == 0:
                return 0.0
        return relative

    def moved(self, sample: Sample, direction: int) -> Sample:
        """The point with every real entry moved by a small factor of its own."""
        changes = {
            (name, path): value * (1 + Fraction(direction * (number + 7), 10**9))
            for number, (name, path, value) in enumerate(entries(sample))
        }
        return met(with_entry(sample, changes), self.equalities, self.positive)

    def first_refuted(self, sample: Sample, at_least: float) -> tuple[Place, float] | None:
        """The first position with a difference that counts and is at least so large, relatively."""
        field = reals(COARSE)
        environment = self.at(sample, field)
        for place in environment.places(self.indices):
            try:
                if not self.admits(environment, place):
                    continue
                left, right = self.sides(environment, place)
            except ArithmeticError:
                continue
            self.compared += 1
            if not field.same(left, right):
                relative = self.refuted(sample, place)
                if relative > 0 and relative >= at_least:
                    return place, relative
        return None

    def counterexample(self, sample: Sample, place: Place, digits: int = 15) -> Counterexample:
        """The counterexample at a position where both sides are defined."""
        field = reals(FINE)
        left, right = (field.context.nstr(side, digits) for side in self.sides(self.at(sample, field), place))
        return self.reported(sample, place, left, right)

    def reported(self, sample: Sample, place: Place, left: str, right: str) -> Counterexample:
        """The counterexample with the given texts for the two values."""
        position = {index.name: value for index, value in zip(self.indices, place, strict=True)}
        claim = self.claim
        line = python_line(claim.left, claim.right, claim.program.definitions, sample, position)
        return Counterexample(dict(sample.sizes), dict(sample.inputs), position, left, right, line)


# ---------------------------------------------------------------------------------------------------------------------
# Refuting.


def find_counterexample(claim: Claim, *, seed: int = 0, budget_s: float = 2.0) -> Counterexample | None:
    """The simplest point found where the two sides of the claim differ, or None when the search comes up empty.

    The search stops after a fixed plan of sizes, magnitudes and flags, or after `budget_s` seconds. A difference too
    small to show in floats is reported only when no larger one turns up; its digits are in `left` and `right`.
    """
    deadline = time.monotonic() + budget_s
    trial = _Trial(claim)
    faint: tuple[Sample, Place] | None = None
    for sample in _points(trial, seed):
        if time.monotonic() > deadline:
            break
        try:
            found = trial.first_refuted(sample, VISIBLE) or (None if faint else trial.first_refuted(sample, 0.0))
        except BudgetExceededError:
            continue
        if found is None:
            continue
        if found[1] >= VISIBLE:
            simple = _simplified(trial, sample, found[0])
            again = trial.first_refuted(simple, min(VISIBLE, found[1])) or found
            return trial.counterexample(simple, again[0])
        faint = sample, found[0]
    return trial.counterexample(*faint, digits=40) if faint else None


def _points(trial: _Trial, seed: int) -> Iterator[Sample]:
    plan = list(product(size_plan(trial.size_names), REGIMES, flag_settings(trial.needs)))
    for turn in range(MORE_ROUNDS):
        if turn >= ROUNDS and trial.compared >= FEW:
            return
        for sizes, regime, flags in plan:
            yield trial.sample(sizes, flags, regime, seed, turn)


def _simplified(trial: _Trial, sample: Sample, place: Place) -> Sample:
    """The sample with every real entry made as simple as the difference at `place` allows.

    Entries of one input stay distinct, as in the sample, so that a factor or an axis cannot hide.
    """
    relative, absolute = trial.gap(sample, place)
    least = min(relative, CLEAR), min(abs(absolute), CLEAR)
    best, tried = sample, 0
    for name, path, value in entries(sample):
        taken = {other for owner, at, other in entries(best) if owner == name and at != path}
        simpler = SIMPLE[: SIMPLE.index(value)] if value in SIMPLE else SIMPLE
        for candidate in simpler:
            if candidate in taken or (name in trial.positive and candidate < 0):
                continue
            if tried >= SIMPLER_LIMIT:
                break
            tried += 1
            changed = met(with_entry(best, {(name, path): candidate}), trial.equalities, trial.positive)
            relative, absolute = trial.gap(changed, place)
            if relative >= least[0] and abs(absolute) >= least[1]:
                best = changed
                break
    return best if trial.refuted(best, place) > 0 else sample


# ---------------------------------------------------------------------------------------------------------------------
# The second engine.


def confirm(claim: Claim, *, seed: int = 0) -> Confirmation:
    """Evaluate both sides of a proved claim at a few small sizes: exactly where possible, else in reals to 40 digits.

    Definitions are computed, not taken as opaque. A disagreement contradicts the proof; the caller raises the alarm.
    """
    trial = _Trial(claim)
    try:
        return _confirmed(trial, prime_field(), seed)
    except UnsupportedError:
        return _confirmed(trial, reals(COARSE), seed)


def _confirmed(trial: _Trial, field: Arithmetic, seed: int) -> Confirmation:
    points, samples, work = 0, 0, CONFIRM_WORK
    plan = list(product(confirmation_sizes(trial.size_names), flag_settings(trial.needs)))
    for turn, (sizes, flags) in product(range(CONFIRM_SAMPLES), plan):
        if work <= 0 or (turn > 0 and samples >= CONFIRM_SAMPLES):
            break
        for regime in REGIMES[:3]:  # the next one only where no position was compared with the last
            sample = trial.sample(sizes, flags, regime, seed, turn)
            try:
                environment = trial.at(sample, field, CONFIRM_LIMIT)
                agreed, disagreement = _compared(trial, sample, environment, field)
            except BudgetExceededError:
                break
            work -= CONFIRM_LIMIT - environment.work
            if disagreement is not None:
                return Confirmation(points + agreed, samples + 1, field.name, disagreement)
            if agreed:
                points, samples = points + agreed, samples + 1
                break
    return Confirmation(points, samples, field.name)


def _compared(
    trial: _Trial, sample: Sample, environment: Environment, field: Arithmetic
) -> tuple[int, Counterexample | None]:  # fmt: skip
    """How many positions agree, and the first that does not."""
    exact = field is prime_field()
    conditions = trial.at(sample, reals(COARSE)) if exact and trial.claim.given else environment
    agreed = 0
    for place in environment.places(trial.indices):
        try:
            if not trial.admits(conditions, place):
                continue
            left, right = trial.sides(environment, place)
        except UnsupportedError:
            raise
        except ArithmeticError:
            continue
        if field.same(left, right):
            agreed += 1
        elif exact:
            return agreed, trial.reported(sample, place, field.show(left), field.show(right))
        elif trial.refuted(sample, place) > 0:
            return agreed, trial.counterexample(sample, place)
    return agreed, None


"""Numbers against a claim: the search for a counterexample, and the second engine behind a proof.

The face of the numeric side (`derive.numeric`), used by `derive.prove`. `find_counterexample` compares both sides of a
claim at small sizes and generic inputs, simplest first, and makes what it finds simpler still; `confirm` evaluates a
claim that has been proved, at a few small sizes, exactly where that is possible. Numbers refute; numbers never prove.
What counts as a difference is a matter of `derive.numeric.trial`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import sympy
from sympy.core.relational import Relational

from derive.binders import symbols_of
from derive.errors import BudgetExceededError
from derive.evaluation import Environment
from derive.exceptional import is_differentiable
from derive.language import is_bracket
from derive.numeric.arithmetic import Arithmetic, UnsupportedError, reals
from derive.numeric.counterexamples import Counterexample
from derive.numeric.prime_field import PrimeField, prime_field
from derive.numeric.sampling import (
    REGIMES,
    TIES,
    Regime,
    Sample,
    confirmation_sizes,
    flag_settings,
    size_plan,
    sizes_about,
)
from derive.numeric.simplification import simplified
from derive.numeric.trial import COARSE, VISIBLE, Place, Point, Trial
from derive.statements import Claim

__all__ = ["Confirmation", "Counterexample", "confirm", "find_counterexample", "is_rare"]

ROUNDS = 2  # how often the plan of sizes and magnitudes is gone through, with other inputs ...
MORE_ROUNDS, FEW = 12, 200  # ... and how often at most while fewer positions than this have been compared
ROUNDS_IN_PIECES, FEW_IN_PIECES = 200, 1_000  # the same for functions in pieces, some of which are narrow
TIE_POINTS = 32  # points with ties that are tried, which is a few for each assignment of sizes
PATIENCE = 0.3  # the share of the time that one point may take, so that a costly one does not keep others from a try
PIECES = (Relational, sympy.Abs, sympy.Max, sympy.Min, sympy.sign)
CONFIRM_SECONDS = 5.0  # of computing, after which a point that meets the hypotheses is no longer looked for
CONFIRM_SAMPLES = 4  # points that a proved claim is evaluated at, if its sizes and flags do not ask for more
CONFIRM_COMPARED = 8  # times as many for a comparison, which may be false at few points
CONFIRM_LIMIT = 20_000  # terms to sum at one point ...
CONFIRM_WORK = 3_000  # ... and at all points together, after which no new one is begun


@dataclass(frozen=True)
class Confirmation:
    """What the second engine saw: how many positions of how many points agree, and where the first one did not.

    It is `masked` where the sides have values there because brackets that are 0 hide factors without one, 0/0 [T > 1].
    """

    points: int
    samples: int
    arithmetic: str
    disagreement: Counterexample | None = None
    masked: bool = False


# ---------------------------------------------------------------------------------------------------------------------
# Refuting.


def find_counterexample(
    claim: Claim, *, seed: int = 0, budget_s: float = 2.0, only_ties: bool = False
) -> Counterexample | None:  # fmt: skip
    """The simplest point found where the two sides of the claim differ, or None when the search comes up empty.

    The search stops after a fixed plan of sizes, magnitudes and flags, or after `budget_s` seconds of computing, so
    that it finds the same on a busy machine. A difference too small to show in floats is reported only when no larger
    one turns up; its digits are in `left` and `right`. With `only_ties`, points are tried where inputs agree, or are 0
    or 1, and no others.
    """
    deadline = time.thread_time() + budget_s
    try:
        trial = Trial(claim)
    except RecursionError:  # nested too deeply to be compiled
        return None
    faint: Counterexample | None = None
    too_large: list[Mapping[str, int]] = []
    for point in _tied(trial, seed) if only_ties else _points(trial, seed):
        now, sizes = time.thread_time(), point.sample.sizes
        if now > deadline:
            break
        if any(all(sizes[name] >= size for name, size in large.items()) for large in too_large):
            continue
        trial.deadline = min(deadline, now + PATIENCE * budget_s)
        try:
            found = point.first_refuted()
        except (BudgetExceededError, RecursionError):
            too_large.append(sizes)
            continue
        if found is not None and found[1] >= VISIBLE:
            trial.deadline = deadline
            return _simplest(point, found[0], seed)
        if found is not None and faint is None:
            faint = point.counterexample(found[0], digits=40)
    return faint


def _simplest(point: Point, place: Place, seed: int) -> Counterexample:
    """The counterexample at a point where the sides differ, or a simpler one where there is time to find one."""
    simple = simplified(point, place, seed)
    try:
        again = simple.first_refuted()
    except BudgetExceededError:
        again = None
    return simple.counterexample(again[0] if again is not None else place)


def _points(trial: Trial, seed: int) -> Iterator[Point]:
    """Generic points, simplest first, and then some with ties, where a comparison and its strict form differ."""
    sizes_tried, flags_tried = size_plan(trial.size_names), flag_settings(trial.needs)
    compared = 0
    rounds, few = (ROUNDS_IN_PIECES, FEW_IN_PIECES) if is_in_pieces(trial.claim) else (MORE_ROUNDS, FEW)
    for turn in range(rounds):
        if turn >= ROUNDS and compared >= few:
            break
        forced = turn > 0 and compared == 0
        for point in _drawn(trial, product(sizes_tried, REGIMES, flags_tried), seed, turn, forced=forced):
            yield point
            compared += point.compared
    yield from _tied(trial, seed)

    numbers = sorted(
        {abs(int(n)) for n in sympy.Tuple(trial.claim.left, trial.claim.right).atoms(sympy.Integer)} - {0, 1}
    )
    yield from _drawn(trial, product(sizes_about(trial.size_names, numbers), REGIMES[:1], flags_tried), seed, 0)


def is_in_pieces(claim: Claim) -> bool:
    """Whether a side, or a definition, takes its value by cases of values: boxes that overlap, ratios out of bounds."""
    return any(is_differentiable(symbol) for part in _pieces(claim) for symbol in symbols_of(part))


def is_rare(claim: Claim) -> bool:
    """Whether a few points may all miss what a claim says: it is in pieces, or compares with a number, [i < 3]."""
    numbers = (number for part in _pieces(claim) for number in part.atoms(sympy.Integer))
    return is_in_pieces(claim) or any(abs(number) > 1 for number in numbers)


def _pieces(claim: Claim) -> Iterator[Any]:
    behind = (definition.body for definition in claim.program.definitions)
    return (part for side in (claim.left, claim.right, *behind) for part in side.atoms(*PIECES))


def _tied(trial: Trial, seed: int) -> Iterator[Point]:
    """Points where inputs agree, or are 0 or 1."""
    sizes_tried, flags_tried = size_plan(trial.size_names), flag_settings(trial.needs)
    for turn in range(1 + TIE_POINTS // len(sizes_tried) if trial.needs.inputs else 0):
        yield from _drawn(trial, product(sizes_tried, (TIES,), flags_tried), seed, turn)


def _drawn(
    trial: Trial,
    plan: Iterable[tuple[dict[str, int], Regime, dict[str, bool]]],
    seed: int,
    turn: int,
    *,
    forced: bool = False,
) -> Iterator[Point]:
    """A point for each line of a plan, where its inputs have not too many entries."""
    for sizes, regime, flags in plan:
        try:
            yield Point(trial, trial.sample(sizes, flags, regime, seed, turn, inequalities=forced))
        except BudgetExceededError:
            continue


# ---------------------------------------------------------------------------------------------------------------------
# The second engine.


def confirm(claim: Claim, *, seed: int = 0) -> Confirmation:
    """Evaluate both sides of a proved claim at a few small sizes: exactly where possible, else in reals to 40 digits.

    Definitions are computed, not taken as opaque. A disagreement contradicts the proof; the caller raises the alarm.
    """
    trial = Trial(claim)
    try:
        return _confirmed(trial, prime_field(), seed)
    except UnsupportedError:
        return _confirmed(trial, reals(COARSE), seed)


def _confirmed(trial: Trial, field: Arithmetic, seed: int) -> Confirmation:
    """How many points the sides of a proved claim agree at, or the one where they do not, within a budget of work."""
    more_often = CONFIRM_COMPARED if any(map(is_bracket, (trial.claim.left, trial.claim.right))) else 1
    wanted = CONFIRM_SAMPLES * more_often
    points, samples, work, until = 0, 0, CONFIRM_WORK * more_often, time.thread_time() + CONFIRM_SECONDS
    flags_tried = flag_settings(trial.needs)
    plan = product(range(wanted), confirmation_sizes(trial.size_names), flags_tried)
    more = product(range(CONFIRM_SAMPLES), size_plan(trial.size_names), flags_tried)
    for turn, sizes, flags in chain(plan, (step for step in more if samples == 0)):
        if work <= 0 or (turn > 0 and samples >= wanted) or (samples == 0 and time.thread_time() > until):
            break
        for regime in REGIMES[:3]:  # the next one only where no position was compared with the last
            try:
                sample = trial.sample(sizes, flags, regime, seed, turn, inequalities=turn > 0 and samples == 0)
                arithmetic = field if sample.exact else reals(COARSE)
                environment = trial.at(sample, arithmetic, CONFIRM_LIMIT)
                agreed, disagreement = _compared(trial, sample, environment, arithmetic)
            except BudgetExceededError:
                break
            work -= CONFIRM_LIMIT - environment.work
            if disagreement is not None:
                masked = trial.rests_on_a_mask(sample, disagreement.position)
                return Confirmation(points + agreed, samples + 1, field.name, disagreement, masked)
            if agreed:
                points, samples = points + agreed, samples + 1
                break
    return Confirmation(points, samples, field.name)


def _compared(
    trial: Trial, sample: Sample, environment: Environment, field: Arithmetic
) -> tuple[int, Counterexample | None]:  # fmt: skip
    """How many positions agree, and the first that does not."""
    exact = isinstance(field, PrimeField)
    point = Point(trial, sample)
    conditions = point.coarse if exact and trial.claim.given else environment
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
        elif point.refuted(place) > 0:
            return agreed, point.counterexample(place)
        elif point.explained(place):
            agreed += 1
    return agreed, None

"""Contests: several ways to compute the same thing, compared in value and then in time, in one process and one run.

Between `benchmarks.attention` and its like, which say who competes, and the table. Every contender is run twice before
anything is timed, so that compilers have compiled and pools have started, and the values of all are compared: a time
for a wrong result is never shown. Then contenders take turns. Before a turn the process waits until the cores are idle:
workers of BLAS and OpenMP spin for some 20 ms after a product and would take a core from whoever comes next, and so
would another process. A turn is one run that is not timed, for the caches, and as many timed runs as fit in BURST
seconds; its time is their median. Each round goes through the contenders in another order.

The times in a row are medians over rounds. The ratio is the median over rounds of their time / our time in the same
round, so that a machine that changes its speed during the measurement changes no ratio.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

Run = Callable[[], Sequence[Any]]
Note = Callable[[str], None]

BURST = 0.02  # seconds of timed runs in one turn, at least one run
PAUSE = 0.03  # seconds before a turn: longer than idle workers of BLAS or OpenMP spin
PATIENCE = 0.3  # seconds that a turn waits at most for another process to finish, while there is time
LONG = 0.25  # seconds of a run above which it is not repeated for the caches
BUSY = 0.15  # share of the cores that others may use in a pause
ROUNDS = (3, 25)  # at least, at most


@dataclass(frozen=True)
class Row:
    """One comparison: their time divided by ours, and both, in milliseconds; None where there is no peer or no time.

    The rows of every benchmark begin so; what else one measures are further fields.
    """

    case: str
    target: str
    peer: str | None = None
    ratio: float | None = None
    ours_ms: float | None = None
    peer_ms: float | None = None


@dataclass(frozen=True)
class Contest:
    """What is computed, and who computes it: our targets and their peers, by name.

    Attributes:
        case: What is computed, with its sizes.
        targets: Ours; each returns its results, arrays of any library, in an order that all share.
        peers: Theirs, likewise.
        tolerance: How far two results may be apart, relative to the largest entry.
    """

    case: str
    targets: Mapping[str, Run]
    peers: Mapping[str, Run]
    tolerance: float


def compete(contests: Iterable[Contest], seconds: float, note: Note, limit: float = float("inf")) -> list[Row]:
    """The rows for all contests, each given so many seconds for its rounds, at least ROUNDS[0] of them.

    After `limit` seconds no other contest begins, and a note says so.

    Raises:
        RuntimeError: two contenders do not agree on the results.
    """
    started, before = _cores_used(), time.process_time()
    rows: list[Row] = []
    end = time.perf_counter() + limit
    for contest in contests:
        if time.perf_counter() > end:
            note(f"no time was left for {contest.case} and what follows")
            break
        contenders = {**contest.targets, **contest.peers}
        agree(contest.case, contenders, contest.tolerance)
        times = take_turns(contenders, seconds)
        rows += compared(contest, times)
        gc.collect()
    _note_neighbours(started, time.process_time() - before, note)
    return rows


def compared(contest: Contest, times: Mapping[str, Sequence[float]]) -> list[Row]:
    """A row for each target and peer, from the times of their turns."""
    return [
        Row(
            contest.case,
            target,
            peer,
            round(median(theirs / ours for theirs, ours in zip(times[peer], times[target], strict=True)), 3),
            round(1000 * median(times[target]), 4),
            round(1000 * median(times[peer]), 4),
        )
        for target in contest.targets
        for peer in contest.peers
    ]


# What is compared ---------------------------------------------------------------------------------------------------


def agree(case: str, contenders: Mapping[str, Run], tolerance: float) -> None:
    """Raises a RuntimeError unless all contenders return the same, up to the tolerance; runs each twice."""
    expected: list[np.ndarray[Any, Any]] = []
    first = ""
    for name, run in contenders.items():
        run()
        found = [as_numpy(value) for value in run()]
        if not first:
            first, expected = name, found
            continue
        if len(found) != len(expected):
            raise RuntimeError(f"{case}: {name} has {len(found)} results, {first} {len(expected)}")
        for number, (mine, other) in enumerate(zip(expected, found, strict=True)):
            apart = difference(mine, other)
            if not apart <= tolerance:
                raise RuntimeError(
                    f"{case}: result {number} of {name} and of {first} are {apart:.1e} of the largest entry apart, "
                    f"expected at most {tolerance:.1e}; a benchmark of wrong results means nothing"
                )


def difference(mine: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """The largest difference of two arrays relative to the largest entry; infinite for other shapes or types."""
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return float("inf")
    return float(np.max(np.abs(mine - other), initial=0)) / (float(np.max(np.abs(mine), initial=0)) or 1.0)


def as_numpy(value: Any) -> np.ndarray[Any, Any]:
    """An array of any of the libraries as NumPy's."""
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


# How long it takes --------------------------------------------------------------------------------------------------


def take_turns(contenders: Mapping[str, Run], seconds: float) -> dict[str, list[float]]:
    """The seconds of each contender's turns, one in each round."""
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    for number in range(ROUNDS[1]):
        if number >= ROUNDS[0] and time.perf_counter() > end:
            break
        first = number % len(names)
        for name in names[first:] + names[:first]:
            settle(PATIENCE if time.perf_counter() < end else 0.0)
            last = times[name][-1] if times[name] else 0.0
            times[name].append(turn(contenders[name], warm=last < LONG))
    return times


def turn(run: Run, warm: bool = True) -> float:
    """The median of the timed runs of one turn, in seconds."""
    if warm:
        run()
    times: list[float] = []
    while sum(times) < BURST:
        started = time.perf_counter()
        results = run()
        times.append(time.perf_counter() - started)
        del results
    return median(times)


def settle(patience: float) -> None:
    """Waits until the cores are idle: at least PAUSE seconds, and at most so many longer."""
    end = time.perf_counter() + patience
    while True:
        before = _cores_used()
        time.sleep(PAUSE)
        after = _cores_used()
        if before is None or after is None or time.perf_counter() > end:
            return
        if after[0] - before[0] <= BUSY * (after[1] - before[1]):
            return


def _cores_used() -> tuple[float, float] | None:
    """Seconds for which all cores together have worked, and have been there; None where the system does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    tick = os.sysconf("SC_CLK_TCK")
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / tick, sum(ticks) / tick


def _note_neighbours(started: tuple[float, float] | None, own: float, note: Note) -> None:
    """Says so when other processes had a good part of the cores, for then the figures are not to be relied upon."""
    ended = _cores_used()
    if started is None or ended is None or ended[1] <= started[1]:
        return
    others = (ended[0] - started[0] - own) / (ended[1] - started[1])
    if others > 0.05:
        note(f"other processes used {others:.0%} of all cores during the measurement; repeat it on an idle machine")

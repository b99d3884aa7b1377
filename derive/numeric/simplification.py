"""Making a counterexample simple to read without letting anything hide in it.

Part of the numeric side, between `derive.numeric.trial` (a claim at a point) and `derive.refutation`, which hands over
the first point where the two sides differ. What the search draws is generic but untidy: 7/5, -11/8. Here the real
inputs are drawn once more from palettes of small numbers, integers first where there are few, and the neatest draft
that still shows the difference is kept.

A draft is as generic as what it replaces. No entry is 0, 1 or -1, so that no factor and no power can hide; the entries
of one input are distinct in magnitude (a large one uses the same few in each row, and differs from row to row), so that
no axis and no upstream gradient is constant; no two inputs have the same entries, so that exchanged tensors show, and
where there are few entries all are distinct. Beyond four letters the search uses some size twice; a last draft has
all sizes distinct.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import count, groupby, islice, product
from math import gcd

from derive.errors import BudgetExceededError
from derive.numeric.sampling import REGIMES, Path, Sample, entries, with_entry
from derive.numeric.trial import SEARCH_LIMIT, Place, Point, Trial

__all__ = ["simplified"]

CLEAR = 1e-2  # a simpler draft may not make the difference smaller than this, neither relatively nor absolutely
DRAFTS = 3  # how often each palette is drawn from
WORK, TRY = 40_000, 200  # terms to sum for drafts altogether; what a draft costs besides
DISTINCT_LIMIT = 4_000  # terms to sum at a point with distinct sizes, where the search had too many letters for that
MOST = 400  # a point with more entries is not read by anybody, and left as it is
FEW = 8  # with at most so many entries in all inputs together, all of them are distinct
LARGE = 6  # an input with more entries than this uses numbers again, so that they stay small
SPARE = 2  # numbers to choose among beyond those needed
AVOIDED = frozenset(map(Fraction, (0, 1, -1)))

Gap = tuple[float, float]  # a relative and an absolute difference


def simplified(point: Point, place: Place, seed: int) -> Point:
    """The simplest draft of the point that differs at `place` as clearly, or the point itself."""
    trial = point.trial
    if len(list(entries(point.sample))) > MOST:
        return point
    relative, absolute = point.gap(point.coarse, place)
    least = min(relative, CLEAR), min(absolute, CLEAR)
    best, work = point, WORK
    for draft in _drafts(point.sample, trial, seed):
        if work <= 0:
            break
        made = Point(trial, trial.met(draft))
        if not _is_generic(made.sample) and _is_generic(point.sample):
            continue
        if _shows(made, place, least):
            best = made
            break
        work -= TRY + SEARCH_LIMIT - made.coarse.work
    return _with_distinct_sizes(best, place, least, seed)


def _with_distinct_sizes(point: Point, place: Place, least: Gap, seed: int) -> Point:
    """The point with every size different, where the search had too many letters for that; or the point itself."""
    trial, sizes = point.trial, point.sample.sizes
    distinct = {name: number for number, name in enumerate(sizes, start=2)}
    larger = all(distinct[name] >= size > 1 for name, size in sizes.items())
    if len(set(sizes.values())) == len(sizes) or not larger:
        return point
    flags = {name: value for name, value in point.sample.inputs.items() if isinstance(value, bool)}
    for draft in islice(_drafts(trial.sample(distinct, flags, REGIMES[0], seed), trial, seed), DRAFTS):
        made = Point(trial, trial.met(draft), DISTINCT_LIMIT)
        if _shows(made, place, least):
            return made
    return point


def _shows(point: Point, place: Place, least: Gap) -> bool:
    """Whether the sides differ at the place by at least so much, and the difference stands."""
    try:
        relative, absolute = point.gap(point.coarse, place)
        return relative >= least[0] and absolute >= least[1] and point.refuted(place) > 0
    except BudgetExceededError:
        return False


def _is_generic(sample: Sample) -> bool:
    return not any(value in AVOIDED for _, _, value in entries(sample))


# ---------------------------------------------------------------------------------------------------------------------
# Drafts.


def _integers() -> Iterator[Fraction]:
    """2, 3, 4, 5, ..."""
    return map(Fraction, count(2))


def _simple() -> Iterator[Fraction]:
    """2, 1/2, 3, 1/3, 4, 3/2, 2/3, 1/4, ... : around 1, so that neither sums grow nor exponentials saturate."""
    for total in count(3):
        yield from (Fraction(total - below, below) for below in range(1, total) if gcd(total, below) == 1)


def _parts() -> Iterator[Fraction]:
    """1/2, 1/3, 2/3, 1/4, 3/4, ... : where log(1 - x) has a value."""
    return (Fraction(above, below) for below in count(2) for above in range(1, below) if gcd(above, below) == 1)


Palette = tuple[Callable[[], Iterator[Fraction]], bool]  # magnitudes, simplest first, and whether signs are mixed
SIMPLE, PARTS, POSITIVE_PARTS, INTEGERS = (_simple, True), (_parts, True), (_parts, False), (_integers, True)


def _drafts(sample: Sample, trial: Trial, seed: int) -> Iterator[Sample]:
    """The sample with its real entries drawn from each palette in turn, a few times."""
    owned: dict[str, list[Path]] = {}
    for name, path, _ in entries(sample):
        owned.setdefault(name, []).append(path)
    few = sum(map(len, owned.values())) <= FEW
    palettes = (INTEGERS, SIMPLE, PARTS, POSITIVE_PARTS) if few else (SIMPLE, PARTS, POSITIVE_PARTS, INTEGERS)
    for (number, palette), turn in product(enumerate(palettes), range(DRAFTS)):
        generator = random.Random(f"{seed} {number} {turn}")
        yield with_entry(sample, _drawn(owned, trial.positive, palette, generator))


def _drawn(
    owned: dict[str, list[Path]], positive: frozenset[str], palette: Palette, generator: random.Random
) -> dict[tuple[str, Path], Fraction]:
    """A number from the palette for every entry: other magnitudes within a row of an input, and no two inputs alike."""
    magnitudes, signed = palette
    total = sum(map(len, owned.values()))
    found: dict[tuple[str, Path], Fraction] = {}
    drawn: list[Sequence[Fraction]] = []
    for name, paths in owned.items():
        taken = set(map(abs, found.values())) if total <= FEW else set()
        rows = [len(list(row)) for _, row in groupby(paths, key=lambda path: path[:-1])]
        spare = SPARE
        while True:
            free = (number for number in magnitudes() if number not in taken)
            pool = list(islice(free, max(min(len(paths), LARGE), *rows) + spare))
            chosen = generator.sample(pool, len(paths)) if len(paths) <= LARGE else _in_rows(pool, rows, generator)
            if chosen not in drawn:
                break
            spare += 1
        drawn.append(chosen)
        mixed = signed and name not in positive
        values = [-number if mixed and generator.random() < 0.5 else number for number in chosen]
        found.update(zip(((name, path) for path in paths), values, strict=True))
    return found


def _in_rows(pool: Sequence[Fraction], rows: Sequence[int], generator: random.Random) -> list[Fraction]:
    """Numbers for a large table, row by row: distinct in a row, and in no place the same as in the row before."""
    found: list[Fraction] = []
    before: list[Fraction] = []
    for length in rows:
        row = generator.sample(pool, length)
        while any(new == old for new, old in zip(row, before, strict=False)):
            row = generator.sample(pool, length)
        found += row
        before = row
    return found

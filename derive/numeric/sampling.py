"""Points to try a claim at: small sizes, and generic inputs of a few digits.

Part of the numeric side, between `derive.evaluation` (which runs at a point) and `derive.refutation` (which decides
what a value means). A point is chosen so that a mistake cannot hide in it: sizes are distinct where possible, so that
a transpose shows; inputs are distinct and none is 0 or 1, so that a missing factor or term shows; flags are tried both
ways. The order is from simple to odd: small distinct sizes and numbers of ordinary magnitude come first, sizes of 1,
equal sizes and extreme magnitudes later, and last of all inputs that agree or are 0. All choices are drawn from a
seeded generator, the same in every run.

Inputs keep what is declared about them (positive, integer, indices below their extent, lengths at least 1);
`derive.numeric.conditions` moves them to where the equalities among a claim's conditions hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any

import sympy
from sympy import Expr, Indexed

from derive.binders import free_indices
from derive.errors import BudgetExceededError, StatementError
from derive.evaluation import Needs
from derive.language import Dim, Flag, Index, Lengths, Scalar, Tensor

__all__ = [
    "REGIMES",
    "TIES",
    "Regime",
    "Sample",
    "approximate",
    "confirmation_sizes",
    "draw",
    "entries",
    "flag_settings",
    "is_positive",
    "size_plan",
    "sizes_about",
    "with_entry",
]

Path = tuple[int, ...]
LARGEST_SPECIAL, MOST_SPECIAL = 40, 40  # sizes that are tried for the numbers in a claim, and how many assignments
MOST_ENTRIES = 4_000  # of one input
LARGEST_POOL = 1_000  # of numbers to choose from, where fewer will do


@dataclass(frozen=True)
class Sample:
    """A point: a number for each size, and for each input a number, a truth value or a nested tuple of numbers.

    It is not `exact` where an entry is a root that is known to many digits.
    """

    sizes: Mapping[str, int]
    inputs: Mapping[str, Any]
    exact: bool = True


# ---------------------------------------------------------------------------------------------------------------------
# Sizes.


def size_plan(names: Sequence[str]) -> list[dict[str, int]]:
    """Assignments of sizes to try, in order: distinct ones from 2 up, then with a 1, then equal ones.

    Up to four letters all sizes are distinct. Beyond that they would cost too much, and two assignments do: letters
    with equal sizes in the first have different sizes in the second (for up to nine letters).
    """
    count = len(names)
    if count == 0:
        return [{}]
    if count == 1:
        return [{names[0]: size} for size in (2, 3, 4, 1, 5, 7)]
    if count <= 4:
        small = list(range(2, count + 2))
        rows = [small, small[::-1], *(small[turn:] + small[:turn] for turn in range(1, min(count, 3)))]
        rows.append([size + 1 for size in small])
    else:
        small = [2 + place % 3 for place in range(count)]
        rows = [small, [2 + (place + place // 3) % 3 for place in range(count)], small[::-1]]
    rows += [[size - 1 for size in small], [size - 1 for size in reversed(small)]]
    rows += [[2] * count, [3] * count, [1] * count]
    plan: list[dict[str, int]] = []
    for row in rows:
        sizes = dict(zip(names, row, strict=True))
        if sizes not in plan:
            plan.append(sizes)
    return plan


def sizes_about(names: Sequence[str], numbers: Sequence[int]) -> list[dict[str, int]]:
    """Assignments with one size at, or next to, a number that a claim mentions: [T > 8] is 1 for some T."""
    near = sorted({number + by for number in numbers for by in (-1, 0, 1) if 1 < number + by <= LARGEST_SPECIAL})
    return [{**dict.fromkeys(names, 2), name: size} for size in near for name in names][:MOST_SPECIAL]


def confirmation_sizes(names: Sequence[str]) -> list[dict[str, int]]:
    """The assignments that a proved claim is evaluated at: distinct sizes twice, with a size of 1, and all equal."""
    plan = size_plan(names)
    if len(names) < 2:
        return plan[:4]
    with_one = next(sizes for sizes in plan if 1 in sizes.values() and max(sizes.values()) > 1)
    return [plan[0], plan[1], with_one, dict.fromkeys(names, 2)]


# ---------------------------------------------------------------------------------------------------------------------
# Numbers.


@dataclass(frozen=True)
class Regime:
    """A range that the real inputs are drawn from: their magnitudes, whether signs are mixed, and whether any agree."""

    name: str
    low: Fraction
    high: Fraction
    signed: bool
    tied: bool = False


REGIMES: tuple[Regime, ...] = (
    Regime("ordinary", Fraction(1, 4), Fraction(3), True),
    Regime("positive", Fraction(1, 4), Fraction(3), False),
    Regime("unit interval", Fraction(1, 10), Fraction(9, 10), False),
    Regime("large", Fraction(3), Fraction(12), True),
    Regime("small", Fraction(1, 200), Fraction(1, 10), True),
)
TIES = Regime("ties", Fraction(0), Fraction(2), True, tied=True)  # where [x > y] and [x >= y] differ
TIED = (Fraction(0), Fraction(1), Fraction(2))


def simple_fractions(low: Fraction, high: Fraction, count: int) -> tuple[Fraction, ...]:
    """The `count` simplest fractions from low to high, without 1, by the sum of numerator and denominator."""
    return _at_least(low, high, 1 << count.bit_length())[:count]  # few lists for all the counts that are asked for


@lru_cache(maxsize=64)
def _at_least(low: Fraction, high: Fraction, count: int) -> tuple[Fraction, ...]:
    found: list[Fraction] = []
    total = 3
    while len(found) < count:
        found += [
            Fraction(total - below, below)
            for below in range(1, total)
            if gcd(total, below) == 1 and low <= Fraction(total - below, below) <= high
        ]
        total += 1
    return tuple(found)


# ---------------------------------------------------------------------------------------------------------------------
# Inputs.


def flag_settings(needs: Needs) -> list[dict[str, bool]]:
    """All settings of the flags, beyond three flags only those where all or all but one agree."""
    names = [str(known.name) for known in needs.inputs if isinstance(known, Flag)]
    if len(names) <= 3:
        return [dict(zip(names, values, strict=True)) for values in product((False, True), repeat=len(names))]
    uniform = [dict.fromkeys(names, value) for value in (False, True)]
    return uniform + [{**setting, name: not setting[name]} for setting in uniform for name in names]


def draw(
    needs: Needs, sizes: Mapping[str, int], flags: Mapping[str, bool], regime: Regime, seed: str, variety: int = 1
) -> Sample:
    """A point at the given sizes and flags; the same for the same seed.

    The numbers are the simplest that give distinct entries, or a choice among `variety` times as many.
    """
    generator = random.Random(seed)
    inputs: dict[str, Any] = dict(flags)
    tensors = [known for known in needs.inputs if isinstance(known, Tensor)]
    for tensor in tensors:
        if isinstance(tensor, Lengths):
            inputs[str(tensor.name)] = _table(tensor, sizes, inputs, _lengths(generator, variety))
    for tensor in tensors:  # after the lengths, which their shapes may depend on
        if tensor.into is not None:
            inputs[str(tensor.name)] = _table(tensor, sizes, inputs, _below(generator, tensor, sizes, inputs))
    real = [known for known in needs.inputs if str(known.name) not in inputs and not isinstance(known, Flag)]
    real = [known for known in real if not (isinstance(known, Scalar) and known.is_integer)]
    numbers = _numbers(generator, regime, sum(_count(known, sizes, inputs) for known in real), variety)
    for known in needs.inputs:
        name = str(known.name)
        if isinstance(known, Scalar) and known.is_integer:
            whole = generator.choice((2, 3, 4, 5))
            negative = not known.is_positive and regime.signed and generator.random() < 0.25
            inputs[name] = -whole if negative else whole
        elif isinstance(known, Scalar):
            inputs[name] = next(numbers)
        elif isinstance(known, Tensor) and name not in inputs:
            inputs[name] = _table(known, sizes, inputs, lambda _at: next(numbers))
        if name in inputs and is_positive(known) and not isinstance(known, Lengths):
            inputs[name] = _mapped(inputs[name], lambda number: abs(number) or Fraction(1))
    return Sample(dict(sizes), {str(known.name): inputs[str(known.name)] for known in needs.inputs})


def is_positive(known: Tensor | Scalar | Flag) -> bool:
    """Whether an input is declared positive."""
    return known.positive if isinstance(known, Tensor) else bool(known.is_positive)


def _numbers(generator: random.Random, regime: Regime, count: int, variety: int) -> Iterator[Fraction]:
    least = max(8, count + count // 2)
    pool = simple_fractions(regime.low, regime.high, max(least, min(variety * least, LARGEST_POOL)))
    for number in generator.choices(TIED, k=count) if regime.tied else generator.sample(pool, count):
        yield -number if regime.signed and generator.random() < 0.5 else number


def _lengths(generator: random.Random, variety: int) -> Callable[[Path], int]:
    order = (2, 3, 1, 4) if variety == 1 else tuple(generator.sample((2, 3, 1, 4), 4))
    return lambda at: order[sum(at) % 4]


def _below(
    generator: random.Random, tensor: Tensor, sizes: Mapping[str, int], inputs: Mapping[str, Any]
) -> Callable[[Path], int]:  # fmt: skip
    bound = _extent(tensor.into, {}, (), sizes, inputs, min)
    lowest = 1 if tensor.positive and bound > 1 else 0
    return lambda _at: generator.randrange(lowest, bound)


def _extent(
    extent: Expr, at: Mapping[Index, int], path: Path, sizes: Mapping[str, int], inputs: Mapping[str, Any],
    bound: Callable[[list[int]], int] = max,
) -> int:  # fmt: skip
    """The number an extent stands for at an entry's path; of a ragged range that this leaves open, the largest."""
    if isinstance(extent, Dim):
        return sizes[str(extent.name)]
    if isinstance(extent, sympy.Integer):
        return int(extent)
    if isinstance(extent, sympy.Add):  # T + 1
        return sum(_extent(part, at, path, sizes, inputs) for part in extent.args)
    if isinstance(extent, Lengths):  # a ragged axis: its extent depends on the axes just before it
        where: list[int | None] = list(path[len(path) - len(extent.shape) :])
    elif isinstance(extent, Indexed):
        where = [int(part) if isinstance(part, sympy.Integer) else at.get(part) for part in extent.indices]
    else:
        raise StatementError(f"extent {extent}: expected a size, an integer or an entry of lengths(...)")
    table = inputs[str((extent if isinstance(extent, Lengths) else extent.base).name)]
    if None in where:
        return bound([int(number) for _, number in _leaves(table)])
    for place in where:
        table = table[place]
    return int(table)


def _table(tensor: Tensor, sizes: Mapping[str, int], inputs: Mapping[str, Any], entry: Callable[[Path], Any]) -> Any:
    """A nested tuple of the tensor's shape; an axis of extent T[n] follows the first earlier axis that n runs over.

    Raises:
        BudgetExceededError: it has too many entries.
    """
    shape, plain = tensor.shape, _plain_sizes(tensor, sizes, inputs)
    if len(plain) == len(shape):
        return _of_shape(plain, entry, ())
    named = sorted(set().union(*map(free_indices, shape)), key=str)

    def build(at: dict[Index, int], path: Path) -> Any:
        if len(path) == len(shape):
            return entry(path)
        size = shape[len(path)]
        follows = next((index for index in named if index.extent == size and index not in at), None)
        return tuple(
            build(at if follows is None else {**at, follows: place}, (*path, place))
            for place in range(_extent(size, at, path, sizes, inputs))
        )

    return build({}, ())


def _plain_sizes(tensor: Tensor, sizes: Mapping[str, int], inputs: Mapping[str, Any]) -> tuple[int, ...]:
    """The sizes of the axes that are not ragged.

    Raises:
        BudgetExceededError: they make too many entries, for a fixed size may be beyond all bounds.
    """
    plain = tuple(_extent(size, {}, (), sizes, inputs) for size in tensor.shape if not size.has(Lengths))
    if prod(plain) > MOST_ENTRIES:
        raise BudgetExceededError(f"evaluation: {tensor.name} has {prod(plain)} entries at this point")
    return plain


def _of_shape(shape: tuple[int, ...], entry: Callable[[Path], Any], path: Path) -> Any:
    if not shape:
        return entry(path)
    return tuple(_of_shape(shape[1:], entry, (*path, place)) for place in range(shape[0]))


def _count(known: Any, sizes: Mapping[str, int], inputs: Mapping[str, Any]) -> int:
    plain = _plain_sizes(known, sizes, inputs) if isinstance(known, Tensor) else ()
    if not isinstance(known, Tensor) or len(plain) == len(known.shape):
        return prod(plain)
    return sum(1 for _ in _leaves(_table(known, sizes, inputs, lambda _at: 0)))


def _mapped(table: Any, change: Callable[[Any], Any]) -> Any:
    return tuple(_mapped(row, change) for row in table) if isinstance(table, tuple) else change(table)


def _leaves(table: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(table, tuple):
        for place, row in enumerate(table):
            yield from _leaves(row, (*path, place))
    else:
        yield path, table


def entries(sample: Sample) -> Iterator[tuple[str, Path, Fraction]]:
    """The real entries of all inputs: name, position, value."""
    for name, table in sample.inputs.items():
        for path, value in _leaves(table):
            if isinstance(value, Fraction):
                yield name, path, value


def approximate(sample: Sample) -> Sample:
    """The sample, marked as one that meets a condition to many digits only."""
    return replace(sample, exact=False)


def with_entry(sample: Sample, changes: Mapping[tuple[str, Path], Fraction]) -> Sample:
    """The sample with some real entries replaced."""
    inputs = dict(sample.inputs)
    owned: dict[str, dict[Path, Fraction]] = {}
    for (name, path), value in changes.items():
        owned.setdefault(name, {})[path] = value
    for name, own in owned.items():
        inputs[name] = _changed(inputs[name], own)
    return replace(sample, inputs=inputs)


def _changed(table: Any, changes: Mapping[Path, Fraction], path: Path = ()) -> Any:
    if isinstance(table, tuple):
        return tuple(_changed(row, changes, (*path, place)) for place, row in enumerate(table))
    return changes.get(path, table)

"""In which order a product of several arrays is summed: the cheapest sequence of pairwise steps, and what it costs.

Used where terms are compared (`codegen.algebra.estimates`) and where they are lowered
(`codegen.lowering.contractions`), so that what is counted is what is generated. A step multiplies two arrays and sums
the indices that no other array has. With something of its own on each side it is a matrix product; otherwise it is one
pass over the larger array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from codegen.algebra.costs import BYTES, FREE, Cost, Sizes, entries
from derive.language import Index

EXHAUSTIVE = 5  # arrays whose orders are all tried; of more, the cheapest next step is taken

Axes = frozenset[Index]


@dataclass(frozen=True)
class Order:
    """Pairs of places, each pair replaced by its product at the end of the list; and the cost of all steps."""

    pairs: tuple[tuple[int, int], ...]
    cost: Cost


def cheapest(arrays: Sequence[Axes], over: Axes, sizes: Sizes) -> Order:
    """The cheapest order for the arrays with the given indices, summed over `over`."""
    return _cheapest(tuple(arrays), over, tuple(sorted(sizes.items())))


@lru_cache(maxsize=20_000)
def _cheapest(arrays: tuple[Axes, ...], over: Axes, known: tuple[tuple[str, int], ...]) -> Order:
    """The cheapest order at these sizes: among all where the arrays are few, else by the cheapest next step."""
    sizes = dict(known)
    if len(arrays) == 1:
        return Order((), reduced(arrays[0], arrays[0] & over))
    pairs = list(combinations(range(len(arrays)), 2))
    steps = {pair: _step(arrays, pair, over) for pair in pairs}
    if len(arrays) > EXHAUSTIVE:
        pairs = [min(pairs, key=lambda pair: (steps[pair][1].at(sizes), pair))]
    best: Order | None = None
    for pair in pairs:
        result, cost = steps[pair]
        if len(arrays) > 2:  # the result is stored, and read in a later step
            cost = cost + stored(result)
        left = (*(axes for place, axes in enumerate(arrays) if place not in pair), result)
        rest = _cheapest(left, over, known) if len(left) > 1 else Order((), FREE)
        found = Order((pair, *rest.pairs), cost + rest.cost)
        if best is None or found.cost.at(sizes) < best.cost.at(sizes):
            best = found
    return best or Order((), FREE)


def _step(arrays: Sequence[Axes], pair: tuple[int, int], over: Axes) -> tuple[Axes, Cost]:
    """The indices of the product of two of the arrays, and what it costs."""
    first, second = (arrays[place] for place in pair)
    others = frozenset().union(*(axes for place, axes in enumerate(arrays) if place not in pair))
    done = (over & (first | second)) - others
    cost = FREE
    for one, other in ((first, second), (second, first)):
        cost = cost + reduced(one, (one & done) - other)
    first, second = first - (done - second), second - (done - first)
    summed = done & first & second
    result = (first | second) - summed
    return result, cost + multiplied(first, second, summed)


def stored(axes: Axes) -> Cost:
    """The cost of an array between two steps: it is written and read."""
    return Cost(bytes=entries(axes).times(2 * BYTES))


def reduced(axes: Axes, over: Axes) -> Cost:
    """The cost of summing an array over some of its indices, less that of storing the result."""
    if not over:
        return FREE
    return Cost(passes=entries(axes), bytes=entries(axes).times(BYTES))


def multiplied(first: Axes, second: Axes, summed: Axes) -> Cost:
    """The cost of the product of two arrays, summed over indices of both, less that of storing the result."""
    work = entries(first | second)
    moved = (entries(first) + entries(second)).times(BYTES)
    if summed and first - second and second - first:
        return Cost(products=work.times(2), bytes=moved)
    return Cost(passes=work, bytes=moved)


def scaled_place(operands: Sequence[Sequence[Index]], result: Sequence[Index], sizes: Sizes) -> int | None:
    """Which operand of a product of arrays a number is best multiplied into; None for the result.

    Never the widest of the arrays. Of the others the one with its rows, the first indices that not all of them have:
    a loop over blocks of rows then scales a block at a time, and nothing twice. Of several the smallest.
    """
    arrays = [tuple(result), *map(tuple, operands)]
    amounts = [entries(axes).at(sizes) for axes in arrays]
    widest = arrays[amounts.index(max(amounts))]
    common = frozenset.intersection(*map(frozenset, arrays))
    rows = [index for index in widest if index not in common]

    def rank(place: int) -> tuple[int, int, int]:
        first = min((rows.index(index) for index in arrays[place] if index in rows), default=len(rows))
        return first, amounts[place], place

    candidates = [place for place, amount in enumerate(amounts) if amount < max(amounts)] or [0]
    best = min(candidates, key=rank)
    return best - 1 if best else None

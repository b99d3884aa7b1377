"""The order of the axes of a part: what a reader who gave it a name would have chosen.

For `codegen.algebra.parts`. A part has its indices from the arrays that it reads, and is laid out for what is done with
it: leading indices first, then stacks of matrices, then their rows and columns. Queries and keys of several heads,

    q[n, i, g, r, a] = Sum(W_Q[g, r, a, c]*x[n, i, c], c)             rows i of entries g, r, a
    s[n, g, r, i, j] = Sum(q[n, i, g, r, a]*k[n, j, g, a], a)         matrices of i and j: one for each n, g, r

An index that a weight brings in, as r, counts heads where there are rows beside it, and columns where there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Indexed

from derive.language import Index

Places = tuple[Any, ...]
HEADS, ROWS, COLUMNS = range(3)


def laid_out(expression: Any, part: Any, free: Sequence[Index], around: Sequence[Index]) -> tuple[Index, ...]:
    """The free indices of a part as axes; `expression` is the part with no names in it, `around` what is in scope.

    They have the order of an array that has them all, if the part reads one. Otherwise leading ones come first, then
    those that every array has, as the matrices of a stack. Then come, of one set of examples, those beside a leading
    index: rows of examples, whatever is summed around them. Of a product of two sets they are heads, rows, columns.
    Among equals outer ones come first.
    """
    arrays = _arrays(part)
    whole = next((places for places in arrays if set(free) <= set(places)), None)
    if whole is not None:
        return tuple(sorted(free, key=lambda index: (not index.leading, whole.index(index))))
    shared = set(free).intersection(*arrays)
    rest = [index for index in free if not index.leading and index not in shared]
    if sum(any(map(is_leading, places)) for places in arrays) > 1:
        place = _place_in_product(arrays, rest, _rows(_arrays(expression)), around)
    else:
        rows = _rows(arrays)
        place = {index: (index not in rows, around.index(index)) for index in rest}
    return tuple(sorted(free, key=lambda i: (not i.leading, i not in shared, place.get(i, (0, around.index(i))))))


def _place_in_product(
    arrays: Sequence[Places], rest: Sequence[Index], rows: set[Index], around: Sequence[Index]
) -> dict[Index, tuple[int, ...]]:
    """For each index that not every factor has, whether it counts heads, rows or columns, and where among these.

    What one factor brings in keeps its order there. What is but compared, as k in [a <= k], counts heads.
    """
    found: dict[Index, tuple[int, ...]] = {}
    for index in rest:
        side = next((places for places in arrays if index in places), None)
        if side is None:
            found[index] = HEADS, around.index(index)
            continue
        own = [other for other in rest if other in side]
        kind = ROWS if index in rows else HEADS if rows.intersection(own) else COLUMNS
        found[index] = kind, min(map(around.index, own)), side.index(index)
    return found


def _arrays(expression: Any) -> list[Places]:
    return sorted((read.indices for read in expression.atoms(Indexed)), key=str)


def _rows(arrays: Sequence[Places]) -> set[Index]:
    """What stands beside a leading index."""
    return {index for places in arrays if any(map(is_leading, places)) for index in places if not is_leading(index)}


def is_leading(place: Any) -> bool:
    """Whether it is an index that stands for any number of leading axes."""
    return isinstance(place, Index) and place.leading

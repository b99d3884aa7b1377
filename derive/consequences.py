"""What follows from equations by an inverse: A Y = R and B A = 1 say that A B = 1 and that Y = B R.

Between `derive.prove`, which asks when cheap attempts have not led to a proof, and `derive.statements`. An equation
whose right side is a delta and whose left side is a sum of two factors, Sum(B[i, k] A[k, j], k) = delta(i, j), says
that one factor undoes the other. Where all three indices have one extent it does so from the other side as well, A B =
1. Any other equation with a free index may be multiplied by a factor at that index and summed: both sides stay equal,
and where the other factor is met a delta is left, which the normal form contracts. So the differential of an inverse,
and the solution of a linear system, are solved for. The equations are meant for all values of their indices, so what is
made of them holds for all values as well.

SOUND: a square matrix that another one undoes from one side has full rank, and is undone by it from the other side too.
A symmetric matrix may be read the other way round, and so its inverse turns out to be symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Eq, Expr, Indexed, KroneckerDelta, Mul

from derive.binders import all_names, free_indices, fresh_index, substitute, symbols_of
from derive.language import Index, Sum
from derive.wellformed import is_equation


@dataclass(frozen=True)
class Factor:
    """A factor of an inverse: its entry, the index that is summed over, the one that is left, and the other factor."""

    entry: Expr
    inner: Index
    outer: Index
    partner: Any


def solved_by_inverses(conditions: Sequence[Any]) -> Iterator[list[Any]]:
    """The conditions with some more that follow: an inverse from the other side, then an equation multiplied by one.

    What says so comes first, then what follows, then the others: an equation that is used before what follows from it
    would leave nothing of that.
    """
    equations = [known for known in conditions if is_equation(known) and isinstance(known, Eq)]
    others = {equation: other for equation in equations if (other := _from_the_other_side(equation)) is not None}
    units = {known: known for known in equations if any(_factors(known))}
    units |= {other: equation for equation, other in others.items()}
    symmetric = {known.lhs.base for known in equations if _is_symmetry(known)}
    units |= {turned: turned for known in list(units) for turned in _turned(known, symmetric)}
    if others:
        yield list(dict.fromkeys([*units, *conditions]))
    tried: set[Any] = set(equations)
    for source, stated in units.items():
        for factor in _factors(source):
            for equation in (known for known in equations if known != stated and factor.partner in symbols_of(known)):
                for index in sorted(free_indices(equation), key=str):
                    new = _multiplied(equation, factor, index) if index.extent == factor.inner.extent else None
                    if not isinstance(new, Eq) or new in tried:
                        continue
                    tried.add(new)
                    yield list(dict.fromkeys([source, new, *units, *conditions]))


def _is_symmetry(equation: Eq) -> bool:
    """Whether an equation says that a matrix is its own transpose: at all positions, not at S[i, 0] = S[0, i] alone."""
    one, other = equation.args
    if not (isinstance(one, Indexed) and isinstance(other, Indexed) and one.base == other.base):
        return False
    anywhere = all(isinstance(index, Index) for index in one.indices) and len(set(one.indices)) == 2
    return anywhere and len(one.indices) == 2 and one.indices == other.indices[::-1]


def _turned(equation: Eq, symmetric: set[Any]) -> Iterator[Eq]:
    """The equation with one of its factors, a symmetric matrix, read the other way round."""
    for factor in _factors(equation):
        if isinstance(factor.entry, Indexed) and factor.entry.base in symmetric:
            turned = factor.entry.base[factor.entry.indices[::-1]]
            yield Eq(*(side.xreplace({factor.entry: turned}) for side in equation.args))


def _factors(equation: Eq) -> Iterator[Factor]:
    """The two factors of an equation that says that one undoes the other; none for any other equation."""
    for total, unit in (equation.args, equation.args[::-1]):
        if not isinstance(unit, KroneckerDelta) or not isinstance(total, sympy.Sum) or len(total.limits) != 1:
            continue
        inner, parts = total.limits[0][0], Mul.make_args(total.function)
        if len(parts) != 2 or not all(isinstance(part, Indexed) for part in parts):
            continue
        for entry, other in (parts, parts[::-1]):
            outer = [index for index in unit.args if index in free_indices(entry) and index not in free_indices(other)]
            if len(outer) == 1 and inner in free_indices(entry) & free_indices(other):
                yield Factor(entry, inner, outer[0], other.base)


def _from_the_other_side(equation: Eq) -> Eq | None:
    """A B = 1 for an equation that says B A = 1 of square matrices; None for any other."""
    factors = list(_factors(equation))
    if len(factors) != 2 or any(factor.outer.extent != factor.inner.extent for factor in factors):
        return None
    one, other = factors
    taken = set(all_names(sympy.Tuple(*equation.args)))
    left = fresh_index(one.outer, taken)
    right = fresh_index(other.outer, {*taken, left.name})
    middle = fresh_index(one.inner, {*taken, left.name, right.name})
    entries = (
        substitute(one.entry, {one.outer: middle, one.inner: right}),
        substitute(other.entry, {other.inner: left, other.outer: middle}),
    )
    return Eq(Sum(entries[0] * entries[1], middle), KroneckerDelta(left, right))


def _multiplied(equation: Eq, factor: Factor, index: Index) -> Any:
    """The equation times a factor, summed over one of its indices."""
    place = fresh_index(factor.outer, set(all_names(sympy.Tuple(*equation.args, factor.entry))))
    by = substitute(factor.entry, {factor.inner: index, factor.outer: place})
    return Eq(*(Sum(by * side, index) for side in equation.args))

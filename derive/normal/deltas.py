"""Kronecker's delta: which of its sides is eliminated, and what it is where the two can be told apart, or not.

Part of the normal form. A delta between computed positions is solved for an index. In a range of a few positions the
last one is where the index is at none of the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.normal import ranges
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNITY,
    ZERO,
    Atom,
    Delta,
    Fixed,
    Place,
    Polynomial,
    Rational,
    Var,
    from_atom,
    position,
    total,
    value_of,
)

SHORT = 4  # the longest range of known length whose positions are looked at one by one


def delta_direction(atom: Delta) -> tuple[Var | None, Atom]:
    """The index that a delta eliminates and what replaces it: an index by an entry, a later name by an earlier."""
    for gone, kept in ((atom.right, atom.left), (atom.left, atom.right)):
        if isinstance(gone, Var) and gone.name not in kept.free and not (isinstance(kept, Var) and kept.key > gone.key):
            return gone, kept
    return None, atom.left


def solutions(atom: Delta) -> Iterator[tuple[Var, Atom]]:
    """The indices that a delta forces to a position, each with the position: of t = r + s, any of the three."""
    for gone, kept in ((atom.left, atom.right), (atom.right, atom.left)):
        if isinstance(gone, Var) and gone.name not in kept.free:
            yield gone, kept
    if isinstance(atom.left, Place) or isinstance(atom.right, Place):
        apart = value_of(atom.left) - value_of(atom.right)
        for index, c in _stepped_by_one(apart):
            if index not in (atom.left, atom.right):
                yield index, _solved_for(index, c, apart)


def _stepped_by_one(apart: Polynomial) -> list[tuple[Var, Rational]]:
    """The indices that stand in a difference of positions once, with a coefficient of 1 or -1."""
    alone = [(m[0][0], c) for m, c in apart.terms.items() if abs(c) == 1 and len(m) == 1 and m[0][1] == 1]
    return [
        (a, c) for a, c in alone if isinstance(a, Var) and sum(a.name in b.free for m in apart.terms for b, _ in m) == 1
    ]


def _solved_for(index: Var, c: Rational, apart: Polynomial) -> Atom:
    """The position at which an index makes the difference 0."""
    return position(total((apart, Polynomial({((index, ONE),): -c}))).scaled(-c))


def delta(ledger: Ledger, left: Atom, right: Atom) -> Polynomial:
    """The normal form of Kronecker's delta."""
    if left == right:
        ledger.use("delta(i, i) = 1")
        return UNITY
    if all(isinstance(side, (Fixed, Place, Var)) for side in (left, right)):
        apart = value_of(left) - value_of(right)
        constant = apart.constant()
        if constant is not None:
            return ZERO if constant else UNITY
        if ranges.never_zero(apart):
            ledger.use("an index lies in its range")
            return ZERO
        left, right = _solved_for_an_index(left, right, apart)
    for var, place in ((left, right), (right, left)):
        if isinstance(var, Var) and isinstance(place, Fixed) and is_short(var.extent):
            return _at_fixed_position(ledger, var, place)
    first, second = sorted((left, right), key=lambda atom: atom.key)
    return from_atom(Delta(first, second))


def _solved_for_an_index(left: Atom, right: Atom, apart: Polynomial) -> tuple[Atom, Atom]:
    """The two sides of a delta between computed positions, one an index: delta(t + 1, T) is delta(t, T - 1)."""
    if not (isinstance(left, Place) or isinstance(right, Place)):
        return left, right
    found = _stepped_by_one(apart)
    if not found:
        return left, right
    index, c = max(found, key=lambda pair: pair[0].key)
    return index, _solved_for(index, c, apart)


def is_short(extent: Polynomial) -> bool:
    """Whether a range has a known length that is small enough to look at its positions one by one."""
    size = extent.constant()
    return size is not None and size <= SHORT


def _at_fixed_position(ledger: Ledger, var: Var, place: Fixed) -> Polynomial:
    """delta(var, place) in a short range: the last position is where the index is at none of the others."""
    last = int(var.extent.constant() or 1) - 1
    if place.value > last:
        return ZERO
    if place.value < last:
        return from_atom(Delta(*sorted((var, place), key=lambda atom: atom.key)))
    ledger.use("an index of a short range is at one of its positions")
    return total((UNITY, *(delta(ledger, var, Fixed(other)).scaled(-ONE) for other in range(last))))

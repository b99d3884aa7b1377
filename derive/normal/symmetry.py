"""Equations that a sum satisfies because its indices may change places: S = T^2 - S for the sum of x[i]/(x[i] + x[j]).

Used by `derive.normal.sums` when it names the indices of a component. A quotient is reduced by the term that leads, and
which one does goes by the names of the indices. So under one order of its indices a sum may be that of one term m, and
under another one that of b m + r, and S = b S + Sum r says what it is. S = -S, for which r is 0, is the simplest case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from derive.normal.terms import Base, Delta, Monomial, Polynomial, Rational, Var, ratio

MOST_REMEMBERED = 24  # orders of indices under which a sum has several terms
MOST_INDICES = 3  # of a sum whose other orders are tried


class Equations:
    """What one sum is the sum of, under one order of its indices after another."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._single: dict[tuple[str, Monomial], Rational] = {}  # c by m, where it is the sum of c m
        self._several: list[tuple[tuple[Var, ...], Polynomial]] = []

    def says_zero(self, bound: tuple[Var, ...], body: Polynomial) -> bool:
        """Whether the sum is 0, being that of c m by an order before and of b m by this one, which is remembered."""
        one = body.single()
        if one is not None:
            return self._single.setdefault((ranges_of(bound), one[0]), one[1]) != one[1]
        if len(self._several) < MOST_REMEMBERED:
            self._several.append((bound, body))
        return False

    def solution(self) -> tuple[tuple[Var, ...], Polynomial] | None:
        """What the sum is the sum of by all orders; None where they do not tell.

        Only where that has fewer factors than the sum, so that this ends.
        """
        for bound, body in self._several:
            ranges = ranges_of(bound)
            known = {m: ratio(b, self._single[ranges, m]) for m, b in body.terms.items() if (ranges, m) in self._single}
            share = sum(known.values(), start=ratio(0, 1))  # of the sum itself
            rest = Polynomial({m: b for m, b in body.terms.items() if m not in known})
            if known and share != 1 and all(len(left) < min(map(len, known)) for left in rest.terms):
                return bound, rest.scaled(ratio(1, 1 - share))
        return None


def ranges_of(bound: Sequence[Var]) -> str:
    """The ranges of the indices in their order, as text."""
    return ",".join(var.extent.key for var in bound)


def further_orders(variables: Sequence[Var], monomial: Monomial) -> Iterator[tuple[Var, ...]]:
    """All orders of the indices of a sum with a quotient that holds several of them together."""
    if 1 < len(variables) <= MOST_INDICES:
        names = {var.name for var in variables}
        if any(power < 0 and isinstance(atom, Base) and len(atom.free & names) > 1 for atom, power in monomial):
            yield from permutations(variables)


def orders_of_tied(variables: Sequence[Var], monomial: Monomial) -> Iterator[tuple[Var, ...]] | None:
    """All orders of a few indices that a delta ties together, as i = j + k does; None for any other sum.

    Which of them stands in the other factors goes by the names, so that how an index occurs tells nothing about it.
    """
    names = {var.name for var in variables}
    tied = any(isinstance(atom, Delta) and len(atom.free & names) > 1 for atom, _ in monomial)
    few = len(variables) <= MOST_INDICES and not any(var.extent.free for var in variables)
    return permutations(variables) if tied and few else None

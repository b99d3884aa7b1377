"""Sums of squares: whether a polynomial is a quadratic form in some monomials whose matrix has no negative direction.

x^2 + y^2 - 2 x y is (x - y)^2, and e^s + e^-s - 2 is (e^(s/2) - e^(-s/2))^2. Each term that is a square already, x^2 or
e^s, gives a monomial, its root; every other term has to be a product of two of these. That makes a symmetric matrix of
rational numbers, and elimination without exchange says, exactly, whether it is positive semidefinite.
"""

from __future__ import annotations

from itertools import combinations

from derive.normal import positivity
from derive.normal.terms import (
    ONE,
    Atom,
    Exponent,
    Monomial,
    Polynomial,
    Rational,
    is_idempotent,
    ratio,
    sorted_monomial,
)

HALF, ZERO = ratio(1, 2), ratio(0, 1)
MOST_ROOTS = 12  # monomials of which the form is quadratic


def is_sum_of_squares(polynomial: Polynomial) -> bool:
    """Whether the polynomial is seen to be a sum of squares with coefficients that are not negative."""
    roots: dict[Monomial, Rational] = {}
    crossed: dict[Monomial, Rational] = {}
    for monomial, coefficient in polynomial.ordered():
        root = _root(monomial) if coefficient > 0 else None
        if root is None:
            crossed[monomial] = coefficient
        else:
            roots[root] = coefficient
    if len(roots) > MOST_ROOTS:
        return False
    names = list(roots)
    matrix = [[roots[name] if name == other else ZERO for other in names] for name in names]
    for (i, first), (j, second) in combinations(enumerate(names), 2):
        matrix[i][j] = matrix[j][i] = crossed.pop(_times(first, second), ZERO) * HALF
    return not crossed and _is_semidefinite(matrix)


def _root(monomial: Monomial) -> Monomial | None:
    """The monomial whose square this is, over the reals; None where there is none."""
    halves: list[tuple[Atom, Exponent]] = []
    for atom, power in monomial:
        even = power.denominator == 1 and power.numerator % 2 == 0
        if is_idempotent(atom) or not (even or positivity.factor_is_nonnegative(atom, ONE)):
            return None
        halves.append((atom, power * HALF))
    return tuple(halves)


def _times(first: Monomial, second: Monomial) -> Monomial:
    """The product of two monomials, their powers added and nothing else."""
    powers = dict(first)
    for atom, power in second:
        powers[atom] = powers.get(atom, 0) + power
    return sorted_monomial(powers)


def _is_semidefinite(matrix: list[list[Rational]]) -> bool:
    """Whether a symmetric matrix of rational numbers has no negative direction."""
    rows = [list(row) for row in matrix]
    for k, pivots in enumerate(rows):
        pivot = pivots[k]
        if pivot < 0 or (pivot == 0 and any(pivots[k + 1 :])):
            return False
        for i in range(k + 1, len(rows)):
            if pivot and rows[i][k]:
                share = rows[i][k] * ratio(pivot.denominator, pivot.numerator)
                rows[i] = [entry - share * above for entry, above in zip(rows[i], pivots, strict=True)]
    return True

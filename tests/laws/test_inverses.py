"""Hypotheses that say that one factor undoes another: linear systems and inverses are solved for, in one step."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from sympy import Eq, Expr

from derive.binders import free_indices, symbols_of
from derive.consequences import solved_by_inverses
from derive.language import Sum, delta, dims, indices, tensor, tensors
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

n, m = dims("n m")
i, j, k, l = indices("i j k l", n)
a, b = indices("a b", m)
A, B, C, tA, tB = tensors("A B C tA tB", n, n)
X, Y = tensors("X Y", n, m)
H, L = tensors("H L", m, n)
R = tensor("R", n, m)
U, V = tensors("U V", m, n, n)
x, y = tensor("x", n), tensor("y", m)

left = Eq(Sum(B[i, k] * A[k, j], k), delta(i, j))
right = Eq(Sum(A[i, k] * B[k, j], k), delta(i, j))
along = Eq(Sum(tA[i, k] * B[k, j] + A[i, k] * tB[k, j], k), 0)
system = Eq(Sum(A[i, k] * X[k, a], k), Y[i, a])
differential = -Sum(B[i, k] * tA[k, l] * B[l, j], k, l)

TRUE: dict[str, tuple[Expr, Any, list[Any]]] = {
    "the differential of an inverse": (tB[i, j], differential, [left, right, along]),
    "from one side alone": (tB[i, j], differential, [along, left]),
    "a linear system": (X[i, a], Sum(B[i, k] * Y[k, a], k), [left, system]),
    "one from the right": (H[a, i], Sum(Y[k, a] * B[k, i], k), [right, Eq(Sum(H[a, k] * A[k, i], k), Y[i, a])]),
    "an inverse from the other side": (Sum(A[i, k] * B[k, j], k), delta(i, j), [left]),
    "the rows of an orthogonal matrix": (
        Sum(A[i, k] * A[j, k], k),
        delta(i, j),
        [Eq(Sum(A[k, i] * A[k, j], k), delta(i, j))],
    ),
    "a linear system, by a right inverse": (X[i, a], Sum(B[i, k] * Y[k, a], k), [right, system]),
    "an inverse for each of many": (
        Sum(V[a, i, k] * U[a, k, j], k),
        delta(i, j),
        [Eq(Sum(U[a, i, k] * V[a, k, j], k), delta(i, j))],
    ),
    "the inverse of a symmetric matrix": (B[i, j], B[j, i], [right, Eq(A[i, j], A[j, i])]),
    "and from the other side": (B[i, j], B[j, i], [left, Eq(A[i, j], A[j, i])]),
    "between others": (
        Sum(B[k, i] * C[k, l] * B[j, l], k, l),
        Sum(B[i, k] * C[k, l] * B[l, j], k, l),
        [right, Eq(A[i, j], A[j, i])],
    ),
    "an inverse is unique": (C[i, j], B[i, j], [left, Eq(Sum(A[i, k] * C[k, j], k), delta(i, j))]),
}
FALSE: dict[str, tuple[Expr, Any, list[Any]]] = {
    "an inverse that need not be symmetric": (B[i, j], B[j, i], [right]),
    "a symmetric matrix and its inverse": (B[i, j], A[i, j], [right, Eq(A[i, j], A[j, i])]),
    "a row that is a column": (B[i, j], B[j, i], [right, Eq(A[i, 0], A[0, i])]),
    "two entries that agree": (B[i, j], B[j, i], [right, Eq(A[0, 1], A[1, 0])]),
    "another sign": (tB[i, j], -differential, [left, right, along]),
    "another order": (tB[i, j], -Sum(B[i, k] * B[k, l] * tA[l, j], k, l), [left, right, along]),
    "the transposed inverse": (X[i, a], Sum(B[k, i] * Y[k, a], k), [left, system]),
    "the other way round and transposed": (Sum(A[k, i] * B[k, j], k), delta(i, j), [left]),
    "an inverse of one side only": (
        Sum(R[i, a] * L[a, j], a), delta(i, j), [Eq(Sum(L[a, k] * R[k, b], k), delta(a, b))],
    ),
    "a system that has too many solutions": (
        x[i], Sum(R[i, a] * y[a], a),
        [Eq(Sum(L[a, k] * R[k, b], k), delta(a, b)), Eq(Sum(L[a, k] * x[k], k), y[a])],
    ),
}  # fmt: skip


def over(verdict_of: str) -> Any:
    """The free indices of a claim's sides: one may be without those of the other."""
    one, other, _ = {**TRUE, **FALSE}[verdict_of]
    return sorted(free_indices(sympy.Tuple(one, other)), key=str)


@pytest.mark.parametrize("name", sorted(TRUE))
def test_what_follows_by_an_inverse(name: str) -> None:
    one, other, given = TRUE[name]
    verdict = prove(Program("solving").claim("c", one, other, given=given, over=over(name)))
    assert verdict.status == PROVED, verdict.reason


@pytest.mark.parametrize("name", sorted(FALSE))
def test_what_does_not(name: str) -> None:
    one, other, given = FALSE[name]
    assert prove(Program("solving").claim("c", one, other, given=given, over=over(name))).status == REFUTED


def test_each_equation_that_follows_is_tried_by_itself() -> None:
    turned, *solved = solved_by_inverses([system, left])
    assert [known for known in turned if known not in (system, left)] == [turned[1]]
    assert symbols_of(turned[1]) == {A, B}
    assert all(left in conditions and system in conditions for conditions in solved)
    assert [symbols_of(conditions[1]) for conditions in solved] == [{A, B, X, Y}, {A, B, X, Y}]
    assert not list(solved_by_inverses([system, Eq(A[i, j], A[j, i])]))


def test_only_a_square_matrix_is_undone_from_the_other_side() -> None:
    assert not list(solved_by_inverses([Eq(Sum(L[a, k] * R[k, b], k), delta(a, b))]))

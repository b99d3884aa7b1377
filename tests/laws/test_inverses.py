"""Hypotheses that say that one factor undoes another: linear systems and inverses are solved for, in one step."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Expr

from derive.binders import symbols_of
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
    "an inverse is unique": (C[i, j], B[i, j], [left, Eq(Sum(A[i, k] * C[k, j], k), delta(i, j))]),
}
FALSE: dict[str, tuple[Expr, Any, list[Any]]] = {
    "another sign": (tB[i, j], -differential, [left, right, along]),
    "another order": (tB[i, j], -Sum(B[i, k] * B[k, l] * tA[l, j], k, l), [left, right, along]),
    "the transposed inverse": (X[i, a], Sum(B[k, i] * Y[k, a], k), [left, system]),
    "an inverse of one side only": (
        Sum(R[i, a] * L[a, j], a), delta(i, j), [Eq(Sum(L[a, k] * R[k, b], k), delta(a, b))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TRUE))
def test_what_follows_by_an_inverse(name: str) -> None:
    one, other, given = TRUE[name]
    verdict = prove(Program("solving").claim("c", one, other, given=given))
    assert verdict.status == PROVED, verdict.reason


@pytest.mark.parametrize("name", sorted(FALSE))
def test_what_does_not(name: str) -> None:
    one, other, given = FALSE[name]
    assert prove(Program("solving").claim("c", one, other, given=given)).status == REFUTED


def test_each_equation_that_follows_is_tried_by_itself() -> None:
    tried = list(solved_by_inverses([system, left]))
    assert all(conditions[0] == left and system in conditions for conditions in tried)
    assert [{B, A, X, Y} <= symbols_of(conditions[1]) for conditions in tried] == [True]
    assert not list(solved_by_inverses([system, Eq(A[i, j], A[j, i])]))

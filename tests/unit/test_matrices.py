"""Matrix notation: each operation against its definition in entries, and sizes that must fit."""

from __future__ import annotations

import random
from typing import Any

import pytest

from derive.binders import free_indices, substitute
from derive.errors import StatementError
from derive.functions import softmax
from derive.language import Sum, dims, index, indices, scalar, tensor, tensors
from derive.matrices import Matrix, matrices, matrix, row_softmax, row_sum
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

m, n, p, q = dims("m n p q")
i, i_1 = indices("i i_1", m)
j, j_1 = indices("j j_1", n)
l = index("l", p)
inner = index("inner", n)
A, A_1 = tensors("A A_1", m, n)
B, B_1 = tensors("B B_1", n, p)
C = tensor("C", p, q)
S, U = tensors("S U", n, n)
s = scalar("s")
mA, mA_1, mB, mB_1, mC, mS, mU = matrices(A, A_1, B, B_1, C, S, U)


def proved(left: Any, right: Any) -> bool:
    return prove(Program("statement").claim("c", left, right)).status == PROVED


def test_entries() -> None:
    assert mA[i, j] == A[i, j]
    assert mA.T[j, i] == A[i, j]
    assert (mA + mA_1)[i, j] == A[i, j] + A_1[i, j]
    assert (mA - mA_1)[i, j] == A[i, j] - A_1[i, j]
    assert (mA * mA_1)[i, j] == A[i, j] * A_1[i, j]
    assert (mA / mA_1)[i, j] == A[i, j] / A_1[i, j]
    assert (s * mA)[i, j] == s * A[i, j]
    assert (mA / s)[i, j] == A[i, j] / s
    assert (-mA)[i, j] == -A[i, j]


def test_sizes() -> None:
    assert ((mA @ mB).rows, (mA @ mB).columns) == (m, p)
    assert (mA.T.rows, mA.T.columns) == (n, m)
    assert ((mA @ mB @ mC).T.rows, (mA @ mB @ mC).T.columns) == (q, m)


def test_a_product_sums_over_the_inner_index() -> None:
    entry = (mA @ mB)[i, l]
    assert free_indices(entry) == {i, l}
    assert proved(mA @ mB, Matrix(m, p, lambda r, c: Sum(A[r, inner] * B[inner, c], inner), "by hand"))


def test_a_product_does_not_catch_its_own_indices() -> None:
    # Read at indices that are named like the summation index of the product.
    row, column = index("k_1", m), index("k", p)
    entry = (mA @ mB)[row, column]
    assert free_indices(entry) == {row, column}
    (bound,) = (limit[0] for limit in entry.limits)
    assert bound.name not in ("k", "k_1")


LAWS: dict[str, tuple[Any, Any]] = {
    "associative": ((mA @ mB) @ mC, mA @ (mB @ mC)),
    "distributive": (mA @ (mB + mB_1), mA @ mB + mA @ mB_1),
    "transpose of a product": ((mA @ mB).T, mB.T @ mA.T),
    "transpose twice": (mA.T.T, mA),
    "a number goes through": (mA @ (s * mB), s * (mA @ mB)),
    "row sums": (row_sum(mA + mA_1), row_sum(mA) + row_sum(mA_1)),
    "row sums of a product": (row_sum(mA @ mS), row_sum(mA * Matrix(m, n, lambda r, c: row_sum(mS)[c, c], "rows"))),
    "softmax of rows": (
        row_softmax(mA),
        Matrix(m, n, lambda r, c: substitute(softmax(A[r, inner], over=inner), {inner: c}), "by hand"),
    ),
    "softmax rows sum to one": (row_sum(row_softmax(mA)), mA / mA),
    "a number less the entries": (1 - mA * mA, (1 + mA) * (1 - mA)),
    "a trace goes round": (mA + (mA @ mA_1.T).trace(), (mA_1.T @ mA).trace() + mA),
    "four factors": ((mS @ mU) @ (mS @ mU), mS @ (mU @ mS) @ mU),
}
NO_LAWS: dict[str, tuple[Any, Any]] = {
    "commutative": (mS @ mU, mU @ mS),
    "transpose without reversal": ((mS @ mU).T, mS.T @ mU.T),
    "entrywise is matrix product": (mS * mU, mS @ mU),
    "symmetric": (mS, mS.T),
    "a trace goes the other way round": ((mS @ mU @ mS).trace() + mS, (mS.T @ mU @ mS).trace() + mS),
    "row sums are column sums": (row_sum(mS) * mU, row_sum(mS.T).T * mU),
    "softmax of rows is softmax of columns": (row_softmax(mS), row_softmax(mS.T).T),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws(name: str) -> None:
    assert proved(*LAWS[name])


@pytest.mark.parametrize("name", NO_LAWS)
def test_no_such_law(name: str) -> None:
    assert prove(Program("statement").claim("c", *NO_LAWS[name])).status == REFUTED


def test_against_explicit_matrices() -> None:
    """The entry of a longer expression, read by loops over small matrices of integers."""
    chance = random.Random(0)
    rows, middle, columns = 2, 3, 4
    sizes = {m: rows, n: middle, p: columns}

    def drawn(height: int, width: int) -> list[list[int]]:
        return [[chance.randint(-5, 5) for _ in range(width)] for _ in range(height)]

    a_, b_, s_ = drawn(rows, middle), drawn(middle, columns), drawn(middle, middle)
    values = {A: a_, B: b_, S: s_}
    expression = mA @ (mS + mS.T) @ mB * 2 - row_sum(mA @ mB)

    def read(node: Any, at: dict[Any, int]) -> int:
        if node in at:
            return at[node]
        if node.is_Integer:
            return int(node)
        if node.is_Indexed:
            r, c = (read(part, at) for part in node.indices)
            return values[node.base][r][c]
        if node.is_Add:
            return sum(read(part, at) for part in node.args)
        if node.is_Mul:
            result = 1
            for part in node.args:
                result *= read(part, at)
            return result
        bound, *outer = [limit[0] for limit in node.limits]
        body = node.func(node.function, *node.limits[1:]) if outer else node.function
        return sum(read(body, {**at, bound: place}) for place in range(sizes[bound.extent]))

    product = [[sum(a_[r][x] * b_[x][c] for x in range(middle)) for c in range(columns)] for r in range(rows)]
    for r in range(rows):
        for c in range(columns):
            both = sum(a_[r][x] * (s_[x][y] + s_[y][x]) * b_[y][c] for x in range(middle) for y in range(middle))
            assert read(expression[i, l], {i: r, l: c}) == 2 * both - sum(product[r])


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: mA @ mC, ("A @ C", "A has n columns", "C has p rows")),
        (lambda: mA + mB, ("A + B", "A is m x n", "B is n x p")),
        (lambda: mA * mA.T, ("A * A.T", "m x n", "n x m")),
        (lambda: mA - mS, ("A - S",)),
        (lambda: (mA @ mB) @ mA, ("(A @ B) @ A", "p columns", "m rows")),
        (lambda: matrix(tensor("x", n)), ("matrix(x)",)),
        (mA.trace, ("trace of A", "m rows", "n columns")),
        (lambda: mS**2, ("S ** 2", "S * S", "S @ S")),
    ],
    ids=["product", "sum", "entrywise product", "difference", "chain", "vector", "trace", "power"],
)
def test_sizes_that_do_not_fit_are_named(attempt: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(StatementError) as caught:
        attempt()
    assert all(word in str(caught.value) for word in words), str(caught.value)

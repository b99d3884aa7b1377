"""Folding: bodies of definitions are met under other indices, powers and coefficients, and never wrongly."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Pow, Rational, exp, log, sqrt

from derive.binders import free_indices
from derive.folding import factored, fold, same, unify
from derive.functions import relu, softmax
from derive.gradient import inline
from derive.language import Sum, dims, index, indices, iverson, lengths, scalars, tensor, tensors, where
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.program import Program

T, d, N = dims("T d N")
i, j, k = indices("i j k", T)
a, b = indices("a b", d)
n, m = indices("n m", N)
L = lengths("L", N)
t, t_1, u = index("t", L[n]), index("t_1", L[n]), index("u", L[m])
x, y = tensors("x y", T)
p = tensor("p", T, positive=True)
X = tensor("X", T, T)
W = tensor("W", T, d)
R = tensor("R", N, L)
z = tensor("z", N)
s, r = scalars("s r")
c = scalars("c", positive=True)[0]


def folding(over: tuple[Any, ...], body: Any) -> tuple[Program, Any]:
    """A program with one definition h, and h."""
    program = Program("statement")
    return program, program.define("h", over, body)


FOLDED: dict[str, tuple[tuple[Any, ...], Any, Any, Any]] = {
    "as it stands": ((i,), exp(x[i]), y[i] * exp(x[i]), lambda h: y[i] * h[i]),
    "under another index": ((i,), exp(x[i]), y[j] * exp(x[j]), lambda h: y[j] * h[j]),
    "squared": ((i,), exp(x[i]), y[i] * exp(2 * x[i]), lambda h: y[i] * h[i] ** 2),
    "a power of a root": (
        (i,), (p[i] + c) ** Rational(-1, 2), x[i] * (p[i] + c) ** Rational(-3, 2), lambda h: x[i] * h[i] ** 3,
    ),
    "with a coefficient": ((i,), 2 * sqrt(p[i]), sqrt(p[i]), lambda h: h[i] / 2),
    "a quotient": (
        (i, j), softmax(X[i, j], over=j), exp(X[k, i]) / Sum(exp(X[k, j]), j), lambda h: h[k, i],
    ),
    "a quotient with another name for the bound index": (
        (i, j), softmax(X[i, j], over=j), y[i] * exp(X[i, j]) / Sum(exp(X[i, k]), k), lambda h: y[i] * h[i, j],
    ),
    "a selection, as a maximum is": ((i,), relu(x[i]), y[j] * relu(x[j]), lambda h: y[j] * h[j]),
    "inside a sum": ((i,), exp(x[i]), Sum(y[j] * exp(x[j]), j), lambda h: Sum(y[j] * h[j], j)),
    "a masked quotient": (
        (i, j),
        softmax(X[i, j], over=j, where=j <= i),
        y[i] * iverson(j <= i) * exp(X[i, j]) / Sum(iverson(k <= i) * exp(X[i, k]), k),
        lambda h: y[i] * h[i, j],
    ),
    "a diagonal": ((i,), exp(X[i, i]), exp(X[j, j]), lambda h: h[j]),
    "a ragged quotient": (
        (n, t), softmax(R[n, t], over=t), exp(R[n, t]) / Sum(exp(R[n, t_1]), t_1), lambda h: h[n, t],
    ),
    "a range that says where to read": (
        (n,), exp(Sum(s * t, t)), exp(Sum(s * u, u)) * z[n], lambda h: h[m] * z[n],
    ),
    "a ragged sum": ((n,), Sum(exp(R[n, t]), t), z[m] / Sum(exp(R[m, u]), u), lambda h: z[m] / h[m]),
    "a number": ((), log(Sum(exp(x[i]), i)), s * log(Sum(exp(x[j]), j)), lambda h: s * h),
}  # fmt: skip
KEPT: dict[str, tuple[tuple[Any, ...], Any, Any]] = {
    "a diagonal body off the diagonal": ((i,), exp(X[i, i]), exp(X[i, j])),
    "the transpose": ((i, j), exp(X[i, j] + y[i]), exp(X[j, i] + y[i])),
    "a sum over another range": ((), Sum(exp(x[i]), i), Sum(exp(tensor("x", d)[a]), a)),
    "a sum over the other index": ((i,), Sum(exp(X[i, j]), j), Sum(exp(X[j, i]), j)),
    "half the body": ((i,), exp(2 * x[i]), exp(x[i])),
    "another mask": (
        (i,), Sum(iverson(j <= i) * exp(X[i, j]), j), Sum(iverson(j < i) * exp(X[i, j]), j),
    ),
    "ranges of two rows": (
        (n,), exp(z[n]) * Sum(exp(s * t), t), exp(z[m]) * Sum(exp(s * t), t),
    ),
    "too plain to be worth a name": ((i,), 2 * x[i], 2 * x[i] * y[i]),
    "a bound index as a free one": ((i,), exp(x[i]), Sum(exp(x[j] * y[j]), j)),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_a_body_is_folded(name: str) -> None:
    over, body, expression, expected = FOLDED[name]
    program, h = folding(over, body)
    assert same(fold(expression, list(program)), expected(h))


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_the_body_is_left_alone(name: str) -> None:
    over, body, expression = KEPT[name]
    program, h = folding(over, body)
    assert not fold(expression, list(program)).has(h)


@pytest.mark.parametrize("name", [*FOLDED, *KEPT])
def test_folding_changes_no_value(name: str) -> None:
    over, body, expression, *_ = FOLDED[name] if name in FOLDED else KEPT[name]
    program, _ = folding(over, body)
    folded = inline(fold(expression, list(program)), program)
    ledger = Ledger()
    assert is_zero(ledger, normal_form(ledger, folded) - normal_form(ledger, expression))
    assert free_indices(folded) <= free_indices(expression) | set(over)


def test_several_definitions_are_folded_together() -> None:
    program = Program("statement")
    Z = program.define("Z", [i], Sum(exp(X[i, j]), j))
    H = program.define("H", [i], 1 / (1 + x[i] ** 2))
    expression = x[i] / (1 + x[i] ** 2) ** 2 / Sum(exp(X[i, k]), k)
    assert fold(expression, list(program)) == x[i] * H[i] ** 2 / Z[i]


def test_common_factors_are_taken_out() -> None:
    assert factored([x[i] * y[i], x[i] * s, -x[i]]) == x[i] * (y[i] + s - 1)
    assert factored([x[i], y[i]]) == x[i] + y[i]
    assert factored([x[i] ** 2 * s, x[i] * s]) == s * (x[i] ** 2 + x[i])
    assert factored([s * where(r > 0, 1, 0), r * where(r > 0, 1, 0)]) == (s + r) * where(r > 0, 1, 0)


def test_unification_binds_free_indices_consistently() -> None:
    assert list(unify(X[i, j], X[k, k], {})) == [{i: k, j: k}]
    assert list(unify(X[i, i], X[j, k], {})) == []
    assert list(unify(X[i, i], X[k, k], {})) == [{i: k}]
    assert list(unify(x[i], W[j, a], {})) == []
    assert list(unify(W[i, a], W[j, b], {a: b})) == [{a: b, i: j}]


def test_unification_does_not_let_a_bound_index_out() -> None:
    assert list(unify(Sum(X[i, j], j), Sum(X[k, k], k), {})) == []
    assert list(unify(Sum(X[i, j], j), Sum(X[k, i], i), {})) == [{i: k}]


def test_same_up_to_bound_names() -> None:
    assert same(Sum(X[i, j], j), Sum(X[i, k], k))
    assert not same(Sum(X[i, j], j), Sum(X[k, j], j))
    assert not same(Sum(X[i, j], j), Sum(X[j, i], j))
    assert same(Sum(X[i, j] * x[i], i, j), Sum(X[j, k] * x[j], j, k))
    assert same(iverson(i <= j), iverson(j >= i))


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        (Sum(x[i], j) * Sum(x[i], k), y[i] * Sum(x[i], j)),
        (Sum(exp(x[i]), j) * Sum(exp(x[i]), k), y[i] * Sum(exp(x[i]), j)),
        (y[i] * Sum(x[j], j) ** 2 * Sum(x[k], k) ** 2, y[i] * Sum(x[j], j) ** 2 * Sum(x[k], k)),
    ],
)
def test_a_factor_meets_one_factor(body: Any, expression: Any) -> None:
    """Two sums that differ in the name of an index are two factors: one sum is not divided by both of them."""
    program, h = folding((i,), body)
    assert same(fold(expression, program.definitions), expression)
    assert fold(2 * body, program.definitions) == 2 * h[i]


def test_nothing_is_divided_by_a_sum_that_may_be_0() -> None:
    program = Program("statement", inputs=[x, y])
    o = program.define("o", [i], y[i] ** 2 * Sum(x[j], j) ** 2 * Sum(x[k], k) ** 2)
    powers = [power for definition in program.gradient(o) for power in definition.body.atoms(Pow)]
    assert powers
    assert not any(power.exp.is_negative for power in powers)

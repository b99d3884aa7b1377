"""The reference evaluation of statements against values worked out by hand, on NumPy and on torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sympy import And, Eq, Max, Ne, Not, Or, Piecewise, Rational, atan, cos, erf, exp, log, pi, sign, sin, sqrt, tanh

from codegen.checking.array_library import array_library
from codegen.checking.reference import run_program
from derive.errors import StatementError
from derive.functions import log_softmax, mean, softmax, variance
from derive.language import (
    Product,
    Sum,
    delta,
    dims,
    flag,
    index,
    indices,
    iverson,
    lengths,
    scalar,
    tensor,
    where,
)
from derive.program import Program

M, N, V = dims("M N V")
i, j = indices("i j", N)
m = index("m", M)
v = index("v", V)
x, A, B = tensor("x", N), tensor("A", N, N), tensor("B", M, N)
E = tensor("E", V, N)
token = tensor("token", M, into=V)
s, causal = scalar("s"), flag("causal")
step = scalar("step", integer=True, positive=True)

SIZES = {"M": 2, "N": 3, "V": 4}
X = np.array([0.5, -1.5, 2.0])
A_ = np.arange(9.0).reshape(3, 3) - 3.5
B_ = np.array([[1.0, 2.0, -3.0], [0.25, -0.5, 4.0]])
E_ = np.arange(12.0).reshape(4, 3) / 10
TOKEN = np.array([3, 1])
INPUTS: dict[str, Any] = {
    "x": X, "A": A_, "B": B_, "E": E_, "token": TOKEN, "s": 0.7, "causal": True, "step": 3,
}  # fmt: skip
LOWER = np.tri(3)
P = np.exp(A_) / np.exp(A_).sum(1, keepdims=True)
MASKED = np.exp(A_) * LOWER / (np.exp(A_) * LOWER).sum(1, keepdims=True)

CASES: dict[str, tuple[tuple[Any, ...], Any, Any]] = {
    "numbers": ((), Rational(1, 3) + pi + sqrt(2), 1 / 3 + math.pi + math.sqrt(2)),
    "sizes": ((i,), x[i] / sqrt(N) + M, X / math.sqrt(3) + 2),
    "index as a number": ((i,), x[i] * i / 2, X * np.array([0, 0.5, 1])),
    "scalar and integer scalar": ((i,), s * x[i] ** 2 + s**step, 0.7 * X**2 + 0.343),
    "transpose": ((i, j), A[j, i] * x[i], A_.T * X[:, None]),
    "diagonal": ((i,), A[i, i], np.diag(A_)),
    "fixed position": ((i,), A[i, 2] + x[0], A_[:, 2] + 0.5),
    "look-up": ((m, i), E[token[m], i], E_[TOKEN]),
    "look-up on the diagonal": ((m,), E[token[m], 1] * token[m], E_[TOKEN, 1] * TOKEN),
    "contraction": ((m, i), Sum(B[m, j] * A[j, i], j), B_ @ A_),
    "trace": ((), Sum(A[i, i], i), np.trace(A_)),
    "sum over what is not there": ((m,), Sum(B[m, 0], v), 4 * B_[:, 0]),
    "two sums of one name": ((i,), x[i] * Sum(x[j], j) * Sum(A[i, j], j), X * X.sum() * A_.sum(1)),
    "sum of several": ((m,), Sum(B[m, i] * A[i, j], i, j), (B_ @ A_).sum(1)),
    "product": ((m,), Product(B[m, j], j), B_.prod(1)),
    "product over what is not there": ((m,), Product(B[m, 0], v), B_[:, 0] ** 4),
    "delta": ((i, j), delta(i, j) * x[i], np.diag(X)),
    "one-hot": ((m, i), Sum(delta(v, token[m]) * E[v, i], v), E_[TOKEN]),
    "scalar functions": (
        (i,), exp(x[i]) + erf(x[i]) + tanh(x[i]) + sin(x[i]) + cos(x[i]) + atan(x[i]) + sign(x[i]),
        np.exp(X) + [math.erf(t) for t in X] + np.tanh(X) + np.sin(X) + np.cos(X) + np.arctan(X) + np.sign(X),
    ),
    "powers": ((i,), (x[i] ** 2 + 1) ** Rational(-1, 2) + x[i] ** 3, (X**2 + 1) ** -0.5 + X**3),
    "condition on positions": ((i, j), where(j <= i, A[i, j], -1), np.where(LOWER > 0, A_, -1)),
    "condition on values": ((i,), where(x[i] > 0, x[i], 2 * x[i]), np.where(X > 0, X, 2 * X)),
    "and, or, not": (
        (i, j), iverson(Or(And(i < j, Not(Eq(i, 0))), And(Ne(i, j), causal, x[i] >= x[j]))),
        np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0]]),
    ),
    "maximum": ((i,), Max(x[i], 0), np.maximum(X, 0)),
    "cases": ((i,), Piecewise((x[i], x[i] < 0), (x[i] ** 2, x[i] < 1), (1, True)), np.array([0.25, -1.5, 1.0])),
    "softmax": ((i, j), softmax(A[i, j], over=j), P),
    "masked softmax": ((i, j), softmax(A[i, j], over=j, where=Or(Not(causal), j <= i)), MASKED),
    "log softmax": ((i, j), log_softmax(A[i, j], over=j), np.log(P)),
    "mean and variance": ((m,), mean(B[m, j], over=j) + variance(B[m, j], over=j), B_.mean(1) + B_.var(1)),
    "a branch without a value": ((i,), where(x[i] > 0, log(x[i]), sqrt(-x[i])), [math.log(0.5), 1.5**0.5, math.log(2)]),
    "a bracket around no value": ((i,), iverson(x[i] > 0) * log(x[i]), [math.log(0.5), 0, math.log(2)]),
    "a sum of its own under a condition": (
        (i,), where(x[i] > 0, x[i] / Sum(exp(x[i]), i), 0), np.where(X > 0, X / np.exp(X).sum(), 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_value(name: str, target: str) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    over, body, expected = CASES[name]
    program = Program("case", "", [x, A, B, E, token, s, causal, step])
    program.define("y", over, body)
    library = array_library(target)
    inputs = {name: library.array(value) if isinstance(value, np.ndarray) else value for name, value in INPUTS.items()}
    found = library.plain(run_program(program, inputs, SIZES, library)["y"])
    assert found.dtype == np.float64
    assert found.shape == tuple(SIZES[str(index.extent)] for index in over)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


def test_definitions_are_evaluated_in_order() -> None:
    program = Program("chain", "", [x, B])
    t = program.define("t", [i, m], x[i] * B[m, i])
    total = program.define("total", [], Sum(t[i, m], i, m))
    program.define("y", [m], Sum(t[i, m], i) / total)
    values = run_program(program, INPUTS, SIZES, array_library("numpy"))
    assert list(values) == ["t", "total", "y"]
    np.testing.assert_allclose(values["t"], (X * B_).T)
    np.testing.assert_allclose(values["y"], B_ @ X / (B_ @ X).sum())


def test_a_ragged_range_has_no_array() -> None:
    T = lengths("T", M)
    t = index("t", T[m])
    program = Program("ragged", "", [tensor("r", M, T)])
    program.define("y", [m], Sum(tensor("r", M, T)[m, t], t))
    with pytest.raises(StatementError, match=r"its extent T\[m\] depends on an index"):
        run_program(program, {"T": np.array([1, 2]), "r": np.ones((2, 2))}, SIZES, array_library("numpy"))


# At 0.5, -1.5 and 2.
GRADIENTS: dict[str, tuple[Any, list[float]]] = {
    "a branch that is not taken": (where(x[i] > 0, log(x[i]), sqrt(-x[i])), [2, -0.5 / math.sqrt(1.5), 0.5]),
    "a bracket": (iverson(x[i] > 0) * sqrt(x[i]), [0.5 / math.sqrt(0.5), 0, 0.5 / math.sqrt(2)]),
    "nested": (where(x[i] > 0, where(x[i] < 1, log(x[i]), 1 / x[i]), 0), [2, 0, -0.25]),
}


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test_autograd_meets_no_value_that_is_not_taken(name: str) -> None:
    torch = pytest.importorskip("torch")
    body, expected = GRADIENTS[name]
    program = Program("case", "", [x])
    program.define("y", [i], body)
    at = torch.tensor(X, requires_grad=True)
    run_program(program, {"x": at}, SIZES, array_library("torch"))["y"].sum().backward()
    np.testing.assert_allclose(at.grad.numpy(), expected, rtol=1e-14)


def test_autograd_accumulates_repeated_look_ups() -> None:
    torch = pytest.importorskip("torch")
    program = Program("case", "", [E, token])
    program.define("y", [], Sum(E[token[m], i], m, i))
    table = torch.tensor(E_, requires_grad=True)
    inputs = {"E": table, "token": torch.tensor([2, 2])}
    run_program(program, inputs, SIZES, array_library("torch"))["y"].backward()
    np.testing.assert_allclose(table.grad.numpy(), np.array([[0], [0], [2], [0]]) * np.ones(3))

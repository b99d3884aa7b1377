"""Shares of exponentials, and sums of them, that were wrong once: against the statement and its differences."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from sympy import Expr, Max, Min, Rational, exp, log, tanh

from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from derive.language import Tensor
from gradproof import (
    Program,
    Sum,
    dims,
    index,
    indices,
    iverson,
    leading_index,
    logsumexp,
    scalar,
    softmax,
    sqrt,
    tensor,
    where,
)

N, T, d = dims("N T d")
n, a = leading_index("n", N), index("a", d)
i, j, k = indices("i j k", T)
x, y, z, Q = tensor("x", N, T), tensor("y", T), tensor("z", N, T, d), tensor("Q", N, T, d)
S, keep = tensor("S", T, T), tensor("keep", N, T, into=2)
w, R, s, e = tensor("w", T), tensor("R", N, T, T), scalar("s"), scalar("e", positive=True)
TARGETS = ("numpy", "torch")


def stating(name: str, body: Expr, given: list[Tensor], places: list[object], wrt: list[Tensor]) -> Program:
    program = Program(name, "a share", given)
    program.kernel(program.define("o", places, body), wrt=wrt)
    return program


def named_total(body: Expr) -> Program:
    """A sum of exponentials that is divided by under a name, beside another sum of the same exponentials."""
    program = Program("named_total", "a share of a named total", [z, Q])
    r = program.define("r", [n, i], 1 / Sum(exp(body), a))
    program.kernel(program.define("o", [n, i], r[n, i] * Sum(exp(body) * z[n, i, a], a)), wrt=[z, Q])
    return program


chosen = where(x[n, k] > 0, y[j], x[n, i])
share = e * Sum(exp(tanh(w[k] * x[n, i])), k) / (Sum(exp(tanh(w[k] * x[n, i])), k) + 1)
kept_shares = softmax(tanh(2 * e + R[n, i, i]), over=i, where=keep[n, i] > 0)
logs = logsumexp(tanh((share + R[n, i, i]) * w[j]), over=j)
chosen_by_mask = where(keep[n, i] > 0, x[n, i], s * R[n, i, i])
mixed = Sum(softmax(tanh(x[n, j]), over=j) * y[j], j)
W, tok = tensor("W", T, T), tensor("tok", N, T, into=T)
scores = exp(tanh(W[tok[n, i], j] * y[i]))
of_a_few = Sum(scores * W[tok[n, i], j], j) / (Sum(scores * iverson(j <= i), j) + 1)
PROGRAMS = [
    stating("kept_truth", Max(0, of_a_few), [y, W, tok], [n, i], [y, W]),
    stating("exponential_of_a_mean", exp(-(mixed**2)), [x, y], [n], [x, y]),
    stating("exponential_of_a_choice", exp(where(s > 0, mixed, s)), [x, y, s], [n], [x, y]),
    stating("own_share", exp(x[n, i]) / Sum(iverson(j <= i) * exp(x[n, j]), j), [x], [n, i], [x]),
    stating("of_larger", exp(x[n, i] - logsumexp(x[n, j], over=j, where=x[n, j] >= x[n, i])), [x], [n, i], [x]),
    stating("of_the_pair", exp(S[i, i]) / Sum(exp(S[i, j]), j), [S], [i], [S]),
    stating("trace", Sum(exp(S[i, i]) / Sum(exp(S[i, j]), j), i), [S], [], [S]),
    named_total(tanh(Q[n, i, a])),
    stating("sum_before_total", Sum(kept_shares * x[n, i], i, n), [x, R, keep, e], [], [x, R]),
    stating("log_of_a_share", logs, [x, w, e, R], [n, i], [x, w]),
    stating("log_of_a_share_again", logs, [x, w, e, R], [n, i], [x, e]),
    stating(
        "log_where",
        where(x[n, i] > 0, log(Sum(exp(tanh(w[j] * y[i])) * iverson(j <= i), j) + 1), 0),
        [x, w, y],
        [n, i],
        [w],
    ),
    stating("share_of_a_choice", Sum(softmax(tanh(chosen_by_mask), over=i) * x[n, i], i), [x, s, keep, R], [n], [s]),
    stating("sum_of_logs", Sum(logsumexp(tanh(z[n, i, a] * chosen), over=a), k), [z, x, y], [n, i, j], [y]),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_against_the_statement(program: Program, target: str, tmp_path: Path) -> None:
    pytest.importorskip(target)
    write(render_all([program], [target]), tmp_path, [target])
    faults = [row for row in check_kernels([program], target=target, folder=tmp_path) if not row.ok]
    assert not faults, faults[0].detail


def module_of(program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(folder))
    write(render_all([program], ["numpy"]), folder / f"made_{program.name}", ["numpy"])
    return importlib.import_module(f"made_{program.name}.numpy.{program.name}")


def test_shares_of_nothing_add_up_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = softmax(x[n, i], over=i, where=keep[n, i] > 0)
    program = stating("all_shares", s * Sum(shares, i), [x, keep, s], [n], [x])
    module = module_of(program, tmp_path, monkeypatch)
    kept = np.array([[0, 0, 0], [0, 1, 1]])
    value, saved = module.all_shares_forward(np.ones((2, 3)), kept, s=2.0)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(value, [0, 2])
    (slope,) = module.all_shares_backward(np.ones(2), saved)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(slope, 0)


@pytest.mark.filterwarnings("ignore:divide by zero")  # over the norm of a row of zeros a bound is infinite
def test_a_row_of_zeros_is_not_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program("rows_clipped", "rows clipped to a norm", [z])
    norm = program.define("norm", [n, i], sqrt(Sum(z[n, i, a] ** 2, a)))
    program.kernel(program.define("o", [n, i, a], z[n, i, a] * Min(1, Rational(3, 2) / norm[n, i])), wrt=[z])
    module = module_of(program, tmp_path, monkeypatch)
    rows = np.array([[[0.0, 0.0], [0.3, 0.4], [3.0, 4.0]]])
    value, saved = module.rows_clipped_forward(rows)  # type: ignore[attr-defined]
    np.testing.assert_allclose(value, [[[0, 0], [0.3, 0.4], [0.9, 1.2]]])
    (slope,) = module.rows_clipped_backward(np.ones_like(rows), saved)  # type: ignore[attr-defined]
    np.testing.assert_allclose(slope, [[[1, 1], [1, 1], [0.3 - 0.252, 0.3 - 0.336]]])

"""What Python, NumPy and PyTorch do with arrays, tried on symbols: refused, with how a statement says it."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from sympy import Eq, exp, sqrt

from derive.errors import StatementError
from derive.functions import argmax, logsumexp, mean, softmax, variance
from derive.language import (
    Sum,
    delta,
    dims,
    flag,
    index,
    indices,
    scalar,
    tensor,
    tensors,
    where,
)
from derive.matrices import matrix, row_sum
from derive.program import Program
from derive.prove import prove
from gradproof.cli.main import main

T, d = dims("T d")
i, j, k = indices("i j k", T)
a = index("a", d)
x, y = tensors("x y", T)
X = tensor("X", T, T)
W = tensor("W", T, d)
M = matrix(X)
s = scalar("s")
f = flag("f")


def program() -> Program:
    made = Program("small", "a small program", [x, y])
    made.define("loss", [], Sum(x[i] ** 2, i))
    return made


def assigned() -> None:
    x[i] = 3  # as in NumPy


REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    # -- NumPy, math and PyTorch
    "NumPy's exp": (lambda: np.exp(x[i]), ("np.exp(x[i])", "expected a number", "write exp(x[i])")),
    "NumPy's exp of a tensor": (lambda: np.exp(x), ("np.exp(x)", "write exp(x[i])")),
    "NumPy's sqrt of a size": (lambda: np.sqrt(d), ("np.sqrt(d)", "write sqrt(d)")),
    "NumPy's abs": (lambda: np.abs(x[i]), ("np.absolute(x[i])", "write Abs(x[i])")),
    "NumPy's maximum": (lambda: np.maximum(0, x[i]), ("np.maximum(x[i])", "write Max(x[i], y)")),
    "NumPy's sum of an entry": (lambda: np.sum(x[i]), ("np.sum(x[i])", "write Sum(x[i], i)")),
    "NumPy's sum of a matrix": (lambda: np.sum(X), ("np.sum(X)", "write Sum(X[i, j], i, j)")),
    "NumPy's mean": (lambda: np.mean(x), ("np.mean(x)", "write mean(x[i], over=i)")),
    "NumPy's dot": (lambda: np.dot(x, y), ("np.dot(x)", "matrix(x) @ matrix(y)")),
    "NumPy's where": (lambda: np.where(True, x[i], 0), ("np.where(x[i])", "write where(condition, yes, no)")),
    "NumPy's norm": (lambda: np.linalg.norm(x), ("np.norm(x)", "write sqrt(Sum(x[i]**2, i))")),
    "NumPy's isnan": (lambda: np.isnan(x[i]), ("np.isnan(x[i])", "has no numbers")),
    "math's exp": (lambda: math.exp(x[i]), ("float(x[i])", "found x[i]", "exp(x[i])")),
    "math's sqrt of a size": (lambda: math.sqrt(d), ("float(d)", "sqrt(d)")),
    "PyTorch's exp": (lambda: torch.exp(x[i]), ("torch.exp(x[i])", "write exp(x[i])")),
    "PyTorch's softmax": (
        lambda: torch.softmax(X, dim=-1),
        ("torch.softmax(X)", "write softmax(X[i, j], over=j)"),
    ),
    "a number of an entry": (lambda: float(x[i]), ("float(x[i])", "found x[i]")),
    "a whole number of a size": (lambda: int(T), ("int(T)", "found T")),
    "a range up to a size": (lambda: range(T), ("T: expected a whole number", "Sum(f, i)", "index('i', T)")),
    "a range up to an index": (lambda: range(i), ("i: expected a whole number", "index('i', T)")),
    # -- what arrays have
    "a sum of entries": (lambda: sum(x), ("sum(x)", "write Sum(x[i], i)")),
    "a list of entries": (lambda: list(X), ("list(X)", "Sum(X[i, j], i, j)")),
    "the length of a tensor": (lambda: len(x), ("len(x)", "x.shape[0]")),
    "a method": (lambda: x.sum(), ("x.sum", "write Sum(x[i], i)")),
    "a method of an entry": (lambda: W[i, a].exp(), ("W[i, a].exp", "write exp(W[i, a])")),
    "a shape changed": (lambda: x.reshape(3), ("x.reshape", "indices say which axis is which")),
    "a gradient asked of a tensor": (lambda: x.backward(), ("x.backward", "program.gradient(output)", "dx")),
    "an entry assigned": (assigned, ("x[i] = 3", "program.define")),
    "a part of an axis": (lambda: x[0:3], ("axis 0", "where(And(0 <= i, i < 3), x[i], 0)")),
    "the end of an axis": (lambda: x[1:], ("axis 0", "where(And(1 <= i, i < T), x[i], 0)")),
    "a whole axis": (lambda: X[i, :], ("axis 1", "a whole axis is an index")),
    "a new axis": (lambda: X[i, None], ("axis 1", "each axis has an index, and no other")),
    "a name for an index": (lambda: x["i"], ("x['i']", "an index is no text", "i = index('i', T)")),
    "a place before": (lambda: x[i - 1], ("x[i - 1]", "Sum(where(Eq(j, i - 1), x[j], 0), j)")),
    "every second place": (lambda: X[j, 2 * i], ("axis 1", "Sum(where(Eq(k, 2*i), X[j, k], 0), k)")),
    "a look-up by numbers": (lambda: x[y[i]], ("axis 0", "y = tensor('y', ..., into=T)")),
    # -- flags, which Python would take for true
    "a flag in `and`": (lambda: where(f and i < j, 1, 0), ("f: expected a truth value", "And(f, ...)")),
    "a flag in `not`": (lambda: where(not f, 1, 0), ("f: expected a truth value", "Not(f)")),
    # -- calls that do not fit
    "an axis by number": (
        lambda: softmax(X[i, j], axis=1),  # type: ignore[call-arg]
        ("softmax(X[i, j], axis=1)", "softmax(S[i, j], over=j)"),
    ),
    "a dim by number": (
        lambda: logsumexp(X[i, j], dim=-1),  # type: ignore[call-arg]
        ("logsumexp(X[i, j], dim=-1)", "logsumexp(S[i, j], over=j)"),
    ),
    "an index by place": (
        lambda: mean(x[i], i),  # type: ignore[call-arg]
        ("mean(x[i], i)", "too many positional", "mean(x[i], over=i)"),
    ),
    "no index": (lambda: softmax(x), ("softmax(x)", "'over'", "over=j")),  # type: ignore[call-arg]
    "another divisor": (lambda: variance(x[i], over=i, ddof=1), ("'ddof'", "over=i")),  # type: ignore[call-arg]
    "an argmax without rivals": (lambda: argmax(x[i], over=i), ("'among'", "among=j")),  # type: ignore[call-arg]
    "an axis of a sum": (lambda: Sum(X[i, j], axis=1), ("'axis'", "Sum(S[i, j], i, j)")),  # type: ignore[call-arg]
    "an axis of a row's sum": (lambda: row_sum(M, axis=1), ("'axis'", "row_sum(matrix(Q))")),  # type: ignore[call-arg]
    "one side of a delta": (lambda: delta(i), ("delta(i)", "delta(i, j)")),  # type: ignore[call-arg]
    "a condition alone": (lambda: where(i < j), ("where(i < j)", "'yes'")),  # type: ignore[call-arg]
    "sizes one by one": (lambda: dims("T", "d"), ("dims('T', 'd')", 'dims("T d")')),  # type: ignore[call-arg]
    "an index without a range": (lambda: index("i"), ("'extent'", 'index("i", T)')),  # type: ignore[call-arg]
    "a shape by name": (
        lambda: tensor("x", shape=(T, d)),  # type: ignore[call-arg]
        ("'shape'", 'tensor("Q", T, d)'),
    ),
    "an assumption that there is not": (
        lambda: scalar("s", nonnegative=True),  # type: ignore[call-arg]
        ("'nonnegative'", "positive=True"),
    ),
    "a definition without indices": (
        lambda: program().define("z", s),  # type: ignore[call-arg]
        ("small: define('z', s)", "'body'", "or with [] for a number"),
    ),
    "a claim without a name": (
        lambda: program().claim(x[i], y[i]),  # type: ignore[call-arg]
        ("small: claim(x[i], y[i])", 'program.claim("id", left, right)'),
    ),
    "an option that there is not": (
        lambda: program().claim("c", x[i], y[i], givn=[]),  # type: ignore[call-arg]
        ("'givn'",),
    ),
    # -- programs
    "a program to prove": (lambda: prove(program()), ("found the program small", ".claims")),  # type: ignore[arg-type]
    "a verdict to prove": (
        lambda: prove(prove(program().claim("c", s, s))),  # type: ignore[arg-type]
        ("expected a claim", "found Verdict(", " ..."),
    ),
    "an output as a text": (
        lambda: program().kernel("loss"),  # type: ignore[arg-type]
        ("kernel output", "the text 'loss'", "program['loss']"),
    ),
    "an output as an expression": (
        lambda: program().kernel(exp(s)),
        ("kernel output", "found exp(s)", "define(...)"),
    ),
    "no output": (lambda: program().kernel(), ("at least one output", "loss")),
    "a gradient of a text": (
        lambda: program().gradient("loss"),  # type: ignore[arg-type]
        ("gradient", "the text 'loss'", "program['loss']"),
    ),
    "a gradient for an entry": (
        lambda: program().gradient(program()["loss"], wrt=[x[i]]),
        ("gradient wrt", "the entry x[i]", "write x,"),
    ),
    "a Jacobian of texts": (
        lambda: program().jacobian("loss", "x"),  # type: ignore[arg-type]
        ("jacobian", "the text 'loss'"),
    ),
    "a tangent of a text": (lambda: program().tangent("loss"), ("tangent", "the text 'loss'")),  # type: ignore[arg-type]
    "a derivative for a tensor": (
        lambda: program().derivative(program()["loss"], x),
        ("with respect to x", "as x[j] is one of x", "found the tensor x"),
    ),
    "inputs as a title": (lambda: Program("p", [x]), ("title", "inputs=[...]")),  # type: ignore[arg-type]
    # -- matrices
    "an inverse": (lambda: M.inv(), ("X.inv", "Eq(Sum(X[i, k]*B[k, j], k), delta(i, j))")),
    "a sum of a matrix": (lambda: M.sum(), ("X.sum", "Sum(X[i, j], i, j)")),
    "a function of a matrix": (lambda: exp(M), ("X: expected an expression", "M[i, j]")),
    "a root of a matrix": (lambda: sqrt(M), ("X: expected an expression",)),
    "a matrix compared": (lambda: M < 0, ("X: expected values to compare", "M[i, j] > 0")),
    "matrices compared": (lambda: M == M.T, ("X: expected values to compare", "program.claim")),
    "a matrix and a tensor": (lambda: M * X, ("X * X", "found the tensor X", "matrix(X)")),
    "a tensor and a matrix": (lambda: X * M, ("found the tensor X", "matrix(X)")),
    "a matrix and a text": (lambda: M + "a", ("X + 'a'", "expected an expression")),
    "an array times a matrix": (lambda: np.eye(2) @ M, ("@ X", "expected a matrix")),
    "a matrix times a vector": (lambda: M @ x, ("X @ x", "Sum(M[i, j]*x[j], j)")),
    "an entry as a matrix": (lambda: matrix(X[i, j]), ("matrix(X[i, j])", "the entry X[i, j]")),
    "an array as a matrix": (lambda: matrix(np.eye(2)), ("two axes", "'ndarray'")),  # type: ignore[arg-type]
    "the rows of a matrix": (lambda: list(M), ("X: expected entries", "Sum(M[i, j], i, j)")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_write(name: str) -> None:
    statement, parts = REFUSED[name]
    with pytest.raises(StatementError) as caught:
        statement()
    message = str(caught.value)
    assert [part for part in parts if part not in message] == [], message


def test_a_name_without_an_attribute_is_told_how_definitions_are_read() -> None:
    with pytest.raises(AttributeError, match=r"write program\['loss'\]"):
        program().loss  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'los'$"):
        program().los  # noqa: B018


def test_what_a_symbol_lacks_is_still_an_error_that_python_knows() -> None:
    """hasattr, getattr with a default, and who asks for a number and takes a TypeError for no."""
    assert not hasattr(x, "sum")
    assert not hasattr(x[i], "reshape")
    assert getattr(M, "inv", None) is None
    with pytest.raises(TypeError):
        float(x[i])
    assert (x[i] % y[i]).args == (x[i], y[i])  # SymPy asks of its operands whether they are lists


def test_numbers_of_numpy_are_numbers() -> None:
    two, values = np.float64(2), np.array([1.0, 2.0])
    assert two * x[i] == x[i] * two == 2.0 * x[i]
    assert (np.float64(0.5) < x[i]) == (x[i] > 0.5)
    assert list(values * x[i]) == list(x[i] * values) == [1.0 * x[i], 2.0 * x[i]]
    assert pickle.loads(pickle.dumps(W[i, a])) == W[i, a]
    assert (2 / M)[i, j] == 2 / X[i, j]


def test_a_program_is_shown_by_its_names() -> None:
    made = program()
    assert repr(made) == "<Program small: loss; 0 claims>"
    assert repr(made.gradient(made["loss"])) == "<Gradient small_backward: loss, dx; 0 claims>"


IN_A_FILE = {
    "np.exp(2 * x[i])": "write gradproof's functions",
    "math.exp(2 * x[i])": "write gradproof's functions",
    "x[i] * (i < j)": "iverson(condition)",
    "where(i < j and j < k, 1, 0)": "write And(",
    "max(x[i], 0)": "Max or Min",
    "x[i][j]": "write all indices together",
    "x(i)": "indices stand in square brackets",
    "sum(x[i])": "Sum(f, i)",
    "(x[i] + 1).sum()": "functions over indices",
    "(x[i] + 1) @ x[j]": "matrix(x) @ matrix(y)",
    "int(2 * T)": "stay letters",
    "And(i < j, x[i])": "compare the value",
}


@pytest.mark.parametrize("line", IN_A_FILE)
def test_errors_about_expressions_are_explained_where_a_file_is_read(line: str, tmp_path: Path) -> None:
    path = tmp_path / "statement.py"
    path.write_text(
        "import math\nimport numpy as np\nfrom gradproof import *\nT, = dims('T')\ni, j, k = indices('i j k', T)\n"
        f"x = tensor('x', T)\n{line}\n"
    )
    outcome = CliRunner().invoke(main, ["prove", str(path)])
    assert outcome.exit_code == 2
    assert "statement.py:7" in outcome.stderr
    assert IN_A_FILE[line] in " ".join(outcome.stderr.split()), outcome.stderr


def test_equations_are_still_equations() -> None:
    assert Eq(x[i], y[i]).lhs == x[i]

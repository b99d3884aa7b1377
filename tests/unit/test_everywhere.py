"""What has a value wherever it is computed, and so may have a name outside of the condition that it stands under."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sympy import And, Expr, exp, log, tanh

from codegen.algebra.everywhere import has_value_everywhere
from codegen.algebra.parts import with_parts_named
from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from gradproof import (
    Abs,
    Eq,
    Max,
    Ne,
    Program,
    Sum,
    dims,
    gelu,
    index,
    indices,
    iverson,
    leading_index,
    mean,
    scalar,
    softmax,
    sqrt,
    tensor,
    variance,
    where,
)

N, D = dims("N D")
n = leading_index("n", N)
a, b, c = indices("a b c", D)
x, W, w = tensor("x", N, D), tensor("W", D, D), tensor("w", D)
eps = scalar("eps", positive=True)
s, squares = Sum(x[n, b] * W[a, b], b), Sum(x[n, b] ** 2, b)


@pytest.mark.parametrize(
    "expression",
    [
        gelu(s),
        log(1 + s**2),
        sqrt(squares),
        exp(-(s**2)),
        1 / (1 + exp(s)),
        log(Sum(exp(s), a)),
        exp(s) / (1 + Sum(exp(s), a)),
        log(softmax(s, over=a)),
        (x[n, a] - mean(x[n, b], over=b)) / sqrt(variance(x[n, b], over=b) + eps),
        where(s > 0, log(2 * s), 0),
        where(s <= 0, 1, 1 / s),
        where(s > 1, log(s), 0),
        where(And(s > 0, x[n, a] > 0), log(s) * sqrt(x[n, a]), 0),
        iverson(s > 0) * log(s),
        softmax(log(s), over=a, where=s > 0),
        where(squares > 0, x[n, a] / sqrt(squares), 0),
        where(s > 0, log(1 + s), s / (1 - s)),
        where(s < -1, 1 / s, 0),
        where(s >= 2, 1 / sqrt(s - 1), 0),
        where(s >= 0, sqrt(s), exp(s) / (1 + exp(s))),
        where(s >= 0, 1, exp(s)),  # it does not overflow
        where(Ne(s, 0), tanh(s) / s, 1),
        where(Eq(s, 1), 1, log(s**2 + 1) / (2 * s - 2)),
        where(Abs(s) < 1, sqrt(1 - s**2), 0),
        where(And(s < 1, s > -1), log((1 + s) / (1 - s)), 0),
        where(s < -sqrt(D), sqrt(D) / s, 0),
        where(s / sqrt(D) < -1, sqrt(D) / s, 0),
        where(Abs(s / sqrt(D)) < 1, sqrt(1 - s**2 / D), 0),
        where(Ne(s / D, 0), tanh(s) / s, 1),
        log(Max(s, eps)),
        1 / Max(sqrt(squares), eps),
        where(a > b, sqrt(Sum((x[n, a] - x[n, b]) ** 2, n)) * log(a - b), 0),  # in x[n, a], a is a place
    ],
    ids=str,
)
def test_what_has_a_value(expression: Expr) -> None:
    assert has_value_everywhere(expression)


@pytest.mark.parametrize(
    "expression",
    [
        log(s),
        1 / s,
        s ** (eps - 1),
        exp(s),  # it may overflow
        x[n, a] / sqrt(squares),
        softmax(log(s), over=a),
        where(s < 0, 1, log(s)),  # not at 0
        where(s > 0, log(Sum(x[n, c], c)), 0),
        where(s >= 0, log(s), 0),
        where(s >= 0, 1 / sqrt(s), 0),
        where(s > 0, 1, 1 / (1 + s)),
        where(s > -1, 1 / s, 0),
        where(Ne(s, 0), log(s), 0),
        where(Ne(s, 0), 1 / (s - 1), 0),
        where(Abs(s) <= 1, 1 / (1 - s**2), 0),
        where(Abs(s) > 1, sqrt(1 - s**2), 0),
        where(-Abs(s) < 1, sqrt(1 - s**2), 0),
        log(Max(s, 0)),
        where(x[n, a] > 0, Sum(log(x[n, a]), a), 0),  # the index of the sum is another one
        where(x[n, a] > 0, log(Sum(x[n, a], a)), 0),
    ],
    ids=str,
)
def test_what_may_have_none(expression: Expr) -> None:
    assert not has_value_everywhere(expression)


# ---------------------------------------------------------------------------------------------------------------------
# Parts under conditions.

total, logs = Sum(x[n, a], a), log(Sum(x[n, a], a))
STATEMENTS: dict[str, Callable[[], Expr]] = {
    "selected": lambda: where(total > 0, Sum(softmax(w[c] * logs, over=c) * x[n, c], c) * Sum(tanh(w[b] * logs), b), 0),
    "roots": lambda: where(total > 0, Sum(softmax(x[n, c] / sqrt(total), over=c) * w[c], c) * w[0] / sqrt(total), 0),
    "distances": lambda: Sum(
        w[a] * Sum(softmax(-sqrt(Sum((W[a, c] - W[b, c]) ** 2, c)), over=b, where=b < a) * x[n, b], b), a
    ),
    "beside_a_bracket": lambda: Sum(iverson(s > 0) * tanh(log(s)) * w[a], a) * Sum(iverson(s > 0) * log(s), a),
}


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_nothing_leaves_the_condition_that_guards_it(name: str, target: str, tmp_path: Path) -> None:
    """Under a name the logarithm was taken everywhere: a row that the condition leaves out had the gradient nan."""
    body = STATEMENTS[name]()
    program = Program(name, inputs=[q for q in (x, W, w) if body.has(q)])
    y = program.define("y", [n], body)
    program.kernel(y, wrt=program.all_inputs())
    write(render_all([program], [target]), tmp_path, [target])
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [str(result) for result in results if not result.ok]


def test_what_has_a_value_leaves_it() -> None:
    d = index("d", D)
    normed = x[n, d] / sqrt(Sum(x[n, a] ** 2, a) + eps)
    product = Sum(normed * W[b, d], d)
    program = Program("normed", inputs=[x, W, eps])
    program.define("y", [n], where(x[n, 0] > 0, Sum(gelu(product) * product, b), 0))
    assert [definition.name for definition in with_parts_named(program).definitions] == ["y_sum", "y_sum_2", "y"]

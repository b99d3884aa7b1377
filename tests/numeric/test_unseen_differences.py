"""Differences of large numbers that a function is taken of and that stand beside it: they are subtracted once.

None of these statements is in the library. The log-probabilities of two models are large and their difference is small;
what an estimator of their divergence makes of it is of second order, and rounding at the size of the log-probabilities
would leave nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sympy import Expr, exp, log, tanh

from derive.language import Sum, dims, index, leading_index, scalar, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

N, T = dims("N T")
n, t = leading_index("n", N), index("t", T)
a, b, beta = tensor("a", N, T), tensor("b", N, T), scalar("beta")
u = a[n, t] - b[n, t]
A = np.array([[-1.0, -30.0, -300.0], [-5000.0, -2.5, -77.0]])
SMALL = np.array([[1e-3, -1e-3, 2e-3], [-4.8828125e-3, 0.1, -0.05]])


def with_named_ratio(program: Program) -> Expr:
    r = program.define("r", [n, t], exp(u))
    return r[n, t] - log(r[n, t]) - 1


def with_all_named(program: Program) -> Expr:
    log_ratio = program.define("log_ratio", [n, t], u)
    r = program.define("r", [n, t], exp(log_ratio[n, t]))
    return r[n, t] - 1 - log_ratio[n, t]


STATED: dict[str, tuple[Callable[[Program], Expr], Callable[[Array], Array]]] = {
    "third estimator": (lambda _: exp(u) - u - 1, lambda d: np.expm1(d) - d),
    "with a weight": (lambda _: u / 8 + beta * (3 * exp(-u) + 3 * u - 3), lambda d: d / 8 + 6 * (np.expm1(-d) + d)),
    "of a named ratio": (with_named_ratio, lambda d: np.expm1(d) - d),
    "all by name": (with_all_named, lambda d: np.expm1(d) - d),
    "log of 1 and the difference": (lambda _: log(1 + u) - u, lambda d: np.log1p(d) - d),
    "beside its tangent": (lambda _: 3 * tanh(u) - 3 * u + 1, lambda d: 3 * np.tanh(d) - 3 * d + 1),
}


@pytest.mark.parametrize("is_summed", [False, True], ids=["entries", "sums"])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(STATED))
def test_a_difference_is_subtracted_before_what_stands_beside_it(
    name: str, target: str, is_summed: bool, returned: Any
) -> None:
    stated, expected = STATED[name]
    program = Program("apart", name, [a, b])
    body = stated(program)
    y = program.define("y", [n], Sum(body, t) / T) if is_summed else program.define("y", [n, t], body)
    program.kernel(y, wrt=[a, b])
    first = A.astype(np.float32)
    second = (first - SMALL).astype(np.float32)
    value, *_ = returned(program, target, {"a": first, "b": second}, **({"beta": 2.0} if body.has(beta) else {}))
    wanted = expected(first.astype(float) - second.astype(float))
    np.testing.assert_allclose(value, wanted.mean(-1) if is_summed else wanted, rtol=5e-4)

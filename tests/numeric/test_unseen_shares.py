"""Quotients of sums of shares that all underflow: numerator and divisor are scaled together.

None of these statements is in the library. A softmax along one index is normalised, or averaged with, along the other:
a column of which every row makes next to nothing has shares of its own all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Expr, exp

from codegen.checking.checks import check_kernels
from derive.functions import logsumexp, sigmoid
from derive.language import Sum, dims, indices, iverson, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

N, K = dims("N K")
i, m = indices("i m", N)
j, k = indices("j k", K)
x, y = tensor("x", N, K), tensor("y", N)
SCORES = np.array([[0.0, 0.0, -2000.0], [5.0, 3.0, -1500.0], [1.0, 1.0, -1498.0]])
VALUES = np.array([-9.0, 2.0, 4.0])
spelled = exp(x[i, j]) / Sum(exp(x[i, k]), k)


def named(program: Program) -> Expr:
    """The share of a score in its row, less a logsumexp that has a name."""
    L = program.define("L", [i], logsumexp(x[i, j], over=j))
    return exp(x[i, j] - L[i])


def one_of_all(program: Program) -> Expr:
    share = named(program)
    return y[0] * share.subs(i, 0) / Sum(share, i)


def masked(program: Program) -> Expr:
    held = iverson(y[i] > -5) * named(program)
    return Sum(held * y[i], i) / Sum(held, i)


def weights(scores: Array) -> Array:
    result: Array = np.exp(scores - np.logaddexp.reduce(scores, axis=0))
    return result


LOGS = SCORES - np.logaddexp.reduce(SCORES, axis=1)[:, None]
QUOTIENTS: dict[str, tuple[Callable[[Program], Expr], Array]] = {
    "by name": (lambda p: (lambda share: Sum(share * y[i], i) / Sum(share, i))(named(p)), VALUES @ weights(LOGS)),
    "spelled out": (lambda _: Sum(spelled * y[i], i) / Sum(spelled, i), VALUES @ weights(LOGS)),
    "a square": (lambda _: (Sum(spelled * y[i], i) / Sum(spelled, i)) ** 2, (VALUES @ weights(LOGS)) ** 2),
    "squares": (lambda _: Sum(spelled**2 * y[i], i) / Sum(spelled, i) ** 2, VALUES @ weights(LOGS) ** 2),
    "one of all": (one_of_all, VALUES[0] * weights(LOGS)[0]),
    "masked": (masked, VALUES[1:] @ weights(LOGS[1:])),
    "of gates": (
        lambda _: Sum(sigmoid(x[i, j]) * y[i], i) / Sum(sigmoid(x[i, j]), i),
        VALUES @ weights(-np.logaddexp(0, -SCORES)),
    ),
}


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(QUOTIENTS))
def test_shares_of_shares_have_a_value_where_all_underflow(
    name: str, target: str, returned: Any, tmp_path: Path
) -> None:
    stated, expected = QUOTIENTS[name]
    program = Program("shares", name, [x, y])
    program.kernel(program.define("o", [j], stated(program)), wrt=[x, y])
    with np.errstate(all="raise", under="ignore"):
        value, *slopes = returned(program, target, {"x": SCORES, "y": VALUES})
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert all(result.ok for result in results), [str(result) for result in results if not result.ok]
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert all(np.isfinite(slope).all() for slope in slopes)

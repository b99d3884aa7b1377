"""Focal losses as users may write them, at predictions that are certain: a power of what a share leaves of 1.

None of these statements is in the library. Where a share is 1 the loss is 0 and so is its slope, for every exponent;
by the chain rule it is 0^(gamma - 1) times log 1, which is no number for a gamma below 1. Where a share is 0 the loss
is a difference of logits, under any name that the share may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sympy import Abs, exp, log

from derive.functions import log_softmax, logsumexp, softmax
from derive.language import Sum, Tensor, dims, indices, leading_index, scalar, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

N, C = dims("N C")
n = leading_index("n", N)
c = indices("c", C)[0]
x, k = tensor("x", N, C), tensor("k", N, into=C)
gamma = scalar("gamma", positive=True)

LOGITS = [[0.1, 0.2, 0.3], [1e4, 1e4 + 1, 1e4 - 2], [5.0, 5.0, 5.0], [0.0, 0.0, 1e3], [-1e2, 0.0, 30.0], [0, 0, 1e3]]
LABELS = [0, 1, 2, 0, 2, 2]


def by_share(program: Program) -> Any:
    share = program.define("p", [n, c], softmax(x[n, c], over=c))[n, k[n]]
    return -((1 - share) ** gamma) * log(share)


def by_looked_up_share(program: Program) -> Any:
    shares = program.define("p", [n, c], softmax(x[n, c], over=c))
    share = program.define("r", [n], shares[n, k[n]])[n]
    return -((1 - share) ** gamma) * log(share)


def by_log_share(program: Program) -> Any:
    logarithm = program.define("lp", [n, c], log_softmax(x[n, c], over=c))[n, k[n]]
    return -((1 - exp(logarithm)) ** gamma) * logarithm


def by_cross_entropy(program: Program) -> Any:
    loss = program.define("ce", [n], logsumexp(x[n, c], over=c) - x[n, k[n]])[n]
    share = program.define("r", [n], exp(-loss))[n]
    return (1 - share) ** gamma * loss


def by_exponentials(program: Program) -> Any:
    term = program.define("E", [n, c], exp(x[n, c]))
    total = program.define("Z", [n], Sum(term[n, c], c))
    share = program.define("p", [n, c], term[n, c] / total[n])[n, k[n]]
    return -((1 - share) ** gamma) * log(share)


def expected(logits: Array, labels: Array, power: float) -> tuple[Array, Array]:
    """Values and slopes: with u the log odds, p = sigma(u) and 1 - p = sigma(-u)."""
    rows = np.arange(len(labels))
    others = np.where(np.arange(logits.shape[-1]) == labels[:, None], -np.inf, logits)
    top = others.max(axis=-1, keepdims=True)
    total = np.exp(others - top).sum(axis=-1, keepdims=True)
    odds = logits[rows, labels] - top[:, 0] - np.log(total[:, 0])
    loss, away = np.logaddexp(0, -odds), np.exp(-np.logaddexp(0, odds))
    by_odds = -(away ** (power + 1)) - power * away**power * loss * np.exp(-np.logaddexp(0, -odds))
    slope = -by_odds[:, None] * np.exp(others - top) / total
    slope[rows, labels] = by_odds
    return away**power * loss, slope


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize(
    "written", [by_share, by_looked_up_share, by_log_share, by_cross_entropy, by_exponentials], ids=lambda f: f.__name__
)
def test_certain_predictions(
    written: Callable[[Program], Any], target: str, dtype: type, power: float, returned: Any
) -> None:
    program = Program("focal", "focal loss over classes", [x, k, gamma])
    program.kernel(program.define("L", [n], written(program)), wrt=[x])
    given = {"x": np.array(LOGITS, dtype), "k": np.array(LABELS)}
    wanted = expected(given["x"].astype(np.float64), given["k"], power)
    for found, right in zip(returned(program, target, given, gamma=power), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=32 * np.finfo(dtype).eps * max(1, np.abs(right).max()))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_one_class_is_certain(target: str, returned: Any) -> None:
    program = Program("focal", "focal loss over classes", [x, k, gamma])
    program.kernel(program.define("L", [n], by_looked_up_share(program)), wrt=[x])
    given = {"x": np.array([[3.0], [-1e4]]), "k": np.zeros(2, int)}
    for found in returned(program, target, given, gamma=0.5):
        assert not found.any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("power", "at_zero"), [(0.5, 0.0), (1.0, 1.0), (2.0, 0.0)])
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_power_with_a_letter_has_a_slope_at_zero(target: str, power: float, at_zero: float, returned: Any) -> None:
    y = tensor("y", N)
    program = Program("powers", "powers of magnitudes", [y, gamma])
    assert isinstance(y, Tensor)
    program.kernel(program.define("L", [n], (Abs(y[n]) + y[n]) ** gamma / 2**gamma), wrt=[y])
    value, slope = returned(program, target, {"y": np.array([0.0, 4.0, -1.0])}, gamma=power)
    np.testing.assert_allclose(value, [0, 4**power, 0])
    np.testing.assert_allclose(slope, [at_zero, power * 4 ** (power - 1), 0], rtol=1e-14)

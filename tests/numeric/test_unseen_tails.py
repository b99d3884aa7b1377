"""Functions of one number as a user may write them, where they are small or cancel: values and slopes keep digits.

None of these statements is in the library: a difference of exponentials under a logarithm or in a divisor, a root of a
logistic function, a hyperbolic function that divides and has a name, the logarithm of a selection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sympy import Expr, Max, Min, cosh, exp, log, sinh, sqrt

from derive.functions import sigmoid
from derive.language import dims, leading_index, tensor, where
from derive.program import Program

Array = np.ndarray[Any, Any]

n = leading_index("n", dims("N")[0])
u = tensor("u", n.extent)
FAR = [-1e4, -300.0, -88.0, -1.5, 0.0, 2.5, 88.0, 300.0, 1e4]
RATES = [-1e4, -500.0, -90.0, -40.0, -20.0, -1.0, 0.0, 0.5, 1.0, 3.0, 50.0, 80.0]
BELOW = [-1e4, -50.0, -2.0, -1e-3, -1e-6]


def log_of_chance(x: Array) -> Array:
    """log(1 - exp(-exp(x)))."""
    below = np.log(-np.expm1(-np.exp(np.clip(x, -40, 0)))) + np.minimum(x + 40, 0)
    result: Array = np.where(x > 0, np.log1p(-np.exp(-np.exp(np.clip(x, 0, 10)))), below)
    return result


CASES: dict[str, tuple[Callable[[Expr], Expr], list[float], Callable[[Array], tuple[Array, Array]]]] = {
    "complementary log-log": (
        lambda x: log(1 - exp(-exp(x))),
        RATES,
        lambda x: (log_of_chance(x), np.exp(x - np.exp(x) - log_of_chance(x))),
    ),
    "chance in a time": (
        lambda x: 2 * log(3 - 3 * exp(-5 * exp(x) / 2)),
        RATES[1:-3],
        lambda x: (
            2 * (np.log(3) + log_of_chance(x + np.log(2.5))),
            2 * np.exp(x + np.log(2.5) - 2.5 * np.exp(x) - log_of_chance(x + np.log(2.5))),
        ),
    ),
    "log of an exponential of a rate less 1": (
        lambda x: log(exp(exp(x)) - 1),
        [*RATES[:-2], 1e1],
        lambda x: (np.exp(x) + log_of_chance(x), np.exp(x - log_of_chance(x))),
    ),
    "log of odds": (
        lambda x: log(exp(x) / (1 - exp(x))),
        BELOW,
        lambda x: (x - np.log(-np.expm1(x)), -1 / np.expm1(x)),
    ),
    "Bose-Einstein": (
        lambda x: x * exp(x) / (1 - exp(x)),
        BELOW[:3],
        lambda x: (-x * np.exp(x) / np.expm1(x), np.exp(x) * (x - np.expm1(x)) / np.expm1(x) ** 2),
    ),
    "root of a logistic function": (
        lambda x: sqrt(sigmoid(x)),
        FAR,
        lambda x: (np.exp(-np.logaddexp(0, -x) / 2), np.exp(-np.logaddexp(0, -x) / 2 - np.logaddexp(0, x)) / 2),
    ),
    "hyperbolic secant": (
        lambda x: 1 / cosh(x),
        FAR,
        lambda x: (2 * np.exp(-np.logaddexp(x, -x)), -2 * np.tanh(x) * np.exp(-np.logaddexp(x, -x))),
    ),
    "sinh over cosh squared": (
        lambda x: sinh(x) / cosh(x) ** 2,
        FAR,
        lambda x: (
            2 * np.tanh(x) * np.exp(-np.logaddexp(x, -x)),
            2 * (1 - 2 * np.tanh(x) ** 2) * np.exp(-np.logaddexp(x, -x)),
        ),
    ),
    "Welsch's loss": (
        lambda x: 1 - exp(-(x**2) / 2),
        [-1e4, -5.0, -1.0, -1e-3, -1e-6, 1e-5, 0.5, 4.0],
        lambda x: (-np.expm1(-(x**2) / 2), x * np.exp(-(x**2) / 2)),
    ),
    "CELU by minima": (
        lambda x: Max(x, 0) + Min(0, 2 * (exp(x / 2) - 1)),
        FAR,
        lambda x: (
            np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)),
            np.where(x == 0, 0, np.exp(np.minimum(x, 0) / 2)),
        ),
    ),
    "what a rise leaves": (
        lambda x: Max(1, 3 - 2 * exp(-x)),
        FAR,
        lambda x: (3 - 2 * np.exp(-np.maximum(x, 0)), np.where(x > 0, 2 * np.exp(-np.maximum(x, 0)), 0)),
    ),
    "capped exponential": (
        lambda x: Min(5, exp(x)),
        FAR,
        lambda x: (np.minimum(5, np.exp(np.minimum(x, 2))), np.where(x < 1.6, np.exp(np.minimum(x, 2)), 0)),
    ),
    "log of a selection": (
        lambda x: log(where(x > 0, x + 1, exp(x))),
        FAR,
        lambda x: (np.where(x > 0, np.log1p(np.maximum(x, 0)), x), 1 / (1 + np.maximum(x, 0))),
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_far_out_and_near_zero(name: str, target: str, dtype: type, returned: Any) -> None:
    function, places, expected = CASES[name]
    program = Program("bent", name, [u])
    program.kernel(program.define("y", [n], function(u[n])), wrt=[u])
    given: Array = np.array(places, dtype)
    value, slope = returned(program, target, {"u": given})
    with np.errstate(under="ignore"):
        wanted = expected(given.astype(np.float64))
    smallest = 128 * np.finfo(dtype).tiny
    tolerance = 4 * np.finfo(dtype).eps * (1 + np.abs(given.astype(np.float64)).clip(0, 100))
    for found, right in zip((value, slope), wanted, strict=True):
        error = np.abs(found - right)
        assert (error <= tolerance * np.abs(right) + smallest).all(), (given, found, right)

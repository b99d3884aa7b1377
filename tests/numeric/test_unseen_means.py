"""Generalised means and what is made of powers with a letter as exponent, where the powers underflow or overflow.

None of these statements is in the library. At entries around 1e-3 the 20th power is no number of float32, and the mean
of such powers, its root, and what is divided by it are numbers like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Expr, Max, log

from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from derive.language import Sum, dims, index, indices, leading_index, scalar, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

N, K, C = dims("N K C")
n, c = leading_index("n", N), index("c", C)
k, m = indices("k m", K)
x, w = tensor("x", N, K, positive=True), tensor("w", K, positive=True)
z, q = tensor("z", N, K), tensor("q", C, positive=True)
p, eps = scalar("p", positive=True), scalar("eps", positive=True)
powers = Sum(x[n, k] ** p, k)

GIVEN = np.array(
    [[1e-3, 2e-3, 1.5e-3], [1.0, 2.0, 3.0], [2e10, 1.5e10, 1.9e10], [1e-20, 2e-20, 0.5e-20], [5.0, 5.0, 5.0]]
)
WEIGHTS = np.array([0.5, 1.0, 2.0])
AT = 20.0


def with_named_mean(program: Program) -> Expr:
    M = program.define("M", [n], powers / K)
    return M[n] ** (1 / p)


def with_named_powers(program: Program) -> Expr:
    z = program.define("powers", [n, k], x[n, k] ** p)
    total = program.define("total", [n], Sum(z[n, k], k))
    return total[n] ** (1 / p)


def scaled(weights: Any, at: Any = AT) -> Array:
    """Sum(w x^p)^(1/p), by the powers of what is left of x over its maximum."""
    top = GIVEN.max(-1)
    result: Array = top * (weights * (GIVEN / top[:, None]) ** at).sum(-1) ** (1 / at)
    return result


def share() -> Array:
    raised = (GIVEN / GIVEN.max(-1, keepdims=True)) ** AT
    result: Array = raised / raised.sum(-1, keepdims=True)
    return result


MEANS: dict[str, tuple[Callable[[Program], Expr], Callable[[], Array]]] = {
    "mean": (lambda _: (powers / K) ** (1 / p), lambda: scaled(1 / 3)),
    "mean with a name": (with_named_mean, lambda: scaled(1 / 3)),
    "norm of named powers": (with_named_powers, lambda: scaled(1.0)),
    "weighted": (lambda _: Sum(w[k] * x[n, k] ** p, k) ** (1 / p), lambda: scaled(WEIGHTS)),
    "clamped": (lambda _: (Sum(Max(x[n, k], eps) ** p, k) / K) ** (1 / p), lambda: scaled(1 / 3)),
    "logarithm": (lambda _: log(powers / K) / p, lambda: np.log(scaled(1 / 3))),
    "Lehmer": (lambda _: Sum(x[n, k] ** (p + 1), k) / powers, lambda: (share() * GIVEN).sum(-1)),
    "by shares": (lambda _: Sum(x[n, k] ** p * w[k], k) / powers, lambda: share() @ WEIGHTS),
}


def slope(value: Callable[[], Array]) -> Array:
    """Central differences of a value in the entries of what is given, relative to their size."""
    global GIVEN
    kept, made = GIVEN, np.empty_like(GIVEN)
    for place in range(GIVEN.shape[1]):
        step = np.zeros(GIVEN.shape[1])
        step[place] = 1e-6
        sides = []
        for sign in (1, -1):
            GIVEN = kept * (1 + sign * step)
            sides.append(value())
        made[:, place] = (sides[0] - sides[1]) / (2e-6 * kept[:, place])
        GIVEN = kept
    return made


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(MEANS))
def test_means_of_powers_that_are_no_numbers(
    name: str, target: str, dtype: type, returned: Any, tmp_path: Path
) -> None:
    stated, expected = MEANS[name]
    program = Program("means", name, [x])
    program.kernel(program.define("y", [n], stated(program)), wrt=[x])
    inputs = [str(symbol.name) for symbol in program.all_inputs()]
    arrays, options = {"x": GIVEN.astype(dtype), "w": WEIGHTS.astype(dtype)}, {"p": AT, "eps": 1e-30}
    given, chosen = ({one: each[one] for one in inputs if one in each} for each in (arrays, options))
    value, found = returned(program, target, given, **chosen)
    assert all(result.ok for result in check_kernels([program], target=target, folder=tmp_path))
    size = np.abs(np.log(GIVEN.astype(dtype))).max(-1) * AT * np.finfo(dtype).eps + 1e-12
    np.testing.assert_array_less(np.abs(value / expected() - 1) / size, 2)
    right = slope(expected)
    # Where the slopes of shares cancel, what is left is as exact as what they are made of.
    bound = 4 * AT * np.maximum(size, 1e-9)[:, None] * np.maximum(np.abs(expected()), 1)[:, None] / GIVEN
    assert (np.abs(found - right) <= bound).all(), (found, right)


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_entries_of_zero_are_at_the_edge(target: str, returned: Any) -> None:
    program = Program("edge", inputs=[x])
    program.kernel(program.define("y", [n], (powers / K) ** (1 / p)), wrt=[x])
    with np.errstate(divide="ignore"):
        value, found = returned(program, target, {"x": np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]])}, p=3.0)
    mean = np.cbrt(3)
    np.testing.assert_allclose(value, [0, mean], rtol=1e-14)
    np.testing.assert_allclose(found, [[0, 0, 0], [0, mean**-2 / 3, 4 * mean**-2 / 3]], rtol=1e-14)


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_an_exponent_for_each_channel_has_a_gradient(target: str, tmp_path: Path) -> None:
    program = Program("channels", inputs=[x, q])
    program.kernel(program.define("y", [n, c], (Sum(x[n, k] ** q[c], k) / K) ** (1 / q[c])), wrt=[x, q])
    write(render_all([program], [target]), tmp_path, [target])
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert all(result.ok for result in results), [str(result) for result in results if not result.ok]


@pytest.mark.parametrize(
    "body", [powers, x[n, k] ** p, powers + 1, Sum(z[n, m] ** p, m) / K, Sum(x[n, m] ** 3, m) ** (1 / p)]
)
def test_other_powers_are_left_alone(body: Expr) -> None:
    program = Program("alone", inputs=[x, z])
    indices = [n, k] if body == x[n, k] ** p else [n]
    program.kernel(program.define("y", indices, body))
    assert "np.log" not in render_all([program], ["numpy"])["numpy/alone.py"]

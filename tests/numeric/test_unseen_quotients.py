"""Means by exponentials that are written out, a few times and under conditions, at scores of 1e3 and more.

None of these statements is in the library. Exponentials of such scores overflow or vanish, where the mean has a value
like any other: what divides them must be in the same place, and so must the question whether there is anything to mean.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Expr, exp, tanh

from codegen.algebra.trace import traced
from codegen.checking.checks import check_kernels
from gradproof import Ne, Program, Sum, dims, index, indices, iverson, leading_index, tensor, where

Array = np.ndarray[Any, Any]

N, J, C = dims("N J C")
n, j, c, e = leading_index("n", N), index("j", J), *indices("c e", C)
x, y, mask = tensor("x", N, J), tensor("y", N, J, C), tensor("mask", N, J)
held = iverson(mask[n, j] > 0)
total = Sum(held * exp(x[n, j]), j)

SCORES = np.array([[0.3, -0.2, 1.0], [-1e3, -1001, -1e4], [1e3, 999, 0], [2e3, 1e3, 1e3], [0, 1e3, -1e3]])
MASK = np.array([[1, 1, -1], [1, 1, 1], [1, 1, -1], [-1, -1, -1], [1, -1, 1]], dtype=float)
VALUES = np.arange(30.0).reshape(5, 3, 2) / 10 - 1


def twice(place: Any) -> Expr:
    mean = Sum(exp(x[n, j]) * y[n, j, e], j) / (1 + Sum(exp(x[n, j]), j))
    return y[n, 0, place] * Sum(tanh(2 * mean) * tanh(mean), e)


def guarded(place: Any) -> Expr:
    return where(total > 0, Sum(held * exp(x[n, j]) * y[n, j, place], j) / total, 0)


def guarded_otherwise(place: Any) -> Expr:
    return where(Ne(3 * total, 0), Sum(held * exp(x[n, j]) * y[n, j, place], j) / total, 0)


def guarded_inside(place: Any) -> Expr:
    return where(x[n, 0] > -5000, Sum(tanh(guarded(e)) * y[n, 0, e], e) * guarded(place), 0)


def shares(kept: Array, beside: float) -> Array:
    """Exponentials of what is kept over their sum, and one of a score beside it; 0 where nothing is kept."""
    scores = np.where(kept, SCORES, -np.inf)
    everything = np.logaddexp(np.logaddexp.reduce(scores, axis=-1), beside)[:, None]
    result: Array = np.exp(scores - np.where(kept.any(-1, keepdims=True), everything, 0))
    return result


def mean_of_kept() -> Array:
    result: Array = np.einsum("nj,njc->nc", shares(MASK > 0, -np.inf), VALUES)
    return result


def expected_twice() -> Array:
    mean = np.einsum("nj,njc->nc", shares(MASK > -2, 0), VALUES)
    result: Array = VALUES[:, 0] * (np.tanh(2 * mean) * np.tanh(mean)).sum(-1, keepdims=True)
    return result


CASES: dict[str, tuple[Callable[[Any], Expr], Callable[[], Array]]] = {
    "twice": (twice, expected_twice),
    "guarded": (guarded, mean_of_kept),
    "guarded_otherwise": (guarded_otherwise, mean_of_kept),
    "guarded_inside": (
        guarded_inside,
        lambda: (np.tanh(mean_of_kept()) * VALUES[:, 0]).sum(-1, keepdims=True) * mean_of_kept(),
    ),
}


def program_of(name: str) -> Program:
    body = CASES[name][0](c)
    program = Program(name, inputs=[x, y, *([mask] if body.has(mask) else [])])
    program.kernel(program.define("o", [n, c], body), wrt=[x, y])
    return program


def named() -> Program:
    program = Program("named", inputs=[x, y, mask])
    Z = program.define("Z", [n], total)
    body = where(Z[n] > 0, Sum(held * exp(x[n, j]) * y[n, j, c], j) / Z[n], 0)
    program.kernel(program.define("o", [n, c], body), wrt=[x, y])
    return program


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", [*CASES, "named"])
def test_means_have_their_value_at_any_scores(name: str, target: str, returned: Any, tmp_path: Path) -> None:
    program = named() if name == "named" else program_of(name)
    known = {"x": SCORES, "y": VALUES, "mask": MASK}
    given = {str(symbol.name): known[str(symbol.name)] for symbol in program.all_inputs()}
    with np.errstate(all="raise", under="ignore"):
        output, *slopes = returned(program, target, given)
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert all(result.ok for result in results), [str(result) for result in results if not result.ok]
    expected = mean_of_kept() if name == "named" else CASES[name][1]()
    np.testing.assert_allclose(output, expected, rtol=1e-12, atol=1e-14)
    assert all(np.isfinite(slope).all() for slope in slopes)


def test_what_is_asked_is_the_set() -> None:
    (definition,) = [d for d in traced(program_of("guarded")).program.definitions if d.name == "o"]
    assert definition.body.args[0] == (Sum(held, j) > 0)

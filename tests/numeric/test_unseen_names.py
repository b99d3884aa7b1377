"""Names for what a logarithm is taken of: the share that is looked up, odds, hazards, mixtures, at logits of 1e4.

None of these statements is in the library. A user who names a probability before taking its logarithm gets the kernel
that the logarithm of the softmax has: no share that underflows is computed on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import exp, log

from codegen.checking.array_library import array_library
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.functions import log_softmax, sigmoid, softmax
from derive.language import Product, Sum, dims, indices, leading_index, tensor, where
from derive.program import Program

Array = np.ndarray[Any, Any]

N, C = dims("N C")
n = leading_index("n", N)
c, e = indices("c e", C)
x, y, k = tensor("x", N, C), tensor("y", N, C), tensor("k", N, into=C)
kept = tensor("kept", N, C, into=2)

LOGITS = np.array([[0.1, 0.2, 0.3], [1e4, 1e4 + 1, 1e4 - 2], [5, 5, 5], [0, 0, 1e3], [-1e2, 0, 30], [0, 0, 1e3]])
LABELS = np.array([0, 1, 2, 0, 2, 2])
KEPT = np.array([[1, 0, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 1]])
HAZARDS = np.array([[0.1, 0.2, 0.3], [100, -100, 0], [-5, -6, -7], [300, 300, -300], [-300, 1e3, 2], [0, -1e3, 1e3]])


def lse(values: Array) -> Array:
    """Logsumexp along the last axis."""
    result: Array = np.logaddexp.reduce(values, axis=-1)
    return result


def shares(values: Array) -> Array:
    """Softmax along the last axis."""
    return np.exp(values - lse(values)[..., None])


def chosen(labels: Array) -> Array:
    """Whether a class is the label, as 0 or 1."""
    return (np.arange(3) == labels[:, None]).astype(float)


def looked_up(program: Program) -> Any:
    share = program.define("p", [n, c], softmax(x[n, c], over=c))
    return -log(program.define("r", [n], share[n, k[n]])[n])


def looked_up_expected(x: Array, k: Array) -> tuple[Array, Array]:
    return lse(x) - x[np.arange(len(k)), k], shares(x) - chosen(k)


def odds(program: Program) -> Any:
    share = program.define("p", [n, c], softmax(x[n, c], over=c))[n, k[n]]
    return -log(program.define("r", [n], share / (1 - share))[n])


def odds_expected(x: Array, k: Array) -> tuple[Array, Array]:
    others = np.where(chosen(k) > 0, -np.inf, x)
    return lse(others) - x[np.arange(len(k)), k], shares(others) - chosen(k)


def likelihood(program: Program) -> Any:
    known = program.define("l", [n, c], log_softmax(x[n, c], over=c))[n, k[n]]
    return log(1 - exp(known)) - known


def selected(program: Program) -> Any:
    share = program.define("p", [n, c], softmax(x[n, c], over=c))
    return -log(program.define("r", [n], Sum(where(kept[n, c] > 0, share[n, c], 0), c))[n])


def selected_expected(x: Array, kept: Array) -> tuple[Array, Array]:
    left = np.where(kept > 0, x, -np.inf)
    return lse(x) - lse(left), shares(x) - shares(left)


def hazard(program: Program) -> Any:
    at = program.define("h", [n, c], sigmoid(x[n, c]))
    before = program.define("S", [n, c], Product(where(e < c, 1 - at[n, e], 1), e))
    return -log(program.define("f", [n, c], at[n, c] * before[n, c])[n, k[n]])


def hazard_expected(x: Array, k: Array) -> tuple[Array, Array]:
    sign = np.where(np.arange(3) < k[:, None], 1.0, -chosen(k))
    return np.where(sign != 0, np.logaddexp(0, sign * x), 0).sum(-1), sign * np.exp(-np.logaddexp(0, -sign * x))


def mixture(program: Program) -> Any:
    weight = program.define("w", [n, c], softmax(x[n, c], over=c))
    density = program.define("E", [n, c], exp(-(y[n, c] ** 2) / 2))
    joint = program.define("j", [n, c], weight[n, c] * density[n, c])
    return -log(program.define("m", [n], Sum(joint[n, c], c))[n])


def mixture_expected(x: Array, y: Array) -> tuple[Array, Array]:
    joint = x - y**2 / 2
    return lse(x) - lse(joint), shares(x) - shares(joint)


CASES: dict[str, tuple[Callable[[Program], Any], Callable[[Array, Array], tuple[Array, Array]], Any, Array, Array]] = {
    "looked up": (looked_up, looked_up_expected, k, LOGITS, LABELS),
    "odds": (odds, odds_expected, k, LOGITS, LABELS),
    "odds by a logarithm": (likelihood, odds_expected, k, LOGITS, LABELS),
    "selected": (selected, selected_expected, kept, LOGITS, KEPT),
    "hazard": (hazard, hazard_expected, k, HAZARDS, LABELS),
    "mixture": (mixture, mixture_expected, y, LOGITS / 10, 1 + HAZARDS),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_named_probability_has_its_logarithm(name: str, target: str, dtype: type, tmp_path: Path) -> None:
    written, expected, other, logits, rest = CASES[name]
    program = Program("named", name, [x, other])
    program.kernel(program.define("L", [n], written(program)), wrt=[x])
    given = [logits.astype(dtype), rest.astype(dtype) if rest.dtype.kind == "f" else rest]
    library = array_library(target)
    write(render_all([program], [target]), tmp_path, [target])
    assert program.request is not None
    with opened(program, program.request, tmp_path, library) as kernel:
        arrays = dict(zip(["x", str(other.name)], map(library.array, given), strict=True))
        (output,), saved = kernel.run(arrays, {})
        (slope,) = kernel.gradients(library.array(np.ones(len(logits), dtype)), saved)
    wanted = expected(*(array.astype(np.longdouble) if array.dtype == dtype else array for array in given))
    for found, right in zip((output, slope), wanted, strict=True):
        scale = np.abs(right).max(axis=tuple(range(1, right.ndim)), initial=1.0, keepdims=True)
        digits = (256 if "odds" in name else 32) * np.finfo(dtype).eps  # the slope of odds has odds as factors
        assert (np.abs(library.plain(found) - right) <= digits * scale).all(), library.plain(found)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_at_least_one_of_many_that_are_unlikely(target: str, tmp_path: Path) -> None:
    program = Program("noisy", "one or more", [x])
    each = program.define("p", [n, c], sigmoid(x[n, c]))
    whole = program.define("r", [n], 1 - Product(1 - each[n, c], c))
    program.kernel(program.define("L", [n], -log(whole[n])), wrt=[x])
    given = np.array([[-30.0, -31.0, -30.0], [-200.0, -210.0, -250.0], [3.0, 100.0, 1e3]])
    library = array_library(target)
    write(render_all([program], [target]), tmp_path, [target])
    assert program.request is not None
    with opened(program, program.request, tmp_path, library) as kernel:
        (output,), saved = kernel.run({"x": library.array(given)}, {})
        (slope,) = kernel.gradients(library.array(np.ones(3)), saved)
    np.testing.assert_allclose(library.plain(output)[:2], -lse(given[:2]), rtol=1e-11)
    np.testing.assert_allclose(library.plain(slope)[:2], -shares(given[:2]), rtol=1e-11)
    assert not library.plain(output)[2:].any()
    assert np.abs(library.plain(slope)[2:]).max() < 1e-40

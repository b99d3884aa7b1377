"""Exponentials that a condition selects, and what they and their slopes are at logits of 1e4.

A masked softmax may be written with brackets, as [c] exp(x), or with choices, as where(c, exp(x), 0). No statement of
the library has the second form, and none sums logistic functions of differences along both sides.
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
from derive.functions import softmax
from derive.language import Sum, dims, indices, leading_index, tensor, where
from derive.program import Program

Array = np.ndarray[Any, Any]

N, C = dims("N C")
n = leading_index("n", N)
c, e = indices("c e", C)
x, y, s = tensor("x", N, C), tensor("y", N, C), tensor("s", N)
k = tensor("k", N, into=C)


def log_shares(values: Array) -> Array:
    """The logarithm of softmax along the last axis."""
    below = values - values.max(axis=-1, keepdims=True)
    result: Array = below - np.log(np.exp(below).sum(axis=-1, keepdims=True))
    return result


def selected() -> Program:
    """Shares of what a condition selects, and of a sink."""
    program = Program("selected", "selected exponentials beside a sink", [x, y, s])
    total = program.define("Z", [n], exp(s[n]) + Sum(where(y[n, e] > 0, exp(x[n, e]), 0), e))
    program.kernel(program.define("p", [n, c], where(y[n, c] > 0, exp(x[n, c]) / total[n], 0)), wrt=[x, s])
    return program


def selected_expected(x: Array, y: Array, s: Array) -> tuple[Array, ...]:
    p = np.exp(log_shares(np.concatenate([np.where(y > 0, x, -np.inf), s[..., None]], axis=-1)))
    kept, rest = p[..., :-1], p[..., -1]
    return kept, kept * rest[..., None], -kept.sum(axis=-1) * rest


def named() -> Program:
    """A weighted mean over what is selected; the selected exponentials have a name."""
    program = Program("named", "selected exponentials with a name", [x, y])
    term = program.define("E", [n, c], where(y[n, c] > -1, exp(x[n, c]), 0))
    program.kernel(program.define("o", [n], Sum(term[n, c] * y[n, c], c) / Sum(term[n, c], c)), wrt=[x])
    return program


def named_expected(x: Array, y: Array) -> tuple[Array, ...]:
    p = np.exp(log_shares(np.where(y > -1, x, -np.inf)))
    mean = (p * y).sum(axis=-1)
    return mean, p * (y - mean[..., None])


def either() -> Program:
    """The logarithm of a sum of one exponential or another."""
    program = Program("either", "log of a sum of choices", [x, y])
    term = where(y[n, c] > 0, exp(x[n, c]), exp(-x[n, c]))
    program.kernel(program.define("o", [n], log(Sum(term, c))), wrt=[x])
    return program


def either_expected(x: Array, y: Array) -> tuple[Array, ...]:
    sign = np.where(y > 0, 1, -1)
    shares = log_shares(sign * x)
    return (sign * x - shares)[..., 0], sign * np.exp(shares)


def pairs() -> Program:
    """A ranking loss: logistic functions of differences, summed along either side."""
    program = Program("pairs", "pairs in the wrong order", [x, y])
    term = where(y[n, c] > y[n, e], log(1 + exp(x[n, e] - x[n, c])), 0)
    program.kernel(program.define("o", [n], Sum(term, c, e)), wrt=[x])
    return program


def pairs_expected(x: Array, y: Array) -> tuple[Array, ...]:
    below, counts = x[:, None] - x[..., None], y[..., None] > y[:, None]
    slope = counts * np.exp(-np.logaddexp(0, -below))
    return (counts * np.logaddexp(0, below)).sum(axis=(1, 2)), slope.sum(axis=1) - slope.sum(axis=2)


def others() -> Program:
    """The log of odds against a class, whose share has a name: all that is left is the share of the others."""
    program = Program("others", "log of the share of the others", [x, k])
    share = program.define("p", [n, c], softmax(x[n, c], over=c))
    program.kernel(program.define("o", [n], log(share[n, k[n]]) - 2 * log(1 - share[n, k[n]])), wrt=[x])
    return program


def others_expected(x: Array, k: Array) -> tuple[Array, ...]:
    own = np.arange(x.shape[1]) == k[:, None]
    masked = np.where(own, -np.inf, x)
    rest, top = log_shares(masked), masked.max(axis=-1)
    odds = (x[own] - top) - np.log(np.exp(masked - top[:, None]).sum(axis=-1))
    slope = np.exp(-np.logaddexp(0, -odds))
    value = -np.logaddexp(0, -odds) + 2 * np.logaddexp(0, odds)
    return value, ((1 + slope)[:, None]) * (own - np.exp(rest))


CASES: dict[str, tuple[Callable[[], Program], Callable[..., tuple[Array, ...]]]] = {
    "selected": (selected, selected_expected),
    "named": (named, named_expected),
    "either": (either, either_expected),
    "pairs": (pairs, pairs_expected),
    "others": (others, others_expected),
}
LOGITS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda z: z,
    "+-1e4": lambda z: np.where(z > 0, 1e4, -1e4),
    "times 1e4": lambda z: 1e4 * z,
    "around 1e4": lambda z: z + 1e4,
    "around -1e4": lambda z: z - 1e4,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_at_large_logits(name: str, target: str, dtype: type, tmp_path: Path) -> None:
    statement, expected = CASES[name]
    program = statement()
    assert program.request is not None
    library = array_library(target)
    write(render_all([program], [target]), tmp_path, [target])
    with opened(program, program.request, tmp_path, library) as kernel:
        for kind in LOGITS.values():
            rng = np.random.default_rng(5)
            known = {
                "x": kind(rng.standard_normal((4, 5))).astype(dtype),
                "y": np.linspace(-2, 2, 20).reshape(5, 4).T.astype(dtype),
                "s": kind(rng.standard_normal(4)).astype(dtype),
                "k": np.array([0, 2, 4, 2]),
            }
            given = {called: known[called] for called in map(str, program.all_inputs())}
            (output,), saved = kernel.run({called: library.array(values) for called, values in given.items()}, {})
            upstream = library.array(np.ones(tuple(output.shape), dtype))
            wanted = expected(
                *(values.astype(values.dtype if called == "k" else np.float64) for called, values in given.items())
            )
            for found, right in zip((output, *kernel.gradients(upstream, saved)), wanted, strict=True):
                scale = max(1.0, float(np.abs(right).max()))
                np.testing.assert_allclose(library.plain(found), right, rtol=0, atol=16 * np.finfo(dtype).eps * scale)

"""Differences of two logistic functions, and their logarithms: the bins of an ordinal or a discretised distribution.

None of these statements is in the library. In float32, with borders far out and close to each other, against mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from sympy import Max, Rational, exp, log

from codegen.checking.array_library import array_library
from codegen.checking.checks import check_kernels
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.functions import sigmoid
from derive.language import dims, index, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

(M,) = dims("M")
m = index("m", M)
a, b, x, s = (tensor(name, M) for name in "abxs")

HIGH = np.array([1e4, 40.0, 18, 17, 1, 1e-6, 0, -17, -90, -1e4, 1e4, 100, -99], np.float32)
LOW = np.array([9e3, 39.5, 17, 16.999, -1, -1e-6, -1e-6, -17.001, -91, -1.1e4, -1e4, 0, -100], np.float32)
POINTS = np.array([0, 1, 30, -30, 1e4, -1e4, 0.25, 0], np.float32)
SCALES = np.array([0, -3, -1, 2, 0, 1, 20, -2], np.float32)


def gap() -> Program:
    """The share of a bin."""
    program = Program("gap", "share of a bin", [a, b])
    program.kernel(program.define("o", [m], sigmoid(a[m]) - sigmoid(b[m])), wrt=[a, b])
    return program


def log_gap() -> Program:
    """Its logarithm, the shares below its borders by name."""
    program = Program("log_gap", "log share of a bin", [a, b])
    below, above = program.define("u", [m], sigmoid(b[m])), program.define("v", [m], sigmoid(a[m]))
    program.kernel(program.define("o", [m], log(above[m] - below[m])), wrt=[a, b])
    return program


def discretised() -> Program:
    """The logarithm of the share of a bin of width 1 around a point."""
    program = Program("discretised", "discretised logistic distribution", [x, s])
    upper, lower = (x[m] + Rational(1, 2)) * exp(-s[m]), (x[m] - Rational(1, 2)) * exp(-s[m])
    program.kernel(program.define("o", [m], log(sigmoid(upper) - sigmoid(lower))), wrt=[x, s])
    return program


def floored() -> Program:
    """The logarithm of the share of a bin, or of the least that it is taken for."""
    program = Program("floored", "log share of a bin, from below", [a, b])
    program.kernel(program.define("o", [m], log(Max(sigmoid(a[m]) - sigmoid(b[m]), 1e-30))), wrt=[a, b])
    return program


def soft_step() -> Program:
    """A softplus less another, whose slope is the share of a bin."""
    program = Program("soft_step", "a step with soft corners", [a, b])
    program.kernel(program.define("o", [m], log((1 + exp(a[m])) / (1 + exp(a[m] - 1))) + b[m]), wrt=[a])
    return program


def soft_step_expected(a: Any, b: Any) -> tuple[Any, ...]:
    upper, lower = mpmath.log(1 + mpmath.exp(a)), mpmath.log(1 + mpmath.exp(a - 1))
    return upper - lower + b, logistic(a) - logistic(a - 1)


def logistic(u: Any) -> Any:
    """1 / (1 + exp(-u)), without a difference for its tail."""
    return 1 / (1 + mpmath.exp(-u))


def gap_expected(a: Any, b: Any) -> tuple[Any, ...]:
    return logistic(a) - logistic(b), logistic(a) * logistic(-a), -logistic(b) * logistic(-b)


def log_gap_expected(a: Any, b: Any) -> tuple[Any, ...]:
    value, upper, lower = gap_expected(a, b)
    return mpmath.log(value), upper / value, lower / value


def floored_expected(a: Any, b: Any) -> tuple[Any, ...]:
    value, upper, lower = log_gap_expected(a, b)
    least = mpmath.log(mpmath.mpf("1e-30"))
    return (value, upper, lower) if value > least else (least, 0, 0)


def discretised_expected(x: Any, s: Any) -> tuple[Any, ...]:
    precision = mpmath.exp(-s)
    upper, lower = (x + mpmath.mpf("0.5")) * precision, (x - mpmath.mpf("0.5")) * precision
    value, above, below = log_gap_expected(upper, lower)
    return value, precision * (above + below), -(upper * above + lower * below)


CASES: dict[str, tuple[Callable[[], Program], tuple[Array, Array], Callable[..., tuple[Any, ...]]]] = {
    "gap": (gap, (HIGH, LOW), gap_expected),
    "gap reversed": (gap, (LOW, HIGH), gap_expected),
    "log gap": (log_gap, (HIGH, LOW), log_gap_expected),
    "floored": (floored, (HIGH, LOW), floored_expected),
    "soft step": (soft_step, (np.minimum(HIGH, 100), np.zeros_like(LOW)), soft_step_expected),
    "discretised": (discretised, (POINTS, SCALES), discretised_expected),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_far_out_and_close_together(name: str, target: str, tmp_path: Path) -> None:
    statement, given, expected = CASES[name]
    program, library = statement(), array_library(target)
    assert program.request is not None
    write(render_all([program], [target]), tmp_path, [target])
    with opened(program, program.request, tmp_path, library) as kernel:
        names = [str(known.name) for known in program.all_inputs()]
        arrays = {key: library.array(array) for key, array in zip(names, given, strict=True)}
        (output,), saved = kernel.run(arrays, {})
        made = [output, *kernel.gradients(library.array(np.ones(given[0].shape, np.float32)), saved)]
    with mpmath.workdps(5_000):
        rows = [expected(*(mpmath.mpf(float(number)) for number in numbers)) for numbers in zip(*given, strict=True)]
        wanted = [np.array([float(number) for number in column]) for column in zip(*rows, strict=True)]
    least = 1e-7 if name == "discretised" else 1e-37  # in the middle of a bin its slopes at both borders cancel
    for found, right in zip(made, wanted, strict=True):
        np.testing.assert_allclose(library.plain(found), right, rtol=4e-6, atol=least)


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["gap", "discretised"])
def test_against_every_witness(name: str, target: str, tmp_path: Path) -> None:
    program = CASES[name][0]()
    write(render_all([program], [target]), tmp_path, [target])
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [result for result in results if not result.ok]

"""Likelihoods of labels that are numbers, y p + (1 - y)(1 - p), at predictions that are certain and may be wrong.

None of these statements is in the library. For y = 1 it is p, whose logarithm is a logit however small p is: the other
share has no weight, so it must not say by which exponential both are divided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sympy import log

from derive.functions import mean, sigmoid
from derive.language import dim, leading_index, scalar, tensor
from derive.program import Program
from gradproof import exp

Array = np.ndarray[Any, Any]

N = dim("N")
n = leading_index("n", N)
z, y, q = tensor("z", N), tensor("y", N), scalar("q")
X, Y = tensor("X", N), tensor("Y", N)

LOGITS = [-200.0, -20.0, -3.0, 0.5, 17.0, 200.0]
ANSWERS = [0.0, 1.0, 0.25]


def by_name(program: Program) -> Any:
    share = program.define("p", [n], sigmoid(z[n]))[n]
    likelihood = program.define("pt", [n], y[n] * share + (1 - y[n]) * (1 - share))[n]
    return -log(likelihood)


def in_one_piece(_program: Program) -> Any:
    return -log(y[n] * sigmoid(z[n]) + (1 - y[n]) * (1 - sigmoid(z[n])))


def by_both_shares(program: Program) -> Any:
    share, rest = program.define("p", [n], sigmoid(z[n]))[n], program.define("r", [n], sigmoid(-z[n]))[n]
    return -log(program.define("pt", [n], y[n] * share + (1 - y[n]) * rest)[n])


def focal(program: Program) -> Any:
    share = program.define("p", [n], sigmoid(z[n]))[n]
    likelihood = program.define("pt", [n], y[n] * share + (1 - y[n]) * (1 - share))[n]
    return -((1 - likelihood) ** 2) * log(likelihood)


def expected(logits: Array, answers: Array, power: int) -> tuple[Array, Array]:
    """(1 - q)^power times the loss, q the likelihood, and its slope."""
    with np.errstate(divide="ignore"):
        met, missed = np.log(answers) - np.logaddexp(0, -logits), np.log(1 - answers) - np.logaddexp(0, logits)
    loss = -np.logaddexp(met, missed)
    share, rest = np.exp(-np.logaddexp(0, -logits)), np.exp(-np.logaddexp(0, logits))
    slope = np.exp(missed + loss) * share - np.exp(met + loss) * rest
    away = answers * rest + (1 - answers) * share
    if power == 0:
        return loss, slope
    return away**power * loss, away**power * slope - power * away ** (power - 1) * (
        2 * answers - 1
    ) * share * rest * loss


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("written", [by_name, in_one_piece, by_both_shares, focal], ids=lambda f: f.__name__)
def test_answers_that_are_numbers(written: Callable[[Program], Any], target: str, dtype: type, returned: Any) -> None:
    program = Program("likelihood", "likelihood of answers", [z, y])
    program.kernel(program.define("L", [n], written(program)), wrt=[z])
    logits, answers = (grid.ravel() for grid in np.meshgrid(np.array(LOGITS, dtype), np.array(ANSWERS, dtype)))
    wanted = expected(logits.astype(float), answers.astype(float), 2 if written is focal else 0)
    for found, right in zip(returned(program, target, {"z": logits, "y": answers}), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=32 * np.finfo(dtype).eps, atol=32 * np.finfo(dtype).eps)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_noise_of_no_weight(target: str, returned: Any) -> None:
    """Labels that are wrong with the probability q, as a number that is 0 by default."""
    program = Program("noisy", "likelihood under noise", [z, q])
    share = program.define("p", [n], sigmoid(z[n]))[n]
    loss = program.define("L", [], -mean(log((1 - q) * share + q * (1 - share)), over=n))
    program.kernel(loss, wrt=[z], defaults={q: 0})
    logits = np.array(LOGITS, np.float32)
    found = returned(program, target, {"z": logits}, q=0)
    np.testing.assert_allclose(found[0], np.logaddexp(0, -logits.astype(float)).mean(), rtol=1e-6)
    np.testing.assert_allclose(found[1], -np.exp(-np.logaddexp(0, logits.astype(float))) / 6, rtol=1e-5, atol=1e-30)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_mean_of_all_weight_on_one_side(target: str, returned: Any) -> None:
    program = Program("geometric", "log of a weighted mean", [X, Y, q])
    top = program.define("M", [n], log((1 - q) * exp(X[n]) + q * exp(Y[n])))
    program.kernel(program.define("D", [n], (1 - q) * (X[n] - top[n])), wrt=[Y], defaults={q: 1})
    given = {"X": np.array([1e4, 3.0]), "Y": np.array([-1e4, 4.0])}
    for found in returned(program, target, given, q=1):
        assert not found.any()

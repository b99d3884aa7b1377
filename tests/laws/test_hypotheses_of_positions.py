"""Hypotheses that say where an index is, i = 0, what a size is, T = 2, and how one entry follows from the one before.

What is proved is true at the positions and sizes that are left; false variants are refuted there.
"""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from sympy import Eq

from derive.binders import free_indices
from derive.functions import mean, sigmoid, softmax, variance
from derive.language import Sum, delta, dims, index, indices, iverson, scalar, tensor, tensors, where
from derive.program import Program
from derive.prove import PROVED, REFUTED, UNDECIDED, prove
from derive.wellformed import is_equation

T, d = dims("T d")
i, j, k = indices("i j k", T)
a = index("a", d)
x, y = tensors("x y", T)
v = tensor("v", d)
S = tensor("S", T, T)
token = tensor("token", T, into=d)
s = scalar("s")

upto = Sum(where(j <= i, x[j], 0), j)
TRUE: dict[str, tuple[Any, Any, list[Any]]] = {
    "at the first position": (x[i], x[0], [Eq(i, 0)]),
    "a sum up to the first position": (upto, x[0], [Eq(i, 0)]),
    "a sum up to the last position": (upto, Sum(x[j], j), [Eq(i, T - 1)]),
    "a sum of two": (Sum(x[i], i), x[0] + x[1], [Eq(T, 2)]),
    "a softmax of two": (softmax(x[i], over=i), sigmoid(2 * x[i] - x[0] - x[1]), [Eq(T, 2)]),
    "a variance of two": (variance(x[i], over=i), (x[0] - x[1]) ** 2 / 4, [Eq(2, T)]),
    "one entry": (x[i], x[0], [Eq(T, 1)]),
    "a sum with another hypothesis": (x[0] + x[1], 1, [Eq(Sum(x[i], i), 1), Eq(T, 2)]),
    "two sizes that agree": (Sum(delta(i, j), i, j), d, [Eq(T, d)]),
    "twice a size": (Sum(iverson(i < d), i), d, [Eq(T, 2 * d)]),
    "a size with a name": (mean(x[i], over=i) * s, Sum(x[i], i), [Eq(T, s)]),
    "a size beyond those that are tried": (mean(x[i], over=i) * 64, Sum(x[i], i), [Eq(T, 64)]),
}
FALSE: dict[str, tuple[Any, Any, list[Any]]] = {
    "another position": (x[i], x[1], [Eq(i, 0)]),
    "all positions for one": (Sum(x[i], i), x[j], [Eq(j, 0)]),
    "a sum up to the last but one": (upto, Sum(x[j], j), [Eq(i + 2, T)]),
    "a sum of three": (Sum(x[i], i), x[0] + x[1], [Eq(T, 3)]),
    "the second entry": (x[i], x[0], [Eq(T, 2)]),
    "a softmax of one of two": (softmax(x[i], over=i), sigmoid(x[i]), [Eq(T, 2)]),
    "values at sizes that agree": (Sum(x[i], i), Sum(v[a], a), [Eq(T, d)]),
    "one more than a size": (Sum(iverson(i < d), i), d + 1, [Eq(T, d + 1)]),
    "a symmetric matrix of two": (S[0, 1], S[1, 0], [Eq(T, 2)]),
}
CONTRADICTIONS: dict[str, list[Any]] = {
    "two sizes": [Eq(T, 2), Eq(T, 3)],
    "a size and a bound": [Eq(T, 2), T > 2],
    "each one more than the other": [Eq(T, d + 1), Eq(d, T + 1)],
    "half of 1": [Eq(2 * T, d), Eq(d, 1)],
    "no whole number": [Eq(T**2, 2)],
    "two that are 1 together": [Eq(T + d, 1)],
}


def verdict_on(left: Any, right: Any, given: list[Any]) -> Any:
    free = free_indices(sympy.Tuple(left, right))

    return prove(Program("positions").claim("c", left, right, given=given, over=sorted(free, key=str)))


@pytest.mark.parametrize("name", TRUE)
def test_what_holds_there_is_proved(name: str) -> None:
    verdict = verdict_on(*TRUE[name])
    assert verdict.status == PROVED, verdict.reason
    assert verdict.conditions == ()


@pytest.mark.parametrize("name", FALSE)
def test_what_does_not_is_refuted(name: str) -> None:
    assert verdict_on(*FALSE[name]).status == REFUTED


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_sizes_that_there_are_not_prove_nothing(name: str) -> None:
    assert verdict_on(s, 2 * s, CONTRADICTIONS[name]).status == UNDECIDED


def test_what_is_a_position_and_what_a_value() -> None:
    assert not any(map(is_equation, (Eq(i, 0), Eq(i, T - 1), Eq(2 * i, j), Eq(i, j + 1), Eq(token[i], token[j]))))
    assert all(map(is_equation, (Eq(T, 2), Eq(x[i], 0), Eq(s, i), Eq(token[i], 0), Eq(Sum(x[j], j), T))))
    assert is_equation(Eq(Sum(iverson(j <= i), j), i + 1))  # true of every position


w, z = tensors("w z", T + 1)
RECURRENCES: dict[str, tuple[Any, Any, list[Any]]] = {
    "one step": (w[j + 1] * w[j], s * w[j] ** 2, [Eq(w[i + 1], s * w[i])]),
    "the first step": (w[1], s * w[0], [Eq(w[i + 1], s * w[i])]),
    "a difference": (w[j + 1] - w[j], s, [Eq(w[i + 1], s + w[i])]),
    "inside a sum": (Sum(w[i + 1] ** 2, i), s**2 * Sum(w[i] ** 2, i), [Eq(w[i + 1], s * w[i])]),
    "two sequences": (w[j + 1], s * z[j], [Eq(w[i + 1], s * z[i])]),
    "the one before": (w[j], 2 * w[j + 1], [Eq(w[i + 1], w[i] / 2)]),
}
NONE: dict[str, tuple[Any, Any, list[Any]]] = {
    "the wrong direction": (w[j + 1], s * w[j], [Eq(w[i], s * w[i + 1])]),
    "two steps for one": (w[1], s**2 * w[0], [Eq(w[i + 1], s * w[i])]),
    "another sequence": (z[j + 1], s * z[j], [Eq(w[i + 1], s * w[i])]),
    "one entry for all": (w[j + 1], s * w[0], [Eq(w[i + 1], s * w[i])]),
}


@pytest.mark.parametrize("name", RECURRENCES)
def test_a_recurrence_is_used_at_any_position(name: str) -> None:
    assert verdict_on(*RECURRENCES[name]).status == PROVED


@pytest.mark.parametrize("name", NONE)
def test_a_recurrence_says_nothing_else(name: str) -> None:
    assert verdict_on(*NONE[name]).status == REFUTED

"""Hypotheses are complete: without one that a proof needed, the claim is not proved, or says what it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sympy import Eq, Ne, log, sqrt

from derive.functions import log_softmax, logsumexp
from derive.language import Product, Sum, delta, dims, indices, scalar, tensor
from derive.program import Claim, Program
from derive.prove import PROVED, REFUTED, prove

T, V = dims("T V")
i, j, k = indices("i j k", T)
v, w = indices("v w", V)
y, z = tensor("y", V), tensor("z", V)
A, B = tensor("A", T, T), tensor("B", T, T)
x = tensor("x", T)


def claimed(left: Any, right: Any, *given: Any) -> Claim:
    """The claim in a program of its own."""
    return Program("hypotheses").claim("c", left, right, given=given)


GIVEN = {
    "targets sum to 1": claimed(
        -Sum(y[v] * log_softmax(z[v], over=v), v), logsumexp(z[v], over=v) - Sum(y[v] * z[v], v), Eq(Sum(y[v], v), 1)
    ),
    "a symmetric matrix": claimed(Sum(B[i, j] * x[j], j), Sum(B[j, i] * x[j], j), Eq(B[i, j], B[j, i])),
    "an inverse": claimed(Sum(A[i, j] * B[j, k] * x[k], j, k), x[i], Eq(Sum(A[i, j] * B[j, k], j), delta(i, k))),
    "different positions": claimed(delta(i, j) * x[i], 0 * x[i] * x[j], Ne(i, j)),
}


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_a_condition_that_is_dropped_is_missed(name: str) -> None:
    assert prove(GIVEN[name]).status == PROVED
    assert prove(replace(GIVEN[name], given=())).status == REFUTED


def test_a_declaration_that_is_dropped_is_missed_or_listed() -> None:
    declared, plain = tensor("P", T, positive=True), tensor("P", T)
    assert prove(claimed(log(Product(declared[i], i)), Sum(log(declared[i]), i))).status == PROVED
    verdict = prove(claimed(log(Product(plain[i], i)), Sum(log(plain[i]), i)))
    assert verdict.status != PROVED or any("> 0" in hypothesis for hypothesis in verdict.hypotheses)


def test_a_root_says_what_it_needs() -> None:
    s = scalar("s")
    verdict = prove(claimed(Sum(x[i], i) / sqrt(s + Sum(x[j] ** 2, j)) * sqrt(s + Sum(x[k] ** 2, k)), Sum(x[i], i)))
    assert verdict.status == PROVED
    assert any("> 0" in hypothesis for hypothesis in verdict.hypotheses), verdict.hypotheses


def test_a_division_says_what_must_not_be_zero() -> None:
    verdict = prove(claimed(Sum(x[i], i) / (1 + Sum(x[j], j)) + 1 / (1 + Sum(x[k], k)), 1))
    assert verdict.status == PROVED
    assert any("!= 0" in hypothesis for hypothesis in verdict.hypotheses), verdict.hypotheses

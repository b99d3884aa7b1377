"""Shares of a sum over an index set add up to 1 where it is not 0, and look-ups that a delta makes equal are one.

The statements are proved with their conditions; their near misses are refuted.
"""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Or, Tuple, exp

from derive.binders import free_indices
from derive.functions import softmax
from derive.language import Sum, dims, flag, indices, iverson, tensor, tensors
from derive.program import Program
from derive.prove import PROVED, REFUTED, Verdict, prove

T, K, V = dims("T K V")
i, j, k = indices("i j k", T)
x, y = tensors("x y", T)
token, other = tensor("token", T, into=V), tensor("other", T, into=V)
E = tensor("E", V)
causal = flag("causal")

MASKS: dict[str, tuple[Any, bool]] = {
    "below the diagonal or before a border": (Or(j <= i, j < K), True),
    "below the diagonal or the first": (Or(j < i, Eq(j, 0)), True),
    "below the diagonal or one other": (Or(j < i, Eq(j, k)), True),
    "below the diagonal and before a border": ((j < i) & (j < K), False),
    "below the diagonal or a flag": (Or(j < i, causal & (j < K)), False),
    "by their values": (Or(j < i, x[j] > 0), False),
}


def _verdict(left: Any, right: Any) -> Verdict:
    over = sorted(free_indices(Tuple(left, right)), key=str)
    return prove(Program("shares").claim("c", left, right, over=over))


@pytest.mark.parametrize("name", MASKS)
def test_a_masked_softmax_sums_to_1_where_something_is_left(name: str) -> None:
    mask, never_empty = MASKS[name]
    verdict = _verdict(Sum(softmax(x[j], over=j, where=mask), j), 1)
    assert verdict.status == PROVED
    assert all("!= 0" in condition for condition in verdict.conditions)
    assert never_empty is not any(verdict.conditions)


FALSE: dict[str, tuple[Any, Any]] = {
    "another weight": (Sum(softmax(x[j], over=j, where=Or(j <= i, j < K)) * x[j], j), 1),
    "twice": (Sum(2 * softmax(x[j], over=j, where=Or(j <= i, j < K)), j), 1),
    "part of the set": (Sum(softmax(x[j], over=j, where=Or(j <= i, j < K)) * iverson(j < K), j), 1),
    "another set": (
        Sum(iverson(Or(j < i, Eq(j, 0))) * exp(x[j]) / Sum(iverson(Or(k <= i, Eq(k, 0))) * exp(x[k]), k), j),
        1,
    ),
    "another tensor": (
        Sum(iverson(Or(j < i, Eq(j, 0))) * exp(x[j]) / Sum(iverson(Or(k < i, Eq(k, 0))) * exp(y[k]), k), j),
        1,
    ),
    "the other index": (
        Sum(iverson(Or(j < i, Eq(j, 0))) * exp(x[j]) / Sum(iverson(Or(k < i, Eq(k, 0))) * exp(x[k]), k), i),
        1,
    ),
}


@pytest.mark.parametrize("name", FALSE)
def test_what_are_no_shares_do_not_add_up_to_1(name: str) -> None:
    assert _verdict(*FALSE[name]).status == REFUTED

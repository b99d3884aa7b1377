"""Shares of a sum over an index set add up to 1 where it is not 0, and look-ups that a delta makes equal are one.

The statements are proved with their conditions; their near misses are refuted.
"""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Or, Tuple, exp

from derive.binders import free_indices
from derive.functions import softmax
from derive.language import Sum, delta, dims, flag, indices, iverson, tensor, tensors
from derive.program import Program
from derive.prove import PROVED, REFUTED, Verdict, prove

T, K, V = dims("T K V")
i, j, k = indices("i j k", T)
x, y = tensors("x y", T)
token, other = tensor("token", T, into=V), tensor("other", T, into=V)
E, D = tensor("E", V), tensor("D", V, V)
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


SAME: dict[str, tuple[Any, Any]] = {
    "a look-up": (delta(token[i], token[j]) * E[token[i]], delta(token[i], token[j]) * E[token[j]]),
    "two tensors of tokens": (delta(token[i], other[j]) * E[other[j]], delta(token[i], other[j]) * E[token[i]]),
    "a square": (delta(token[i], other[j]) * E[other[j]] ** 2, delta(token[i], other[j]) * E[token[i]] ** 2),
    "one axis of two": (
        delta(token[i], token[j]) * D[token[i], token[k]],
        delta(token[i], token[j]) * D[token[j], token[k]],
    ),
    "both axes": (
        delta(token[i], token[j]) * D[token[i], token[j]],
        delta(token[i], token[j]) * D[token[j], token[i]],
    ),
    "in a sum": (
        Sum(delta(token[i], token[j]) * E[token[j]] * x[j], j),
        E[token[i]] * Sum(delta(token[i], token[j]) * x[j], j),
    ),
    "in a sum over both": (
        Sum(delta(token[i], token[j]) * E[token[j]] * x[i], i, j),
        Sum(delta(token[i], token[j]) * E[token[i]] * x[i], i, j),
    ),
    "three equal tokens": (
        delta(token[i], token[j]) * delta(token[j], token[k]) * E[token[k]],
        delta(token[i], token[j]) * delta(token[j], token[k]) * E[token[i]],
    ),
}
NOT_THE_SAME: dict[str, tuple[Any, Any]] = {
    "the entries at positions": (delta(token[i], token[j]) * x[i], delta(token[i], token[j]) * x[j]),
    "without the delta": (E[token[i]], E[token[j]]),
    "where tokens differ": (
        (1 - delta(token[i], token[j])) * E[token[i]],
        (1 - delta(token[i], token[j])) * E[token[j]],
    ),
    "another tensor of tokens": (
        delta(token[i], token[j]) * E[other[i]],
        delta(token[i], token[j]) * E[other[j]],
    ),
    "the axes exchanged": (
        delta(token[i], token[j]) * D[token[i], token[k]],
        delta(token[i], token[j]) * D[token[k], token[i]],
    ),
    "all tokens": (
        Sum(delta(token[i], token[j]) * E[token[j]] * x[j], j),
        E[token[i]] * Sum(x[j], j),
    ),
    "another weight in a sum": (
        Sum(delta(token[i], token[j]) * E[token[j]] * x[j], j),
        x[i] * Sum(delta(token[i], token[j]) * E[token[j]], j),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_look_ups_of_equal_tokens_are_equal(name: str) -> None:
    assert _verdict(*SAME[name]).status == PROVED


@pytest.mark.parametrize("name", NOT_THE_SAME)
def test_what_is_not_read_at_an_equal_token_differs(name: str) -> None:
    assert _verdict(*NOT_THE_SAME[name]).status == REFUTED

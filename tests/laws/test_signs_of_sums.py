"""A sum is positive where no term is negative and one is positive, as that on the diagonal is under a causal mask."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Ne, exp, log

from derive.functions import log_softmax, softmax, variance
from derive.language import Sum, dims, flag, indices, iverson, tensor, tensors
from derive.program import Program
from derive.prove import PROVED, REFUTED, Verdict, prove

(T,) = dims("T")
i, j, k = indices("i j k", T)
x = tensor("x", T)
p = tensor("p", T, positive=True)
S, R = tensors("S R", T, T)
token = tensor("token", T, into=T)
causal = flag("causal")


def verdict_on(left: Any, right: Any, over: list[Any]) -> Verdict:
    return prove(Program("signs").claim("c", left, right, over=over))


def is_positive(terms: Any) -> Any:
    return iverson(Sum(terms, k) > 0)


@pytest.mark.parametrize(
    ("left", "right", "over"),
    [
        (is_positive(exp(S[i, k]) * iverson(k <= i)), 1, [i]),
        (is_positive(p[k] * iverson(k <= 1)), 1, []),
        (is_positive(iverson(x[k] >= x[i])), 1, [i]),
        (is_positive(p[k] * iverson(Eq(token[k], token[i]))), 1, [i]),
        (iverson(variance(x[k], over=k) >= 0), 1, []),
        (Sum(softmax(S[i, j], over=j, where=j <= i), j), 1, [i]),
        (
            Sum(softmax(S[i, j], over=j, where=j <= i) * log_softmax(S[i, j], over=j, where=j <= i), j),
            Sum(softmax(S[i, j], over=j, where=j <= i) * S[i, j], j) - log(Sum(exp(S[i, k]) * iverson(k <= i), k)),
            [i],
        ),
    ],
    ids=str,
)
def test_one_term_is_enough(left: Any, right: Any, over: list[Any]) -> None:
    verdict = verdict_on(left, right, over)
    assert (verdict.status, verdict.conditions) == (PROVED, ())


@pytest.mark.parametrize(
    ("terms", "over"),
    [
        (exp(S[i, k]) * iverson(k < i), [i]),  # nothing where i = 0
        (p[k] * iverson(k >= 1), []),  # nothing where T = 1
        (p[k] * iverson(Ne(k, i)), [i]),
        (iverson(x[k] > x[i]), [i]),
        (x[k] ** 2 * iverson(k <= i), [i]),
        (x[k] * iverson(k <= i), [i]),
        (p[k] * iverson(x[k] >= 0), []),
        (p[k] - x[k], []),
    ],
    ids=str,
)
def test_a_sum_that_may_be_empty_or_zero_is_not_positive(terms: Any, over: list[Any]) -> None:
    assert verdict_on(is_positive(terms), 1, over).status == REFUTED

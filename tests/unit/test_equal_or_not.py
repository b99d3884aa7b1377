"""Two numbers that a claim compares are equal or not: what the normal form sees only where it knows which."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Max, Ne, exp, log

from derive.language import dims, index, scalar, tensor, where
from derive.operators import limit
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove
from derive.rules import RuleRefusedError
from derive.rules.equal_or_not import EqualOrNot, numbers_compared
from derive.statements import Claim

N, V = dims("N V")
n, v = index("n", N), index("v", V)
X, Y, w = tensor("X", N, V), tensor("Y", N, V), tensor("w", N)
b, c = scalar("b"), scalar("c")
x, y = X[n, v], Y[n, v]


def claim(left: Any, right: Any, **options: Any) -> Claim:
    return Program("numbers", inputs=[X, Y, w, b, c]).claim("claim", left, right, over=[n, v], **options)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (log(exp(y) + b**2 * exp(x)), log(exp(y) + b**2 * exp(where(Ne(b, 0), x, y)))),
        (exp(exp(b * x)), exp(where(Eq(b, 0), exp(0), exp(b * x)))),
        (log(1 + b**2 * c**2), log(1 + where(Eq(b, 0), 0, b) ** 2 * where(Ne(c, 0), c, 5 * b * c) ** 2)),
    ],
)
def test_claims_by_both(left: Any, right: Any) -> None:
    verdict = prove(claim(left, right))
    assert verdict.status == PROVED, verdict.reason
    assert not verdict.conditions


def test_relative_to_the_larger_exponential_that_has_weight() -> None:
    p = scalar("p", positive=True)
    own = where(Ne(1 - p, 0), x, y)
    top = Max(own, y)
    left, right = log(p * exp(y) + (1 - p) * exp(x)), log(p * exp(y - top) + (1 - p) * exp(own - top)) + top
    verdict = prove(Program("mixture", inputs=[X, Y, p]).claim("claim", left, right, over=[n, v]))
    assert verdict.status == PROVED
    assert EqualOrNot.name in verdict.laws


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (log(exp(y) + b**2 * exp(x)), log(exp(y) + b**2 * exp(where(Ne(b, 1), x, y)))),  # at 1 it counts
        (log(exp(y) + b**2 * exp(x)), log(exp(y) + b**2 * exp(where(Eq(b, 0), x, y)))),
        (exp(where(Eq(b, c), x, y)), exp(where(Eq(b, c), y, x))),
    ],
)
def test_false_claims_are_refuted(left: Any, right: Any) -> None:
    assert prove(claim(left, right)).status == REFUTED


def test_what_is_no_number_is_not_split() -> None:
    """As a hypothesis w[n] = 1 is meant for all n: where it holds at one place, others may be anything."""
    about = claim(log(1 + w[n] * x), log(1 + where(Ne(w[n], 0), w[n], 0) * x))
    assert not list(numbers_compared(about))
    with pytest.raises(RuleRefusedError, match="without an index"):
        EqualOrNot(w[n], 1 + 0 * w[n]).obligations(about)


def test_numbers_that_vary_are_not_split() -> None:
    growing = scalar("growing", positive=True)
    about = claim(limit(log(1 + where(Eq(b, c), 1, 1 / growing)), of=growing), 0 * x)
    with pytest.raises(RuleRefusedError, match="may vary"):
        EqualOrNot(b, c).obligations(about)


def test_what_is_given_already_is_not_asked_again() -> None:
    about = claim(exp(where(Eq(b, c), x, y)), exp(x), given=[Eq(b, c)])
    assert not list(numbers_compared(about))

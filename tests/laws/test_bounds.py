"""Inequalities that need no rule: proved by bounds that everybody knows, refuted or left alone where they are false.

What is true is true at every point, so that proofs are confirmed by the second engine as well; what is nearly true, or
true but for equality, must not be proved.
"""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Abs, Max, Ne, Rational, cosh, erf, exp, log, sign, sin, sqrt, tanh

from derive.functions import logsumexp, mean, relu, sigmoid, silu, softmax, softplus, variance
from derive.language import Sum, dims, index, indices, iverson, lengths, scalars, tensor, tensors, where
from derive.program import Program
from derive.prove import PROVED, REFUTED, UNDECIDED, prove

T, N, d = dims("T N d")
i, j = indices("i j", T)
n, a = index("n", N), index("a", d)
c = index("c", d)
x, y = tensors("x y", T)
G = tensor("G", T, d)
w = tensor("w", T, positive=True)
new, old = tensors("new old", N)
mu, nu, u, v = tensors("mu nu u v", d)
s, r = scalars("s r")
p, q, cap = scalars("p q cap", positive=True)
length = lengths("length", T)
t = index("t", length[i])
share = softmax(x[i], over=i)

TRUE: dict[str, Any] = {
    "two squares": s**2 + r**2 >= 2 * s * r,
    "the square of a sum": (s + r) ** 2 <= 2 * s**2 + 2 * r**2,
    "the means of two numbers": sqrt(p * q) <= (p + q) / 2,
    "the harmonic mean": 2 / (1 / p + 1 / q) <= sqrt(p * q),
    "a parabola": s * (1 - s) <= Rational(1, 4),
    "the slope of sigma": sigmoid(s) * (1 - sigmoid(s)) <= Rational(1, 4),
    "a quotient": s / (1 + s**2) <= Rational(1, 2),
    "a product": Abs(s * r) <= (s**2 + r**2) / 2,
    "cosh": cosh(s) >= 1,
    "two exponentials": exp(s) + exp(-s) >= 2,
    "the tangent of exp": exp(s) >= 1 + s,
    "exp is above its argument": exp(s) > s,
    "an exponential decay": 1 - exp(-p) <= p,
    "the tangent of log": log(p) <= p - 1,
    "the tangent of the log of a quotient": log(p / q) <= p / q - 1,
    "the log of 1 + p": log(1 + p) <= p,
    "an estimator of a divergence": Sum(exp(old[n] - new[n]) - (old[n] - new[n]) - 1, n) / N >= 0,
    "two normal distributions": Sum(v[a] - u[a] + (exp(u[a]) + (mu[a] - nu[a]) ** 2) * exp(-v[a]) - 1, a) / 2 >= 0,
    "Cauchy and Schwarz": Sum(x[i] * y[i], i) ** 2 <= Sum(x[i] ** 2, i) * Sum(y[j] ** 2, j),
    "with weights": Sum(w[i] * x[i], i) ** 2 <= Sum(w[i], i) * Sum(w[i] * x[i] ** 2, i),
    "the square of a mean": mean(x[i], over=i) ** 2 <= mean(x[i] ** 2, over=i),
    "the Hessian of logsumexp": Sum(share * y[i] ** 2, i) - Sum(share * y[i], i) ** 2 >= 0,
    "the variance": variance(x[i], over=i) <= mean(x[i] ** 2, over=i),
    "one of several": Sum(x[i] ** 2, i) >= x[j] ** 2,
    "an entry and the norm": Abs(x[j]) <= sqrt(Sum(x[i] ** 2, i)),
    "an entry and logsumexp": logsumexp(x[i], over=i) >= x[j],
    "the mean and logsumexp": logsumexp(x[i], over=i) >= mean(x[i], over=i) + log(T),
    "a share": share <= 1,
    "the squares of shares": Sum(share**2, i) <= 1,
    "the mean of squares of differences": mean((x[i] - y[i]) ** 2, over=i) >= mean(x[i] - y[i], over=i) ** 2,
    "a Gram matrix": Sum(x[i] * G[i, c] * G[j, c] * x[j], i, j, c) >= 0,
    "a cosine": Sum(x[i] * y[i], i) / sqrt(Sum(x[i] ** 2, i)) / sqrt(Sum(y[i] ** 2, i)) <= 1,
    "the harmonic mean of weights": Sum(w[i], i) * Sum(1 / w[i], i) >= T**2,
    "a slope below 1": Abs(softplus(s) - softplus(r)) <= Abs(s - r),
    "the larger of two": Max(s, r) <= log(exp(s) + exp(r)),
    "and not by much": log(exp(s) + exp(r)) <= Max(s, r) + log(2),
    "softplus": softplus(s) <= relu(s) + log(2),
    "silu": silu(s) >= -Abs(s) / 2,
    "a count": Sum(iverson(x[i] > 0), i) <= T,
    "absolute values": Abs(Sum(x[i], i)) <= Sum(Abs(x[i]), i),
    "soft capping": Abs(cap * tanh(s / cap)) <= cap,
    "erf": Abs(erf(s)) <= 1,
    "sine": s * sin(r) <= Abs(s),
}
FALSE: dict[str, Any] = {
    "too far": s**2 + r**2 >= 3 * s * r,
    "squares may meet": s**2 + r**2 > 2 * s * r,
    "a square may be 0": x[j] ** 2 > 0,
    "tangents touch": exp(s) > 1 + s,
    "a curve below": exp(s) >= 1 + s + s**2 / 2,
    "a line below": log(p) <= p - 2,
    "the other way round": mean(x[i], over=i) ** 2 >= mean(x[i] ** 2, over=i),
    "dependent vectors": Sum(x[i] * y[i], i) ** 2 < Sum(x[i] ** 2, i) * Sum(y[j] ** 2, j),
    "weights of any sign": Sum(y[i] * x[i], i) ** 2 <= Sum(y[i], i) * Sum(y[i] * x[i] ** 2, i),
    "terms of any sign": Sum(x[i], i) >= x[j],
    "one entry alone": logsumexp(x[i], over=i) > x[j],
    "a root": sqrt(p) <= p,
    "two different sides": Sum(x[i] * G[i, c] * G[j, c] * y[j], i, j, c) >= 0,
    "a Gram matrix of one index's range": Sum(sin(t * x[i]) * sin(t * x[j]), i, j, t) >= 0,
    "the sign of a factor": s * sin(r) <= s,
    "a lower cap": Abs(cap * tanh(s / cap)) <= cap / 2,
}


def claimed(condition: Any) -> Any:
    """The verdict on a condition, without a rule."""
    return prove(Program("bounds").claim_that("bound", condition))


@pytest.mark.parametrize("name", TRUE)
def test_a_bound_needs_no_rule(name: str) -> None:
    verdict = claimed(TRUE[name])
    assert verdict.status == PROVED, verdict.reason
    assert all("Sum(" in condition and condition.endswith("> 0") for condition in verdict.conditions)  # a norm


@pytest.mark.parametrize("name", FALSE)
def test_what_is_not_so_everywhere_is_not_proved(name: str) -> None:
    assert claimed(FALSE[name]).status != PROVED


@pytest.mark.parametrize(
    ("condition", "declared"),
    [
        (Sum(w[i] * x[i], i) ** 2 <= Sum(w[i], i) * Sum(w[i] * x[i] ** 2, i), "w > 0"),
        (w[j] * log(1 + exp(s)) <= w[j] * exp(s), "w > 0"),
        (p * sqrt(1 + s**2) >= p * s, "p > 0"),
        (p * exp(s) >= p + p * s, "p > 0"),
    ],
)
def test_a_weight_that_is_declared_positive_is_a_hypothesis(condition: Any, declared: str) -> None:
    assert declared in claimed(condition).hypotheses


def test_a_value_that_is_clipped_where_it_never_is() -> None:
    program = Program("bounds")
    assert prove(program.claim("never below 0", relu(exp(s) - 1 - s), exp(s) - 1 - s)).status == PROVED
    assert prove(program.claim("given", Max(s, r) - r, s - r, given=[s >= r])).status == PROVED


def test_an_inequality_that_is_not_seen_names_the_rules() -> None:
    """The sum of squares that shows this one has other terms than the polynomial has squares."""
    hidden = s**4 * r**2 + s**2 * r**4 + 1 >= 3 * s**2 * r**2
    verdict = claimed(hidden)
    assert verdict.status == UNDECIDED
    assert "by=Squares(...)" in verdict.reason


def test_nothing_is_divided_by_that_a_case_leaves_0() -> None:
    """Of r >= s^2 and r = 0 does not follow 0 >= 1, which it would if both could be divided by s^2."""
    program = Program("bounds")
    inside = where(Ne(s**2, r), Abs(r), Max(1, r))
    assert prove(program.claim("at r = s = 0", iverson(Ne(r, 0)), sign(inside))).status == REFUTED

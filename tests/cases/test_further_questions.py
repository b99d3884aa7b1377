"""Further questions of the kinds that people ask: each with the right answer, and with one that is often given instead.

None is in the list of cases. The right answer has to be proved for all sizes, the other one refuted by numbers that
evaluating both sides independently would find as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sympy import Abs, Eq, Gt, Max, Min, Ne, Rational, cos, cosh, exp, log, sign, sin, sqrt, tanh

from derive.functions import argmax, log_softmax, logsumexp, mean, relu, sigmoid, softmax, softplus, variance
from derive.language import Product, Sum, delta, dims, index, indices, iverson, scalars, tensor, tensors, where
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

T, C, d, N, V = dims("T C d N V")
i, j, k = indices("i j k", T)
c, e, f = indices("c e f", C)
a, b = indices("a b", d)
n = index("n", N)
v = index("v", V)
x, y, z = tensors("x y z", C)
w = tensor("w", C, positive=True)
A, B, D = tensors("A B D", C, C)
s, r, g = scalars("s r g")
p, q, eps, tau = scalars("p q eps tau", positive=True)


@dataclass(frozen=True)
class Question:
    """A claim for all values of its free indices, its right side, and a right side that is wrong."""

    left: Any
    right: Any
    wrong: Any
    given: tuple[Any, ...] = ()
    program: Program | None = None


def gradient(output: Any, wanted: Callable[[Program], Any]) -> tuple[Program, Any]:
    """The program of the gradient of a number, and an entry of it."""
    program = Program("question")
    backward = program.gradient(program.define("loss", [], output))
    return backward, wanted(backward)


def loss(output: Any, of: Any, right: Any, wrong: Any) -> Question:
    """A question about the derivative of a number by an entry: with the upstream gradient, which is not 1."""
    backward, found = gradient(output, lambda program: program[f"d{of.base.name if hasattr(of, 'base') else of.name}"])
    entry = found[tuple(of.indices)] if hasattr(of, "base") else found
    upstream = backward["dloss"]
    return Question(entry, upstream * right, upstream * wrong, program=backward)


def slope(body: Any, of: Any, right: Any, wrong: Any) -> Question:
    """A question about the derivative of a function of one number."""
    program = Program("question")
    return Question(program.derivative(program.define("f", [], body), of), right, wrong, program=program)


def slope_of_norm() -> Question:
    """A question about the norm (Sum w^s)^(1/s), whose exponent is a letter."""
    program = Program("question")
    length = program.define("length", [], Sum(w[c] ** s, c) ** (1 / s))
    share = w[c] / length
    return Question(program.derivative(length, w[c]), share ** (s - 1), share**s, (Gt(s, 1),), program)


prob = softmax(x[c], over=c)
norm = sqrt(Sum(x[e] ** 2, e))
residual = Sum(A[c, e] * x[e], e) - y[c]
theta = scalars("theta")[0]

QUESTIONS: dict[str, Callable[[], Question]] = {
    "squared error of a linear map": lambda: loss(
        Sum(residual**2, c), x[e], 2 * Sum(A[c, e] * (Sum(A[c, f] * x[f], f) - y[c]), c),
        2 * Sum(A[e, c] * (Sum(A[c, f] * x[f], f) - y[c]), c),
    ),
    "a quadratic form": lambda: loss(
        Sum(x[c] * A[c, e] * x[e], c, e), x[f], Sum((A[f, c] + A[c, f]) * x[c], c), 2 * Sum(A[f, c] * x[c], c)
    ),
    "the trace of a square": lambda: loss(Sum(A[c, e] * A[e, c], c, e), A[c, e], 2 * A[e, c], 2 * A[c, e]),
    "the squared Frobenius norm": lambda: loss(Sum(A[c, e] ** 2, c, e), A[c, e], 2 * A[c, e], 2 * A[e, c]),
    "the trace of a cube": lambda: loss(
        Sum(A[c, e] * A[e, f] * A[f, c], c, e, f), A[c, e], 3 * Sum(A[e, f] * A[f, c], f),
        3 * Sum(A[c, f] * A[f, e], f),
    ),
    "Poisson regression": lambda: loss(
        Sum(exp(x[c]) - y[c] * x[c], c), x[c], exp(x[c]) - y[c], exp(x[c]) * (1 - y[c])
    ),
    "a normal log-likelihood by its log-variance": lambda: loss(
        s / 2 + g**2 * exp(-s) / 2, s, Rational(1, 2) - g**2 * exp(-s) / 2, Rational(1, 2) - g**2 * exp(-s)
    ),
    "the entropy of a softmax": lambda: loss(
        -Sum(softmax(x[c], over=c) * log_softmax(x[c], over=c), c), x[c],
        -prob * (log_softmax(x[c], over=c) - Sum(softmax(x[e], over=e) * log_softmax(x[e], over=e), e)),
        -prob * (log_softmax(x[c], over=c) + 1),
    ),
    "the Brier score of a softmax": lambda: loss(
        Sum((softmax(x[c], over=c) - y[c]) ** 2, c), x[c],
        2 * prob * (prob - y[c] - Sum(softmax(x[e], over=e) * (softmax(x[e], over=e) - y[e]), e)),
        2 * prob * (1 - prob) * (prob - y[c]),
    ),
    "the length of a vector": lambda: loss(norm, x[c], x[c] / norm, 2 * x[c] / norm),
    "a tempered logsumexp": lambda: loss(
        tau * logsumexp(x[c] / tau, over=c), x[c], softmax(x[c] / tau, over=c), softmax(x[c] / tau, over=c) / tau
    ),
    "a weighted mean": lambda: loss(
        Sum(w[c] * x[c], c) / Sum(w[c], c), w[c], (x[c] - Sum(w[e] * x[e], e) / Sum(w[e], e)) / Sum(w[e], e),
        x[c] / Sum(w[e], e),
    ),
    "the variance": lambda: loss(
        variance(x[c], over=c), x[c], 2 * (x[c] - mean(x[e], over=e)) / C, 2 * (x[c] - mean(x[e], over=e)) / (C - 1)
    ),
    "the slope of tanh": lambda: slope(tanh(s), s, 1 - tanh(s) ** 2, 1 - tanh(s)),
    "the slope of log cosh": lambda: slope(log(cosh(s)), s, tanh(s), 1 / cosh(s)),
    "the slope of softplus": lambda: slope(softplus(s), s, sigmoid(s), sigmoid(-s)),
    "the slope of a leaky relu": lambda: slope(
        Max(s, 0) + Rational(1, 10) * Min(s, 0), s, where(s > 0, 1, Rational(1, 10)), where(s > 0, Rational(1, 10), 1)
    ),
    "the slope of elu": lambda: slope(
        where(s > 0, s, p * (exp(s) - 1)), s, where(s > 0, 1, p * exp(s)), where(s > 0, 1, p * (exp(s) - 1))
    ),
    "the slope of a squared hinge": lambda: slope(
        relu(1 - g * s) ** 2, s, -2 * g * relu(1 - g * s), -2 * relu(1 - g * s)
    ),
    "softplus and its mirror image": lambda: Question(softplus(s) - softplus(-s), s, Abs(s)),
    "sigmoid of the log odds": lambda: Question(sigmoid(log(p / q)), p / (p + q), q / (p + q)),
    "two classes are one sigmoid": lambda: Question(
        exp(s) / (exp(s) + exp(r)), sigmoid(s - r), sigmoid(r - s)
    ),
    "centring twice": lambda: Question(
        x[c] - mean(x[e], over=e) - mean(x[f] - mean(x[e], over=e), over=f), x[c] - mean(x[e], over=e),
        x[c] - 2 * mean(x[e], over=e),
    ),
    "the mean of squares": lambda: Question(
        variance(x[c], over=c), mean(x[c] ** 2, over=c) - mean(x[c], over=c) ** 2, mean(x[c] ** 2, over=c)
    ),
    "all pairs and the variance": lambda: Question(
        Sum((x[c] - x[e]) ** 2, c, e), 2 * C**2 * variance(x[c], over=c), C**2 * variance(x[c], over=c)
    ),
    "a transposed product": lambda: Question(
        Sum(A[e, f] * B[f, c], f), Sum(B[f, c] * A[e, f], f), Sum(B[e, f] * A[f, c], f)
    ),
    "a cyclic trace": lambda: Question(
        Sum(A[c, e] * B[e, f] * D[f, c], c, e, f), Sum(B[c, e] * D[e, f] * A[f, c], c, e, f),
        Sum(A[c, e] * D[e, f] * B[f, c], c, e, f),
    ),
    "a projection of a projection": lambda: Question(
        Sum(x[c] * x[e] * x[e] * x[f], e) / Sum(x[e] ** 2, e) ** 2, x[c] * x[f] / Sum(x[e] ** 2, e),
        x[c] * x[f] / Sum(x[e] ** 2, e) ** 2,
    ),
    "what is added to every key": lambda: Question(
        softmax(Sum(A[c, f] * (B[e, f] + x[f]), f), over=e), softmax(Sum(A[c, f] * B[e, f], f), over=e),
        softmax(Sum(A[c, f] * (B[e, f] + x[f]), f), over=c),
    ),
    "what is added to every value": lambda: Question(
        Sum(softmax(A[c, e], over=e) * (B[e, f] + x[f]), e), Sum(softmax(A[c, e], over=e) * B[e, f], e) + x[f],
        Sum(softmax(A[c, e], over=e) * B[e, f], e) + C * x[f],
    ),
    "root mean squares of a multiple": lambda: Question(
        p * x[c] / sqrt(mean((p * x[e]) ** 2, over=e)), x[c] / sqrt(mean(x[e] ** 2, over=e)),
        x[c] / sqrt(mean(x[e] ** 2, over=e) + eps),
    ),
    "momentum after three steps": lambda: Question(
        p * (p * (p * s + g) + g) + g, p**3 * s + g * (1 + p + p**2), p**3 * s + 3 * g
    ),
    "decay of a running mean": lambda: Question(
        (1 - p) * Sum(p**i, i), 1 - p**T, 1 - p ** (T - 1)
    ),
    "weight decay and the step of plain descent": lambda: Question(
        s - p * (g + q * s), (1 - p * q) * s - p * g, (1 - q) * s - p * g
    ),
    "a rotation keeps the length": lambda: Question(
        (cos(theta) * s - sin(theta) * r) ** 2 + (sin(theta) * s + cos(theta) * r) ** 2, s**2 + r**2, (s + r) ** 2
    ),
    "a phase moved by a step": lambda: Question(
        sin((i + 1) * s), sin(i * s) * cos(s) + cos(i * s) * sin(s), sin(i * s) + sin(s)
    ),
    "a causal mask and its count": lambda: Question(Sum(iverson(j <= i), j), i + 1, i),
    "the number of pairs of a causal mask": lambda: Question(Sum(iverson(j <= i), i, j), T * (T + 1) / 2, T**2 / 2),
    "perplexity of the uniform distribution": lambda: Question(exp(-Sum(log(1 / V) / V, v)), V, log(V)),
    "a product of probabilities": lambda: Question(
        log(Product(w[c], c)) / C, mean(log(w[c]), over=c), log(mean(w[c], over=c))
    ),
    "a symmetric quadratic form": lambda: Question(
        Sum((A[c, e] + A[e, c]) * x[e], e), 2 * Sum(A[c, e] * x[e], e), Sum(A[c, e] * x[e], e), (Eq(A[c, e], A[e, c]),)
    ),
    "probabilities that sum to 1": lambda: Question(
        Sum(w[c] * (x[c] - s), c), Sum(w[c] * x[c], c) - s, Sum(w[c] * x[c], c) - C * s, (Eq(Sum(w[c], c), 1),)
    ),
    "a clipped ratio above its bound": lambda: Question(
        Min(s, 1 + eps) * p, (1 + eps) * p, s * p, (Gt(s, 1 + eps),)
    ),
    "pairs in the order of their labels": lambda: loss(
        Sum(where(y[c] > y[e], softplus(x[e] - x[c]), 0), c, e), x[f],
        Sum(where(y[e] > y[f], sigmoid(x[f] - x[e]), 0) - where(y[f] > y[e], sigmoid(x[e] - x[f]), 0), e),
        -Sum(where(y[f] > y[e], sigmoid(x[e] - x[f]), 0), e),
    ),
    "a number by its length": lambda: Question(s / Abs(s), sign(s), Abs(s)),
    "the first step of Adam": lambda: Question(
        p * s / (Abs(s) + eps), where(s > 0, p * s / (s + eps), -p * s / (s - eps)), p * s / (s + eps)
    ),
    "root mean squares of a multiple of any sign": lambda: Question(
        s * x[c] / sqrt(mean((s * x[e]) ** 2, over=e)), sign(s) * x[c] / sqrt(mean(x[e] ** 2, over=e)),
        x[c] / sqrt(mean(x[e] ** 2, over=e)),
    ),
    "a norm of any degree": lambda: slope_of_norm(),
    "the maximum of a softmax": lambda: Question(
        argmax(softmax(x[c], over=c), over=c, among=e), argmax(x[c], over=c, among=e), iverson(x[c] >= x[0])
    ),
    "the divergence of two coins": lambda: Question(
        p * log(p / q) + (1 - p) * log((1 - p) / (1 - q)),
        p * log(p * (1 - q) / (q * (1 - p))) + log((1 - p) / (1 - q)),
        p * log(p * (1 - q) / (q * (1 - p))) - log((1 - p) / (1 - q)), (Gt(1, p), Gt(1, q)),
    ),
    "the distance of two positive numbers": lambda: Question(
        Abs(p - q), (p - q) * sign(p - q), (p - q) * sign(q - p)
    ),
    "a trust ratio that is clipped": lambda: Question(
        Max(-p, Min(p, s / Max(r, eps))), p, s / r, (Gt(s, p * r), Gt(r, eps))
    ),
    "a quotient compared": lambda: Question(
        iverson(s / r > p), 1, iverson(s < p * r), (Gt(s, p * r), Gt(r, 0))
    ),
    "how many are largest": lambda: Question(
        Sum(where(x[c] >= x[e], 1, 0), c, e) + Sum(where(x[c] < x[e], 1, 0), c, e), C**2,
        Sum(where(x[c] >= x[e], 1, 0), c, e) + Sum(where(x[c] <= x[e], 1, 0), c, e),
    ),
    "off the diagonal": lambda: Question(
        A[c, e] * (1 - delta(c, e)), A[c, e], 0, (Ne(c, e),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_right_answer_is_proved(name: str) -> None:
    question = QUESTIONS[name]()
    program = question.program or Program("question")
    verdict = prove(program.claim("right", question.left, question.right, given=question.given))
    assert verdict.status == PROVED, verdict.reason or verdict.counterexample


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_wrong_answer_is_refuted(name: str) -> None:
    question = QUESTIONS[name]()
    program = question.program or Program("question")
    verdict = prove(program.claim("wrong", question.left, question.wrong, given=question.given))
    assert verdict.status == REFUTED, verdict.reason


def test_there_are_forty() -> None:
    assert len(QUESTIONS) >= 40

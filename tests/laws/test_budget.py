"""A hostile expression ends in a verdict within its budget of processor time: never a hang, never a traceback."""

from __future__ import annotations

import time

import pytest
from sympy import Expr, cos, exp, log, sqrt

from derive.language import Product, Sum, dims, index, indices, scalars, tensor
from derive.program import Program
from derive.prove import PROVED, prove

SECONDS = 1.0
SLACK = 6.0  # for the numbers that are asked beside the proof, and for the step at which time runs out

T, d = dims("T d")
i, j, k = indices("i j k", T)
c = index("c", d)
X, Y = tensor("X", T, T), tensor("Y", T, T)
x = tensor("x", T)
a, b, s = scalars("a b s")


def nested(depth: int) -> Expr:
    """exp of exp of ... of a scalar."""
    result: Expr = s
    for _ in range(depth):
        result = exp(result / 10)
    return result


def walk(length: int) -> Expr:
    """The sum over all closed walks of a length, with every index summed at once."""
    steps = [index(f"w_{number}", T) for number in range(length)]
    body = 1
    for number in range(length):
        body = body * X[steps[number], steps[(number + 1) % length]]
    return Sum(body, *steps)


def equal_factors(count: int) -> Expr:
    """Interchangeable indices, each met by a factor that ties it to all others."""
    bound = [index(f"q_{number}", T) for number in range(count)]
    return Sum(log(1 + sum(x[one] ** 2 for one in bound)), *bound)


HOSTILE = {
    "a high power of a sum": ((a + b + s) ** 40, (a + b - s) ** 40),
    "a high power of a sum of sums": ((a + Sum(x[i], i) + Sum(x[i] ** 2, i)) ** 25, (a + Sum(x[i], i)) ** 25),
    "a closed walk of twelve steps": (walk(12), walk(11)),
    "twelve interchangeable indices": (equal_factors(12), 2 * equal_factors(12)),
    "twelve equal sums": (Sum(x[i], i) ** 12, Sum(x[i], i) ** 11),
    "exponentials within exponentials": (nested(60), nested(59)),
    "a deep quotient": (1 / (a + 1 / (b + 1 / (s + 1 / (a + 1 / (b + 1 / (s + 2)))))), a / (b + s)),
    "a product of many sums": (
        (Sum(x[i], i) + 1) * (Sum(x[i] ** 2, i) + a) * (Sum(x[i] ** 3, i) + b) * (Sum(x[i] ** 4, i) + s) * (a + b) ** 9,
        Sum(x[i], i),
    ),
    "a product over a product": (Product(Product(X[i, j] + a, j) + b, i), Product(Product(X[j, i] + a, j) + b, i)),
    "a cosine of many angles": (cos(a + b + s + Sum(x[i], i) + 2 * a * b + 3 * b * s), cos(a)),
    "a root in a root": (sqrt(1 + sqrt(1 + sqrt(1 + Sum(x[i] ** 2, i)))), 1 + Sum(x[i] ** 2, i)),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_claim_ends(name: str) -> None:
    left, right = HOSTILE[name]
    claim = Program("hostile").claim("c", left, right)
    started = time.thread_time()
    verdict = prove(claim, seconds=SECONDS)
    assert verdict.status != PROVED
    assert time.thread_time() - started < SECONDS + SLACK

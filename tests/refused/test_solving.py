"""What equations do not say: functions that are not injective, factors that may be 0, other indices."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Abs, Eq, Ne, Tuple, cos, erf, exp, log, sqrt

from derive.binders import free_indices
from derive.functions import softmax
from derive.language import Product, Sum, delta, dims, indices, iverson, scalars, tensor, tensors, where
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

T = dims("T")[0]
i, j, k = indices("i j k", T)
x, y = tensors("x y", T)
X = tensor("X", T, T)
P = tensor("P", T, positive=True)
s, r, u = scalars("s r u")
p, q = scalars("p q", positive=True)

FALSE: dict[str, tuple[Any, Any, Any]] = {
    "an even function": (s, r, Eq(cos(s), cos(r))),
    "an absolute value": (s, r, Eq(Abs(s), Abs(r))),
    "exponentials beside what may be 0": (s, r, Eq(exp(s) * u, exp(r) * u)),
    "an exponential of a square": (s, r, Eq(exp(s**2), exp(r**2))),
    "a logarithm of a square": (s, r, Eq(log(s**2), log(r**2))),
    "the opposite of it": (s, -r, Eq(log(s**2), log(r**2))),
    "another index": (x[i], y[j], Eq(exp(x[i]), exp(y[i]))),
    "a sum of exponentials": (Sum(x[i], i), Sum(y[i], i), Eq(Sum(exp(x[i]), i), Sum(exp(y[i]), i))),
    "two exponentials on a side": (s, r, Eq(exp(s) + exp(-s), exp(r) + exp(-r))),
    "an exponential that an index switches off": (x[0], y[0], Eq(exp(i * x[i]), exp(i * y[i]))),
    "a power of what may be 1": (s, r, Eq(p**s, p**r)),
    "a square of the error function": (s, r, Eq(erf(s) ** 2, erf(r) ** 2)),
    "twice the error function": (s, 2 * r, Eq(erf(s), 2 * erf(r))),
    "softmax": (x[i], y[i], Eq(softmax(x[i], over=i), softmax(y[i], over=i))),
    "the diagonals": (X[i, j], X[j, i], Eq(exp(X[i, i]), exp(X[j, j]))),
    "different functions": (s, r, Eq(log(exp(s) + 1), log(exp(r) + 2))),
    "a product that may be 0": (s, 1 / r, Eq(s * r, u)),
    "a product that is -1": (s, 1 / r, Eq(s * r, -1)),
    "a product at another index": (x[i], 1 / y[j], Eq(x[i] * y[i], 1)),
    "a sum of products": (x[i], 1 / y[i], Eq(Sum(x[i] * y[i], i), 1)),
    "a product beside a bracket": (x[i] * delta(i, j), delta(i, j), Eq(x[i] * iverson(i <= j), iverson(i <= j) * y[i])),
    "a product that is 1 and its sum": (s + r, 2, Eq(s * r, 1)),
    "a square beside a factor": (s, 1 / r, Eq(s**2 * r, 1)),
    "its root": (s, 1 / sqrt(r), Eq(s**2 * r, 1)),
    "the sign of a factor": (iverson(s > 0), 1, Eq(s * r, 1)),
    "all entries of one product": (x[i], 1, Eq(x[i] * x[j], 1)),
    "a product over a range": (Product(x[i], i), 1, Eq(x[i] * y[j], 1)),
}


@pytest.mark.parametrize("name", FALSE)
def test_it_is_refuted(name: str) -> None:
    left, right, equation = FALSE[name]
    over = sorted(free_indices(Tuple(left, right)), key=str)
    assert prove(Program("solving").claim("c", left, right, given=[equation], over=over)).status == REFUTED


DIVIDED: dict[str, tuple[Any, Any, Any]] = {
    "a product without the factor that is 0": (
        Product(where(Ne(i, j), x[i], 1), i),
        0 * s,
        Eq(Product(x[i], i), 0),
    ),
    "a product without its first factor": (Product(where(Ne(i, 0), x[i], 1), i), 0 * s, Eq(Product(x[i], i), 0)),
    "a ratio that is 1 or -1": (Sum(r**i, i), where(Eq(r, 1), 0, (1 - r**T) / (1 - r)), Eq(r**2, 1)),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_what_a_proof_divides_by_is_0_where_the_hypothesis_holds(name: str) -> None:
    """A proof with the condition that it is not was contradicted by numbers, which was an alarm."""
    left, right, equation = DIVIDED[name]
    over = sorted(free_indices(Tuple(left, right)), key=str)
    assert prove(Program("solving").claim("c", left, right, given=[equation], over=over)).status == REFUTED


def test_equations_that_contradict_each_other_say_nothing() -> None:
    program = Program("solving")
    assert prove(program.claim("c", s * r, 2, given=[Eq(s * r, 1), Eq(s * r, 2)]), seconds=1.0).status != PROVED

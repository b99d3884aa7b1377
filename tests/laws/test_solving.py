"""Hypotheses solved by what they leave no other choice: factors of what is not 0, arguments of increasing functions.

The statements are proved, and the equations are worked out with numbers: what is put in hold at points that meet them.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, Tuple, atan, erf, exp, log

from derive.binders import free_indices
from derive.equations import read_equations
from derive.language import Sum, dims, indices, scalars, tensor, tensors
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.program import Program
from derive.prove import PROVED, prove

T = dims("T")[0]
i, j, k = indices("i j k", T)
x, y = tensors("x y", T)
P = tensor("P", T, positive=True)
s, r, u = scalars("s r u")
p, q = scalars("p q", positive=True)

TRUE: dict[str, tuple[Any, Any, Any]] = {
    "a product that is 1": (s, 1 / r, Eq(s * r, 1)),
    "a product that is -2": (s, -2 / r, Eq(s * r, -2)),
    "a product that is positive": (s, p / r, Eq(s * r, p)),
    "a product of three": (s, p / (r * u), Eq(s * r * u, p)),
    "entries": (x[i], 1 / y[i], Eq(x[i] * y[i], 1)),
    "entries in a sum": (Sum(1 / x[i], i), Sum(y[i], i), Eq(x[i] * y[i], 1)),
    "a number times a sum": (s, 1 / Sum(x[i], i), Eq(s * Sum(x[i], i), 1)),
    "exponentials": (s, r, Eq(exp(s), exp(r))),
    "exponentials of entries": (x[i], y[i], Eq(exp(x[i]), exp(y[i]))),
    "exponentials beside a number": (s, r + log(p), Eq(exp(s), p * exp(r))),
    "an exponential that is 1": (s, 0 * s, Eq(exp(s), 1)),
    "an exponential of an exponential": (s, r, Eq(exp(exp(s)), exp(exp(r)))),
    "an exponential of a sum": (Sum(x[i], i), s, Eq(exp(Sum(x[i], i)), exp(s))),
    "logarithms": (s, r, Eq(log(s), log(r))),
    "logarithms of declared entries": (P[i], p, Eq(log(P[i]), log(p))),
    "the logarithm of a product": (s, r * u, Eq(log(s), log(r) + log(u))),
    "a logarithm that is 0": (s, 1, Eq(log(s), 0)),
    "the error function": (s, r, Eq(erf(s), erf(r))),
    "an angle": (x[i], y[i], Eq(2 * atan(x[i]), 2 * atan(y[i]))),
}


@pytest.mark.parametrize("name", TRUE)
def test_it_is_proved(name: str) -> None:
    left, right, equation = TRUE[name]
    over = sorted(free_indices(Tuple(left, right)), key=str)
    verdict = prove(Program("solving").claim("c", left, right, given=[equation], over=over))
    assert verdict.status == PROVED
    assert any(str(equation) in text for text in verdict.hypotheses)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(a=st.integers(1, 5), b=st.integers(-5, 5).filter(bool), power=st.integers(1, 3), known=st.floats(0.2, 3))
def test_a_product_solved_for_a_factor_has_its_value(a: int, b: int, power: int, known: float) -> None:
    """Of b s r^n = a p comes s = a p / (b r^n), for the normal form and at a point."""
    ledger = Ledger()
    assert read_equations(ledger, [Eq(b * s * r**power, a * p)], []) == ()
    assert is_zero(ledger, normal_form(ledger, s) - normal_form(ledger, a * p / (b * r**power)))
    value = a * 2.0 / (b * known**power)
    assert math.isclose(b * value * known**power, a * 2.0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(c=st.integers(1, 4), d=st.integers(1, 4), m=st.integers(-3, 3).filter(bool), n=st.integers(-3, 3))
def test_exponentials_are_solved_for_what_they_are_of(c: int, d: int, m: int, n: int) -> None:
    """Of c exp(m s) = d exp(n r) comes s = (n r + log(d/c)) / m."""
    ledger = Ledger()
    read_equations(ledger, [Eq(c * exp(m * s), d * exp(n * r))], [])
    assert is_zero(ledger, normal_form(ledger, m * s) - normal_form(ledger, n * r + log(d) - log(c)))
    value = (n * 0.3 + math.log(d / c)) / m
    assert math.isclose(c * math.exp(m * value), d * math.exp(n * 0.3))

"""What the ranges of indices decide: brackets, deltas, re-indexed sums, hypotheses; held against all small sizes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, Expr

from derive.language import Sum, delta, dims, index, indices, iverson, lengths, tensor
from derive.normal import ranges
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.normal.terms import Polynomial
from derive.program import Program
from derive.prove import PROVED, prove
from derive.symbols import Index

T, N = dims("T N")
t, u = indices("t u", T)
j = index("j", T + 1)
n = index("n", N)
k = index("k", 3)
x = tensor("x", T + 1)
token = tensor("token", N, into=T)
LARGEST = 4


def places() -> Iterator[dict[object, int]]:
    """All values of t, u, j, n and k at all sizes up to LARGEST."""
    for size, other in product(range(1, LARGEST + 1), repeat=2):
        spaces = [range(size), range(size), range(size + 1), range(other), range(3)]
        for values in product(*spaces):
            yield {T: size, N: other, **dict(zip((t, u, j, n, k), values, strict=True))}


linear = st.tuples(*[st.integers(-2, 2)] * 6, st.integers(-3, 3)).map(
    lambda c: c[0] * t + c[1] * u + c[2] * j + c[3] * k + c[4] * T + c[5] * n + c[6]
)


def normal(expression: Expr) -> Polynomial:
    return normal_form(Ledger(), expression)


@settings(max_examples=60, deadline=None)
@given(linear)
def test_bounds_hold_at_every_place(value: Expr) -> None:
    polynomial = normal(value + 0 * T)
    high, low = ranges.greatest(polynomial), ranges.least(polynomial)
    seen = {int(value.xreplace(place)) for place in places()}
    assert high is None or max(seen) <= high
    assert low is None or min(seen) >= low


@settings(max_examples=60, deadline=None)
@given(linear)
def test_brackets_that_are_decided_are_decided_rightly(value: Expr) -> None:
    constant = normal(iverson(value > 0)).constant()
    if constant is not None:
        assert {int(bool(value.xreplace(place) > 0)) for place in places()} == {constant}


@settings(max_examples=40, deadline=None)
@given(linear, st.integers(2, 4), st.integers(-5, 5))
def test_what_all_coefficients_share_is_divided_out(value: Expr, shared: int, constant: int) -> None:
    left = iverson(shared * value + constant > 0)
    right = iverson(value - (-constant // shared) > 0)
    ledger = Ledger()
    assert is_zero(ledger, normal_form(ledger, left) - normal_form(ledger, right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (iverson(t > 0), 1 - iverson(Eq(t, 0))),
        (iverson(t < 1), iverson(Eq(t, 0))),
        (iverson(t < T), 1),
        (iverson(j >= T), iverson(Eq(j, T))),
        (iverson(token[n] > 0), 1 - iverson(Eq(token[n], 0))),
        (iverson(2 * t > 2 * u), iverson(t > u)),
        (iverson(2 * t + 1 > 2 * u), iverson(t >= u)),
        (delta(t + 1, T), iverson(Eq(t, T - 1))),
        (Sum(iverson(t > 0) * x[t], t), Sum(x[t], t) - x[0]),
        (Sum(delta(t + 1, T) * x[t + 1], t), x[T]),
        (Sum(delta(t + 1, j) * x[t + 1], t), iverson(j > 0) * x[j]),
        (Sum(iverson(Eq(t, j)) * x[t], t, j), Sum(x[t], t)),
        (Sum(iverson(t < u) * (x[t + 1] - x[t]), t), x[u] - x[0]),
        (Sum(iverson(t < j) * (x[t + 1] - x[t]), t), x[j] - x[0]),
        (Sum(x[t + 1] * iverson(t + 1 > 0), t), Sum(x[t], t) + x[T] - x[0]),
    ],
    ids=str,
)
def test_index_arithmetic_is_proved(left: Expr, right: Expr) -> None:
    free: list[Index] = [t, u, j, n]
    verdict = prove(Program("ranges").claim("c", left, right, over=free))
    assert verdict.status == PROVED, verdict.reason


def test_ragged_sums_telescope() -> None:
    L = lengths("L", N)
    s, F = index("s", L[n]), tensor("F", N, L + 1)
    program = Program("ragged")
    inner = program.claim("c", Sum(F[n, s + 1] - F[n, s], s), F[n, L[n]] - F[n, 0])
    outer = program.claim("d", Sum(F[n, s + 1] - F[n, s], n, s), Sum(F[n, L[n]] - F[n, 0], n))
    assert [prove(claim).status for claim in (inner, outer)] == [PROVED, PROVED]


@pytest.mark.parametrize("beyond", [x[T], x[3]], ids=str)
def test_hypothesis_says_nothing_outside_the_range_of_its_index(beyond: Expr) -> None:
    """That x[t] = 1 for t below T says nothing about x[T], nor about x[3] when T is 3."""
    program = Program("hypotheses")
    assert prove(program.claim("c", beyond, 1, given=[Eq(x[t], 1)])).status != PROVED
    assert prove(program.claim("d", x[0], 1, given=[Eq(x[t + 1], 1)])).status != PROVED
    assert prove(program.claim("e", x[0], 1, given=[Eq(x[t], 1)])).status == PROVED
    assert prove(program.claim("f", Sum(x[t + 1], t), T, given=[Eq(x[j], 1)])).status == PROVED


def test_wrong_index_arithmetic_is_not_proved() -> None:
    program = Program("wrong")
    for left, right in [
        (Sum(x[t + 1] - x[t], t), x[T]),
        (Sum(delta(t + 1, T) * x[t + 1], t), 0),
        (Sum(delta(t + 1, j) * x[t + 1], t), x[j]),
        (Sum(iverson(Eq(t, j)) * x[t], t), x[j]),
        (iverson(j > 0), 1),
        (iverson(2 * t > 2 * u - 1), iverson(t > u)),
    ]:
        assert prove(program.claim("c", left, right, over=[t, u, j])).status != PROVED, (left, right)

"""Sums in closed form, products taken apart, and the sign of a product: each law for all sizes, and as numbers.

The statements are proved, hold when they are worked out by looping, and their near misses are refuted.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Abs, Eq, Max, Min, Ne, Rational, S, exp, log, sign, sqrt

from derive.binders import free_indices
from derive.language import (
    Product,
    Sum,
    delta,
    dims,
    index,
    indices,
    iverson,
    lengths,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

T, N, W = dims("T N W")
i, j, k = indices("i j k", T)
last = index("last", T + 1)
n = index("n", N)
L = lengths("L", N)
t = index("t", L[n])
x, y = tensors("x y", T)
P = tensor("P", T, positive=True)
F = tensor("F", T + 1)
s, r, u = scalars("s r u")
p, q = scalars("p q", positive=True)
minus = S.NegativeOne
LAWS = settings(max_examples=60, deadline=None, derandomize=True)

TRUE: dict[str, tuple[Any, Any]] = {
    "the sum of the first numbers": (Sum(i, i), T * (T - 1) / 2),
    "the sum of squares": (Sum(i**2, i), (T - 1) * T * (2 * T - 1) / 6),
    "the sum of cubes is a square": (Sum(i**3, i), Sum(i, i) ** 2),
    "odd numbers": (Sum(2 * i + 1, i), T**2),
    "an arithmetic progression": (Sum(s + r * i, i), T * s + r * T * (T - 1) / 2),
    "two indices": (Sum(i * j * s, i, j), s * (T * (T - 1) / 2) ** 2),
    "a ragged range": (Sum(t, n, t), Sum(L[n] * (L[n] - 1), n) / 2),
    "a geometric sum": (Sum(r**i, i), (1 - r**T) / (1 - r)),
    "a geometric sum, multiplied out": (Sum(r**i, i) * (1 - r), 1 - r**T),
    "a geometric sum of exponentials": (Sum(exp(-s * i), i), (1 - exp(-s * T)) / (1 - exp(-s))),
    "powers of two": (Sum(2**i, i), 2**T - 1),
    "powers of a half": (Sum(Rational(1, 2) ** i, i), 2 - 2 * Rational(1, 2) ** T),
    "signs in turn": (Sum(minus**i, i), (1 - minus**T) / 2),
    "a geometric sum with one more term": (Sum(r**last, last) * (1 - r), 1 - r ** (T + 1)),
    "a geometric sum beside its index": (
        (1 - s) ** 2 * Sum(i * s**i, i),
        s - T * s**T + (T - 1) * s ** (T + 1),
    ),
    "a geometric sum beside a square": (Sum(i**2 * 2**i, i), 2**T * (T**2 - 4 * T + 6) - 6),
    "signs in turn beside an index": (Sum(i * minus**i, i), -(minus**T) * (2 * T - 1) / 4 - Rational(1, 4)),
    "a geometric sum from a border on": (Sum(p**i * iverson(i >= j), i) * (1 - p), p**j - p**T),
    "a geometric sum up to a border": (Sum(where(k <= i, p ** (i - k), 0), k) * (1 - p), 1 - p ** (i + 1)),
    "what is left of a momentum": (
        Sum(where(k <= i, p ** (i - k), 0) * x[k], k, i),
        Sum(x[k] * (1 - p ** (T - k)) / (1 - p), k),
    ),
    "one decay after another": (
        Sum(iverson(j <= i) * iverson(k <= j) * p ** (i - j), j) * (1 - p),
        iverson(k <= i) * (1 - p ** (i - k + 1)),
    ),
    "a last term": (Sum(F[last], last), Sum(F[i], i) + F[T]),
    "a first term": (Sum(F[last], last), F[0] + Sum(F[i + 1], i)),
    "a last term in a product": (Sum(F[last] ** 2, last) * s, s * F[T] ** 2 + s * Sum(F[i] ** 2, i)),
    "a factor leaves a product": (Product(s * x[i], i), s**T * Product(x[i], i)),
    "signs leave a product": (Product(-x[i], i), minus**T * Product(x[i], i)),
    "a product of products": (Product(x[i] * y[i], i), Product(x[i], i) * Product(y[i], i)),
    "a product of powers": (Product(x[i] ** 3, i), Product(x[i], i) ** 3),
    "a product of inverses": (Product(1 / x[i], i), 1 / Product(x[i], i)),
    "a common factor of a sum": (Product(s * x[i] + s * y[i], i), s**T * Product(x[i] + y[i], i)),
    "positive and other factors": (Product(P[i] * x[i], i), exp(Sum(log(P[i]), i)) * Product(x[i], i)),
    "a bracket": (Product(iverson(s > 0) * x[i], i), iverson(s > 0) * Product(x[i], i)),
    "powers of a power": ((s * r) ** T * s, s ** (T + 1) * r**T),
    "a negative power": ((-s) ** T, minus**T * s**T),
    "an even power": ((-s) ** (2 * T), s ** (2 * T)),
    "a derivative of a power": (Program("d").derivative(p**T, p), T * p**T / p),
    "a product of magnitudes": (Abs(s) * Abs(r), Abs(s * r)),
    "magnitudes of entries": (Sum(Abs(x[i] * y[i]), i), Sum(Abs(x[i]) * Abs(y[i]), i)),
    "a number is its magnitude and sign": (Abs(s) * sign(s), s),
    "a magnitude is the number and sign": (s * sign(s), Abs(s)),
    "the sign of a product": (sign(s * r), sign(s) * sign(r)),
    "the sign of a quotient": (sign(s / p), sign(s)),
    "the root of a square": (sqrt(Sum(delta(i, 0) * s**2 * r**2, i)), Abs(s) * Abs(r)),
    "between two positions": (Sum(iverson(j >= i) * iverson(j <= k), j), Max(k - i + 1, 0)),
    "between two positions, by a case": (Sum(iverson(j > i) * iverson(j < k), j), where(k > i, k - i - 1, 0)),
    "a window": (Sum(iverson(j <= i) * iverson(i - j < W), j), Min(i + 1, W)),
    "a window of a width by position": (Sum(iverson(j <= i) * iverson(i - j <= n), j), Min(i, n) + 1),
    "a border beyond the range": (Sum(iverson(j <= n), j), Min(n + 1, T)),
    "of two borders the nearer": (Sum(iverson(j < i) * iverson(j < k), j), Min(i, k)),
    "three borders": (
        Sum(iverson(j >= i) * iverson(j >= k) * iverson(j < W), j),
        Max(Min(W, T) - Max(i, k), 0),
    ),
    "a sum of prefix sums": (
        Sum(iverson(j <= i) * iverson(k <= j) * x[k], k, j),
        Sum(iverson(k <= i) * (i - k + 1) * x[k], k),
    ),
    "the magnitude of a product of sums": (Abs(s * (r - u)), Abs(s) * Abs(r - u)),
}
FALSE: dict[str, tuple[Any, Any]] = {
    "the sum of the first numbers, from one": (Sum(i, i), T * (T + 1) / 2),
    "the sum of squares, the leading term": (Sum(i**2, i), T**3 / 3),
    "a geometric sum with a term too many": (Sum(r**i, i), (1 - r ** (T + 1)) / (1 - r)),
    "a geometric sum beside its index, one power off": (
        (1 - s) ** 2 * Sum(i * s**i, i),
        s - T * s**T + (T + 1) * s ** (T + 1),
    ),
    "a geometric sum before a border": (Sum(where(k < i, p ** (i - k), 0), k) * (1 - p), 1 - p**i),
    "what is left of a momentum, a step less": (
        Sum(where(k <= i, p ** (i - k), 0) * x[k], k, i),
        Sum(x[k] * (1 - p ** (T - k - 1)) / (1 - p), k),
    ),
    "a geometric sum between borders that may have crossed": (
        Sum(p**i * iverson(i >= j) * iverson(i < k), i) * (1 - p),
        p**j - p**k,
    ),
    "signs in turn add up to nothing": (Sum(minus**i, i), 0),
    "a last term for the first": (Sum(F[last], last), Sum(F[i], i) + F[0]),
    "signs leave a product as one": (Product(-x[i], i), -Product(x[i], i)),
    "a factor leaves a product once": (Product(s * x[i], i), s * Product(x[i], i)),
    "a product of sums": (Product(x[i] + y[i], i), Product(x[i], i) + Product(y[i], i)),
    "a negative power without its sign": ((-s) ** T, s**T),
    "a magnitude to a power": (Abs(s) ** T, s**T),
    "the root of a square without magnitude": (sqrt(Sum(delta(i, 0) * s**2, i)), s),
    "between two positions, one too few": (Sum(iverson(j >= i) * iverson(j <= k), j), Max(k - i, 0)),
    "between two positions in either order": (Sum(iverson(j >= i) * iverson(j <= k), j), k - i + 1),
    "a window that begins at once": (Sum(iverson(j <= i) * iverson(i - j < W), j), W),
    "a window with its border": (Sum(iverson(j <= i) * iverson(i - j <= W), j), Min(i + 1, W)),
    "a border beyond the range, unseen": (Sum(iverson(j < W), j), W),
    "of two borders the farther": (Sum(iverson(j < i) * iverson(j < k), j), Max(i, k)),
    "the sign of a sum": (sign(s + r), sign(s) + sign(r)),
}


@pytest.mark.parametrize("name", TRUE)
def test_a_closed_form_is_proved(name: str) -> None:
    assert prove(Program("closed").claim("c", *TRUE[name])).status == PROVED


@pytest.mark.parametrize("name", TRUE)
def test_a_closed_form_holds_at_explicit_sizes(explicit: Any, no_value: Any, name: str) -> None:
    left, right = TRUE[name]
    compared = 0
    for seed in range(12):
        world = explicit(seed, whole=bool(seed % 2))
        for places in world.places(sorted(free_indices(left) | free_indices(right), key=str)):
            try:
                values = world.value(left, places), world.value(right, places)
            except no_value:
                continue
            compared += 1
            assert mp.almosteq(*values, 1e-20, 1e-20), (values, world.sizes)
    assert compared > 3


@pytest.mark.parametrize("name", FALSE)
def test_a_near_miss_is_refuted(name: str) -> None:
    assert prove(Program("closed").claim("c", *FALSE[name])).status == REFUTED


def test_what_divides_says_so_and_what_does_not_is_left_alone() -> None:
    assert prove(Program("closed").claim("c", Sum(r**i, i), Sum(r**j, j))).conditions == ()
    assert prove(Program("closed").claim("c", Sum(r**i, i) * (1 - r), 1 - r**T)).conditions == ("r - 1 != 0",)
    assert prove(Program("closed").claim("c", Sum(2**i, i), 2**T - 1)).conditions == ()


# True but where the ratio is 1, or a factor 0: a proof would divide by 0 there, and both sides have a value.
ALMOST: dict[str, tuple[Any, Any]] = {
    "the ratio 1": (Sum(r**i, i), where(Eq(r, 1), 0, (1 - r**T) / (1 - r))),
    "a ratio that is a quotient": (Sum((r / 3) ** i, i), where(Eq(r, 3), 0, (1 - (r / 3) ** T) / (1 - r / 3))),
    "a ratio that is a product": (
        Sum((r * s / 5) ** i, i),
        where(Eq(r * s, 5), 0, (1 - (r * s / 5) ** T) / (1 - r * s / 5)),
    ),
    "a ratio that is an entry": (Sum(x[j] ** i, i), where(Eq(x[j], 1), 0, (1 - x[j] ** T) / (1 - x[j]))),
    "a ratio that is a difference": (
        Sum((2 * x[j] - 5) ** i, i),
        where(Eq(x[j], 3), 0, (1 - (2 * x[j] - 5) ** T) / (6 - 2 * x[j])),
    ),
    "a ratio that is an exponential": (Sum(exp(s * i), i), where(Eq(s, 0), 0, (1 - exp(s * T)) / (1 - exp(s)))),
    "two equal decays": (
        Sum(p**i * q ** (T - 1 - i), i),
        where(Eq(p, q), 0, (p**T - q**T) / (p - q)),
    ),
    "the product without one factor": (
        Product(where(Ne(i, j), x[i], 1), i),
        where(Eq(x[j], 0), 3, Product(x[i], i) / x[j]),
    ),
    "a quotient in a branch": (where(s > 3, 1 / (s - 3), 7), where(s > 3, 1 / (s - 3), where(Eq(s, 3), 8, 7))),
}


@pytest.mark.parametrize("name", ALMOST)
def test_what_is_false_only_where_a_proof_would_divide_by_0_is_refuted(name: str) -> None:
    assert prove(Program("closed").claim("c", *ALMOST[name])).status == REFUTED


def test_the_product_without_one_factor() -> None:
    program = Program("closed")
    slope = program.derivative(Product(x[i], i), x[j])
    verdict = prove(program.claim("c", slope, Product(x[i], i) / x[j]))
    assert (verdict.status, verdict.conditions) == (PROVED, ("x[j] != 0",))
    assert prove(program.claim("c", slope, Product(x[i], i))).status == REFUTED


@LAWS
@given(power=st.integers(1, 9), size=st.integers(1, 9))
def test_the_closed_form_of_a_sum_of_powers(power: int, size: int) -> None:
    fixed = normal_form(Ledger(), Sum(i**power, i)).terms
    value = sum(c * size ** sum(int(e) for _, e in m) for m, c in fixed.items())
    assert value == sum(place**power for place in range(size))


@LAWS
@given(numbers=st.lists(st.integers(-3, 3), min_size=2, max_size=5))
def test_sums_of_polynomials_in_an_index_are_linear(numbers: list[int]) -> None:
    body = sum(c * i**power for power, c in enumerate(numbers))
    parts = sum(c * Sum(i**power, i) for power, c in enumerate(numbers) if power)
    ledger = Ledger()
    assert is_zero(ledger, normal_form(ledger, Sum(body, i)) - normal_form(ledger, parts + numbers[0] * T))

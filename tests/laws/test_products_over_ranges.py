"""Products over a range: a factor that is 0, conditions at all positions, absolute values; counts in short windows.

The statements are proved, and are worked out by looping at small sizes.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Abs, Max, Min, Ne, Tuple, exp, log, sqrt

from derive.binders import free_indices
from derive.language import Product, Sum, delta, dims, index, indices, iverson, lengths, scalars, tensor, tensors, where
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

T, N, K = dims("T N K")
i, j = indices("i j", T)
n = index("n", N)
L = lengths("L", N)
t = index("t", L[n])
x, y = tensors("x y", T)
p = tensor("p", T, positive=True)
s, r = scalars("s r")

TRUE: dict[str, tuple[Any, Any]] = {
    "a product that begins at 0": (Product(i, i), 0 * s),
    "one that ends at 0": (Product(T - 1 - i, i), 0 * s),
    "a difference of entries": (Product(x[i] - x[0], i), 0 * s),
    "a ragged range": (Product(t, t), 0 * s),
    "two ranges": (Product(i + j, i, j), 0 * s),
    "no index before the first": (Product(1 - iverson(j < i), j), delta(i, 0)),
    "no index after the last": (Product(1 - iverson(j > i), j), delta(i, T - 1)),
    "one position": (Product(delta(i, j), j), iverson(T <= 1)),
    "all positions differ from one of them": (Product(1 - delta(i, j), j), 0 * s),
    "all positions below another size": (Product(iverson(j < K), j), iverson(T <= K)),
    "an absolute value": (Abs(Product(x[i], i)), Product(Abs(x[i]), i)),
    "that of differences": (Abs(Product(s - x[i], i)), Product(Abs(x[i] - s), i)),
    "beside a number": (Abs(s * Product(x[i], i)), Abs(s) * Product(Abs(x[i]), i)),
    "the opposite": (Abs(-2 * Product(x[i], i)), 2 * Product(Abs(x[i]), i)),
    "the other way round": (Min(Product(x[i], i), -Product(x[i], i)), -Product(Abs(x[i]), i)),
    "of two products": (Abs(Product(x[i] * y[i], i)), Abs(Product(x[i], i)) * Product(Abs(y[i]), i)),
    "of a product of products": (Abs(Product(x[i] - y[j], i, j)), Product(Abs(x[i] - y[j]), i, j)),
    "a root of squares": (sqrt(Product(x[i] ** 2, i)), Product(Abs(x[i]), i)),
    "a root of cubes squared": (sqrt(Product(x[i] ** 6, i)), Product(Abs(x[i]) ** 3, i)),
    "a window of two": (Sum(iverson((j <= i) & (j > i - 2)), j), Min(2, i + 1)),
    "a window of three": (Sum(iverson((j <= i) & (j > i - 3)), j), Min(3, i + 1)),
    "a window from below": (Sum(iverson((j >= i) & (j < i + 2)), j), Min(2, T - i)),
    "the log of a product of some": (log(Product(where(j < i, p[j], 1), j)), Sum(where(j < i, log(p[j]), 0), j)),
    "of those up to a position": (
        log(Product(where(j <= i, 1 / (1 + exp(x[j])), 1), j)),
        -Sum(where(j <= i, log(1 + exp(x[j])), 0), j),
    ),
    "a product of some and of the others": (
        Product(where(j < i, p[j], 1), j) * Product(where(j >= i, p[j], 1), j),
        Product(p[j], j),
    ),
    "an index is 0 or at least 1": (Max(i, 1), i + delta(i, 0)),
}
FALSE: dict[str, tuple[Any, Any]] = {
    "a product that begins at 1": (Product(i + 1, i), 0 * s),
    "a factor that is 0 at the second position": (Product(where(i < 1, 1, i - 1), i), 0 * s),
    "a sum that begins at 0": (Sum(i, i), 0 * s),
    "the one that is 0 is left out": (Product(where(Ne(i, j), i, 1), i), 0 * s),
    "another one is left out": (Product(where(Ne(i, j), x[i] - x[0], 1), i), 0 * s),
    "a factor that is 0 past the end": (Product(T - i, i), 0 * s),
    "a difference of two tensors": (Product(x[i] - y[0], i), 0 * s),
    "another first position": (Product(1 - iverson(j < i), j), delta(i, 1)),
    "up to the index itself": (Product(1 - iverson(j <= i), j), delta(i, 0)),
    "a power of a condition": (Product(2 * iverson(j <= i), j), iverson(i >= T - 1)),
    "some positions below another size": (Product(iverson(j < K), j), iverson(T < K)),
    "a condition at no position": (Product(iverson(j < K), j), iverson(K >= 1)),
    "a product of both signs": (Abs(Product(x[i], i)), Product(x[i], i)),
    "an absolute value of a sum": (Abs(Sum(x[i], i)), Sum(Abs(x[i]), i)),
    "a number without its absolute value": (Abs(s * Product(x[i], i)), s * Product(Abs(x[i]), i)),
    "a shifted product": (Abs(s + Product(x[i], i)), Abs(s) + Product(Abs(x[i]), i)),
    "a difference of absolute values": (Abs(Product(s - x[i], i)), Product(Abs(s) - Abs(x[i]), i)),
    "a root with the sign": (sqrt(Product(x[i] ** 2, i)), Product(x[i], i)),
    "the greater one for the smaller one": (Max(Product(x[i], i), -Product(x[i], i)), -Product(Abs(x[i]), i)),
    "the log of a product of some, and one more": (
        log(Product(where(j <= i, p[j], 1), j)),
        Sum(where(j < i, log(p[j]), 0), j),
    ),
    "the log of a product of both signs": (
        log(Product(where(j < i, x[j], 1), j) ** 2),
        Sum(where(j < i, log(Abs(x[j])), 0), j),
    ),
    "a window that is cut off at neither end": (Sum(iverson((j <= i) & (j > i - 2)), j), 2 + 0 * i),
    "a window of another length": (Sum(iverson((j <= i) & (j > i - 2)), j), Min(3, i + 1)),
    "an index is 0, 1 or at least 2": (Max(i, 2), i + 2 * delta(i, 0)),
}


def _verdict(left: Any, right: Any) -> str:
    over = sorted(free_indices(Tuple(left, right)), key=str)
    return prove(Program("products").claim("c", left, right, over=over)).status


@pytest.mark.parametrize("name", TRUE)
def test_it_is_proved(name: str) -> None:
    assert _verdict(*TRUE[name]) == PROVED


@pytest.mark.parametrize("name", FALSE)
def test_its_neighbour_is_refuted(name: str) -> None:
    assert _verdict(*FALSE[name]) == REFUTED


@settings(max_examples=40, deadline=None, derandomize=True)
@given(first=st.integers(-3, 3), step=st.sampled_from([-2, -1, 1, 2]), size=st.integers(1, 4))
def test_a_product_is_said_to_be_0_where_it_is(first: int, step: int, size: int) -> None:
    """Of factors first + step i at the positions of a range of one length, and of a range of any length."""
    m = index("m", size)
    value = math.prod(first + step * place for place in range(size))
    assert _verdict(Product(first + step * m, m), value + 0 * s) == PROVED
    if first == 0:
        assert _verdict(Product(step * i, i), 0 * s) == PROVED


@settings(max_examples=20, deadline=None, derandomize=True)
@given(width=st.integers(1, 4), size=st.integers(1, 6))
def test_a_window_has_as_many_positions_as_it_is_wide_or_as_there_are(width: int, size: int) -> None:
    counts = [sum(place - width < other <= place for other in range(size)) for place in range(size)]
    assert counts == [min(width, place + 1) for place in range(size)]
    assert _verdict(Sum(iverson((j <= i) & (j > i - width)), j), Min(width, i + 1)) == PROVED

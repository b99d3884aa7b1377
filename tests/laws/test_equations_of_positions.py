"""Deltas between computed positions, t = i + r: convolutions and their adjoints, and entries that some index may miss.

What is proved is compared with a sum over all positions, worked out in plain Python.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from sympy import Eq, Mul

from derive.language import Sum, delta, dims, index, indices, iverson, tensor, tensors
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

T, K, H = dims("T K H")
i, j, k = indices("i j k", T)
r, q = indices("r q", K)
h = index("h", H)
t = index("t", T + K - 1)
w = index("w", T + K + H - 2)
g, f = tensors("g f", T)
a, b = tensors("a b", K)
c = tensor("c", H)
x, y = tensors("x y", T + K - 1)
z = tensor("z", T + K + H - 2)
step = tensor("step", T + 1)

FULL = Sum(g[i] * a[r] * delta(i + r, t), i, r)
TRUE: dict[str, tuple[Any, Any]] = {
    "the order of the sums": (FULL, Sum(a[r] * Sum(g[i] * iverson(Eq(i + r, t)), i), r)),
    "a convolution is commutative": (FULL, Sum(Sum(a[r] * g[i] * delta(r + i, t), r), i)),
    "the adjoint of a convolution": (Sum(x[t] * FULL, t), Sum(g[i] * Sum(a[r] * x[i + r], r), i)),
    "with a factor beside it": (Sum(x[t] * y[t] * FULL, t), Sum(g[i] * a[r] * x[i + r] * y[i + r], i, r)),
    "the sum of a convolution": (Sum(FULL, t), Sum(g[i], i) * Sum(a[r], r)),
    "its first moment": (Sum(t * FULL, t), Sum(i * g[i], i) * Sum(a[r], r) + Sum(g[i], i) * Sum(r * a[r], r)),
    "two kernels after each other": (
        Sum(z[w] * Sum(g[i] * a[r] * c[h] * delta(i + r + h, w), i, r, h), w),
        Sum(g[i] * a[r] * c[h] * z[i + r + h], i, r, h),
    ),
    "what a shorter range misses": (
        Sum(Sum(g[i] * a[r] * iverson(Eq(i + r, j)), i, r), j),
        Sum(g[i] * a[r] * iverson(i + r < T), i, r),
    ),
}
FALSE: dict[str, tuple[Any, Any]] = {
    "the shift forgotten": (Sum(x[t] * FULL, t), Sum(g[i] * a[r], i, r) * x[0]),
    "a shorter range": (Sum(Sum(g[i] * a[r] * iverson(Eq(i + r, j)), i, r), j), Sum(g[i], i) * Sum(a[r], r)),
    "one kernel for another": (FULL, Sum(g[i] * b[r] * delta(i + r, t), i, r)),
    "a square": (Sum(FULL**2, t), Sum(g[i] ** 2, i) * Sum(a[r] ** 2, r)),
}


def status(left: Any, right: Any, **options: Any) -> str:
    return prove(Program("statement").claim("c", left, right, **options)).status


@pytest.mark.parametrize("name", TRUE)
def test_sums_over_equations_of_positions(name: str) -> None:
    assert status(*TRUE[name]) == PROVED


@pytest.mark.parametrize("name", FALSE)
def test_false_sums_over_equations_of_positions(name: str) -> None:
    assert status(*FALSE[name]) == REFUTED


@pytest.mark.parametrize("seed", range(30))
def test_random_sums_over_equations_of_positions(seed: int) -> None:
    """Sums of products beside t = i + r and j = i, in any order, are those that plain Python finds, or not proved."""
    draw = random.Random(seed)
    size, width = draw.randint(1, 3), draw.randint(1, 3)
    values = {
        str(known.name): [draw.randint(-3, 3) for _ in range(size + width)] for known in (g, f, a, b, x, y)
    }  # fmt: skip

    taken = [draw.choice((g, f))[i], draw.choice((a, b))[r], draw.choice((x, y))[draw.choice((t, i + r))]]
    product: Any = Mul(*(entry ** draw.randint(0, 2) for entry in taken))
    order = draw.sample([i, r, t], 3)
    summed: Any = product * draw.choice((delta(i + r, t), iverson(Eq(i + r, t))))
    for one in order:
        summed = Sum(summed, one)
    right = draw.random() < 0.7
    wanted = Sum(product.xreplace({t: i + r if right else i}), i, r)
    found = prove(Program("statement").claim("c", summed, wanted)).status
    same = all(_value(summed, values, *at) == _value(wanted, values, *at) for at in ((size, width), (2, 3), (1, 2)))
    assert same or found != PROVED
    assert found == PROVED or not right


def _value(expression: Any, values: dict[str, list[int]], size: int, width: int) -> int:
    """A sum over all positions at given sizes."""
    ranges = {"i": size, "r": width, "t": size + width - 1}

    def at(node: Any, here: dict[str, int]) -> Any:
        if node.func.__name__ == "Sum":
            names = [str(limit[0]) for limit in node.limits]
            places = itertools.product(*(range(ranges[name]) for name in names))
            return sum(at(node.function, {**here, **dict(zip(names, place, strict=True))}) for place in places)
        if node.func.__name__ == "KroneckerDelta":
            return int(at(node.args[0], here) == at(node.args[1], here))
        if node.func.__name__ == "Where":
            return int(at(node.args[0].args[0], here) == at(node.args[0].args[1], here))
        if node.func.__name__ == "IndexedEntry":
            row = values[str(node.base.name)]
            return row[at(node.indices[0], here) % len(row)]
        if node.is_Integer:
            return int(node)
        if node.is_Symbol:
            return here[str(node)]
        parts = [at(part, here) for part in node.args]
        if node.is_Pow:
            return parts[0] ** parts[1]
        result = 0 if node.is_Add else 1
        for part in parts:
            result = result + part if node.is_Add else result * part
        return result

    return int(at(expression, {}))


def test_the_derivative_for_an_entry_that_the_index_may_miss() -> None:
    """x[i + 1] and x[k] may be the same entry, whatever the ranges of i and k; a reader writes that as a bracket."""
    program = Program("statement")
    loss = Sum((step[i + 1] - step[i]) ** 2, i)
    right = 2 * (step[k] - step[k + 1]) + 2 * Sum(iverson(Eq(i + 1, k)) * (step[i + 1] - step[i]), i)
    assert prove(program.claim("inner", program.derivative(loss, step[k]), right)).status == PROVED
    assert prove(program.claim("no end", program.derivative(loss, step[k]), right.args[0])).status != PROVED
    last = 2 * (step[T] - Sum(step[i] * iverson(Eq(i, T - 1)), i))
    assert prove(program.claim("last", program.derivative(loss, step[T]), last)).status == PROVED
    assert prove(program.claim("unit", program.derivative(step[i + 1], step[k]), delta(i, k))).status == REFUTED

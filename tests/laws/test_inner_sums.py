"""Laws about one index of a larger sum: short ranges, sums beside their own inverse, re-indexing, pairs of indices."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from sympy import And, Eq, Ne, exp

from derive.functions import softmax
from derive.language import Sum, delta, dims, index, indices, iverson, scalars, tensor, tensors, where
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.program import Program
from derive.refutation import find_counterexample

T, d = dims("T d")
i, j, k, m = indices("i j k m", T)
a = index("a", d)
e, f = indices("e f", 2)
g = index("g", 3)
nine = index("nine", 9)
x, y = tensors("x y", T)
X, Y = tensors("X Y", T, T)
W = tensor("W", T, d)
pair, triple, many = tensor("pair", 2), tensor("triple", 3), tensor("many", 9)
path = tensor("path", T + 1)
c = scalars("c", positive=True)[0]
window = scalars("window")[0]


def equal(left: Any, right: Any) -> bool:
    ledger = Ledger()
    difference = normal_form(ledger, sympy.sympify(left)) - normal_form(ledger, sympy.sympify(right))
    return is_zero(ledger, difference)


def sunk(row: Any) -> Any:
    """The sum of a row of exponentials, and one positive number more."""
    return c + Sum(exp(X[row, m]), m)


TRUE: dict[str, tuple[Any, Any]] = {
    "a sum of two": (Sum(pair[e] ** 2, e), pair[0] ** 2 + pair[1] ** 2),
    "an index as its value": (Sum(g * triple[g], g), triple[1] + 2 * triple[2]),
    "two short sums": (Sum(pair[e] * pair[f], e, f), (pair[0] + pair[1]) ** 2),
    "a short sum of long ones": (Sum((e + 1) * x[i], e, i), 3 * Sum(x[i], i)),
    "either the first or the last": (delta(e, 0) + delta(e, 1), 1),
    "cases by position": (where(Eq(e, 0), c, 2), c * delta(e, 0) + 2 * delta(e, 1)),
    "not the first": (iverson(Ne(e, 0)), delta(e, 1)),
    "an entry, position by position": (pair[e], delta(e, 0) * pair[0] + delta(e, 1) * pair[1]),
    "two entries, position by position": (
        pair[e] * triple[g],
        (1 - delta(e, 1)) * pair[0] * triple[g] + delta(e, 1) * pair[1] * triple[g],
    ),
    "one of three": (delta(g, 2), 1 - delta(g, 0) - delta(g, 1)),
    "no such position": (delta(e, 2) * c, 0),
    "at two positions at once": (delta(g, 0) * delta(g, 2), 0),
    "a range too long to write out": (Sum(many[nine], nine), Sum(many[nine], nine)),
    "weights of a row": (Sum(y[i] * softmax(X[i, j], over=j), i, j), Sum(y[i], i)),
    "weights of a row, masked": (Sum(y[i] * softmax(X[i, j], over=j, where=j <= i), i, j), Sum(y[i], i)),
    "weights of a row, in a window": (
        Sum(y[i] * softmax(X[i, j], over=j, where=And(j <= i, i - j < window)), i, j),
        Sum(y[i], i),
    ),
    "weights with something of their own": (
        Sum(y[i] * exp(X[i, j]) * exp(X[i, k]) * x[k] / Sum(exp(X[i, m]), m) ** 2, i, j, k),
        Sum(y[i] * softmax(X[i, k], over=k) * x[k], i, k),
    ),
    "below a sum": (
        Sum(y[i] * exp(X[i, j]) / (1 + Sum(exp(X[i, k]), k)), i, j),
        Sum(y[i] - y[i] / (1 + Sum(exp(X[i, k]), k)), i),
    ),
    "one of each two": (Sum(exp(x[i]) / (exp(x[i]) + exp(x[j])), i, j), T**2 / 2),
    "one of each two, with weights": (Sum(y[i] * y[j] / (1 + exp(x[i] - x[j])), i, j), Sum(y[i], i) ** 2 / 2),
    "one of each two that differ": (Sum(iverson(Ne(i, j)) / (1 + exp(x[i] - x[j])), i, j), T * (T - 1) / 2),
    "one of each three": (Sum(exp(x[i]) / (exp(x[i]) + exp(x[j]) + exp(x[k])), i, j, k), T**3 / 3),
    "what is left of a row beside a sink": (
        Sum(y[i] * exp(X[i, j]) * (1 - Sum(exp(X[i, k]), k) / sunk(i)) / sunk(i), i, j),
        c * Sum(y[i] * exp(X[i, j]) / sunk(i) ** 2, i, j),
    ),
    "telescoping": (Sum(path[i + 1] - path[i], i), path[T] - path[0]),
    "telescoping with powers": (
        Sum(c ** (-i - 1) * (path[i + 1] - c * path[i]), i),
        c ** (-T) * path[T] - path[0],
    ),
    "quotients that have no value before the first": (
        Sum(path[i + 1] / (i + 1), i),
        Sum(path[i + 1] * x[j] / (i + 1), i, j) / Sum(x[j], j),
    ),
    "pairs, one index above the other": (
        Sum(iverson(i > j) * X[i, j] * Y[j, i], i, j),
        Sum(iverson(i < j) * X[j, i] * Y[i, j], i, j),
    ),
    "pairs above, below and equal": (
        Sum(X[i, j] * x[i], i, j),
        Sum((iverson(i > j) + iverson(i < j)) * X[i, j] * x[i], i, j) + Sum(X[i, i] * x[i], i),
    ),
    "sums up to an index": (
        Sum(iverson(j <= i) * W[j, a] * x[i], i, j, a) + Sum(iverson(j > i) * W[j, a] * x[i], i, j, a),
        Sum(W[j, a], j, a) * Sum(x[i], i),
    ),
    "a delta that appears when a sum is named": (
        Sum(x[i] / (1 + Sum(iverson(k <= i) * exp(X[i, k]), k)), i),
        Sum(x[j] / (1 + Sum(exp(X[j, k]), k) - Sum(iverson(k > j) * exp(X[j, k]), k)), j),
    ),
}
WRONG: dict[str, tuple[Any, Any]] = {
    "the square of a sum": (Sum(pair[e] ** 2, e), (pair[0] + pair[1]) ** 2),
    "an entry at the wrong position": (pair[e], delta(e, 1) * pair[0] + delta(e, 0) * pair[1]),
    "the last of three": (delta(g, 2), 1 - delta(g, 0)),
    "weights of a column": (Sum(y[i] * softmax(X[i, j], over=i), i, j), Sum(y[i], i)),
    "weights of half a row": (Sum(iverson(j <= i) * y[i] * softmax(X[i, j], over=j), i, j), Sum(y[i], i)),
    "weights that do not cancel": (
        Sum(y[i] * exp(X[i, j]) / (1 + Sum(exp(X[i, k]), k)), i, j),
        Sum(y[i], i),
    ),
    "one of each two, weighted on one side": (Sum(y[i] / (1 + exp(x[i] - x[j])), i, j), T * Sum(y[i], i) / 2),
    "one of each two and a third": (Sum(exp(x[i]) / (exp(x[i]) + exp(x[j]) + 1), i, j), T**2 / 2),
    "telescoping without the powers": (Sum(c**i * (path[i + 1] - path[i]), i), path[T] - path[0]),
    "telescoping to the wrong end": (Sum(path[i + 1] - path[i], i), path[0] - path[T]),
    "pairs the other way round": (
        Sum(iverson(i > j) * X[i, j] * Y[j, i], i, j),
        Sum(iverson(i > j) * X[j, i] * Y[i, j], i, j),
    ),
    "pairs without the diagonal": (
        Sum(X[i, j] * x[i], i, j),
        Sum((iverson(i > j) + iverson(i < j)) * X[i, j] * x[i], i, j),
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_laws(name: str) -> None:
    assert equal(*TRUE[name])


@pytest.mark.parametrize("name", WRONG)
def test_no_such_law(name: str) -> None:
    assert not equal(*WRONG[name])


@pytest.mark.parametrize("name", [*TRUE, *WRONG])
def test_the_tables_say_what_is_true(name: str) -> None:
    left, right = TRUE.get(name) or WRONG[name]
    claim = Program("table").claim("row", left, right, over=[i, e, g])
    # Where there is a counterexample, the search ends with it; where there is none, it takes all of its time.
    assert (find_counterexample(claim, budget_s=0.3 if name in TRUE else 2.0) is None) == (name in TRUE)

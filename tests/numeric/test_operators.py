"""Expectation, limit and first-order expansion as numbers: the second witness for claims that a rule proves."""

from __future__ import annotations

import contextlib
import io
from fractions import Fraction
from typing import Any

import pytest
from sympy import Abs, exp, log, sqrt

from derive.errors import BudgetExceededError
from derive.evaluation import evaluate
from derive.functions import softmax
from derive.language import Sum, dims, index, scalar, tensor, tensors
from derive.numeric.arithmetic import UndefinedError, UnsupportedError
from derive.numeric.prime_field import prime_field
from derive.operators import expectation, first_order, limit, variance_over
from derive.program import Program
from derive.prove import REFUTED, prove
from derive.rules.expansion import TaylorExpansion
from derive.rules.expectation import Moments
from derive.rules.limits import Decay, LimitOfDecays

n, d = dims("n d")
i = index("i", n)
a = index("a", d)
s = tensor("s", n)
q, k = tensors("q k", d)
Q = tensor("Q", n, d)
g, c = scalar("g", positive=True), scalar("c")
score = Sum(q[a] * k[a], a)


def value(expression: Any, sizes: dict[str, int], inputs: dict[str, Any], place: dict[str, int] | None = None) -> float:
    return float(evaluate(expression, sizes, inputs, place))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_expectation_goes_through_all_signs(size: int) -> None:
    inputs = {"q": (0,) * size, "k": (0,) * size}
    assert value(expectation(score**2, over=[q, k]), {"d": size}, inputs) == size
    assert value(variance_over(score / sqrt(d), over=[q, k]), {"d": size}, inputs) == pytest.approx(1)
    assert value(expectation(exp(q[a]), over=[q]), {"d": size}, inputs, {"a": 0}) == pytest.approx(1.5430806348)


def test_expectation_of_a_matrix_and_with_given_entries() -> None:
    inputs = {"Q": ((0, 0), (0, 0)), "k": (Fraction(2), Fraction(3))}
    body = Sum(Q[i, a] * k[a], i, a) ** 2
    assert value(expectation(body, over=[Q]), {"n": 2, "d": 2}, inputs) == 2 * (4 + 9)


def test_expectation_is_exact_in_the_prime_field() -> None:
    field = prime_field()
    found = evaluate(expectation(score**2 / d, over=[q, k]), {"d": 3}, {"q": (0,) * 3, "k": (0,) * 3}, arithmetic=field)
    assert field.same(found, field.rational(1))


def test_expectation_over_many_entries_is_past_the_budget() -> None:
    with pytest.raises(BudgetExceededError, match="20 random entries"):
        value(expectation(score, over=[q, k]), {"d": 10}, {"q": (0,) * 10, "k": (0,) * 10})


def test_limit_is_the_value_far_out() -> None:
    inputs = {"s": (Fraction(1, 2), Fraction(2, 3), Fraction(1, 3)), "g": 2}
    found = [value(limit(softmax(g * s[i], over=i), of=g), {"n": 3}, inputs, {"i": place}) for place in range(3)]
    assert found == [0, 1, 0]


@pytest.mark.parametrize("body", [1 + 1 / g, g, log(g)], ids=str)
def test_limit_that_does_not_settle_has_no_value(body: Any) -> None:
    with pytest.raises(UndefinedError, match="settled"):
        value(limit(body, of=g), {}, {"g": 1})


def test_expansion_takes_value_and_slope() -> None:
    assert value(first_order(exp(c), eta=c), {}, {"c": Fraction(1, 2)}) == pytest.approx(1.5)
    assert value(first_order((1 - c) ** 3, eta=c), {}, {"c": 2}) == pytest.approx(-5)
    with pytest.raises(UndefinedError, match="no slope"):
        value(first_order(Abs(c), eta=c), {}, {"c": 2})


@pytest.mark.parametrize("expression", [limit(exp(-g), of=g), first_order(exp(c), eta=c)], ids=str)
def test_limits_and_slopes_have_no_exact_meaning(expression: Any) -> None:
    with pytest.raises(UnsupportedError):
        evaluate(expression, {}, {"g": 1, "c": 1}, arithmetic=prime_field())


def test_definitions_follow_the_operators_input() -> None:
    """The input that an operator takes also varies in the names that depend on it."""
    program = Program("p")
    decay = program.define("decay", [i], exp(-g * (1 + s[i] ** 2)))
    inputs = {"s": (Fraction(1), Fraction(2)), "g": 1}
    found = evaluate(limit(decay[i] + 1, of=g), {"n": 2}, inputs, {"i": 1}, definitions=program.definitions)
    assert float(found) == 1


def reproduced(line: str) -> tuple[float, float]:
    """What the line of a counterexample prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(line, {})
    _, left, _, right = printed.getvalue().split()
    return float(left), float(right)


def wrong_claims() -> list[Any]:
    program = Program("p")
    z = program.define("z", [i], g * s[i])
    e = tensor("e", n)
    rule = LimitOfDecays(e[i], (Decay(e, (i,), gap=s[i] ** 2, vanishes=1 + 0 * s[i]),))
    moved = program.define("moved", [], Sum((s[i] - c) ** 2, i))
    return [
        program.claim("e", variance_over(score, over=[q, k]), d**2, by=Moments()),
        program.claim("m", expectation(Sum(Q[i, a] ** 2, i, a), over=[Q]), n, by=Moments()),
        program.claim("l", limit(exp(-z[i] * s[i]), of=g), 1, by=rule),
        program.claim("t", first_order(moved, eta=c), Sum(s[i] ** 2, i), by=TaylorExpansion()),
    ]


@pytest.mark.parametrize("claim", wrong_claims(), ids=lambda claim: claim.id)
def test_counterexample_is_reproduced_by_plain_python(claim: Any) -> None:
    verdict = prove(claim)
    assert verdict.status == REFUTED
    found = verdict.counterexample
    assert found is not None
    left, right = reproduced(found.line)
    assert left == pytest.approx(float(found.left), rel=1e-3, abs=1e-3)
    assert right == pytest.approx(float(found.right), rel=1e-6, abs=1e-9)
    assert left != pytest.approx(right, rel=1e-2)

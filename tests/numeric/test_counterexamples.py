"""Counterexamples are small and generic: nothing can hide in the numbers that a reader sees."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from sympy import Eq, Rational, exp, log, sqrt

from derive.functions import mean, softmax
from derive.language import Sum, dims, index, indices, scalar, tensor, tensors
from derive.program import Program
from derive.refutation import Counterexample, find_counterexample
from derive.statements import Claim

LARGEST = Fraction(12)  # of the numbers in a counterexample that is called small
SEEDS = (0, 1, 2)

T, L, d, e = dims("T L d e")
i, j = index("i", T), index("j", L)
a, b = index("a", d), index("b", e)


def attention() -> Claim:
    """A scale that is forgotten in the gradient of attention, four sizes."""
    Q, K, V = tensor("Q", T, d), tensor("K", L, d), tensor("V", L, e)
    program = Program("attention", "", [Q, K, V])
    S = program.define("S", [i, j], Sum(Q[i, a] * K[j, a], a) / sqrt(d))
    A = program.define("A", [i, j], softmax(S[i, j], over=j))
    O = program.define("O", [i, b], Sum(A[i, j] * V[j, b], j))
    gradient = program.gradient(O)
    return gradient.claim("dQ", gradient["dQ"][i, a], Sum(gradient["dS"][i, j] * K[j, a], j))


def square_attention() -> Claim:
    """Three tensors of one shape."""
    k = index("k", T)
    Q, K, V = tensors("Q K V", T, d)
    program = Program("square_attention", "", [Q, K, V])
    A = program.define("A", [i, k], softmax(Sum(Q[i, a] * K[k, a], a), over=k))
    O = program.define("O", [i, a], Sum(A[i, k] * V[k, a], k))
    gradient = program.gradient(O)
    return gradient.claim("dV", gradient["dV"][k, a], Sum(A[k, i] * gradient["dO"][i, a], i))


def layer_norm() -> Claim:
    """The gradient of a layer norm without its last term; a weight, and a small positive number."""
    x, gamma, eps = tensor("x", T, d), tensor("gamma", d), scalar("eps", positive=True)
    program = Program("norm", "", [x, gamma, eps])
    mu = program.define("mu", [i], mean(x[i, a], over=a))
    r = program.define("r", [i], (mean((x[i, a] - mu[i]) ** 2, over=a) + eps) ** Rational(-1, 2))
    y = program.define("y", [i, a], (x[i, a] - mu[i]) * r[i] * gamma[a])
    gradient = program.gradient(y)
    dy = gradient["dy"]
    return gradient.claim("dx", gradient["dx"][i, a], r[i] * (dy[i, a] * gamma[a] - mean(dy[i, a] * gamma[a], over=a)))


def distribution() -> Claim:
    """Numbers between 0 and 1 that sum to 1."""
    y, z = tensor("y", d, positive=True), tensor("z", d)
    return Program("distribution").claim(
        "c", Sum(y[a] * log(1 - y[a] / 2) * z[a], a), -Sum(y[a] * z[a], a), given=[Eq(Sum(y[a], a), 1)]
    )


def many_sizes() -> Claim:
    """Five letters, more than the search can have different at once."""
    N, H = dims("N H")
    n, h = index("n", N), index("h", H)
    W, X = tensor("W", H, d, e), tensor("X", N, T, d)
    program = Program("many", "", [W, X])
    y = program.define("y", [n, i, h, b], Sum(W[h, a, b] * X[n, i, a], a))
    gradient = program.gradient(y)
    return gradient.claim("dW", gradient["dW"][h, a, b], Sum(X[n, i, a] * gradient["dy"][n, i, h, b], n, i) / T)


def many_scalars() -> Claim:
    """More scalars than there are very small numbers."""
    known = [scalar(f"s_{number}") for number in range(9)]
    return Program("scalars").claim("c", sum(known), sum(known[1:]) + exp(known[0]))


CLAIMS = {made.__name__: made for made in (attention, square_attention, layer_norm, many_sizes, many_scalars)}


def found(claim: Claim, seed: int = 0) -> Counterexample:
    result = find_counterexample(claim, seed=seed)
    assert result is not None
    return result


def numbers(table: Any) -> list[Fraction]:
    return [number for row in table for number in numbers(row)] if isinstance(table, tuple) else [Fraction(table)]


def rows(table: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(table, tuple) and table and not isinstance(table[0], tuple):
        yield table
    elif isinstance(table, tuple):
        for row in table:
            yield from rows(row)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", sorted(CLAIMS))
class TestEveryCounterexample:
    def test_the_numbers_are_small_and_none_is_zero_or_one(self, name: str, seed: int) -> None:
        for table in found(CLAIMS[name](), seed).inputs.values():
            for number in numbers(table):
                assert number not in (0, 1, -1)
                assert abs(number.numerator) <= LARGEST
                assert number.denominator <= LARGEST

    def test_no_row_is_constant_and_no_two_rows_of_a_tensor_agree(self, name: str, seed: int) -> None:
        for table in found(CLAIMS[name](), seed).inputs.values():
            assert all(len(set(row)) == len(row) for row in rows(table))
            assert all(one != other for one, other in combinations(rows(table), 2))

    def test_no_two_inputs_agree(self, name: str, seed: int) -> None:
        inputs = [numbers(table) for table in found(CLAIMS[name](), seed).inputs.values()]
        assert all(one != other for one, other in combinations(inputs, 2))

    def test_the_sizes_are_distinct(self, name: str, seed: int) -> None:
        sizes = list(found(CLAIMS[name](), seed).sizes.values())
        assert len(set(sizes)) == len(sizes)
        assert min(sizes, default=2) > 1

    def test_the_difference_is_plain_to_see(self, name: str, seed: int) -> None:
        left, right = (float(text) for text in (found(CLAIMS[name](), seed).left, found(CLAIMS[name](), seed).right))
        assert abs(left - right) > 1e-2 * max(abs(left), abs(right))
        assert abs(left - right) > 1e-2


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_the_seed_chooses_the_numbers(name: str) -> None:
    assert found(CLAIMS[name](), 1) == found(CLAIMS[name](), 1)
    assert len({str(found(CLAIMS[name](), seed).inputs) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_conditions_hold_for_the_numbers_that_are_shown(seed: int) -> None:
    y = found(distribution(), seed).inputs["y"]
    assert sum(y) == 1
    assert all(0 < number < 1 for number in y)
    assert len(set(y)) == len(y)


def test_a_condition_on_indices_is_met_at_the_position_that_is_shown() -> None:
    x = tensor("x", T, T)
    i_1, i_2, i_3 = indices("i_1 i_2 i_3", T)
    result = found(Program("order").claim("c", x[i_1, i_2], x[i_2, i_1], given=[i_1 < i_2, i_2 < i_3]))
    assert result.position["i_1"] < result.position["i_2"] < result.position["i_3"]


def test_an_empty_index_set_refutes_nothing() -> None:
    k = index("k", T)
    x = tensor("x", T)
    claim = Program("empty").claim("c", softmax(x[k], over=k, where=k < i), softmax(x[k], over=k, where=k <= i))
    result = found(claim)
    assert result.position["i"] > 0  # at i = 0 the left side is 0/0, which is no value

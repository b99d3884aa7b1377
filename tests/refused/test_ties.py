"""Leaving ties out proves nothing about them: where every point has one, what is false there is not proved."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Abs, Eq, Max, Ne, Or, sign

from derive.functions import relu
from derive.language import Sum, delta, dims, index, indices, iverson, tensor
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove
from derive.statements import Claim
from derive.ties import comparisons_of, off_ties

n, N, C = dims("n N C")
i, j, k = indices("i j k", n)
row, c = index("row", N), index("c", C)
x, z, y = tensor("x", n), tensor("z", N, C), tensor("y", N, into=C)


def gradient_of(name: str, body: Any, over: list[Any]) -> Any:
    """The gradient of the sum of a rectified difference, which has a name of its own."""
    program = Program(name, inputs=[x, z, y])
    difference = program.define("difference", over, body)
    return program.gradient(program.define("L", [], Sum(relu(difference[tuple(over)]), *over)))


def always_tied() -> list[Claim]:
    """False because of ties that no input can avoid: an entry compared with itself."""
    pairs = gradient_of("pairs", x[i] - x[j], [i, j])
    own = gradient_of("own_entry", z[row, c] - z[row, y[row]], [row, c])
    target = z[row, y[row]]
    return [
        pairs.claim("pairs", Sum(iverson(x[i] >= x[j]), i, j), Sum(iverson(x[i] > x[j]), i, j)),
        pairs.claim("named", Sum(iverson(pairs["difference"][i, j] >= 0), i, j), n * (n - 1) / 2),
        own.claim("own", Sum(iverson(z[row, c] >= target), c), Sum(iverson(z[row, c] > target), c)),
    ]


@pytest.mark.parametrize("claim", always_tied(), ids=lambda claim: claim.id)
def test_ties_that_are_always_there(claim: Claim) -> None:
    assert prove(claim).status != PROVED


def test_false_away_from_ties_as_well() -> None:
    program = gradient_of("plain", x[i], [i])
    dx, up = program["dx"], program["dL"]
    assert prove(program.claim("right", dx[i], up * iverson(x[i] >= 0))).status == PROVED
    wrong = prove(program.claim("wrong", dx[i], up * iverson(x[i] >= 1)))
    assert wrong.status == REFUTED
    assert wrong.counterexample is not None


def test_ties_are_left_out_for_all_indices() -> None:
    """The comparison's own index stands for every position, not for the claim's i."""
    program = gradient_of("plain", x[i], [i])
    claim = program.claim("c", program["dx"][i], program["dL"] * iverson(x[i] >= 0))
    assert len(comparisons_of(claim)) == 1
    (apart,) = off_ties(claim).given
    assert isinstance(apart, Ne)
    assert i not in apart.free_symbols


def test_ties_count_where_nothing_is_differentiated() -> None:
    program = Program("values", inputs=[x])
    program.define("r", [i], relu(x[i]))
    assert prove(program.claim("c", iverson(x[i] >= 0), iverson(x[i] > 0))).status != PROVED


def forward_values() -> list[Claim]:
    """False at ties only, and about no derivative, though the program has some."""
    w = tensor("w", n)
    program = Program("rectified", inputs=[x, w])
    loss = program.define("L", [], Sum(relu(x[i] - w[i]), i))
    case = program.define("case", [i], iverson(x[i] >= w[i]))
    made = program.gradient(loss)
    return [
        made.claim("case", case[i], iverson(x[i] > w[i])),
        made.claim("loss", loss, Sum(relu(x[i] - w[i]), i) + Sum(iverson(Eq(x[i], w[i])), i)),
    ]


@pytest.mark.parametrize("claim", forward_values(), ids=lambda claim: claim.id)
def test_ties_count_where_no_derivative_is_concerned(claim: Claim) -> None:
    assert prove(claim).status == REFUTED


def test_a_derivative_without_a_name_may_stand_anywhere() -> None:
    made = gradient_of("slopes", x[i], [i])
    assert prove(made.claim("slope", made.derivative(relu(x[i]), x[i]), iverson(x[i] > 0))).status == PROVED


def test_a_comparison_that_never_switches_is_no_tie() -> None:
    """With its definition written in, relu(x) >= 0 is true: it says nothing about x, and is no comparison any more."""
    program = Program("magnitudes", inputs=[x])
    rectified = program.define("rectified", [i], relu(x[i]))
    made = program.gradient(program.define("L", [], Sum(Abs(rectified[i]), i)))
    right = made.claim("right", made["dx"][i], made["dL"] * iverson(x[i] > 0))
    wrong = made.claim("wrong", made["dx"][i], made["dL"] * sign(x[i]))
    assert prove(right).status == PROVED
    assert prove(wrong, seconds=2.0).status != PROVED


def greater_of_two(given: list[Any], sign_: int = 1) -> Claim:
    """The derivative of max(x[i], x[j]), which has a tie at i = j whatever x is."""
    program = Program("greater")
    slope = program.derivative(Max(x[i], x[j]), x[k])
    by_hand = delta(i, k) * iverson(x[i] > x[j]) + sign_ * delta(j, k) * iverson(x[j] > x[i])
    return program.claim("c", slope, by_hand, given=given)


def test_a_tie_that_a_hypothesis_on_indices_excludes_refutes_nothing() -> None:
    """Where i != j, x[i] = x[j] is an accident, and does not count; at i = j the claim is false."""
    assert prove(greater_of_two([Ne(i, j)])).status != REFUTED
    assert prove(greater_of_two([])).status == REFUTED
    wrong = prove(greater_of_two([Ne(i, j)], -1)).counterexample
    assert wrong is not None
    assert len(set(wrong.inputs["x"])) == len(wrong.inputs["x"])


def test_where_two_entries_are_one() -> None:
    claim = greater_of_two([])
    apart, met = off_ties(claim).given[-1], off_ties(claim, everywhere=False).given[-1]
    assert isinstance(apart, Ne)
    assert isinstance(met, Or)
    assert apart in met.args
    assert len(met.args) == 2

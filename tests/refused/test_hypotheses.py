"""Hypotheses that nothing meets prove nothing, and a statement without a value says nothing.

A contradiction implies everything. Where the normal form sees it, or where numbers never meet the hypotheses, the claim
is undecided and the reason says so. What can be met is met: a conjunction of inequalities, a sphere, an orthogonal
matrix; a true claim under it stays proved.
"""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Abs, Eq, Max, Ne, Not, Rational, exp, log, sign, sqrt, tanh

from derive.binders import free_indices
from derive.functions import mean, softmax, variance
from derive.language import Sum, delta, dims, flag, indices, iverson, scalar, scalars, tensor, tensors, where
from derive.program import Program
from derive.prove import PROVED, REFUTED, UNDECIDED, prove
from derive.rules.cases import Case, Cases
from derive.statements import Claim

T, d = dims("T d")
i, j, k = indices("i j k", T)
x, y = tensors("x y", T)
P = tensor("P", T, positive=True)
X = tensor("X", T, T)
s, r, u = scalars("s r u")
p = scalar("p", positive=True)
F = flag("F")


def claimed(left: Any, right: Any, **options: Any) -> Claim:
    return Program("hypotheses").claim("c", left, right, **options)


CONTRADICTIONS = {
    "signs": (x[i] > 0, x[i] < 0),
    "positions": (i < j, j < i),
    "a position past the end": (i >= T,),
    "a flag": (F, Not(F)),
    "two values": (Eq(s, r), Eq(s, r + 1)),
    "two values of a sum": (Eq(Sum(x[j], j), 1), Eq(Sum(x[j], j), 2)),
    "two values of every entry": (Eq(x[k], 1), Eq(x[k], 2)),
    "a chain of inequalities": (s > r, r > u, u > s),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_proves_nothing(name: str) -> None:
    verdict = prove(claimed(x[i] + r, y[i] + s, given=CONTRADICTIONS[name], over=[i, j]), seconds=0.5)
    assert verdict.status == UNDECIDED
    assert verdict.reason


@pytest.mark.parametrize("name", ["signs", "positions", "a flag", "two values"])
def test_what_a_contradiction_would_prove_says_why_it_is_not(name: str) -> None:
    reason = prove(claimed(x[i] + r, x[i] + s, given=CONTRADICTIONS[name], over=[i, j]), seconds=0.5).reason
    assert "exclude each other" in reason or "contradict" in reason


WITHOUT_A_VALUE = {
    "the log of a negative number": (log(-exp(s)), log(-exp(s)) * 1),
    "the root of a negative number": (sqrt(-1 - s**2), sqrt(-1 - s**2) + 0 * r),
    "the root of a negative sum": (sqrt(-p - Sum(P[i], i)), s),
    "a quotient by nothing": (1 / (Sum(x[i], i) - Sum(x[j], j)), r),
}


@pytest.mark.parametrize("name", WITHOUT_A_VALUE)
def test_a_statement_without_a_value_is_not_proved(name: str) -> None:
    assert prove(claimed(*WITHOUT_A_VALUE[name]), seconds=0.5).status == UNDECIDED


def test_a_definition_without_a_value_is_not_proved() -> None:
    program = Program("hypotheses")
    nothing = program.define("nothing", [], Sum(x[i] - mean(x[j], over=j), i))
    below = program.define("below", [], -exp(s))
    for left, right in ((Sum(delta(i, 0) * nothing, i) / nothing, 1), (sqrt(below) * r * r, r**2 * sqrt(below))):
        verdict = prove(program.claim("c", left, right), seconds=0.5)
        assert verdict.status == UNDECIDED
        assert "no point was found" in verdict.reason


# ---------------------------------------------------------------------------------------------------------------------
# What can be met is met.

MET = {
    "a sphere": (Eq(Sum(x[j] ** 2, j), 1),),
    "a sum of exponentials": (Eq(Sum(exp(x[j]), j), 5),),
    "an orthogonal matrix": (Eq(Sum(X[i, k] * X[j, k], k), delta(i, j)),),
    "a root": (Eq(sqrt(s), r),),
    "a hyperbolic tangent": (Eq(tanh(s), r),),
    "probabilities that are a softmax": (Eq(softmax(x[j], over=j), P[j]),),
    "a mean and a variance": (Eq(mean(x[j], over=j), 0), Eq(variance(x[j], over=j), 1)),
    "a large number": (s > 50,),
    "a product of negative numbers": (s * r > 1, s < 0),
    "equal sizes": (Eq(T, d), T > 1),
}


@pytest.mark.parametrize("name", MET)
def test_what_can_be_met_does_not_hold_up_a_proof(name: str) -> None:
    left = s + r + x[0] + P[0] + Sum(X[i, j], i, j) + d
    assert prove(claimed(left * 2, left + left, given=MET[name])).status == PROVED


@pytest.mark.parametrize("name", MET)
def test_what_can_be_met_does_not_prove_what_is_false(name: str) -> None:
    left = s + r + x[0] + P[0] + Sum(X[i, j], i, j) + d
    assert prove(claimed(left * 2, left + 1, given=MET[name])).status == REFUTED


def test_a_case_that_the_hypotheses_exclude_is_no_obstacle() -> None:
    rule = Cases((Case(i < j), Case(i >= j)))
    assert prove(claimed(Max(i, j) + 0 * i, j, given=[i < j], over=[i, j], by=rule)).status == PROVED
    both = claimed(x[i], y[i], given=[i < j, j < i], over=[i, j], by=rule)
    assert prove(both, seconds=0.5).status == UNDECIDED


# ---------------------------------------------------------------------------------------------------------------------
# Conditions in one branch are conditions there only, and nothing is divided by outside of it.


@pytest.mark.parametrize(
    ("left", "right", "conditions"),
    [
        (where(s > 0, log(s), s) + r, r + where(s > 0, log(s), s), ()),
        (where(Ne(s, 0), 1 / s, 0) * 2, where(Ne(s, 0), 2 / s, 0), ()),
        (where(s > 0, 1 / r, 0) * 2, where(s > 0, 2 / r, 0), ("r != 0 where s > 0",)),
        (where(F, 1 / r, s), where(Not(F), s, 1 / r), ("r != 0 where F",)),
        (where(s > 0, sqrt(s) * sqrt(s), 1), where(s > 0, s, 1), ()),
        (Sum(where(x[i] > 0, 1 / x[i], 0), i) * s, Sum(where(x[j] > 0, s / x[j], 0), j), ()),
        (log(where(s > r, s - r, 1)) * 2, 2 * where(s > r, log(s - r), 0), ()),
    ],
    ids=str,
)
def test_a_condition_of_a_branch(left: Any, right: Any, conditions: tuple[str, ...]) -> None:
    verdict = prove(claimed(left, right))
    assert verdict.status == PROVED
    assert verdict.conditions == conditions


total = Sum(x[i], i)


@pytest.mark.parametrize(
    ("left", "right", "needed"),
    [
        (where(Ne(r, 0), 1 / r, 7) * r, 1, "r != 0"),
        (where(Ne(s + r, 0), 1 / (s + r), 7) * (s + r), 1, "r + s != 0"),
        (
            where(Ne(s + r, 0), (r - u) / ((s + r) * (s + u)), 0) + iverson(Eq(s + r, 0)),
            where(Ne(s + r, 0), 1 / (s + u) - 1 / (s + r), 0),
            "r + s != 0",
        ),
        (
            where(total > 0, 1 / sqrt(total), 0) + iverson(Eq(total, 0)),
            where(total > 0, sqrt(total) / Sum(x[j], j), 0),
            "Sum(x[i], (i, 0, T - 1)) != 0",
        ),
    ],
    ids=["a quotient", "a quotient of sums", "a common denominator", "a root"],
)
def test_what_fails_where_a_branch_excludes_a_zero(left: Any, right: Any, needed: str) -> None:
    verdict = prove(claimed(left, right))
    assert verdict.status != PROVED or needed in verdict.conditions


apart = where(Ne(i, j), 1 / (x[i] - x[j]), 0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (exp(where(s > 0, apart, 0)), exp(where(s > 0, 2 * apart, 0))),
        (exp(apart), exp(where(Ne(i, j), 1 / (x[i] - x[j]), 5))),
        (apart * (x[i] - x[j]), 1 + 0 * x[i] * x[j]),
        (
            exp(where(Eq(k, j), apart, 0) + delta(i, j) * s),
            exp(where(Eq(k, j), apart, 0) + 2 * delta(i, j) * s),
        ),
        (exp(where(s > 0, Max(P[i] / i, 0), 0)), exp(where(s > 0, Max(2 * P[i] / i, 0), 0))),
        (Sum(where(F, apart, 0), j), Sum(where(F, 2 * apart, 0), j)),
    ],
    ids=str,
)
def test_what_has_no_value_where_indices_meet_is_not_taken_for_equal(left: Any, right: Any) -> None:
    """Where i = j the quotient has no value, the brackets beside it may exclude that, and nothing may be lost then."""
    over = [index for index in (i, j, k) if index in free_indices(left)]
    assert prove(claimed(left, right, over=over)).status != PROVED


def test_a_power_of_a_number_of_any_sign() -> None:
    """Without a sign, s^T obeys the laws of powers, and is not positive."""
    assert prove(claimed((s * r) ** T, s**T * r**T)).conditions == ()
    for left, right in ((sqrt(Sum(delta(i, 0) * s ** (2 * T), i)), s**T), (Abs(s) ** T, s**T), (iverson(s**T > 0), 1)):
        assert prove(claimed(left, right)).status == REFUTED


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (iverson(s > r) ** (T / 2), iverson(s > r) ** (-i)),
        (sign(delta(0, i) ** i), 1),
        (iverson(F) ** i, iverson(F)),
    ],
    ids=str,
)
def test_a_power_of_zero(left: Any, right: Any) -> None:
    """0^0 is 1, and a power of 0 whose exponent may be negative is not taken for another one."""
    assert prove(claimed(left, right)).status == REFUTED
    assert prove(claimed(iverson(F) ** T * s, iverson(F) * s)).status == PROVED


def test_a_root_is_not_positive_where_it_may_vanish() -> None:
    assert prove(claimed(iverson(sqrt(T - 1) > 0), 1)).status == REFUTED
    assert prove(claimed(iverson(sqrt(s + r) > 0), 1)).status != PROVED


# ---------------------------------------------------------------------------------------------------------------------
# A negative number has a power where the exponent is an integer: x > 0 would be more than a value on both sides.

BY_SIZE = {
    "half a size": (sign((2 * x[0]) ** (T / 2)), 1),
    "a third of a size": (sign(x[0] ** (T / 3)), 1),
    "half an index": (sign(s ** (i / 2)), 1),
    "one over a size": (sign(s ** (1 / T)), 1),
    "a number that an index switches off": (x[0] ** (s * i) * sign(x[0]), x[0] ** (s * i)),
    "two entries that may be one": (s ** (x[i] - x[j]), s ** x[i] / s ** x[j]),
    "a negative base": ((-p) ** s * sign(s), (-p) ** s),
}


@pytest.mark.parametrize("name", BY_SIZE)
def test_a_power_that_has_a_value_for_some_sizes_is_refused(name: str) -> None:
    left, right = BY_SIZE[name]
    verdict = prove(claimed(left, right, over=sorted(free_indices(left), key=str)), seconds=2.0)
    assert verdict.status != PROVED
    assert verdict.status == REFUTED or "is negative, its power" in verdict.reason


@pytest.mark.parametrize(
    ("left", "right", "given"),
    [
        (sign(p ** (T / 2)), 1, ()),
        (sign((1 + s**2) ** (T / 2)), 1, ()),
        (sign(x[0] ** (T / 2)), 1, (x[0] > 0,)),
        (sign((s - r) ** (i / 3)), 1, (s > r,)),
        (where(s > 0, sign(s ** (T / 2)), 1), 1, ()),
    ],
    ids=str,
)
def test_a_power_of_what_is_positive_needs_no_condition(left: Any, right: Any, given: Any) -> None:
    verdict = prove(claimed(left, right, given=given, over=[i] if i in free_indices(left) else []))
    assert (verdict.status, verdict.conditions) == (PROVED, ())


@pytest.mark.parametrize(
    ("left", "right", "conditions"),
    [
        (sign(x[0] ** s), 1, ("x[0] > 0",)),
        (s ** (T * r) * s**T, s ** (T * r + T), ("s > 0",)),
        ((p * s) ** r, p**r * s**r, ("s > 0",)),
        (x[0] ** (T + Rational(1, 2)), x[0] ** T * sqrt(x[0]), ("x[0] >= 0",)),
    ],
    ids=str,
)
def test_a_real_exponent_asks_for_a_positive_base(left: Any, right: Any, conditions: tuple[str, ...]) -> None:
    """A declared number is an integer at isolated values only; that the base is positive is said."""
    verdict = prove(claimed(left, right))
    assert (verdict.status, verdict.conditions) == (PROVED, conditions)


def test_a_condition_that_asks_for_more_than_values_does_not_hide_a_counterexample() -> None:
    assert prove(claimed(sign(i ** (2 * (j - k))), 1)).status == REFUTED  # i = 0 and j > k


# ---------------------------------------------------------------------------------------------------------------------
# Equations that leave nothing but zeros: an iteration ends near them, and what is nearly 0 has no digit that is known.


@pytest.mark.parametrize(
    ("side", "given"),
    [
        (s * r, (Eq(s + r, 0), Eq(s - r, 0))),
        (s + r, (Eq(s + r, 0), Eq(s - r, 0))),
        (s**2 - r**2, (Eq(s + r, 0), Eq(2 * s + r, 0))),
        (s * r, (Eq(s * r, 0), Eq(s + r, 1))),
        (x[i] * y[i], (Eq(x[i], 2 * y[i]), Eq(x[i], 3 * y[i]))),
        (Sum(x[i], i) ** 2, (Eq(Sum(x[k], k), 0), Eq(x[k], s))),
        (Sum(X[i, j] * x[i] * x[j], i, j), (Eq(X[i, j], -X[j, i]), Eq(Sum(X[i, j], j), 0))),
        # An equation says something of all entries, also where the claim is about one of them.
        (s * x[i], (Eq(x[i], s * y[i]), Eq(Sum(y[i], i), 1), Eq(Sum(x[i], i), 0))),
        (X[i, j], (Eq(X[i, j], 2 * X[j, i]),)),
    ],
)
def test_what_follows_from_equations_is_not_refuted(side: Any, given: tuple[Any, ...]) -> None:
    assert prove(claimed(side, 0, given=given), seconds=1.0).status != REFUTED


def test_what_is_nearly_zero_does_not_pass_as_positive() -> None:
    claim = claimed(Sum(P[i] * s, i), Sum(2 * x[i] * s, i), given=(Eq(P[i], 2 * x[i]), Eq(P[i], 3 * x[i])))
    assert prove(claim, seconds=1.0).status == UNDECIDED

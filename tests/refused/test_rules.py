"""No rule proves what its side conditions do not cover: each refuses by name, and what is false is never proved."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Abs, Eq, Ne, Or, Rational, atan, exp, log, sqrt

from derive.errors import StatementError
from derive.functions import argmax, argmin, relu, softmax
from derive.language import (
    Product,
    Sum,
    delta,
    dims,
    index,
    indices,
    iverson,
    lengths,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.operators import expectation, first_order, limit, variance_over
from derive.program import Program
from derive.prove import PROVED, REFUTED, UNDECIDED, prove
from derive.rules import RuleRefusedError
from derive.rules.cases import Case, Cases
from derive.rules.chain import Chain
from derive.rules.expansion import TaylorExpansion
from derive.rules.expectation import Moments
from derive.rules.gibbs import Gibbs, GibbsEquality, divergence
from derive.rules.induction import Induction
from derive.rules.lemma import Lemmas
from derive.rules.limits import Decay, LimitOfDecays
from derive.rules.monotone import StrictlyMonotone
from derive.rules.order import Absolute, Bound, Combination
from derive.rules.squares import Squares
from derive.statements import Claim

V, Theta, n, d = dims("V Theta n d")
v = index("v", V)
theta, theta_1 = indices("theta theta_1", Theta)
k, m = indices("k m", n)
j = index("j", n + 1)
a, b = indices("a b", d)
P, Q = tensors("P Q", V, positive=True)
R = tensor("R", V)
f = tensor("f", Theta)
q, K = tensors("q K", d)
x, y = scalars("x y")
eta, u = scalars("eta u")
w, g, h = scalars("w g h", positive=True)


def refuses(claim: Claim, message: str) -> None:
    """The claim's rule refuses, with a message that names the side condition; the claim is not proved."""
    assert claim.by is not None
    with pytest.raises(RuleRefusedError, match=message):
        claim.by.obligations(claim)
    verdict = prove(claim)
    assert verdict.status != PROVED
    assert verdict.status == REFUTED or claim.by.name in verdict.reason


def not_proved(claim: Claim, status: str = REFUTED, part: str = "") -> None:
    verdict = prove(claim)
    assert verdict.status == status, f"{claim}: {verdict.status}: {verdict.reason}"
    assert (verdict.counterexample is not None) == (status == REFUTED)
    assert part in verdict.reason


# -- Gibbs -------------------------------------------------------------------------------------------------------------

ONE_P, ONE_Q = Eq(Sum(P[v], v), 1), Eq(Sum(Q[v], v), 1)
KL = divergence(P[v], Q[v], v)


def test_gibbs_refuses_a_probability_that_may_be_zero() -> None:
    given = [ONE_P, Eq(Sum(R[v], v), 1)]
    claim = Program("g").claim_that("g", divergence(P[v], R[v], v) >= 0, given=given, by=Gibbs(P[v], R[v], v))
    refuses(claim, r"q: R\[v\] is not known to be positive")


@pytest.mark.parametrize("given", [[], [ONE_P], [ONE_Q]], ids=str)
def test_gibbs_needs_both_to_sum_to_one(given: list[Any]) -> None:
    claim = Program("g").claim_that("g", KL >= 0, given=given, by=Gibbs(P[v], Q[v], v))
    assert prove(claim).status == REFUTED
    part = "Q[v] sums to 1" if ONE_P in given else "P[v] sums to 1"
    equality = Program("g").claim(
        "g", iverson(Eq(KL, 0)), Product(iverson(Eq(P[v], Q[v])), v), given=given, by=GibbsEquality(P[v], Q[v], v)
    )
    not_proved(equality, UNDECIDED, part)


def test_gibbs_is_not_strict_and_not_reversed() -> None:
    given = [ONE_P, ONE_Q]
    refuses(Program("g").claim_that("g", KL > 0, given=given, by=Gibbs(P[v], Q[v], v)), "strict")
    not_proved(Program("g").claim_that("g", KL <= 0, given=given, by=Gibbs(P[v], Q[v], v)))
    not_proved(Program("g").claim_that("g", h <= KL, given=given, by=Gibbs(P[v], Q[v], v)))


def test_smaller_cross_entropy_is_closer_for_fixed_p_only() -> None:
    """Across two P, the order of cross entropies is not the order of divergences: C7 needs its hypothesis."""
    p_, q_ = tensor("P", Theta, V, positive=True), tensor("Q", Theta, V, positive=True)
    cross = -Sum(p_[theta, v] * log(q_[theta, v]), v)
    kl = divergence(p_[theta, v], q_[theta, v], v)
    not_proved(Program("g").claim("g", argmin(cross, over=theta, among=theta_1), argmin(kl, over=theta, among=theta_1)))


# -- order -------------------------------------------------------------------------------------------------------------


def test_squares_refuse_a_form_of_unknown_sign() -> None:
    refuses(Program("s").claim_that("s", x**3 >= x, by=Squares(x**3 - x)), "not known to be at least 0")
    refuses(Program("s").claim_that("s", x**2 + y**2 > 2 * x * y, by=Squares((x - y) ** 2)), "not known to be positive")
    refuses(Program("s").claim("s", x, y, by=Squares(x**2)), "a claim that a condition holds")
    refuses(Program("s").claim_that("s", Ne(x, y), by=Squares(x**2)), "expected a comparison")


def test_squares_need_the_right_form() -> None:
    not_proved(Program("s").claim_that("s", x**2 + y**2 >= 3 * x * y, by=Squares((x - y) ** 2)))


@pytest.mark.parametrize("form", [exp(Sum(delta(k, 0) * log(x), k)), Sum(delta(k, 0) * sqrt(x), k) ** 2], ids=str)
def test_a_form_shows_nothing_where_it_has_no_value(form: Any) -> None:
    """x = exp(log x) is at least 0 where log x has a value, and nowhere else."""
    not_proved(Program("s").claim_that("s", x >= 0, by=Squares(form)))


def test_combination_refuses_what_is_not_given_and_weights_of_unknown_sign() -> None:
    known = x <= y
    free = Program("c").claim_that("c", 2 * x <= 2 * y, by=Combination((Bound(known, 2),)))
    refuses(free, "not among the hypotheses")
    negative = Program("c").claim_that("c", y <= x, given=[known], by=Combination((Bound(known, -1),)))
    refuses(negative, "the weight of x <= y: -1 is not known to be at least 0")
    strict = Program("c").claim_that("c", 2 * x < 2 * y, given=[known], by=Combination((Bound(known, 2),)))
    refuses(strict, "the rest: 0 is not known to be positive")


@pytest.mark.parametrize("bound", [h / 4, h / 8])
def test_bound_that_is_too_small(bound: Any) -> None:
    """The certificate gives h / 2; with less it does not fit, and numbers refute."""
    given = [Abs(x) <= h / 2, Abs(x - y) <= h / 2]
    above, below = (
        Combination((Bound(given[0], Rational(1, 2), sign), Bound(given[1], Rational(1, 2), sign))) for sign in (1, -1)
    )
    program = Program("a")
    claim = program.claim_that("a", Abs(x - y / 2) <= bound, given=given, by=Absolute(above, below))
    not_proved(claim)
    refuses(program.claim_that("b", x <= h, given=given, by=Absolute(above, below)), r"\|e\| <= b")


# -- logic -------------------------------------------------------------------------------------------------------------


def test_cases_must_be_exhaustive() -> None:
    program = Program("c")
    not_proved(program.claim("c", relu(x), x, by=Cases((Case(x >= 0),))), REFUTED)
    claim = program.claim("d", iverson(m <= k), 1, by=Cases((Case(m <= k),)))
    not_proved(claim, REFUTED)
    refuses(program.claim("e", relu(x), x, by=Cases(())), "at least one case")


def test_cases_must_each_hold_and_their_facts_follow() -> None:
    program = Program("c")
    not_proved(program.claim("c", relu(x), 2 * x, by=Cases((Case(x >= 0), Case(x < 0)))))
    wrong = Case(j <= m, ((x > 0, Squares(x**2 + 1)),))
    not_proved(program.claim("d", relu(x) * iverson(j <= m), x * iverson(j <= m), by=Cases((wrong, Case(j >= m + 1)))))


def test_cases_refuse_an_equality_between_values() -> None:
    """As a hypothesis it would hold for every k, where the case says so of one k only."""
    z = tensor("z", n)
    cases = Cases((Case(Eq(z[k], 0)), Case(Ne(z[k], 0))))
    refuses(Program("c").claim("c", z[k] * Sum(z[m], m), z[k] ** 2, by=cases), "equality between values")


def test_lemma_must_be_true() -> None:
    program, z = Program("l"), tensor("z", n)
    flat = program.define("flat", [k], z[k] ** 2)
    wrong = program.claim("wrong", flat[k], z[k])
    not_proved(program.claim("c", Sum(flat[k], k), Sum(z[k], k), by=Lemmas((wrong,))))


def test_lemma_that_holds_at_single_indices_is_refused() -> None:
    program, z = Program("l"), tensor("z", n)
    flat = program.define("flat", [k], z[k] * iverson(k > 0))
    there = program.claim("there", flat[k], z[k], given=[k > 0])
    refuses(
        program.claim("c", Sum(flat[k], k), Sum(z[k], k), given=[k > 0], over=[k], by=Lemmas((there,))), "only where"
    )


def test_lemma_under_a_hypothesis_that_the_claim_does_not_have_is_refused() -> None:
    program, z = Program("l"), tensor("z", n)
    flat = program.define("flat", [k], z[k] ** 2)
    ones = [Eq(z[k], 1)]
    lemma = program.claim("ones", flat[k], z[k], given=ones)
    refuses(program.claim("c", Sum(flat[k], k), Sum(z[k], k), by=Lemmas((lemma,))), "assumes")
    assert prove(program.claim("c", Sum(flat[k], k), Sum(z[k], k), given=ones, by=Lemmas((lemma,)))).status == PROVED


def test_lemma_of_another_program_or_outside_its_range_is_refused() -> None:
    one, other, z = Program("one"), Program("other"), tensor("z", n + 1)
    lemma = one.claim("l", z[j], z[0], over=[j])
    refuses(other.claim("c", z[j], z[0], over=[j], by=Lemmas((lemma,))), "about one")
    cell = one.claim("cell", z[k], z[k + 1])
    refuses(one.claim("c", z[n], z[0], by=Lemmas((cell,), ((k, n),))), "may lie outside the range")


def test_induction_refuses_another_range_a_bound_index_and_a_restricted_one() -> None:
    program, z = Program("i"), tensor("z", n + 1)
    rise = Sum(iverson(k < j) * (z[k + 1] - z[k]), k)
    refuses(program.claim("i", z[k], z[0], over=[k], by=Induction(k)), "a size plus one")
    refuses(program.claim("i", z[0], z[n], by=Induction(j)), "not free")
    refuses(program.claim("i", rise, z[j], given=[j > 0], by=Induction(j)), "restricts the index")


def test_induction_takes_no_name_that_stands_for_something_else() -> None:
    """The position before j is called j_1, unless a number is."""
    program, number = Program("i"), scalar("j_1")
    not_proved(program.claim("i", j * number, j * (j - 1) / 2, by=Induction(j)))
    hidden = program.define("hidden", [], number * 1)
    not_proved(program.claim("h", j * hidden, j * (j - 1) / 2, by=Induction(j)))


def test_induction_needs_the_start_and_the_step() -> None:
    program, z = Program("i"), tensor("z", n + 1)
    rise = Sum(iverson(k < j) * (z[k + 1] - z[k]), k)
    not_proved(program.claim("i", rise, z[j], by=Induction(j)))
    not_proved(program.claim("i", 2 * rise, z[j] - z[0], by=Induction(j)))


def test_induction_takes_no_step_over_a_position_that_a_condition_leaves_out() -> None:
    """The sides differ beyond position 50, where the left one has no value and no step is proved."""
    program = Program("i")
    left, right = 1 / (1 / (j - 50) + x), (j - 50) / (1 + x * (j - 50))
    false = program.claim("i", left + iverson(j > 50), right, by=Induction(j))
    assert prove(program.claim("e", left, right)).status == PROVED
    verdict = prove(false)
    assert verdict.status == UNDECIDED
    assert "at some positions only" in verdict.reason


def test_induction_tells_that_its_conditions_stand_for_all_positions() -> None:
    program, z = Program("i"), tensor("z", n + 1)
    falls = Sum(iverson(k < j) * (1 / z[k + 1] - 1 / z[k]), k)
    verdict = prove(program.claim("i", falls, 1 / z[j] - 1 / z[0], by=Induction(j)))
    assert verdict.status == PROVED
    assert {"z[0] != 0", "z[j_1] != 0 for all j_1"} <= set(verdict.conditions)


def test_induction_needs_a_factor_that_has_a_value_and_leads_on() -> None:
    program, z, v = Program("i"), tensor("z", n + 1), tensor("v", n + 1)
    down, up = [Eq(z[k], x * z[k + 1])], [Eq(z[k + 1], x * z[k])]
    refuses(program.claim("i", z[j], z[0] * x ** (-j), given=down, by=Induction(j, 1 / x)), "may have no value")
    refuses(program.claim("i", z[j], z[0] * x**j, given=up, by=Induction(j, z[1])), "may have no value")
    refuses(program.claim("i", z[j], z[0] * x**j, given=up, by=Induction(j, x * k)), "has an index")
    not_proved(program.claim("i", z[j], z[0] * x ** (j + 1), given=up, by=Induction(j, x)))
    not_proved(program.claim("i", z[j], z[0] * y**j, given=up, by=Induction(j, x)))
    not_proved(program.claim("i", z[j], z[0] * x**j, by=Induction(j, x)))
    not_proved(program.claim("i", z[j], v[j], given=[Eq(z[0], v[0])], by=Induction(j, 0 * x)))


def test_chain_with_a_wrong_step_or_a_gap() -> None:
    program = Program("c")
    steps = tuple(program.steps("c", (x + y) ** 2, x**2 + x * y + y**2, x * (x + y) + y**2))
    not_proved(program.claim("whole", (x + y) ** 2, x * (x + y) + y**2, by=Chain(steps)))
    right = tuple(program.steps("d", (x + y) ** 2, x**2 + 2 * x * y + y**2))
    not_proved(program.claim("whole", (x + y) ** 2, x**2 + y**2, by=Chain(right)))
    refuses(program.claim("whole", x, y, by=Chain(())), "at least one step")
    ones = program.claim("e", x * y, y, given=[Eq(x, 1)])
    refuses(program.claim("whole", x * y, y, by=Chain((ones,))), "assumes")


# -- monotone maps -----------------------------------------------------------------------------------------------------


def maximisers(map_: Any, of: Any, values: Any, *, decreasing: bool = False, claimed: Any = argmax) -> Claim:
    image = claimed(map_.subs(of, values), over=theta, among=theta_1)
    rule = StrictlyMonotone(map_, of, values, theta, theta_1, decreasing)
    return Program("m").claim("m", image, argmax(values, over=theta, among=theta_1), by=rule)


@pytest.mark.parametrize(
    ("map_", "of", "message"),
    [
        (-u, u, "strictly increasing"),
        (exp(-u), u, "strictly increasing"),
        (u**2, u, "strictly increasing"),
        (u**3 - u, u, "strictly increasing"),
        (-1 / u, u, "u is not known to be positive"),
        (-atan(1 / u), u, "u is not known to be positive"),
        (log(u - 1), u, "not known to be positive"),
        (u - 2 * iverson(u > 0), u, "not known to be a smooth function"),
        (u + relu(u), u, "not known to be a smooth function"),
        (sqrt(u), u, "u is not known to be positive"),
        (f[theta] ** 2 * u + u, u, "one map for all"),
    ],
    ids=str,
)
def test_maps_that_are_not_increasing_everywhere(map_: Any, of: Any, message: str) -> None:
    refuses(maximisers(map_, of, f[theta]), message)


def test_map_on_positive_numbers_refuses_other_values() -> None:
    refuses(maximisers(log(w), w, f[theta]), r"f\[theta\] is not known to be positive")


def test_increasing_map_does_not_decrease_nor_turn_the_order() -> None:
    refuses(maximisers(h * u, u, f[theta], decreasing=True, claimed=argmin), "strictly decreasing")
    not_proved(maximisers(h * u, u, f[theta], claimed=argmin))


def test_a_name_that_depends_on_the_scalar_is_part_of_the_map() -> None:
    """u - 2 u is decreasing, whatever name 2 u has; u - 2 u with the first u replaced alone is not."""
    program = Program("m")
    twice = program.define("twice", [], 2 * u)
    rule = StrictlyMonotone(u - twice, u, f[theta], theta, theta_1, True)
    image = argmin(f[theta] - twice, over=theta, among=theta_1)
    claim = program.claim("m", image, argmax(f[theta], over=theta, among=theta_1), by=rule)
    not_proved(claim)
    right = argmin(f[theta] - 2 * f[theta], over=theta, among=theta_1)
    assert prove(program.claim("r", right, argmax(f[theta], over=theta, among=theta_1), by=rule)).status == PROVED


def test_derivative_of_a_map_on_integers_says_nothing() -> None:
    whole = scalar("whole", integer=True, positive=True)
    refuses(maximisers(2 * whole, whole, f[theta]), "is an integer")


# -- expectation -------------------------------------------------------------------------------------------------------

score = Sum(q[a] * K[a], a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (variance_over(score, over=[q, K]), d**2),
        (variance_over(score, over=[q, K]), 1),
        (variance_over(score / d, over=[q, K]), 1),
        (variance_over(score / sqrt(d), over=[q, K]), d),
        (expectation(score, over=[q, K]), d),
        (variance_over(score, over=[q]), d),  # the entries of K are no random ones here
        (expectation(q[a] * q[b], over=[q]), 1),
    ],
    ids=str,
)
def test_wrong_moments_are_refuted(left: Any, right: Any) -> None:
    not_proved(Program("e").claim("e", left, right, over=[a, b], by=Moments()))


def test_dependent_entries_are_refused() -> None:
    """k = q is as far from independent as can be; the product of four entries of q gives it away."""
    program = Program("e")
    k_ = program.define("k", [a], 1 * q[a])
    dependent = variance_over(Sum(q[a] * k_[a], a), over=[q])
    refuses(program.claim("e", dependent, d, by=Moments()), "moment of order 4 of q, or its factors are dependent")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (q[a] ** 3, "moment of order 3"),
        (Sum(q[a] ** 2, a) ** 2, "moment of order 4"),
        (exp(q[a]), "no polynomial"),
        (1 / (1 + q[a] ** 2), "no polynomial"),
        (relu(q[a]), "no polynomial"),
    ],
    ids=str,
)
def test_moments_beyond_the_variance_are_refused(body: Any, message: str) -> None:
    refuses(Program("e").claim("e", expectation(body, over=[q]), 0, over=[a], by=Moments()), message)


def test_conditions_on_what_an_operator_varies_are_refused() -> None:
    """They speak of one value; the operator of all."""
    mean_of_squares = expectation(q[a] * K[a], over=[q, K])
    claim = Program("e").claim("e", mean_of_squares, 1, given=[Eq(q[a], K[a])], over=[a], by=Moments())
    refuses(claim, "which the operator varies")
    decay = Decay(e, (r, l), gap=h, vanishes=0 * h)
    body = exp(-g * h) + where(g < 1, 0, 5)
    claim = Program("l").claim("l", limit(body, of=g), 0, given=[g < 1], by=LimitOfDecays(e[0, 0], (decay,)))
    refuses(claim, "the condition g < 1 is about g")
    named = Program("t")
    small = named.define("small", [], eta**2)
    claim = named.claim("t", first_order(eta + small, eta=eta), 0, given=[Eq(small, -eta)], by=TaylorExpansion())
    refuses(claim, "which the operator varies")


def test_a_claim_without_an_expectation_is_refused() -> None:
    refuses(Program("e").claim("e", x + y, x, by=Moments()), "a claim about an expectation")


def test_ill_formed_expectations() -> None:
    T = lengths("T", n)
    with pytest.raises(StatementError, match="at least one tensor"):
        expectation(x, over=[])
    with pytest.raises(StatementError, match="without a declared sign"):
        expectation(P[v], over=[P])
    with pytest.raises(StatementError, match="ragged"):
        expectation(x, over=[tensor("z", n, T)])
    with pytest.raises(StatementError, match="q is taken twice"):
        Program("e").claim("e", expectation(q[a] * expectation(q[b], over=[q]), over=[q]), 0, over=[a, b])


# -- limits ------------------------------------------------------------------------------------------------------------

B, M = dims("B M")
r = index("r", B)
i, l, o = indices("i l o", M)
s, e = tensors("s e", B, M)
top = tensor("top", B, into=M)
GAP = s[r, top[r]] - s[r, l]
UNIQUE = Or(Eq(l, top[r]), s[r, l] < s[r, top[r]])
DECAY = Decay(e, (r, l), gap=GAP, vanishes=delta(l, top[r]))
p = softmax(g * s[r, i], over=i)


def share(at: Any) -> Any:
    return e[r, at] / Sum(e[r, l], l)


def tends(body: Any, value: Any, form: Any, *decays: Decay, given: Any = (UNIQUE,)) -> Claim:
    rule = LimitOfDecays(form, decays or (DECAY,))
    return Program("l").claim("l", limit(body, of=g), value, given=given, over=[r, i, o], by=rule)


q_ = softmax(g * s[r, o], over=o)


@pytest.mark.parametrize(
    ("body", "value", "form"),
    [
        (p, 1 - delta(i, top[r]), share(i)),
        (p, 0, share(i)),
        (p * (delta(i, o) - q_), delta(i, o) * delta(i, top[r]), share(i) * (delta(i, o) - share(o))),
        (p, delta(i, top[r]), share(top[r])),
    ],
)
def test_wrong_limits_are_not_proved(body: Any, value: Any, form: Any) -> None:
    verdict = prove(tends(body, value, form))
    assert verdict.status != PROVED
    assert verdict.status == REFUTED or form == share(top[r])


def test_maximum_that_need_not_be_unique() -> None:
    """With a tie the limit is 1/2 at both, and the Jacobian does not vanish."""
    not_proved(tends(p, delta(i, top[r]), share(i), given=(s[r, l] <= s[r, top[r]],)), REFUTED)
    not_proved(tends(p, delta(i, top[r]), share(i), given=()), REFUTED)


def test_denominator_that_vanishes() -> None:
    claim = tends(p / (1 - q_), 0, share(i) / (1 - share(top[r])))
    refuses(claim, "tends to 0")
    refuses(tends(1 / p, 0, 1 / share(i)), "not known not to be 0")


def test_form_that_is_no_rational_combination() -> None:
    refuses(tends(log(p), 0, log(share(i))), "no rational combination")
    refuses(tends(sqrt(p), delta(i, top[r]), sqrt(share(i))), "no rational combination")


def test_growing_number_outside_the_body() -> None:
    refuses(tends(g * p, g * delta(i, top[r]), g * share(i)), "depends on g")
    program = Program("l")
    z = program.define("z", [r, i], g * s[r, i])
    hidden = LimitOfDecays(z[r, i] * share(i), (DECAY,))
    refuses(program.claim("l", limit(z[r, i] * p, of=g), 0, given=[UNIQUE], over=[r, i], by=hidden), "depends on g")


def test_condition_at_the_claims_own_index_does_not_hold_for_all() -> None:
    """Here l is an index of the claim, so that the condition says nothing about the other terms of the sum."""
    body = softmax(g * s[r, l], over=l)
    rule = LimitOfDecays(share(l), (DECAY,))
    claim = Program("l").claim("l", limit(body, of=g), delta(l, top[r]), given=[UNIQUE], by=rule)
    refuses(claim, "state the decay with an index that the claim does not have")


def test_claim_of_another_form() -> None:
    refuses(Program("l").claim("l", x + y, x, by=LimitOfDecays(x, ())), r"limit\(body\) = value")
    with pytest.raises(StatementError, match="positive=True"):
        limit(x, of=x)


# -- expansions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1 - eta, 1 + 2 * eta, 1 + eta + eta**2, 1], ids=str)
def test_wrong_expansions_are_refuted(value: Any) -> None:
    not_proved(Program("t").claim("t", first_order(exp(eta), eta=eta), value, by=TaylorExpansion()))


@pytest.mark.parametrize("body", [relu(eta), Abs(eta), sqrt(eta**2), eta * iverson(eta > 0)], ids=str)
def test_a_kink_has_no_expansion(body: Any) -> None:
    refuses(Program("t").claim("t", first_order(body, eta=eta), eta, by=TaylorExpansion()), "not known to be")


@pytest.mark.parametrize("body", [1 / eta, log(eta), (exp(eta) - 1) / eta], ids=str)
def test_a_body_without_a_value_at_zero_has_no_expansion(body: Any) -> None:
    refuses(Program("t").claim("t", first_order(body, eta=eta), 1, by=TaylorExpansion()), "no value, or no slope")


def test_an_operator_without_a_rule_is_undecided() -> None:
    not_proved(Program("t").claim("t", first_order(exp(eta), eta=eta), 1 + eta), UNDECIDED, "give the claim a rule")
    not_proved(Program("t").claim("t", first_order(exp(eta), eta=eta), 1 - eta))
    refuses(Program("t").claim("t", x + y, x, by=TaylorExpansion()), "first_order")
    with pytest.raises(StatementError, match="a real scalar"):
        first_order(x, eta=n)

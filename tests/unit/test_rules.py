"""Each inference rule proves what it should, and what it proves is also what the second engine sees."""

from __future__ import annotations

import pytest
from sympy import Abs, Eq, Or, Rational, atan, erf, exp, log, sqrt, tanh

from derive.functions import argmax, argmin, relu, sigmoid, softmax, softplus
from derive.language import Product, Sum, delta, dims, index, indices, iverson, scalar, scalars, tensor, tensors, where
from derive.operators import expectation, first_order, limit, variance_over
from derive.program import Program
from derive.prove import PROVED, Verdict, prove
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

RULES = [
    Absolute, Cases, Chain, Combination, Gibbs, GibbsEquality, Induction, Lemmas, LimitOfDecays, Moments, Squares,
    StrictlyMonotone, TaylorExpansion,
]  # fmt: skip

V, Theta, n, d = dims("V Theta n d")
v = index("v", V)
theta, theta_1 = indices("theta theta_1", Theta)
k, m = indices("k m", n)
j = index("j", n + 1)
a, b = indices("a b", d)
P, Q = tensors("P Q", V, positive=True)
f = tensor("f", Theta)
q, K = tensors("q K", d)
x, y = scalars("x y")
eta = scalar("eta")
h, alpha, beta = scalars("h alpha beta", positive=True)


def proved(claim: Claim) -> Verdict:
    verdict = prove(claim)
    assert verdict.status == PROVED, f"{claim}: {verdict.status}: {verdict.reason}"
    assert claim.by is None or claim.by.name in verdict.laws
    return verdict


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_states_what_it_is_trusted_for(rule: type) -> None:
    assert all(getattr(rule, part) for part in ("name", "statement", "source", "__doc__"))


def test_names_of_rules_are_distinct() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


# -- inequalities ------------------------------------------------------------------------------------------------------

DISTRIBUTIONS = [Eq(Sum(P[v], v), 1), Eq(Sum(Q[v], v), 1)]


def test_gibbs() -> None:
    program = Program("gibbs")
    verdict = proved(
        program.claim_that("kl", divergence(P[v], Q[v], v) >= 0, given=DISTRIBUTIONS, by=Gibbs(P[v], Q[v], v))
    )
    assert {"P > 0", "Q > 0", *map(str, DISTRIBUTIONS)} <= set(verdict.hypotheses)


def test_gibbs_needs_no_hypothesis_for_a_softmax() -> None:
    z = tensor("z", V)
    model = softmax(z[v], over=v)
    entropy, cross = -Sum(P[v] * log(P[v]), v), -Sum(P[v] * log(model), v)
    proved(Program("g").claim_that("h", cross >= entropy, given=DISTRIBUTIONS[:1], by=Gibbs(P[v], model, v)))


def test_equality_in_gibbs() -> None:
    left, right = iverson(Eq(divergence(P[v], Q[v], v), 0)), Product(iverson(Eq(P[v], Q[v])), v)
    for sides in ((left, right), (right, left)):
        proved(Program("g").claim("iff", *sides, given=DISTRIBUTIONS, by=GibbsEquality(P[v], Q[v], v)))


@pytest.mark.parametrize(
    ("condition", "form"),
    [
        (x**2 + y**2 >= 2 * x * y, (x - y) ** 2),
        (2 * x * y <= x**2 + y**2, (x - y) ** 2),
        (x**2 - 2 * x + 2 > 0, (x - 1) ** 2 + 1),
        (Sum(q[a] ** 2, a) + exp(x) > -1 - 2 * x - x**2, Sum(q[a] ** 2, a) + exp(x) + (1 + x) ** 2),
        (Sum(q[a] ** 2, a) * Sum(K[b] ** 2, b) >= Sum(q[a] * K[a], a) ** 2,  # Cauchy and Schwarz
         Sum((q[a] * K[b] - q[b] * K[a]) ** 2, a, b) / 2),
    ],
)  # fmt: skip
def test_squares(condition: object, form: object) -> None:
    proved(Program("s").claim_that("s", condition, by=Squares(form)))


def test_combination_of_hypotheses() -> None:
    z = scalar("z")
    given = [x <= y, y <= z]
    rule = Combination((Bound(given[0], 3), Bound(given[1], 2)))
    proved(Program("c").claim_that("c", 3 * x <= y + 2 * z, given=given, by=rule))


def test_triangle_inequality() -> None:
    z = scalar("z", positive=True)
    given = [Abs(x) <= z, Abs(y) <= 2 * z]
    above, below = (Combination(tuple(Bound(known, sign=sign) for known in given)) for sign in (1, -1))
    proved(Program("t").claim_that("t", Abs(x + y) <= 3 * z, given=given, by=Absolute(above, below)))


# -- logic -------------------------------------------------------------------------------------------------------------


def test_cases_turn_a_maximum_into_a_bracket() -> None:
    program = Program("cases")
    inside = h * (m - j) + h / 2
    right_of = Case(j <= m, ((inside > 0, Combination((Bound(j <= m, h),), h / 2)),))
    left_of = Case(j >= m + 1, ((inside < 0, Combination((Bound(j >= m + 1, h),), h / 2)),))
    verdict = proved(program.claim("c", relu(inside), iverson(j <= m) * inside, by=Cases((right_of, left_of))))
    assert set(verdict.hypotheses) == {"h > 0"}, "cases and facts are discharged, and so no hypotheses"


def test_lemma_is_used_under_a_sum_and_proved() -> None:
    program = Program("lemma")
    flat = program.define("flat", [k], y * exp(-x * k) * (1 + exp(x * k)) * sigmoid(x * k))
    lemma = program.claim("l", flat[k], y)
    verdict = proved(program.claim("s", Sum(flat[k], k), n * y, by=Lemmas((lemma,))))
    assert verdict.hypotheses == ()


def test_induction_telescopes() -> None:
    program, w = Program("induction"), tensor("w", n + 1)
    rise = program.claim("r", Sum(iverson(k < j) * (w[k + 1] - w[k]), k), w[j] - w[0], by=Induction(j))
    proved(rise)
    proved(program.claim("at", Sum(iverson(k < m) * (w[k + 1] - w[k]), k) + w[0], w[m], by=Lemmas((rise,), ((j, m),))))


def test_induction_on_recurrences() -> None:
    """A geometric sequence, a running average, and two sequences by one recurrence."""
    program, w, v, u = Program("induction"), *tensors("w v", n + 1), tensor("u", n)
    given = [Eq(w[k + 1], x * w[k])]
    proved(program.claim("g", w[j], w[0] * x**j, given=given, by=Induction(j, x)))
    given = [Eq(w[k + 1], x * w[k] + (1 - x) * u[k])]
    average = x**j * w[0] + (1 - x) * Sum(where(k < j, x ** (j - 1 - k) * u[k], 0), k)
    proved(program.claim("a", w[j], average, given=given, by=Induction(j, x)))
    given = [Eq(known[k + 1], x * known[k] + u[k]) for known in (w, v)]
    proved(program.claim("s", w[j], v[j], given=[*given, Eq(w[0], v[0])], by=Induction(j, x)))


def test_chain_of_equalities() -> None:
    program = Program("chain")
    steps = program.steps("c", (x + y) ** 2, x**2 + 2 * x * y + y**2, x * (x + 2 * y) + y**2)
    proved(program.claim("whole", (x + y) ** 2, x * (x + 2 * y) + y**2, by=Chain(tuple(steps))))


# -- maxima ------------------------------------------------------------------------------------------------------------

u, w = scalar("u"), scalar("w", positive=True)


@pytest.mark.parametrize(
    ("map_", "of", "decreasing"),
    [
        (u**3 + u, u, False), (sigmoid(u), u, False), (softplus(u), u, False), (tanh(u), u, False), (erf(u), u, False),
        (atan(u), u, False), (h * u + 3, u, False), (log(w), w, False), (-1 / w, w, False), (w**2 + sqrt(w), w, False),
        (-u, u, True), (exp(-h * u), u, True), (1 / w, w, True), (-log(w), w, True),
    ],
)  # fmt: skip
def test_monotone_maps(map_: object, of: object, decreasing: bool) -> None:
    values = tensor("p", Theta, positive=True)[theta] if of == w else f[theta]
    image = (argmin if decreasing else argmax)(map_.subs(of, values), over=theta, among=theta_1)  # type: ignore[attr-defined]
    right = argmax(values, over=theta, among=theta_1)
    proved(Program("m").claim("m", image, right, by=StrictlyMonotone(map_, of, values, theta, theta_1, decreasing)))


# -- probability and limits --------------------------------------------------------------------------------------------

score = Sum(q[a] * K[a], a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (expectation(score, over=[q, K]), 0),
        (variance_over(score, over=[q, K]), d),
        (variance_over(score / sqrt(d), over=[q, K]), 1),
        (variance_over(score, over=[q]), Sum(K[a] ** 2, a)),
        (expectation((x + q[a]) ** 2, over=[q]), x**2 + 1),
        (expectation(Sum(q[a] ** 2, a), over=[q]), d),
        (expectation(q[a] * q[b] * K[a] * K[b], over=[q, K]), delta(a, b)),
        (2 * expectation(q[a] ** 2, over=[q]) + expectation(K[a], over=[K]), 2),
    ],
)
def test_moments(left: object, right: object) -> None:
    verdict = proved(Program("e").claim("e", left, right, over=[a, b], by=Moments()))
    assert any("independent" in text for text in verdict.hypotheses)


B, M = dims("B M")
r = index("r", B)
i, l, o = indices("i l o", M)
s, e = tensors("s e", B, M)
top = tensor("top", B, into=M)
g = scalar("g", positive=True)
UNIQUE = [Or(Eq(l, top[r]), s[r, l] < s[r, top[r]])]
DECAY = Decay(e, (r, l), gap=s[r, top[r]] - s[r, l], vanishes=delta(l, top[r]))


def share(at: object) -> object:
    return e[r, at] / Sum(e[r, l], l)


def test_softmax_tends_to_its_maximum() -> None:
    p = softmax(g * s[r, i], over=i)
    proved(
        Program("l").claim("l", limit(p, of=g), delta(i, top[r]), given=UNIQUE, by=LimitOfDecays(share(i), (DECAY,)))
    )


def test_jacobian_of_softmax_vanishes() -> None:
    program = Program("l")
    z = program.define("z", [r, i], g * s[r, i])
    p = program.define("p", [r, i], softmax(z[r, i], over=i))
    jacobian = program.derivative(p[r, i], z[r, o])
    rule = LimitOfDecays(share(i) * (delta(i, o) - share(o)), (DECAY,))
    proved(program.claim("l", limit(jacobian, of=g), 0, given=UNIQUE, by=rule))


@pytest.mark.parametrize(
    ("body", "expansion"),
    [
        (exp(eta), 1 + eta),
        ((x - eta * y) ** 2, x**2 - 2 * eta * x * y),
        (log(1 + eta**2), 0),
        (1 / (2 + eta), Rational(1, 2) - eta / 4),
        (Sum(exp(eta * q[a]), a), d + eta * Sum(q[a], a)),
    ],
)
def test_expansion(body: object, expansion: object) -> None:
    verdict = proved(Program("t").claim("t", first_order(body, eta=eta), expansion, by=TaylorExpansion()))
    assert "up to O(eta^2) as eta tends to 0" in verdict.hypotheses

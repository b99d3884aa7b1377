"""Every rewrite that the compiler makes for stability is an identity: each is decided by the prover."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from sympy import Max, Min, Rational, cosh, erf, exp, log, sinh, sqrt, tanh

from codegen.algebra.rewriting import Rewrite
from codegen.algebra.trace import claims_of
from codegen.lowering.exponentials import rows
from codegen.stability.centring import centred
from codegen.stability.comparisons import with_exponents_compared
from codegen.stability.functions import (
    ErfComplement,
    ExpAt,
    ExpLess1,
    Finite,
    Largest,
    Logistic,
    LogisticAt,
    LogisticSlope,
    LogisticSlopeAt,
    LogOf1Plus,
    LogOfChance,
    NormalCdf,
    ScaledCdf,
    Softplus,
    Weight,
    Whole,
)
from codegen.stability.rules import spelled_stable, stable
from codegen.stability.tails import identities
from codegen.stability.vanishing import selected
from codegen.stability.weights import divided, totals
from derive.binders import substitute, unshadowed
from derive.functions import Defined, log_softmax, logsumexp, sigmoid, silu, softmax, softplus, unfold
from derive.language import Sum, Where, dims, indices, iverson, scalar, tensor, where
from derive.library import load
from derive.program import Program
from derive.prove import PROVED, prove
from derive.statements import Definition

T = dims("T")[0]
i, j, k = indices("i j k", T)
x, y, z = tensor("x", T), tensor("y", T), tensor("z", T)
p, q = tensor("p", T, positive=True), tensor("q", T, positive=True)
u, w = scalar("u"), scalar("w")
b = scalar("b", positive=True)

BODIES = {
    "softmax spelled out": exp(x[i]) / Sum(exp(x[j]), j),
    "softmax": softmax(x[i], over=i),
    "log softmax": log_softmax(x[i], over=i),
    "log of softmax": log(softmax(x[i], over=i)),
    "masked softmax": softmax(x[i], over=i, where=i <= j),
    "tail beside another term": 1 + erf(u) + u,
    "tail of a logistic function beside another term": 1 - sigmoid(u) + u * x[i],
    "share of a sum beside a factor": Sum(exp(x[i] * u - y[i] * u + y[i]) * z[i], i) / Sum(exp(x[j] * u - y[j] * u), j),
    "difference of two shares": exp(x[i]) * (exp(y[i]) / Sum(exp(x[j] + y[j]), j) - 1 / Sum(exp(x[j]), j)),
    "quotient of sums of shares": Sum(exp(x[j] * z[i] - softplus(x[j])) * y[j] / Sum(exp(x[j] * z[k]), k), j)
    / Sum(exp(x[j] * z[i] - softplus(x[j])) / Sum(exp(x[j] * z[k]), k), j),
    "square of a sum of shares in a divisor": y[i] * Sum(exp(x[j] * z[i]) / Sum(exp(x[j] * z[k]), k), j) ** -2,
    "smaller of 0 and an exponential less 1": Min(0, b * (exp(x[i] / b) - 1)) * y[i],
    "smaller of a number and an exponential": Min(2, Rational(1, 2) + exp(x[i])) + Max(1, 3 - 2 * exp(y[i])),
    "condition on an exponential": iverson(-b * (2 * exp(x[i]) - 3) > 0) * exp(x[i]),
    "scaled sum": exp(u) * Sum(exp(x[j]) * y[j], j),
    "scaled sum with a fixed part": Sum(exp(x[j] + u) * y[j] * y[i], j),
    "scaled sum under a condition on numbers": Sum(iverson(u > 0) * exp(x[j]) * y[j], j),
    "masked scaled sum": exp(u) * Sum(iverson(j <= i) * exp(x[j]) * y[j], j),
    "quotient of scaled sums": Sum(exp(x[j]) * y[j], j) / Sum(exp(x[j]), j),
    "scaled sum over two indices": exp(u) * Sum(exp(x[i] * y[j]) * z[i], i, j),
    "sum of exponentials over two indices": 1 / Sum(exp(x[i] * y[j]), i, j),
    "exponential that a sum does not move": Sum(exp(u) * x[i] * y[i], i),
    "exponential beside a sum of exponentials": exp(x[i]) / (exp(u) + Sum(exp(y[j]), j)),
    "log of a sum of exponentials and a number": log(1 + Sum(exp(y[j]), j)),
    "share of one of two sums in a product": exp(x[i])
    * Sum(exp(y[j]), j)
    / (1 + Sum(exp(x[j]), j) * Sum(exp(y[j]), j)),
    "tangent by exponentials": (exp(x[i]) - exp(-x[i])) / (exp(x[i]) + exp(-x[i])),
    "sigmoid": sigmoid(u),
    "complement of a sigmoid": (2 - 2 * sigmoid(x[i])) * y[i],
    "log of the complement of a sigmoid": y[i] * log(1 - sigmoid(x[i])),
    "slope of the log of the complement of a sigmoid": exp(-x[i]) * sigmoid(x[i]) ** 2 / (1 - sigmoid(x[i])),
    "log of a hyperbolic cosine": log(cosh(x[i])),
    "slope of the log of a hyperbolic cosine": sinh(x[i]) * y[i] / cosh(x[i]),
    "powers of hyperbolic functions": sinh(x[i]) / cosh(x[i]) ** 3,
    "difference of two sigmoids": 2 * y[i] * (sigmoid(x[i]) - sigmoid(z[i])) - 3 * sigmoid(x[i]) + 3 * sigmoid(u) + w,
    "sigmoid of the negative": sigmoid(-u),
    "silu": silu(u),
    "softplus": softplus(u),
    "products of exponentials": exp(u) * exp(-w) * y[i] / exp(x[i]),
    "square of an exponential sum": Sum(exp(x[j]), j) ** -2,
    "log of a sum of exponentials": log(b * exp(x[i]) + exp(y[i]) / 2),
    "difference of exponentials in a divisor": y[i] / (exp(x[i]) - exp(z[i])),
    "log of a difference from 1": log(3 - 3 * exp(x[i])),
    "product of an exponential and a difference": exp(x[i]) * (1 - exp(z[i])) / (1 - exp(y[i])),
    "share of a sum of exponentials": exp(x[i]) / (b * exp(x[i]) + exp(y[i]) / 2),
    "exponential times such a share": exp(x[i]) * (z[i] / (b * exp(x[i]) + exp(y[i])) + u),
    "power of a product with an exponential": (p[i] * exp(x[i])) ** (1 / b - 1),
    "slope of a generalised mean": (Sum(exp(b * log(p[j])), j) / T) ** (1 / b - 1) * exp(b * log(p[i])) / p[i],
    "log of a complementary log-log": y[i] * log(3 - 3 * exp(-b * exp(x[i]))),
    "log of exponentials of rates": log(exp(exp(x[i]) - u) - exp(-u)),
    "slope of a complementary log-log": exp(x[i] - exp(x[i])) / (1 - exp(-exp(x[i]))),
    "weighted logarithm": z[i] * log(p[i]),
    "weighted difference of logarithms": Sum(z[j] * (log(p[j]) - 2 * log(q[j])), j),
    "x log x": p[i] * log(p[i]),
    "weighted log softmax": Sum(y[j] * substitute(log_softmax(x[i], over=i), {i: j}), j),
    "weighted difference from a logsumexp": z[i] * (logsumexp(x[j], over=j) - x[i]),
    "x times its exponential": exp(x[i]) * (x[i] - u),
    "square of a logarithm": z[i] * log(p[i]) ** 2,
    "weighted sum of logistic functions": Sum(sigmoid(x[j]) * y[j], j),
    "sum of logistic functions of differences": Sum(iverson(i <= j) * sigmoid(x[i] - x[j]), j),
    "product of logistic functions": sigmoid(u) * sigmoid(-u) * z[i],
    "slope of silu": sigmoid(u) + u * sigmoid(u) * sigmoid(-u),
    "power of a logistic function": sigmoid(-x[i]) ** 2,
    "lower tail": 1 + erf(u),
    "upper tail": 3 - 3 * erf(x[i]),
    "normal distribution": x[i] * (1 + erf(x[i] / sqrt(2))) / 2,
    "upper normal tail": (1 - erf((x[i] - u) / sqrt(2))) / 2,
    "one and a tangent": 1 + tanh(u),
    "tangents to one": (3 - 3 * tanh(x[i])) * y[i] + (1 - tanh(x[i]) ** 2) * z[i],
    "log of what a tangent leaves": y[i] * log(1 - tanh(x[i]) ** 2),
    "logs of a tangent beside one": log(1 + tanh(x[i])) - log(2 - 2 * tanh(x[i])),
    "slope of such a log": (1 - tanh(x[i]) ** 2) * (1 / (1 + tanh(x[i])) + 1 / (1 - tanh(x[i]))),
    "exponential less 1": y[i] * (3 * exp(x[i]) - 3) + exp(u) - 1,
    "log of 1 and more": log(1 + p[i] + y[i] ** 2),
    "difference beside its exponential": y[i] * (2 * exp(x[i] - z[i]) + 2 * z[i] - 2 * x[i] - 2) + u,
    "difference beside its tangent": x[i] / 2 - u * y[i] / 2 + z[i] + tanh(u * y[i] - x[i]),
    "square under exp": y[i] * exp(-(x[i] ** 2) / 2),
    "cubic under a logistic function": x[i] * sigmoid(x[i] + x[i] ** 3 / 10),
    "power beside a vanishing function": (1 + x[i] ** 2) * exp(-(x[i] ** 2)),
    "share times its logit": x[i] * substitute(softmax(x[i] / b, over=i), {}),
}


def polynomial(x: Any, *coefficients: Any) -> Any:
    """What ExpAt, LogisticAt and LogisticSlopeAt are taken of."""
    return sum(coefficient * x**power for power, coefficient in enumerate(coefficients))


def spelled(stable_body: Any) -> Any:
    """A stable body in the language of statements."""
    return (
        stable_body.replace(ExpAt, lambda *parts: exp(polynomial(*parts)))
        .replace(LogisticAt, lambda *parts: Logistic(polynomial(*parts)))
        .replace(LogisticSlopeAt, lambda *parts: LogisticSlope(polynomial(*parts)))
        .replace(LogisticSlope, lambda argument: exp(-argument) / (1 + exp(-argument)) ** 2)
        .replace(ScaledCdf, lambda argument, known: argument * known)
        .replace(Softplus, lambda argument: log(1 + exp(argument)))
        .replace(Logistic, lambda argument: 1 / (1 + exp(-argument)))
        .replace(ErfComplement, lambda argument: 1 - erf(argument))
        .replace(NormalCdf, lambda argument: (1 + erf(argument / sqrt(2))) / 2)
        .replace(ExpLess1, lambda argument: exp(argument) - 1)
        .replace(LogOf1Plus, lambda argument: log(1 + argument))
        .replace(LogOfChance, lambda argument: log(1 - exp(-exp(argument))))
        .replace(Largest, lambda *arguments: Max(*arguments))
        .replace(Weight, lambda argument: argument)
        .replace(Finite, lambda argument: argument)
        .replace(Whole, lambda argument: argument)
    )


def proved(before: Any, after: Any, over: Any) -> bool:
    """Whether before = after is proved."""
    return prove(Program("stability").claim("stable", before, spelled(after), over=over)).status == PROVED


KNOWN: dict[Any, bool] = {}  # what was decided already: variants of a program share most of their bodies


def decided(definition: Definition, after: Any, program: Program) -> bool:
    """Whether the body of a definition is proved to be what was made of it, given as little of the program as it takes.

    A name that is left stands for any array, so that the second engine has no more to evaluate than what changed.
    """
    body = unshadowed(spelled(after))
    claims = claims_of(Rewrite(definition, body), program)
    first = next(claims)
    key = definition.body, body, tuple(first.program.definitions)
    if key not in KNOWN:
        KNOWN[key] = any(prove(claim).status == PROVED for claim in (first, *claims))
    return KNOWN[key]


@pytest.mark.parametrize("name", sorted(BODIES))
def test_rule_is_an_identity(name: str) -> None:
    after = stable(BODIES[name])
    assert after != BODIES[name]
    assert proved(BODIES[name], after, [i, j])


@pytest.mark.parametrize("program", [p for p in load() if p.request is not None], ids=lambda program: program.name)
def test_every_kernel_body_means_what_the_statement_says(program: Program) -> None:
    assert program.request is not None
    whole = program.gradient(program.request.outputs[0], program.request.wrt) if program.request.wrt else program
    sums_of_weights = totals(program.definitions)
    for place, definition in enumerate(whole.definitions):
        known = tuple(whole.definitions[:place])
        forms = [stable(definition.body, known)]
        forms.append(centred(forms[-1], {other.symbol: other for other in known})[0])
        forms.append(divided(forms[-1], sums_of_weights))
        for after in dict.fromkeys(forms):
            assert after == definition.body or decided(definition, after, whole), definition


def test_what_cancels_is_one_function() -> None:
    a = x[i]
    assert stable(sigmoid(a)) == Logistic(a)
    assert stable(a * sigmoid(a) * sigmoid(-a)) == a * Logistic(a) * Logistic(-a)
    assert stable(sigmoid(u - w)) == Logistic(u - w)
    assert stable(exp(2 * a) / (1 + exp(a)) ** 3) == Logistic(a) ** 2 * Logistic(-a)
    assert stable((1 + erf(a / sqrt(2))) / 2) == NormalCdf(a)
    assert stable(1 - erf(a)) == ErfComplement(a)
    for body in (2 + erf(a), 1 + 2 * erf(a), sqrt(2) + erf(a)):
        assert stable(body) == body
    # exp(w) sigma(u) may be finite where exp(w) overflows: the exponent stays in one piece.
    assert not stable(exp(w) * sigmoid(u)).has(Logistic)


def test_no_exponential_of_a_bare_logit_is_left() -> None:
    after = stable(softmax(x[i], over=i))
    assert all(term.args[0].has(sympy.Function("logsumexp")) or "logsumexp" in str(term) for term in after.atoms(exp))


def test_what_a_definition_holds_is_read_from_it() -> None:
    program = Program("known")
    L = program.define("L", [], logsumexp(x[j], over=j))
    y_log = program.define("y_log", [i], log_softmax(z[i], over=i))
    known = tuple(program.definitions)
    assert stable(softmax(x[k], over=k), known) == exp(x[k] - L)
    assert stable(softmax(z[k], over=k), known) == exp(y_log[k])


def test_what_vanishes_by_name_meets_its_exponential() -> None:
    """A name of a / (1 + exp(v)) is written in beside exp(v), as often as it takes; other powers of it stay."""
    program = Program("vanishing")
    s = program.define("s", [i], sigmoid(x[i]))
    g = program.define("g", [i], y[i] * s[i])
    known = tuple(program.definitions)
    for body in (
        exp(-x[i]) * s[i] ** 3 * z[i],
        exp(-2 * x[i]) * g[i] ** 2,
        s[i] * (z[i] * (exp(-x[i]) + u) + y[i] * s[i]),
        z[i] * s[i] * exp(-x[i]) / (1 - s[i]),
        (1 - s[i]) ** u,
    ):
        after = stable(body, known)
        assert after != body
        assert prove(program.claim("stable", body, spelled(after), over=[i])).status == PROVED
    assert stable(exp(-x[i]) * s[i] ** 3, known) == Logistic(-x[i]) * s[i] ** 2
    for body in ((1 - s[i]) ** 2, exp(x[i]) * s[i], exp(-y[i]) * s[i]):
        assert stable(body, known) == body
    # What is divided already meets its own divisor: the sum stays together.
    slope = (exp(-x[i]) / (1 + exp(-x[i])) + z[i]) * s[i]
    assert stable(slope, known) == (Logistic(-x[i]) + z[i]) * s[i]


def test_a_weight_of_zero_is_told_apart_even_where_zero_is_not_declared() -> None:
    """Positive tensors have zeros at the edge of what is declared, exponentials where they underflow."""
    for body in (p[i] * log(p[i]), exp(x[i]) * (x[i] - u), softmax(x[i], over=i) * log_softmax(x[i], over=i)):
        assert stable(body).has(Weight)
    for body in (u * log(p[i]), log(p[i]) / y[i], iverson(y[i] > 0) * log(p[i])):
        assert not stable(body).has(Weight)


def test_a_difference_that_a_function_is_of_is_one_value() -> None:
    program = Program("together")
    r = program.define("r", [i], exp(x[i] - y[i]))
    d = program.define("d", [i], x[i] - y[i])
    known = tuple(program.definitions)
    assert stable(r[i] - 1 - d[i], known) == ExpLess1(d[i]) - d[i]
    body = r[i] - x[i] + y[i] - 1
    after = stable(body, known)
    assert after == ExpLess1(x[i] - y[i]) - Whole(x[i] - y[i])
    assert prove(program.claim("stable", body, spelled(after), over=[i])).status == PROVED
    for body in (r[i] - 1, r[i] - x[i] - 1, tanh(x[i] - y[i]) - x[i] + 2 * y[i], (x[i] - y[i]) ** 2 + x[i] - y[i]):
        assert stable(body, known) == body


def test_one_logsumexp_under_two_names_cancels() -> None:
    after = stable(y[i] * Sum(exp(x[j]) * z[j], j) / substitute(Sum(exp(x[i]), i), {}))
    (left,) = after.atoms(exp)
    assert left.args[0].has(x[j])


def test_a_sum_of_what_cannot_overflow_keeps_no_scale() -> None:
    assert stable(Sum(sigmoid(x[j]) * y[j], j)) == Sum(Logistic(x[j]) * y[j], j)


def test_a_tangent_alone_is_left_alone() -> None:
    """Away from 1 no digit is lost, and what is at hand costs nothing."""
    for body in (tanh(u), 1 - tanh(x[i]) ** 2, 2 + tanh(u)):
        assert stable(body) == body
        assert list(identities(body, {})) == []
    assert list(identities(1 - tanh(u), {})) == ["1 - tanh(u) = 2*sigmoid(-2*u)"]


def test_functions_of_polynomials_are_of_one_entry_and_of_degree_two_or_three() -> None:
    assert stable(exp(-(x[i] ** 2) / 2)) == ExpAt(x[i], 0, 0, sympy.Rational(-1, 2), 0)
    for body in (exp(x[i]), exp(-(x[i] ** 4)), exp(-((x[i] - y[i]) ** 2)), exp(-b * x[i] ** 2)):
        assert not stable(body).has(ExpAt)


CENTRED = {
    "written out": x[i] - Sum(x[j], j) / T,
    "scaled": 3 * y[i] * u - 3 * u * Sum(y[j], j) / T + z[i],
    "of a sum": x[i] + y[i] - Sum(x[j] + y[j], j) / T,
    "under a sum": Sum((x[i] - Sum(x[j], j) / T) ** 2, i),
}


@pytest.mark.parametrize("name", sorted(CENTRED))
def test_a_difference_from_a_mean_is_centred_once_more(name: str) -> None:
    after, reasons = centred(CENTRED[name], {})
    assert len(reasons) == 1
    assert after.has(Whole)
    assert proved(CENTRED[name], after, [i])


def test_only_differences_of_the_values_that_are_named_are_centred() -> None:
    body = (x[i] - Sum(x[j], j) / T) * (y[i] - Sum(y[j], j) / T)
    after, reasons = centred(body, {}, frozenset({x}))
    assert len(reasons) == 1
    assert after == centred(x[i] - Sum(x[j], j) / T, {})[0] * (y[i] - Sum(y[j], j) / T)


def test_what_is_no_difference_from_its_mean_is_left_alone() -> None:
    for body in (x[i] - Sum(y[j], j) / T, x[i] + Sum(x[j], j) / T, x[i] - Sum(x[j], j), 2 * x[i] - Sum(x[j], j) / T):
        assert centred(body, {}) == (body, ())


def test_a_factor_along_the_mean_makes_it_no_difference_from_the_mean() -> None:
    """The gain of a norm, multiplied out: g[i] x[i] - g[i] mean(x) does not add up to 0."""
    for mean_of in (y[i] * Sum(x[j], j), Sum(y[i] * x[j], j)):
        body = y[i] * x[i] - mean_of / T
        assert centred(body, {}) == (body, ())


def test_only_sums_of_weights_are_taken_as_one_where_they_are_zero() -> None:
    program = Program("weights")
    total = program.define("total", [], Sum(p[j], j))
    program.define("mean", [], Sum(p[j] * x[j], j) / total)
    signed = program.define("signed", [], Sum(x[j], j))
    program.define("other", [], Sum(x[j] * y[j], j) / signed)
    unrelated = program.define("unrelated", [], Sum(q[j], j))
    program.define("quotient", [], u / unrelated)
    assert totals(program.definitions) == {total}
    program.define("plain", [i], Sum(q[j] * x[j], j) / Sum(q[j], j) + u / Sum(p[i] * q[j], j) + x[i] / Sum(x[j], j))
    assert totals(program.definitions) == {total, Sum(q[j], j)}
    assert divided(x[i] / Sum(q[i], i) ** 2, totals(program.definitions)).has(Weight)


def test_scales_of_sums_in_sums_go_back() -> None:
    """Of weighted logistic functions no sum needs its largest term, and one over nothing has none."""
    inner = Sum(sigmoid(x[i] - x[j]) * y[j], j)
    for body in (Sum(z[i] * inner, i), Sum(inner, i)):
        after = stable(body)
        assert after.has(Logistic)
        assert not after.has(Defined)


def test_shares_but_for_a_factor_are_less_the_logsumexp_of_their_row() -> None:
    total = Sum(exp(x[j] * u - y[j] * u), j)
    after = stable(Sum(exp(x[i] * u - y[i] * u + y[i]) * z[i], i) / total)
    assert isinstance(after, sympy.Sum)
    (share,) = (factor for factor in after.function.args if isinstance(factor, sympy.exp))
    ((row, scale),), others = rows(share.args[0].args)
    assert (row - x[i] * u + y[i] * u, -scale, others) == (0, logsumexp(x[j] * u - y[j] * u, over=j), [y[i]])


@pytest.mark.parametrize("held", [sympy.true, j <= i], ids=["whole", "masked"])
def test_a_scale_that_meets_nothing_goes_back(held: Any) -> None:
    """A sum with decays as weights, as in gated linear attention, overflows only where its largest term does."""
    body = Sum(iverson(held) * exp(x[i] * x[j]) * y[j], j) * z[i]
    assert not stable(body).has(Defined)
    assert stable(body / exp(u)).has(Defined)


def test_a_condition_on_numbers_is_no_index_set() -> None:
    after = stable(exp(u) * Sum(iverson(u > 0) * iverson(i <= j) * exp(x[j]) * y[j], j))
    (scale,) = after.atoms(Defined)
    assert scale.args[4] == (i <= scale.args[2])
    assert iverson(u > 0) in after.args


def test_shares_of_a_sum_and_1_are_summed_as_they_are() -> None:
    total = 1 + Sum(exp(x[i] * z[j]), j)
    for summed in (Sum(exp(x[i] * z[j]) / total, i, j), Sum(exp(x[i] * z[i]) / total * y[i], i)):
        assert isinstance(stable(summed), sympy.Sum)
    assert not isinstance(stable(Sum(exp(x[i] * y[j]) / total, i)), sympy.Sum)


@pytest.mark.parametrize("body", [Sum(sigmoid(x[i] - x[j]), j), Sum(iverson(i <= j) * sigmoid(u - x[j]) * y[j], j)])
def test_a_logistic_function_of_a_difference_stays_in_one_piece(body: Any) -> None:
    """Apart, exp(x[i]) and the sum of the rest may both be anything; their logarithms would be rounded."""
    assert not stable(body).has(Defined)


def test_exponentials_are_compared_by_their_exponents() -> None:
    e = exp(x[i])
    for condition, told in (
        (e > 1, x[i] > 0),
        (2 - 3 * e >= 1, x[i] <= -log(3)),
        (-b * (e - 2) < 0, x[i] > log(2)),
        (b * e > 0, b * e > 0),
        (e > u, e > u),
        (u * (e - 2) < 0, u * (e - 2) < 0),
    ):
        assert with_exponents_compared(iverson(condition)) == iverson(told)
    assert with_exponents_compared(unfold(Min(1, e))) == exp(where(x[i] >= 0, 0, x[i]))
    assert with_exponents_compared(unfold(Min(5, e))).has(exp(where(x[i] <= 3, x[i], 3)))
    grown = unfold(Max(5, e))  # it overflows where the result does
    assert with_exponents_compared(grown) == grown


def test_what_may_overflow_is_selected_where_its_factors_are_not_zero() -> None:
    program = Program("vanishing")
    ratio = program.define("r", [i], exp(x[i]))
    share = program.define("s", [i], y[i] * softmax(z[i], over=i))
    known = {symbol: spelled_stable(definition) for definition in program.definitions for symbol in [definition.symbol]}
    grown = share[i] * (y[i] * exp(x[i]) + u)
    held = -iverson(x[i] < 1) - iverson(y[i] < 0) * iverson(x[i] > 1)
    for body in (
        grown,
        held * ratio[i],
        held * exp(u) * y[i] * x[i],
        share[i] * ratio[i] ** 2 * y[i],
        share[i] * exp(x[i]),
    ):
        after = selected(body, known, {})
        assert after.has(Where)
        assert prove(program.claim("selected", body, spelled(after), over=[i])).status == PROVED
    for body in (y[i] * ratio[i], share[i] * y[i], held * exp(-(x[i] ** 2)), share[i] / ratio[i]):
        assert selected(body, known, {}) == body

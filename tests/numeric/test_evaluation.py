"""The evaluator: against numbers worked out by hand, and one arithmetic against another."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Abs, Eq, Float, Max, Min, Ne, Piecewise, Rational, cos, erf, exp, log, sin, sqrt, tanh
from sympy.ntheory import isprime

from derive.errors import BudgetExceededError, StatementError
from derive.evaluation import Evaluator, evaluate, needs_of
from derive.functions import log_softmax, logsumexp, mean, softmax, variance
from derive.language import (
    Product,
    Sum,
    delta,
    dims,
    flag,
    implies,
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
from derive.numeric.arithmetic import Rationals, UndefinedError, UnsupportedError, reals
from derive.numeric.error_bounds import bounded_reals
from derive.numeric.prime_field import MODULUS, ORDER, prime_field
from derive.program import Program

T, d, V, N = dims("T d V N")
i, j, k = indices("i j k", T)
a = index("a", d)
x, y = tensors("x y", T)
s, t = scalars("s t")


def near(value: Any, wanted: str | float, digits: float = 1e-11) -> bool:
    return bool(abs(float(value) - float(wanted)) <= digits * max(1.0, abs(float(wanted))))


def numbers(*values: object) -> tuple[Fraction, ...]:
    return tuple(Fraction(str(value)) for value in values)


def at(expression: Any, position: dict[str, int] | None = None, **inputs: Any) -> Any:
    """The value with x as given and T its length."""
    return evaluate(expression, {"T": len(inputs["x"])}, inputs, position)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers worked out by hand.


def test_softmax_of_one_two_three() -> None:
    wanted = ("0.090030573170380", "0.244728471054798", "0.665240955774822")
    for place, value in enumerate(wanted):
        assert near(at(softmax(x[i], over=i), {"i": place}, x=numbers(1, 2, 3)), value, 1e-14)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (Sum(x[i] ** 2, i), "35"),
        (Sum(x[i] * x[j], i, j), "81"),
        (Product(x[i], i), "15"),
        (mean(x[i], over=i), "3"),
        (variance(x[i], over=i), Rational(8, 3)),
        (logsumexp(x[i], over=i), "5.142931628499899"),
        (Sum(log_softmax(x[i], over=i), i), "-6.428794885499697"),
        (Sum(delta(i, j) * x[i] * x[j], i, j), "35"),
        (Sum(iverson(j <= i) * x[j], i, j), "14"),
        (Sum(1, i), "3"),
        (Sum(i**2 * x[i], i), "23"),
        (x[1] / T, "1"),
        (T ** Rational(3, 2), "5.196152422706632"),
        (Max(x[0], x[1], x[2]) - Min(x[0], x[1], x[2]), "4"),
        (Abs(x[0] - x[1]) * sympy.sign(x[0] - x[1]), "-2"),
        (erf(x[0]) + tanh(x[1]) + sympy.erfc(x[0]), "1.995054753686730"),
        (x[1] ** x[2], "243"),
        (2 ** x[0], "2"),
        (sympy.pi * sympy.E, "8.539734222673567"),
        (x[1] * Float("0.1"), Rational(3, 10)),
        (sympy.atan(x[0]) * 4, "3.141592653589793"),
    ],
)
def test_values(expression: Any, wanted: Any) -> None:
    assert near(at(expression, x=numbers(1, 3, 5)), wanted, 1e-14)


def test_a_float_is_the_decimal_it_was_written_as() -> None:
    assert at(Float("0.1") * x[0] * 10, x=numbers(1)) == 1
    assert evaluate(Float("1e-12") * s, {}, {"s": Fraction(10**12)}, arithmetic=Rationals()) == 1


def test_every_sum_has_its_own_index() -> None:
    assert at(Sum(x[i] * Sum(x[i], i), i), x=numbers(1, 3, 5)) == 81
    assert at(x[i] * Sum(x[i], i), {"i": 2}, x=numbers(1, 3, 5)) == 45
    assert at(Sum(softmax(x[i], over=i) * x[i], i) * x[i], {"i": 1}, x=numbers(0, 0)) == 0


def test_ragged_sums_run_to_the_length_of_their_sample() -> None:
    n = index("n", N)
    length = lengths("L", N)
    u = index("u", length[n])
    score = tensor("R", N, length)
    inputs = {"L": (1, 3), "R": (numbers(5), numbers(1, 2, 4))}
    assert [evaluate(Sum(score[n, u], u), {"N": 2}, inputs, {"n": row}) for row in (0, 1)] == [5, 7]
    assert evaluate(Sum(score[n, u], n, u), {"N": 2}, inputs) == 12
    assert near(evaluate(mean(score[n, u], over=u), {"N": 2}, inputs, {"n": 1}), Rational(7, 3))
    assert evaluate(Sum(1 / length[n], n) * length[1], {"N": 2}, inputs) == 4


def test_look_up() -> None:
    w, pos, col = index("w", V), index("p", T), index("c", d)
    table, token = tensor("E", V, d), tensor("token", T, into=V)
    sizes = {"V": 3, "T": 2, "d": 2}
    inputs = {"E": (numbers(1, 2), numbers(3, 4), numbers(5, 6)), "token": (2, 0)}
    picked = [evaluate(table[token[pos], col], sizes, inputs, {"p": p, "c": 1}) for p in (0, 1)]
    assert picked == [6, 2]
    counted = Sum(delta(token[pos], w), pos)
    assert [evaluate(counted, sizes, inputs, {"w": row}) for row in range(3)] == [1, 0, 1]
    assert evaluate(token[pos] * Rational(1, 2), sizes, inputs, {"p": 0}) == 1


# ---------------------------------------------------------------------------------------------------------------------
# What is not needed is not evaluated.


def test_only_the_branch_that_is_taken_is_evaluated() -> None:
    assert at(where(x[0] > 0, log(x[0]), 7), x=numbers(-1)) == 7
    assert at(Piecewise((1 / x[0], x[0] > 0), (log(x[0]), x[0] < -2), (3, True)), x=numbers(-1)) == 3
    with pytest.raises(UndefinedError):
        at(where(x[0] > 0, 7, log(x[0])), x=numbers(-1))


def test_a_bracket_that_vanishes_ends_the_product() -> None:
    masked = Sum(iverson(Ne(x[j], 0)) / x[j], j)
    assert near(at(masked, x=numbers(0, 4)), 0.25)
    assert near(at(Sum(delta(i, 1) * log(x[i]), i), x=numbers(-5, 1)), 0)


def test_flags() -> None:
    causal = flag("causal")
    seen = Sum(iverson(implies(causal, j <= i)) * x[j], j)
    for value, wanted in ((True, 1), (False, 9)):
        assert at(seen, {"i": 0}, x=numbers(1, 3, 5), causal=value) == wanted


def test_an_entry_of_a_definition_that_nobody_asks_for_may_be_undefined() -> None:
    program = Program("guarded")
    inverse = program.define("inverse", [i], 1 / x[i])
    assert evaluate(inverse[1], {"T": 2}, {"x": numbers(0, 2)}, definitions=program.definitions) == Fraction(1, 2)
    with pytest.raises(UndefinedError):
        evaluate(inverse[0], {"T": 2}, {"x": numbers(0, 2)}, definitions=program.definitions)


@pytest.mark.parametrize("expression", [1 / s, log(s), sqrt(s - 1), (s - 8) ** Rational(1, 3), s**t, s**-t])
def test_undefined(expression: Any) -> None:
    with pytest.raises(UndefinedError):
        evaluate(expression, {}, {"s": Fraction(0), "t": Fraction(1, 2)})


def test_a_fixed_position_outside_the_size_is_undefined() -> None:
    assert at(x[1], x=numbers(1, 3)) == 3
    with pytest.raises(UndefinedError, match="position 2"):
        at(x[2], x=numbers(1, 3))


# ---------------------------------------------------------------------------------------------------------------------
# Programs.


def test_gradient_of_attention() -> None:
    T_q, T_k, d_v = dims("T_q T_k d_v")
    q, key, c = index("q", T_q), index("k", T_k), index("c", d_v)
    Q, K, values = tensor("Q", T_q, d), tensor("K", T_k, d), tensor("V", T_k, d_v)
    attention = Program("attention", inputs=[Q, K, values])
    S = attention.define("S", [q, key], Sum(Q[q, a] * K[key, a], a) / sqrt(d))
    A = attention.define("A", [q, key], softmax(S[q, key], over=key))
    output = attention.define("O", [q, c], Sum(A[q, key] * values[key, c], key))
    gradient = attention.gradient(output)
    inputs = {
        "Q": (numbers(1, 0), numbers(".5", -1)),
        "K": (numbers(".2", 1), numbers(1, "-.5"), numbers(0, ".3")),
        "V": (numbers(1), numbers(2), numbers(-1)),
        "dO": (numbers(1), numbers("-.5")),
    }
    sizes = {"T_q": 2, "T_k": 3, "d": 2, "d_v": 1}
    evaluator = Evaluator([gradient["dQ"][q, a], gradient["dK"][key, a]], gradient.definitions)
    environment = evaluator.at(reals(), sizes, inputs)
    found = []
    for number in range(2):
        for _ in environment.places(evaluator.free[number]):
            found.append(environment.value(number))
    # free indices go by name: (a, q) and (a, k)
    dQ = ("0.340512898863", "-0.185689804187", "-0.273537469924", "0.154379645514")
    dK = (
        "0.002077616569", "0.247252473456", "-0.249330090025",
        "-0.006776514145", "0.187045107016", "-0.180268592871",
    )  # fmt: skip
    assert all(near(value, wanted) for value, wanted in zip(found, dQ + dK, strict=True))


def test_only_what_is_needed_is_asked_for() -> None:
    program = Program("two")
    first = program.define("first", [i], x[i] * s)
    program.define("second", [i], y[i] * t)
    needs = needs_of([first[i]], program.definitions)
    assert [str(known.name) for known in needs.inputs] == ["s", "x"]
    assert [known.name for known in needs.definitions] == ["first"]
    assert [str(size.name) for size in needs.dims] == ["T"]


def test_a_long_chain_of_definitions() -> None:
    program = Program("chain")
    last = program.define("h0", [i], x[i] + 1)
    for layer in range(1, 120):
        last = program.define(f"h{layer}", [i], Sum(iverson(Eq(i, j)) * last[j], j) + 2 * last[i] - 2 * last[i] + 1)
    assert evaluate(last[i], {"T": 2}, {"x": numbers(1, 2)}, {"i": 1}, definitions=program.definitions) == 122


def test_missing_values_are_named() -> None:
    with pytest.raises(StatementError, match="size T"):
        evaluate(Sum(x[i], i), {}, {"x": numbers(1)})
    with pytest.raises(StatementError, match="input x"):
        evaluate(Sum(x[i], i), {"T": 1}, {})
    with pytest.raises(StatementError, match="free index i"):
        evaluate(x[i], {"T": 1}, {"x": numbers(1)})


def test_work_is_limited() -> None:
    environment = Evaluator([Sum(x[i] * x[j] * x[k], i, j, k)]).at(reals(), {"T": 3}, {"x": numbers(1, 2, 3)}, limit=20)
    with pytest.raises(BudgetExceededError):
        environment.value(0)


def test_inner_sums_are_computed_once() -> None:
    evaluator = Evaluator([Sum(x[i] * Sum(exp(x[j]), j), i)])
    environment = evaluator.at(reals(), {"T": 9}, {"x": numbers(*range(9))}, limit=1000)
    environment.value(0)
    assert environment.work == 1000 - 18


# ---------------------------------------------------------------------------------------------------------------------
# The prime field.


def residues(expression: Any, sizes: dict[str, int] | None = None, **inputs: Any) -> Any:
    return evaluate(expression, sizes or {}, inputs, arithmetic=prime_field())


def test_the_prime_pair() -> None:
    assert isprime(MODULUS)
    assert isprime(ORDER)
    assert (MODULUS - 1) % ORDER == 0
    assert pow(prime_field().base, ORDER, MODULUS) == 1
    assert prime_field().base != 1


small = st.integers(-9, 9)


@st.composite
def rational_expressions(draw: st.DrawFn, depth: int = 4) -> Any:
    """An expression in s, t and numbers, with + * and powers."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([s, t, x[0], x[1], sympy.Integer(draw(small)), Rational(draw(small), 7)]))
    left = draw(rational_expressions(depth=depth - 1))
    kind = draw(st.sampled_from(["+", "*", "**", "sum"]))
    if kind == "**":
        return left ** draw(st.sampled_from([-2, -1, 2, 3]))
    if kind == "sum":
        return Sum(left * x[i], i)
    right = draw(rational_expressions(depth=depth - 1))
    return left + right if kind == "+" else left * right


@settings(max_examples=150, deadline=None)
@given(rational_expressions(), small, small, st.lists(small, min_size=2, max_size=3))
def test_arithmetics_agree_on_rational_expressions(expression: Any, first: int, second: int, row: list[int]) -> None:
    if expression.has(sympy.zoo, sympy.nan):
        return
    sizes, inputs = {"T": len(row)}, {"s": Fraction(first, 3), "t": Fraction(second), "x": numbers(*row)}
    try:
        exact = evaluate(expression, sizes, inputs, arithmetic=Rationals())
    except UndefinedError:
        return
    field = prime_field()
    assert evaluate(expression, sizes, inputs, arithmetic=field) == field.rational(exact)
    value, error = evaluate(expression, sizes, inputs, arithmetic=bounded_reals())
    context = bounded_reals().reals.context
    wanted = context.mpf(exact.numerator) / exact.denominator
    assert abs(value - wanted) <= error + abs(wanted) * context.eps
    plain = evaluate(expression, sizes, inputs)
    assert abs(plain - wanted) <= error * context.mpf(10) ** 20 + abs(wanted) * context.mpf(10) ** -38


fractions = st.fractions(min_value=-20, max_value=20, max_denominator=30)


@settings(max_examples=60, deadline=None)
@given(fractions, fractions)
def test_laws_that_hold_exactly(first: Fraction, second: Fraction) -> None:
    laws = [
        exp(s) * exp(t) * exp(-s - t) - 1,
        cos(s) ** 2 + sin(s) ** 2 - 1,
        sin(s + t) - sin(s) * cos(t) - cos(s) * sin(t),
        tanh(s) - (exp(2 * s) - 1) / (exp(2 * s) + 1),
        sympy.cosh(s) ** 2 - sympy.sinh(s) ** 2 - 1,
        exp(s * sqrt(6)) - exp(s * sqrt(2) * sqrt(3)),
    ]
    for law in laws:
        try:
            assert residues(law, s=first, t=second)[0] == 0
        except UndefinedError:
            assert law.has(tanh)


@settings(max_examples=30, deadline=None)
@given(st.lists(fractions, min_size=2, max_size=4, unique=True), fractions)
def test_softmax_is_shift_invariant_exactly(row: list[Fraction], shift: Fraction) -> None:
    difference = softmax(x[i], over=i) - softmax(x[i] + s, over=i)
    inputs = {"x": tuple(row), "s": shift}
    for place in range(len(row)):
        assert evaluate(difference, {"T": len(row)}, inputs, {"i": place}, arithmetic=prime_field())[0] == 0
    unequal = softmax(x[i], over=i) - softmax(2 * x[i], over=i)
    found = [evaluate(unequal, {"T": len(row)}, inputs, {"i": p}, arithmetic=prime_field())[0] for p in range(len(row))]
    assert any(found)


@pytest.mark.parametrize("size", range(1, 21))
def test_square_roots_of_sizes(size: int) -> None:
    root = residues(sqrt(d), {"d": size})
    assert prime_field().multiply([root, root]) == prime_field().rational(size)
    assert residues(sqrt(d) * sqrt(2 * d), {"d": size}) == residues(d * sqrt(2), {"d": size})
    assert residues(d ** Rational(-3, 2) * d * sqrt(d), {"d": size}) == prime_field().rational(1)


@pytest.mark.parametrize(
    "expression",
    [
        exp(exp(s)), exp(tanh(s)), log(s), erf(s), sympy.atan(s), sqrt(s), s**t, Max(s, t), Abs(s - t), sympy.pi * s,
        iverson(s > t), d ** Rational(1, 3), sqrt(exp(s) + 1),
    ],
)  # fmt: skip
def test_what_has_no_exact_meaning_is_refused(expression: Any) -> None:
    with pytest.raises(UnsupportedError):
        residues(expression, {"d": 2}, s=Fraction(2), t=Fraction(3))


def test_division_by_zero_in_the_field() -> None:
    with pytest.raises(UndefinedError):
        residues(1 / (s - 2), s=Fraction(2))


def test_exact_conditions_need_no_order_in_the_field() -> None:
    n = scalar("n", integer=True, positive=True)
    value = Sum(iverson(i < n) * x[i], i) + where(Eq(n, 2), s**n, 0)
    assert residues(value, {"T": 3}, n=2, s=Fraction(3), x=numbers(1, 2, 4)) == prime_field().rational(12)


# ---------------------------------------------------------------------------------------------------------------------
# Error bounds.


def test_a_difference_within_rounding_is_known_for_what_it_is() -> None:
    field = bounded_reals()
    lost = 1 - softmax(1000 * x[i], over=i)
    kept = Sum(iverson(Ne(i, j)) * softmax(1000 * x[j], over=j), j)
    sizes, inputs = {"T": 2}, {"x": numbers(3, 1)}
    left, right = (evaluate(side, sizes, inputs, {"i": 0}, arithmetic=field) for side in (lost, kept))
    assert left[0] != right[0]
    assert field.same(left, right)
    with pytest.raises(UndefinedError, match="too close"):
        evaluate(iverson(lost > 0), sizes, inputs, {"i": 0}, arithmetic=field)


def test_a_root_of_what_may_be_zero() -> None:
    value, error = evaluate(sqrt(s - Rational(1, 3)), {}, {"s": Fraction(1, 3)}, arithmetic=bounded_reals())
    assert value == 0
    assert 0 < error < 1e-25
    with pytest.raises(UndefinedError):
        evaluate(1 / (s * 3 - 1), {}, {"s": Fraction(1, 3)}, arithmetic=bounded_reals())

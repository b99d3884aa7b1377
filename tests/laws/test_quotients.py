"""Quotients inside sums: partial fractions, and that the laws of quotients end whatever they meet."""

from __future__ import annotations

import random
from typing import Any

import mpmath as mp
import pytest
import sympy
from sympy import Rational, cos, exp, sin, sqrt

from derive.binders import substitute
from derive.errors import BudgetExceededError
from derive.language import Sum, dims, indices, scalars, tensors
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger

(T,) = dims("T")
i, j = indices("i j", T)
x, y = tensors("x y", T)
p = tensors("p", T, positive=True)[0]
s, r, w = scalars("s r w")
c = scalars("c", positive=True)[0]


def equal(left: Any, right: Any) -> bool:
    ledger = Ledger()
    difference = normal_form(ledger, sympy.sympify(left)) - normal_form(ledger, sympy.sympify(right))
    return is_zero(ledger, difference)


def sigmoid(u: Any) -> Any:
    return 1 / (1 + exp(-u))


TRUE: dict[str, tuple[Any, Any]] = {
    "partial fractions": (Sum(y[i] / (p[i] * (1 + p[i])), i), Sum(y[i] / p[i], i) - Sum(y[j] / (1 + p[j]), j)),
    "with a number": (Sum(1 / (x[i] * (3 - 2 * x[i])), i), Sum(1 / x[i] + 2 / (3 - 2 * x[i]), i) / 3),
    "a square": (Sum(1 / (x[i] ** 2 * (1 + x[i])), i), Sum(1 / x[i] ** 2 - 1 / x[i] + 1 / (1 + x[i]), i)),
    "a square of the quotient": (
        Sum(1 / (x[i] * (1 + x[i]) ** 2), i),
        Sum(1 / x[i] - 1 / (1 + x[i]) - 1 / (1 + x[i]) ** 2, i),
    ),
    "a root": (Sum(sqrt(p[i]) / (1 + p[i]), i), Sum(1 / sqrt(p[i]) - 1 / (sqrt(p[i]) * (1 + p[i])), i)),
    "the slope of a sigmoid": (
        Sum(y[i] * exp(-x[i]) * sigmoid(x[i]) ** 2, i),
        Sum(y[i] * sigmoid(x[i]) * (1 - sigmoid(x[i])), i),
    ),
    "a sigmoid and its mirror image": (
        Sum(sigmoid(x[i]) * sigmoid(-x[i]), i),
        Sum(sigmoid(x[i]) - sigmoid(x[i]) ** 2, i),
    ),
    "several letters": (Sum(1 / (x[i] * (1 + x[i] * y[i])), i), Sum(1 / x[i] - y[i] / (1 + x[i] * y[i]), i)),
}  # fmt: skip
WRONG: dict[str, tuple[Any, Any]] = {
    "the sign": (Sum(1 / (p[i] * (1 + p[i])), i), Sum(1 / p[i] + 1 / (1 + p[i]), i)),
    "the number left out": (Sum(1 / (x[i] * (3 + x[i])), i), Sum(1 / x[i] - 1 / (3 + x[i]), i)),
    "the numerator left out": (Sum(1 / (x[i] * (1 + x[i] * y[i])), i), Sum(1 / x[i] - 1 / (1 + x[i] * y[i]), i)),
}


@pytest.mark.parametrize("name", TRUE)
def test_laws(name: str) -> None:
    assert equal(*TRUE[name])


@pytest.mark.parametrize("name", WRONG)
def test_no_such_law(name: str) -> None:
    assert not equal(*WRONG[name])


@pytest.mark.parametrize("name", TRUE)
def test_each_row_is_true(name: str) -> None:
    values = {x[k]: Rational(2 + k, 5) for k in range(3)} | {y[k]: Rational(3 + k, 7) for k in range(3)}
    values |= {p[k]: Rational(5 + k, 3) for k in range(3)}

    def at(expression: Any) -> Any:
        if isinstance(expression, sympy.Sum):
            index = expression.limits[0][0]
            return sum(substitute(expression.function, {index: sympy.Integer(k)}) for k in range(3))
        return (
            expression.func(*map(at, expression.args)) if isinstance(expression, (sympy.Add, sympy.Mul)) else expression
        )

    left, right = (at(side).xreplace(values).evalf(30) for side in TRUE[name])
    assert abs(left - right) < 1e-25


@pytest.mark.parametrize("first", ["s", "r"])
def test_a_root_over_a_quotient_is_left_alone(first: str) -> None:
    # s/(s + s^2/r) led to s^2/r^2 ..., one more factor s/r at a time.
    u, v = (s, r) if first == "s" else (r, s)
    root = sqrt(u + u**3 / v)
    assert equal(u / root * (1 / root) * v, v * u * root**-2)
    assert equal(u / (root * (u + root)), 1 / root - 1 / (u + root))


def test_the_law_is_named() -> None:
    ledger = Ledger()
    normal_form(ledger, 1 / (s * (1 + s)))
    assert any(law.startswith("partial fractions") for law in ledger.laws)


def test_random_quotients_end_and_keep_their_value() -> None:
    chance = random.Random(0)
    at = {s: Rational(5, 7), r: Rational(-3, 4), w: Rational(8, 5), c: Rational(2, 9)}
    atoms = [s, r, w, c, sqrt(c), exp(s), exp(-s), sin(s), cos(s), sin(r), cos(r)]

    def polynomial() -> Any:
        terms = (
            chance.choice((-2, -1, 1, 3)) * sympy.Mul(*chance.choices(atoms, k=chance.randint(0, 2))) for _ in range(3)
        )
        return sum(terms, start=sympy.S.Zero)

    ended = 0
    for _ in range(120):
        below = [part for part in (polynomial(), polynomial()) if abs(part.subs(at).evalf()) > 1e-3]
        factors = [chance.choice(atoms) ** chance.randint(-2, 2) for _ in range(3)]
        expression = sympy.Mul(polynomial(), *factors, *(part ** -chance.randint(1, 2) for part in below))
        try:
            difference = normal_form(Ledger(2.0, 20_000), expression)
        except BudgetExceededError:
            continue
        ended += 1
        assert abs(value(difference, at) - mp.mpf(str(expression.subs(at).evalf(25)))) < 1e-9
    assert ended >= 115


def value(polynomial: Any, at: Any) -> Any:
    """The value of a normal form in scalars, roots, exponentials, sines and cosines."""
    names = {str(symbol): mp.mpf(number.p) / number.q for symbol, number in at.items()}

    def atom(one: Any) -> Any:
        if hasattr(one, "argument"):
            return getattr(mp, one.function)(of(one.argument))
        if hasattr(one, "monomial"):
            return mp.exp(monomial(one.monomial))
        return names[one.name] if hasattr(one, "name") else of(one.inside)

    def monomial(factors: Any) -> Any:
        return mp.fprod(mp.power(atom(a), mp.mpf(e.numerator) / e.denominator) for a, e in factors)

    def of(inner: Any) -> Any:
        return mp.fsum(mp.mpf(k.numerator) / k.denominator * monomial(m) for m, k in inner.terms.items())

    return of(polynomial)

"""Sine and cosine: the addition theorems, multiples of an angle, sin^2 + cos^2 = 1, and that applying them ends."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, Rational, cos, pi, sin

from derive.errors import BudgetExceededError
from derive.language import Sum, dims, index, indices, iverson, scalars, tensor, tensors
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.normal.terms import Polynomial
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

T, d = dims("T d")
i, j, k = indices("i j k", T)
a = index("a", d)
theta = tensor("theta", d)
x, y = tensors("x y", T)
s, r, w, q, u, v, z = scalars("s r w q u v z")


whole = s / (s + r) + r / (s + r)  # 1, which SymPy does not see


def equal(left: Any, right: Any) -> bool:
    ledger = Ledger()
    difference = normal_form(ledger, sympy.sympify(left)) - normal_form(ledger, sympy.sympify(right))
    return is_zero(ledger, difference)


TRUE: dict[str, tuple[Any, Any]] = {
    "Pythagoras": (sin(s) ** 2 + cos(s) ** 2, 1),
    "Pythagoras under a sum": (Sum(sin(x[i]) ** 2 * y[i], i), Sum(y[i], i) - Sum(cos(x[j]) ** 2 * y[j], j)),
    "sine of a sum": (sin(s + r), sin(s) * cos(r) + cos(s) * sin(r)),
    "cosine of a difference": (cos(s - r), cos(s) * cos(r) + sin(s) * sin(r)),
    "three angles": (sin(s + r + w), sin(s + r) * cos(w) + cos(s + r) * sin(w)),
    "twice an angle": (cos(2 * s), 2 * cos(s) ** 2 - 1),
    "half an angle": (sin(s / 2) ** 2, 1 - cos(s / 2) ** 2),
    "three times an angle": (sin(3 * s), 3 * sin(s) - 4 * sin(s) ** 3),
    "a multiple that is a fraction": (cos(Rational(2, 3) * s), 1 - 2 * sin(s / 3) ** 2),
    "a multiple of a negative angle": (sin(-2 * s), -2 * sin(s) * cos(s)),
    "a sum that cancels": (sin(s + r - s), sin(r)),
    "angles by position": (
        cos(i * theta[a]) * cos(j * theta[a]) + sin(i * theta[a]) * sin(j * theta[a]),
        cos((i - j) * theta[a]),
    ),
    "products to sums": (2 * sin(s) * cos(r), sin(s + r) + sin(s - r)),
    "fourth power": (sin(s) ** 4, 1 - 2 * cos(s) ** 2 + cos(s) ** 4),
    "under a quotient": ((1 - cos(s) ** 2) / sin(s), sin(s)),
    "the cotangent's square": (1 / sin(s) ** 2 - cos(s) ** 2 / sin(s) ** 2, 1),
    "a conjugate": (1 / (cos(s) + sin(s)) * cos(2 * s), cos(s) - sin(s)),
    "an angle by cases": (sin(iverson(s > 0) * r + w), sin(w) + iverson(s > 0) * (sin(r + w) - sin(w))),
    "half a turn": (cos(pi * whole) + sin(pi * whole), -1),
    "a quarter": (cos(pi * whole / 2), 0),
    "three quarters back": (sin(-3 * pi * whole / 2), 1),
    "many turns": (cos(w + 2000 * pi * whole), cos(w)),
    "a quarter more": (cos(w + pi * whole / 2), -sin(w)),
    "a twelfth": (sin(pi * whole / 6), Rational(1, 2)),
    "an eighth": (cos(3 * pi * whole / 4), -sympy.sqrt(2) / 2),
    "a sixth, in the third quarter": (sin(4 * pi * whole / 3), -sympy.sqrt(3) / 2),
    "an angle that is kept": (cos(6 * pi * whole / 7), -sin(5 * pi * whole / 14)),
    "more angles than are taken apart": (sin(s + r + w + q + u + v + z), -sin(-s - r - w - q - u - v - z)),
}
WRONG: dict[str, tuple[Any, Any]] = {
    "sine is linear": (sin(s + r), sin(s) + sin(r)),
    "the sign of the second term": (cos(s + r), cos(s) * cos(r) + sin(s) * sin(r)),
    "sine and cosine in the wrong places": (sin(s + r), sin(s) * sin(r) + cos(s) * cos(r)),
    "the difference of the squares": (cos(s) ** 2 - sin(s) ** 2, 1),
    "two angles": (sin(s) ** 2 + cos(r) ** 2, 1),
    "twice the sine": (sin(2 * s), 2 * sin(s)),
    "the root of a square": (sympy.sqrt(1 - cos(s) ** 2), sin(s)),
    "positions the other way round": (
        sin(i * theta[a]) * cos(j * theta[a]) - cos(i * theta[a]) * sin(j * theta[a]),
        sin((j - i) * theta[a]),
    ),
    "sine for cosine": (cos(pi * whole / 3), sympy.sqrt(3) / 2),
    "the sign of a quarter": (sin(3 * pi * whole / 2), 1),
    "a turn too few": (cos(pi * whole), 1),
    "a sum of sines": (Sum(sin(x[i]), i) ** 2 + Sum(cos(x[i]), i) ** 2, T),
}


@pytest.mark.parametrize("name", TRUE)
def test_laws(name: str) -> None:
    assert equal(*TRUE[name])


@pytest.mark.parametrize("name", WRONG)
def test_no_such_law(name: str) -> None:
    assert not equal(*WRONG[name])


@pytest.mark.parametrize("twelfths", [k for k in range(-30, 31) if k % 2 == 0 or k % 3 == 0])
def test_multiples_of_pi_have_the_values_that_sympy_knows(twelfths: int) -> None:
    angle = pi * Rational(twelfths, 12)
    assert equal(sin(angle * whole), sin(angle))
    assert equal(cos(angle * whole), cos(angle))
    assert not equal(cos(angle * whole) + 1, cos(angle))


@pytest.mark.parametrize(("share", "verdict"), [(Rational(1, 2), PROVED), (Rational(1, 3), REFUTED)])
def test_what_is_0_by_rounding_alone_counts_as_0(share: Any, verdict: str) -> None:
    """In digits cos(pi/2) is 1e-41, and no number of digits makes it 0."""
    program = Program("turned", "an angle that is given", [x])
    program.claim("c", cos(pi * x[i]), 0, given=[Eq(x[i], share)])
    assert prove(program.claims[0]).status == verdict


def test_the_laws_are_named() -> None:
    ledger = Ledger()
    normal_form(ledger, cos(s + r) ** 2 + sin(s + r) ** 2)
    assert "sine and cosine of a sum" in ledger.laws
    assert "sin^2 = 1 - cos^2" in ledger.laws


def value(polynomial: Polynomial, at: dict[str, Any]) -> Any:
    """The value of a normal form in scalars, sines, cosines and quotients of them."""

    def atom(one: Any) -> Any:
        if hasattr(one, "argument"):
            return getattr(mp, one.function)(value(one.argument, at))
        return at[one.name] if hasattr(one, "name") else value(one.inside, at)

    terms = (
        mp.mpf(c.numerator) / c.denominator * mp.fprod(mp.power(atom(a_), int(e)) for a_, e in m)
        for m, c in polynomial.terms.items()
    )
    return mp.fsum(terms)


@st.composite
def circular(draw: Any, depth: int = 3) -> Any:
    """Sums, products, quotients and multiples of angles under sine and cosine."""
    if depth == 0:
        return draw(st.sampled_from((s, r, w, sympy.Integer(2), Rational(1, 3))))
    left, right = draw(circular(depth - 1)), draw(circular(depth - 1))
    function = draw(st.sampled_from((sin, cos)))
    scale = draw(st.integers(-9, 9))
    forms = (left + right, left * right, function(left), function(scale * left / 2), function(left - right),
             1 / (2 + function(left) * sin(right)), function(left) ** draw(st.integers(1, 4)))  # fmt: skip
    return draw(st.sampled_from(forms))


@settings(max_examples=60, deadline=None)
@given(expression=circular(), seed=st.integers(1, 9))
def test_the_normal_form_keeps_the_value(expression: Any, seed: int) -> None:
    at = {name: mp.mpf(seed + 3 * place) / 7 for place, name in enumerate("srw")}
    try:
        polynomial = normal_form(Ledger(5.0, 20_000), expression)
    except BudgetExceededError:
        return
    exact = expression.evalf(40, subs={symbol: sympy.Float(str(at[symbol.name]), 40) for symbol in (s, r, w)})
    with mp.workdps(40):
        found = value(polynomial, at)
        assert abs(found - mp.mpf(str(exact))) <= mp.mpf(10) ** -11 * (1 + abs(found))


@pytest.mark.parametrize(
    "expression",
    [
        cos(s) ** 3 / (cos(s) + sin(s)),
        cos(s) ** 4 * sin(s) / (cos(s) + sin(s)) ** 2,
        cos(s) ** 3 * cos(r) ** 3 / ((cos(s) + sin(r)) * (sin(s) + cos(r)) * (cos(s) * cos(r) + sin(s) * sin(r) + 1)),
        s**2 * r / ((s + r) * (s**2 + s * r + w**2)),
    ],
    ids=["sine and cosine", "squares", "several quotients", "quotients that share letters"],
)
def test_reducing_a_quotient_ends(expression: Any) -> None:
    # cos^3 / (cos + sin) led back to itself where the larger of the two was said to be the cosine.
    ledger = Ledger(5.0, 20_000)
    polynomial = normal_form(ledger, expression)
    assert is_zero(ledger, polynomial - normal_form(ledger, expression))
    at = {name: mp.mpf(3 + 2 * place) / 7 for place, name in enumerate("srw")}
    exact = expression.subs({symbol: sympy.Rational(3 + 2 * place, 7) for place, symbol in enumerate((s, r, w))})
    assert abs(value(polynomial, at) - mp.mpf(str(exact.evalf(20)))) < 1e-12


def test_a_long_angle_ends_in_time() -> None:
    angle = sum((scalars(f"b_{n}")[0] for n in range(40)), start=s)
    normal_form(Ledger(1.0, 20_000), sin(angle) * cos(1000 * s + 999 * r))
    with pytest.raises(BudgetExceededError):
        normal_form(Ledger(1.0, 2_000), (cos(8 * s + 8 * r + 8 * w) + sin(8 * s - 8 * q)) ** 200)

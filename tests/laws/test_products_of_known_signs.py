"""Logarithms, roots and powers of products: taken apart where the signs of the factors are known, and nowhere else.

Random products are taken apart as the signs of their factors allow, which is proved from hypotheses, from the branch
they stand in, or because both sides have a value. The same with one sign left open, or with one that is wrong, is not.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from sympy import Abs, Add, And, Eq, Mul, Rational, log, sqrt

from derive.language import Sum, delta, dims, indices, iverson, scalars, tensors, where
from derive.program import Program
from derive.prove import PROVED, prove

(T,) = dims("T")
i, j = indices("i j", T)
x, y, z = tensors("x y z", T)
NAMES = scalars("s r u")
s, r, u = NAMES
DRAWS = range(40)


def status(left: Any, right: Any, **options: Any) -> str:
    return prove(Program("statement").claim("c", left, right, **options)).status


def drawn(seed: int) -> tuple[list[int], list[int], list[Any]]:
    """Signs and exponents of the factors of a positive product, and the hypotheses that say the signs."""
    draw = random.Random(seed)
    signs = [draw.choice((1, -1)) for _ in NAMES]
    powers = [draw.choice((-3, -2, -1, 1, 1, 2, 3)) for _ in NAMES]
    given = [name > 0 if sign > 0 else name < 0 for name, sign in zip(NAMES, signs, strict=True)]
    return signs, powers, given


def product_of(signs: list[int], powers: list[int]) -> Any:
    """A product that is positive: the factors with their powers, and a sign."""
    odd = sum(1 for sign, power in zip(signs, powers, strict=True) if sign < 0 and power % 2)
    return (-1) ** odd * Mul(*(name**power for name, power in zip(NAMES, powers, strict=True)))


@pytest.mark.parametrize("seed", DRAWS)
def test_products_are_taken_apart_by_hypotheses(seed: int) -> None:
    signs, powers, given = drawn(seed)
    whole = product_of(signs, powers)
    sizes = [sign * name for sign, name in zip(signs, NAMES, strict=True)]
    logs = Add(*(power * log(size) for power, size in zip(powers, sizes, strict=True)))
    assert status(log(whole), logs, given=given) == PROVED
    third = Mul(*(size ** Rational(power, 3) for power, size in zip(powers, sizes, strict=True)))
    assert status(whole ** Rational(1, 3), third, given=given) == PROVED
    named = Mul(*(size ** (power * T / 2) for power, size in zip(powers, sizes, strict=True)))
    assert status(whole ** (T / 2), named, given=given) == PROVED


@pytest.mark.parametrize("seed", DRAWS)
def test_products_are_taken_apart_by_values_and_by_branches(seed: int) -> None:
    signs, powers, given = drawn(seed)
    whole = product_of(signs, powers)
    sizes = [sign * name for sign, name in zip(signs, NAMES, strict=True)]
    logs = Add(*(power * log(size) for power, size in zip(powers, sizes, strict=True)))
    assert status(log(whole), logs) == PROVED
    if all(power % 2 for power in powers):  # the root of an even power says no sign
        roots = Mul(*(sqrt(size) ** power for power, size in zip(powers, sizes, strict=True)))
        assert status(sqrt(whole), roots) == PROVED
    assert status(where(And(*given), log(whole), 1), where(And(*given), logs, 1)) == PROVED


@pytest.mark.parametrize("seed", DRAWS)
def test_one_sign_less_is_not_enough(seed: int) -> None:
    """x log|y| for x log y beside it: a sign that nothing says is not made up, nor is a wrong one."""
    signs, powers, given = drawn(seed)
    lost = seed % len(NAMES)
    whole = product_of(signs, powers)
    sizes = [sign * name for sign, name in zip(signs, NAMES, strict=True)]
    wrong = Add(
        *(power * where(size > 0, log(size), 7) for power, size in zip(powers, sizes, strict=True)), iverson(s > r)
    )
    known = [condition for place, condition in enumerate(given) if place != lost]
    assert status(log(whole), wrong, given=known) != PROVED
    turned = [-size if place == lost else size for place, size in enumerate(sizes)]
    bad = Mul(*(where(size >= 0, size, 1) ** Rational(power, 3) for power, size in zip(powers, turned, strict=True)))
    assert status(whole ** Rational(1, 3), bad, given=given) != PROVED


TRUE: dict[str, tuple[Any, Any, list[Any]]] = {
    "a quotient": (log(r / s), log(r) - log(s), []),
    "two negative factors": (log(r * s), log(-r) + log(-s), [s < 0]),
    "roots of what may be 0": (sqrt(r * s), sqrt(r) * sqrt(s), [r >= 0, s >= 0]),
    "roots of what may be 0, from below": (sqrt(r * s), sqrt(-r) * sqrt(-s), [r <= 0, s <= 0]),
    "a root of a square": (sqrt(s**2 * r), -s * sqrt(r), [s <= 0]),
    "an even power": (log(s**4), 4 * log(Abs(s)), []),
    "an even power beside others": (log(s**2 * r), 2 * log(Abs(s)) + log(r), []),
    "an even power in a sum": (Sum(log(x[i] ** 2), i), 2 * Sum(log(Abs(x[i])), i), []),
    "entries": (log(x[i] * y[j]), log(x[i]) + log(y[j]), []),
}


@pytest.mark.parametrize("name", TRUE)
def test_signs_are_read_off(name: str) -> None:
    left, right, given = TRUE[name]
    assert status(left, right, given=given) == PROVED


# Beside each of these something stands that looks as if it said a sign, and does not: a bracket hides it, it is about
# another position, or about what may be 0.
FALSE: dict[str, tuple[Any, Any, list[Any]]] = {
    "behind a bracket": (
        iverson(s > 0) * log(s) + log(r * s),
        iverson(s > 0) * log(s) + where(s > 0, log(Abs(r)) + log(Abs(s)), 7),
        [],
    ),
    "in a branch": (where(s > 0, log(s), 0) + log(s * r), where(s > 0, 2 * log(s) + log(Abs(r)), 7), []),
    "behind a delta": (
        delta(i, j) * log(x[i]) + log(x[i] * y[j]),
        delta(i, j) * log(x[i]) + where(x[i] > 0, log(Abs(x[i])) + log(Abs(y[j])), 7),
        [],
    ),
    "of another entry": (
        log(x[i]) + log(y[i]) + log(x[j] * y[j]),
        log(x[i]) + log(y[i]) + where(x[j] > 0, log(Abs(x[j])) + log(Abs(y[j])), 7),
        [],
    ),
    "of one entry of a sum": (
        log(x[i]) + log(y[i]) + Sum(log(x[j] * y[j]), j),
        log(x[i]) + log(y[i]) + Sum(where(x[j] > 0, log(Abs(x[j])) + log(Abs(y[j])), 7), j) + delta(i, i) - 1,
        [],
    ),
    "a root of a product with 0": (sqrt(r * s), where(r < 0, 1, sqrt(Abs(r)) * sqrt(Abs(s))), [s >= 0]),
    "a root of a square has no sign": (sqrt(s**2 * r), s * sqrt(r), []),
    "an even power has no sign": (log(s**2), 2 * where(s > 0, log(Abs(s)), 7), []),
}


@pytest.mark.parametrize("name", FALSE)
def test_signs_are_not_made_up(name: str) -> None:
    left, right, given = FALSE[name]
    assert status(left, right, given=given) != PROVED


def test_what_holds_at_the_claims_position_says_nothing_about_an_equation_for_all() -> None:
    """x[i] > 0 where log(x[i]) has a value, but z[j] = log(x[j] y[j]) holds for negative x[j] and y[j] as well."""
    given = [Eq(z[j], log(x[j] * y[j]))]
    wrong = log(x[i]) + log(y[i]) + where(x[j] < 0, 7, log(Abs(x[j])) + log(Abs(y[j])))
    assert status(log(x[i]) + log(y[i]) + z[j], wrong, given=given) != PROVED


def test_a_defined_bracket_hides_what_stands_beside_it() -> None:
    program = Program("statement")
    g = program.define("g", [i], iverson(x[i] > 0))
    left = g[i] * (log(x[i]) + log(y[i])) + log(x[i] * y[i])
    right = g[i] * (log(x[i]) + log(y[i])) + where(x[i] > 0, log(Abs(x[i])) + log(Abs(y[i])), 7)
    assert prove(program.claim("c", left, right)).status != PROVED

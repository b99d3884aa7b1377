"""Functions in pieces: what is equal is proved equal, what is proved is equal at every point tried, ties included.

Expressions in max, min, |.|, sign and selections are built at random, rewritten by identities that hold at every real
point, or paired with another one; values at a grid of exact points, many of them ties, are worked out here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
import sympy
from sympy import Abs, Eq, Integer, Max, Min, sign, sqrt

from derive.functions import relu
from derive.language import Sum, dims, index, indices, iverson, scalar, tensors, where
from derive.normal.case_analysis import Fact, is_contradictory
from derive.normal.form import normal_form
from derive.normal.ledger import Ledger
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

n, T = dims("n T")
i = index("i", n)
s, t, u = indices("s t u", T)
x, y = tensors("x y", n)
p = scalar("p", positive=True)
X, Y = x[i], y[i]
PARTS = [X, Y, X - 1, X + Y, X - Y, 1 - X, 2 * X, -Y, Y + 2, X * Y, Integer(1), Integer(0)]
GRID = [Fraction(value) for value in (-2, -1, Fraction(-1, 2), 0, Fraction(1, 3), 1, 2, 3)]
ORDERS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
}  # fmt: skip


def built(rng: random.Random, depth: int) -> Any:
    """A random expression in pieces."""
    if depth == 0:
        return rng.choice(PARTS)
    first, second = built(rng, depth - 1), built(rng, depth - 1)
    a, b = rng.choice(PARTS), rng.choice(PARTS)
    choices = [
        Max(first, second), Min(first, second), Abs(first), where(a > b, first, second), where(a <= b, first, second),
        first + second, first - second, first * a, sign(a) * first,
    ]  # fmt: skip
    return rng.choice(choices)


def rewritten(rng: random.Random, node: Any) -> Any:
    """The same function, its maxima, minima and absolute values written in other ways."""
    if not isinstance(node, sympy.Expr) or not node.args or isinstance(node, sympy.Indexed):
        return node
    parts = [rewritten(rng, part) for part in node.args]
    if isinstance(node, (Max, Min)) and len(parts) == 2:
        a, b = parts
        larger = [where(a > b, a, b), where(b >= a, b, a), -Min(-a, -b), (a + b + Abs(a - b)) / 2, a + relu(b - a)]
        smaller = [where(a < b, a, b), -Max(-a, -b), (a + b - Abs(a - b)) / 2, a - relu(a - b)]
        return rng.choice(larger if isinstance(node, Max) else smaller)
    if isinstance(node, Abs):
        (a,) = parts
        return rng.choice([Max(a, -a), where(a > 0, a, -a), a * sign(a), relu(a) + relu(-a)])
    return node.func(*parts)


def value(node: Any, at: dict[Any, Fraction]) -> Any:
    """The exact value of an expression or condition."""
    if node in at:
        return at[node]
    if node.is_Rational:
        return Fraction(int(node.p), int(node.q))
    if node in (sympy.true, sympy.false):
        return bool(node)
    parts = [value(part, at) for part in node.args]
    if node.is_Relational:
        return ORDERS[node.rel_op](*parts)
    if node.is_Pow:
        return parts[0] ** int(parts[1])
    if node.is_Mul:
        return parts[0] * value(node.func(*node.args[1:]), at)
    by_name = {
        "Add": sum, "Max": max, "Min": min, "Abs": lambda p: abs(p[0]), "sign": lambda p: (p[0] > 0) - (p[0] < 0),
        "Where": lambda p: p[1] if p[0] else p[2],
    }  # fmt: skip
    return by_name[type(node).__name__](parts)


def agree(left: Any, right: Any) -> bool:
    """Whether two expressions have the same values on the grid."""
    points = (dict(zip((X, Y), point, strict=True)) for point in product(GRID, repeat=2))
    return all(value(left, at) == value(right, at) for at in points)


@pytest.mark.parametrize("seed", range(60))
def test_random_pieces(seed: int) -> None:
    rng = random.Random(seed)
    left = built(rng, 2)
    same = seed % 3 != 0
    right = rewritten(rng, left) if same else built(rng, 1)
    verdict = prove(Program("pieces", inputs=[x, y]).claim("c", left, right, over=[i]))
    assert agree(left, right) or not same  # the identities are ones
    assert verdict.status == (PROVED if agree(left, right) else REFUTED), f"{left} = {right}: {verdict.reason}"


def test_pieces_under_a_sum() -> None:
    """Sums over one range are compared as one sum; over two ranges they are not mixed up."""
    program = Program("summed", inputs=[x, y])
    clipped = Sum(Max(Min(X, 1), -1), i)
    parts = Sum(relu(X + 1), i) - Sum(relu(X - 1), i) - n
    assert prove(program.claim("one range", clipped, parts)).status == PROVED
    assert (
        prove(program.claim("with a factor", Sum(Y * Max(X, 0), i), Sum(Y * X, i) - Sum(Y * Min(X, 0), i))).status
        == PROVED
    )
    assert (
        prove(program.claim("another range", clipped, Sum(relu(Y + 1), i) - Sum(relu(Y - 1), i) - n)).status == REFUTED
    )


def test_integers_and_ranges() -> None:
    program = Program("positions")
    inside = iverson(s <= t) * iverson(t <= u)
    assert prove(program.claim("transitive", inside * iverson(s <= u), inside)).status == PROVED
    assert (
        prove(
            program.claim(
                "strict", iverson(s < t) * iverson(t < u) * iverson(s + 1 < u), iverson(s < t) * iverson(t < u)
            )
        ).status
        == PROVED
    )
    assert prove(program.claim("not back", inside * iverson(u <= s), inside)).status == REFUTED


@pytest.mark.parametrize(
    ("inequalities", "contradictory"),
    [
        ([(X, ">", Y), (Y, ">", X)], True),
        ([(X, ">=", Y), (Y, ">=", X)], False),
        ([(X, ">=", Y), (Y, ">", X)], True),
        ([(X, ">", 0), (1, ">", 2 * X), (X, ">", 1)], True),
        ([(X, ">", 0), (1, ">", 2 * X), (X, ">", Y), (Y, ">", -1)], False),
        ([(X + Y, ">", 2), (1, ">", X), (1, ">", Y)], True),
        ([(X * Y, ">", 1), (0, ">", X * Y)], True),
        ([(X * Y, ">", 1), (X, ">", 0), (Y, ">", 0)], False),
        ([(0, ">", X**2)], True),
        ([(0, ">=", X**2)], False),
        ([(s, ">=", T)], True),
        ([(s, ">=", T - 1)], False),
        ([(0, ">", s)], True),
        ([(p + X, ">", 0), (0, ">", X)], False),
        ([(0, ">", p + X), (X, ">=", 0)], True),
    ],
    ids=str,
)  # fmt: skip
def test_contradictions(inequalities: list[tuple[Any, str, Any]], contradictory: bool) -> None:
    ledger = Ledger()
    facts = [
        Fact(normal_form(ledger, sympy.S(larger)) - normal_form(ledger, sympy.S(smaller)), strict=sign_ == ">")
        for larger, sign_, smaller in inequalities
    ]
    assert is_contradictory(ledger, facts) is contradictory


def test_the_root_of_a_square_of_pieces_is_an_absolute_value() -> None:
    """SymPy makes it one while the pieces are written in: before, it does not know that a logarithm is real."""
    program, larger = Program("roots", inputs=[x, y]), Max(sympy.log(X), Y)
    assert prove(program.claim("same", 1 / sqrt(larger**2), 1 / Abs(larger))).status == PROVED
    assert prove(program.claim("other", 1 / sqrt(larger**2), 1 / larger)).status == REFUTED


def test_pieces_meet_at_a_tie() -> None:
    """Where two pieces meet it does not matter which one is taken if they are equal there, and does if they are not."""
    program = Program("meeting", inputs=[x, y])
    assert prove(program.claim("equal", where(X >= Y, X, Y), where(X > Y, X, Y))).status == PROVED
    assert (
        prove(program.claim("multiple", where(X > Y, Y * X - Y**2, 0), where(X >= Y, Y * (X - Y), 0))).status == PROVED
    )
    assert prove(program.claim("unequal", where(X >= Y, X + 1, Y), where(X > Y, X + 1, Y))).status != PROVED
    assert (
        prove(program.claim("condition", iverson(Eq(X, Y)), iverson(X >= Y) * iverson(X <= Y), over=[i])).status
        == PROVED
    )

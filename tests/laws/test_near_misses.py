"""Statements that hold at generic points and fail at a tie or at zero: none of them is proved without saying so.

Random expressions with cases are worked out at a few generic points and at many where numbers are equal or zero. Two
that agree at the former and differ at the latter are a trap for every law that forgets a side condition. Either the
claim that they are equal is not proved, or the verdict lists the condition under which it is.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import sympy
from sympy import Abs, Eq, Ge, Gt, Max, Min, Ne, sign

from derive.language import Where, iverson, scalar, scalars, where
from derive.program import Program
from derive.prove import proof_of

EXPRESSIONS, DEPTH, KEPT = 800, 3, 4
s, r, u = scalars("s r u")
p = scalar("p", positive=True)
NAMES = (s, r, u, p)
Point = dict[Any, Fraction]
GENERIC = [
    dict(zip(NAMES, map(Fraction, point), strict=True))
    for point in (("7/3", "-5/4", "3/7", "9/5"), ("-8/5", "4/9", "-11/6", "5/7"), ("2/9", "13/8", "-7/5", "10/3"))
]
SPECIAL = [
    dict(zip(NAMES, map(Fraction, point), strict=True))
    for point in itertools.product((-1, 0, 1), (-1, 0, 1), (0, 1), (1,))
]
RELATIONS: dict[type, Callable[[Any, Any], bool]] = {
    sympy.Gt: lambda a, b: a > b, sympy.Ge: lambda a, b: a >= b, sympy.Lt: lambda a, b: a < b,
    sympy.Le: lambda a, b: a <= b, sympy.Eq: lambda a, b: a == b, sympy.Ne: lambda a, b: a != b,
}  # fmt: skip


def expression(draw: random.Random, depth: int) -> Any:
    """A random expression of sums, products, quotients and cases."""
    if depth == 0:
        return draw.choice((s, s, r, r, u, p, sympy.S.One))

    def part() -> Any:
        return expression(draw, depth - draw.randint(1, depth))

    def condition() -> Any:
        return draw.choice((Gt, Ge, Eq, Ne))(part(), draw.choice((s, r, sympy.S.Zero)))

    return draw.choice(
        (
            lambda: part() + part(), lambda: part() * part(), lambda: part() - part(), lambda: iverson(condition()),
            lambda: where(condition(), part(), part()), lambda: Max(part(), part()), lambda: Min(part(), part()),
            lambda: Abs(part()), lambda: sign(part()), lambda: part() / part(), lambda: part() ** 2,
        )
    )()  # fmt: skip


def value(node: Any, at: Point) -> Any:
    """What an expression or condition is at a point.

    Raises:
        ZeroDivisionError: it has no value there.
    """
    if node in at:
        return at[node]
    if isinstance(node, Where):
        return value(node.args[1 if value(node.args[0], at) else 2], at)
    if node in (sympy.true, sympy.false):
        return node == sympy.true
    if node.is_Rational:
        return Fraction(int(node.p), int(node.q))
    parts = [value(part, at) for part in node.args]
    if type(node) in RELATIONS:
        return RELATIONS[type(node)](*parts)
    if isinstance(node, sympy.Add):
        return sum(parts)
    if isinstance(node, sympy.Mul):
        product = Fraction(1)
        for part in parts:
            product *= part
        return product
    if isinstance(node, sympy.Pow):
        return parts[0] ** int(parts[1])
    if isinstance(node, (Max, Min)):
        return (max if isinstance(node, Max) else min)(parts)
    return abs(parts[0]) if isinstance(node, Abs) else Fraction((parts[0] > 0) - (parts[0] < 0))


def values(node: Any, points: Sequence[Point]) -> tuple[Any, ...]:
    """The values at the points, None where there is none."""
    found = []
    for point in points:
        try:
            found.append(value(node, point))
        except ZeroDivisionError:
            found.append(None)
    return tuple(found)


def traps() -> list[tuple[Any, Any]]:
    """Pairs of expressions that agree at the generic points, and differ at a special one."""
    draw = random.Random(0)
    known: dict[tuple[Any, ...], list[tuple[Any, tuple[Any, ...]]]] = {}
    found = []
    for _ in range(EXPRESSIONS):
        try:
            made = expression(draw, DEPTH)
        except (TypeError, ValueError):  # SymPy saw a division by zero
            continue
        if not made.free_symbols or made.has(sympy.nan, sympy.zoo):
            continue
        generic = values(made, GENERIC)
        special = values(made, SPECIAL)
        same = known.setdefault(generic, [])
        for other, there in same:
            if any(a is not None and b is not None and a != b for a, b in zip(there, special, strict=True)):
                found.append((other, made))
        if None not in generic and len(same) < KEPT:
            same.append((made, special))
    return found


def test_what_fails_at_special_points_is_not_proved() -> None:
    pairs = traps()
    assert len(pairs) > 300
    for left, right in pairs:
        ledger = proof_of(Program("trap").claim("c", left, right), seconds=1.0, attempts=1)
        assert ledger is None or ledger.conditions, (left, right)


def test_the_reading_of_these_expressions() -> None:
    point = {s: Fraction(2), r: Fraction(2), u: Fraction(-1), p: Fraction(3)}
    assert value(where(Eq(s, r), Max(u, 0) + Abs(u), 5), point) == 1
    assert values(1 / (s - r), [point]) == (None,)

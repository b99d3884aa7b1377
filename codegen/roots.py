"""The slope of a root at 0 is taken as 0: a norm at the zero vector, the deviation of a constant row.

Beside `codegen.stability`, for the adjoints of a program whose definitions take a root of something that may be 0. The
value is 0 there and the slope has no bound, so that in d sqrt(u) = du / (2 sqrt(u)) infinity meets a du of 0. The rule

    u^(p - 1)  =  (u^(p - 1) where u != 0, else 0)        0 < p < 1

is an identity wherever the left side has a value, and where it has none gives the smallest of all subgradients, which
is also PyTorch's choice. A bracket that holds only where the root is positive says the same, and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
from sympy import Expr, Mul, Ne, Pow, S

from derive.binders import map_children
from derive.exceptional import is_positive, open_roots
from derive.language import Where, is_bracket
from derive.program import Definition, Program

SLOPE_AT_ZERO = "(there its slope is taken as 0)"


def has_open_root(definitions: Iterable[Definition], program: Program) -> bool:
    """Whether a definition takes a root of something that may be 0."""
    return any(True for definition in definitions for _ in open_roots(definition, program))


def settled(node: Any, program: Program) -> Any:
    """The body of an adjoint with the slope of a root at 0 written as 0."""
    if isinstance(node, Mul):
        held = [part.args[0] for part in node.args if is_bracket(part)]
        parts = [part if _is_held(part, held) else settled(part, program) for part in node.args]
        return node if all(a is b for a, b in zip(parts, node.args, strict=True)) else Mul(*parts)
    if _is_slope(node, program):
        return Where(Ne(node.base, 0), node, S.Zero)
    return map_children(node, lambda part: settled(part, program))


def _is_slope(node: Any, program: Program) -> bool:
    """Whether an expression is a power u^q with -1 < q < 0 of something that may be 0."""
    return (
        isinstance(node, Pow)
        and bool(node.exp.is_Rational)
        and bool(-1 < node.exp < 0)
        and not node.base.is_number
        and not is_positive(node.base, program)
    )


def _is_held(part: Expr, conditions: Iterable[Any]) -> bool:
    """Whether one of the conditions is about the same root."""
    return isinstance(part, Pow) and any(
        root.base == part.base for condition in conditions for root in sympy.preorder_traversal(condition)
        if isinstance(root, Pow)
    )  # fmt: skip

"""Differences that a function is taken of and that stand beside it: they are subtracted once, as one value.

One of the last of the rules of `codegen.stability.rules`. SymPy's sums are flat: exp(a - b) - (a - b) - 1 is a sum of
four terms, and in floating point expm1(a - b) + b - a rounds at the size of a and of b, however small the result is.
Two rules, for any function f that is taken of u = a - b + ... in a term of the sum:

    c f(u) + k a - k b + v     =  c f(u) + k (u) + v          u computed before what stands beside it
    r - 1 - a + b + v          =  expm1(u) - (u) + v          r the name of exp(u), which is rounded already

The second is for a u that stands beside it as well, by name or not: by itself 1 is subtracted from the r at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy
from sympy import Add, Expr, S

from codegen.stability.functions import ExpLess1, Whole
from codegen.stability.guards import Definitions, spelled_out
from derive.binders import map_children, scope_of


def with_differences_whole(node: Any, known: Definitions) -> Any:
    """The expression with each difference that a function beside it is taken of as one value."""
    inner = map_children(node, lambda part: with_differences_whole(part, known))
    if not isinstance(inner, Add):
        return inner
    inner = _less_1(inner, known)
    for argument in sorted(set(_arguments(inner)), key=sympy.default_sort_key):
        count = _times(argument, inner)
        if count != 0:
            return with_differences_whole(inner - count * argument, known) + count * Whole(argument)
    return inner


def _less_1(node: Add, known: Definitions) -> Add:
    """A sum with a name of exp(u), less 1 and beside u, as one with expm1(u)."""
    number = node.as_coeff_Add()[0]
    for term in node.args if number != 0 else ():
        coefficient, name = term.as_coeff_Mul()
        body = spelled_out(name, known) if coefficient == -number else None
        exponent = _beside(body.args[0], node, known) if isinstance(body, sympy.exp) else None
        if exponent is not None:
            return node - number - term + coefficient * ExpLess1(exponent)
    return node


def _beside(exponent: Expr, node: Add, known: Definitions) -> Expr | None:
    """The exponent as it stands in a sum: term by term, or one term, which may be a name of it; None if it does not."""
    if _times(exponent, node) != 0:
        return exponent
    entries = (term.as_coeff_Mul()[1] for term in node.args)
    return next((entry for entry in entries if exponent in (entry, spelled_out(entry, known))), None)


def _arguments(node: Add) -> Iterator[Add]:
    """The sums that functions in the terms of a sum are taken of, outside of binders."""

    def visit(part: Any) -> Iterator[Add]:
        if isinstance(part, Whole) or scope_of(part) is not None:
            return
        if isinstance(part, sympy.Function):
            yield from (argument for argument in part.args if isinstance(argument, Add))
        for below in part.args:
            yield from visit(below)

    for term in node.args:
        yield from visit(term)


def _times(argument: Expr, node: Add) -> Expr:
    """How often a sum holds another one, all terms of it alike; 0 where it does not."""
    present = node.as_coefficients_dict()
    counts = {present.get(term, S.Zero) / number for term, number in argument.as_coefficients_dict().items()}
    return counts.pop() if len(counts) == 1 and isinstance(argument, Add) else S.Zero

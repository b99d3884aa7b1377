"""Why an expression is positive, read off its structure before it is multiplied out.

The variance plus epsilon is positive because it is a mean of squares plus a positive number; once the squares are
multiplied out nothing shows that. So the reader asks here, on the SymPy expression, and the ledger remembers. The
answer is a set of declarations that the reason rests on ("eps > 0", "d >= 1"), or None when there is no such reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta

from derive.binders import free_indices, substitute
from derive.language import Dim, Index, Scalar, Tensor, Where

Facts = frozenset[str]
NONE: Facts = frozenset()


def reasons_positive(node: Any) -> Facts | None:
    """The declarations that make the (unfolded) expression positive, or None."""
    return _reasons(node, strict=True)


def reasons_nonnegative(node: Any) -> Facts | None:
    """The declarations that make the (unfolded) expression at least 0, or None."""
    return _reasons(node, strict=False)


def _reasons(node: Any, *, strict: bool) -> Facts | None:
    for kind, rule in RULES:
        if isinstance(node, kind):
            return rule(node, strict)
    return None


def _all(nodes: Any, strict: bool) -> Facts | None:
    found = [_reasons(node, strict=strict) for node in nodes]
    return (
        None if any(facts is None for facts in found) else NONE.union(*(facts for facts in found if facts is not None))
    )


def _number(node: Any, strict: bool) -> Facts | None:
    return NONE if node > 0 or (not strict and node >= 0) else None


def _declared(node: Any, _strict: bool) -> Facts | None:
    base = node.base if isinstance(node, Indexed) else node
    if isinstance(base, Dim) or (isinstance(base, Tensor) and base.label.is_integer and base.positive):
        return frozenset({f"{base.name} >= 1"})
    positive = base.positive if isinstance(base, Tensor) else bool(base.is_positive)
    return frozenset({f"{base.name} > 0"}) if positive else None


def _add(node: Any, strict: bool) -> Facts | None:
    # One positive term is enough when none can be negative.
    least = _all(node.args, False)
    if least is None or not strict:
        return least
    for term in node.args:
        facts = _reasons(term, strict=True)
        if facts is not None:
            return least | facts
    return None


def _mul(node: Any, strict: bool) -> Facts | None:
    return _all(node.args, strict)


def _pow(node: Any, strict: bool) -> Facts | None:
    base, exponent = node.args
    if exponent.is_even and not strict:
        return NONE
    return _reasons(base, strict=strict or exponent.is_positive is not True)


def _sum(node: Any, strict: bool) -> Facts | None:
    facts = _reasons(node.function, strict=strict)
    if facts is None and strict and isinstance(node, sympy.Sum) and len(node.limits) == 1:
        facts = _one_term(node.function, node.limits[0][0])
    sizes = (index.extent for index, *_ in node.limits)
    return None if facts is None else facts | {f"{size} >= 1" for size in sizes if not size.is_Integer}


def _one_term(body: Any, bound: Index) -> Facts | None:
    """Why no term can be negative and one is positive, as that on the diagonal is under a causal mask."""
    least = _reasons(body, strict=False)
    if least is None:
        return None
    for place in plain_places(body, bound):
        facts = _reasons(substitute(body, {bound: place}), strict=True)
        if facts is not None:
            return least | facts
    return None


def plain_places(expression: Any, bound: Index) -> Iterator[Any]:
    """Places in the range of an index that can be told without sizes: 0, and where it meets another of its range."""
    yield sympy.S.Zero
    yield from (i for i in sorted(free_indices(expression), key=str) if i != bound and i.extent == bound.extent)


def _exp(_node: Any, _strict: bool) -> Facts:
    return NONE


def _not_negative(_node: Any, strict: bool) -> Facts | None:
    return None if strict else NONE


def _where(node: Any, strict: bool) -> Facts | None:
    return _all(node.args[1:], strict)


RULES: tuple[tuple[Any, Callable[[Any, bool], Facts | None]], ...] = (
    (sympy.Number, _number),
    (sympy.NumberSymbol, lambda node, strict: NONE),
    ((Dim, Scalar, Indexed), _declared),
    (Index, _not_negative),
    (KroneckerDelta, _not_negative),
    (sympy.Add, _add),
    (sympy.Mul, _mul),
    (sympy.Pow, _pow),
    ((sympy.Sum, sympy.Product), _sum),
    (sympy.exp, _exp),
    (Where, _where),
)

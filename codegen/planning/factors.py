"""Products of a wide value and narrow ones: what is narrow is multiplied first, once a row instead of once an entry.

Between lowering and `codegen.planning.schedule`'s sharing of values. Lowering multiplies in the order of the formula,
so that dL[n] * e[n,v] / s[n] costs two passes over e; gathered, it is one: (dL / s)[n] * e[n,v]. Real products commute,
and divisors stay apart (the product of two small ones may be 0 where neither is).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from codegen.ir.nodes import Map, Node, Select
from codegen.ir.trees import with_children
from codegen.lowering.context import ONE, ZERO, quotient

PRODUCTS = ("mul", "div")


@lru_cache(maxsize=50_000)
def gathered(node: Node) -> Node:
    """The node with the narrow factors of every product multiplied with each other before the wide ones."""
    node = with_children(node, [gathered(child) for child in node.children])
    if not isinstance(node, Map) or node.operation not in PRODUCTS or node.is_host:
        return node
    above, below = factors_of(node)
    if len(below) > 1:
        return node
    selected = next((factor for factor in above if _meets(factor, [*above, *below])), None)
    if isinstance(selected, Select):
        # Where the condition fails, the product is 0 whatever its other factors are.
        place = above.index(selected)
        product = quotient([*above[:place], selected.yes, *above[place + 1 :]], below)
        return Select(selected.condition, gathered(product), ZERO)
    widest = max((factor.axes for factor in (*above, *below)), key=len)
    narrow = [_narrow(factors, widest) for factors in (above, below)]
    wide = [[f for f in factors if f not in few] for factors, few in zip((above, below), narrow, strict=True)]
    arrays = [factor for few in narrow for factor in few if not factor.is_host]
    if len(narrow[0]) + len(narrow[1]) < 2 or not arrays or not (wide[0] or wide[1]):
        return node
    if set().union(*(factor.axes for factor in arrays)) < set(widest):
        return quotient([quotient(*narrow), *wide[0]], wide[1])
    # A vector of each side would make one more wide factor: those of the last index are left for the end.
    along = [factor for factor in narrow[0] if widest[-1] in factor.axes]
    few = [factor for factor in narrow[0] if factor not in along]
    if not along or not few or not wide[0] or any(widest[-1] in factor.axes for factor in narrow[1]):
        return node
    product = quotient([quotient(few, narrow[1]), *wide[0]], wide[1])
    for vector in along:
        product = Map("mul", (vector, product))
    return product


def _meets(factor: Node, factors: Sequence[Node]) -> bool:
    """Whether a factor is a selection, else 0, of a product in which narrow factors would meet narrow ones here."""
    if not isinstance(factor, Select) or factor.no != ZERO:
        return False
    inside = [part for parts in factors_of(factor.yes) for part in parts]
    beside = [other for other in factors if other != factor]
    return all(any(not other.is_host for other in _narrow(parts, factor.axes)) for parts in (inside, beside))


def factors_of(node: Node) -> tuple[list[Node], list[Node]]:
    """(numerators, denominators) of a product; a quotient inside a denominator stays one factor."""
    if isinstance(node, Map) and node.operation in PRODUCTS and not node.is_host:
        above, below = factors_of(node.operands[0])
        if node.operation == "div":
            return above, [*below, node.operands[1]]
        more = factors_of(node.operands[1])
        return [*above, *more[0]], [*below, *more[1]]
    return ([] if node == ONE else [node]), []


def _narrow(factors: Sequence[Node], widest: Sequence[object]) -> list[Node]:
    return [factor for factor in factors if set(factor.axes) < set(widest)]

"""Sums of products: pairwise contractions in the cheapest order.

Part of  Sums of products inside a summand are opened, so that all factors stand side by side; a number among them
scales the smallest array. The factors become nodes, which `codegen.algebra.ordering` puts in order. An index of one
operand alone is summed before the product, a bracket selects inside a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Pow, S

from codegen.algebra.networks import opened_sums
from codegen.algebra.ordering import cheapest, scaled_place
from codegen.errors import KernelError
from codegen.ir.nodes import Axes, Contract, Map, Node, Reduce, Select
from codegen.lowering.context import ONE, ZERO, Context, lower, multiplied, quotient
from codegen.lowering.leaves import size
from codegen.lowering.selections import lower_condition
from codegen.stability.functions import Finite
from derive.binders import free_indices
from derive.differentiation import contracted_sum
from derive.language import Where, is_bracket


def lower_sum(node: Any, context: Context) -> Node:
    """The node for a sum."""
    over = tuple(limit[0] for limit in node.limits)
    numbers, function = _split(node.function, context)
    body = contracted_sum(function, over)
    if not isinstance(body, sympy.Sum) or set(body.limits) != set(node.limits):
        return lower(Mul(*numbers, body), context)
    if isinstance(function, Mul):
        factors, inner = opened_sums(function, over, of_sums=False)
        function, over = Mul(*factors), (*over, *inner)
    for index in over:
        size(index.extent, context)
    inside = context.under(over)
    if isinstance(function, Add):
        terms = [_sum_factors(term, over, inside) for term in function.args]
        # Differences are summed, not sums subtracted: a large part that the terms share leaves before it is added up.
        if numbers or any(sum(not factor.is_host for factor in term) > 1 for term in terms):
            return lower(Mul(*numbers, Add(*(contracted_sum(term, over) for term in function.args))), context)
        return Reduce("sum", lower(function, inside), over)
    nodes = _sum_factors(function, over, inside)
    if numbers:
        nodes = _scaled(lower(Mul(*numbers), context), nodes, over, context)
    return _contracted(nodes, over, context)


def _split(product: Expr, context: Context) -> tuple[list[Expr], Expr]:
    """The factors that are numbers before any array is touched, and the product of the others."""
    factors = Mul.make_args(product)
    numbers = [factor for factor in factors if not free_indices(factor) and lower(factor, context).is_host]
    return numbers, Mul(*(factor for factor in factors if factor not in numbers))


def lower_product(node: Any, context: Context) -> Node:
    """The node for a product over ranges."""
    over = tuple(limit[0] for limit in node.limits)
    for index in over:
        size(index.extent, context)
    inside = lower(node.function, context.under(over))
    constant = [index for index in over if index not in inside.axes]
    if constant:
        raise KernelError(f"{context.program}: {node}: no factor depends on {constant[0]}; write it as a power")
    for index in over:
        inside = Reduce("prod", inside, (index,))
    return inside


def _sum_factors(body: Expr, over: Axes, context: Context) -> list[Node]:
    """The factors of a summand as nodes: squares twice, what is below a fraction inverted, brackets selected in."""
    brackets = [factor.args[0] for factor in Mul.make_args(body) if is_bracket(factor)]
    inside = context.within(sympy.And(*brackets))
    if inside.nowhere:
        return [ZERO]
    nodes: list[Node] = []
    plain: list[Expr] = []
    for factor in Mul.make_args(body):
        base, power = factor.as_base_exp() if isinstance(factor, Pow) else (factor, S.One)
        if is_bracket(factor):
            continue
        if power == 2 and isinstance(base, (Indexed, Add)):
            nodes += [lower(base, inside)] * 2
        elif isinstance(factor, (Indexed, sympy.Sum, Add, Finite)) and free_indices(factor) & set(over):
            nodes.append(lower(factor, inside))
        else:
            plain.append(factor)
    nodes = _selected(nodes, brackets, everywhere=not plain, context=context)
    if plain:
        nodes.append(_masked(Mul(*plain), brackets, context))
    return [node for node in nodes if node != ONE] or [ONE]


def _selected(nodes: Sequence[Node], brackets: Sequence[Any], context: Context, *, everywhere: bool) -> list[Node]:
    """The nodes with brackets selected in: each where a factor has its indices, so that nothing is multiplied by 0.

    Outside an index set a factor may be infinite, and 0 times that is no number. With `everywhere`, a bracket whose
    indices no factor has goes into the widest one.
    """
    conditions = [part for bracket in brackets for part in sympy.And.make_args(bracket)]
    held: list[list[Any]] = [
        [part for part in conditions if free_indices(part) and free_indices(part) <= set(node.axes)] for node in nodes
    ]
    lost = [part for part in conditions if not any(part in parts for parts in held)] if everywhere else []
    if lost and not nodes:
        return [Select(lower_condition(sympy.And(*lost), context), ONE, ZERO)]
    if lost:
        held[max(range(len(nodes)), key=lambda place: len(nodes[place].axes))] += lost
    return [
        Select(lower_condition(sympy.And(*parts), context), node, ZERO) if parts else node
        for node, parts in zip(nodes, held, strict=True)
    ]


def _masked(product: Expr, brackets: Sequence[Any], context: Context) -> Node:
    return lower(Mul(product, *(Where(condition, S.One, S.Zero) for condition in brackets)), context)


def _contracted(nodes: list[Node], over: Axes, context: Context) -> Node:
    """The sum of a product of nodes, pairwise in the cheapest order."""
    left = list(nodes)
    for pair in cheapest([frozenset(node.axes) for node in nodes], frozenset(over), context.sizes).pairs:
        first, second = (left[place] for place in pair)
        others = [node for place, node in enumerate(left) if place not in pair]
        left = [*others, _pair(first, second, others, over, context)]
    (result,) = left
    remaining = tuple(index for index in result.axes if index in over)
    if remaining:
        result = Reduce("sum", result, remaining)
    counted = [index for index in over if not any(index in node.axes for node in nodes)]
    return quotient([result, *(size(index.extent, context) for index in counted)], [])


def _scaled(scale: Node, nodes: Sequence[Node], over: Axes, context: Context) -> list[Node]:
    """The nodes with a number multiplied into the one where that costs least; a number that is 1/x divides."""
    result = [index for index in context.order if index not in over and any(index in node.axes for node in nodes)]
    place = scaled_place([node.axes for node in nodes], result, context.sizes) or 0
    if isinstance(scale, Map) and scale.operation == "div" and scale.operands[0] == ONE:
        changed = quotient([nodes[place]], [scale.operands[1]])
    else:
        changed = quotient([scale, nodes[place]], [])
    return [changed if at == place else node for at, node in enumerate(nodes)]


def _finished(nodes: Sequence[Node], others: Sequence[Node], over: Axes) -> Axes:
    """Summed indices that occur in these nodes and in no other."""
    return tuple(
        i for i in over if any(i in node.axes for node in nodes) and not any(i in node.axes for node in others)
    )


def _pair(first: Node, second: Node, others: Sequence[Node], over: Axes, context: Context) -> Node:
    """The product of two arrays, summed over those indices that no other array has."""
    done = _finished((first, second), others, over)
    # An index of one operand alone is summed before the product.
    alone = [tuple(i for i in done if i in a.axes and i not in b.axes) for a, b in ((first, second), (second, first))]
    first, second = (
        Reduce("sum", node, indices) if indices else node for node, indices in zip((first, second), alone, strict=True)
    )
    common = tuple(i for i in done if i in first.axes and i in second.axes)
    if not common:
        return multiplied([first, second])

    # What meets another array next is laid out as that is; a result as it is asked for.
    reader = next((node.axes for node in others if {*first.axes, *second.axes} - {*common} <= {*node.axes}), None)
    order = context.order if reader is None else reader

    def place(node: Node, other: Node) -> int:
        only = [order.index(i) for i in node.axes if i in order and i not in other.axes]
        return min(only, default=len(order))

    if place(second, first) < place(first, second):
        first, second = second, first
    return Contract(first, second, tuple(index for index in second.axes if index in common))

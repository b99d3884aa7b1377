"""Conditions, what they select, and values that are harmless where they are not wanted.

Part of lowering. A condition becomes an array of truth values, a bracket or a choice a selection by it. The branch that
is not taken is computed all the same, so that functions with a pole are given an argument there at which they are
finite.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom

from codegen.errors import KernelError
from codegen.ir.nodes import Identity, Literal, Map, Node, Option, Select
from codegen.lowering.context import MINUS_INFINITY, ONE, ZERO, Context, lower
from codegen.lowering.leaves import compared, size
from derive.binders import free_indices
from derive.language import Flag, Index, Where
from derive.normal.signs import reasons_positive


def lower_condition(node: Any, context: Context) -> Node:
    """The node for a condition, an array of truth values; flags stay on the host.

    It decides where other values are wanted, so that its own are wanted everywhere.
    """
    context = context.everywhere()
    if isinstance(node, BooleanAtom):
        return Literal(1, 1, str(node))  # of an index set that nothing is in, or that leaves nothing out
    if isinstance(node, Flag):
        return Option(str(node.name))
    if isinstance(node, (sympy.And, sympy.Or, sympy.Not)):
        name = {sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[type(node)]
        # A flag comes first: it is known before any array is touched.
        parts = sorted(node.args, key=lambda part: bool(free_indices(part)))
        operands = [lower_condition(part, context) for part in parts]
        result = operands[0] if name != "not" else Map("not", (operands[0],))
        for operand in operands[1:]:
            result = Map(name, (result, operand))
        return result
    if isinstance(node, Relational):
        # Written so that the indices come in the order of the result's axes: i >= j for a result over (i, j), and a
        # number last: x > 0.
        ranks = [
            min((context.order.index(i) for i in free_indices(s) if i in context.order), default=len(context.order))
            + (0 if free_indices(s) else 1)
            for s in node.args
        ]
        relation = node.reversed if ranks[0] > ranks[1] else node
        return Map(COMPARISONS[type(relation)], tuple(compared(side, context) for side in relation.args))
    raise KernelError(f"{context.program}: {node}: expected a condition")


COMPARISONS: dict[type, str] = {
    sympy.StrictGreaterThan: "gt",
    sympy.GreaterThan: "ge",
    sympy.StrictLessThan: "lt",
    sympy.LessThan: "le",
    sympy.Equality: "eq",
    sympy.Unequality: "ne",
}


def lower_where(node: Any, context: Context) -> Node:
    """The node for a choice between two values; each branch is wanted where its condition holds."""
    condition, yes, no = node.args
    branches = lower(yes, context.within(condition)), lower(no, context.within(sympy.Not(condition)))
    return chosen(lower_condition(condition, context), *branches)


def lower_finite(node: Any, context: Context) -> Node:
    """The node for a value, 0 where it is -inf."""
    value = lower(node.args[0], context)
    return Select(Map("ne", (value, MINUS_INFINITY)), value, ZERO)


def lower_largest(node: Any, context: Context) -> Node:
    """The node for the largest of several values."""
    first, *rest = (lower(argument, context) for argument in node.args)
    for other in rest:
        first = chosen(Map("ge", (first, other)), first, other)
    return first


def chosen(condition: Node, yes: Node, no: Node) -> Node:
    """The selection by a condition; where that compares what it chooses from, the larger or the smaller of the two."""
    if isinstance(condition, Map) and condition.operation in ORDERS and set(condition.operands) == {yes, no}:
        takes_first = condition.operands == (yes, no)
        largest = takes_first == (condition.operation in ("gt", "ge"))
        arrays = [operand for operand in condition.operands if not operand.is_host]
        numbers = [operand for operand in condition.operands if operand.is_host]
        if len(arrays) == len(condition.operands):
            return Map("maximum" if largest else "minimum", (yes, no))
        if arrays:
            return Map("at_least" if largest else "at_most", (*arrays, *numbers))
    return Select(condition, yes, no)


ORDERS = frozenset({"gt", "ge", "lt", "le"})


def lower_delta(node: Any, context: Context) -> Node:
    """The node for Kronecker's delta."""
    row, column = node.args[:2]
    if isinstance(row, Index) and isinstance(column, Index) and row.extent == column.extent:
        size(row.extent, context)
        return Identity(row, column)
    sides = sorted(node.args[:2], key=lambda side: not free_indices(side))
    return Select(Map("eq", tuple(compared(side, context) for side in sides)), ONE, ZERO)


# ---------------------------------------------------------------------------------------------------------------------
# Where a value is wanted.


def tamed(expression: Expr, value: Node, context: Context) -> Node:
    """The argument of a function with a pole: the value where it is wanted, else 1, at which every function is finite.

    Without it the branch that is not taken warns of a division by 0, or overflows. What is positive by its structure
    needs no care, unless it has branches that are wanted nowhere, which are 0; a number of the caller's is not worth an
    array.
    """
    held = [*context.domain, *(part for part in context.around if free_indices(part) <= set(value.axes))]
    is_positive = not expression.has(Where) and reasons_positive(expression) is not None
    if not held or value.is_host or is_positive:
        return value
    condition = lower_condition(sympy.And(*held), context.everywhere())
    if isinstance(value, Map) and value.operation == "sqrt" and _is_one_outside(value.operands[0], condition):
        return value
    return Select(condition, value, ONE)


def _is_one_outside(value: Node, condition: Node) -> bool:
    return isinstance(value, Select) and value.condition == condition and value.no == ONE


def wanted_top(top: Node, context: Context) -> Node:
    """The maximum of a row where the row is wanted, else 0: elsewhere it may be -inf, and so may what it is less."""
    held = [part for part in (*context.domain, *context.around) if free_indices(part) <= set(top.axes)]
    held = [part for part in held if free_indices(part)]
    return Select(lower_condition(sympy.And(*held), context), top, ZERO) if held else top


def finite_if_asked(top: Node, context: Context) -> Node:
    """A maximum that is subtracted: of nothing it is -inf, and the difference would be of no use to a sum over it."""
    is_finite = isinstance(top, Map) and top.operation == "finite"
    return Map("finite", (top,)) if context.finite_tops and not is_finite else top

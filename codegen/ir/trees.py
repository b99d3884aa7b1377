"""Trees of nodes: what is in one, one with other children, and what a part of one is known to be.

Beside `codegen.ir.nodes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, overload

from codegen.ir.nodes import Contract, Literal, Map, Node, Option, Read, Select, View, nodes_in
from derive.language import Index


@lru_cache(maxsize=100_000)
def descendants(node: Node) -> frozenset[Node]:
    """The node and all that it is computed from."""
    return frozenset({node}).union(*map(descendants, node.children))


@lru_cache(maxsize=100_000)
def indices_of(node: Node) -> frozenset[Index]:
    """All indices that occur in the node or below it, summed ones included."""
    return frozenset(node.axes).union(*map(indices_of, node.children))


def flagged(condition: Node) -> tuple[Option | None, Node]:
    """(flag, condition) of a condition that counts only if a flag is set; (None, condition) of any other.

    The flag is known before any array is touched.
    """
    if isinstance(condition, Map) and condition.operation == "or":
        denied, inner = condition.operands
        if isinstance(denied, Map) and denied.operation == "not" and isinstance(denied.operands[0], Option):
            return denied.operands[0], inner
    return None, condition


def is_one_of_two(node: Node) -> bool:
    """Whether the node is one of two arrays of the same shape, which of them a number says: it is no new array."""
    if not isinstance(node, Select) or not node.condition.is_host or flagged(node.condition)[0] is not None:
        return False
    return isinstance(node.yes, (Read, View)) and isinstance(node.no, (Read, View)) and node.yes.axes == node.no.axes


def with_children(node: Node, children: Sequence[Node]) -> Node:
    """The node with other children, as many as it has; itself where they are the same."""
    if tuple(children) == node.children:
        return node
    rest = iter(children)
    fields = {name: getattr(node, name) for name in node.__dataclass_fields__}
    changed: dict[str, Any] = {}
    for name, value in fields.items():
        parts = tuple(islice(rest, len(nodes_in(value))))
        changed |= {name: parts[0] if isinstance(value, Node) else parts} if parts else {}
    return replace(node, **changed)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents first, repeats included."""
    yield node
    for child in node.children:
        yield from walk(child)


def sum_of_products(node: Node) -> tuple[Contract, ...]:
    """The terms of a sum of products of matrices, each with something of its own on both sides; of others, nothing.

    All have the same rows and the same columns, so that one can be added to another while it is computed.
    """
    if isinstance(node, Contract):
        return (node,) if node.left_only and node.right_only and not node.shared else ()
    if not isinstance(node, Map) or node.operation != "add":
        return ()
    sides = [sum_of_products(operand) for operand in node.operands]
    terms = tuple(term for side in sides for term in side)
    first = terms[0] if terms else None
    if first is None or not all(sides):
        return ()
    turned = [Contract(term.right, term.left, term.over) if term.axes != first.axes else term for term in terms]
    fits = all((t.left_only, t.right_only) == (first.left_only, first.right_only) for t in turned)
    return tuple(turned) if fits else ()


@overload
def fused(node: Map) -> Map: ...
@overload
def fused(node: Node) -> Node: ...
def fused(node: Node) -> Node:
    """The reciprocal of a square root as one operation; any other node as it is."""
    if isinstance(node, Map) and node.operation == "div" and node.operands[0] == Literal(1):
        below = node.operands[1]
        if isinstance(below, Map) and below.operation == "sqrt" and not below.is_host:
            return Map("rsqrt", below.operands)
    return node

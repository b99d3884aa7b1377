"""Sums that differ in the names of their summed indices alone are one value, and are computed once.

Between lowering and the sharing of values (`codegen.ir.sharing`), which knows equal nodes only. A derivative meets the
logsumexp of a row under one name and takes it under another; in

    Sum(exp(z[n, c]), c)   and   Sum(exp(z[n, c_2]), c_2)

nothing is different but a name that no one outside can see. The second is written as the first. So are products, sums
and contractions whose operands are swapped: a derivative has them in the order in which it met them. What differs in a
free index is another value, of another place. But what is summed may be an array that is there:

    x[n, c] - m[n]     beside     Sum((x[n, c_2] - m[n])^2, c_2)

has one difference and not two, once the sum is over c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.ir.insides import with_indices
from codegen.ir.nodes import Contract, Identity, Map, Node, Reduce, Scatter, View
from codegen.ir.sharing import Statement, hoisted, read_later, shrunk
from codegen.ir.trees import indices_of, walk, with_children
from derive.language import Index

COMMUTATIVE = frozenset({"mul", "add"})
OTHERS = (Identity, Scatter, View)  # nodes with indices that are not renamed


def shared(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
    """The statements that `kept` needs, each value no larger than it is, and computed once."""
    return hoisted(written_alike(with_arrays_at_hand(shrunk(read_later(statements, kept), kept))))


def with_arrays_at_hand(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with sums of what is also computed outside of them over the index that it has there."""
    outside: set[Node] = set()

    def look(node: Node, bound: frozenset[Index]) -> None:
        if isinstance(node, (Map, Contract)) and len(node.axes) > 1 and bound.isdisjoint(node.axes):
            outside.add(node)
        inside = bound.union(node.over) if isinstance(node, (Reduce, Contract)) else bound
        for child in node.children:
            look(child, inside)

    for statement in statements:
        look(statement.node, frozenset())
    places = sorted({index for node in outside for index in node.axes}, key=str)

    def renamed(node: Node) -> Node:
        if not isinstance(node, (Reduce, Contract)):
            return with_children(node, [renamed(child) for child in node.children])
        # Inside of another sum an index that is summed twice would be one in the loops and products made of both.
        inside = [inner for child in node.children for inner in walk(child)]
        if any(isinstance(inner, OTHERS) for inner in inside):
            return node
        taken = indices_of(node)
        for index in node.over:
            for place in places:
                if place.extent == index.extent and place not in taken:
                    made = with_indices(node, {index: place})
                    if any(part in outside and place in part.axes for part in walk(made)):
                        return made
        return node

    return [replace(statement, node=renamed(statement.node)) for statement in statements]


def written_alike(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with values that differ in names of summed indices, or in the order of two operands, as one."""
    first: dict[Node, Node] = {}

    def renamed(node: Node) -> Node:
        node = with_children(node, [renamed(child) for child in node.children])
        if isinstance(node, Map) and node.operation in COMMUTATIVE:
            return first.get(Map(node.operation, node.operands[::-1])) or first.setdefault(node, node)
        if not isinstance(node, (Reduce, Contract)) or any(isinstance(n, OTHERS) for n in walk(node)):
            return node
        names = {index: Index(f"summed_{place}", index.extent) for place, index in enumerate(node.over)}
        if set(names.values()) & set(node.axes):
            return node
        known = with_indices(node, names)
        swapped = Contract(known.right, known.left, known.over) if isinstance(known, Contract) else known
        return first[swapped] if swapped in first else first.setdefault(known, node)

    return [replace(statement, node=renamed(statement.node)) for statement in statements]

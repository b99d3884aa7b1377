"""Sums that differ in the names of their summed indices alone are one value, and are computed once.

Between lowering and the sharing of values (`codegen.ir.sharing`), which knows equal nodes only. A derivative meets the
logsumexp of a row under one name and takes it under another; in

    Sum(exp(z[n, c]), c)   and   Sum(exp(z[n, c_2]), c_2)

nothing is different but a name that no one outside can see. The second is written as the first. What differs in a free
index is another value, of another place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.ir.insides import with_indices
from codegen.ir.nodes import Contract, Identity, Node, Reduce, Scatter, View
from codegen.ir.sharing import Statement, hoisted, read_later, shrunk
from codegen.ir.trees import walk, with_children
from derive.language import Index

OTHERS = (Identity, Scatter, View)  # nodes with indices that are not renamed


def shared(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
    """The statements that `kept` needs, each value no larger than it is, and computed once."""
    return hoisted(written_alike(shrunk(read_later(statements, kept), kept)))


def written_alike(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with sums that differ in the names of their summed indices alone written in the same way."""
    first: dict[Node, Node] = {}

    def renamed(node: Node) -> Node:
        node = with_children(node, [renamed(child) for child in node.children])
        if not isinstance(node, (Reduce, Contract)) or any(isinstance(n, OTHERS) for n in walk(node)):
            return node
        names = {index: Index(f"summed_{place}", index.extent) for place, index in enumerate(node.over)}
        if set(names.values()) & set(node.axes):
            return node
        return first.setdefault(with_indices(node, names), node)

    return [replace(statement, node=renamed(statement.node)) for statement in statements]

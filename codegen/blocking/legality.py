"""What may be computed block by block: what needs, of all that a loop computes, the block at hand only.

Below `codegen.blocking.loops` and `codegen.blocking.tiles`, which decide what is. A sum over an index that is cut is
gathered from the sums over its parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.ir.nodes import Contract, Gather, Identity, Map, Node, Position, Read, Reduce, Scatter, View
from codegen.ir.sharing import Statement
from codegen.ir.trees import indices_of, walk
from derive.language import Index


def has_product(node: Node) -> bool:
    """Whether a product of matrices is computed for the node."""
    return any(isinstance(n, Contract) and n.left_only and n.right_only for n in walk(node))


def is_printable(statement: Statement, indices: set[Index]) -> bool:
    """Whether the statement can be computed for a block of rows: a scatter must be into the rows of the block."""
    for node in walk(statement.node):
        if isinstance(node, Identity) or (isinstance(node, Scatter) and node is not statement.node):
            return False
        if isinstance(node, Scatter):
            placed = zip(node.targets, node.positions, strict=True)
            if any(target in indices and position != Position(target) for target, position in placed):
                return False
    return True


def is_legal(statement: Statement, body: Sequence[Statement], indices: set[Index]) -> bool:
    """Whether the statement, for one value of the indices, needs what the body computes for that value only."""
    if reads_elsewhere(statement, body, indices):
        return False
    present = {index for node in walk(statement.node) for index in node.axes if index in indices}
    missing = present - set(statement.axes)
    if not present:
        return False
    if missing:
        return accumulates(statement.node, frozenset(missing))
    return not any(isinstance(node, (Reduce, Contract)) and indices & set(node.over) for node in walk(statement.node))


def reads_elsewhere(statement: Statement, body: Sequence[Statement], indices: set[Index]) -> bool:
    """Whether the statement, for one value of the indices, reads what the body computes for another."""
    axes = {other.name: other.axes for other in body}
    for node in walk(statement.node):
        if isinstance(node, Gather) and node.name in axes:
            return True
        if isinstance(node, (Read, View)) and node.name in axes:
            for own, used in zip(axes[node.name], node.axes, strict=True):
                if (own in indices or used in indices) and used != own:
                    return True
    return False


def accumulates(node: Node, over: frozenset[Index]) -> bool:
    """Whether the node is a sum over these indices, so that the sums over parts of their ranges add up to it.

    Inside a sum over one of them there may be no other sum over the same, such as that of a softmax: it would be in
    parts as well.
    """
    summed = over & set(node.over) if isinstance(node, (Reduce, Contract)) else frozenset()
    if any(summed & _summed(child) for child in node.children):
        return False
    if isinstance(node, Reduce) and node.operation == "sum":
        rest = over - set(node.over)
        return not rest or accumulates(node.operand, rest)
    if isinstance(node, Contract):
        rest = over - set(node.over)
        if not rest:
            return True
        sides = [side for side in node.children if rest & indices_of(side)]
        return len(sides) == 1 and accumulates(sides[0], rest)
    if isinstance(node, Map) and node.operation in ("neg", "add", "sub"):
        return all(accumulates(operand, over) for operand in node.operands)
    if isinstance(node, Map) and node.operation in ("mul", "div"):
        sides = [operand for operand in node.operands if over & indices_of(operand)]
        is_numerator = node.operation == "mul" or (bool(sides) and sides[0] is node.operands[0])
        return len(sides) == 1 and is_numerator and accumulates(sides[0], over)
    return False


def _summed(node: Node) -> set[Index]:
    """The indices that are summed, or reduced otherwise, somewhere in the node."""
    return {index for inner in walk(node) if isinstance(inner, (Reduce, Contract)) for index in inner.over}

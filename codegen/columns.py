"""Sums and narrow terms that could ride along in a product of arrays, as one more column of an operand.

A hook for schedules (`codegen.sweeps`) whose products are fast enough to make it worth an array with one more column:

    Sum_j(E[i,j] V[j,c]) and Sum_j(E[i,j])         are the columns of  E [V | 1]
    Sum_c(dO[i,c] V[j,c]) - D[i]                   is                  [dO | -D] [V | 1]^T

Nothing is rewritten here: a schedule that wants the form asks where it applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.nodes import Axes, Contract, Map, Node, Reduce, descendants
from codegen.sharing import Statement


@dataclass(frozen=True)
class SharedOperand:
    """An operand that is summed over the same indices by itself and in products with other arrays."""

    operand: Node
    over: Axes
    total: Reduce
    products: tuple[Contract, ...]


def shared_operands(statements: Sequence[Statement]) -> Iterator[SharedOperand]:
    """The operands of products whose own sum could be one more column of the other operand."""
    nodes = {node: None for statement in statements for node in sorted(descendants(statement.node), key=repr)}
    for total in nodes:
        if isinstance(total, Reduce) and total.operation == "sum":
            products = tuple(
                node for node in nodes
                if isinstance(node, Contract) and total.operand in node.children and set(node.over) == set(total.over)
                and node.left_only and node.right_only
            )  # fmt: skip
            if products:
                yield SharedOperand(total.operand, total.over, total, products)


@dataclass(frozen=True)
class ColumnTerm:
    """A product plus or minus a term that is constant along the indices of one operand alone."""

    product: Contract
    term: Node
    subtracted: bool


def column_term(node: Node) -> ColumnTerm | None:
    """The node as a product and a term that could be one more summed index of it; None where it is something else."""
    if not isinstance(node, Map) or node.operation not in ("add", "sub"):
        return None
    first, second = node.operands
    if isinstance(second, Contract) and node.operation == "add":
        first, second = second, first
    if not isinstance(first, Contract) or not first.left_only or not first.right_only:
        return None
    sides = [{*first.shared, *own} for own in (first.left_only, first.right_only)]
    fits = not second.is_host and any(set(second.axes) <= side for side in sides)
    return ColumnTerm(first, second, node.operation == "sub") if fits else None

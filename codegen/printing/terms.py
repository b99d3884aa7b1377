"""The terms of a sum: each with its sign, and as the product of a number and two arrays, where it is one.

Below `codegen.printing.calls`, which adds such products up by one call each where the library has one.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ir.nodes import Axes, Map, Node

Term = tuple[int, Node]  # of a sum: its sign, and what it is


@dataclass(frozen=True)
class Product:
    """A term of a sum: its sign, a number or none, and two arrays, the one that changes along a row first.

    One array will do where there is a number. Its array may have to be `computed`, into the memory of the sum.
    """

    sign: int
    hosts: tuple[Node, ...]
    factors: tuple[Node, ...]
    computed: bool = False

    @property
    def is_one_call(self) -> bool:
        """Whether one call computes it."""
        return len(self.hosts) + len(self.factors) == 2


def factors_of(node: Node) -> tuple[list[Node], list[Node]]:
    """The factors of a product, entry by entry: the numbers of the host, and the others."""
    if node.is_host:
        return [node], []
    if isinstance(node, Map) and node.operation == "square":
        return [], [*node.operands, *node.operands]
    if not isinstance(node, Map) or node.operation != "mul":
        return [], [node]
    sides = [factors_of(operand) for operand in node.operands]
    return [host for hosts, _ in sides for host in hosts], [factor for _, factors in sides for factor in factors]


def terms_of(node: Node, axes: Axes, sign: int = 1) -> list[Term]:
    """The terms of a sum over these axes with their signs, in the order in which they are added up."""
    if not isinstance(node, Map) or node.operation not in ("add", "sub") or set(node.axes) != set(axes):
        return [(sign, node)]
    left, right = node.operands
    return [*terms_of(left, axes, sign), *terms_of(right, axes, sign if node.operation == "add" else -sign)]

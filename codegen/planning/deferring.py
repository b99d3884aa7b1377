"""A divisor that a sum does not see divides the result: probabilities that nobody keeps are never normalised.

After `codegen.planning.schedule`'s sharing of values. Where a quotient e[i,j] / s[i] is read by products of arrays
alone, and none of them sums over i,

    Sum_j(e[i,j] / s[i] * V[j,c])  =  Sum_j(e[i,j] * V[j,c]) / s[i]

and the pass over all of e becomes one over the result. Of a value that is wanted, or saved, nothing is put off.

A quotient over nothing has no entries, and it is no matter what it is divided by; the product has some. There a sum of
exponentials of differences from their maximum, of which the largest is 1, is taken as 1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from codegen.algebra.costs import Sizes, entries
from codegen.blocking.scales import Bodies, resolved, shifted
from codegen.ir.nodes import Contract, Map, Node, Read, Reduce
from codegen.ir.sharing import Statement, reads
from codegen.ir.trees import with_children


def deferred(statements: Sequence[Statement], kept: Collection[str], sizes: Sizes) -> list[Statement]:
    """The statements with divisions put off until after the products that read the quotients."""
    result = list(statements)
    for statement in statements:
        if statement.name in kept or not is_quotient(statement):
            continue
        readers = [other for other in result if statement.name in reads(other.node)]
        if not readers or not all(isinstance(operand, Read) for operand in statement.node.children):
            continue
        moved = {other.name: _after(other.node, statement, sizes) for other in readers}
        if all(statement.name not in reads(changed) for changed in moved.values()):
            told = f"{statement.name} = {' / '.join(map(_name, statement.node.children))}, divided after the product"
            result = [
                replace(other, node=moved[other.name], because="; ".join(filter(None, (other.because, told))))
                if other.name in moved else other
                for other in result if other.name != statement.name
            ]  # fmt: skip
            bodies, divisor = {other.name: other for other in result}, _name(statement.node.children[1])
            result = [replace(s, node=one_over_nothing(s.node, bodies)) if s.name == divisor else s for s in result]
    return result


def one_over_nothing(node: Node, bodies: Bodies) -> Node:
    """A sum of exponentials of differences from their maximum as at least 1; any other node as it is."""
    is_such = isinstance(node, Reduce) and node.operation == "sum"
    if is_such and shifted(resolved(node.children[0], bodies), bodies) is not None:
        return Map("at_least_one", (node,))
    return node


def is_quotient(statement: Statement) -> bool:
    """Whether a statement divides every row of an array by a number of its own."""
    node = statement.node
    if not isinstance(node, Map) or node.operation != "div" or node.operands[1].is_host:
        return False
    return set(node.operands[1].axes) < set(statement.axes) == set(node.operands[0].axes)


def _name(node: Node) -> str:
    return node.name if isinstance(node, Read) else ""


def _after(node: Node, quotient: Statement, sizes: Sizes) -> Node:
    """The node with products that read the quotient divided afterwards, where that is less to divide."""
    node = with_children(node, [_after(child, quotient, sizes) for child in node.children])
    if not isinstance(node, Contract) or not isinstance(quotient.node, Map):
        return node
    for place, side in enumerate((node.left, node.right)):
        if isinstance(side, Read) and side.name == quotient.name:
            named = dict(zip(quotient.axes, side.where, strict=True))
            value, divisor = (
                Read(operand.name, tuple(named[index] for index in operand.where))
                for operand in quotient.node.operands if isinstance(operand, Read)
            )  # fmt: skip
            is_less = entries(node.axes).at(sizes) < entries(side.where).at(sizes)
            if is_less and not set(divisor.axes) & set(node.over):
                left, right = (value, node.right) if place == 0 else (node.left, value)
                return Map("div", (Contract(left, right, node.over), divisor))
    return node

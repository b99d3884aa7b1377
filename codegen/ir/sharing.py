"""Each value once, and no larger than it is: what can be said about statements without knowing where they come from.

Used by `codegen.planning.schedule`, fourth stage of the compiler, whose statements pass through here: those that
nothing reads are dropped, values that are constant along an index are stored without it, and equal subexpressions,
wherever they stand, become one named value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from codegen.backends.spelling import PASSES
from codegen.ir.nodes import (
    Axes,
    Contract,
    Gather,
    Identity,
    Literal,
    Map,
    Node,
    Option,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    Size,
    View,
)
from codegen.ir.trees import is_one_of_two, walk, with_children
from derive.language import Dim

TRIVIAL = (Read, Literal, Size, Option, Position)


@dataclass(frozen=True)
class Statement:
    """One named value: the node that computes it, its axes in order, and the formula that it comes from.

    `because` are the identities by which the node computes it in another way than the formula does.
    """

    name: str
    node: Node
    axes: Axes
    formula: str = ""
    because: str = ""


def read_later(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
    """The statements less those that nothing reads and nobody asks for."""
    read, result = set(kept), []
    for statement in reversed(statements):
        if statement.name in read:
            result.append(statement)
            read |= reads(statement.node)
    return result[::-1]


def reads(node: Node) -> set[str]:
    """The names that a node reads."""
    return {inner.name for inner in walk(node) if isinstance(inner, (Read, View, Gather))}


def shrunk(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
    """The statements with values that are constant along an index stored without it, but for those named in `kept`."""
    places: dict[str, list[int]] = {}

    def narrowed(node: Node) -> Node:
        if isinstance(node, Read) and node.name in places:
            return Read(node.name, tuple(node.where[place] for place in places[node.name]))
        if isinstance(node, Gather) and node.name in places:  # at a computed place of an axis that is gone
            left = tuple(narrowed(node.positions[place]) for place in places[node.name])
            return Gather(node.name, left) if left else Read(node.name, ())
        children = [narrowed(child) for child in node.children]
        if isinstance(node, Reduce):
            return _reduced(node.operation, children[0], node.over)
        if isinstance(node, Contract):
            return _contracted(children[0], children[1], node.over)
        return with_children(node, children)

    result: list[Statement] = []
    for statement in statements:
        node = narrowed(statement.node)
        axes = tuple(index for index in statement.axes if index in node.axes)
        if axes != statement.axes and statement.name not in kept:
            places[statement.name] = [statement.axes.index(index) for index in axes]
            statement = replace(statement, axes=axes)
        result.append(replace(statement, node=node))
    return result


def _reduced(operation: str, operand: Node, over: Axes) -> Node:
    """A reduction over indices some of which the operand no longer has: a sum of equal values is a multiple."""
    left = tuple(index for index in over if index in operand.axes)
    result = Reduce(operation, operand, left) if left else operand
    for index in over:
        if index not in left and operation != "max":
            extent = Size(index.extent) if isinstance(index.extent, Dim) else Literal(int(index.extent))
            result = Map("power", (result, extent)) if operation == "prod" else Map("mul", (extent, result))
    return result


def _contracted(left: Node, right: Node, over: Axes) -> Node:
    """A contraction whose operands may no longer have all of the indices that are summed."""
    both = tuple(index for index in over if index in left.axes and index in right.axes)
    neither = tuple(index for index in over if index not in left.axes and index not in right.axes)
    sides = []
    for side in (left, right):
        alone = tuple(index for index in over if index in side.axes and index not in both)
        sides.append(Reduce("sum", side, alone) if alone else side)
    product = Contract(sides[0], sides[1], both) if both else Map("mul", (sides[0], sides[1]))
    return _reduced("sum", product, neither)


COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
LABELS = {
    **dict.fromkeys(["exp", "exp_at", "exp_difference"], "exp"),
    **dict.fromkeys(["sum", "wide sum"], "sum"),
    **dict.fromkeys(["max", "maximum"], "top"), "prod": "prod",
    **dict.fromkeys([*sorted(COMPARISONS), "or", "and", "not"], "mask"),
}  # fmt: skip


def hoisted(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with every value that is used twice computed once, under a name of its own."""
    uses: dict[Node, int] = {}
    seen: set[Node] = set()

    def count(node: Node) -> None:
        uses[node] = uses.get(node, 0) + 1
        if node not in seen:
            seen.add(node)
            for child in node.children:
                count(child)

    for statement in statements:
        count(statement.node)
    taken = {statement.name for statement in statements}.union(*(reads(statement.node) for statement in statements))
    named: dict[Node, Read] = {}
    result: list[Statement] = []
    for statement in statements:

        def place(node: Node, statement: Statement = statement) -> Node:
            if node in named:
                return named[node]
            rebuilt = with_children(node, [place(child) for child in node.children])
            if isinstance(node, TRIVIAL) or node.is_host or is_one_of_two(rebuilt) or node is statement.node:
                return rebuilt
            if uses[node] < 2 and not _wants_name(node):
                return rebuilt
            name = fresh_name(f"{statement.name}_{label(node)}", taken)
            result.append(Statement(name, rebuilt, rebuilt.axes))
            named[node] = Read(name, rebuilt.axes)
            return named[node]

        root = place(statement.node)
        result.append(replace(statement, node=root))
        if not isinstance(root, (*TRIVIAL, Scatter)) and set(root.axes) == set(statement.axes):
            named.setdefault(statement.node, Read(statement.name, statement.axes))
    return result


def _wants_name(node: Node) -> bool:
    """Whether a value is too much to read inside another expression: a product that regroups axes, a mask."""
    if isinstance(node, Contract):
        return len(node.left_only) > 1 or len(node.right_only) > 1
    if isinstance(node, Map) and node.operation in PASSES:
        return len(node.operands) > 2  # a call that has a polynomial among its arguments
    return isinstance(node, Map) and node.operation in COMPARISONS and len(node.axes) > 1


def label(node: Node) -> str:
    """A word for the value of a node, to be part of a name."""
    if isinstance(node, Select):
        return "masked"
    if isinstance(node, Identity):
        return "eye"
    if isinstance(node, Contract):
        return "product" if node.left_only and node.right_only else "sum"
    if isinstance(node, Map) and node.operation in ("finite", "at_least_one", "positive"):
        return label(node.operands[0])
    operation = getattr(node, "operation", "part")
    return LABELS.get(operation, "part")


def fresh_name(stem: str, taken: set[str]) -> str:
    """The stem, or the stem with a number, that is not taken; it is afterwards."""
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name


def fresh_defined_name(stem: str, taken: set[str]) -> str:
    """The same for a definition: the name of its adjoint is not taken either."""
    name = fresh_name(stem, taken | {known[1:] for known in taken if known.startswith("d")})
    taken |= {name, f"d{name}"}
    return name

"""The body of a loop taken apart, so that each operation on a wide value is a statement of its own.

Stage 5a of the compiler, before `codegen.blocking.tiles` and `codegen.printing.blocks`. A *wide* value has two axes or
more, one of which is not cut into blocks: it needs memory of its own. What is reduced, multiplied or broadcast inside
an expression becomes a value with a name; narrow values (one number a row) stay expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from codegen.blocking.loops import Loop
from codegen.ir.insides import is_condition, peeled
from codegen.ir.nodes import Axes, Contract, Gather, Map, Node, Position, Read, Reduce, Scatter, Select, View
from codegen.ir.sharing import Statement, fresh_name, label, reads
from codegen.ir.trees import is_one_of_two, walk, with_children
from derive.language import Index

LEAVES = (Read, View, Position, Gather)


@dataclass(frozen=True)
class Setting:
    """What stands around the statements of a body: the loop, and the outer indices that run over several values.

    In a `bounded` body every argument of an exponential has a bound below which none overflows.
    """

    loop: Loop
    lots: Axes = ()
    bounded: bool = False

    @cached_property
    def blocked(self) -> frozenset[Index]:
        """The indices that run over the block at hand."""
        return frozenset({self.loop.row, *self.lots})

    @cached_property
    def indices(self) -> frozenset[Index]:
        """The indices that have one value."""
        return frozenset(self.loop.outer) - self.blocked

    @cached_property
    def kept(self) -> frozenset[str]:
        """The names of whole arrays, of which a body sees a block."""
        return frozenset({*self.loop.stored, *self.loop.accumulated})

    def is_wide(self, axes: Axes) -> bool:
        """Whether a value with these axes is more than a number for each row, or what a loop over entries is about."""
        if self.loop.is_flat:
            return self.loop.row in axes
        return len(axes) >= 2 and not self.blocked.issuperset(axes)

    def is_text(self, node: Node) -> bool:
        """Whether the value is an expression in a call, and needs no memory of its own."""
        is_read = isinstance(node, LEAVES) or node.is_host or is_condition(node) or is_one_of_two(node)
        return is_read or not self.is_wide(node.axes)


def apart(setting: Setting, taken: set[str], *, products_first: bool = False) -> list[Statement]:
    """The statements of the body in pieces, in the order in which they are computed.

    What is added to an accumulated array without a product of matrices is computed as soon as it can be: its operands
    are in the cache then, and their memory is free the sooner. With `products_first` a sum of products entry by entry
    is a product with a name, so that it has memory, and a sum.
    """
    made: list[Statement] = []
    for statement in setting.loop.body:
        if products_first and not setting.loop.has_products:
            statement = replace(statement, node=_multiplied_first(statement.node))
        pieces, place = _pieces(statement, setting, taken), len(made)
        if statement.name in setting.loop.accumulated and not setting.loop.has_products:
            needed = set().union(*(reads(piece.node) for piece in pieces))
            place = max((k + 1 for k, other in enumerate(made) if other.name in needed), default=place)
        made[place:place] = pieces
    return made


def _multiplied_first(node: Node) -> Node:
    """The node with sums of products entry by entry as sums of what is multiplied before; sums of squares are norms."""
    node = with_children(node, [_multiplied_first(child) for child in node.children])
    if not isinstance(node, Contract) or set(node.left.axes) != set(node.right.axes) or len(node.left.axes) < 2:
        return node
    is_square = node.left == node.right and isinstance(node.left, LEAVES)
    return node if is_square else Reduce("sum", Map("mul", node.children), node.over)


def _pieces(statement: Statement, setting: Setting, taken: set[str]) -> list[Statement]:
    """The statement after those of what is reduced, contracted or broadcast inside it."""
    local = frozenset(other.name for other in setting.loop.body) - setting.kept
    node = peeled(statement.node, setting.indices, local)
    axes = tuple(index for index in statement.axes if index not in setting.indices)
    made: list[Statement] = []

    def named(part: Node) -> Node:
        if isinstance(part, LEAVES) or part.is_host:
            return part
        name = fresh_name(f"{statement.name}_{label(part)}", taken)
        made.append(Statement(name, opened(part), part.axes))
        return Read(name, part.axes)

    def opened(part: Node) -> Node:
        if isinstance(part, (Reduce, Contract)):
            return with_children(part, [named(child) for child in part.children])
        if isinstance(part, Select):
            return Select(part.condition, inside(part.yes, part), inside(part.no, part))
        if isinstance(part, Scatter):
            base = () if part.base is None else (opened(part.base),)
            return with_children(part, [*part.positions, opened(part.value), *base])
        return with_children(part, [inside(child, part) for child in part.children])

    def inside(child: Node, parent: Node) -> Node:
        if child.is_host or isinstance(child, LEAVES) or is_condition(child):
            return child
        same = set(child.axes) == set(parent.axes)
        if setting.is_wide(parent.axes) and not setting.is_wide(child.axes):
            return named(child) if any(isinstance(n, (Reduce, Contract)) for n in walk(child)) else child
        if setting.is_wide(child.axes) and (not same or isinstance(child, (Reduce, Scatter))):
            return named(child)
        return opened(child)

    root = opened(node)
    return [*made, replace(statement, node=root, axes=axes)]

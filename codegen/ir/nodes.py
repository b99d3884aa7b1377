"""The kernel IR: a short list of array operations over named axes.

What the stages of the compiler hand on. `codegen.lowering.rules` turns the body of a definition into a tree of these
nodes, `codegen.planning.schedule` turns the trees of a program into statements, and a backend prints them. A node knows
its axes by *index*, not by position, so alignment and transposition are decided once, when it is printed.

Nodes are frozen and compare by structure; equal nodes are the same value and are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, dataclass_transform

from sympy import Expr

from derive.language import Index

Axes = tuple[Index, ...]


@dataclass(frozen=True)
class Node:
    """An array-valued operation. `axes` are the indices of the result, in the order in which it is laid out."""

    @property
    def axes(self) -> Axes:
        """The indices of the result."""
        raise TypeError(f"{type(self).__name__}: every kind of node says its axes")

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes it is computed from, in the order of its fields."""
        return tuple(part for name in self.__dataclass_fields__ for part in nodes_in(getattr(self, name)))

    @property
    def is_host(self) -> bool:
        """Whether the value is a plain Python number (a literal, a size, a scalar option), not an array."""
        return False

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, *(getattr(self, name) for name in self.__dataclass_fields__)))

    def __hash__(self) -> int:
        return self._hash


def nodes_in(value: Any) -> tuple[Node, ...]:
    """The nodes that a field holds: one, several, or none."""
    if isinstance(value, Node):
        return (value,)
    return value if isinstance(value, tuple) and value and isinstance(value[0], Node) else ()


Kind = TypeVar("Kind", bound=Node)


@dataclass_transform(frozen_default=True)
def kind_of_node(kind: type[Kind]) -> type[Kind]:
    """The class as a frozen dataclass, hashed as nodes are: once, and not anew with all that is below."""
    made = dataclass(frozen=True)(kind)
    made.__hash__ = Node.__hash__  # type: ignore[method-assign]
    return made


@kind_of_node
class HostLeaf(Node):
    """A number that is known before any array is touched."""

    @property
    def axes(self) -> Axes:
        return ()

    @property
    def is_host(self) -> bool:
        return True


@kind_of_node
class Literal(HostLeaf):
    """A rational number, or a constant, by name or in digits, with the sign of the numerator."""

    numerator: int
    denominator: int = 1
    constant: str = ""


@kind_of_node
class Size(HostLeaf):
    """The extent of an index, known when the kernel runs."""

    extent: Expr


@kind_of_node
class Option(HostLeaf):
    """A scalar or flag that the caller passes."""

    name: str


@kind_of_node
class Read(Node):
    """A named array at its own indices, laid out in their order."""

    name: str
    where: Axes

    @property
    def axes(self) -> Axes:
        return self.where


@kind_of_node
class Named(Read):
    """A number that has a name in the kernel, and is a number all the same: no array was touched to compute it."""

    @property
    def is_host(self) -> bool:
        return True


@kind_of_node
class View(Node):
    """A named array inside a loop: the indices in `fixed` have one value there, and are no axes of what is seen."""

    name: str
    where: Axes
    fixed: Axes

    @property
    def axes(self) -> Axes:
        return tuple(index for index in self.where if index not in self.fixed)


@kind_of_node
class Counter(HostLeaf):
    """The one value that an index has inside a loop."""

    index: Index


@kind_of_node
class Position(Node):
    """The value of an index: 0, 1, ..., extent - 1 along its own axis.

    As a part of a computed position it is a `whole` number; else a number of the kernel's type.
    """

    index: Index
    whole: bool = False

    @property
    def axes(self) -> Axes:
        return (self.index,)


@kind_of_node
class Identity(Node):
    """The identity matrix over two indices of one range: 1 where they agree, else 0."""

    row: Index
    column: Index

    @property
    def axes(self) -> Axes:
        return self.row, self.column


def merged_axes(nodes: tuple[Node, ...]) -> Axes:
    """All indices of the nodes, each once: those of the node with most of them first, the rest where they are met."""
    order: list[Index] = []
    for node in sorted(nodes, key=lambda node: -len(node.axes)):
        order += [index for index in node.axes if index not in order]
    return tuple(order)


@kind_of_node
class Map(Node):
    """An elementwise operation; the operands are broadcast against each other by index."""

    operation: str
    operands: tuple[Node, ...]

    @cached_property
    def _axes(self) -> Axes:
        return merged_axes(self.operands)

    @property
    def axes(self) -> Axes:
        return self._axes

    @property
    def is_host(self) -> bool:
        return all(operand.is_host for operand in self.operands)


@kind_of_node
class Select(Node):
    """`yes` where the condition holds, else `no`: a selection, so that what is not taken may be infinite."""

    condition: Node
    yes: Node
    no: Node

    @cached_property
    def _axes(self) -> Axes:
        return merged_axes(self.children)

    @property
    def axes(self) -> Axes:
        return self._axes

    @property
    def is_host(self) -> bool:
        return all(child.is_host for child in self.children)


@kind_of_node
class Reduce(Node):
    """The sum, the product or the maximum over some indices."""

    operation: str
    operand: Node
    over: Axes

    @property
    def axes(self) -> Axes:
        return tuple(index for index in self.operand.axes if index not in self.over)


@kind_of_node
class Contract(Node):
    """The sum over some indices of a product of two arrays; each of these indices is in both.

    `over` is in the order of the right operand's axes, so that a group of summed axes is flattened without a copy
    there.
    """

    left: Node
    right: Node
    over: Axes

    @property
    def shared(self) -> Axes:
        """Indices of both operands that stay."""
        return tuple(i for i in self.left.axes if i in self.right.axes and i not in self.over)

    @property
    def left_only(self) -> Axes:
        """Indices of the left operand alone."""
        return tuple(i for i in self.left.axes if i not in self.right.axes)

    @property
    def right_only(self) -> Axes:
        """Indices of the right operand alone."""
        return tuple(i for i in self.right.axes if i not in self.left.axes)

    @property
    def axes(self) -> Axes:
        return (*self.shared, *self.left_only, *self.right_only)


@kind_of_node
class Gather(Node):
    """Entries of a named array at positions that are themselves arrays (a look-up) or indices."""

    name: str
    positions: tuple[Node, ...]

    @cached_property
    def _axes(self) -> Axes:
        order: list[Index] = []
        for node in self.positions:
            order += [index for index in node.axes if index not in order]
        return tuple(order)

    @property
    def axes(self) -> Axes:
        return self._axes


@kind_of_node
class Scatter(Node):
    """An array over `targets`, zero but for `value` added at the given positions, as often as a position occurs.

    `positions` has one node for each target index: a look-up where a delta stood, else the position of that index.
    """

    targets: Axes
    positions: tuple[Node, ...]
    value: Node
    base: Node | None = None

    @property
    def axes(self) -> Axes:
        return self.targets

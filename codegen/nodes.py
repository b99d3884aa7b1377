"""The kernel IR: a short list of array operations over named axes.

What the stages of the compiler hand on. `codegen.lowering` turns the body of a definition into a tree of these nodes,
`codegen.schedule` turns the trees of a program into statements, and a backend prints them. A node knows its axes by
*index*, not by position, so alignment and transposition are decided once, when it is printed.

Nodes are frozen and compare by structure; equal nodes are the same value and are computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from sympy import Expr

from codegen.errors import KernelError
from derive.language import Index

Axes = tuple[Index, ...]


@dataclass(frozen=True)
class Node:
    """An array-valued operation. `axes` are the indices of the result, in the order in which it is laid out."""

    @property
    def axes(self) -> Axes:
        """The indices of the result."""
        raise TypeError(f"{type(self).__name__}: every kind of node says its axes")

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes it is computed from."""
        return ()

    @property
    def is_host(self) -> bool:
        """Whether the value is a plain Python number (a literal, a size, a scalar option), not an array."""
        return False

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, *(getattr(self, name) for name in self.__dataclass_fields__)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class HostLeaf(Node):
    """A number that is known before any array is touched."""

    @property
    def axes(self) -> Axes:
        return ()

    @property
    def is_host(self) -> bool:
        return True


@dataclass(frozen=True)
class Literal(HostLeaf):
    """A rational number, or a constant, by name or in digits, with the sign of the numerator."""

    numerator: int
    denominator: int = 1
    constant: str = ""
    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Size(HostLeaf):
    """The extent of an index, known when the kernel runs."""

    extent: Expr
    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Option(HostLeaf):
    """A scalar or flag that the caller passes."""

    name: str
    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Read(Node):
    """A named array at its own indices, laid out in their order."""

    name: str
    where: Axes
    __hash__ = Node.__hash__

    @property
    def axes(self) -> Axes:
        return self.where


@dataclass(frozen=True)
class Named(Read):
    """A number that has a name in the kernel, and is a number all the same: no array was touched to compute it."""

    __hash__ = Node.__hash__

    @property
    def is_host(self) -> bool:
        return True


@dataclass(frozen=True)
class View(Node):
    """A named array inside a loop: the indices in `fixed` have one value there, and are no axes of what is seen."""

    name: str
    where: Axes
    fixed: Axes
    __hash__ = Node.__hash__

    @property
    def axes(self) -> Axes:
        return tuple(index for index in self.where if index not in self.fixed)


@dataclass(frozen=True)
class Counter(HostLeaf):
    """The one value that an index has inside a loop."""

    index: Index
    __hash__ = Node.__hash__


@dataclass(frozen=True)
class Position(Node):
    """The value of an index: 0, 1, ..., extent - 1 along its own axis."""

    index: Index
    __hash__ = Node.__hash__

    @property
    def axes(self) -> Axes:
        return (self.index,)


@dataclass(frozen=True)
class Identity(Node):
    """The identity matrix over two indices of one range: 1 where they agree, else 0."""

    row: Index
    column: Index
    __hash__ = Node.__hash__

    @property
    def axes(self) -> Axes:
        return self.row, self.column


def merged_axes(nodes: tuple[Node, ...]) -> Axes:
    """All indices of the nodes, each once: those of the node with most of them first, the rest where they are met."""
    order: list[Index] = []
    for node in sorted(nodes, key=lambda node: -len(node.axes)):
        order += [index for index in node.axes if index not in order]
    return tuple(order)


@dataclass(frozen=True)
class Map(Node):
    """An elementwise operation; the operands are broadcast against each other by index."""

    operation: str
    operands: tuple[Node, ...]
    __hash__ = Node.__hash__

    @cached_property
    def _axes(self) -> Axes:
        return merged_axes(self.operands)

    @property
    def axes(self) -> Axes:
        return self._axes

    @property
    def children(self) -> tuple[Node, ...]:
        return self.operands

    @property
    def is_host(self) -> bool:
        return all(operand.is_host for operand in self.operands)


@dataclass(frozen=True)
class Select(Node):
    """`yes` where the condition holds, else `no`: a selection, so that what is not taken may be infinite."""

    condition: Node
    yes: Node
    no: Node
    __hash__ = Node.__hash__

    @cached_property
    def _axes(self) -> Axes:
        return merged_axes(self.children)

    @property
    def axes(self) -> Axes:
        return self._axes

    @property
    def children(self) -> tuple[Node, ...]:
        return self.condition, self.yes, self.no

    @property
    def is_host(self) -> bool:
        return all(child.is_host for child in self.children)


@dataclass(frozen=True)
class Reduce(Node):
    """The sum, the product or the maximum over some indices."""

    operation: str
    operand: Node
    over: Axes
    __hash__ = Node.__hash__

    @property
    def axes(self) -> Axes:
        return tuple(index for index in self.operand.axes if index not in self.over)

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Contract(Node):
    """The sum over some indices of a product of two arrays; each of these indices is in both.

    `over` is in the order of the right operand's axes, so that a group of summed axes is flattened without a copy
    there.
    """

    left: Node
    right: Node
    over: Axes
    __hash__ = Node.__hash__

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

    @property
    def children(self) -> tuple[Node, ...]:
        return self.left, self.right


@dataclass(frozen=True)
class Gather(Node):
    """Entries of a named array at positions that are themselves arrays (a look-up) or indices."""

    name: str
    positions: tuple[Node, ...]
    __hash__ = Node.__hash__

    @cached_property
    def _axes(self) -> Axes:
        order: list[Index] = []
        for node in self.positions:
            order += [index for index in node.axes if index not in order]
        return tuple(order)

    @property
    def axes(self) -> Axes:
        return self._axes

    @property
    def children(self) -> tuple[Node, ...]:
        return self.positions


@dataclass(frozen=True)
class Scatter(Node):
    """An array over `targets`, zero but for `value` added at the given positions, as often as a position occurs.

    `positions` has one node for each target index: a look-up where a delta stood, else the position of that index.
    """

    targets: Axes
    positions: tuple[Node, ...]
    value: Node
    base: Node | None = None
    __hash__ = Node.__hash__

    @property
    def axes(self) -> Axes:
        return self.targets

    @property
    def children(self) -> tuple[Node, ...]:
        return (*self.positions, self.value, *(() if self.base is None else (self.base,)))


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


def with_children(node: Node, children: Sequence[Node]) -> Node:
    """The node with other children; itself where they are the ones it has."""
    if tuple(children) == node.children:
        return node
    if isinstance(node, Map):
        return Map(node.operation, tuple(children))
    if isinstance(node, Select):
        return Select(*children)
    if isinstance(node, Reduce):
        return Reduce(node.operation, children[0], node.over)
    if isinstance(node, Contract):
        return Contract(children[0], children[1], node.over)
    if isinstance(node, Gather):
        return Gather(node.name, tuple(children))
    if isinstance(node, Scatter):
        count = len(node.positions)
        base = children[count + 1] if node.base is not None else None
        return Scatter(node.targets, tuple(children[:count]), children[count], base)
    raise KernelError(f"{type(node).__name__}: a leaf has no children")


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

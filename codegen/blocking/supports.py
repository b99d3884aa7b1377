"""Index sets: where a value is certain to be zero, and so which part of a range a block of rows has to visit.

Used by loop blocking (`codegen.blocking.loops`). A condition such as j <= i enters a kernel as a selection: -inf before
an exponential, 0 elsewhere. From there it spreads: exp(-inf) is 0, a product with a factor 0 is 0. If everything that
is summed over j vanishes where a condition fails, a block of rows needs only the j for which the condition can hold, an
interval that follows from the ends of the block:

    j <= i     ->  j < i.stop                    i - j < w  ->  j > i.start - w

Conditions are kept as sets of conjuncts. A conjunct may wait for a flag of the caller: not causal, or j <= i.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from codegen.ir.nodes import Axes, Contract, Gather, Literal, Map, Node, Option, Position, Read, Reduce, Scatter, Select
from codegen.ir.sharing import Statement
from codegen.ir.trees import flagged, indices_of, walk
from codegen.lowering.context import ZERO
from derive.language import Index

Conjuncts = frozenset[Node]
NONE: Conjuncts = frozenset()


@dataclass(frozen=True)
class Support:
    """Where a named value is certain to be 0, and where -inf: outside each of the conjuncts."""

    axes: Axes
    zero: Conjuncts = NONE
    bottom: Conjuncts = NONE


Supports = Mapping[str, Support]


def supports_of(statements: Iterable[Statement], known: Supports) -> dict[str, Support]:
    """The supports of the statements, beside those that are known."""
    found = dict(known)
    for statement in statements:
        zero, bottom = vanishes(statement.node, found), is_bottom(statement.node, found)
        found[statement.name] = Support(statement.axes, zero, bottom)
    return found


def conjuncts(condition: Node) -> Conjuncts:
    """The conditions that must hold together; not f, or (a and b) is (not f, or a) and (not f, or b)."""
    if isinstance(condition, Map) and condition.operation == "and":
        return conjuncts(condition.operands[0]) | conjuncts(condition.operands[1])
    if isinstance(condition, Map) and condition.operation == "or":
        flag, inner = condition.operands
        parts = conjuncts(inner)
        return frozenset(Map("or", (flag, part)) for part in parts) if len(parts) > 1 else frozenset({condition})
    return frozenset({condition})


def vanishes(node: Node, known: Supports) -> Conjuncts:
    """The conditions outside of which the value is 0."""
    if isinstance(node, Read):
        return _of_name(node, known, bottom=False)
    if isinstance(node, Select):
        taken = conjuncts(node.condition) if node.no == ZERO else NONE
        both = vanishes(node.yes, known) & vanishes(node.no, known)
        return taken | vanishes(node.yes, known) if node.no == ZERO else both
    if isinstance(node, Contract):
        # A factor that vanishes takes the product with it; what is said of a summed index is not about the result.
        parts = vanishes(node.left, known) | vanishes(node.right, known)
        return frozenset(part for part in parts if indices_of(part) <= set(node.axes))
    if isinstance(node, Map):
        return _of_map(node, known)
    return NONE


def _of_map(node: Map, known: Supports) -> Conjuncts:
    operation, operands = node.operation, node.operands
    if operation in ("exp", "exp_difference"):
        return is_bottom(operands[0], known)
    if operation == "mul":
        return vanishes(operands[0], known) | vanishes(operands[1], known)
    if operation in ("div", "neg", "square", "sqrt", "tanh"):
        return vanishes(operands[0], known)
    if operation in ("add", "sub"):
        return vanishes(operands[0], known) & vanishes(operands[1], known)
    return NONE


def is_bottom(node: Node, known: Supports) -> Conjuncts:
    """The conditions outside of which the value is -inf."""
    if isinstance(node, Read):
        return _of_name(node, known, bottom=True)
    if isinstance(node, Select) and node.no == Literal(-1, 1, "inf"):
        return conjuncts(node.condition) | is_bottom(node.yes, known)
    if isinstance(node, Map) and node.operation in ("add", "sub"):
        return is_bottom(node.operands[0], known)
    return NONE


def _of_name(node: Read, known: Supports, *, bottom: bool) -> Conjuncts:
    support = known.get(node.name)
    if support is None or support.axes != node.where:
        return NONE
    return support.bottom if bottom else support.zero


# ---------------------------------------------------------------------------------------------------------------------
# Ranges. A conjunct that is linear in the row index and another one is one end of an interval.


@dataclass(frozen=True)
class End:
    """One end of the range of an index: index <= bound (or <), or index >= bound (or >).

    The bound is sign * row + rest, where `rest` is known on the host; with a flag it holds only when the flag is set.
    """

    index: Index
    upper: bool
    strict: bool
    sign: int
    rest: tuple[tuple[int, Node], ...]
    condition: Node
    flag: Option | None = None


@dataclass(frozen=True)
class Linear:
    """A sum of indices, each with its coefficient, and of host values."""

    indices: Mapping[Index, int] = field(default_factory=dict)
    rest: tuple[tuple[int, Node], ...] = ()


def _linear(node: Node) -> Linear | None:
    if isinstance(node, Position):
        return Linear({node.index: 1})
    if node.is_host:
        return Linear({}, ((1, node),))
    if isinstance(node, Map) and node.operation in ("add", "sub", "neg"):
        parts = [_linear(operand) for operand in node.operands]
        signs = (-1,) if node.operation == "neg" else (1, 1 if node.operation == "add" else -1)
        indices: dict[Index, int] = {}
        rest: list[tuple[int, Node]] = []
        for sign, part in zip(signs, parts, strict=True):
            if part is None:
                return None
            for index, coefficient in part.indices.items():
                indices[index] = indices.get(index, 0) + sign * coefficient
            rest += [(sign * coefficient, value) for coefficient, value in part.rest]
        return Linear({index: c for index, c in indices.items() if c}, tuple(rest))
    return None


FLIPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def ends(condition: Node, row: Index) -> list[End]:
    """The ends that a conjunct puts to the range of an index, for a block of rows; none if it is no such condition."""
    flag, inner = flagged(condition)
    if not (isinstance(inner, Map) and inner.operation in FLIPPED):
        return []
    difference = _linear(Map("sub", inner.operands))
    if difference is None:
        return []
    others = [index for index in difference.indices if index != row]
    along = difference.indices.get(row, 0)
    if len(others) != 1 or abs(difference.indices[others[0]]) != 1 or abs(along) > 1:
        return []
    (index,) = others
    sign = difference.indices[index]  # sign * index + along * row + rest  <operation>  0
    operation = inner.operation if sign > 0 else FLIPPED[inner.operation]
    rest = tuple((-sign * coefficient, value) for coefficient, value in difference.rest)
    upper, strict = operation in ("lt", "le"), operation in ("lt", "gt")
    return [End(index, upper, strict, -sign * along, rest, condition, flag)]


def ranges(
    body: Sequence[Statement], row: Index, stored: Mapping[str, Axes], known: Supports, outer: Axes = ()
) -> dict[Index, tuple[End, ...]]:
    """For each index whose range a block of rows can restrict, the ends that may be put to it.

    Every value that is summed over the index, and every stored one that has it, must vanish outside. The outer indices
    of a loop have one value in a block, and no range.
    """
    supports = supports_of(body, known)
    barred: set[Index] = set()
    common: dict[Index, Conjuncts | None] = {}

    def meet(index: Index, found: Conjuncts) -> None:
        before = common.get(index)
        common[index] = found if before is None else before & found

    local = {statement.name: statement.axes for statement in body}
    for statement in body:
        for node in walk(statement.node):
            if isinstance(node, Read) and local.get(node.name, node.where) != node.where:
                barred |= {*local[node.name], *node.where}  # read at other places than those that are computed
            if isinstance(node, (Scatter, Gather)):
                barred |= {index for part in node.children for index in part.axes}
            elif isinstance(node, Contract):
                gone = vanishes(node.left, supports) | vanishes(node.right, supports)
                for index in (*node.over, *(node.axes if row in node.over else ())):
                    meet(index, gone)
            elif isinstance(node, Reduce):
                gone = (is_bottom if node.operation == "max" else vanishes)(node.operand, supports)
                for index in (*node.over, *(node.axes if row in node.over else ())):
                    meet(index, gone if node.operation != "prod" else NONE)
        if statement.name in stored:
            for index in statement.axes:
                meet(index, supports[statement.name].zero)
    found: dict[Index, tuple[End, ...]] = {}
    for index, conditions in common.items():
        known_ends = [end for part in sorted(conditions or NONE, key=repr) for end in ends(part, row)]
        usable = tuple(end for end in known_ends if end.index == index)
        if usable and index not in (*barred, *outer, row):
            found[index] = usable
    return found

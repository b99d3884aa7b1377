"""Tiles: inside one block of rows, the long index that its products sum over is cut into pieces as well.

Stage 5b of the compiler, between `codegen.blocking.pieces` and `codegen.printing.blocks`. A block of rows as wide as a
long array is high only if it is large. Where the values with the long index are used up in sums over it, they need not
be there at once:

    before:  what the tiles need and does not have the index
    for each tile of the index:
        inside:  values of the tile; a tile of a stored array; parts of sums over the index
    after:   what is computed from the finished sums

This is legal where nothing inside reads a finished sum, and decided as for rows (`codegen.blocking.loops`). One sum may
be read before its end, the maximum m that is taken away before an exponential. If all that the exponential enters are
sums,

    Sum_j(exp(x_j - m) y_j) = exp(m' - m) Sum_j(exp(x_j - m') y_j)

holds for whatever scale m' the sum has been gathered with (derive/library/online_softmax.py proves the merge), and what
was gathered so far is brought to the new maximum before a tile is added. A value that is kept has no second scale: then
the block keeps its whole rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.blocking.legality import accumulates, reads_elsewhere
from codegen.blocking.pieces import Setting
from codegen.ir.nodes import Contract, Gather, Map, Node, Read, Reduce, Scatter, Select, View
from codegen.ir.sharing import Statement, fresh_name, read_later
from codegen.ir.trees import indices_of, walk, with_children
from codegen.lowering.context import ZERO
from derive.language import Index

MERGE = "Sum_j(exp(x - m)*y) = exp(m' - m)*Sum_j(exp(x - m')*y)"


@dataclass(frozen=True)
class Top:
    """A running maximum, the factor between its old value and its new one, and the sums that are brought to it.

    What is -inf, a row of which nothing was met so far, counts as the least number. `is_finite` says that it has been
    raised to that already; else its readers do it.
    """

    name: str
    factor: str
    sums: tuple[str, ...]
    is_finite: bool


@dataclass(frozen=True)
class Tiling:
    """The statements of a body by their place: before, inside and after the loop over the tiles of an index.

    Of those inside, `sums` are gathered over the tiles, and each of `tops` is a running maximum.
    """

    index: Index
    before: tuple[Statement, ...]
    inside: tuple[Statement, ...]
    after: tuple[Statement, ...]
    sums: frozenset[str]
    tops: Mapping[str, Top]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All of them, in order."""
        return (*self.before, *self.inside, *self.after)

    @property
    def span(self) -> range:
        """The places of those inside."""
        return range(len(self.before), len(self.before) + len(self.inside))

    @property
    def lasting(self) -> frozenset[str]:
        """The values that one tile hands to the next."""
        return self.sums | self.tops.keys()


def tiled(statements: Sequence[Statement], index: Index, setting: Setting, taken: set[str]) -> Tiling | None:
    """The body with the index cut into tiles; None where a tile would need what the others compute."""
    names = set(taken)  # of an attempt that fails none is used up
    split = [piece for statement in statements for piece in _split(statement, index, setting, names)]
    totals = {s.name: s.node for s in split if index in indices_of(s.node) and index not in s.axes}
    rest = [s for s in split if s.name not in totals]
    if any(isinstance(n, (Gather, Scatter)) and index in indices_of(n) for s in split for n in walk(s.node)):
        return None
    if any(reads_elsewhere(s, split, {index}) for s in split):
        return None
    late = _depending(rest, set(totals), index)
    first = tuple(s for s in rest if index not in s.axes and s.name not in late)
    last = tuple(s for s in rest if s.name in late)
    inside = tuple(s for s in split if s.name in totals or index in s.axes)
    sums = {name for name, node in totals.items() if not _is_maximum(node)}
    if any(setting.is_wide(node.axes) for name, node in totals.items() if name not in sums):
        return None  # a running maximum is a number for each row
    if not all(accumulates(s.node, frozenset({index})) for s in inside if s.name in sums):
        return None
    if not any(isinstance(totals[name], Contract) for name in sums):
        return None  # nothing that is computed by tiles is used up by tiles
    early = {name for s in inside for name in _seen(s.node)} & {*late, *totals}
    tops = {name: Top(name, "", (), False) for name in totals if name not in sums}
    plain = Tiling(index, first, inside, last, frozenset(sums), tops)
    found = _online(plain, early, setting.kept, names) if early else plain
    if found is not None:
        taken |= names
    return found


def _split(statement: Statement, index: Index, setting: Setting, taken: set[str]) -> list[Statement]:
    """The statement after the sums over the index that stand in it: these are gathered, it is computed in the end."""
    made: list[Statement] = []
    is_free = statement.name not in setting.kept
    is_block = statement.name in setting.loop.stored and setting.is_wide(statement.axes)  # where it is gathered

    def opened(node: Node) -> Node:
        if not (isinstance(node, (Reduce, Contract)) and index in node.over):
            return with_children(node, [opened(child) for child in node.children])
        if node is statement.node and node.axes == statement.axes and (is_free or is_block):
            return node
        name = fresh_name(f"{statement.name}_so_far", taken)
        told = isinstance(node, Contract) and not any(isinstance(piece.node, Contract) for piece in made)
        told = told and index not in statement.axes
        axes = statement.axes if set(node.axes) == set(statement.axes) else node.axes
        made.append(replace(statement, name=name, node=node, axes=axes) if told else Statement(name, node, axes))
        return Read(name, axes)

    root = opened(statement.node)
    if any(piece.formula for piece in made):
        return [*made, replace(statement, node=root, formula="", because="")]
    return [*made, replace(statement, node=root)]


def _depending(statements: Sequence[Statement], totals: set[str], index: Index) -> set[str]:
    """The names of the statements without the index that are computed from finished sums."""
    found: set[str] = set()
    for statement in statements:
        if index not in statement.axes and _seen(statement.node) & (totals | found):
            found.add(statement.name)
    return found


def _seen(node: Node) -> set[str]:
    """The names that a node reads, those of whole arrays included."""
    return {n.name for n in walk(node) if isinstance(n, (Read, View, Gather))}


def _is_maximum(node: Node) -> bool:
    return isinstance(node, Reduce) and node.operation == "max"


# ---------------------------------------------------------------------------------------------------------------------
# Sums that are gathered with a scale of their own.


def _online(plain: Tiling, early: set[str], kept: Collection[str], taken: set[str]) -> Tiling | None:
    """The tiling with what is read before its end, which may be maxima, as running maxima; None for anything else."""
    bodies = {statement.name: statement.node for statement in plain.statements}
    source = {name: found for name in early if (found := _maximum_of(name, bodies)) in plain.tops}
    if source.keys() != early:
        return None
    inside, after, tops = list(plain.inside), list(plain.after), dict(plain.tops)
    for most in sorted(set(source.values())):
        is_finite = not any(_reads_as_it_is(statement.node, most) for statement in after)
        raised = [s.name for s in after if _maximum_of(s.name, bodies) == most and s.name not in kept]
        name = raised[0] if raised and is_finite else most  # the name by which it is read
        top = Top(name, fresh_name(f"{name.removesuffix('_so_far')}_factor", taken), (), is_finite)
        tops = {other: found for other, found in tops.items() if other != most} | {name: top}
        known = {other for other, found in source.items() if found == most} | {most}
        inside = [
            replace(s, name=name, node=Map("finite", (s.node,)) if is_finite else s.node) if s.name == most
            else replace(s, node=_renamed(s.node, known, top))
            for s in inside
        ]  # fmt: skip
        after = [replace(s, node=_settled(s.node, most, top)) for s in after if s.name != name]
    degrees = _degrees(plain, inside, {name for name, top in tops.items() if top.factor})
    if degrees is None:
        return None
    axes = {statement.name: set(statement.axes) for statement in inside}
    for statement in inside:
        for name in sorted(degrees[statement.name]):
            if statement.name not in plain.sums or not axes[name] <= axes[statement.name]:
                if statement.name in plain.sums or statement.name in kept:
                    return None
                continue
            tops[name] = replace(tops[name], sums=(*tops[name].sums, statement.name))
    later = read_later([*inside, *after], [*kept, *plain.sums, *tops])
    return replace(plain, inside=tuple(inside), after=tuple(s for s in after if s in later), tops=tops)


def _maximum_of(name: str, bodies: Mapping[str, Node]) -> str:
    """The maximum that a name stands for, raised to a finite number or as it is; nothing for any other."""
    node = bodies.get(name)
    if node is None or _is_maximum(node):
        return name if node is not None else ""
    if isinstance(node, Map) and node.operation == "finite":
        node = node.operands[0]
    return _maximum_of(node.name, bodies) if isinstance(node, Read) else ""


def _is_finite(node: Node) -> bool:
    return isinstance(node, Map) and node.operation == "finite"


def _reads_as_it_is(node: Node, name: str) -> bool:
    """Whether the node reads the name, and not only raised to a finite number."""
    if _is_finite(node) and isinstance(node.children[0], Read):
        return False
    return (isinstance(node, Read) and node.name == name) or any(_reads_as_it_is(c, name) for c in node.children)


def _renamed(node: Node, known: set[str], top: Top) -> Node:
    """The node with one of the known names of a running maximum, as a finite number."""
    if isinstance(node, (Read, View)) and node.name in known:
        read = Read(top.name, node.axes)
        return read if top.is_finite else Map("finite", (read,))
    if _is_finite(node) and _read_name(node.children[0]) in known:
        return _renamed(node.children[0], known, top)
    return with_children(node, [_renamed(child, known, top) for child in node.children])


def _settled(node: Node, most: str, top: Top) -> Node:
    """The node, where the loop is over, with the running maximum in the place of the maximum."""
    if top.is_finite and _is_finite(node) and _read_name(node.children[0]) == most:
        return Read(top.name, node.axes)
    if isinstance(node, Read) and node.name == most:
        return Read(top.name, node.axes)
    return with_children(node, [_settled(child, most, top) for child in node.children])


def _read_name(node: Node) -> str:
    return node.name if isinstance(node, (Read, View)) else ""


Degree = frozenset[str]
CONSTANT: Degree = frozenset()


def _degrees(plain: Tiling, inside: Sequence[Statement], running: set[str]) -> dict[str, Degree] | None:
    """For each value inside the maxima m for which it is a multiple of exp(-m); None if some value is no such thing."""
    found: dict[str, Degree] = dict.fromkeys((s.name for s in plain.before), CONSTANT)
    argument: dict[str, Node] = {}
    for statement in inside:
        node = statement.node
        if statement.name in running:
            reduced = node.children[0] if _is_finite(node) else node
            argument[statement.name] = reduced.children[0]
        degree = _degree(node, found, argument)
        if degree is None or (degree and statement.name in running):
            return None
        if statement.name not in running:
            found[statement.name] = degree
    return {**found, **dict.fromkeys(running, CONSTANT)}


def _degree(node: Node, known: Mapping[str, Degree], argument: Mapping[str, Node]) -> Degree | None:
    """The maxima m for which the node is a multiple of exp(-m); None if it depends on one in another way."""
    if isinstance(node, Map) and node.operation == "exp" and isinstance(node.operands[0], Map):
        top = _taken_away(node.operands[0], argument)
        if top:
            inner = _degree(argument[top], known, argument)
            return frozenset({top}) if inner == CONSTANT else None
    if isinstance(node, Read):
        return known.get(node.name) if node.name not in argument else None
    degrees = [_degree(child, known, argument) for child in node.children]
    sides = [degree for degree in degrees if degree is not None]
    if len(sides) < len(degrees):
        return None
    if not any(sides):
        return CONSTANT
    if isinstance(node, Contract) or (isinstance(node, Map) and node.operation == "mul"):
        return sides[0] | sides[1] if not sides[0] & sides[1] else None
    if isinstance(node, Map) and node.operation == "div":
        return sides[0] if not sides[1] else None
    if (isinstance(node, Map) and node.operation == "neg") or (isinstance(node, Reduce) and node.operation == "sum"):
        return sides[0]
    if isinstance(node, Map) and node.operation in ("add", "sub"):
        return sides[0] if sides[0] == sides[1] else None
    if isinstance(node, Select) and not sides[0]:
        return sides[1] if node.no == ZERO or sides[1] == sides[2] else None
    return None


def _taken_away(difference: Map, argument: Mapping[str, Node]) -> str:
    """The running maximum of x in x - m; nothing where another value is taken away, or none."""
    if difference.operation != "sub":
        return ""
    value, top = difference.operands
    if _is_finite(top):
        (top,) = top.children
    return top.name if isinstance(top, Read) and top.name in argument and argument[top.name] == value else ""

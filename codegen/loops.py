"""Loop blocking: which statements are computed block by block, over which indices, and what each block leaves behind.

Stage 4b of the compiler, after `codegen.schedule` has decided what is computed. Values with two long axes, such as the
scores of a query with every key, are the largest of a program, and the ones that nobody asks for. A loop over *blocks
of rows* computes them piece by piece, so that a piece stays in the cache from the product that makes it to the product
that uses it up:

    for each value of the outer indices (a head of a batch), for each block of rows (queries):
        the statements of the body, for this block alone

What a body computes is of one of three kinds. It is *local* to the block, it is a block of a *stored* array (one that
has the row index and is wanted afterwards), or it is added to an *accumulated* array (a sum over the rows or over an
outer index). A loop is legal where no statement of the body needs another block: every value of the body is read at
the row at hand, and no accumulated value is read before the end. Nothing is known here of what the program computes.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.backends.tables import PASSES
from codegen.costs import Sizes, entries
from codegen.nodes import (
    Axes,
    Contract,
    Counter,
    Gather,
    Identity,
    Map,
    Node,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    View,
    indices_of,
    sum_of_products,
    walk,
    with_children,
)
from codegen.sharing import COMPARISONS, Statement, fresh_name, label, read_later, reads
from derive.language import Dim, Index

TRUTHS = frozenset({*COMPARISONS, "and", "or", "not"})
FEWEST_PASSES = 2  # over arrays of the widest shape: with fewer a loop has nothing to keep in the cache


@dataclass(frozen=True)
class Loop:
    """Statements that run for each value of the outer indices and each block of rows.

    `stored` and `accumulated` are the whole arrays that the blocks fill and add to, with their axes; every other name
    of the body is local to a block. `own` are the outer indices that all accumulated arrays have: their values are
    independent of each other. `domain` is the shape that is worth the loop.
    """

    domain: Axes
    outer: Axes
    row: Index
    body: tuple[Statement, ...]
    stored: Mapping[str, Axes]
    accumulated: Mapping[str, Axes]

    @property
    def has_products(self) -> bool:
        """Whether products of matrices are among what it computes."""
        return any(has_product(statement.node) for statement in self.body)

    @property
    def name(self) -> str:
        """What the loop is called: after the widest value that it computes."""
        return max(self.body, key=lambda statement: self.rank(statement.axes)).name

    @property
    def widest(self) -> Axes:
        """The axes of the widest value of a row that it computes."""
        return max((n.axes for s in self.body for n in walk(s.node) if self.row in n.axes), key=self.rank)

    def rank(self, axes: Axes) -> tuple[int, bool]:
        """How wide a value is; of several with as many axes, those with the shape that is worth the loop come first."""
        return len(axes), set(axes) == set(self.domain)

    @property
    def own(self) -> Axes:
        """The outer indices that every accumulated array has."""
        return tuple(i for i in self.outer if all(i in axes for axes in self.accumulated.values()))

    @property
    def lots(self) -> Axes:
        """The outer indices several of whose values can be computed together.

        Those for which products of matrices are stacks of products; where there are none, the last of the independent.
        """
        products = [n for s in self.body for n in walk(s.node) if isinstance(n, Contract) and self.row in indices_of(n)]
        stacked = tuple(i for i in self.own if products and all(i in product.shared for product in products))
        return stacked or self.own[-1:]

    @property
    def shared(self) -> Axes:
        """The other outer indices."""
        return tuple(i for i in self.outer if i not in self.own)


def looped(
    statements: Sequence[Statement], kept: Sequence[str], sizes: Sizes, *, adds_products: bool = False
) -> list[Statement | Loop]:
    """The statements with those that are best computed block by block gathered in loops.

    The names in `kept` are wanted whole; `sizes` are typical ones, which decide what is large. Where the library
    `adds_products` of matrices to each other as it computes them, no pass over memory is spent on that.
    """
    count = _passes_but_sums if adds_products else _all_passes
    if adds_products:
        statements = _with_products_inside(statements, kept)
    opened = _with_sides_named(statements)
    inside = read_later(_with_one_name(_with_masks_inside(opened)), kept)
    for domain in _domains(inside, kept, sizes, count):
        for row in _rows(domain, inside):
            found = _loop(inside, domain, row, kept, count)
            if found is not None:
                loop, after = found
                wanted = [*kept, *sorted(_read(loop.body) | _read(after))]
                computed = {statement.name for statement in (*loop.body, *after)}
                before = read_later([s for s in opened if s.name not in computed], wanted)
                more = [
                    looped(rest, names, sizes, adds_products=adds_products)
                    for rest, names in ((before, wanted), (after, kept))
                ]
                return [*more[0], loop, *more[1]]
    return list(statements)


def _read(statements: Iterable[Statement]) -> set[str]:
    return {name for statement in statements for name in reads(statement.node)}


# ---------------------------------------------------------------------------------------------------------------------
# Where a loop may be.


Count = Callable[[Node], int]


def _all_passes(node: Node) -> int:
    """How many passes over memory the root of the node takes, at the size of its axes."""
    return PASSES.get(getattr(node, "operation", ""), 1) if isinstance(node, (Map, Select)) else 0


def _passes_but_sums(node: Node) -> int:
    """The same where products of matrices are added up as they are computed."""
    return 0 if sum_of_products(node) else _all_passes(node)


def _domains(statements: Sequence[Statement], kept: Sequence[str], sizes: Sizes, count: Count) -> list[Axes]:
    """The shapes that are worth a loop: the largest one first, of several the one with most local values."""
    passes: dict[frozenset[Index], int] = {}
    layout: dict[frozenset[Index], Axes] = {}
    for node in {inner: None for statement in statements for inner in walk(statement.node)}:
        axes = node.axes
        if sum(isinstance(index.extent, Dim) for index in axes) >= 2:
            layout.setdefault(frozenset(axes), axes)
            if isinstance(node, (Map, Select)):
                passes[frozenset(axes)] = passes.get(frozenset(axes), 0) + count(node)
    local = collections.Counter(frozenset(statement.axes) for statement in statements if statement.name not in kept)
    for statement in statements:  # the order in which a value is laid out counts, not the one in which it is made
        layout[frozenset(statement.axes)] = statement.axes
    worth = [axes for axes, count in passes.items() if count >= FEWEST_PASSES]
    size = {axes: entries(axes).at(sizes) for axes in worth}
    return [layout[a] for a in sorted(worth, key=lambda a: (-size[a], -local[a], -passes[a], str(layout[a])))]


def _rows(domain: Axes, statements: Sequence[Statement]) -> list[Index]:
    """The indices that could be cut into blocks; the last one stays whole, it is contiguous.

    Between products of matrices it is the second last, so that the others are one matrix each or a stack of them; where
    there are none, a block is any number of entries that are side by side, and the first index is cut.
    """
    cut = [index for index in domain[:-1] if isinstance(index.extent, Dim)]
    return cut[::-1] if any(has_product(statement.node) for statement in _wide(statements, domain)) else cut


def _wide(statements: Sequence[Statement], domain: Axes) -> list[Statement]:
    """The statements in which a value of the widest shape occurs."""
    return [s for s in statements if any(set(domain) <= set(node.axes) for node in walk(s.node))]


def _loop(
    statements: Sequence[Statement], domain: Axes, row: Index, kept: Sequence[str], count: Count
) -> tuple[Loop, list[Statement]] | None:
    """The loop and what comes after it; None where the row index may not be cut."""
    body = _seeds(statements, domain)
    outer = tuple(index for index in domain[: domain.index(row)] if isinstance(index.extent, Dim))
    outer = tuple(index for index in outer if all(_is_legal(statement, body, {index}) for statement in body))
    indices = {row, *outer}
    # A statement that needs other rows than its own comes after the loop, if nothing of the loop needs it.
    for statement in reversed(list(body)):
        if not _is_legal(statement, body, indices) or not _is_printable(statement, indices):
            if any(statement.name in reads(other.node) for other in body):
                return None
            body.remove(statement)
    if sum(_passes(statement, domain, count) for statement in body) < FEWEST_PASSES:
        return None
    body = _with_neighbours(statements, body, indices, kept)
    names = {statement.name for statement in body}
    after = _depending(statements, names)
    rest = [s for s in statements if s.name in after and s.name not in names]
    if any(statement.name in after for statement in body):
        return None
    wanted = {*kept, *_read(rest)} & names
    stored = {s.name: s.axes for s in body if s.name in wanted and indices <= set(s.axes)}
    accumulated = {s.name: s.axes for s in body if not indices <= set(s.axes)}
    if any(s.name in accumulated and s.name in _read(body) for s in body) or not set(accumulated) <= wanted:
        return None
    return Loop(domain, outer, row, tuple(body), stored, accumulated), rest


def _passes(statement: Statement, domain: Axes, count: Count) -> int:
    """How many elementwise operations on values of the shape are more than none."""
    return sum(set(node.axes) == set(domain) and count(node) > 0 for node in walk(statement.node))


def _seeds(statements: Sequence[Statement], domain: Axes) -> list[Statement]:
    """The statements with values of the widest shape, and what lies on the way from one to another."""
    names = {statement.name for statement in _wide(statements, domain)}
    below = _depending(statements, names)
    needed: set[str] = set()
    for statement in reversed(statements):
        if statement.name in names or statement.name in needed:
            needed |= reads(statement.node)
    return [s for s in statements if s.name in names or (s.name in below and s.name in needed)]


def _depending(statements: Sequence[Statement], names: Iterable[str]) -> set[str]:
    """The names of the other statements that are computed from these."""
    found = set(names)
    for statement in statements:
        if reads(statement.node) & found:
            found.add(statement.name)
    return found - set(names)


def _with_neighbours(
    statements: Sequence[Statement], body: Sequence[Statement], indices: set[Index], kept: Sequence[str]
) -> list[Statement]:
    """The body with the small statements that only it needs, so that what they compute never leaves the cache."""
    names = {statement.name for statement in body}
    for statement in reversed(statements):
        if statement.name in names or not indices <= set(statement.axes):
            continue
        users = {other.name for other in statements if statement.name in reads(other.node)}
        is_dear = has_product(statement.node) or any(isinstance(n, (Scatter, Gather)) for n in walk(statement.node))
        if not users or not users <= names or statement.name in kept or is_dear:
            continue
        joined = [s for s in statements if s.name in names or s.name == statement.name]
        if all(_is_legal(s, joined, indices) and _is_printable(s, indices) for s in joined):
            names.add(statement.name)
    return [statement for statement in statements if statement.name in names]


def has_product(node: Node) -> bool:
    """Whether a product of matrices is computed for the node."""
    return any(isinstance(n, Contract) and n.left_only and n.right_only for n in walk(node))


def _is_printable(statement: Statement, indices: set[Index]) -> bool:
    """Whether the statement can be computed for a block of rows: a scatter must be into the rows of the block."""
    for node in walk(statement.node):
        if isinstance(node, Identity) or (isinstance(node, Scatter) and node is not statement.node):
            return False
        if isinstance(node, Scatter):
            placed = zip(node.targets, node.positions, strict=True)
            if any(target in indices and position != Position(target) for target, position in placed):
                return False
    return True


def _is_legal(statement: Statement, body: Sequence[Statement], indices: set[Index]) -> bool:
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


# ---------------------------------------------------------------------------------------------------------------------
# What a statement looks like inside.


def _with_sides_named(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with the sums that a condition compares under names of their own.

    What is left of the condition is computed entry by entry, and can be written where it is used: on a block it has no
    memory of its own, where truth values would lie as numbers.
    """
    taken = {statement.name for statement in statements}
    result: list[Statement] = []
    for statement in statements:

        def named(node: Node, statement: Statement = statement) -> Node:
            if node.is_host or isinstance(node, (Read, View, Position)):
                return node
            if isinstance(node, Map):
                return with_children(node, [named(child) for child in node.children])
            side = Statement(fresh_name(f"{statement.name}_{label(node)}", taken), node, node.axes)
            result.append(side)
            return Read(side.name, side.axes)

        node = statement.node
        if isinstance(node, Map) and node.operation in TRUTHS and not is_condition(node):
            statement = replace(statement, node=named(node))
        result.append(statement)
    return result


def _with_masks_inside(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with conditions written where they are used: on a block they are small."""
    masks: dict[str, tuple[Axes, Node]] = {}

    def opened(node: Node) -> Node:
        if isinstance(node, Read) and node.name in masks and masks[node.name][0] == node.where:
            return masks[node.name][1]
        return with_children(node, [opened(child) for child in node.children])

    result = []
    for statement in statements:
        statement = replace(statement, node=opened(statement.node))
        if is_condition(statement.node) and not statement.formula:
            masks[statement.name] = statement.axes, statement.node
        result.append(statement)
    return result


def _with_products_inside(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
    """The statements with products of matrices written where they are added up, if they are read nowhere else."""
    read = collections.Counter(n.name for s in statements for n in walk(s.node) if isinstance(n, (Read, View, Gather)))
    products = {
        s.name: s for s in statements if read[s.name] == 1 and s.name not in kept and len(sum_of_products(s.node)) == 1
    }

    def opened(node: Node) -> Node:
        if isinstance(node, Read) and node.name in products and products[node.name].axes == node.where:
            return products[node.name].node
        if isinstance(node, Map) and node.operation == "add":
            return with_children(node, [opened(child) for child in node.children])
        return node

    found = {s.name: node for s in statements if len(sum_of_products(node := opened(s.node))) > 1}
    gone = {
        n.name for s in statements if s.name in found for n in walk(s.node) if isinstance(n, Read)
    } & products.keys()
    return [replace(s, node=found.get(s.name, s.node)) for s in statements if s.name not in gone]


def _with_one_name(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with a summed index named as in the definition of what is summed, so that both are one range."""
    axes = {statement.name: statement.axes for statement in statements}

    def renamed(node: Node) -> Node:
        if isinstance(node, (Reduce, Contract)):
            known = [n for n in walk(node) if isinstance(n, Read) and n.name in axes]
            pairs = [pair for read in known for pair in zip(axes[read.name], read.where, strict=True)]
            for own, used in pairs:
                # Of two definitions that call it differently, the one whose name it has already decides.
                if used in node.over and own not in indices_of(node) and (used, used) not in pairs:
                    return renamed(with_indices(node, {used: own}))
        return with_children(node, [renamed(child) for child in node.children])

    return [replace(statement, node=renamed(statement.node)) for statement in statements]


def with_indices(node: Node, places: Mapping[Index, Index]) -> Node:
    """The node with other indices in the places of some, all at once; the new ones are none that it keeps."""

    def moved(axes: Axes) -> Axes:
        return tuple(places.get(index, index) for index in axes)

    if isinstance(node, Read):
        return Read(node.name, moved(node.where))
    if isinstance(node, Position):
        return Position(places.get(node.index, node.index))
    children = [with_indices(child, places) for child in node.children]
    if isinstance(node, Reduce):
        return Reduce(node.operation, children[0], moved(node.over))
    if isinstance(node, Contract):
        return Contract(children[0], children[1], moved(node.over))
    return with_children(node, children)


def is_condition(node: Node) -> bool:
    """Whether the node is an array of truth values that is computed entry by entry."""
    if not isinstance(node, Map) or node.operation not in TRUTHS:
        return False
    return all(n.is_host or isinstance(n, (Map, Position, Read, View)) for n in walk(node))


def peeled(node: Node, outer: frozenset[Index], local: frozenset[str]) -> Node:
    """The node inside a loop, where each outer index has one value and `local` names hold the block at hand."""
    if isinstance(node, Read):
        if node.name in local:
            return Read(node.name, tuple(index for index in node.where if index not in outer))
        return View(node.name, node.where, tuple(index for index in node.where if index in outer))
    if isinstance(node, Position) and node.index in outer:
        return Counter(node.index)
    children = [peeled(child, outer, local) for child in node.children]
    if isinstance(node, Reduce):
        over = tuple(index for index in node.over if index not in outer)
        return Reduce(node.operation, children[0], over) if over else children[0]
    if isinstance(node, Contract):
        over = tuple(index for index in node.over if index not in outer)
        return Contract(children[0], children[1], over) if over else Map("mul", tuple(children))
    if isinstance(node, Scatter):
        count = len(node.targets)
        kept = [place for place, target in enumerate(node.targets) if target not in outer]
        base = None if node.base is None else children[-1]
        return Scatter(
            tuple(node.targets[place] for place in kept),
            tuple(children[place] for place in kept),
            children[count],
            base,
        )
    return with_children(node, children)

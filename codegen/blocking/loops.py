"""Loop blocking: which statements are computed block by block, over which indices, and what each block leaves behind.

Stage 4b of the compiler, after `codegen.planning.schedule` has decided what is computed. Values with two long axes,
such as the scores of a query with every key, are the largest of a program, and the ones that nobody asks for. A loop
over *blocks of rows* computes them piece by piece, so that a piece stays in the cache from the product that makes it to
the product that uses it up:

    for each value of the outer indices (a head of a batch), for each block of rows (queries):
        the statements of the body, for this block alone

What a body computes is of one of three kinds. It is *local* to the block, it is a block of a *stored* array (one that
has the row index and is wanted afterwards), or it is added to an *accumulated* array (a sum over the rows or over an
outer index). A loop is legal where no statement of the body needs another block: every value of the body is read at
the row at hand, and no accumulated value is read before the end. It is no gain where single values of the outer indices
leave products of vectors of a product of matrices, as of a sum over all samples. Nothing is known here of what the
program computes.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codegen.algebra.costs import Sizes, entries
from codegen.backends.spelling import PASSES
from codegen.blocking.legality import has_product, is_legal, is_printable
from codegen.ir.insides import (
    with_masks_inside,
    with_one_name,
    with_products_inside,
    with_sides_named,
    with_sums_spread,
)
from codegen.ir.nodes import Axes, Contract, Gather, Map, Node, Read, Scatter, Select
from codegen.ir.sharing import Statement, read_later, reads
from codegen.ir.trees import indices_of, sum_of_products, walk
from derive.language import Dim, Index

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
    def is_flat(self) -> bool:
        """Whether a row is one entry: all is computed entry by entry, and a block is any stretch of entries."""
        return self.domain == (self.row,)

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


def looped(statements: Sequence[Statement], kept: Sequence[str], sizes: Sizes) -> list[Statement | Loop]:
    """The statements with those that are best computed block by block gathered in loops.

    The names in `kept` are wanted whole; `sizes` are typical ones, which decide what is large. Vectors are where there
    is nothing wider.
    """
    longest = max((_long_axes(node.axes) for statement in statements for node in walk(statement.node)), default=0)
    return _looped(statements, kept, sizes, min(2, max(1, longest)))


def _looped(statements: Sequence[Statement], kept: Sequence[str], sizes: Sizes, axes: int) -> list[Statement | Loop]:
    """The statements with loops over shapes of at least so many axes."""
    statements = with_products_inside(with_sums_spread(statements), kept)
    opened = with_sides_named(statements)
    inside = read_later(with_one_name(with_masks_inside(opened)), kept)
    for domain in _domains(inside, kept, sizes, axes):
        for row in _rows(domain, inside):
            found = _loop(inside, domain, row, kept)
            if found is not None:
                loop, after = found
                wanted = [*kept, *sorted(_read(loop.body) | _read(after))]
                computed = {statement.name for statement in (*loop.body, *after)}
                before = read_later([s for s in opened if s.name not in computed], wanted)
                return [*_looped(before, wanted, sizes, axes), loop, *_looped(after, kept, sizes, axes)]
    return list(statements)


def _read(statements: Iterable[Statement]) -> set[str]:
    return {name for statement in statements for name in reads(statement.node)}


# ---------------------------------------------------------------------------------------------------------------------
# Where a loop may be.


def _count(node: Node) -> int:
    """How many passes over memory the root of the node takes, at the size of its axes.

    What adds up products of matrices counts for nothing beside these.
    """
    if not isinstance(node, (Map, Select)) or sum_of_products(node):
        return 0
    return PASSES.get(getattr(node, "operation", ""), 1)


def _domains(statements: Sequence[Statement], kept: Sequence[str], sizes: Sizes, fewest: int) -> list[Axes]:
    """The shapes that are worth a loop: the largest one first, of several the one with most local values."""
    passes: dict[frozenset[Index], int] = {}
    layout: dict[frozenset[Index], Axes] = {}
    for node in {inner: None for statement in statements for inner in walk(statement.node)}:
        axes = node.axes
        if _long_axes(axes) >= fewest:
            layout.setdefault(frozenset(axes), axes)
            if isinstance(node, (Map, Select)):
                passes[frozenset(axes)] = passes.get(frozenset(axes), 0) + _count(node)
    local = collections.Counter(frozenset(statement.axes) for statement in statements if statement.name not in kept)
    for statement in statements:  # the order in which a value is laid out counts, not the one in which it is made
        layout[frozenset(statement.axes)] = statement.axes
    worth = [axes for axes, count in passes.items() if count >= FEWEST_PASSES]
    size = {axes: entries(axes).at(sizes) for axes in worth}
    return [layout[a] for a in sorted(worth, key=lambda a: (-size[a], -local[a], -passes[a], str(layout[a])))]


def _long_axes(axes: Axes) -> int:
    """How many axes have a symbolic size."""
    return sum(isinstance(index.extent, Dim) for index in axes)


def _rows(domain: Axes, statements: Sequence[Statement]) -> list[Index]:
    """The indices that could be cut into blocks; the last one stays whole, it is contiguous, unless it is the only one.

    Between products of matrices it is the second last, so that the others are one matrix each or a stack of them; where
    there are none, a block is any number of entries that are side by side, and the first index is cut.
    """
    cut = [index for index in domain[:-1] or domain if isinstance(index.extent, Dim)]
    return cut[::-1] if any(has_product(statement.node) for statement in _wide(statements, domain)) else cut


def _wide(statements: Sequence[Statement], domain: Axes) -> list[Statement]:
    """The statements in which a value of the widest shape occurs."""
    return [s for s in statements if any(set(domain) <= set(node.axes) for node in walk(s.node))]


def _loop(
    statements: Sequence[Statement], domain: Axes, row: Index, kept: Sequence[str]
) -> tuple[Loop, list[Statement]] | None:
    """The loop and what comes after it; None where the row index may not be cut."""
    body = _seeds(statements, domain)
    outer = tuple(index for index in domain[: domain.index(row)] if isinstance(index.extent, Dim))
    outer = tuple(index for index in outer if all(is_legal(statement, body, {index}) for statement in body))
    indices = {row, *outer}
    # A statement that needs other rows than its own comes after the loop, if nothing of the loop needs it.
    for statement in reversed(list(body)):
        if not is_legal(statement, body, indices) or not is_printable(statement, indices):
            if any(statement.name in reads(other.node) for other in body):
                return None
            body.remove(statement)
    if sum(_passes(statement, domain) for statement in body) < FEWEST_PASSES:
        return None
    if len(domain) == 1 and not all(_is_cheap(statement.node) for statement in body):
        return None  # sums over a vector are products of vectors, which need no blocks
    body = _with_neighbours(statements, body, indices, kept)
    body = _with_followers(statements, body, indices, kept)
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
    loop = Loop(domain, outer, row, tuple(body), stored, accumulated)
    return None if _takes_products_apart(loop) else (loop, rest)


def _takes_products_apart(loop: Loop) -> bool:
    """Whether a product of matrices is one of vectors for each single value of the outer indices."""
    single = set(loop.outer) - set(loop.lots)
    products = (node for s in loop.body for node in walk(s.node) if isinstance(node, Contract))
    return any(
        all(sides) and not all(set(side) - single for side in sides)
        for sides in ((node.over, node.left_only, node.right_only) for node in products)
    )


def _passes(statement: Statement, domain: Axes) -> int:
    """How many elementwise operations on values of the shape are more than none."""
    return sum(set(node.axes) == set(domain) and _count(node) > 0 for node in walk(statement.node))


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
        if all(is_legal(s, joined, indices) and is_printable(s, indices) for s in joined):
            names.add(statement.name)
    return [statement for statement in statements if statement.name in names]


def _with_followers(
    statements: Sequence[Statement], body: Sequence[Statement], indices: set[Index], kept: Sequence[str]
) -> list[Statement]:
    """The body with wide values that are computed from it entry by entry, while it is at hand.

    One that is wanted whole is stored in any case, and one that only these read is not stored at all; any other has to
    take the place of all wide values that it reads.
    """
    wide = {statement.name for statement in statements if indices < set(statement.axes)}
    names = {statement.name for statement in body}
    more = _followers(statements, names, indices, wide)
    while more:
        inside = [s for s in statements if s.name in names or s.name in more]
        elsewhere = {*kept, *_read(s for s in statements if s not in inside)}
        gone = {
            s.name for s in inside if s.name in more and s.name in elsewhere and s.name not in kept
            and reads(s.node) & wide & elsewhere & {other.name for other in inside}
        }  # fmt: skip
        if not gone:
            return inside
        more -= gone | _depending(statements, gone)
    return list(body)


def _followers(
    statements: Sequence[Statement], names: Collection[str], indices: set[Index], wide: Collection[str]
) -> set[str]:
    """The other wide values that are computed entry by entry from what has these names, and from nothing after it."""
    found = set(names)
    for statement in statements:
        is_new = statement.name not in found and statement.name in wide and _is_cheap(statement.node)
        if not is_new or not reads(statement.node) & found or reads(statement.node) & _depending(statements, found):
            continue
        if is_legal(statement, [s for s in statements if s.name in found or s is statement], indices):
            found.add(statement.name)
    return found - set(names)


def _is_cheap(node: Node) -> bool:
    """Whether the node is computed entry by entry."""
    return isinstance(node, (Map, Select)) and all(isinstance(n, (Map, Select, Read)) or n.is_host for n in walk(node))

"""How statements look inside a loop: conditions and products written where they are used, indices under one name.

Beside `codegen.blocking.loops`, which decides which statements a loop computes. On a block of rows a condition is
small, and a product that is added to another is no array of its own; so both are written in before it is decided.
Afterwards `peeled` takes off the indices that have one value inside.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import replace

from codegen.ir.nodes import Axes, Contract, Counter, Gather, Map, Node, Position, Read, Reduce, Scatter, View
from codegen.ir.sharing import COMPARISONS, Statement, fresh_name, label, reads
from codegen.ir.trees import indices_of, sum_of_products, walk, with_children
from derive.language import Index

TRUTHS = frozenset({*COMPARISONS, "and", "or", "not"})


def is_truth(node: Node) -> bool:
    """Whether the entries of a node are true or false."""
    return isinstance(node, Map) and node.operation in TRUTHS


def with_sums_spread(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with sums that are the same along an index of theirs under a name without it.

    The adjoint of a sum is one: it is spread over what was summed, which is no business of a loop.
    """
    taken = {statement.name for statement in statements}.union(*(reads(statement.node) for statement in statements))
    result: list[Statement] = []
    for statement in statements:
        node = statement.node
        if isinstance(node, (Contract, Reduce)) and set(node.axes) < set(statement.axes):
            axes = tuple(index for index in statement.axes if index in node.axes)
            result.append(replace(statement, name=fresh_name(f"{statement.name}_{label(node)}", taken), axes=axes))
            statement = Statement(statement.name, Read(result[-1].name, axes), statement.axes)
        result.append(statement)
    return result


def with_sides_named(statements: Sequence[Statement]) -> list[Statement]:
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
        if is_truth(node) and not is_condition(node):
            statement = replace(statement, node=named(node))
        result.append(statement)
    return result


def with_masks_inside(statements: Sequence[Statement]) -> list[Statement]:
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


def with_products_inside(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
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


def with_one_name(statements: Sequence[Statement]) -> list[Statement]:
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
        return replace(node, where=moved(node.where))
    if isinstance(node, Position):
        return replace(node, index=places.get(node.index, node.index))
    children = [with_indices(child, places) for child in node.children]
    if isinstance(node, Reduce):
        return Reduce(node.operation, children[0], moved(node.over))
    if isinstance(node, Contract):
        return Contract(children[0], children[1], moved(node.over))
    return with_children(node, children)


def is_condition(node: Node) -> bool:
    """Whether the node is an array of truth values that is computed entry by entry."""
    return is_truth(node) and all(n.is_host or isinstance(n, (Map, Position, Read, View)) for n in walk(node))


def peeled(node: Node, outer: frozenset[Index], local: frozenset[str]) -> Node:
    """The node inside a loop, where each outer index has one value and `local` names hold the block at hand."""
    if isinstance(node, Read) and not node.is_host:
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

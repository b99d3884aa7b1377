"""Other schedules of the same kernel: the lean pair that saves no large array, and value and gradient in one call.

Stage 4c of the compiler, from the statements of `codegen.planning.schedule` to further statements.

*Lean.* The plain pair saves what the backward kernel reads, also arrays larger than anything that is passed in or out
(a number for every pair of positions: the square of the length of a sequence). The lean backward kernel computes those
again from the inputs, and of all that they depend on the lean forward kernel saves the small values that cost a
reduction: the maximum and the sum of a row. In a loop over blocks, memory then grows with the inputs only.

*Value and gradient.* The gradient of a scalar is a number times what can be computed with it. The statements of both
kernels, the upstream gradient being 1, form one routine, in which what both compute is computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from codegen.ir.insides import is_truth
from codegen.ir.nodes import Axes, Contract, Map, Node, Read, Reduce
from codegen.ir.sharing import Statement, fresh_name, label, reads
from codegen.ir.trees import walk, with_children


def lean(
    forward: Sequence[Statement],
    backward: Sequence[Statement],
    saved: Sequence[str],
    inputs: Sequence[str],
    boundary: Iterable[Sequence[str]],
) -> tuple[list[Statement], list[Statement], list[str]] | None:
    """(forward, backward, saved names) without large saved arrays; None where there are none.

    `inputs` are the names of what is passed in, `boundary` the sizes of what is passed in and out: large is what has
    more than any of them.
    """
    shapes = [Counter(sizes) for sizes in boundary]
    axes = {statement.name: statement.axes for statement in forward}

    @cache  # it is asked again and again, of few shapes
    def is_large(indices: Axes) -> bool:
        return not any(Counter(str(index.extent) for index in indices) <= shape for shape in shapes)

    large = {name for name in saved if name in axes and is_large(axes[name])}
    if not large:
        return None
    first = _with_small_parts_named(forward, is_large)
    # What is true or false costs nothing to find again, and has no place in an array of numbers.
    free = {name for name in axes if is_large(axes[name])} | {s.name for s in first if is_truth(s.node)}
    again: list[Statement] = []
    needed = set(large)
    for statement in reversed(first):
        if statement.name in needed:
            again.append(statement)
            needed |= reads(statement.node) & free
    second = [*reversed(again), *backward]
    computed = {statement.name for statement in second}
    read = {name for statement in second for name in reads(statement.node)} - computed
    order = [*saved, *(statement.name for statement in first)]
    return first, second, [name for name in dict.fromkeys([*inputs, *order]) if name in read]


def _with_small_parts_named(statements: Sequence[Statement], is_large: Callable[[Axes], bool]) -> list[Statement]:
    """The statements with the small values inside of large ones that cost a reduction as statements of their own."""
    taken = {statement.name for statement in statements}.union(*(reads(s.node) for s in statements))
    result: list[Statement] = []
    for statement in statements:
        made: list[Statement] = []

        def named(node: Node, statement: Statement = statement, made: list[Statement] = made) -> Node:
            if node.is_host or not node.children:
                return node
            is_small = not is_large(node.axes)
            if is_small and any(isinstance(inner, (Reduce, Contract)) for inner in walk(node)):
                name = fresh_name(f"{statement.name}_{label(node)}", taken)
                made.append(Statement(name, node, node.axes))
                return Read(name, node.axes)
            return with_children(node, [named(child) for child in node.children])

        node = named(statement.node) if is_large(statement.axes) else statement.node
        result += [*made, replace(statement, node=node)]
    return result


def rejoined(statements: Sequence[Statement], parts: Mapping[str, tuple[str, str]]) -> list[Statement]:
    """The statements with exp(x - top - log s), where s is the sum of e = exp(x - top), as e / s: e is at hand.

    `parts` names the two parts, top and log s, of each logsumexp.
    """
    nodes = {statement.name: statement for statement in statements}
    sums = {
        (nodes[top].node, nodes[log].node): (top, log) for top, log in parts.values() if top in nodes and log in nodes
    }

    def joined(node: Node) -> Node:
        node = with_children(node, [joined(child) for child in node.children])
        for (maximum, logarithm), (top, log) in sums.items():
            if not (isinstance(node, Map) and node.operation == "exp" and isinstance(logarithm, Map)):
                continue
            (total,) = logarithm.operands
            read = Read(top, nodes[top].axes), Read(log, nodes[log].axes)
            for shifted in (n for n in walk(total) if isinstance(n, Map) and n.operation == "exp"):
                share = _less(shifted.operands[0], maximum, read)
                if share is not None and node == Map("exp", (share,)):
                    return Map("div", (shifted, total))
        return node

    return [replace(statement, node=joined(statement.node)) for statement in statements]


def _less(exponent: Node, maximum: Node, read: tuple[Node, Node]) -> Node | None:
    """The exponent x - max, written with the named parts of the logsumexp: x - top - log; None for any other."""
    if isinstance(exponent, Map) and exponent.operation == "sub" and exponent.operands[1] == maximum:
        return Map("sub", (Map("sub", (exponent.operands[0], read[0])), read[1]))
    return None

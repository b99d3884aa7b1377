"""What both kernels take of a row is taken once: small values that cost a reduction are saved by the forward kernel.

Between lowering and `codegen.schedule`'s sharing of values. A loss whose formula has a logsumexp inside has a gradient
with the softmax of the same row in it; lowered, both contain the maximum of the row and the sum of its exponentials.
These are one number for each row. With names they are saved, and the backward kernel passes over the row once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from codegen.nodes import Node, Read, Reduce, descendants, with_children
from codegen.sharing import Statement, fresh_name, label, reads


def with_rows_kept(
    forward: Sequence[Statement], backward: Sequence[Statement], taken: Collection[str]
) -> tuple[list[Statement], list[Statement]]:
    """The statements of both routines, what both reduce to few values named in the first and read in both."""
    known = frozenset().union(*(descendants(statement.node) for statement in forward))
    names: dict[Node, Read] = {}
    used = {*taken, *(statement.name for statement in (*forward, *backward))}
    used = used.union(*(reads(statement.node) for statement in (*forward, *backward)))

    def found(node: Node) -> None:
        if node in known and node not in names and is_row(node):
            home = next(statement for statement in forward if node in descendants(statement.node))
            if node != home.node:
                names[node] = Read(fresh_name(f"{home.name}_{label(node)}", used), node.axes)
                return
        for child in node.children:
            found(child)

    for statement in backward:
        found(statement.node)
    first: list[Statement] = []
    waiting = dict(names)
    for statement in forward:
        # What is part of another one comes before it.
        here = sorted((n for n in waiting if n in descendants(statement.node)), key=lambda n: len(descendants(n)))
        for node in here:
            first.append(Statement(waiting.pop(node).name, _read(node, names, itself=False), node.axes))
        first.append(replace(statement, node=_read(statement.node, names)))
    return first, [replace(statement, node=_read(statement.node, names)) for statement in backward]


def is_row(node: Node) -> bool:
    """Whether a value costs a reduction and has fewer axes than what it is made from."""
    below = descendants(node)
    reduced = [inner for inner in below if isinstance(inner, Reduce)]
    return bool(reduced) and any(set(node.axes) < set(inner.operand.axes) for inner in reduced)


def _read(node: Node, names: dict[Node, Read], *, itself: bool = True) -> Node:
    if itself and node in names:
        return names[node]
    return with_children(node, [_read(child, names) for child in node.children])

"""What is computed from numbers alone is a number where it is read, too.

Before the loops of `codegen.blocking.loops`, for every schedule of a kernel. A value such as 1 / N that is used in
several places has a name, and where it is read it looks like an array without axes. It is a number of Python's: two of
them in a selection, or one in a function of an array library, are not what the library expects. So they are told apart
here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from codegen.ir.nodes import Named, Node, Read
from codegen.ir.trees import with_children
from codegen.planning.routines import Kernel, Routine


def with_numbers(kernel: Kernel) -> Kernel:
    """The kernel with numbers told from arrays where it reads a name; what is returned is an array."""
    returned = {parameter.name for parameter in kernel.forward.returns}
    forward, known = _told_apart(kernel.forward, returned, ())
    backward = kernel.backward
    if backward is not None:
        returned |= {parameter.name for parameter in backward.returns}
        backward, _ = _told_apart(backward, returned, known.intersection(kernel.saved))
    return replace(kernel, forward=forward, backward=backward)


def _told_apart(routine: Routine, returned: Collection[str], saved: Collection[str]) -> tuple[Routine, set[str]]:
    """The routine, and the names of the numbers in it; those that are `saved` it is given."""
    known, statements = set(saved), []
    for statement in routine.statements:
        node = _with_named(statement.node, known)
        statements.append(statement if node == statement.node else replace(statement, node=node))
        if node.is_host and not statement.axes and statement.name not in returned:
            known.add(statement.name)
    return replace(routine, statements=tuple(statements)), known


def _with_named(node: Node, known: Collection[str]) -> Node:
    if isinstance(node, Read):
        return Named(node.name, node.where) if node.name in known else node
    return with_children(node, [_with_named(child, known) for child in node.children])

"""Functions that are computed along with another: both statements side by side, so that one call does.

Stage 5b of the compiler, beside `codegen.printing.blocks`. A library can say that a call of its gives a second function
of the same argument for little more than the first (`codegen.backends.library.Companion`): what both read off a table
is read once. Nothing is known here of which functions these are.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.backends import Library
from codegen.ir.nodes import Literal, Map
from codegen.ir.sharing import Statement
from codegen.printing.text import literal


def with_companions_next(statements: Sequence[Statement], library: Library) -> list[Statement]:
    """The statements, each that can be computed along with one before it moved up behind that."""
    waiting, made = list(statements), []
    while waiting:
        made.append(waiting.pop(0))
        found = next((other for other in waiting if is_companion(made[-1], other, library)), None)
        if found is not None:
            waiting.remove(found)
            made.append(found)
    return made


def is_companion(statement: Statement, other: Statement, library: Library) -> bool:
    """Whether the second statement is computed along with the first one by a call of the library's."""
    node, along = statement.node, other.node
    known = library.companions.get(node.operation) if isinstance(node, Map) else None
    if known is None or not isinstance(along, Map) or along.operation != known.operation:
        return False
    argument, *numbers = along.operands
    written = tuple(literal(number).text for number in numbers if isinstance(number, Literal))
    return argument == node.children[0] and statement.axes == other.axes and written == known.numbers

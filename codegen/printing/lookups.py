"""Look-ups and their adjoints: entries read at computed positions, and values added at them.

Beside `codegen.printing.printer`, which prints everything else. Positions that are whole axes and come last are slices;
the others are arrays of whole numbers that broadcast against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.backends.spelling import POSTFIX
from codegen.ir.nodes import Axes, Gather, Map, Node, Position, Scatter
from codegen.ir.sharing import Statement
from codegen.printing.text import Text
from derive.language import Index

if TYPE_CHECKING:
    from codegen.printing.printer import Printer


def scatter(printer: Printer, name: str, node: Scatter) -> list[str]:
    """The lines that compute a scatter under a name: what it begins with, then what is added."""
    if node.base is None:
        lines = [f"{name} = {printer.library.zeros.format(shape=printer.shape(node.targets))}"]
    elif isinstance(node.base, Scatter):
        lines = scatter(printer, name, node.base)
    else:
        lines = printer.statement(Statement(name, node.base, node.targets))
    return [*lines, *scattered(printer, name, node)]


def scattered(printer: Printer, name: str, node: Scatter, relative: frozenset[Index] = frozenset()) -> list[str]:
    """The lines that add the values of a scatter into an array.

    The array may be a block: positions along the `relative` indices are then counted from its first entry.
    """
    sliced = _sliced(node.positions)
    plain = node.positions[: len(node.positions) - len(sliced)]
    axes: list[Index] = []
    for position in plain:
        axes += [index for index in position.axes if index not in axes]
    counted = replace(printer, spans=printer.spans - relative)
    where = ", ".join(
        _position(counted if isinstance(position, Position) and position.index == place else printer, position, axes)
        for position, place in zip(plain, node.targets, strict=False)
    )
    value = printer.aligned(node.value, (*axes, *sliced))
    placed = {position.index for position in node.positions if isinstance(position, Position)}
    if set(axes) <= placed:
        # Every place occurs once: each row of the positions is a row of the result.
        subtracted = isinstance(node.value, Map) and node.value.operation == "neg"
        amount = printer.aligned(node.value.children[0] if subtracted else node.value, (*axes, *sliced))
        return [f"{name}[{where}] {'-' if subtracted else '+'}= {amount.text}"]
    text = value.text
    if printer.library.number and node.value.is_host:
        text = printer.library.number.format(value=text)
    return [printer.library.scatter.format(array=name, where=f"({where},)", value=text)]


def _sliced(positions: Sequence[Node]) -> Axes:
    """The trailing positions that are whole axes and occur nowhere else: they are slices, not look-ups."""
    kept = len(positions)
    while kept > 0:
        candidate = positions[kept - 1]
        if not isinstance(candidate, Position):
            break
        others = [node for place, node in enumerate(positions) if place != kept - 1]
        if any(candidate.index in other.axes for other in others):
            break
        kept -= 1
    return tuple(node.index for node in positions[kept:] if isinstance(node, Position))


def _position(printer: Printer, position: Node, axes: Sequence[Index]) -> str:
    """One of several positions, aligned with the others."""
    if isinstance(position, Position):
        return printer.position(position, tuple(axes)).text
    text = printer.aligned(position, tuple(axes))
    return text.text if position.is_host else printer.library.positions.format(text.within(POSTFIX))


def looked_up(printer: Printer, node: Gather) -> Text:
    """The entries of an array at positions that are computed; of what is a slice, the part that is at hand."""
    sliced = _sliced(node.positions)
    plain = node.positions[: len(node.positions) - len(sliced)]
    axes: list[Index] = []
    for position in plain:
        axes += [index for index in position.axes if index not in axes]
    shown = [_position(printer, position, axes) for position in plain]
    shown += [printer.variables.get(index, ":") for index in sliced]
    while shown[-1] == ":":
        shown.pop()
    return Text(f"{node.name}[{', '.join(shown)}]", POSTFIX)

"""The ends of a block as text: which part of a range it visits, and in which columns a condition can fail.

Beside `codegen.printing.blocks`. An end such as j <= i, from `codegen.blocking.supports`, reaches farthest for one row
of a block and least for another: between the two lie the columns in which the condition holds for some rows only. The
others are visited whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.backends.spelling import ATOM
from codegen.blocking.supports import End
from codegen.ir.nodes import Literal, Map, Node, Option
from codegen.ir.trees import walk
from codegen.printing.printer import Printer

NEGATED = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt", "eq": "ne", "ne": "eq"}


def negated(condition: Node) -> Node:
    """The condition that holds where this one fails."""
    if isinstance(condition, Map) and condition.operation in NEGATED:
        return Map(NEGATED[condition.operation], condition.operands)
    return Map("not", (condition,))


def visited(extent: str, known: Sequence[End], row: str, printer: Printer) -> str:
    """The part of a range that the rows of a block visit, as a slice."""
    stop, start = extent, "0"
    for end in known:
        reach = reaches(end, row, printer, certain=False)
        limit = f"min({stop}, {reach})" if end.upper else f"max({start}, {reach})"
        if end.upper and reach != f"{row}.stop":
            limit = f"max(0, {limit})"
        before = stop if end.upper else start
        text = limit if end.flag is None else f"({limit} if {end.flag.name} else {before})"
        stop, start = (text, start) if end.upper else (stop, text)
    if stop == extent and start != "0":  # no column may be left, and a range does not run backwards
        start = f"min({_bare(start)}, {extent})"
    return f"slice({_bare(start)}, {_bare(stop)})"


def _bare(text: str) -> str:
    return text[1:-1] if text.startswith("(") else text


@dataclass(frozen=True)
class Cut:
    """The columns where a condition can fail: whether there are any, their slice of the range, their place in it."""

    some: str
    span: str
    place: str


def cut(end: End, known: Sequence[End], column: str, row: str, printer: Printer) -> Cut:
    """The columns behind, or before, those where a condition holds in each row; `column` is the slice of the block.

    Of the known ends of the range, a lower one may lie behind an upper one: then there are no columns. The last column
    in which the condition still holds in each row comes along: for a diagonal it is where the rows of the block begin,
    and operations on columns from there on are up to four times as fast as from the next.
    """
    limit = reaches(end, row, printer, certain=True)
    if end.upper:
        start = f"max({column}.start, {reaches(end, row, printer, certain=True, shift=-1)})"
        start = f"min({start}, {column}.stop)" if any(not other.upper for other in known) else start
        span = f"slice({start}, {column}.stop)"
        return Cut(f"{limit} < {column}.stop", span, f"{column}_cut.start - {column}.start :")
    stop = f"min({column}.stop, {limit})"
    stop = f"max({column}.start, {stop})" if any(other.upper for other in known) else stop
    return Cut(f"{column}.start < {limit}", f"slice({column}.start, {stop})", f": {column}_cut.stop - {column}.start")


def diagonal(end: End, column: str, row: str, printer: Printer) -> str:
    """The diagonal of the block, rows by columns, on the far side of which the condition fails; "" if there is none."""
    if end.sign != 1 or any(isinstance(n, Option) for _, node in end.rest for n in walk(node)):
        return ""
    offset = (-1 if end.upper else 1) if end.strict else 0
    terms = [f"{row}.start", f"- {column}.start"]
    for coefficient, node in end.rest:
        if isinstance(node, Literal) and node.denominator == 1 and not node.constant:
            offset += coefficient * node.numerator
        else:
            terms.append(f"{'+' if coefficient > 0 else '-'} {printer.laid_out(node, ()).within(ATOM)}")
    return " ".join(terms) + (f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else "")


def reaches(end: End, row: str, printer: Printer, *, certain: bool, shift: int = 0) -> str:
    """Where the range ends for the row that reaches farthest; with `certain`, for the one that reaches least.

    Shifted by so many columns.
    """
    # An upper bound is largest, a lower one smallest, at the last row if it rises with the row, else at the first.
    at_last = (end.sign > 0) == (end.upper != certain)
    offset, terms, whole = shift, [], True
    if end.sign:
        terms.append(("" if end.sign > 0 else "-") + f"{row}.{'stop' if at_last else 'start'}")
        offset -= end.sign if at_last else 0
    for coefficient, node in end.rest:
        if isinstance(node, Literal) and node.denominator == 1 and not node.constant:
            offset += coefficient * node.numerator
        else:
            whole = whole and not any(isinstance(n, Option) for n in walk(node))
            terms.append(f"{'+' if coefficient > 0 else '-'} {printer.laid_out(node, ()).within(ATOM)}")
    rounded_up = end.strict == end.upper  # index < bound stops at its ceiling, index >= bound starts there
    if whole:
        offset += 0 if rounded_up else 1
    bound = " ".join(terms) + (f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else "")
    bound = bound.strip().removeprefix("+ ") or "0"
    if whole:
        return bound
    return f"math.ceil({bound})" if rounded_up else f"math.floor({bound}) + 1"

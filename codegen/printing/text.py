"""Printed expressions: a text and how tightly it binds, so that brackets stand where they are needed and nowhere else.

Below `codegen.printing.printer`, which makes them from nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codegen.backends.spelling import ATOM, MUL, UNARY, Spelling
from codegen.errors import KernelError
from codegen.ir.nodes import Literal


@dataclass(frozen=True)
class Text:
    """A printed expression and how tightly it binds."""

    text: str
    precedence: int

    def within(self, needed: int) -> str:
        """The expression as an operand that needs this precedence."""
        return self.text if self.precedence >= needed else f"({self.text})"


def spelling_in(table: Mapping[str, Spelling], operation: str) -> Spelling:
    """How a table spells an operation.

    Raises:
        KernelError: it does not.
    """
    if operation in table:
        return table[operation]
    raise KernelError(f"operation {operation}: not in the operator table")


def spelled(spelling: Spelling, operands: Sequence[Text]) -> Text:
    """The operands in a spelling, in brackets where it needs them."""
    shown = [operand.within(needed) for operand, needed in zip(operands, spelling.operands, strict=True)]
    return Text(spelling.text.format(*shown), spelling.precedence)


def literal(node: Literal) -> Text:
    """A number."""
    if node.constant:
        name = {"inf": "inf", "pi": "pi", "E": "e"}.get(node.constant)
        text = f"math.{name}" if name is not None else node.constant
        return Text(f"-{text}" if node.numerator < 0 else text, UNARY if node.numerator < 0 else ATOM)
    if node.denominator == 1:
        return Text(str(node.numerator), ATOM if node.numerator >= 0 else UNARY)
    value = node.numerator / node.denominator
    if str(value).rstrip("0").rstrip(".") and len(repr(value)) <= 8 and value * node.denominator == node.numerator:
        return Text(repr(value), ATOM if value >= 0 else UNARY)
    return Text(f"{node.numerator} / {node.denominator}", MUL)

"""Where expressions end: numbers, sizes, scalars, and entries of tensors at indices or at looked-up places.

Part of lowering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
from sympy import Expr, Indexed, Rational

from codegen.errors import KernelError
from codegen.ir.nodes import Gather, Literal, Map, Node, Option, Position, Read, Size
from codegen.lowering.context import Context, lower
from derive.language import Dim, Index


def lower_number(node: Any, context: Context) -> Node:
    """The node for a number of a statement."""
    value = Rational(str(node)) if isinstance(node, sympy.Float) else node
    return Literal(int(value.p), int(value.q)) if is_short(value) else in_digits(value, context)


def is_short(value: Any) -> bool:
    """Whether a rational number may be written as it is: libraries take whole numbers of 64 bits."""
    return max(abs(int(value.p)), int(value.q)) < 2**63


def in_digits(number: Expr, context: Context) -> Node:
    """A number that is no short fraction in the digits of double precision.

    Raises:
        KernelError: it is beyond the largest.
    """
    if number.is_Rational and is_short(number):
        return lower_number(number, context)
    value = float(abs(number).evalf(30))
    if value == float("inf"):
        raise KernelError(
            f"{context.program}: the number {number.evalf(5)} is beyond the largest of double precision, 1.8e308; "
            "scale what it multiplies, or work with its logarithm"
        )
    return Literal(-1 if number.is_negative else 1, 1, repr(value))


def size(node: Any, context: Context) -> Node:
    """The extent of a range as a node.

    Raises:
        KernelError: the range is ragged, or computed from a size.
    """
    if not isinstance(node, (Dim, sympy.Integer)):
        kind = "ragged; a kernel needs rectangular arrays" if node.has(Indexed) else "no size of its own; name it"
        raise KernelError(f"{context.program}: the range {node} is {kind}")
    return Literal(int(node)) if isinstance(node, sympy.Integer) else Size(node)


def lower_scalar(node: Any, context: Context) -> Node:
    """The node for a scalar: what the caller passes, or a definition without indices."""
    return Option(str(node.name)) if str(node.name) in context.options else Read(str(node.name), ())


def lower_entry(node: Any, context: Context) -> Node:
    """The node for an entry of a tensor."""
    entry = named_entry(str(node.base.name), node.indices, context)
    # An integer in a sum or product with the numbers of a kernel has their type; libraries would take a wider one.
    return Map("as_number", (entry,)) if node.base.into is not None and not context.counting else entry


def named_entry(name: str, where: Sequence[Any], context: Context) -> Node:
    """The node for the entry of the array of this name at these places: read as it lies, or gathered."""
    if all(isinstance(part, Index) for part in where) and len(set(where)) == len(where):
        for index in where:
            size(index.extent, context)
        return Read(name, tuple(where))
    return Gather(name, tuple(position(part, context) for part in where))


def compared(part: Any, context: Context) -> Node:
    """The node for one side of a comparison of positions: an index, or what stands in the place of one."""
    return Position(part) if isinstance(part, Index) else lower(part, replace(context, counting=True))


def position(part: Any, context: Context) -> Node:
    """The node for a whole number that says where an entry lies."""
    return compared(part, replace(context, placing=True))

"""What all parts of lowering share: the context of a definition, and products with the host's part kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.nodes import Axes, Literal, Map, Node

ONE, ZERO = Literal(1), Literal(0)
MINUS_INFINITY = Literal(-1, 1, "inf")


@dataclass(frozen=True)
class Context:
    """What lowering knows: names of host scalars, and the preferred order of axes."""

    program: str
    options: frozenset[str]
    order: Axes


def multiplied(nodes: Sequence[Node]) -> Node:
    """The elementwise product, small operands first, so that little is computed at full size."""
    ordered = sorted((node for node in nodes if node != ONE), key=lambda node: len(node.axes))
    if not ordered:
        return ONE
    result = ordered[0]
    for node in ordered[1:]:
        result = Map("mul", (result, node))
    return result


def quotient(above: Sequence[Node], below: Sequence[Node]) -> Node:
    """Above / below with everything that is known before the arrays are touched computed once, on the host."""
    host_above = multiplied([node for node in above if node.is_host])
    host_below = multiplied([node for node in below if node.is_host])
    array = multiplied([node for node in above if not node.is_host])
    divisor = multiplied([node for node in below if not node.is_host])
    if divisor != ONE:
        array = Map("div", (array, divisor))
    if array == ONE:
        return host_above if host_below == ONE else Map("div", (host_above, host_below))
    if host_above == ONE:
        return array if host_below == ONE else Map("div", (array, host_below))
    scale = host_above if host_below == ONE else Map("div", (host_above, host_below))
    return Map("mul", (scale, array))

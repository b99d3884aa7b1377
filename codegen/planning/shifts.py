"""What an exponential is scaled by, taken out of it where it joins another factor: one pass less over the whole array.

Between lowering and `codegen.planning.schedule`'s sharing of values. A logsumexp has two parts, the maximum of a row
and the logarithm of its scaled sum (`codegen.lowering.exponentials`). With a factor c that has no more axes than these,

    c[n] * exp(z[n,v] - top[n] - log[n])  =  (c[n] * exp(-log[n])) * exp(z[n,v] - top[n])

saves the second subtraction. The logarithm is at least 0 and the difference from the maximum at most 0, so that neither
exponential overflows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from codegen.ir.nodes import Map, Node, Read, Select
from codegen.ir.sharing import Statement
from codegen.ir.trees import with_children
from codegen.lowering.context import multiplied, quotient
from codegen.planning.factors import factors_of


def unshifted(statements: Sequence[Statement], logarithms: Collection[str]) -> list[Statement]:
    """The statements with the named logarithms taken out of exponentials that stand beside a smaller factor."""

    def changed(node: Node) -> Node:
        node = with_children(node, [changed(child) for child in node.children])
        if not isinstance(node, Map) or node.operation not in ("mul", "div") or node.is_host:
            return node
        above, below = factors_of(node)
        for place, factor in enumerate(above):
            apart = _apart(factor, logarithms)
            others = [*above[:place], *above[place + 1 :]]
            if apart is not None and any(set(other.axes) <= set(apart[1].axes) for other in (*others, *below)):
                narrow = [other for other in others if set(other.axes) <= set(apart[1].axes)]
                wide = [other for other in others if other not in narrow]
                return quotient([multiplied([*narrow, apart[1]]), *wide, apart[0]], below)
        return node

    return [replace(statement, node=changed(statement.node)) for statement in statements]


def _apart(node: Node, logarithms: Collection[str]) -> tuple[Node, Node] | None:
    """exp(x - log) as exp(x) and exp(-log), also where a selection is made before the exponential."""
    if not isinstance(node, Map) or node.operation != "exp":
        return None
    (inside,) = node.operands
    argument = inside.yes if isinstance(inside, Select) else inside
    if not isinstance(argument, Map) or argument.operation != "sub":
        return None
    shifted, log = argument.operands
    if not isinstance(log, Read) or log.name not in logarithms or not set(log.axes) < set(shifted.axes):
        return None
    left = replace(inside, yes=shifted) if isinstance(inside, Select) else shifted
    return Map("exp", (left,)), Map("exp", (Map("neg", (log,)),))

"""What the forward kernel keeps for the backward one: small values that cost a reduction, and factors instead of parts.

Between lowering and `codegen.planning.schedule`'s sharing of values.

*Rows.* A loss whose formula has a logsumexp inside has a gradient with the softmax of the same row in it; lowered, both
contain the maximum of the row and the sum of its exponentials. These are one number for each row. With names they are
saved, and the backward kernel passes over the row once.

*Factors.* The adjoint of u, where h = f(u), is f'(u) dh. What f'(u) is made of, u and perhaps values on the way to h,
would be saved for this one factor; if they are several arrays of its size, the forward kernel computes the factor
while it has them at hand, and saves one array in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

from codegen.ir.nodes import Axes, Map, Node, Read, Reduce, Select
from codegen.ir.sharing import Statement, fresh_name, label, reads
from codegen.ir.trees import descendants, walk, with_children


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


def with_factors_kept(
    forward: Sequence[Statement], backward: Sequence[Statement], wanted: str, inputs: Collection[str],
    taken: Collection[str],
) -> tuple[list[Statement], list[Statement]]:  # fmt: skip
    """The statements of both routines, factors computed in the first where that saves several arrays for one.

    `wanted` is what the forward routine returns. That and the inputs are there in any case.
    """
    made = frozenset(statement.name for statement in forward)
    used = {*taken, *made, *inputs}.union(*({s.name, *reads(s.node)} for s in backward))
    first, second = list(forward), list(backward)
    for place, statement in enumerate(second):
        factor, others = _known_part(statement.node, made.union(inputs))
        if factor is None or not all(isinstance(other, Read) for other in others):
            continue
        elsewhere = frozenset().union(*(reads(s.node) for s in second if s is not statement))
        kept = {
            read.name for read in walk(factor) if isinstance(read, Read) and set(read.axes) == set(statement.axes)
        } & (made - elsewhere - {wanted})  # fmt: skip
        if len(kept) < 2:
            continue
        read = Read(fresh_name(f"{statement.name}_factor", used), statement.axes)
        after = max(number for number, s in enumerate(first) if s.name in reads(factor))
        first.insert(after + 1, Statement(read.name, factor, read.axes, _quotient(read, statement, others)))
        second[place] = replace(statement, node=_product([read, *others]))
    return first, second


def _known_part(node: Node, known: Collection[str]) -> tuple[Node | None, list[Node]]:
    """The product of the factors that are computed entry by entry from known arrays, and the other factors."""
    factors = _factors(node)
    others = [factor for factor in factors if not _is_known(factor, known)]
    if not any(set(other.axes) == set(node.axes) for other in others):
        return None, others  # nothing is left to do for each entry: it would be the adjoint itself
    mine = [factor for factor in factors if factor not in others]
    return (_product(mine), others) if mine else (None, others)


def _factors(node: Node) -> list[Node]:
    if isinstance(node, Map) and node.operation == "mul":
        return [factor for child in node.operands for factor in _factors(child)]
    return [node]


def _product(factors: Sequence[Node]) -> Node:
    return reduce(lambda left, right: Map("mul", (left, right)), factors)


def _is_known(node: Node, known: Collection[str]) -> bool:
    if isinstance(node, Read):
        return node.name in known
    return node.is_host or (isinstance(node, (Map, Select)) and all(_is_known(c, known) for c in node.children))


def _quotient(read: Read, statement: Statement, others: Sequence[Node]) -> str:
    """What the factor is, as a formula."""
    below = "*".join(_entry(other.name, other.axes) for other in others if isinstance(other, Read))
    below = below if len(others) == 1 else f"({below})"
    return f"{_entry(read.name, read.axes)} = {_entry(statement.name, statement.axes)}/{below}"


def _entry(name: str, axes: Axes) -> str:
    return f"{name}[{','.join(index.name for index in axes)}]"

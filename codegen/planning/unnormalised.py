"""Quotients saved as numerator and divisor: what a row is divided by goes into the smaller operand of products.

After `codegen.planning.schedule`'s sharing of values, from the statements of both routines to both. Where a large
quotient A[i,j] = E[i,j] / Z[i] is saved, and the backward routine needs it in products only,

    Sum_i(A[i,j] * dO[i,c])                    =  Sum_i(E[i,j] * (dO[i,c] / Z[i]))
    (Sum_c(dO[i,c] * V[j,c]) - D[i]) * A[i,j]  =  (Sum_c(dO[i,c] / Z[i] * V[j,c]) - D[i] / Z[i]) * E[i,j]

so that E is saved as it is, dO is divided once a row, and no pass over E divides. The forward routine divides after its
own products (`codegen.planning.deferring`). What is divided may overflow where the quotient does not: Z has to be at
least 1, as the sum of exponentials of differences from their maximum is. Nothing else is known here of what the
quotient is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from codegen.algebra.costs import Sizes, entries
from codegen.blocking.scales import Bodies
from codegen.ir.nodes import Contract, Map, Node, Read
from codegen.ir.sharing import Statement, fresh_name, label, read_later, reads
from codegen.ir.trees import walk, with_children
from codegen.planning.deferring import deferred, is_quotient, one_over_nothing


def unnormalised(
    forward: Sequence[Statement],
    backward: Sequence[Statement],
    saved: Sequence[str],
    kept: Sequence[str],
    sizes: Sizes,
) -> tuple[list[Statement], list[Statement], list[str]]:
    """(forward, backward, saved names) with large saved quotients kept in parts, where that is less to compute.

    The names in `kept` are wanted as they are.
    """
    first, second, names = list(forward), list(backward), list(saved)
    for statement in forward:
        if statement.name not in names or statement.name in kept or not is_quotient(statement):
            continue
        taken = {s.name for s in (*first, *second)}.union(*(reads(s.node) for s in (*first, *second)))
        bodies = {s.name: s for s in first}
        *parts, apart = _in_parts(statement, bodies, taken)
        numerator, divisor = _names(apart)
        stated = {**bodies, **{part.name: part for part in parts}}
        if divisor not in stated or not _is_at_least_one(stated[divisor].node):
            continue
        changed = _Division(apart, second, kept, sizes, taken).through()
        if changed is None:
            continue
        others = [name for name in names if name != statement.name]
        place = next(number for number, other in enumerate(first) if other.name == statement.name)
        divided = deferred([*first[:place], *parts, apart, *first[place + 1 :]], [*kept, *others], sizes)
        if any(statement.name == other.name for other in divided):
            continue
        told = f"{statement.formula} = {numerator} / {divisor}"
        first = [replace(s, formula=told) if s.name == numerator and not s.formula else s for s in divided]
        names = [*others, numerator, divisor]
        second = read_later(changed, kept)
    return first, second, list(dict.fromkeys(names))


def _in_parts(statement: Statement, bodies: Bodies, taken: set[str]) -> list[Statement]:
    """Statements for the numerator and the divisor, where they have no name yet, and the quotient of the two names."""
    made: list[Statement] = []
    above, below = statement.node.children
    below = one_over_nothing(below, bodies)

    def named(node: Node) -> Node:
        if isinstance(node, Read):
            return node
        made.append(Statement(fresh_name(f"{statement.name}_{label(node)}", taken), node, node.axes))
        return Read(made[-1].name, node.axes)

    apart = with_children(statement.node, [named(above), named(below)])
    return [*made, replace(statement, node=apart)]


def _names(quotient: Statement) -> tuple[str, str]:
    """The names of numerator and divisor."""
    numerator, divisor = (operand.name for operand in quotient.node.children if isinstance(operand, Read))
    return numerator, divisor


def _is_at_least_one(node: Node) -> bool:
    return isinstance(node, Map) and node.operation == "at_least_one"


@dataclass
class _Division:
    """One quotient, taken out of the statements that read it: the divisor goes into what the numerator meets.

    `made` are the divided values by the place at which they are needed first, `inlined` the statements that were
    written in; what is not read in the end, of either, is for the caller to leave out.
    """

    quotient: Statement
    statements: list[Statement]
    kept: Collection[str]
    sizes: Sizes
    taken: set[str]
    made: dict[Node, Statement] = field(default_factory=dict)
    inlined: dict[str, Statement] = field(default_factory=dict)

    def through(self) -> list[Statement] | None:
        """The statements without the quotient; None where one needs it otherwise, or it would not be less."""
        result: list[Statement] = []
        for statement in self.statements:
            before = len(self.made)
            node = statement.node
            if self.quotient.name in reads(node):
                node = self._freed(node)
            if self.quotient.name in reads(node):
                return None
            result += [*self.made.values()][before:]
            because = statement.because
            if node != statement.node:
                told = f"{self.quotient.name} = {' / '.join(_names(self.quotient))}, divided before the product"
                gone = reads(statement.node) - reads(node)
                written = [s.formula for s in self.inlined.values() if s.name in gone]
                because = "; ".join(filter(None, (because, *written, told)))
            result.append(replace(statement, node=node, because=because))
        return result

    def _parts(self, read: Read) -> tuple[Node, Node]:
        """Numerator and divisor at the place where the quotient is read."""
        named = dict(zip(self.quotient.axes, read.where, strict=True))
        numerator, divisor = (
            Read(operand.name, tuple(named[index] for index in operand.where))
            for operand in self.quotient.node.children
            if isinstance(operand, Read)
        )
        return numerator, divisor

    def _freed(self, node: Node) -> Node:
        """The node with the divisor in the other factor of every product that reads the quotient."""
        is_product = isinstance(node, Contract) or (isinstance(node, Map) and node.operation == "mul")
        for place, side in enumerate(node.children if is_product else ()):
            if isinstance(side, Read) and side.name == self.quotient.name:
                numerator, divisor = self._parts(side)
                other = self._divided(node.children[1 - place], divisor)
                if other is not None:
                    return with_children(node, [numerator, other] if place == 0 else [other, numerator])
        return with_children(node, [self._freed(child) for child in node.children])

    def _divided(self, node: Node, divisor: Node) -> Node | None:
        """The node divided, what is divided being smaller than the quotient; None where it has no such part."""
        if not node.is_host and not set(divisor.axes) <= set(node.axes):
            return None
        if isinstance(node, Map) and node.operation in ("add", "sub", "neg"):
            return self._in_all(node, divisor)
        if entries({*node.axes, *divisor.axes}).at(self.sizes) < entries(self.quotient.axes).at(self.sizes):
            return self._named(Map("div", (node, divisor)))
        if isinstance(node, Read):
            inner = self._written_in(node)
            return None if inner is None else self._divided(inner, divisor)
        if isinstance(node, Contract) and set(divisor.axes) & set(node.over):
            return None
        if isinstance(node, Contract) or (isinstance(node, Map) and node.operation == "mul"):
            return self._in_one(node, divisor)
        if isinstance(node, Map) and node.operation == "div":
            above = self._divided(node.operands[0], divisor)
            return None if above is None else Map("div", (above, node.operands[1]))
        return None

    def _in_all(self, node: Map, divisor: Node) -> Node | None:
        """A sum divided term by term."""
        parts = [self._divided(operand, divisor) for operand in node.operands]
        return None if None in parts else with_children(node, [part for part in parts if part is not None])

    def _in_one(self, node: Node, divisor: Node) -> Node | None:
        """A product with one factor divided, the smallest that can be."""
        order = sorted(range(len(node.children)), key=lambda n: entries(node.children[n].axes).at(self.sizes))
        for place in order:
            part = self._divided(node.children[place], divisor)
            if part is not None:
                return with_children(node, [part if n == place else child for n, child in enumerate(node.children)])
        return None

    def _named(self, node: Map) -> Node:
        """A divided array under a name of its own: it may be needed again. A number for each row is left as it is."""
        value = node.operands[0]
        if not isinstance(value, Read) or set(value.axes) == set(node.operands[1].axes):
            return node
        if node not in self.made:
            name = fresh_name(f"{value.name}_divided", self.taken)
            self.made[node] = Statement(name, node, node.axes)
        return Read(self.made[node].name, node.axes)

    def _written_in(self, read: Read) -> Node | None:
        """What a name stands for that is read nowhere else."""
        readers = sum(isinstance(n, Read) and n.name == read.name for s in self.statements for n in walk(s.node))
        named = next((s for s in self.statements if s.name == read.name and s.axes == read.where), None)
        if named is None or readers != 1 or read.name in self.kept:
            return None
        self.inlined[read.name] = named
        return named.node

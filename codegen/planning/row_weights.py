"""A mean along a row is a product with equal weights, and a number beside a product with a vector goes into the vector.

Last of the passes on statements, for every schedule of a kernel. A mean is a sum and a division of what it gives,

    Sum_c(x[n,c]) / C  =  Sum_c(x[n,c] w[c])  with  w[c] = 1/C        Sum_c(x[n,c] v[c]) / C  =  Sum_c(x[n,c] (v[c]/C))

and the product of a matrix and a vector costs no more than the sum, in NumPy a third of it. It is added up in a few
long chains: what a mean is off by is their rounding divided by the number of terms. The weights are made once for a
call, not once for a block.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from codegen.ir.insides import with_indices
from codegen.ir.nodes import Axes, Contract, Map, Node, Read, Reduce, Size
from codegen.ir.sharing import Statement, fresh_name, reads
from codegen.ir.trees import with_children
from codegen.lowering.context import ONE


def weighted(statements: Sequence[Statement], taken: Collection[str]) -> list[Statement]:
    """The statements with numbers beside sums along rows in the vectors that are summed against."""
    used = {*taken, *(s.name for s in statements)}.union(*(reads(s.node) for s in statements))
    axes = {statement.name: statement.axes for statement in statements}
    made: dict[str, Statement] = {}
    result: list[Statement] = []

    def named(stem: str, vector: Node, matrix: Node) -> Node:
        """The vector under a name; its index is called as in the definition of the matrix."""
        if stem not in made:
            own = axes.get(matrix.name, matrix.axes)[-1:] if isinstance(matrix, Read) else matrix.axes[-1:]
            made[stem] = Statement(fresh_name(stem, used), with_indices(vector, {matrix.axes[-1]: own[0]}), own)
            result.append(made[stem])
        return Read(made[stem].name, matrix.axes[-1:])

    def changed(node: Node) -> Node:
        node = with_children(node, [changed(child) for child in node.children])
        if not isinstance(node, Map) or node.operation != "div":
            return node
        total, count = node.operands
        if not isinstance(count, Size):
            return node
        over: Axes = getattr(total, "over", ())
        matrix = total.children[0] if isinstance(total, (Reduce, Contract)) else total
        if len(over) != 1 or len(matrix.axes) < 2 or matrix.axes[-1:] != over:
            return node
        is_mean = isinstance(total, Reduce) and total.operation == "sum" and isinstance(matrix, Read)
        if is_mean and str(over[0].extent) == str(count.extent):
            return Contract(matrix, named(f"share_of_{count.extent}", Map("div", (ONE, count)), matrix), over)
        if isinstance(total, Contract) and isinstance(total.right, Read) and total.right.axes == over:
            scaled = Map("div", (total.right, count))
            return Contract(matrix, named(f"{total.right.name}_over_{count.extent}", scaled, matrix), over)
        return node

    for statement in statements:
        node = changed(statement.node)
        result.append(replace(statement, node=node))
    return result

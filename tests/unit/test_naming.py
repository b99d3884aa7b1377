"""Values that differ in the names of summed indices alone are one; those of different places are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from codegen.ir.nodes import Contract, Gather, Identity, Map, Node, Read, Reduce
from codegen.ir.sharing import Statement
from codegen.planning.naming import with_arrays_at_hand, written_alike
from derive.functions import log_softmax, silu, softmax
from derive.language import Index, Sum, dims, index, indices, leading_index, tensor
from derive.program import Program

N, C = dims("N C")
n = leading_index("n", N)
c, e = indices("c e", C)


def named(*nodes: Node) -> list[Node]:
    statements = [Statement(f"s_{place}", node, node.axes) for place, node in enumerate(nodes)]
    return [statement.node for statement in written_alike(statements)]


def row_sum(index: Index) -> Node:
    return Reduce("sum", Read("x", (n, index)), (index,))


def test_the_name_of_a_summed_index_makes_no_difference() -> None:
    first, second = named(row_sum(c), row_sum(e))
    assert first == second == row_sum(c)
    left, right = named(*(Contract(Read("x", (n, i)), Read("y", (i,)), (i,)) for i in (e, c)))
    assert left == right


def test_the_order_of_two_operands_makes_no_difference() -> None:
    x, y = Read("x", (n, c)), Read("y", (c,))
    first, second = named(Contract(x, y, (c,)), Contract(Read("y", (e,)), Read("x", (n, e)), (e,)))
    assert first == second
    looked_up = Gather("W", (Read("k", (n,)), Read("c", (c,))))
    for left, right in ((x, y), (looked_up, y)):
        for operation in ("mul", "add"):
            first, second = named(Map(operation, (left, right)), Map(operation, (right, left)))
            assert first == second
    for operation in ("sub", "div"):
        first, second = named(Map(operation, (x, y)), Map(operation, (y, x)))
        assert first != second


def test_a_free_index_does() -> None:
    first, second = named(*(Reduce("sum", Read("w", (i, j)), (j,)) for i, j in ((c, e), (e, c))))
    assert first.axes == (c,)
    assert second.axes == (e,)


def test_neither_a_free_index_of_the_hidden_name_nor_a_delta_is_mistaken() -> None:
    hidden = Index("summed_0", C)
    product = Contract(Read("x", (n, c)), Read("y", (c,)), (c,))
    apart = Reduce("sum", Contract(Read("x", (n, c)), Read("z", (c, hidden)), (c,)), (n,))
    assert named(product, apart) == [product, apart]
    deltas = [Reduce("sum", Identity(i, e), (i,)) for i in (c, Index("k", C))]
    assert named(*deltas) == deltas


def test_one_maximum_for_each_row() -> None:
    x, y = tensor("x", N, C), tensor("y", N, C)
    program = Program("divergence", "divergence of softmax functions", [x, y])
    difference = log_softmax(x[n, c], over=c) - log_softmax(y[n, c], over=c)
    program.kernel(program.define("o", [n], Sum(softmax(x[n, c], over=c) * difference, c)), wrt=[x, y])
    text = render_all([program], ["numpy"])["numpy/divergence.py"]
    forward, backward = text.split("def divergence_backward")
    assert (forward.count(".max("), backward.split("\ndef ")[0].count(".max(")) == (len((x, y)), 0)


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_an_expert_that_is_looked_up_is_multiplied_once(target: str, tmp_path: Path) -> None:
    """The value has Sum(u V[k]), the slope of the share Sum(V[k] u); the slope of u has another index of W[k]."""
    D, H, rows = dims("D H M")
    m, d, to, h = index("m", rows), *indices("d to", D), index("h", H)
    x, W, V = tensor("x", rows, D), tensor("W", C, D, H), tensor("V", C, H, D)
    g, k = tensor("g", D, C), tensor("k", rows, into=C)
    program = Program("expert", "a mixture of experts, one for each row", [x, g, W, V, k])
    share = program.define("p", [m, c], softmax(Sum(x[m, d] * g[d, c], d), over=c))
    inner = program.define("u", [m, h], silu(Sum(x[m, d] * W[k[m], d, h], d)))
    y = program.define("y", [m, to], share[m, k[m]] * Sum(inner[m, h] * V[k[m], h, to], h))
    program.kernel(program.define("L", [], Sum(y[m, to] ** 2, m, to)), wrt=[x, g, W, V])
    files = render_all([program], [target])
    if target == "numpy":
        together = files["numpy/expert.py"].split("def expert_value_and_gradient")[1]
        assert together.count(", V[k") == together.count(", W[k") == 1
    write(files, tmp_path, [target])
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [result for result in results if not result.ok]


def test_a_sum_is_taken_over_the_array_that_is_there() -> None:
    def difference(index: Index) -> Node:
        return Map("sub", (Read("x", (n, index)), Read("m", (n,))))

    square = Contract(difference(e), difference(e), (e,))
    statements = [Statement("y", Map("div", (difference(c), square)), (n, c)), Statement("v", row_sum(e), (n,))]
    y, v = with_arrays_at_hand(statements)
    assert y.node == Map("div", (difference(c), Contract(difference(c), difference(c), (c,))))
    assert v == statements[1]
    apart = Contract(difference(e), Read("w", (c, e)), (e,))
    for kept in (apart, Contract(difference(e), Identity(e, c), (e,))):
        assert (
            with_arrays_at_hand([Statement("o", difference(c), (n, c)), Statement("u", kept, kept.axes)])[1].node
            == kept
        )


def test_one_difference_in_a_normalised_row() -> None:
    x = tensor("x", N, C)
    program = Program("normalised", "normalised rows", [x])
    mu = program.define("mu", [n], Sum(x[n, c], c) / C)
    program.kernel(program.define("y", [n, c], (x[n, c] - mu[n]) / (1 + Sum((x[n, e] - mu[n]) ** 2, e))), wrt=[x])
    text = render_all([program], ["numpy"])["numpy/normalised.py"].split("def normalised_backward")[0]
    assert text.count("np.subtract(x") == 1

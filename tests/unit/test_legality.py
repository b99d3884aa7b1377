"""What may be added up block by block: sums over the rows, but not what needs a finished sum over the same rows."""

from __future__ import annotations

from codegen.blocking.legality import accumulates
from codegen.ir.nodes import Contract, Map, Read, Reduce
from derive.language import dims, indices, leading_index

N, T, D = dims("N T D")
n = leading_index("n", N)
i, j = indices("i j", T)
a = indices("a", D)[0]
weights, values = Read("e", (n, i)), Read("v", (n, i, a))


def test_a_sum_over_the_rows_adds_up() -> None:
    assert accumulates(Contract(weights, values, (i,)), frozenset({i}))
    assert accumulates(Map("neg", (Reduce("sum", weights, (n, i)),)), frozenset({n, i}))
    inner = Contract(Read("s", (n, i, j)), Read("k", (n, j)), (j,))
    assert accumulates(Contract(inner, values, (n, i)), frozenset({n, i}))


def test_a_sum_of_sums_over_different_indices_adds_up() -> None:
    assert accumulates(Reduce("sum", Reduce("sum", weights, (i,)), (n,)), frozenset({n, i}))


def test_shares_of_the_rows_do_not_add_up() -> None:
    shares = Map("div", (weights, Map("at_least_one", (Reduce("sum", weights, (i,)),))))
    assert not accumulates(Contract(shares, values, (i,)), frozenset({i}))
    assert not accumulates(Reduce("sum", Map("sub", (weights, Reduce("max", weights, (i,)))), (i,)), frozenset({i}))

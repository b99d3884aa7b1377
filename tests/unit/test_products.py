"""Divisions put off until after a product or made before one."""

from __future__ import annotations

from codegen.ir.nodes import Contract, Map, Read, Reduce
from codegen.ir.sharing import Statement, reads
from codegen.ir.trees import walk
from codegen.planning.deferring import deferred
from codegen.planning.unnormalised import unnormalised
from derive.language import dims, index

T, S, d = dims("T S d")
i, j, c = index("i", T), index("j", S), index("c", d)
SIZES = {"T": 1000, "S": 1000, "d": 10}
e, s, V, A = Read("e", (i, j)), Read("s", (i,)), Read("V", (j, c)), Read("A", (i, j))
quotient = Statement("A", Map("div", (e, s)), (i, j), "A = e/s")
product = Statement("O", Contract(A, V, (j,)), (i, c), "O = A V")


def test_a_quotient_that_only_products_read_is_never_made() -> None:
    (made,) = deferred([quotient, product], ["O"], SIZES)
    assert made.node == Map("div", (Contract(e, V, (j,)), s))
    assert made.because == "A = e / s, divided after the product"


def test_one_that_is_kept_is() -> None:
    assert deferred([quotient, product], ["O", "A"], SIZES) == [quotient, product]


def test_one_that_is_read_elsewhere_is() -> None:
    other = Statement("P", Map("mul", (A, A)), (i, j))
    assert deferred([quotient, product, other], ["O", "P"], SIZES) == [quotient, product, other]


def test_a_divisor_that_is_summed_over_stays() -> None:
    down = Statement("O", Contract(A, Read("dO", (i, c)), (i,)), (j, c))
    assert deferred([quotient, down], ["O"], SIZES) == [quotient, down]


def test_nothing_is_put_off_to_a_larger_result() -> None:
    assert deferred([quotient, product], ["O"], {**SIZES, "d": 5000}) == [quotient, product]


# ---------------------------------------------------------------------------------------------------------------------
# Quotients that are saved.

dO, D, dA = Read("dO", (i, c)), Read("D", (i,)), Read("dA", (i, j))
forward = [
    Statement("e", Map("exp", (Read("S", (i, j)),)), (i, j)),
    Statement("s", Map("at_least_one", (Reduce("sum", e, (j,)),)), (i,)),
    quotient,
    product,
]
backward = [
    Statement("dA", Contract(dO, V, (c,)), (i, j), "dA = dO V^T"),
    Statement("dS", Map("mul", (Map("sub", (dA, D)), A)), (i, j)),
    Statement("dV", Contract(A, dO, (i,)), (j, c)),
]


def test_a_large_quotient_is_saved_in_parts() -> None:
    first, second, saved = unnormalised(forward, backward, ["A", "V"], ["O", "dS", "dV"], SIZES)
    assert saved == ["V", "e", "s"]
    assert all("A" not in reads(statement.node) for statement in (*first, *second))
    divided = [
        n for known in (*first, *second) for n in walk(known.node) if isinstance(n, Map) and n.operation == "div"
    ]
    assert divided
    assert all(not {i, j} <= set(node.axes) for node in divided)
    assert [statement.name for statement in second] == ["dO_divided", "dS", "dV"]
    assert "dA = dO V^T" in second[1].because


def test_one_that_is_wanted_is_saved_as_it_is() -> None:
    assert unnormalised(forward, backward, ["A", "V"], ["O", "A"], SIZES) == (forward, backward, ["A", "V"])


def test_one_that_is_needed_beside_no_product_is_saved_as_it_is() -> None:
    squared = [*backward, Statement("dT", Map("square", (A,)), (i, j))]
    assert unnormalised(forward, squared, ["A", "V"], ["O"], SIZES) == (forward, squared, ["A", "V"])


def test_a_factor_that_is_returned_stays_what_it_is() -> None:
    assert unnormalised(forward, backward, ["A", "V"], ["O", "dA"], SIZES) == (forward, backward, ["A", "V"])


def test_nothing_larger_than_the_quotient_is_divided() -> None:
    sizes = {**SIZES, "d": 5000}
    assert unnormalised(forward, backward, ["A", "V"], ["O"], sizes) == (forward, backward, ["A", "V"])


def test_what_was_written_in_for_nothing_is_still_computed() -> None:
    w = Read("w", (i, j))
    weighted = [
        Statement("w", Map("exp", (Read("S", (i, j)),)), (i, j)),
        Statement("dS", Map("mul", (Map("mul", (w, Contract(dO, V, (c,)))), A)), (i, j)),
    ]
    _, second, _ = unnormalised(forward, weighted, ["A", "V"], ["O", "dS"], SIZES)
    assert [statement.name for statement in second] == ["w", "dO_divided", "dS"]
    assert {"w", "e", "dO_divided"} <= reads(second[-1].node)

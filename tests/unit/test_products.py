"""Divisions put off until after a product, and what could ride along in one as a column."""

from __future__ import annotations

from codegen.columns import column_term, shared_operands
from codegen.deferring import deferred
from codegen.nodes import Contract, Map, Read, Reduce
from codegen.sharing import Statement
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


def test_a_sum_beside_a_product_is_one_more_column() -> None:
    total = Reduce("sum", e, (j,))
    statements = [Statement("t", total, (i,)), Statement("O", Contract(e, V, (j,)), (i, c))]
    (found,) = shared_operands(statements)
    assert (found.operand, found.total, found.products) == (e, total, (Contract(e, V, (j,)),))
    assert not list(shared_operands(statements[1:]))


def test_a_term_of_the_rows_is_one_more_summed_index() -> None:
    dA = Contract(Read("dO", (i, c)), V, (c,))
    found = column_term(Map("sub", (dA, s)))
    assert found is not None
    assert (found.product, found.term, found.subtracted) == (dA, s, True)
    assert column_term(Map("sub", (dA, e))) is None
    assert column_term(Map("mul", (dA, s))) is None

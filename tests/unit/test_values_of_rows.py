"""Passes over nodes about what is kept for the backward kernel, and about values with few axes elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.ir.nodes import Map, Node, Read, Reduce, Select
from codegen.ir.sharing import Statement
from codegen.lowering.context import ZERO
from codegen.planning.factors import gathered
from codegen.planning.keeping import with_factors_kept, with_rows_kept
from codegen.planning.shifts import unshifted
from derive.language import dims, index
from generated.numpy.runtime import WIDE, add_at

N, V = dims("N V")
n, v = index("n", N), index("v", V)
z, keep, c, log, top = Read("z", (n, v)), Read("keep", (n,)), Read("c", (n,)), Read("L_log", (n,)), Read("L_top", (n,))


def exp(node: Node) -> Node:
    return Map("exp", (node,))


def less(left: Node, right: Node) -> Node:
    return Map("sub", (left, right))


def test_a_logarithm_leaves_the_exponential_for_a_small_factor() -> None:
    (made,) = unshifted([Statement("p", Map("mul", (c, exp(less(less(z, top), log)))), (n, v))], {"L_log"})
    assert made.node == Map("mul", (Map("mul", (c, exp(Map("neg", (log,))))), exp(less(z, top))))


@pytest.mark.parametrize("factor", [z, Map("mul", (z, z))])
def test_beside_large_factors_it_stays(factor: Node) -> None:
    statement = Statement("p", Map("mul", (factor, exp(less(less(z, top), log)))), (n, v))
    assert unshifted([statement], {"L_log"}) == [statement]


def test_only_logarithms_leave() -> None:
    """The maximum of a row is what keeps the exponential from overflowing."""
    statement = Statement("p", Map("mul", (c, exp(less(less(z, log), top)))), (n, v))
    assert unshifted([statement], {"L_log"}) == [statement]


def test_what_both_kernels_reduce_is_saved() -> None:
    maximum = Reduce("max", z, (v,))
    e = exp(less(z, maximum))
    total = Reduce("sum", e, (v,))
    forward = [Statement("row", Map("add", (maximum, Map("log", (total,)))), (n,))]
    backward = [Statement("dz", Map("div", (e, total)), (n, v))]
    first, second = with_rows_kept(forward, backward, ["z"])
    assert [statement.name for statement in first] == ["row_top", "row_sum", "row"]
    row_top, row_sum = Read("row_top", (n,)), Read("row_sum", (n,))
    assert first[1].node == Reduce("sum", exp(less(z, row_top)), (v,))
    assert second[0].node == Map("div", (exp(less(z, row_top)), row_sum))


def test_large_values_are_not_saved() -> None:
    e = exp(z)
    forward = [Statement("y", Map("mul", (e, z)), (n, v))]
    backward = [Statement("dz", Map("mul", (e, e)), (n, v))]
    assert with_rows_kept(forward, backward, ["z"]) == (forward, backward)


def adjoint(*factors: Node) -> list[Statement]:
    """dz as a product, and what reads z or p besides."""
    first, *others = factors
    for factor in others:
        first = Map("mul", (first, factor))
    return [Statement("dz", first, (n, v))]


U, P = Read("u", (n, v)), Read("p", (n, v))
FORWARD = [Statement("u", exp(z), (n, v)), Statement("p", Map("tanh", (U,)), (n, v)), Statement("y", P, (n, v))]
DY = Read("dy", (n, v))


def kept(backward: list[Statement], wanted: str = "y") -> tuple[list[Statement], list[Statement]]:
    """Both routines, with z as the input and y as the result."""
    return with_factors_kept(FORWARD, backward, wanted, ["z"], [])


def test_a_factor_is_kept_in_place_of_two_arrays() -> None:
    first, second = kept(adjoint(U, DY, P))
    assert [statement.name for statement in first] == ["u", "p", "dz_factor", "y"]
    assert first[2] == Statement("dz_factor", Map("mul", (U, P)), (n, v), "dz_factor[n,v] = dz[n,v]/dy[n,v]")
    assert second == [Statement("dz", Map("mul", (Read("dz_factor", (n, v)), DY)), (n, v))]


def test_a_factor_comes_after_all_that_it_reads() -> None:
    forward = [*FORWARD[:2], Statement("q", Map("tanh", (P,)), (n, v)), FORWARD[2]]
    q = Read("q", (n, v))
    backward = [*adjoint(U, P, q, DY), Statement("dx", Map("mul", (q, DY)), (n, v))]
    first, _ = with_factors_kept(forward, backward, "y", ["z"], [])
    assert [statement.name for statement in first] == ["u", "p", "q", "dz_factor", "y"]


@pytest.mark.parametrize(
    "backward",
    [
        pytest.param(adjoint(U, DY), id="one array in place of one"),
        pytest.param(adjoint(U, z, DY), id="the input is there in any case"),
        pytest.param([*adjoint(U, P, DY), Statement("dx", Map("mul", (U, DY)), (n, v))], id="read elsewhere as well"),
        pytest.param(adjoint(U, P, Read("dloss", ())), id="the adjoint itself, but for a number"),
        pytest.param(adjoint(U, P, exp(DY)), id="beside what has no name"),
    ],
)
def test_a_factor_is_not_kept(backward: list[Statement]) -> None:
    assert kept(backward) == (FORWARD, backward)


def test_what_is_returned_does_not_count_as_kept() -> None:
    assert kept(adjoint(U, P, DY), wanted="p") == (FORWARD, adjoint(U, P, DY))


def test_narrow_factors_meet_inside_a_selection() -> None:
    """c (e / s where keep, else 0) takes one product with e and not two; what fails is 0 whatever e and c are."""
    condition, s, e = Map("gt", (keep, ZERO)), Read("s", (n,)), exp(z)
    made = gathered(Map("mul", (c, Select(condition, Map("div", (e, s)), ZERO))))
    assert made == Select(condition, Map("mul", (Map("div", (c, s)), e)), ZERO)


@pytest.mark.parametrize("columns", [0, 1, 3, WIDE])
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_values_are_added_as_often_as_a_place_occurs(rows: int, columns: int) -> None:
    random = np.random.default_rng(rows + columns)
    where, values = random.integers(0, 7, rows), random.standard_normal((rows, columns))
    expected, found = np.ones((7, columns)), np.ones((7, columns))
    np.add.at(expected, (where,), values)
    add_at(found, (where,), values)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_values_are_added_at_pairs_of_places() -> None:
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, 3, (4, 1)), random.integers(0, 5, 6)
    for values in (random.standard_normal((4, 6)), np.float64(2.0)):
        expected, found = np.zeros((3, 5)), np.zeros((3, 5))
        np.add.at(expected, (rows, columns), values)
        add_at(found, (rows, columns), values)
        np.testing.assert_allclose(found, expected, rtol=1e-12)

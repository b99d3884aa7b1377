"""Substitution against its naive model: the value with the replacement is the value at the replacement's value."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import pytest
import sympy
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sympy import exp

from derive.binders import all_names, free_indices, fresh_index, scope_of, substitute
from derive.errors import StatementError
from derive.functions import softmax, unfold
from derive.language import Index, Product, Sum, dims, index, indices, lengths, scalars, tensor, tensors
from derive.wellformed import check_expression, check_names

LAWS = settings(max_examples=100, deadline=None, derandomize=True)
CLOSE = mp.mpf(10) ** -15
NAMES = ("i", "j", "k", "a", "i0", "j0")  # the names that bound indices of the random expressions have, and two more


@st.composite
def replacements(draw: Any, statements: Any, old: Index) -> Any:
    """An index expression over the range of `old`, by preference one whose name is bound somewhere."""
    new = index(draw(st.sampled_from(NAMES)), old.extent)
    kinds = [new, new, new, sympy.S.Zero]
    kinds += [statements.turn[new]] if old.extent == statements.T else []
    kinds += [statements.token[index(new.name, statements.T)]] if old.extent == statements.V else []
    return draw(st.sampled_from(kinds))


@LAWS
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_a_substituted_index_has_the_value_of_what_was_substituted(
    statements: Any, explicit: Any, data: Any, seed: int
) -> None:
    expression = data.draw(statements.expressions(3))
    free = sorted(free_indices(expression), key=str)
    chosen = {old: data.draw(replacements(statements, old)) for old in free if data.draw(st.integers(0, 3))}
    kept = [old for old in free if old not in chosen]
    try:
        check_names(sympy.Tuple(*chosen.values(), *kept), "replacements")
    except StatementError:
        reject()
    outer = set(kept).union(*map(free_indices, chosen.values()))
    world = explicit(seed, low=2)
    for places in list(world.places(sorted(outer, key=str)))[:12]:
        before = {old: int(world.value(chosen.get(old, old), places)) for old in free}
        expected = world.value(expression, before)
        found = world.value(substitute(expression, chosen), places)
        assert abs(found - expected) <= CLOSE * (1 + abs(expected))


@LAWS
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_a_substituted_scalar_is_not_caught(statements: Any, explicit: Any, data: Any, seed: int) -> None:
    expression = data.draw(statements.expressions(3))
    row = index(data.draw(st.sampled_from(NAMES)), statements.T)
    inner = index("i", statements.T) if row.name != "i" else index("j", statements.T)
    value = data.draw(st.sampled_from((statements.x[row], Sum(statements.X[row, inner], inner), row * statements.B)))
    if any(row.name == known.name for known in free_indices(expression) if known.extent != statements.T):
        reject()
    world = explicit(seed, low=2)
    outer = sorted(free_indices(expression) | free_indices(value), key=str)
    for places in list(world.places(outer))[:12]:
        here = world.value(value, places)
        found = world.value(substitute(expression, {statements.A: value}), places)
        replaced = explicit(seed)
        replaced.sizes, replaced.cells = world.sizes, {**world.cells, ("A", ()): here}
        expected = replaced.value(expression, places)
        assert abs(found - expected) <= CLOSE * (1 + abs(expected))


@LAWS
@given(data=st.data())
def test_substitution_keeps_a_statement_well_formed(statements: Any, data: Any) -> None:
    expression = data.draw(statements.expressions(3))
    free = sorted(free_indices(expression), key=str)
    chosen = {old: data.draw(replacements(statements, old)) for old in free}
    try:
        check_names(sympy.Tuple(*chosen.values()), "replacements")
    except StatementError:
        reject()
    result = substitute(expression, chosen)
    assert free_indices(result) <= set().union(*map(free_indices, chosen.values())) if chosen else result == expression
    check_expression(result, "result")


# ---------------------------------------------------------------------------------------------------------------------
# The cases by hand.

T, d, N = dims("T d N")
i, j, k, l = indices("i j k l", T)
a = index("a", d)
x, y = tensors("x y", T)
X = tensor("X", T, T)
s, r = scalars("s r")
n, m = indices("n m", N)
L = lengths("L", N)
t = index("t", L[n])
R = tensor("R", N, L)


def test_a_bound_index_is_left_alone() -> None:
    assert substitute(Sum(x[i], i), {i: j}) == Sum(x[i], i)


def test_a_replacement_is_not_caught() -> None:
    caught = substitute(Sum(x[i] * y[j], i), {j: i})
    (bound,) = scope_of(caught).bound  # type: ignore[union-attr]
    assert bound != i
    assert free_indices(caught) == {i}


def test_replacements_are_made_at_once() -> None:
    assert substitute(x[i] * y[j], {i: j, j: i}) == x[j] * y[i]
    assert substitute(s + 2 * r, {s: r, r: s}) == r + 2 * s


def test_a_vector_function_is_read_at_the_new_place() -> None:
    moved = substitute(softmax(x[j], over=j), {j: i})
    assert free_indices(moved) == {i}
    assert unfold(moved) == exp(x[i]) / Sum(exp(x[j]), j)


def test_the_body_of_a_vector_function_does_not_catch_its_new_place() -> None:
    moved = substitute(softmax(X[i, j], over=j), {i: j, j: i})
    assert free_indices(moved) == {i, j}
    read = unfold(moved)
    numerator, _denominator = read.as_numer_denom()
    assert numerator == exp(X[j, i])


def test_a_range_moves_with_the_index_it_depends_on() -> None:
    moved = substitute(Sum(R[n, t], t), {n: m})
    (bound,) = scope_of(moved).bound  # type: ignore[union-attr]
    assert bound.extent == L[m]
    assert moved.function == R[m, bound]


def test_ranges_of_inner_sums_follow_a_renamed_outer_one() -> None:
    moved = substitute(Sum(s * R[n, t], n, t), {s: tensor("z", N)[n]})
    outer, inner = scope_of(moved).bound  # type: ignore[union-attr]
    assert outer != n
    assert inner.extent == L[outer]
    assert free_indices(moved) == {n}


def test_entries_can_be_replaced_as_written() -> None:
    assert substitute(X[i, j] + X[j, i], {X[i, j]: s}) == s + X[j, i]
    assert substitute(Sum(X[i, j], i), {X[i, j]: s}) == Sum(X[i, j], i)


@pytest.mark.parametrize("make", [Sum, Product])
def test_several_bound_indices_are_renamed_apart(make: Any) -> None:
    moved = substitute(make(X[i, j] * s, i, j), {s: X[i, j]})
    names = [bound.name for bound in scope_of(moved).bound]  # type: ignore[union-attr]
    assert len(set(names) | {"i", "j"}) == 4
    assert free_indices(moved) == {i, j}


def test_fresh_names() -> None:
    assert fresh_index(i, {"i"}).name == "i_1"
    assert fresh_index(i, {"i", "i_1"}).name == "i_2"
    assert fresh_index(index("i_1", T), {"i_1"}).name == "i_2"
    assert fresh_index(i, {"i"}).extent == T


def test_names_include_bound_ones_those_in_ranges_and_those_of_everything_else() -> None:
    assert all_names(Sum(R[n, t] * s, t)) == {"n", "t", "R", "s", "L", "N"}
    assert free_indices(Sum(R[n, t], t)) == {n}
    assert free_indices(Sum(1, t)) == {n}
    assert free_indices(Sum(R[n, t], n, t)) == frozenset()

"""The symbols of a statement: what they carry, how they print, and that equal ones are one."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import sympy
from sympy import Abs, And, Eq, Max, Min, Ne, Not, Or, Piecewise, exp, latex, log, sqrt

from derive.functions import (
    DEFINITIONS,
    Defined,
    argmax,
    gelu,
    log_softmax,
    logsumexp,
    mean,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    unfold,
    variance,
)
from derive.language import (
    Index,
    Product,
    Sum,
    Where,
    delta,
    dim,
    dims,
    entry,
    extent_of,
    flag,
    implies,
    index,
    indices,
    is_bracket,
    iverson,
    leading_index,
    lengths,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)

T, d, N, V = dims("T d N V")
i, j, k = indices("i j k", T)
a = index("a", d)
n = index("n", N)
L = lengths("L", N)
t = index("t", L[n])
x, y = tensors("x y", T)
X = tensor("X", T, T)
R = tensor("R", N, L)
token = tensor("token", T, into=V)
table = tensor("table", V, d)
s, r = scalars("s r")
causal = flag("causal")


def test_sizes_are_positive_integers() -> None:
    assert (T.is_integer, T.is_positive) == (True, True)
    assert dims("T, d") == (T, d)
    assert dim("T") == T


def test_indices_carry_their_extent() -> None:
    assert (i.extent, a.extent, t.extent) == (T, d, L[n])
    assert index("i", T) == i
    assert index("i", d) != i
    assert index("e", 3).extent == 3
    assert (i.is_integer, i.is_nonnegative) == (True, True)
    assert not i.leading
    assert leading_index("n", N).leading


def test_scalars_carry_their_hypotheses() -> None:
    assert s.is_real
    assert s.is_positive is None
    assert scalar("c", positive=True).is_positive
    assert scalar("c", integer=True).is_integer
    assert scalar("c") != scalar("c", positive=True)


def test_tensors_carry_shape_and_hypotheses() -> None:
    assert X.shape == (T, T)
    assert not x.positive
    assert tensor("p", T, positive=True)[i].is_positive
    assert x[i].is_real
    assert x[i].is_positive is None
    assert token.into == V
    assert token[i].is_integer
    assert tensor("x", T, into=V) != x


def test_the_extent_of_an_index_expression() -> None:
    assert extent_of(i) == T
    assert extent_of(token[i]) == V
    assert extent_of(x[i]) is None
    assert table[token[i], a].indices == (token[i], a)


def test_the_extent_of_a_ragged_axis() -> None:
    assert R[n, t].indices == (n, t)
    assert Sum(R[n, t], n, t).limits == ((t, 0, L[n] - 1), (n, 0, N - 1))


@pytest.mark.parametrize("made", [T, s, scalar("c", positive=True), causal, i, leading_index("n", N), index("e", 3)])
def test_symbols_survive_a_copy(made: Any) -> None:
    again = copy.deepcopy(made)
    assert again == made
    assert hash(again) == hash(made)
    assert getattr(again, "extent", None) == getattr(made, "extent", None)
    assert getattr(again, "leading", None) == getattr(made, "leading", None)


@pytest.mark.parametrize(
    "made", [x, X, token, L, R, tensor("p", T, positive=True), tensor("u", T, into=V, positive=True)]
)
def test_tensors_survive_a_copy_and_are_rebuilt_from_their_parts(made: Any) -> None:
    ways: list[Callable[[Any], Any]] = [
        copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), lambda one: one.func(*one.args),
    ]  # fmt: skip
    for way in ways:
        again = way(made)
        assert again == made
        assert hash(again) == hash(made)
        assert type(again) is type(made)
        assert (again.shape, again.into, again.positive) == (made.shape, made.into, made.positive)


@pytest.mark.parametrize(
    "made", [Sum(R[n, t], n, t), softmax(X[i, j], over=j), table[token[i], a], Sum(exp(x[i]), i)], ids=str
)
def test_expressions_survive_a_copy(made: Any) -> None:
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)) == made


def test_what_differs_in_a_declaration_alone_is_not_equal() -> None:
    pairs = [
        (scalar("c"), scalar("c", positive=True)), (scalar("c"), scalar("c", integer=True)), (dim("c"), flag("c")),
        (index("i", 1), index("i", 2)), (index("i", T), index("i", T + 1)), (index("i", T), leading_index("i", T)),
        (tensor("z", T), tensor("z", d)), (tensor("z", T), tensor("z", T, positive=True)),
        (tensor("z", T, into=V), tensor("z", T, into=T)), (tensor("z", T), lengths("z", T)), (x[i], x[j]), (x[i], y[i]),
        (tensor("z", T)[i], tensor("z", T, positive=True)[i]), (X[i, j], X[j, i]),
    ]  # fmt: skip
    for one, other in pairs:
        assert one != other
        assert (one - other if isinstance(one, sympy.Indexed) else 1) != 0
        assert len({one, other}) == 2


def test_what_is_made_twice_is_one_object() -> None:
    for make in (lambda: dim("c"), lambda: index("c", T), lambda: tensor("c", T, d), lambda: tensor("c", T)[i]):
        assert make() is make()


def test_a_size_is_replaced_in_a_tensor_as_well() -> None:
    assert x.xreplace({T: d}) == tensor("x", d)
    assert token.xreplace({V: d}) == tensor("token", T, into=d)


@pytest.mark.parametrize("make", [lambda: tensor("z", T), lambda: tensor("z", T, into=V), lambda: lengths("z", T)])
def test_tensors_that_are_made_twice_stand_in_one_product(make: Any) -> None:
    # SymPy sorts factors; two equal tensors must compare without an error.
    first, second = make(), make()
    assert first == second
    product = first[i] * second[j] * y[i] * first[j]
    assert product == first[i] * first[j] ** 2 * y[i]
    assert first[i] + second[j] - first[i] == second[j]


def test_tensors_of_one_name_and_other_kinds_stand_in_one_sum() -> None:
    kinds = [tensor("z", T), tensor("z", T, positive=True), tensor("z", T, into=V), tensor("z", T, into=d)]
    for order in itertools.permutations(kinds):
        assert len(sympy.Add(*(kind[i] for kind in order)).args) == len(kinds)


def test_scalars_are_entries_without_indices() -> None:
    assert entry(s, ()) == s
    assert entry(X, (i, j)) == X[i, j]


def test_sums_bind_the_outermost_index_first() -> None:
    assert Sum(X[i, j], i, j).limits == ((j, 0, T - 1), (i, 0, T - 1))
    assert isinstance(Product(x[i], i), sympy.Product)
    assert Sum(1, i) == sympy.Sum(1, (i, 0, T - 1))


# ---------------------------------------------------------------------------------------------------------------------
# Cases and brackets.


def test_where_takes_a_branch_that_is_certain() -> None:
    assert where(sympy.true, s, r) == s
    assert where(sympy.false, s, r) == r
    assert where(s > 0, s) == where(s > 0, s, 0)


def test_brackets() -> None:
    assert is_bracket(iverson(s > 0))
    assert not is_bracket(where(s > 0, 2, 0))
    assert str(iverson(s > 0)) == "[s > 0]"
    assert str(where(s > 0, r, 2)) == "where(s > 0, r, 2)"
    assert "cases" in latex(where(s > 0, r, 2))
    assert "cases" not in latex(iverson(s > 0))


def test_a_condition_with_a_bound_index_is_left_alone() -> None:
    inner = Sum(where(i > 2, x[i], 0), i)
    assert where(i > 2, inner, 0).args[1] == inner


def test_an_implication_is_a_condition() -> None:
    assert implies(causal, j <= i) == Or(Not(causal), j <= i)
    assert And(causal, j <= i) == And(j <= i, causal)


def test_delta() -> None:
    assert delta(i, i) == 1
    assert delta(i, j) == delta(j, i)
    assert delta(token[i], index("v", V)) == sympy.KroneckerDelta(token[i], index("v", V))


# ---------------------------------------------------------------------------------------------------------------------
# Functions with a definition.

MEANINGS: dict[str, tuple[Any, Any]] = {
    "softmax": (softmax(x[i], over=i), exp(x[i]) / Sum(exp(x[i]), i)),
    "log_softmax": (log_softmax(x[i], over=i), x[i] - log(Sum(exp(x[i]), i))),
    "logsumexp": (logsumexp(x[i], over=i), log(Sum(exp(x[i]), i))),
    "mean": (mean(x[i], over=i), Sum(x[i], i) / T),
    "variance": (variance(x[i], over=i), Sum((x[i] - Sum(x[i], i) / T) ** 2, i) / T),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_functions_unfold_to_their_definition(name: str) -> None:
    node, meaning = MEANINGS[name]
    assert isinstance(node, Defined)
    assert node.name == name
    assert unfold(node) == meaning


def test_masked_functions_sum_over_an_index_set() -> None:
    kept = iverson(j <= i)
    assert unfold(softmax(X[i, j], over=j, where=j <= i)) == kept * exp(X[i, j]) / Sum(kept * exp(X[i, j]), j)
    assert unfold(mean(X[i, j], over=j, where=j <= i)) == Sum(kept * X[i, j], j) / Sum(kept, j)


def test_a_masked_softmax_may_be_zero() -> None:
    # SymPy must not conclude that it is positive.
    masked = softmax(X[i, j], over=j, where=j <= i)
    assert masked.is_positive is None
    assert iverson(masked > 0) != 1
    assert Abs(softmax(x[i], over=i)) == softmax(x[i], over=i)


def test_functions_print_as_they_are_written() -> None:
    assert str(softmax(X[i, j], over=j)) == "softmax(X[i, j], over=j)"
    assert str(mean(X[i, j], over=j, where=j <= i)) == "mean(X[i, j], over=j, where=j <= i)"
    assert r"\operatorname{logsumexp}_{j}" in latex(logsumexp(s * j, over=j))


def test_free_symbols_of_a_function() -> None:
    assert j in softmax(X[i, j], over=j).free_symbols
    assert j not in logsumexp(X[i, j], over=j).free_symbols


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        (Max(s, 0), where(s >= 0, s, 0)),
        (Abs(s), where(s >= 0, s, -s)),
        (Piecewise((s, s > 0), (r, r > 0), (1, True)), where(s > 0, s, where(r > 0, r, 1))),
        (relu(s), where(s >= 0, s, 0)),
    ],
    ids=str,
)
def test_piecewise_functions_unfold_to_cases(written: Any, meaning: Any) -> None:
    found = unfold(written)
    assert not found.atoms(Max, Min, Abs, Piecewise)
    for value_s, value_r in itertools.product((-2, 0, 3), repeat=2):
        at = {s: sympy.Integer(value_s), r: sympy.Integer(value_r)}
        assert _value(found.xreplace(at)) == _value(meaning.xreplace(at))


def _value(expression: Any) -> Any:
    if isinstance(expression, Where):
        condition, yes, no = expression.args
        return _value(yes) if condition == sympy.true else _value(no)
    return expression.func(*map(_value, expression.args)) if expression.args else expression


def test_scalar_functions_are_abbreviations() -> None:
    assert sigmoid(s) == 1 / (1 + exp(-s))
    assert softplus(s) == log(1 + exp(s))
    assert silu(s) == s * sigmoid(s)
    assert gelu(s) == s * (1 + sympy.erf(s / sqrt(2))) / 2


def test_argmax_is_an_indicator() -> None:
    indicator = argmax(x[i], over=i, among=j)
    assert isinstance(indicator, sympy.Product)
    assert indicator.function == iverson(x[i] >= x[j])


def test_equality_of_indices_is_a_condition() -> None:
    assert isinstance(iverson(Eq(i, j)), Where)
    assert iverson(Ne(i, i)) == 0
    assert isinstance(Index("i", T), sympy.Symbol)

"""Derivations that the library does not have, in all schedules of their kernels: whole, lean, value and gradient.

The schedules are compared with each other and with formulas written here in NumPy. Each was wrong once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import exp, log, tanh

from codegen.errors import KernelError
from codegen.generate import render_all, write
from gradproof import (
    Ne,
    Program,
    Sum,
    dims,
    index,
    indices,
    iverson,
    leading_index,
    logsumexp,
    relu,
    softmax,
    sqrt,
    tensor,
)

N, H, T, U, M, d, e = dims("N H T U M d e")
n, h, a, c = leading_index("n", N), index("h", H), index("a", d), index("c", e)
i, k, m = index("i", T), index("k", U), index("m", M)
Q, K, V = tensor("Q", N, H, T, d), tensor("K", N, H, U, d), tensor("V", N, H, U, e)
TARGETS = ("numpy", "torch")


class Kernels:
    """The functions of one program for one library, which take and return arrays of NumPy's."""

    def __init__(self, program: Program, target: str, folder: Path) -> None:
        if target == "torch":
            pytest.importorskip("torch")
        package = folder / f"made_{program.name}_{target}"
        write(render_all([program], [target]), package, [target])
        self.name, self.target = program.name, target
        self.module = importlib.import_module(f"{package.name}.{target}.{program.name}")
        self.workspace = importlib.import_module(f"{package.name}.{target}.workspace").Workspace

    def __call__(self, function: str, *arrays: Any, **options: Any) -> Any:
        found = getattr(self.module, f"{self.name}_{function}")
        results = found(*map(self.given, arrays), **options)
        return results if function.endswith("forward") else [np.asarray(result) for result in results]

    def given(self, array: Any) -> Any:
        if self.target == "numpy" or not isinstance(array, np.ndarray):
            return array
        return importlib.import_module("torch").from_numpy(array)

    def both(self, *arrays: Any, lean: bool = False, **options: Any) -> list[np.ndarray[Any, Any]]:
        """The value and the gradients for an upstream gradient of ones."""
        stem = "lean_" if lean else ""
        value, saved = self(f"{stem}forward", *arrays, **options)
        return [np.asarray(value), *self(f"{stem}backward", value * 0 + 1, saved, **options)]


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Program, str], Kernels]:
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda program, target: Kernels(program, target, tmp_path)


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def agree(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", ["all", "others", "earlier"])
def test_value_and_gradient_of_a_logsumexp_under_a_condition(which: str, target: str, kernels: Any) -> None:
    """The logarithm was taken of the sum of the shares, which is 1."""
    first, second = indices("i j", T)
    X = tensor("X", T, d)
    condition = {"all": None, "others": Ne(first, second), "earlier": second <= first}[which]
    program = Program(f"contrast_{which}", inputs=[X])
    S = program.define("S", [first, second], Sum(X[first, a] * X[second, a], a))
    options = {} if condition is None else {"where": condition}
    L = program.define("L", [first], logsumexp(S[first, second], over=second, **options))
    program.kernel(program.define("loss", [], Sum(L[first] - S[first, first], first)), wrt=[X])
    made, x = kernels(program, target), drawn(6, 3)
    agree(made("value_and_gradient", x), made.both(x))
    scores = x @ x.T
    seen = {"all": np.ones((6, 6)), "others": 1 - np.eye(6), "earlier": np.tril(np.ones((6, 6)))}[which]
    expected = np.log((seen * np.exp(scores)).sum(1)).sum() - np.trace(scores)
    agree(made("value_and_gradient", x)[:1], [expected])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("sizes", "rows"), [((5, 6, 7, 3), 2), ((300, 64, 128, 4), None)])
def test_a_look_up_in_a_block_reads_what_the_block_has(
    sizes: tuple[int, int, int, int], rows: int | None, target: str, kernels: Any
) -> None:
    """The matrix of each row's expert was read whole, in a loop over its rows."""
    b = index("b", e)
    X, route, W = tensor("X", T, d), tensor("route", T, into=M), tensor("W", M, d, e)
    program = Program("routed", inputs=[X, route, W])
    program.kernel(program.define("y", [i, b], relu(Sum(X[i, a] * W[route[i], a, b], a)) ** 2), wrt=[X, W])
    made = kernels(program, target)
    length, inner, outer, experts = sizes
    x, w, r = drawn(length, inner), drawn(experts, inner, outer), np.arange(length) % experts
    found = made.both(x, r, w, workspace=made.workspace(rows=rows))
    kept = np.maximum(np.einsum("ia,iab->ib", x, w[r]), 0)
    slopes = np.zeros_like(w)
    np.add.at(slopes, r, x[:, :, None] * 2 * kept[:, None, :])
    agree(found, [kept**2, np.einsum("ib,iab->ia", 2 * kept, w[r]), slopes])


@pytest.mark.parametrize("target", TARGETS)
def test_a_condition_is_found_again_by_the_lean_schedule(target: str, kernels: Any) -> None:
    """It was kept in an array of numbers, of which there is no negation."""
    mask = tensor("mask", N, T, U, into=2)
    program = Program("counted", inputs=[Q, K, V, mask])
    seen = program.define("seen_keys", [n, i], Sum(iverson(mask[n, i, k] > 0), k) + 1)
    A = program.define(
        "A", [n, h, i, k], softmax(Sum(Q[n, h, i, a] * K[n, h, k, a], a), over=k, where=mask[n, i, k] > 0)
    )
    program.kernel(program.define("O", [n, h, i, c], seen[n, i] * Sum(A[n, h, i, k] * V[n, h, k, c], k)), wrt=[Q, K, V])
    made = kernels(program, target)
    arrays = drawn(2, 3, 5, 4), drawn(2, 3, 6, 4), drawn(2, 3, 6, 7), np.arange(60).reshape(2, 5, 6) % 3 % 2
    agree(made.both(*arrays, lean=True), made.both(*arrays))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lean", [False, True])
def test_a_softmax_over_nothing_that_is_divided_later_gives_0(lean: bool, target: str, kernels: Any) -> None:
    program = Program("over_nothing", inputs=[Q, K])
    A = program.define("A", [n, h, i, k], softmax(Sum(Q[n, h, i, a] * K[n, h, k, a], a) / sqrt(d), over=k))
    O = program.define("O", [n, h, i, a], Sum(A[n, h, i, k] * K[n, h, k, a], k))
    program.kernel(program.define("G", [n, h, i], Sum(O[n, h, i, a] * Q[n, h, i, a], a)), wrt=[Q, K])
    made = kernels(program, target)
    agree(
        made.both(drawn(1, 2, 3, 4), np.zeros((1, 2, 0, 4)), lean=lean),
        [np.zeros((1, 2, 3)), np.zeros((1, 2, 3, 4)), np.zeros((1, 2, 0, 4))],
    )


@pytest.mark.parametrize("target", TARGETS)
def test_the_adjoint_of_a_sum_in_a_loop_is_spread(target: str, kernels: Any) -> None:
    """It could not be laid out: it has no axis of what was summed."""
    q, keys, values = tensor("Q", N, T, d), tensor("K", N, U, M, d), tensor("V", N, U, M, e)
    program = Program("summed", inputs=[q, keys, values])
    L = program.define("L", [n, i, k], Sum(q[n, i, a] * keys[n, k, m, a], a, m))
    A = program.define("A", [n, i, k], softmax(L[n, i, k], over=k))
    program.kernel(program.define("O", [n, i, c], Sum(A[n, i, k] * Sum(values[n, k, m, c], m), k)), wrt=[keys, values])
    made = kernels(program, target)
    x, y, z = drawn(2, 5, 4), drawn(2, 6, 3, 4), 2 * drawn(2, 6, 3, 7)
    scores = np.exp(np.einsum("nia,nkma->nik", x, y))
    shares = scores / scores.sum(-1, keepdims=True)
    summed = z.sum(2)
    slopes = shares * (summed.sum(-1)[:, None] - np.einsum("nik,nkc->ni", shares, summed)[..., None])
    expected = [
        np.einsum("nik,nkc->nic", shares, summed),
        np.broadcast_to(np.einsum("nik,nia->nka", slopes, x)[:, :, None], y.shape),
        np.broadcast_to(shares.sum(1)[:, :, None, None], z.shape),
    ]
    agree(made.both(x, y, z), expected)
    agree(made.both(x, y, z, lean=True), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("row", "column"), [("i", "rows"), ("rows", "k"), ("parts", "slice"), ("room", "first")])
def test_an_index_may_be_called_like_something_in_the_code(row: str, column: str, target: str, kernels: Any) -> None:
    one, two = index(row, T), index(column, U)
    program = Program("named", inputs=[Q, K, V])
    A = program.define("A", [n, h, one, two], softmax(Sum(Q[n, h, one, a] * K[n, h, two, a], a), over=two))
    program.kernel(program.define("O", [n, h, one, c], Sum(A[n, h, one, two] * V[n, h, two, c], two)), wrt=[Q, V])
    made = kernels(program, target)
    x, y, z = drawn(2, 3, 5, 4), drawn(2, 3, 6, 4), 2 * drawn(2, 3, 6, 7)
    shares = np.exp(np.einsum("nhia,nhka->nhik", x, y))
    agree(made.both(x, y, z)[:1], [np.einsum("nhik,nhkc->nhic", shares / shares.sum(-1, keepdims=True), z)])


@pytest.mark.parametrize("name", ["or_one", "slice", "float", "max", "turned", "sum_rows"])
def test_an_array_may_not(name: str) -> None:
    x = tensor(name, T)
    program = Program("named", inputs=[x])
    program.kernel(program.define("y", [i], 2 * x[i]), wrt=[x])
    with pytest.raises(KernelError, match=f"the name {name} has a meaning of its own in generated code; rename it"):
        render_all([program], ["numpy"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64])
def test_positions_of_any_whole_type_are_positions(kind: Any, target: str, kernels: Any) -> None:
    """PyTorch takes bytes and truth values for a mask."""
    token, E = tensor("token", T, into=M), tensor("E", M, d)
    program = Program("looked_up", inputs=[token, E])
    program.kernel(program.define("y", [i, a], E[token[i], a]), wrt=[E])
    made, table = kernels(program, target), drawn(4, 3)
    places = [1, 0, 1, 1] if kind is np.bool_ else [3, 1, 2, 1]
    if kind is np.bool_ and target == "numpy":
        with pytest.raises(TypeError, match="token: expected integers, found bool"):
            made("forward", np.array(places, kind), table)
        return
    agree(made.both(np.array(places, kind), table)[:1], [table[places]])


@pytest.mark.parametrize("target", TARGETS)
def test_stacks_do_not_depend_on_the_number_of_threads(target: str, kernels: Any) -> None:
    """A sum over heads is added up in stacks, whose number has to depend on the sizes alone."""
    R = tensor("R", T, U, d)
    program = Program("relative", inputs=[Q, K, R])
    S = program.define("S", [n, h, i, k], Sum(Q[n, h, i, a] * (K[n, h, k, a] + R[i, k, a]), a))
    A = program.define("A", [n, h, i, k], softmax(S[n, h, i, k], over=k))
    program.kernel(program.define("O", [n, h, i, a], Sum(A[n, h, i, k] * K[n, h, k, a], k)), wrt=[Q, K, R])
    made = kernels(program, target)
    arrays = [x.astype(np.float32) for x in (drawn(2, 4, 150, 6), drawn(2, 4, 350, 6), drawn(150, 350, 6))]
    one, two, three = (made.both(*arrays, workspace=made.workspace(threads=threads)) for threads in (1, 2, 3))
    for value, other, third in zip(one, two, three, strict=True):
        np.testing.assert_array_equal(value, other)
        np.testing.assert_array_equal(value, third)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kept", [[0, 0, 0, 0], [0, 1, 0, 1]])
def test_a_share_of_nothing_under_a_sum_has_no_slope(kept: list[int], target: str, kernels: Any) -> None:
    """What is less the logsumexp of nothing was infinite, and the difference of two such no number."""
    y, token, seg = tensor("y", T), tensor("token", N, T, into=T), tensor("seg", T, into=2)
    program = Program("picked", inputs=[y, token, seg])
    shares = softmax(y[token[n, i]], over=i, where=seg[i] > 0)
    program.kernel(program.define("o", [], Sum(tanh(Sum(shares * y[i], i)), n)), wrt=[y])
    made, values, places = kernels(program, target), drawn(4), np.array([[0, 1, 2, 3], [3, 3, 1, 0]])
    arrays = values, places, np.array(kept)

    def value(at: Any) -> Any:
        weights = np.where(np.array(kept) > 0, np.exp(at[places]), 0)
        return np.tanh((weights * at).sum(1) / np.maximum(weights.sum(1), 1e-300)).sum()

    step = 1e-6 * np.eye(4)
    expected = [(value(values + one) - value(values - one)) / 2e-6 for one in step]
    found = made.both(*arrays)
    np.testing.assert_allclose(found[0], value(values), atol=1e-12)
    np.testing.assert_allclose(found[1], expected, atol=1e-8)
    agree(made("value_and_gradient", *arrays), found)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("target", TARGETS)
def test_a_running_logsumexp_of_nothing_so_far_has_no_slope(kind: Any, target: str, kernels: Any) -> None:
    """Entries of -inf in front: the slopes there were the difference of two infinities."""
    j, x = index("j", T), tensor("x", N, T, d)
    program = Program("running", inputs=[x])
    program.kernel(program.define("o", [n, i, a], logsumexp(x[n, j, a], over=j, where=j <= i)), wrt=[x])
    made, given = kernels(program, target), drawn(2, 5, 3).astype(kind)
    given[0, :2], given[1, 3, 1] = -np.inf, -np.inf
    value, saved = made("forward", given)
    (slope,) = made("backward", np.ones_like(given), saved)
    sums = np.cumsum(np.exp(given.astype(np.float64)), axis=1)
    expected = np.exp(given.astype(np.float64)) * np.cumsum((1 / np.where(sums > 0, sums, np.inf))[:, ::-1], 1)[:, ::-1]
    rtol = 1e-10 if kind == np.float64 else 1e-5
    np.testing.assert_allclose(np.exp(np.asarray(value)), sums, rtol=rtol)
    np.testing.assert_allclose(slope, expected, rtol=rtol, atol=1e-12)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("target", TARGETS)
def test_the_slope_of_an_entropy_meets_no_logarithm_of_0(target: str, kernels: Any) -> None:
    """Of shares that a mask leaves out the logarithm was taken, and thrown away."""
    q, keys = tensor("q", N, T, d), tensor("keys", N, U, d)
    program = Program("entropy", inputs=[q, keys])
    A = program.define("A", [n, i, k], softmax(Sum(q[n, i, a] * keys[n, k, a], a), over=k, where=k <= i))
    program.kernel(program.define("loss", [], -Sum(A[n, i, k] * log(A[n, i, k]), n, i, k)), wrt=[q, keys])
    made, x, y = kernels(program, target), drawn(2, 5, 3), 2 * drawn(2, 4, 3)
    seen = np.tril(np.ones((5, 4), bool))
    weights = np.exp(np.einsum("nia,nka->nik", x, y)) * seen
    shares = weights / weights.sum(-1, keepdims=True)
    logs = np.log(np.where(seen, shares, 1))
    entropies = -(shares * logs).sum(-1, keepdims=True)
    slopes = -shares * (logs + entropies)
    expected = [entropies.sum(), np.einsum("nik,nka->nia", slopes, y), np.einsum("nik,nia->nka", slopes, x)]
    agree(made.both(x, y), expected)
    agree(made.both(x, y, lean=True), expected)
    agree(made("value_and_gradient", x, y), expected)


@pytest.mark.parametrize("target", TARGETS)
def test_a_stack_that_is_summed_whole_is_no_factor_to_be_turned(target: str, kernels: Any) -> None:
    """Two summed axes in the places of a matrix's: the array was laid out anew, and read as it had been."""
    g = index("g", H)
    x, y = tensor("x", T, H, U, d), tensor("y", d, H, U)
    program = Program("whole_stack", inputs=[x, y])
    t = program.define("t", [i, g, k, a], tanh(x[i, g, k, a]) * exp(-(x[i, g, k, a] ** 2)))
    program.kernel(program.define("z", [i, a], Sum(t[i, g, k, a] * y[a, g, k], g, k)), wrt=[x, y])
    made, (first, second) = kernels(program, target), (drawn(3, 2, 5, 4), drawn(4, 2, 5))
    value, _ = made("forward", first, second)
    agree(np.asarray(value), np.einsum("igka,agk->ia", np.tanh(first) * np.exp(-(first**2)), second))

"""Kernels of derivations that no file of the library has, each of a kind that was once compiled wrongly.

A condition that compares a sum without a name; two conditions over different indices; a choice between two numbers of
the caller's; a named sum of masked weights that divides, where nothing is kept; a named root of 0; a row maximum that
two exponentials of a loop share; a sum of products that begins with something else than its first term; a logistic
function of two sums; a name that the output does not need and its slope could be written with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import And, Eq, Max, Ne, exp, log, sqrt, tanh

from codegen.checking.array_library import array_library
from codegen.checking.checks import check_kernels
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.functions import log_softmax, logsumexp, mean, relu, sigmoid, softmax
from derive.language import Product, Sum, Tensor, dims, index, indices, iverson, leading_index, scalar, tensor, where
from derive.program import Program

N, T, S, C = dims("N T S C")
n = leading_index("n", N)
i, j, m = indices("i j m", T)
s, r = indices("s r", S)
c, e = indices("c e", C)
X, F = tensor("X", N, S, C), tensor("F", C, C)
x, y = tensor("x", N), tensor("y", N)
z, valid, w = tensor("z", N, C), tensor("valid", N, C, into=2), tensor("w", N, C, positive=True)
keep = tensor("keep", N, into=2)
q = scalar("q", positive=True)


def streams() -> Program:
    """A residual block of several streams, mixed; its relu is of a product that has no name."""
    mix, read, fill = tensor("mix", S, S), tensor("read", S), tensor("fill", S)
    program = Program("streams", "streams", [X, mix, read, fill, F])
    u = program.define("u", [n, c], Sum(read[s] * X[n, s, c], s))
    h = program.define("h", [n, c], relu(Sum(u[n, e] * F[e, c], e)))
    o = program.define("o", [n, r, c], Sum(mix[s, r] * X[n, s, c], s) + fill[r] * h[n, c])
    program.kernel(o, wrt=[X, mix, read, fill, F])
    return program


def recurrence() -> Program:
    """A gated linear recurrence in closed form: a product over an index between two others."""
    gate, u = tensor("gate", N, T, positive=True), tensor("u", N, T, C)
    program = Program("recurrence", "gated linear recurrence", [gate, u])
    D = program.define("D", [n, i, j], Product(where(And(j < m, m <= i), gate[n, m], 1), m))
    h = program.define("h", [n, i, c], Sum(where(j <= i, D[n, i, j], 0) * u[n, j, c], j))
    program.kernel(h, wrt=[gate, u])
    return program


def pinball() -> Program:
    """The quantile loss: its slope is one of two numbers of the caller's."""
    program = Program("pinball", "quantile loss", [x, y, q])
    loss = program.define("L", [n], Max(q * (y[n] - x[n]), (q - 1) * (y[n] - x[n])))
    program.kernel(loss, wrt=[x], defaults={q: 0.3})
    return program


def kept_mean() -> Program:
    """A mean over the kept rows, which may be none; the number of rows has a name."""
    program = Program("kept_mean", "mean over kept rows", [z, keep])
    row = program.define("row", [n], where(keep[n] > 0, logsumexp(z[n, c], over=c), 0))
    count = program.define("M", [], Sum(iverson(keep[n] > 0), n))
    program.kernel(program.define("loss", [], Sum(row[n], n) / count), wrt=[z])
    return program


def weighted_mean() -> Program:
    """A weighted mean over the valid entries of a row, which may be none; the sum of weights has a name."""
    program = Program("weighted_mean", "weighted mean over valid entries", [z, w, valid])
    total = program.define("W", [n], Sum(iverson(valid[n, c] > 0) * w[n, c], c))
    mean = program.define("o", [n], Sum(iverson(valid[n, c] > 0) * w[n, c] * z[n, c] ** 2, c) / total[n])
    program.kernel(mean, wrt=[z, w])
    return program


def written_softmax() -> Program:
    """A masked softmax by its definition; the sum of exponentials has a name."""
    program = Program("written_softmax", "masked softmax, written out", [z, valid])
    total = program.define("Z", [n], Sum(iverson(valid[n, c] > 0) * exp(z[n, c]), c))
    p = program.define("p", [n, c], iverson(valid[n, c] > 0) * exp(z[n, c]) / total[n])
    program.kernel(p, wrt=[z])
    return program


def scored() -> Program:
    """A sum of exponentials with a name, beside another sum of the same exponentials; the scores are bounded."""
    query, key = tensor("query", N, T, C), tensor("key", N, T, C)
    program = Program("scored", "exponentials that are read twice", [query, key])
    scores = program.define("G", [n, i, j], Sum(query[n, i, c] * key[n, j, c], c))
    total = program.define("Z", [n, i], Sum(exp(scores[n, i, j]), j) + 1)
    program.kernel(
        program.define("o", [n, i, c], Sum(exp(scores[n, i, j]) * key[n, j, c], j) / total[n, i]), wrt=[query, key]
    )
    return program


def updated() -> Program:
    """The cell of a gated recurrence: three layers of two products each."""
    old, new = tensor("old", N, C), tensor("new", N, S)
    inward, around = [tensor(f"W_{k}", S, C) for k in "zrh"], [tensor(f"U_{k}", C, C) for k in "zrh"]
    program = Program("updated", "gated recurrent unit, one step", [new, old, *inward, *around])

    def layer(place: int, state: Callable[[Any], Any]) -> Any:
        return Sum(new[n, s] * inward[place][s, c], s) + Sum(state(e) * around[place][e, c], e)

    share = program.define("share", [n, c], sigmoid(layer(0, lambda index: old[n, index])))
    reset = program.define("reset", [n, c], sigmoid(layer(1, lambda index: old[n, index])))
    made = program.define("made", [n, c], tanh(layer(2, lambda index: reset[n, index] * old[n, index])))
    program.kernel(
        program.define("o", [n, c], (1 - share[n, c]) * old[n, c] + share[n, c] * made[n, c]),
        wrt=[new, old, *inward, *around],
    )
    return program


def unneeded() -> Program:
    """A definition that is there for claims alone."""
    program = Program("unneeded", "a name for claims", [z])
    program.define("share", [n, c], 1 / (1 + z[n, c] ** 2))
    program.kernel(program.define("o", [n, c], log(1 + z[n, c] ** 2)), wrt=[z])
    return program


def exponent() -> Program:
    """A named exponential of a masked mean, divided by another: their exponents meet."""
    program = Program("exponent", "exponentials of masked means", [z, valid])
    kept = valid[n, c] > 0
    named = program.define("u", [n], exp(tanh(Sum(softmax(tanh(z[n, c]), over=c, where=kept) * z[n, c], c))))
    other = exp(tanh(Sum(softmax(z[n, c], over=c, where=kept) * z[n, c], c)))
    program.kernel(program.define("o", [n], named[n] / (1 + other)), wrt=[z])
    return program


def multiplied_out() -> Program:
    """A norm whose gain stands in both terms of the difference from the mean; these no longer add up to 0."""
    gain, eps = tensor("gain", C), scalar("eps", positive=True)
    program = Program("multiplied_out", "norm with a gain", [z, gain, eps])
    middle = program.define("m", [n], mean(z[n, c], over=c))
    spread = program.define("s", [n], sqrt(mean((z[n, c] - middle[n]) ** 2, over=c) + eps))
    difference = gain[c] * z[n, c] / spread[n] - gain[c] * middle[n] / spread[n]
    program.kernel(program.define("o", [n, c], difference), wrt=[z, gain])
    return program


def named_twice() -> Program:
    """One logsumexp under two names: what is less the second one is less the parts of the first."""
    program = Program("named_twice", "a logsumexp under two names", [z])
    first = program.define("L", [n], logsumexp(z[n, e], over=e))
    second = program.define("M", [n], logsumexp(z[n, e], over=e))
    program.kernel(program.define("o", [n, c], exp(z[n, c] - second[n]) * first[n]), wrt=[z])
    return program


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize(
    "statement",
    [streams, recurrence, pinball, scored, updated, unneeded, exponent, multiplied_out, named_twice],
    ids=lambda made: made.__name__,
)
def test_every_witness_agrees(statement: Callable[[], Program], target: str, tmp_path: Path) -> None:
    program = statement()
    write(render_all([program], [target]), tmp_path, [target])
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [result for result in results if not result.ok]


def run(program: Program, target: str, folder: Path, *arrays: Any) -> list[Any]:
    """The output and the gradients for an upstream gradient of ones, as NumPy arrays."""
    library = array_library(target)
    write(render_all([program], [target]), folder, [target])
    assert program.request is not None
    inputs = [known for known in program.all_inputs() if isinstance(known, Tensor)]
    given = {str(known.name): library.array(array) for known, array in zip(inputs, arrays, strict=True)}
    with opened(program, program.request, folder, library) as kernel:
        (output,), saved = kernel.run(given, {})
        upstream = library.array(np.ones(tuple(output.shape), np.asarray(arrays[0]).dtype))
        return [library.plain(value) for value in (output, *kernel.gradients(upstream, saved))]


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_choice_between_two_numbers_keeps_double_precision(target: str, tmp_path: Path) -> None:
    _, slope = run(pinball(), target, tmp_path, np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    np.testing.assert_array_equal(slope, [-0.3, 1 - 0.3])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_named_sum_of_masked_weights_may_be_over_nothing(target: str, tmp_path: Path) -> None:
    entries = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    mask = np.array([[0, 0, 0], [1, 0, 1]])
    loss, slope = run(kept_mean(), target, tmp_path / "kept", entries, np.zeros(2, int))
    assert loss == 0
    assert not slope.any()
    mean, *slopes = run(weighted_mean(), target, tmp_path / "mean", entries, np.full((2, 3), 0.5), mask)
    np.testing.assert_allclose(mean, [0.0, 0.5])
    assert not any(gradient[0].any() for gradient in slopes)
    np.testing.assert_allclose(slopes[0][1], [0.0, 0.0, 1.0])
    shares, slope = run(written_softmax(), target, tmp_path / "shares", entries, mask)
    np.testing.assert_allclose(shares.sum(axis=-1), [0.0, 1.0])
    np.testing.assert_allclose(slope, np.zeros((2, 3)), atol=1e-15)


def centres() -> Program:
    """A step of soft k-means: the sum of a centre's shares divides, without a name."""
    program = Program("centres", "soft k-means", [z, F])
    share = program.define("r", [n, c], softmax(-Sum((z[n, e] - F[c, e]) ** 2, e), over=c))
    moved = program.define("o", [c, e], Sum(share[n, c] * z[n, e], n) / Sum(share[n, c], n))
    program.kernel(moved, wrt=[z, F])
    return program


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_sum_of_weights_without_a_name_may_underflow(target: str, tmp_path: Path) -> None:
    near = np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.0]])
    moved, *slopes = run(
        centres(), target, tmp_path, near, np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [99.0, 0.0, 0.0]])
    )
    assert np.isfinite(moved).all()
    assert not moved[2].any()
    assert all(np.isfinite(slope).all() for slope in slopes)
    assert not slopes[1][2].any()


def normalised() -> Program:
    """Layer norm that has a name for the mean alone: its slope meets the differences from it again."""
    scale = tensor("scale", C)
    program = Program("normalised", "layer norm in one formula", [z, scale])
    mu = program.define("mu", [n], Sum(z[n, c], c) / C)
    spread = sqrt(Sum((z[n, e] - mu[n]) ** 2, e) / C)
    program.kernel(program.define("o", [n, c], scale[c] * (z[n, c] - mu[n]) / spread), wrt=[z, scale])
    return program


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_slope_of_a_normalised_value_without_a_name_keeps_its_digits(target: str, tmp_path: Path) -> None:
    far = (1e4 + np.random.default_rng(3).standard_normal((4, 3))).astype(np.float32)
    _, _, slope = run(normalised(), target, tmp_path, far, np.ones(3, np.float32))
    near = far.astype(np.float64) - far.astype(np.float64).mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(slope, (near / near.std(axis=-1, keepdims=True)).sum(axis=0), rtol=1e-5)


def gated() -> Program:
    """A layer of logistic functions that have a name, which the slope reads."""
    program = Program("gated", "a named logistic function", [z, F])
    gate = program.define("s", [n, c], sigmoid(Sum(z[n, e] * F[e, c], e)))
    program.kernel(program.define("o", [n, c], gate[n, c] * z[n, c]), wrt=[z, F])
    return program


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_slope_of_a_named_logistic_function_does_not_overflow(target: str, tmp_path: Path) -> None:
    far = np.array([[1e4, -1e4, -1e4], [-800.0, 800.0, 0.0]])
    _, *slopes = run(gated(), target, tmp_path, far, np.eye(3))
    assert all(np.isfinite(slope).all() for slope in slopes)
    np.testing.assert_allclose(slopes[0], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]], atol=1e-300)


def distances(power: int) -> Program:
    """Distances under a name: in a hinge, or with a power of theirs, so that the slope is a sum."""
    near, far, anchor = tensor("near", N, C), tensor("far", N, C), tensor("anchor", N, C)
    program = Program("distances", "distances with a margin", [anchor, near, far])
    a = program.define("a", [n], sqrt(Sum((anchor[n, c] - near[n, c]) ** 2, c)))
    b = program.define("b", [n], 2 * sqrt(Sum((anchor[n, c] - far[n, c]) ** 2, c)))
    program.kernel(program.define("L", [n], Max(a[n] ** power + a[n] - b[n] + 1, 0)), wrt=[anchor, near, far])
    return program


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [1, 3])
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_slope_of_a_named_root_is_zero_at_zero(target: str, power: int, tmp_path: Path) -> None:
    anchor = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    other = np.array([[1.0, 2.0], [1.5, 2.0], [1.0, 2.0]])
    far = np.array([[1.0, 2.0], [1.0, 2.0], [1.1, 2.0]])
    loss, _, near_slope, far_slope = run(distances(power), target, tmp_path, anchor, other, far)
    np.testing.assert_allclose(loss, [1.0, 1.5 + 0.5**power, 0.8])
    np.testing.assert_allclose(near_slope, [[0, 0], [1 + power * 0.5 ** (power - 1), 0], [0, 0]])
    np.testing.assert_allclose(far_slope, [[0, 0], [0, 0], [-2, 0]])


def preferred(squared: bool) -> Program:
    """A preference between two texts, by the logarithms of their probabilities in two models, in one formula."""
    a, b, c_, d = (tensor(name, N) for name in ("a", "b", "c", "d"))
    program = Program("preferred", "preference", [a, b, c_, d])
    gain = a[n] - b[n] - (c_[n] - d[n])
    program.kernel(program.define("L", [n], (gain - 1) ** 2 if squared else -log(sigmoid(gain / 10))), wrt=[a, c_])
    return program


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_differences_of_differences_keep_their_digits(target: str, squared: bool, tmp_path: Path) -> None:
    given = (np.random.default_rng(5).uniform(-3, 3, (4, 6)) - 1e4).astype(np.float32)
    a, b, c_, d = given.astype(np.float64)
    gain = a - b - c_ + d
    loss, slope, _ = run(preferred(squared), target, tmp_path, *given)
    np.testing.assert_allclose(loss, (gain - 1) ** 2 if squared else np.logaddexp(0, -gain / 10), rtol=4e-6)
    np.testing.assert_allclose(slope, 2 * (gain - 1) if squared else -0.1 / (1 + np.exp(gain / 10)), rtol=4e-6)


def test_a_distance_in_an_exponent_is_taken_as_it_is(tmp_path: Path) -> None:
    """Where it was -inf the exponential would not be 0: nothing is looked for."""
    width = scalar("width", positive=True)
    program = Program("near", "weights by distance", [z, w, width])
    share = program.define("r", [n, c], exp(-(z[n, c] ** 2) * w[n, c] / width))
    program.kernel(program.define("o", [n], Sum(share[n, c] * z[n, c], c)), wrt=[w, width])
    write(render_all([program], ["numpy"]), tmp_path, ["numpy"])
    assert "== -math.inf" not in (tmp_path / "numpy" / "near.py").read_text()


def alike() -> Program:
    """A supervised contrastive loss: how many kinds of labels there are is the size of no array."""
    rows, features, kinds = dims("M D K")
    i, j, k = indices("i j k", rows)
    a = index("a", features)
    e, label = tensor("e", rows, features), tensor("label", rows, into=kinds)
    program = Program("alike", "supervised contrastive loss", [e, label])
    s = program.define("s", [i, j], Sum(e[i, a] * e[j, a], a))
    p = program.define("p", [i, j], log_softmax(s[i, j], over=j, where=Ne(i, j)))
    others = Sum(iverson(And(Eq(label[i], label[k]), Ne(i, k))), k)
    loss = -Sum(iverson(And(Eq(label[i], label[j]), Ne(i, j))) * p[i, j] / (1 + others), i, j)
    program.kernel(program.define("L", [], loss), wrt=[e])
    return program


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_labels_that_are_only_compared_may_be_of_any_kind(target: str, tmp_path: Path) -> None:
    """And one row alone, whose share of nothing is infinite, is kept away by a bracket: the loss is 0."""
    program = alike()
    write(render_all([program], [target]), tmp_path, [target])
    assert all(result.ok for result in check_kernels([program], target=target, folder=tmp_path))
    assert "label: (M,), integers\n" in (tmp_path / target / "alike.py").read_text(encoding="utf-8")


def balanced() -> Program:
    """Rows and then columns of a matrix brought to 1, in logarithms, as in Sinkhorn's iteration."""
    costs = tensor("costs", S, C)
    program = Program("balanced", "one step of balancing", [costs])
    row = program.define("r", [s], logsumexp(costs[s, c], over=c))
    program.kernel(program.define("o", [c], logsumexp(costs[s, c] - row[s], over=s)))
    return program


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_shares_of_other_sums_may_all_underflow_in_a_logarithm(target: str, tmp_path: Path) -> None:
    costs = np.array([[0.0, 0.0, -2000.0], [5.0, 3.0, -1500.0]])
    library, program = array_library(target), balanced()
    write(render_all([program], [target]), tmp_path, [target])
    assert program.request is not None
    with opened(program, program.request, tmp_path, library) as kernel:
        (found,), _ = kernel.run({"costs": library.array(costs)}, {})
    shares = costs - np.log(np.exp(costs).sum(axis=1, keepdims=True))
    expected = [*np.log(np.exp(shares[:, :2]).sum(axis=0)), shares[1, 2]]
    np.testing.assert_allclose(library.plain(found), expected, rtol=1e-14)

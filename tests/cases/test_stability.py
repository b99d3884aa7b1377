"""Cases of numbers that overflow, cancel or are 0/0: kernels that stay finite, and proofs that the forms are equal."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sympy import Gt, Max, Ne, exp, log, sqrt, tanh

from derive.functions import log_softmax, logsumexp, mean, sigmoid, softmax, softplus, variance
from derive.language import Product, Sum, dims, index, indices, leading_index, scalar, tensor, tensors, where
from derive.program import Program

N, C, T, T_q, T_k, d = dims("N C T T_q T_k d")
n = leading_index("n", N)
c, e, f = indices("c e f", C)


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Overflow, invalid values and division by zero are errors in this module."""
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        yield


def on(target: str, *arrays: Any) -> list[Any]:
    """The arrays as arrays of the target's library."""
    if target == "numpy":
        return [np.array(array) for array in arrays]
    import torch

    return [torch.from_numpy(np.array(array)) for array in arrays]


TARGETS = ("numpy", "torch")


# ---------------------------------------------------------------------------------------------------------------------


def masked_attention() -> tuple[Program, Any]:
    """Attention in which `allowed` says which keys each query sees."""
    i, j, a = index("i", T_q), index("j", T_k), index("a", d)
    Q, K, V = tensor("Q", T_q, d), tensor("K", T_k, d), tensor("V", T_k, d)
    allowed = tensor("allowed", T_q, T_k, into=2)
    program = Program("masked_attention", "attention with a mask", [Q, K, V, allowed])
    S = program.define("S", [i, j], Sum(Q[i, a] * K[j, a], a) / sqrt(d))
    A = program.define("A", [i, j], softmax(S[i, j], over=j, where=Gt(allowed[i, j], 0)))
    O = program.define("O", [i, a], Sum(A[i, j] * V[j, a], j))
    program.kernel(O, wrt=[Q, K, V])
    return program, O


@pytest.mark.parametrize("target", TARGETS)
def test_c20_a_query_that_sees_no_key(target: str, compiled: Any) -> None:
    """An empty row is 0/0 on paper; the kernel's policy is 0, with gradients 0 and never a NaN."""
    program, _ = masked_attention()
    kernel = compiled(program, target)
    Q, K, V, dO = on(target, [[1.0], [3.0]], [[0.5], [2.0]], [[2.0], [5.0]], [[1.0], [1.0]])
    (allowed,) = on(target, [[1, 0], [0, 0]])
    O, saved = kernel.forward(Q, K, V, allowed)
    dQ, dK, dV = kernel.backward(dO, saved)
    for found, expected in ((O, [2, 0]), (dV, [1, 0]), (dQ, [0, 0]), (dK, [0, 0])):
        np.testing.assert_array_equal(np.asarray(found)[:, 0], expected)


@pytest.mark.parametrize("target", TARGETS)
def test_c20_one_key(target: str, compiled: Any) -> None:
    """With one key the weight is 1 and nothing reaches queries and keys."""
    program, _ = masked_attention()
    kernel = compiled(program, target)
    Q, K, V, dO = on(target, [[1.5]], [[-2.0]], [[3.0]], [[1.0]])
    O, saved = kernel.forward(Q, K, V, *on(target, [[1]]))
    found = [np.asarray(part).item() for part in (O, *kernel.backward(dO, saved))]
    np.testing.assert_allclose(found, (3, 0, 0, 1), rtol=1e-15, atol=2e-15)  # where rounding leaves it


@pytest.mark.parametrize("target", TARGETS)
def test_c20_no_key_at_all(target: str, compiled: Any) -> None:
    """A sum over no key is 0, by the policy for the empty set; a division by a size of 0 is refused and named."""
    program, _ = masked_attention()
    kernel = compiled(program, target)
    Q, K, V = on(target, np.ones((2, 3)), np.ones((0, 3)), np.ones((0, 3)))
    O, saved = kernel.forward(Q, K, V, *on(target, np.ones((2, 0), dtype=np.int64)))
    assert np.array_equal(np.asarray(O), np.zeros((2, 3)))
    gradients = [np.asarray(part) for part in kernel.backward(*on(target, np.ones((2, 3))), saved)]
    assert [part.shape for part in gradients] == [(2, 3), (0, 3), (0, 3)]
    assert not gradients[0].any()
    Q, K = on(target, np.ones((2, 0)), np.ones((1, 0)))
    with pytest.raises(ValueError, match=r"masked_attention_forward: Q: expected d >= 1 \(division by d\), found 0"):
        kernel.forward(Q, K, *on(target, np.ones((1, 3)), np.ones((2, 1), dtype=np.int64)))


def test_c20_the_empty_set_is_reported(proved: Any, source_of: Any) -> None:
    """The verdict and the kernel say that a row may be empty, and what the kernel then returns."""
    program, O = masked_attention()
    backward = program.gradient(O)
    i, j, k = index("i", T_q), index("j", T_k), index("k", T_k)
    A, dA, dS = program["A"], backward["dA"], backward["dS"]
    (verdict,) = proved(backward.claim("dS", dS[i, j], A[i, j] * (dA[i, j] - Sum(A[i, k] * dA[i, k], k))))
    stated = [text for text in verdict.hypotheses if "empty index set" in text]
    assert stated == ["no empty index set: some j with allowed[i,j] > 0; without any, softmax is 0/0"]
    assert "some j with allowed[i,j] > 0; without any, softmax is 0" in source_of(program)


@pytest.mark.parametrize("target", TARGETS)
def test_c20_a_mean_over_nothing(target: str, compiled: Any, source_of: Any) -> None:
    """The same for means and variances over a masked axis: 0, and gradients 0."""
    x, keep = tensor("x", N, C), tensor("keep", N, C, into=2)
    program = Program("masked_moments", "mean plus variance over a mask", [x, keep])
    average = program.define("average", [n], mean(x[n, c], over=c, where=Gt(keep[n, c], 0)))
    program.kernel(program.define("y", [n], average[n] + variance(x[n, c], over=c, where=Gt(keep[n, c], 0))), wrt=[x])
    kernel = compiled(program, target)
    values, ones = on(target, [[1.0, 2.0, 6.0], [1.0, 2.0, np.inf]], [1.0, 1.0])
    y, saved = kernel.forward(values, *on(target, [[1, 0, 1], [0, 0, 0]]))
    np.testing.assert_allclose(np.asarray(y), (3.5 + 6.25, 0))
    np.testing.assert_allclose(np.asarray(kernel.backward(ones, saved)[0]), [[-2, 0, 3], [0, 0, 0]])
    assert "without any, mean is 0 and variance is 0" in source_of(program)


@pytest.mark.parametrize("target", TARGETS)
def test_c23_cross_entropy_with_a_masked_class_of_label_0(target: str, compiled: Any, proved: Any, agrees: Any) -> None:
    """0 log 0 = 0: the sum is over classes whose label is not 0, which equals the plain sum wherever that is finite."""
    z, y = tensor("z", C), tensor("y", C)
    program = Program("soft_cross_entropy", "cross entropy for soft labels", [z, y])
    lse = program.define("lse", [], logsumexp(z[e], over=e))
    L = program.define("L", [], Sum(where(Ne(y[c], 0), y[c] * (lse - z[c]), 0), c))
    program.kernel(L, wrt=[z, y])
    proved(
        program.claim("guarded = plain", L, -Sum(y[c] * log_softmax(z[c], over=c), c)),
        program.claim("dz", program.derivative(L, z[c]), Sum(y[e], e) * softmax(z[c], over=c) - y[c]),
    )
    kernel = compiled(program, target)
    logits, labels, one = on(target, [-np.inf, 0.0, 0.0], [0.0, 1.0, 0.0], 1.0)
    np.seterr(invalid="ignore")  # 0 * inf is computed for the class that is selected away, and for no other
    L_value, saved = kernel.forward(logits, labels)
    dz, dy = kernel.backward(one, saved)
    assert agrees(L_value, 0.693147180560)
    assert agrees(dz, (0, -0.5, 0.5))
    assert np.isfinite(np.asarray(dy)[1:]).all()
    logits, labels = on(target, [-np.inf, 0.0, 0.0], [0.0, 0.0, 0.0])
    L_value, saved = kernel.forward(logits, labels)
    assert agrees(L_value, 0)
    assert agrees(kernel.backward(one, saved)[0], (0, 0, 0))


@pytest.mark.parametrize("target", TARGETS)
def test_c24_cross_entropy_at_a_large_common_offset(target: str, compiled: Any, proved: Any) -> None:
    """lse(z) - z_t at an offset of 1e8 in float32: the maximum has to leave before the logarithm comes."""
    z, t, m = tensor("z", N, C), tensor("t", N, into=C), tensor("m", N)
    program = Program("offset_cross_entropy", "cross entropy", [z, t])
    loss = program.define("loss", [n], logsumexp(z[n, c], over=c) - z[n, t[n]])
    program.kernel(loss, wrt=[z])
    shifted = log(Sum(exp(z[n, c] - m[n]), c)) - (z[n, t[n]] - m[n])
    proved(program.claim("shifted", loss[n], shifted))
    kernel = compiled(program, target)
    Z, which = on(target, np.array([[1e8, 1e8], [1e8, 1e8 - 16]], dtype=np.float32), [0, 1])
    found, _ = kernel.forward(Z, which)
    assert np.asarray(found).dtype == np.float32
    np.testing.assert_allclose(np.asarray(found), (0.693147180560, 16.000000112535), rtol=1e-7)


def test_c26_masks_are_selections(proved: Any, refuted: Any, point: Any, compiled: Any) -> None:
    """A number added to every key of a row un-masks it, for softmax does not see it; masks do not add up to a mask."""
    s, seen = tensor("s", C), tensor("seen", C, into=2)
    low = scalar("low")
    program = Program("selection", "softmax over a subset", [s, seen])
    p = program.define("p", [c], softmax(s[c], over=c, where=Gt(seen[c], 0)))
    program.kernel(p, wrt=[s])
    sentinel = softmax(s[c] + low, over=c)
    proved(program.claim("shift", sentinel, softmax(s[c], over=c)))
    refuted(
        program.claim("a sentinel on every key is a mask", sentinel, 0), point(program, s=(3, -1), low=-65504), [c],
        left=(0.982013790038, 0.017986209962),
    )  # fmt: skip
    added = softmax(s[c] + low * where(Gt(seen[c], 0), 0, 1), over=c)
    here = [point(program, s=(2, -1), seen=(0, 1), low=low_) for low_ in ("-1e-9", "-1e9")]
    refuted(program.claim("a sentinel is a mask", added, p[c]), here[0], [c], left=(0.952574126777, 0.047425873223))
    np.testing.assert_allclose(here[1](added, c), (0, 1), atol=1e-15)
    with np.errstate(over="ignore"):
        low_16 = np.finfo(np.float16).min
        assert np.isneginf(low_16 + low_16)
        assert np.isneginf(low_16 - np.float16(16))
        assert low_16 - np.float16(15) == -65504
    kernel = compiled(program)
    for kind in (np.float16, np.float32, np.float64):
        value, saved = kernel.forward(np.array([3, -1], dtype=kind), np.array([0, 1]))
        np.testing.assert_array_equal(value, (0, 1))
        assert np.isfinite(kernel.backward(np.ones(2, dtype=kind), saved)[0]).all()


VARIANCES = (
    ((10000, 10001, 10002, 10003), 1.25, 0.0),
    ((4096, 4097, 4098, 4099), 1.25, 2.0),
)


def test_c29_variance_by_the_square_of_the_mean(proved: Any, compiled: Any) -> None:
    """E[x^2] - E[x]^2 is the variance on paper and cancels in floating point: the kernel centres first."""
    x = tensor("x", N, C)
    program = Program("spread", "variance of each row", [x])
    v = program.define("v", [n], variance(x[n, c], over=c))
    program.kernel(v, wrt=[x])
    one_pass = mean(x[n, c] ** 2, over=c) - mean(x[n, c], over=c) ** 2
    proved(
        program.claim("one pass", v[n], one_pass),
        program.claim("two", v[n], mean((x[n, c] - mean(x[n, e], over=e)) ** 2, over=c)),
    )
    kernel = compiled(program)
    for row, expected, cancelled in VARIANCES:
        single = np.array([row], dtype=np.float32)
        assert (single**2).mean() - single.mean() ** 2 == cancelled
        value, saved = kernel.forward(single)
        np.testing.assert_allclose(value, [expected], rtol=1e-6)
        (dx,) = kernel.backward(np.ones(1, dtype=np.float32), saved)
        np.testing.assert_allclose(dx[0], (np.array(row) - np.mean(row)) * 2 / len(row), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_c30_the_shift_is_each_rows_own(target: str, compiled: Any, proved: Any) -> None:
    """Any constant of a row may be subtracted; only the row's own maximum keeps every row away from 0/0."""
    Z, shift = tensor("Z", N, C), tensor("shift", N)
    program = Program("rows", "softmax of each row", [Z])
    P = program.define("P", [n, c], softmax(Z[n, c], over=c))
    program.kernel(P, wrt=[Z])
    proved(program.claim("shift", softmax(Z[n, c] - shift[n], over=c), P[n, c]))
    kernel = compiled(program, target)
    rows, ones = on(target, [[0.0, 1.0], [1000.0, 1001.0]], np.ones((2, 2)))
    value, saved = kernel.forward(rows)
    np.testing.assert_allclose(np.asarray(value), [[0.268941421370, 0.731058578630]] * 2, rtol=1e-11)
    np.testing.assert_allclose(np.asarray(kernel.backward(ones, saved)[0]), 0, atol=1e-15)


@pytest.mark.parametrize("target", TARGETS)
def test_c32_padding_and_a_learned_temperature(target: str, compiled: Any, proved: Any, agrees: Any) -> None:
    """Padded candidates leave the sums: whatever stands there, -inf as well, is multiplied by nothing."""
    s, valid, tau = tensor("s", C), tensor("valid", C, into=2), scalar("tau", positive=True)
    program = Program("temperature", "a choice among candidates at a temperature", [s, valid, tau])
    L = program.define("L", [], logsumexp(s[c] / tau, over=c, where=Gt(valid[c], 0)) - s[0] / tau)
    program.kernel(L, wrt=[s, tau])
    p = softmax(s[c] / tau, over=c, where=Gt(valid[c], 0))
    proved(program.claim("dtau", program.derivative(L, tau), (s[0] - Sum(p * s[c], c)) / tau**2))
    kernel = compiled(program, target)
    for padding in (0.0, 7.0, -np.inf):
        scores, one = on(target, [0.8, 0.3, padding], 1.0)
        value, saved = kernel.forward(scores, *on(target, [1, 1, 0]), tau=0.5)
        ds, dtau = kernel.backward(one, saved)
        assert agrees(dtau, 0.537882842740)
        assert np.asarray(ds)[2] == 0
        assert np.isfinite(np.asarray(value))


@pytest.mark.parametrize("target", TARGETS)
def test_c33_cosine_with_clamped_norms(target: str, compiled: Any, proved: Any) -> None:
    """Each vector is divided by its own clamped norm; the product of the two clamps would underflow to 0."""
    v, w, eps = *tensors("v w", C), scalar("eps", positive=True)
    tiny = 1.1754943508222875e-38
    norm_v, norm_w = sqrt(Sum(v[e] ** 2, e)), sqrt(Sum(w[e] ** 2, e))
    program = Program("cosine", "cosine similarity, each norm at least eps", [v, w, eps])
    similarity = program.define("similarity", [], Sum(v[c] / Max(norm_v, eps) * w[c] / Max(norm_w, eps), c))
    program.kernel(similarity, wrt=[v, w], defaults={eps: tiny})
    product = Sum(v[c] * w[c], c) / (Max(norm_v, eps) * Max(norm_w, eps))
    proved(program.claim("over the reals", similarity, product))
    assert np.float32(tiny) * np.float32(tiny) == 0
    kernel = compiled(program, target)
    for kind in (np.float32, np.float64):
        zero, ones, upstream = on(target, np.zeros(3, kind), np.ones(3, kind), np.ones((), kind))
        for pair, expected in (((zero, zero), 0), ((ones, zero), 0), ((ones, ones), 1)):
            value, saved = kernel.forward(*pair)
            assert np.asarray(value) == pytest.approx(expected)
            assert all(not np.isnan(np.asarray(part)).any() for part in kernel.backward(upstream, saved))


def logistic(u: Any) -> Any:
    """1 / (1 + exp(-u)), without overflow."""
    return np.exp(-np.logaddexp(0, -u))


def swish() -> Program:
    """x sigma(b x) with a slope b for each channel."""
    x, b = tensor("x", N, C), tensor("b", C)
    program = Program("swish", "swish with slopes of its own", [x, b])
    program.kernel(program.define("y", [n, c], x[n, c] * sigmoid(b[c] * x[n, c])), wrt=[x, b])
    return program


def gated_twice() -> Program:
    """x sigma(b x)^2, both of its parts with a name."""
    x, b = tensor("x", N, C), tensor("b", C)
    program = Program("gated_twice", "a gate, twice", [x, b])
    s = program.define("s", [n, c], sigmoid(b[c] * x[n, c]))
    y = program.define("y", [n, c], x[n, c] * s[n, c])
    program.kernel(program.define("o", [n, c], y[n, c] * s[n, c]), wrt=[x, b])
    return program


def focal_by_name() -> Program:
    """The focal loss of soft targets, as it is written with a probability that has a name."""
    x, w = tensor("x", N, C), tensor("w", N, C)
    program = Program("focal_by_name", "focal loss with a named probability", [x, w])
    p = program.define("p", [n, c], sigmoid(x[n, c]))
    hard, easy = (1 - p[n, c]) ** 2 * log(p[n, c]), p[n, c] ** 2 * log(1 - p[n, c])
    program.kernel(program.define("o", [n, c], -w[n, c] * hard - (1 - w[n, c]) * easy), wrt=[x, w])
    return program


def geometric_mean() -> Program:
    """The root of a probability and its rest."""
    x = tensor("x", N, C)
    program = Program("geometric_mean", "roots of a probability and its rest", [x])
    p = program.define("p", [n, c], sigmoid(x[n, c]))
    program.kernel(program.define("o", [n, c], sqrt(p[n, c]) * sqrt(1 - p[n, c])), wrt=[x])
    return program


def gate_slopes(x: Any, s: Any, b: Any, power: int) -> list[Any]:
    """The slopes of x sigma(b x)^k for x and for b, the latter summed over the rows."""
    return [s**power * (1 + power * b * x * (1 - s)), (power * x * x * s**power * (1 - s)).sum(axis=0)]


def focal_slopes(x: Any, s: Any, w: Any) -> list[Any]:
    """The slopes of the focal loss for logits and targets."""
    rest, log_s, log_rest = logistic(-x), -np.logaddexp(0, -x), -np.logaddexp(0, x)
    hard = rest**2 * (2 * s * log_s - rest)
    easy = s**2 * (s - 2 * rest * log_rest)
    return [w * hard + (1 - w) * easy, -(rest**2) * log_s + s**2 * log_rest]


NAMED_TAILS: dict[str, tuple[Any, Any, Any, float]] = {
    "x sigma(b x)": (swish, lambda x, s, b: x * s, lambda x, s, b: gate_slopes(x, s, b, 1), 1.5),
    "x sigma(b x)^2": (gated_twice, lambda x, s, b: x * s * s, lambda x, s, b: gate_slopes(x, s, b, 2), 1.5),
    "focal": (
        focal_by_name,
        lambda x, s, w: w * logistic(-x) ** 2 * np.logaddexp(0, -x) + (1 - w) * s**2 * np.logaddexp(0, x),
        focal_slopes, 0.25,
    ),
    "roots": (
        geometric_mean,
        lambda x, s, _: np.sqrt(s * logistic(-x)),
        lambda x, s, _: [np.sqrt(s * logistic(-x)) * (logistic(-x) - s) / 2], 0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMED_TAILS)
@pytest.mark.parametrize("target", TARGETS)
def test_slopes_of_what_vanishes_behind_a_name(target: str, name: str, kind: Any, compiled: Any) -> None:
    """A slope is written with the name of a value that is 0 where the exponential beside it has overflowed."""
    make, value, slopes, second = NAMED_TAILS[name]
    program = make()
    x = np.array([[-1e4, -800.0, -60.0, -1.0], [0.0, 2.0, 60.0, 1e4]], dtype=kind)
    count = 1 if second == 0.0 else 2
    shape = (4,) if second == 1.5 else (2, 4)
    exact = x.astype(np.float64)
    s = logistic(exact * second if second == 1.5 else exact)
    kernel = compiled(program, target)
    found, saved = kernel.forward(*on(target, x, np.full(shape, second, kind))[:count])
    gradients = kernel.backward(*on(target, np.ones((2, 4), kind)), saved)
    rtol = 1e-5 if kind is np.float32 else 1e-12
    np.testing.assert_allclose(np.asarray(found), value(exact, s, second), rtol=rtol, atol=np.finfo(kind).eps)
    for gradient, expected in zip(gradients, slopes(exact, s, second), strict=True):
        np.testing.assert_allclose(np.asarray(gradient), expected, rtol=rtol, atol=np.finfo(kind).eps)


def squashed(w: Any, t: Any) -> Any:
    """The correction of a log density for an action that is squashed by tanh."""
    return w * log(1 - t**2)


def unsquashed(w: Any, t: Any) -> Any:
    """The action before it was squashed."""
    return w * (log(1 + t) - log(1 - t)) / 2


@pytest.mark.parametrize("of", [squashed, unsquashed])
@pytest.mark.parametrize("target", TARGETS)
def test_logarithms_of_what_a_tangent_leaves(target: str, of: Any, compiled: Any) -> None:
    """1 - t and 1 - t^2 are 0 from |x| = 19 on; their logarithms, and what these divide in a slope, are numbers."""
    x, w = tensor("x", N, C), tensor("w", N, C)
    program = Program(of.__name__, "a logarithm of a tangent", [x, w])
    t = program.define("t", [n, c], tanh(x[n, c]))
    program.kernel(program.define("o", [n, c], of(w[n, c], t[n, c])), wrt=[x, w])
    kernel = compiled(program, target)
    at = np.array([[-1e4, -30.0, -1.0], [0.5, 30.0, 1e4]])
    value, saved = kernel.forward(*on(target, at, np.full((2, 3), 2.0)))
    dx, dw = kernel.backward(*on(target, np.ones((2, 3))), saved)
    single = 2 * (np.log(2) - at - np.logaddexp(0, -2 * at)) if of is squashed else at
    np.testing.assert_allclose(np.asarray(value), 2 * single, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(dx), -4 * np.tanh(at) if of is squashed else np.full((2, 3), 2.0), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(dw), single, rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_what_is_clipped(target: str, compiled: Any) -> None:
    """Where an entry is clipped the slope is 0, and nothing is raised to a power that has a pole there."""
    x, p, eps = tensor("x", N, C, positive=True), tensor("p", C, positive=True), scalar("eps", positive=True)
    program = Program("clipped_powers", "powers of clipped entries", [x, p, eps])
    program.kernel(program.define("y", [n], Sum(Max(x[n, c], eps) ** p[c], c)), wrt=[x, p])
    kernel = compiled(program, target)
    value, saved = kernel.forward(*on(target, [[0.0, 0.25, 4.0]], [0.5, 0.5, 2.0]), eps=0.01)
    dx, dp = kernel.backward(*on(target, np.ones(1)), saved)
    np.testing.assert_allclose(np.asarray(value), [0.1 + 0.5 + 16], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(dx), [[0, 1, 8]], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(dp), [0.1 * np.log(0.01), 0.5 * np.log(0.25), 16 * np.log(4)], rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_no_candidates_for_any_row(target: str, compiled: Any, source_of: Any) -> None:
    """Sums of weighted logistic functions over pairs are 0 over none, and no largest term is looked for."""
    E, first, other = tensor("E", C, d), tensor("first", N, into=C), tensor("other", N, T, into=C)
    a, t = index("a", d), index("t", T)
    program = Program("candidates", "candidates that are pushed away", [E, first, other])
    near = Sum(E[first[n], a] * E[other[n, t], a], a)
    program.kernel(program.define("loss", [], Sum(softplus(near), n, t)), wrt=[E])
    assert "max(" not in source_of(program, target).split("def candidates_backward")[1]
    kernel = compiled(program, target)
    for count, expected in ((0, [[0.0], [0.0]]), (1, [[logistic(0.5)], [logistic(0.5) / 2]])):
        table, rows, candidates = on(target, [[0.5], [1.0]], [0], np.ones((1, count), int))
        _, saved = kernel.forward(table, rows, candidates)
        np.testing.assert_allclose(np.asarray(kernel.backward(*on(target, 1.0), saved)[0]), expected, rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_shares_that_underflow(target: str, compiled: Any) -> None:
    """The slope of p^q is q p^(q - 1) p', which is infinity times 0 where p has underflowed, and tends to 0."""
    z, y, q = tensor("z", N, C), tensor("y", N, into=C), scalar("q", positive=True)
    program = Program("generalised", "generalised cross entropy", [z, y, q])
    p = program.define("p", [n, c], softmax(z[n, c], over=c))
    program.kernel(program.define("L", [n], (1 - p[n, y[n]] ** q) / q), wrt=[z])
    kernel = compiled(program, target)
    logits = np.array([[1e4, 0.0, -1e4], [0.0, 1.0, 2.0]])
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    for chosen in range(3):
        found, saved = kernel.forward(*on(target, logits, np.full(2, chosen)), q=0.7)
        (dz,) = kernel.backward(*on(target, np.ones(2)), saved)
        power = shares[:, chosen] ** 0.7
        np.testing.assert_allclose(np.asarray(found), (1 - power) / 0.7, rtol=1e-12)
        expected = power[:, None] * (shares - np.eye(3)[chosen])
        np.testing.assert_allclose(np.asarray(dz), expected, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("target", TARGETS)
def test_roots_of_products_of_shares(target: str, compiled: Any) -> None:
    """Bhattacharyya's coefficient of two distributions without a common choice is 0, and so is its slope."""
    z, w = tensors("z w", N, C)
    program = Program("overlap", "overlap of two distributions", [z, w])
    p = program.define("p", [n, c], softmax(z[n, c], over=c))
    q = program.define("q", [n, c], softmax(w[n, c], over=c))
    program.kernel(program.define("o", [n], Sum(sqrt(p[n, c] * q[n, c]), c)), wrt=[z, w])
    kernel = compiled(program, target)
    first, second = np.array([[1e4, 0.0], [1.0, 1.0]]), np.array([[0.0, 1e4], [1.0, 1.0]])
    found, saved = kernel.forward(*on(target, first, second))
    np.testing.assert_allclose(np.asarray(found), [0, 1], rtol=1e-12)
    for gradient in kernel.backward(*on(target, np.ones(2)), saved):
        np.testing.assert_allclose(np.asarray(gradient), 0, atol=1e-16)


@pytest.mark.parametrize("target", TARGETS)
def test_densities_that_underflow(target: str, compiled: Any) -> None:
    """A mixture's density is a product over dimensions; its logarithm is a number where the product is none."""
    x, centre = tensor("x", N, d), tensor("centre", C, d)
    a = index("a", d)
    program = Program("mixture", "log density of a mixture", [x, centre])
    density = program.define("density", [n, c], Product(exp(-((x[n, a] - centre[c, a]) ** 2) / 2), a))
    program.kernel(program.define("L", [n], log(Sum(density[n, c], c))), wrt=[x])
    kernel = compiled(program, target)
    value, saved = kernel.forward(*on(target, [[100.0, 0.0]], [[0.0, 0.0], [0.0, 200.0]]))
    (dx,) = kernel.backward(*on(target, np.ones(1)), saved)
    np.testing.assert_allclose(np.asarray(value), [-5000.0], rtol=1e-12)
    np.testing.assert_allclose(np.asarray(dx), [[-100.0, 0.0]], rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_of_bells_needs_no_scale(target: str, compiled: Any) -> None:
    """No exponent is above 0: a row maximum was looked for, and the exponentials were computed twice."""
    k, a = index("k", T), index("a", d)
    x, centre, w = tensor("x", N, d), tensor("centre", T, d), tensor("w", T)
    program = Program("bells", "a mixture of bells", [x, centre, w])
    squares = Sum((x[n, a] - centre[k, a]) ** 2, a)
    program.kernel(program.define("y", [n], Sum(w[k] * exp(-squares / 2), k)), wrt=[x, centre, w])
    kernel = compiled(program, target)
    assert "max(" not in inspect.getsource(kernel.forward)
    generator = np.random.default_rng(0)
    points, centres, weights = generator.standard_normal((5, 3)), generator.standard_normal((4, 3)), np.ones(4)
    points[0] = 1e3
    y, _ = kernel.forward(*on(target, points, centres, weights))
    bells = np.exp(-((points[1:, None] - centres) ** 2).sum(-1) / 2)
    np.testing.assert_allclose(np.asarray(y), [0, *bells.sum(1)], rtol=1e-12)


def near_one(name: str) -> tuple[Program, Any]:
    """A function that is small near 0 as a difference from 1, and what it is in twice the digits."""
    z = tensor("z", N, C)
    body, expected = {
        "elu": (
            where(z[n, c] > 0, z[n, c], exp(z[n, c]) - 1),
            lambda v: np.where(v > 0, v, np.expm1(np.minimum(v, 0))),
        ),
        "a logarithm": (log(1 + z[n, c] ** 2), lambda v: np.log1p(v**2)),
    }[name]
    program = Program("near_one", "a difference from 1", [z])
    program.kernel(program.define("y", [n, c], body), wrt=[z])
    return program, expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["elu", "a logarithm"])
def test_a_difference_from_one_keeps_its_digits(name: str, target: str, compiled: Any) -> None:
    """exp(z) - 1 and log(1 + z^2) had none of them near 0 in single precision."""
    program, expected = near_one(name)
    z = np.array([[1e-6, -1e-6, 3e-4, -0.1, 2.0, 1e4]], np.float32)
    y, _ = compiled(program, target).forward(*on(target, z))
    np.testing.assert_allclose(np.asarray(y), expected(z.astype(np.float64)), rtol=5e-7)

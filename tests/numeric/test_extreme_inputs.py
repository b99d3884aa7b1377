"""Kernels at logits of +-1e4 and 1e8: finite, exact where the answer is known, and silent."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from codegen.checking.sampling import Case, Shape, draw, sizes_of
from derive.language import Flag, Tensor
from derive.library import load
from generated.numpy.attention import attention_backward, attention_forward
from generated.numpy.cross_entropy import cross_entropy_backward, cross_entropy_forward
from generated.numpy.gelu import gelu_backward, gelu_forward
from generated.numpy.layer_norm import layer_norm_forward
from generated.numpy.softmax import softmax_backward, softmax_forward

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """Overflow, invalid values and division by zero are errors in this module, and nowhere else."""
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_softmax(kind: type) -> None:
    z = np.array([[1e4, -1e4, 1e4], [-1e4, -1e4, 1e4], [0, 1e4, 1e4 + 1]], dtype=kind)
    p, saved = softmax_forward(z)
    expected = np.array([[0.5, 0, 0.5], [0, 0, 1], [0, 1 / (1 + np.e), np.e / (1 + np.e)]])
    assert p.dtype == kind
    np.testing.assert_allclose(p, expected, rtol=1e-6, atol=1e-30)
    (dz,) = softmax_backward(np.ones_like(p), saved)
    np.testing.assert_allclose(dz, 0, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_cross_entropy(kind: type) -> None:
    z = np.array([[1e4, -1e4], [-1e4, 1e4]], dtype=kind)
    loss, saved = cross_entropy_forward(z, np.array([1, 1]))
    assert loss == pytest.approx(1e4)
    (dz,) = cross_entropy_backward(np.ones(()), saved)
    assert dz.dtype == kind
    np.testing.assert_allclose(dz, [[0.5, -0.5], [0, 0]])


def test_cross_entropy_keeps_log_of_the_class_count_at_a_large_offset() -> None:
    for offset in (1e4, -1e4):
        loss, _ = cross_entropy_forward(np.full((1, 2), offset, dtype=np.float64), np.array([0]))
        assert loss == pytest.approx(np.log(2), rel=1e-11)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_attention(kind: type, causal: bool) -> None:
    rng = np.random.default_rng(5)
    Q, K = (100 * rng.normal(size=(2, 5, 4)) for _ in range(2))
    V = rng.normal(size=(2, 5, 3))
    O, saved = attention_forward(*(a.astype(kind) for a in (Q, K, V)), causal=causal)
    gradients = attention_backward(rng.normal(size=O.shape), saved)
    assert all(np.isfinite(a).all() and a.dtype == kind for a in (O, *gradients))
    scores = np.einsum("nia,nja->nij", Q, K) / 2
    for n in range(2):
        for i in range(5):
            seen = range(i + 1) if causal else range(5)
            best = max(seen, key=lambda j: scores[n, i, j])
            gap = scores[n, i, best] - max((scores[n, i, j] for j in seen if j != best), default=-np.inf)
            if gap > 50:
                np.testing.assert_allclose(O[n, i], V[n, best], rtol=1e-5)


def test_causal_attention_with_more_queries_than_keys_and_one_key() -> None:
    rng = np.random.default_rng(6)
    Q, K, V = rng.normal(size=(4, 3)), rng.normal(size=(1, 3)), rng.normal(size=(1, 2))
    O, saved = attention_forward(Q, K, V, causal=True)
    np.testing.assert_allclose(O, np.repeat(V, 4, axis=0))
    dQ, dK, dV = attention_backward(np.ones_like(O), saved)
    np.testing.assert_allclose(dQ, 0, atol=1e-15)
    np.testing.assert_allclose(dK, 0, atol=1e-15)
    np.testing.assert_allclose(dV, np.full((1, 2), 4.0))


def test_gelu_far_out() -> None:
    x = np.array([-1e4, -40.0, 0.0, 40.0, 1e4])
    y, saved = gelu_forward(x)
    np.testing.assert_allclose(y, [0, 0, 0, 40, 1e4])
    (dx,) = gelu_backward(np.ones(5), saved)
    np.testing.assert_allclose(dx, [0, 0, 0.5, 1, 1])


def test_layer_norm_at_a_large_mean_uses_the_centred_variance() -> None:
    x = np.array([[10000, 10001, 10002, 10003]], dtype=np.float32)
    y, _ = layer_norm_forward(x, np.ones(4, np.float32), np.zeros(4, np.float32), eps=1e-5)
    np.testing.assert_allclose(y[0], np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(1.25 + 1e-5), rtol=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# Both targets: every kernel at inputs of 1e4 and offsets of 1e8, and logits of -inf where there is a value.

LIBRARY = {program.name: program for program in load() if program.request is not None}
TARGETS = ("numpy", "torch")
# Inputs that are no logits: a log-probability is at most 0, and the features of linear attention vanish far out.
OUTSIDE = {("jensen_shannon", "X"), ("jensen_shannon", "Y"), ("jensen_shannon_logits", "Y"), ("linear_attention", "Q")}


def results(target: str, name: str, arrays: list[np.ndarray], **options: Any) -> list[np.ndarray]:
    """The outputs, then the gradients for an upstream gradient of ones."""
    module = importlib.import_module(f"generated.{target}.{name}")
    given: list[Any] = [torch.from_numpy(array) if target == "torch" else array for array in arrays]
    if not hasattr(module, f"{name}_backward"):
        returned = getattr(module, name)(*given, **options)
        return [np.asarray(made) for made in (returned if isinstance(returned, tuple) else (returned,))]
    output, saved = getattr(module, f"{name}_forward")(*given, **options)
    upstream = torch.ones_like(output) if target == "torch" else np.ones_like(output)
    return [np.asarray(made) for made in (output, *getattr(module, f"{name}_backward")(upstream, saved))]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_large_inputs_give_no_nan(name: str, target: str) -> None:
    program = LIBRARY[name]
    plain, leading, least = sizes_of(program)
    sizes = {size: max(2, least.get(size, 1)) + turn for turn, size in enumerate(plain)}
    shape = Shape(sizes | dict.fromkeys(leading, 2), dict.fromkeys(leading, (2,)))
    flags = {str(known.name): True for known in program.all_inputs() if isinstance(known, Flag)}
    values, _ = draw(program, Case(0, shape, flags, bare=False), seed=5, attempt=1)
    arrays = {
        str(known.name): values.pop(str(known.name)) for known in program.all_inputs() if isinstance(known, Tensor)
    }
    for changed, value in arrays.items():
        if value.dtype.kind != "f" or (name, changed) in OUTSIDE:
            continue
        for extreme in (1e4 * value, value + 1e8):
            given = [
                (extreme if other == changed else array).astype(np.float32) if array.dtype.kind == "f" else array
                for other, array in arrays.items()
            ]
            for made in results(target, name, given, **values):
                assert not np.isnan(made).any(), f"{changed}, of size {abs(extreme).max():.1g}"


Z = np.array([[1.0, -np.inf, 0.5], [0.0, 2.0, -np.inf]])
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_logits_of_minus_infinity(target: str, kind: type) -> None:
    z = Z.astype(kind)
    (p, _) = results(target, "softmax", [z])
    np.testing.assert_allclose(p, P, rtol=1e-6)
    (L, dz) = results(target, "logsumexp", [z])
    np.testing.assert_allclose(L, np.log(np.exp(Z).sum(axis=1)), rtol=1e-6)
    np.testing.assert_allclose(dz, P, rtol=1e-6)
    (y, dz) = results(target, "log_softmax", [z])
    np.testing.assert_array_equal(np.isneginf(y), np.isneginf(Z))
    np.testing.assert_allclose(dz, 1 - 3 * P, rtol=1e-5)
    (loss, dz) = results(target, "cross_entropy", [z, np.array([0, 1])])
    np.testing.assert_allclose(loss, -np.log(P[[0, 1], [0, 1]]).mean(), rtol=1e-6)
    np.testing.assert_allclose(dz, (P - np.eye(3)[[0, 1]]) / 2, rtol=1e-5, atol=1e-7)
    (loss, dz) = results(target, "cross_entropy", [z, np.array([1, 1])])
    assert np.isposinf(loss)
    np.testing.assert_allclose(dz, (P - np.eye(3)[[1, 1]]) / 2, rtol=1e-5, atol=1e-7)
    # A target of 0 where the logit is -inf adds 0 log 0 = 0.
    y = np.array([[0.5, 0, 0.5], [1, 0, 0]], dtype=kind)
    (loss, dz) = results(target, "cross_entropy_soft", [z, y])[:2]
    kept = np.where(y > 0, y * np.log(np.where(y > 0, P, 1)), 0)
    np.testing.assert_allclose(loss, -kept.sum() / 2, rtol=1e-6)
    np.testing.assert_allclose(dz, (P - y) / 2, rtol=1e-5, atol=1e-7)
    (loss, dz) = results(target, "distillation", [z, z])
    np.testing.assert_allclose(loss, 0, atol=1e-6)
    np.testing.assert_allclose(dz, 0, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_divergence_of_shares_that_are_zero(target: str) -> None:
    P, Q = np.array([0.5, 0.0, 0.5, 0.0]), np.array([0.25, 0.0, 0.5, 0.25])
    D, dQ = results(target, "kullback_leibler", [P, Q])
    np.testing.assert_allclose(D, 0.5 * np.log(2))
    np.testing.assert_allclose(dQ, [-2, 0, -1, 0])


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_left_out_may_be_anything(target: str) -> None:
    """Rows of -inf that are ignored, in value and gradient; all rows ignored; blocks without a key."""
    z = np.array([[-np.inf, -np.inf, -np.inf], [0.0, 2.0, -np.inf], [1e300, -np.inf, 0]])
    target_of_row, keep = np.array([1, 1, 2]), np.array([0, 1, 0])
    loss, dz = results(target, "cross_entropy_masked", [z, target_of_row, keep])
    np.testing.assert_allclose(loss, np.log(1 + np.exp(-2)))
    np.testing.assert_allclose(dz[[0, 2]], 0)
    loss, dz = results(target, "cross_entropy_masked", [z, target_of_row, 0 * keep])
    assert loss == 0
    assert not dz.any()
    outputs, scales = np.ones((1, 2, 3)), np.array([[-np.inf, 0.5]])
    O, L = results(target, "attention_merge", [outputs, scales, np.array([[1, 1]])])
    np.testing.assert_allclose(O, 1)
    np.testing.assert_allclose(L, 0.5)
    O, L = results(target, "attention_merge", [outputs, np.full((1, 2), -np.inf), np.array([[1, 0]])])
    assert np.isneginf(L).all()
    assert not O.any()


@pytest.mark.parametrize("target", TARGETS)
def test_a_term_that_is_switched_off_may_be_infinite(target: str) -> None:
    z, target_of_row = Z.astype(np.float32), np.array([0, 1])
    plain, switched_off = (
        results(target, name, [z, target_of_row], **options)
        for name, options in (("cross_entropy", {}), ("label_smoothing", {"eps": 0.0}))
    )
    for one, other in zip(plain, switched_off, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_slope_of_a_temperature_where_a_logit_is_minus_infinity(target: str) -> None:
    """And what is left out may be no number at all."""
    s = np.array([[1.0, -np.inf, 0.5, np.nan], [0.0, 2.0, np.nan, -np.inf]])
    valid = np.array([[1, 1, 1, 0], [1, 1, 0, 1]])
    L, ds, dtau = results(target, "ranking_loss", [s, np.array([0, 1]), valid], tau=0.5)
    kept = np.where(np.isfinite(s), s, 0)
    p = np.where(np.isfinite(s), np.exp(2 * kept), 0)
    p /= p.sum(axis=1, keepdims=True)
    assert np.isfinite(L).all()
    np.testing.assert_allclose(ds, (p - np.eye(4)[:2]) / 0.5, rtol=1e-12)
    np.testing.assert_allclose(dtau, ((kept[[0, 1], [0, 1]] - (p * kept).sum(axis=1)) / 0.25).sum(), rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_weights_that_are_all_zero_give_zero(target: str) -> None:
    z = np.array([[1.0, -np.inf, 0.5], [0.0, 2.0, 1.0]])
    loss, dz = results(target, "cross_entropy_weighted", [z, np.array([0, 1]), np.zeros(3)])
    assert loss == 0
    assert not dz.any()


@pytest.mark.parametrize("target", TARGETS)
def test_slope_of_an_activation_whose_power_overflows(target: str) -> None:
    with np.errstate(all="ignore"):
        y, dx = results(target, "gelu_tanh", [np.array([-1e30, -1e20, 1e20, 1e30], np.float32)])
    np.testing.assert_array_equal(y, np.array([0, 0, 1e20, 1e30], np.float32))
    np.testing.assert_array_equal(dx, [0, 0, 1, 1])


@pytest.mark.parametrize("target", TARGETS)
def test_fully_masked_rows_are_zero(target: str) -> None:
    rng = np.random.default_rng(8)
    Q, K, V = rng.normal(size=(2, 1, 4, 3)), rng.normal(size=(2, 1, 5, 3)), rng.normal(size=(2, 1, 5, 2))
    mask = np.ones((2, 4, 5), int)
    mask[0, 1] = 0
    mask[1] = 0
    O, dQ, dK, dV = results(target, "attention_masked", [Q, K, V, mask])
    assert all(np.isfinite(made).all() for made in (O, dQ, dK, dV))
    assert not O[0, :, 1].any()
    assert not dQ[0, :, 1].any()
    assert not any(made[1].any() for made in (O, dQ, dK, dV))
    assert O[0, :, 0].any()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flavour", ["", "_lean"])
@pytest.mark.parametrize("scale", [1.0, 100.0])  # below the bound that makes a row maximum superfluous, and above it
def test_a_row_that_sees_nothing_has_no_gradient_however_large_what_comes_in(
    scale: float, flavour: str, target: str
) -> None:
    rng = np.random.default_rng(8)
    Q, K, V = (rng.normal(size=(1, 4, 3)).astype(np.float32) for _ in range(3))
    mask, upstream = np.ones((4, 4), int), np.full((1, 4, 3), 1e30, np.float32)
    mask[2] = 0
    upstream[:, :2] = upstream[:, 3:] = 1
    arrays: list[Any] = [scale * Q, scale * K, V, mask, upstream]
    arrays = [torch.from_numpy(array) for array in arrays] if target == "torch" else arrays
    module = importlib.import_module(f"generated.{target}.attention_masked")
    O, saved = getattr(module, f"attention_masked{flavour}_forward")(*arrays[:4])
    gradients = getattr(module, f"attention_masked{flavour}_backward")(arrays[4], saved)
    O, dQ, dK, dV = (np.asarray(made) for made in (O, *gradients))
    assert not O[0, 2].any()
    assert not dQ[0, 2].any()
    assert all(np.isfinite(made).all() for made in (dQ, dK, dV))
    assert abs(dV).max() < 1e3


@pytest.mark.parametrize("target", TARGETS)
def test_deviation_of_a_constant_row_has_slope_zero(target: str) -> None:
    y, dx = results(target, "layer_norm_std", [np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])], eps=0.1)
    assert not y[0].any()
    np.testing.assert_allclose(dx[0], 0, atol=1e-15)
    assert np.isfinite(dx).all()
    y, dx = results(target, "layer_norm_std", [np.array([[3.0]])])
    assert not dx.any()

"""Kernels at logits of +-1e4 and 1e8: finite, exact where the answer is known, and silent."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from generated.numpy.attention import attention_backward, attention_forward
from generated.numpy.cross_entropy import cross_entropy_backward, cross_entropy_forward
from generated.numpy.gelu import gelu_backward, gelu_forward
from generated.numpy.layer_norm import layer_norm_forward
from generated.numpy.softmax import softmax_backward, softmax_forward


@pytest.fixture(autouse=True)
def warnings_are_errors() -> None:
    """Overflow, invalid values and division by zero are errors in this module."""
    warnings.simplefilter("error")
    np.seterr(over="raise", invalid="raise", divide="raise")


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

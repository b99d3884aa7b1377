"""Losses written as one expression, at logits far from 0: values and gradients of PyTorch's stable functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sympy import Eq, Expr, exp, log, tanh

from derive.functions import log_softmax, logsumexp, mean, sigmoid, softmax
from derive.language import Sum, delta, dims, indices, leading_index, tensor, where
from derive.program import Program

torch = pytest.importorskip("torch")
F = torch.nn.functional

N, D, V = dims("N D V")
n = leading_index("n", N)
a, a_2, a_3 = indices("a a_2 a_3", D)
v, u = indices("v u", V)
x, W, M, w = tensor("x", N, D), tensor("W", D, V), tensor("M", V, D), tensor("w", D)
tok, sign = tensor("tok", N, into=V), tensor("sign", N)
SIZES = {N: 5, D: 6, V: 7}
scores = Sum(x[n, a] * W[a, v], a)
share = Sum(delta(v, tok[n]) * softmax(scores, over=v), v)


def rest(z: Any, k: Any) -> Any:
    """log(1 - softmax(z)[k]), by the others' sum."""
    others = torch.where(torch.arange(z.shape[1]) == k[:, None], -torch.inf, z)
    return torch.logsumexp(others, 1) - torch.logsumexp(z, 1)


def focal(x: Any, W: Any, k: Any) -> Any:
    losses = F.cross_entropy(x @ W, k, reduction="none")
    return (torch.expm1(-losses) ** 2 * losses).mean()


def two_softmaxes(x: Any, W: Any, w: Any, k: Any) -> Any:
    first, second = (F.log_softmax(z, -1).gather(1, k[:, None])[:, 0] for z in (x @ W, -2 * x @ W))
    return -torch.logaddexp(F.logsigmoid(x @ w) + first, F.logsigmoid(-x @ w) + second).mean()


def mixture(x: Any, W: Any, M: Any) -> Any:
    return -torch.logsumexp(F.log_softmax(x @ W, -1) - ((x[:, None] - M) ** 2).sum(-1) / 2, -1).mean()


gate = sigmoid(Sum(x[n, a] * w[a], a))
other_share = Sum(delta(v, tok[n]) * softmax(-2 * scores, over=v), v)
ENTROPY = -mean(Sum(softmax(scores, over=v) * log(softmax(scores, over=v)), v), over=n)
LOSSES: dict[str, tuple[Expr, list[Any], Callable[..., Any]]] = {
    "logsumexp_less_score": (
        mean(logsumexp(scores, over=v) - Sum(x[n, a_2] * W[a_2, tok[n]], a_2), over=n),
        [x, W, tok],
        lambda x, W, k: F.cross_entropy(x @ W, k),
    ),
    "one_hot": (
        -mean(Sum(delta(v, tok[n]) * log_softmax(scores, over=v), v), over=n),
        [x, W, tok],
        lambda x, W, k: F.cross_entropy(x @ W, k),
    ),
    "log_of_picked_share": (-mean(log(share), over=n), [x, W, tok], lambda x, W, k: F.cross_entropy(x @ W, k)),
    "picked_by_a_condition": (
        -mean(log(Sum(where(Eq(v, tok[n]), softmax(scores, over=v), 0), v)), over=n),
        [x, W, tok],
        lambda x, W, k: F.cross_entropy(x @ W, k),
    ),
    "quotient_of_exponentials": (
        -mean(log(exp(Sum(x[n, a_2] * W[a_2, tok[n]], a_2)) / Sum(exp(scores), v)), over=n),
        [x, W, tok],
        lambda x, W, k: F.cross_entropy(x @ W, k),
    ),
    "focal": (-mean((1 - share) ** 2 * log(share), over=n), [x, W, tok], focal),
    "unlikelihood": (mean(log(1 - share), over=n), [x, W, tok], lambda x, W, k: rest(x @ W, k).mean()),
    "entropy": (ENTROPY, [x, W], lambda x, W: -(F.softmax(x @ W, -1) * F.log_softmax(x @ W, -1)).sum(-1).mean()),
    "logistic": (
        -mean(log(sigmoid(sign[n] * Sum(x[n, a] * w[a], a))), over=n),
        [x, w, sign],
        lambda x, w, sign: -F.logsigmoid(sign * (x @ w)).mean(),
    ),
    "two_softmaxes": (-mean(log(gate * share + (1 - gate) * other_share), over=n), [x, W, w, tok], two_softmaxes),
    "mixture": (
        -mean(log(Sum(softmax(scores, over=v) * exp(-Sum((x[n, a_3] - M[v, a_3]) ** 2, a_3) / 2), v)), over=n),
        [x, W, M],
        mixture,
    ),
    "experts": (
        mean(Sum(softmax(scores, over=v) * tanh(Sum(x[n, a_3] * M[v, a_3], a_3)), v) ** 2, over=n),
        [x, W, M],
        lambda x, W, M: ((F.softmax(x @ W, -1) * torch.tanh(x @ M.T)).sum(-1) ** 2).mean(),
    ),
    "collision": (
        mean(log(Sum(softmax(scores, over=v) ** 2, v)), over=n),
        [x, W],
        lambda x, W: torch.logsumexp(2 * F.log_softmax(x @ W, -1), -1).mean(),
    ),
}


def drawn(symbol: Any, scale: float, offset: float, generator: np.random.Generator) -> np.ndarray:
    shape = tuple(SIZES[extent] for extent in symbol.shape)
    if symbol is tok:
        return generator.integers(0, SIZES[V], shape)
    if symbol is sign:
        return generator.choice([-1.0, 1.0], shape)
    values = generator.standard_normal(shape)
    return values * scale + offset if symbol is x else values


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_loss_in_one_piece_far_from_zero(name: str, target: str, compiled: Any) -> None:
    body, inputs, reference = LOSSES[name]
    variables = [symbol for symbol in inputs if symbol not in (tok, sign)]
    program = Program(name, inputs=inputs)
    program.kernel(program.define("loss", [], body), wrt=variables)
    kernel = compiled(program, target)
    generator = np.random.default_rng(0)
    for scale, offset in ((1.0, 0.0), (100.0, 0.0), (1.0, 1e3), (1e4, 0.0)):
        arrays = [drawn(symbol, scale, offset, generator) for symbol in inputs]
        pairs = zip(arrays, inputs, strict=True)
        leaves = [torch.tensor(array, requires_grad=symbol in variables) for array, symbol in pairs]
        expected = reference(*leaves)
        slopes = torch.autograd.grad(expected, [leaf for leaf in leaves if leaf.requires_grad], allow_unused=True)
        given = [torch.tensor(array) for array in arrays] if target == "torch" else arrays
        value, saved = kernel.forward(*given)
        found = kernel.backward(torch.tensor(1.0, dtype=torch.double) if target == "torch" else np.float64(1), saved)
        size = max(1.0, float(np.abs(arrays[0]).max()))
        np.testing.assert_allclose(np.asarray(value), expected.detach().numpy(), rtol=1e-9, atol=1e-14 * size)
        # Saturated shares leave an eps of their factors, and an exponent the same of its own size, here |x - m|^2.
        noise = 1e-16 * size**3 if name == "mixture" else 1e-14 * size
        for slope, other in zip(found, slopes, strict=True):
            assert np.isfinite(np.asarray(slope)).all(), (name, scale, offset)
            np.testing.assert_allclose(np.asarray(slope), other.numpy(), rtol=1e-9, atol=noise)

"""Layer norm, forward and backward: y, dx, dgamma and dbeta from x, gamma, beta and dy.

8192 rows of 768 channels in float32. Peers: `F.layer_norm` with autograd, the textbook form through autograd and
torch.compile and in JAX, and NumPy as one would write it by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.kernels import there_and_back
from benchmarks.peers import can_compile, compiled, installed, through_autograd
from benchmarks.timing import Contest, Note, Row, Run, compete

ROWS, CHANNELS = 8192, 768
EPS = 1e-5
TOLERANCE = 2e-5


def measure(quick: bool, note: Note) -> list[Row]:
    """Rows for the one case."""
    return compete(contests(note), 5.0 if quick else 20.0, note)


def contests(note: Note) -> Iterator[Contest]:
    """The contest."""
    torch = installed("torch", note, "the target torch; F.layer_norm, torch.compile, torch.eager")
    jax = installed("jax", note, "jax.jit")
    arrays = inputs(ROWS, CHANNELS)
    targets = {"numpy": ours("numpy", arrays)}
    peers = {"numpy.textbook": textbook(arrays)}
    if torch is not None:
        tensors = [torch.from_numpy(array) for array in arrays]
        targets["torch"] = ours("torch", tensors)
        peers |= torch_peers(torch, tensors, can_compile(note))
    if jax is not None:
        peers["jax.jit"] = with_jax(jax, arrays)
    yield Contest(f"{ROWS} x {CHANNELS}", targets, peers, TOLERANCE)


def inputs(rows: int, channels: int) -> list[np.ndarray[Any, Any]]:
    """x, gamma, beta and dy, standard normal."""
    rng = np.random.default_rng(0)
    shapes = ((rows, channels), (channels,), (channels,), (rows, channels))
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


def ours(library: str, arrays: list[Any]) -> Run:
    """The generated kernels."""
    *given, upstream = arrays
    return there_and_back("layer_norm", library, given, upstream, eps=EPS)


def textbook(arrays: list[np.ndarray[Any, Any]]) -> Run:
    """The formulas in whole-array NumPy."""
    x, gamma, beta, dy = arrays

    def run() -> tuple[Any, ...]:
        centred = x - x.mean(axis=-1, keepdims=True)
        r = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(EPS))
        xhat = centred * r
        y = gamma * xhat + beta
        g = dy * gamma
        dx = r * (g - g.mean(axis=-1, keepdims=True) - xhat * (g * xhat).mean(axis=-1, keepdims=True))
        return y, dx, (dy * xhat).sum(axis=0), dy.sum(axis=0)

    return run


def torch_peers(torch: Any, tensors: list[Any], compiles: bool) -> dict[str, Run]:
    """PyTorch's layer norm, and the textbook form through autograd and torch.compile."""
    *given, upstream = tensors

    def fused(x: Any, gamma: Any, beta: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), gamma, beta, EPS)

    def naive(x: Any, gamma: Any, beta: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + EPS) * gamma + beta

    peers = {"F.layer_norm": through_autograd(torch, fused, given, upstream)}
    if compiles:
        peers["torch.compile"] = through_autograd(torch, compiled(torch, naive), given, upstream)
    peers["torch.eager"] = through_autograd(torch, naive, given, upstream)
    return peers


def with_jax(jax: Any, arrays: list[np.ndarray[Any, Any]]) -> Run:
    """The textbook form through jax.vjp, compiled as one function."""
    *given, upstream = (jax.numpy.asarray(array) for array in arrays)

    def norm(x: Any, gamma: Any, beta: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + EPS) * gamma + beta

    def both(x: Any, gamma: Any, beta: Any, dy: Any) -> tuple[Any, ...]:
        y, pull_back = jax.vjp(norm, x, gamma, beta)
        return (y, *pull_back(dy))

    together = jax.jit(both)
    return lambda: jax.block_until_ready(together(*given, upstream))

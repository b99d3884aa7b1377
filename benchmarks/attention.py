"""Attention, forward and backward: O, dQ, dK and dV from Q, K, V and dO.

The cases are batch*heads x T, causal or full, with 64 channels in float32, and two of them in float64. `numpy` keeps
the probabilities for the backward pass and `numpy-lean` rebuilds them block by block, each in a workspace that its
calls reuse; `torch` is the pair of torch kernels. Peers: PyTorch's fused attention and the textbook form through
autograd and through torch.compile, the textbook form in JAX, and in NumPy as one would write it by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.kernels import has_schedule, there_and_back
from benchmarks.peers import can_compile, compiled, installed, through_autograd
from benchmarks.timing import Contest, Note, Row, Run, compete

CHANNELS = 64
CASES = (
    ("float32", 8, 512, True),
    ("float32", 8, 512, False),
    ("float32", 1, 1024, True),
    ("float32", 8, 2048, True),
    ("float32", 8, 2048, False),
    ("float32", 1, 4096, True),
    ("float32", 1, 4096, False),
    ("float32", 8, 128, True),
    ("float64", 8, 512, True),
    ("float64", 1, 2048, False),
)
QUICK = (("float32", 8, 128, True), ("float32", 8, 512, True), ("float32", 1, 1024, True))
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def measure(quick: bool, note: Note) -> list[Row]:
    """Rows for all cases, or for three short ones."""
    if quick:
        return compete(contests(quick, note), 1.5, note, limit=30.0)
    return compete(contests(quick, note), 8.0, note)


def contests(quick: bool, note: Note) -> Iterator[Contest]:
    """The contests, each made when its turn comes, so that one lets go of its arrays before the next begins."""
    torch = installed("torch", note, "the target torch; sdpa, torch.compile, torch.eager")
    jax = installed("jax", note, "jax.jit")
    compiles = torch is not None and can_compile(note)
    lean = has_schedule("attention", "numpy", "lean")
    if not lean:
        note("there is no lean attention kernel; left out: the target numpy-lean")
    for kind, heads, length, causal in QUICK if quick else CASES:
        arrays = inputs(heads, length, kind)
        peers = {"numpy.textbook": textbook(arrays, causal)}
        targets = {"numpy": ours("numpy", arrays, causal)}
        if lean:
            targets["numpy-lean"] = ours("numpy", arrays, causal, "lean")
        if torch is not None:
            targets["torch"] = ours("torch", [torch.from_numpy(array) for array in arrays], causal)
            peers |= torch_peers(torch, arrays, causal, compiles)
        if jax is not None and kind == "float32":
            peers["jax.jit"] = with_jax(jax, arrays, causal)
        name = f"{heads} x {length}, {'causal' if causal else 'full'}"
        yield Contest(name if kind == "float32" else f"{name}, {kind}", targets, peers, TOLERANCE[kind])


def inputs(heads: int, length: int, kind: str = "float32") -> list[np.ndarray[Any, Any]]:
    """Q, K, V and dO: standard normal, (heads, length, CHANNELS)."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((heads, length, CHANNELS)).astype(kind) for _ in range(4)]


def ours(target: str, arrays: list[Any], causal: bool, schedule: str = "", *, workspace: bool = True) -> Run:
    """The generated kernels."""
    *given, upstream = arrays
    return there_and_back("attention", target, given, upstream, schedule=schedule, workspace=workspace, causal=causal)


def textbook(arrays: list[np.ndarray[Any, Any]], causal: bool) -> Run:
    """The formulas in whole-array NumPy."""
    Q, K, V, dO = arrays
    root = Q.dtype.type(math.sqrt(Q.shape[-1]))
    seen = np.tril(np.ones((Q.shape[1], K.shape[1]), bool))

    def run() -> tuple[Any, ...]:
        S = Q @ K.swapaxes(-1, -2) / root
        if causal:
            S = np.where(seen, S, Q.dtype.type(-math.inf))
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        A = E / E.sum(axis=-1, keepdims=True)
        O = A @ V
        dA = dO @ V.swapaxes(-1, -2)
        dS = A * (dA - (dA * A).sum(axis=-1, keepdims=True))
        return O, dS @ K / root, dS.swapaxes(-1, -2) @ Q / root, A.swapaxes(-1, -2) @ dO

    return run


def torch_peers(torch: Any, arrays: list[np.ndarray[Any, Any]], causal: bool, compiles: bool) -> dict[str, Run]:
    """PyTorch's fused attention, and the textbook form through autograd and torch.compile."""
    *given, upstream = (torch.from_numpy(array)[None] for array in arrays)  # its fused kernel wants four axes

    def fused(Q: Any, K: Any, V: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)

    def naive(Q: Any, K: Any, V: Any) -> Any:
        S = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
        if causal:
            hidden = torch.ones(S.shape[-2:], dtype=torch.bool).triu(1)
            S = S.masked_fill(hidden, -math.inf)
        return torch.softmax(S, -1) @ V

    peers = {"sdpa": through_autograd(torch, fused, given, upstream)}
    if compiles:
        peers["torch.compile"] = through_autograd(torch, compiled(torch, naive), given, upstream)
    peers["torch.eager"] = through_autograd(torch, naive, given, upstream)
    return {name: without_first_axis(run) for name, run in peers.items()}


def without_first_axis(run: Run) -> Run:
    """The run with the axis of length 1 taken off its results."""
    return lambda: tuple(value[0] for value in run())


def with_jax(jax: Any, arrays: list[np.ndarray[Any, Any]], causal: bool) -> Run:
    """The textbook form through jax.vjp, compiled as one function."""
    jnp = jax.numpy
    *given, upstream = (jnp.asarray(array) for array in arrays)

    def attention(Q: Any, K: Any, V: Any) -> Any:
        S = Q @ K.swapaxes(-1, -2) / math.sqrt(Q.shape[-1])
        if causal:
            S = jnp.where(jnp.tril(jnp.ones(S.shape[-2:], bool)), S, -jnp.inf)
        return jax.nn.softmax(S, axis=-1) @ V

    def both(Q: Any, K: Any, V: Any, dO: Any) -> tuple[Any, ...]:
        O, pull_back = jax.vjp(attention, Q, K, V)
        return (O, *pull_back(dO))

    together = jax.jit(both)
    return lambda: jax.block_until_ready(together(*given, upstream))

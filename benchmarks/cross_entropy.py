"""Mean softmax cross entropy from logits: the loss and its gradient with respect to all logits.

4096 rows of 32,000 classes in float32, as a language model has them. Ours is the kernel for value and gradient together
where there is one. Peers: `F.cross_entropy` with autograd, the textbook form through torch.compile, JAX's, and NumPy as
one would write it by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.kernels import value_and_gradient
from benchmarks.peers import can_compile, compiled, installed, through_autograd
from benchmarks.timing import Contest, Note, Row, Run, compete

ROWS, CLASSES = 4096, 32_000
TOLERANCE = 1e-5


def measure(quick: bool, note: Note) -> list[Row]:
    """Rows for the one case, or for a quarter of its rows."""
    return compete(contests(ROWS // 4 if quick else ROWS, note), 6.0 if quick else 25.0, note)


def contests(rows: int, note: Note) -> Iterator[Contest]:
    """The contest."""
    torch = installed("torch", note, "the target torch; F.cross_entropy, torch.compile")
    jax = installed("jax", note, "jax.jit")
    z, target = inputs(rows, CLASSES)
    targets = {"numpy": ours("numpy", z, target)}
    peers = {"numpy.textbook": textbook(z, target)}
    if torch is not None:
        tensors = torch.from_numpy(z), torch.from_numpy(target)
        targets["torch"] = ours("torch", *tensors)
        loss = torch.nn.functional.cross_entropy
        peers["F.cross_entropy"] = through_autograd(torch, loss, list(tensors))
        if can_compile(note):

            def naive(z: Any, target: Any) -> Any:
                return (torch.logsumexp(z, -1) - z.gather(1, target[:, None])[:, 0]).mean()

            peers["torch.compile"] = through_autograd(torch, compiled(torch, naive), list(tensors))
    if jax is not None:
        peers["jax.jit"] = with_jax(jax, z, target)
    yield Contest(f"{rows} x {CLASSES}", targets, peers, TOLERANCE)


def inputs(rows: int, classes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Standard normal logits, and targets."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, classes), dtype=np.float32), rng.integers(0, classes, rows)


def ours(library: str, z: Any, target: Any, *, workspace: bool = True) -> Run:
    """The generated kernels."""
    return value_and_gradient("cross_entropy", library, (z, target), workspace=workspace)


def textbook(z: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> Run:
    """The formulas in whole-array NumPy."""
    rows = np.arange(len(z))
    size = z.dtype.type(len(z))

    def run() -> tuple[Any, ...]:
        e = np.exp(z - z.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        loss = -np.log(p[rows, target]).mean()
        dz = p.copy()
        dz[rows, target] -= 1
        return loss, dz / size

    return run


def with_jax(jax: Any, z: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> Run:
    """jax.value_and_grad of the mean of -log_softmax at the targets."""
    jnp = jax.numpy
    given, positions = jnp.asarray(z), jnp.asarray(target)

    def both(z: Any, target: Any) -> Any:
        def loss(z: Any) -> Any:
            return -jnp.take_along_axis(jax.nn.log_softmax(z, axis=-1), target[:, None], axis=1).mean()

        return jax.value_and_grad(loss)(z)

    together = jax.jit(both)
    return lambda: jax.block_until_ready(together(given, positions))

"""Which kernels have their rounding errors measured, and on what: ordinary inputs, and those that break formulas.

The table behind `benchmarks.errors`. Kinds of inputs are named for the page, and the same for every type: logits far
from 0 and far from each other, rows of equal ones; means a thousand times the spread; the tails of the activations,
down to where float32 ends and beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Inputs = Iterator[tuple[str, list[Any], Any]]  # what they are called, the arguments, the gradient from above

EPS = 2.0**-17  # of the norms; exact in every type


@dataclass(frozen=True)
class Kernel:
    """A kernel under test.

    Attributes:
        name: Of the program.
        results: The names of the value and the gradients.
        inputs: What makes the arguments and the gradient from above, for each kind of inputs; smaller ones for True.
        limited: The results for which a limit is claimed.
        options: Further arguments.
        by_entry: The results whose error is counted in ulp; the others' in eps of the row.
        rival: PyTorch's own function.
        limited_on: The kinds of inputs on which the limit is claimed, if not on all.
    """

    name: str
    results: tuple[str, ...]
    inputs: Callable[[np.random.Generator, bool], Inputs]
    limited: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()
    by_entry: tuple[str, ...] = ()
    rival: Callable[[Any, Sequence[Any]], Any] | None = None
    limited_on: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name, and the options that are switched on."""
        return self.name + "".join(f", {name}" for name, value in self.options if value is True)

    def limit(self, result: str, inputs: str, kind: str) -> bool:
        """Whether a limit is claimed for the error of a result on a kind of inputs in a type."""
        return kind == "float32" and result in self.limited and (not self.limited_on or inputs in self.limited_on)


def rows_of_logits(rng: np.random.Generator, quick: bool) -> Iterator[tuple[str, Array]]:
    """Logits, ordinary and extreme, (rows, classes)."""
    shape = (4, 40) if quick else (16, 150)
    normal = rng.standard_normal(shape)
    yield "standard normal", normal
    yield "normal, spread 30", 30 * normal
    yield "around 1e4", 1e4 + normal
    yield "around -1e4", normal - 1e4
    yield "around 1e8", 1e8 + 64 * np.round(4 * normal)
    yield "+-1e4", 1e4 * np.sign(normal) + normal
    yield "all equal", np.full(shape, 3.7)
    yield "one class", normal[:, :1]


def for_softmax(rng: np.random.Generator, quick: bool) -> Inputs:
    """Logits and an upstream gradient of their shape."""
    for label, z in rows_of_logits(rng, quick):
        if label != "one class":  # the gradient is 0, which has no size to measure an error by
            yield label, [z], rng.standard_normal(z.shape)


def for_logsumexp(rng: np.random.Generator, quick: bool) -> Inputs:
    """Logits and an upstream gradient for each row."""
    for label, z in rows_of_logits(rng, quick):
        yield label, [z], rng.standard_normal(len(z))


def for_cross_entropy(rng: np.random.Generator, quick: bool) -> Inputs:
    """Logits, targets, and the number that the loss is multiplied by."""
    for label, z in rows_of_logits(rng, quick):
        if label != "one class":
            yield label, [z, rng.integers(0, z.shape[1], len(z))], np.asarray(0.75)


def for_norms(affine: int) -> Callable[[np.random.Generator, bool], Inputs]:
    """What makes x, as many vectors as the norm has, and an upstream gradient."""

    def make(rng: np.random.Generator, quick: bool) -> Inputs:
        shape = (6, 32) if quick else (32, 96)
        normal = rng.standard_normal(shape)
        for label, x in {
            "standard normal": normal,
            "mean 100": 100 + normal,
            "mean 1e4": 1e4 + normal,
            "spread 1e-6": 1e-6 * normal,
            "spread 1e12": 1e12 * normal,
            "one outlier": normal + 1e4 * (np.arange(shape[1]) == 3),
        }.items():
            yield label, [x, *rng.standard_normal((affine, shape[1]))], rng.standard_normal(shape)

    return make


def for_activations(rng: np.random.Generator, quick: bool) -> Inputs:
    """Points, and an upstream gradient of 1, so that the gradient is the derivative."""
    size = 200 if quick else 4000
    points = {
        "-6 .. 6": np.linspace(-6, 6, size),
        "-13 .. -6": np.linspace(-13, -6, size),
        "-87 .. -13": np.linspace(-87, -13, size),
        "-103 .. -87": np.linspace(-103, -87, size),
        "beyond 100": np.concatenate([-np.geomspace(110, 1e30, size // 2), np.geomspace(13, 1e30, size // 2)]),
        "near 0": np.concatenate([-np.geomspace(1e-30, 0.1, size // 2), np.geomspace(1e-30, 0.1, size // 2)]),
    }
    for label, x in points.items():
        yield label, [x], np.ones_like(x)


def for_attention(rng: np.random.Generator, quick: bool) -> Inputs:
    """Q, K, V and dO, with as many keys as queries."""
    length, channels = (12, 8) if quick else (32, 16)
    Q, K, V, dO = rng.standard_normal((4, 1, length, channels))
    yield "standard normal", [Q, K, V], dO
    yield "logits of 100", [6 * Q, 6 * K, V], dO
    yield "keys around 50", [Q, K + 50, V], dO


NORM = ("y", "dx", "dgamma", "dbeta")
HEADS = ("O", "dQ", "dK", "dV")
ORDINARY = ("standard normal",)  # the others' logits carry an error of their own, which no attention can undo

KERNELS = (
    Kernel("softmax", ("p", "dz"), for_softmax, ("p", "dz"), by_entry=("p",),
           rival=lambda torch, a: torch.softmax(a[0], -1)),
    Kernel("log_softmax", ("y", "dz"), for_softmax, ("y", "dz"),
           rival=lambda torch, a: torch.log_softmax(a[0], -1)),
    Kernel("logsumexp", ("L", "dz"), for_logsumexp, ("L", "dz"), by_entry=("L",),
           rival=lambda torch, a: torch.logsumexp(a[0], -1)),
    Kernel("cross_entropy", ("loss", "dz"), for_cross_entropy, ("loss", "dz"), by_entry=("loss",),
           rival=lambda torch, a: torch.nn.functional.cross_entropy(*a)),
    Kernel("layer_norm", NORM, for_norms(2), NORM, (("eps", EPS),),
           rival=lambda torch, a: torch.nn.functional.layer_norm(a[0], a[0].shape[-1:], *a[1:], EPS)),
    Kernel("rms_norm", NORM[:3], for_norms(1), NORM, (("eps", EPS),),
           rival=lambda torch, a: torch.nn.functional.rms_norm(a[0], a[0].shape[-1:], a[1], EPS)),
    Kernel("batch_norm", NORM, for_norms(2), NORM, (("eps", EPS),),
           rival=lambda torch, a: torch.nn.functional.batch_norm(a[0], None, None, *a[1:], True, 0.1, EPS)),
    Kernel("gelu", ("y", "dx"), for_activations, ("y", "dx"), by_entry=("y",),
           rival=lambda torch, a: torch.nn.functional.gelu(a[0])),
    Kernel("gelu_tanh", ("y", "dx"), for_activations, ("y", "dx"), by_entry=("y",),
           rival=lambda torch, a: torch.nn.functional.gelu(a[0], approximate="tanh")),
    Kernel("silu", ("y", "dx"), for_activations, ("y", "dx"), by_entry=("y",),
           rival=lambda torch, a: torch.nn.functional.silu(a[0])),
    Kernel("attention", HEADS, for_attention, HEADS, (("causal", False),), limited_on=ORDINARY,
           rival=lambda torch, a: torch.nn.functional.scaled_dot_product_attention(*a)),
    Kernel("attention", HEADS, for_attention, HEADS, (("causal", True),), limited_on=ORDINARY,
           rival=lambda torch, a: torch.nn.functional.scaled_dot_product_attention(*a, is_causal=True)),
)  # fmt: skip

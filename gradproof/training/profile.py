"""Where the time of a training step goes: seconds for each kernel, beside what its matrix products alone would take.

Beside the loop, for `--profile`. A batch is carried out on one thread, micro-batch by micro-batch as in training, and
every kernel is timed. The GEMM limit is the time that the multiplications of the model's matrix products would take at
the rate that one thread reaches on one large product; what attention multiplies under its mask is not counted. No order
of work is quicker on one thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.training.cache import Cache
from gradproof.training.chain import Step, backward_steps, forward_steps
from gradproof.training.execution import run_backward, run_forward
from gradproof.training.kernels import new_workspace
from gradproof.training.model import Ids, Model

__all__ = ["KernelTime", "Profile", "profile"]

_SIDE = 768
"""Rows and columns of the product that the rate is measured on."""
_TRIES = 5
_LANES = 2


@dataclass(frozen=True)
class KernelTime:
    """What one kernel takes of a step, in one direction.

    Attributes:
        kernel: The kernel.
        direction: "forward" or "backward".
        calls: How often a step calls it.
        seconds: What it takes of a step.
        share: The same as a share of all kernels.
        gemm_share: What its matrix products would take at the GEMM limit, as a share of its seconds.
    """

    kernel: str
    direction: str
    calls: int
    seconds: float
    share: float
    gemm_share: float


@dataclass(frozen=True)
class Profile:
    """What a step takes, kernel by kernel, the longest first.

    Attributes:
        rows: The kernels.
        seconds: What all kernels take of a step, on one thread.
        gemm_seconds: What the matrix products of a step would take at the limit.
        gemm_rate: Floating-point operations per second of one large product on one thread.
    """

    rows: tuple[KernelTime, ...]
    seconds: float
    gemm_seconds: float
    gemm_rate: float


def profile(model: Model, tokens: Ids, targets: Ids, steps: int = 5) -> Profile:
    """Where the time of a step goes, the mean over `steps` steps after one that is not counted; no weight changes.

    Args:
        model: The model; its gradients are not touched.
        tokens: The tokens of a batch.
        targets: The targets of the batch.
        steps: How often the batch is carried out.
    """
    # Kernels that work block by block would take all cores.
    workspace = None if model.workspace is None else new_workspace(model.arrays.library, threads=1)
    found: dict[tuple[str, str], list[float]] = {}
    operations: dict[tuple[str, str], float] = {}

    def call(direction: str, step: Step, arguments: list[Any]) -> Any:
        began = time.perf_counter()
        results = model.call(direction, step, arguments, workspace)
        model.arrays.wait()
        entry = step.kernel, direction
        found.setdefault(entry, []).append(time.perf_counter() - began)
        return results

    # One thread each, as where lanes compute side by side.
    with model.arrays.side_by_side(_LANES), model.arrays.in_lane(_LANES):
        _carry_out(model, tokens, targets, call)
        found.clear()
        for _ in range(steps):
            _carry_out(model, tokens, targets, call)
        rate = _gemm_rate(model)
    for step in forward_steps(model.config, dropout=True):
        for direction, times in (("forward", 1), ("backward", 2)):
            entry = step.kernel, direction
            operations[entry] = operations.get(entry, 0.0) + times * _operations(model, step, tokens.shape)
    whole = sum(sum(times) for times in found.values())
    rows = [
        KernelTime(
            *entry,
            len(times) // steps,
            sum(times) / steps,
            sum(times) / whole,
            operations.get(entry, 0.0) / rate / (sum(times) / steps),
        )
        for entry, times in found.items()
    ]
    rows.sort(key=lambda row: -row.seconds)
    return Profile(tuple(rows), whole / steps, sum(operations.values()) / rate, rate)


def _carry_out(model: Model, tokens: Ids, targets: Ids, call: Any) -> None:
    """The forward and backward pass of a batch, part by part."""
    steps = forward_steps(model.config, dropout=True)
    size = max(1, len(tokens) // model.config.parts)
    for start in range(0, len(tokens), size):
        values = model.training_values(tokens[start : start + size], targets[start : start + size], 1, start)
        _, kept = run_forward(steps, values, call)
        for _ in run_backward(backward_steps(steps), model.arrays.number(1.0), kept, call):
            pass


def _operations(model: Model, step: Step, shape: tuple[int, ...]) -> float:
    """Multiplications and additions of the matrix products of a forward step: rows times every weight matrix.

    A look-up multiplies nothing. Attention has two products more, of every position with those up to it.
    """
    batch, length = shape
    if step.output == "embedding.rows":
        return 0.0
    matrices = [model.parameters[name] for name in step.inputs if name in model.parameters]
    weights = sum(2.0 * np.prod(matrix.shape) for matrix in matrices if len(matrix.shape) > 1)
    between = 2 * 2.0 * model.config.width * (length + 1) / 2 if step.kernel in Cache.KERNELS else 0.0
    return float(batch * length * (weights + between))


def _gemm_rate(model: Model) -> float:
    """Operations per second of one large product, the best of a few tries."""
    square = model.arrays.zeros((_SIDE, _SIDE))
    best = float("inf")
    for _ in range(_TRIES):
        began = time.perf_counter()
        _ = square @ square
        model.arrays.wait()
        best = min(best, time.perf_counter() - began)
    return 2.0 * _SIDE**3 / best

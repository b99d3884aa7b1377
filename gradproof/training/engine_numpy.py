"""The NumPy engine: carries out the chain of kernels forwards and backwards, on micro-batches and threads.

Between the model and the generated NumPy kernels. A batch is cut into micro-batches, so that what a kernel works on
stays in the processor's cache; each thread takes its share of them and adds up their gradients in an array of its own,
and the arrays are added at the end, always in the same order. The mean over a batch is the mean over equal parts, so
that each part's backward pass starts from a cotangent of one over their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from gradproof.training.chain import ADDITION, backward_steps, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.execution import run_backward, run_forward
from gradproof.training.kernels import forward_kernel, new_workspace
from gradproof.training.memory import keep_freed_memory
from gradproof.training.model import Ids, Model
from gradproof.training.parameters import Array, allocate

__all__ = ["NumpyArrays", "NumpyModel"]

_BLOCK = 1 << 15
"""Entries of long vectors that are added at a time, so that they stay in the cache."""


class NumpyArrays:
    """Making, moving and converting arrays, with NumPy."""

    library = "numpy"

    def __init__(self, dtype: str) -> None:
        """Arrays of this floating-point type."""
        self._dtype = np.dtype(dtype)

    def zeros(self, shape: int | tuple[int, ...], *, weights: bool = False) -> Array:
        """Zeros; weights and activations are of one type."""
        return np.zeros(shape, self._dtype)

    def copy(self, target: Array, source: Array) -> None:
        """Write the values of `source` to `target`."""
        np.copyto(target, source)

    def number(self, value: float) -> Array:
        """An array without axes that holds the number."""
        return np.array(value, self._dtype)

    def ids(self, values: Ids) -> Ids:
        """The integers themselves."""
        return values

    def numbers(self, values: Array) -> Array:
        """The numbers in the type of the activations."""
        return values.astype(self._dtype)

    weights = numbers

    def wait(self) -> None:
        """Nothing: NumPy returns when it is done."""

    def to_numpy(self, array: Array) -> Array:
        """The array itself."""
        return array


class NumpyModel(Model):
    """The model, computed by generated NumPy kernels."""

    def __init__(self, config: TrainingConfig, vocabulary: int) -> None:
        """A model whose weights and gradients are zero."""
        keep_freed_memory()
        super().__init__(config, vocabulary, NumpyArrays(config.dtype))
        self.workspace = new_workspace()
        self._steps = forward_steps(config, dropout=True)
        self._plan = backward_steps(self._steps)
        # Where each thread adds up gradients; the first does so where the result belongs.
        others = (allocate(self.specs, self.arrays.zeros) for _ in range(1, config.threads))
        self._sums = (self.slopes, *others)
        self._workspaces = tuple(new_workspace(threads=1) for _ in self._sums)
        self._pool = ThreadPoolExecutor(config.threads, "gradproof")
        self._libraries = ThreadpoolController()

    def loss_and_gradients(self, tokens: Ids, targets: Ids, step: int) -> float:
        """As `Model.loss_and_gradients`, by `backward_steps`."""
        size = self.config.batch // self.config.micro_batches
        parts = [slice(start, start + size) for start in range(0, len(tokens), size)]

        def share(lane: int) -> list[float]:
            losses = []
            for number, part in enumerate(parts[lane :: self.config.threads]):
                values = self.training_values(tokens[part], targets[part], step, part.start)
                losses.append(self._part(values, 1 / len(parts), lane, more=number > 0))
            return losses

        # Products this small are quicker on one thread each than on all of them together.
        with self._libraries.limit(limits=1, user_api="blas"):
            lanes = range(min(self.config.threads, len(parts)))
            losses = [loss for found in self._pool.map(share, lanes) for loss in found]
        for lane in lanes[1:]:
            self._add_up(self.slopes.flat, self._sums[lane].flat)
        return fmean(losses)

    def for_each(self, work: Callable[..., None], items: Sequence[tuple[Any, ...]]) -> None:
        """As `Model.for_each`, on all threads."""

        def share(lane: int) -> None:
            for item in items[lane :: self.config.threads]:
                work(*item)

        for _ in self._pool.map(share, range(self.config.threads)):
            pass

    def _part(self, values: dict[str, Any], weight: float, lane: int, *, more: bool) -> float:
        """The loss of one micro-batch; `weight` times its gradient replaces the thread's sum, or joins it if `more`."""
        call = partial(self.call, workspace=self._workspaces[lane])
        loss, kept = run_forward(self._steps, values, call)
        for name, gradient in run_backward(self._plan, self.arrays.number(weight), kept, call):
            target = self._sums[lane].views[name]
            np.copyto(target, forward_kernel(ADDITION)(target, gradient)[0] if more else gradient)
        return float(loss)

    def _add_up(self, total: Array, part: Array) -> None:
        """Add one long vector to another, block by block."""

        def add(block: slice) -> None:
            np.copyto(total[block], forward_kernel(ADDITION)(total[block], part[block])[0])

        self.for_each(add, [(slice(start, start + _BLOCK),) for start in range(0, len(total), _BLOCK)])

"""A batch in parts, on threads: how both engines carry out the chain of kernels forwards and backwards.

Between the model and the engines. A batch is cut into micro-batches, so that what a kernel works on stays in the
processor's cache; each thread takes its share of them and adds up their gradients in an array of its own, and the
arrays are added at the end, always in the same order. The mean over a batch is the mean over equal parts, so that each
part's backward pass starts from a cotangent of one over their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import fmean
from typing import Any

from gradproof.training.chain import ADDITION, backward_steps, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.execution import run_backward, run_forward
from gradproof.training.kernels import forward_kernel, new_workspace
from gradproof.training.model import Arrays, Ids, Model
from gradproof.training.parameters import allocate

__all__ = ["PartedModel"]


class PartedModel(Model):
    """The model, its batches computed part by part."""

    def __init__(self, config: TrainingConfig, vocabulary: int, arrays: Arrays) -> None:
        """A model whose weights and gradients are zero."""
        super().__init__(config, vocabulary, arrays)
        self.workspace = new_workspace(arrays.library)
        self._steps = forward_steps(config, dropout=True)
        self._plan = backward_steps(self._steps)
        self._add = forward_kernel(ADDITION, arrays.library)
        # Where each thread adds up gradients; the first does so where the result belongs.
        self._lanes = arrays.lanes(min(config.threads, config.micro_batches))
        others = (allocate(self.specs, lambda size: arrays.zeros(size, weights=True)) for _ in range(1, self._lanes))
        self._sums = (self.slopes, *others)
        self._workspaces = tuple(new_workspace(arrays.library, arrays.threads_of_lane(self._lanes)) for _ in self._sums)
        self._pool = ThreadPoolExecutor(self._lanes, "gradproof")

    def loss_and_gradients(self, tokens: Ids, targets: Ids, step: int) -> float:
        """As `Model.loss_and_gradients`, by `backward_steps`."""
        size = self.config.batch // self.config.micro_batches
        parts = [slice(start, start + size) for start in range(0, len(tokens), size)]
        lanes = range(min(self._lanes, len(parts)))

        def share(lane: int) -> list[float]:
            losses = []
            with self.arrays.in_lane(self._lanes):
                for number, part in enumerate(parts[lane :: self._lanes]):
                    values = self.training_values(tokens[part], targets[part], step, part.start)
                    losses.append(self._part(values, 1 / len(parts), lane, more=number > 0))
            return losses

        with self.arrays.side_by_side(self._lanes):
            losses = [loss for found in self._pool.map(share, lanes) for loss in found]
        for lane in lanes[1:]:
            self._add_up(self.slopes.flat, self._sums[lane].flat)
        return fmean(losses)

    def for_each(self, work: Callable[..., None], items: Sequence[tuple[Any, ...]]) -> None:
        """As `Model.for_each`, on all threads."""

        def share(lane: int) -> None:
            with self.arrays.in_lane(self._lanes):
                for item in items[lane :: self._lanes]:
                    work(*item)

        with self.arrays.side_by_side(self._lanes):
            for _ in self._pool.map(share, range(self._lanes)):
                pass

    def _part(self, values: dict[str, Any], weight: float, lane: int, *, more: bool) -> float:
        """The loss of one micro-batch; `weight` times its gradient replaces the thread's sum, or joins it if `more`."""
        call = partial(self.call, workspace=self._workspaces[lane])
        loss, kept = run_forward(self._steps, values, call)
        upstream = self.arrays.number(weight)
        for name, gradient in run_backward(self._plan, upstream, kept, call):
            target = self._sums[lane].views[name]
            self.arrays.copy(target, self._add(target, gradient)[0] if more else gradient)
        return float(loss)

    def _add_up(self, total: Any, part: Any) -> None:
        """Add one long vector to another, block by block."""

        def add(block: slice) -> None:
            self.arrays.copy(total[block], self._add(total[block], part[block])[0])

        size = self.arrays.block
        self.for_each(add, [(slice(start, start + size),) for start in range(0, len(total), size)])

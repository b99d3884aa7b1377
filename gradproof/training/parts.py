"""A batch in parts, side by side: how both engines carry out the chain of kernels forwards and backwards.

Between the model and the engines. A batch is cut into micro-batches, so that what a kernel works on stays in the
processor's cache. Each lane, a thread or a process of its own (`gradproof.training.lanes`), takes its share of them and
adds up their gradients in an array of its own, and the arrays are added at the end, always in the same order. The mean
over a batch is the mean over equal parts, so that each part's backward pass starts from a cotangent of one over their
number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import fmean
from typing import Any

from gradproof.training.chain import ADDITION, backward_steps, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.execution import run_backward, run_forward
from gradproof.training.kernels import forward_kernel, new_workspace
from gradproof.training.lanes import Crew
from gradproof.training.model import Arrays, Ids, Model
from gradproof.training.parameters import Array, FlatArrays

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
        self._lanes = lanes = config.lanes
        # Where each lane adds up gradients; the first does so where the result belongs.
        self._sums: tuple[FlatArrays, ...] = (self.slopes, *(self.zeros() for _ in range(1, lanes)))
        apart = config.processes and lanes > 1
        self._crew: Crew | None = Crew(config, vocabulary, len(self.weights.flat)) if apart else None
        self._workspaces = tuple(new_workspace(arrays.library, arrays.threads_of_lane(lanes)) for _ in self._sums)
        self._pools: dict[int, ThreadPoolExecutor] = {}

    def loss_and_gradients(self, tokens: Ids, targets: Ids, step: int) -> float:
        """As `Model.loss_and_gradients`, by `backward_steps`."""
        lanes = min(self._lanes, len(self._parts(len(tokens))))
        share = partial(self.share, tokens=tokens, targets=targets, step=step)
        if self._crew is not None and not (self.arrays.is_as_started() and self._crew.is_ready()):
            self._crew = None
        with self.arrays.side_by_side(self._lanes):
            if self._crew is None:
                losses = [loss for found in self._pool().map(share, range(lanes)) for loss in found]
                others = [self._sums[lane].flat for lane in range(1, lanes)]
            else:
                weights = self.arrays.to_numpy(self.weights.flat)
                with self._crew.at_work(lanes, weights, tokens, targets, step, self.first_row) as wait:
                    losses = share(0) + wait()
                others = [self.arrays.adopt(self._crew.slopes(lane)) for lane in range(1, lanes)]
        for other in others:
            self._add_up(self.slopes.flat, other)
        return fmean(losses)

    def join(self, lane: int, weights: Array, slopes: Array) -> None:
        """Be one lane of another process's model, whose weights and whose sum of gradients lie in these vectors."""
        self.weights = self.over(weights)
        self._sums = tuple(self.over(slopes) if number == lane else sums for number, sums in enumerate(self._sums))

    def share(self, lane: int, tokens: Ids, targets: Ids, step: int) -> list[float]:
        """The losses of a lane's micro-batches of a batch; their gradients are added up in the lane's vector."""
        losses = []
        parts = self._parts(len(tokens))
        with self.arrays.in_lane(self._lanes):
            for number, part in enumerate(parts[lane :: self._lanes]):
                values = self.training_values(tokens[part], targets[part], step, part.start)
                losses.append(self._part(values, 1 / len(parts), lane, more=number > 0))
        return losses

    def _pool(self) -> ThreadPoolExecutor:
        """The threads of this process: those of another do not survive a fork."""
        process = os.getpid()
        if process not in self._pools:
            self._pools[process] = ThreadPoolExecutor(self._lanes, "gradproof")
        return self._pools[process]

    def _parts(self, rows: int) -> list[slice]:
        """The rows of each micro-batch."""
        size = self.config.batch // self.config.parts
        return [slice(start, start + size) for start in range(0, rows, size)]

    def for_each(self, work: Callable[..., None], items: Sequence[tuple[Any, ...]]) -> None:
        """As `Model.for_each`, on all threads, this one among them."""

        def share(lane: int) -> None:
            with self.arrays.in_lane(self._lanes):
                for item in items[lane :: self._lanes]:
                    work(*item)

        with self.arrays.side_by_side(self._lanes):
            others = [self._pool().submit(share, lane) for lane in range(1, self._lanes) if items[lane:]]
            try:
                share(0)
            finally:
                for other in others:
                    other.result()

    def _part(self, values: dict[str, Any], weight: float, lane: int, *, more: bool) -> float:
        """The loss of one micro-batch; `weight` times its gradient replaces the lane's sum, or joins it if `more`."""
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

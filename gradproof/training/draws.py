"""The random numbers that dropout goes by: the same for a step of a run, on every engine, however a batch is cut.

Beside the engines. Every row of the whole batch has a generator of its own, seeded by the run, the step and the row, so
that micro-batches, threads and processes that share a batch see what one process would.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradproof.training.chain import Step
from gradproof.training.config import TrainingConfig
from gradproof.training.parameters import Array

__all__ = ["draws_for"]

_KERNEL = "dropout_draws"


def draws_for(steps: Sequence[Step], config: TrainingConfig, step: int, rows: range) -> dict[str, Array]:
    """Uniform numbers from [0, 1) for each dropout step, by the name of its input, each (rows, T, C), in float32."""
    names = [taken.inputs[1] for taken in steps if taken.kernel == _KERNEL]
    if not names:
        return {}
    drawn = np.empty((len(rows), len(names), config.context, config.width), np.float32)
    for place, row in enumerate(rows):
        np.random.default_rng([config.seed, step, row]).random(dtype=np.float32, out=drawn[place])
    return {name: drawn[:, number] for number, name in enumerate(names)}

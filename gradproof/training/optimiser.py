"""AdamW over the flat parameter vector, by the generated update kernel.

After the model in the data flow of training: gradients in, weights changed in place. Weights that are decayed and those
that are not are two slices of the vector, each updated by one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradproof.training.config import TrainingConfig
from gradproof.training.kernels import kernel
from gradproof.training.parameters import Array, FlatArrays

__all__ = ["AdamW"]


@dataclass
class _Group:
    """A slice of the weights, the running means of its gradient and of the gradient's square, and its weight decay."""

    entries: slice
    first_moment: Array
    second_moment: Array
    weight_decay: float


class AdamW:
    """Updates parameters in place; keeps the running means between calls."""

    def __init__(self, parameters: FlatArrays, config: TrainingConfig) -> None:
        """Start with running means of zero, for weights laid out like `parameters`."""
        self._parameters = parameters
        self._config = config
        decayed, kept = slice(None, parameters.decayed_size), slice(parameters.decayed_size, None)
        self._groups = (self._group(decayed, config.weight_decay), self._group(kept, 0.0))

    def update(self, gradients: FlatArrays, step: int, learning_rate: float) -> None:
        """Apply update `step`, counted from 1, with gradients laid out like the parameters."""
        adamw = kernel("adamw", "adamw")
        for group in self._groups:
            weights = self._parameters.flat[group.entries]
            updated, group.first_moment, group.second_moment = adamw(
                weights,
                gradients.flat[group.entries],
                group.first_moment,
                group.second_moment,
                t=step,
                lr=learning_rate,
                beta_1=self._config.beta_1,
                beta_2=self._config.beta_2,
                weight_decay=group.weight_decay,
            )
            np.copyto(weights, updated)

    def _group(self, entries: slice, weight_decay: float) -> _Group:
        weights = self._parameters.flat[entries]
        return _Group(entries, np.zeros_like(weights), np.zeros_like(weights), weight_decay)

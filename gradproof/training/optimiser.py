"""Step sizes, and AdamW and gradient clipping over the flat parameter vector, by generated kernels.

After the model in the data flow of training: gradients in, weights changed in place. Weights that are decayed and those
that are not are two slices of the vector, which differ in one option of the kernel. It works in blocks that stay in the
processor's cache. The same code serves both engines; only the library of the kernels differs. Of PyTorch's threads none
takes part: those that have shared an operation spin for milliseconds, and would slow down the next step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradproof.training.config import TrainingConfig
from gradproof.training.kernels import plain_kernel
from gradproof.training.model import Model, check_state
from gradproof.training.parameters import Array, FlatArrays

__all__ = ["AdamW", "learning_rate_at"]

_PREFIXES = ("first_moment.", "second_moment.")


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """The step size of update `step`, counted from 1: a rise over `warm_up_steps` steps, then half a cosine.

    Its kernel is made from `derive/library/step_size.py`, which has the formula and what is proved of it.
    """
    rate = plain_kernel("step_size")(
        np.array(step, np.float64),
        peak=config.learning_rate,
        rise=config.warm_up_steps,
        steps=config.steps,
        final=config.final_rate,
    )
    return float(rate)


class AdamW:
    """Updates the model's parameters in place; keeps the running means between calls."""

    def __init__(self, model: Model) -> None:
        """Start with running means of zero."""
        self._model = model
        self._moments: tuple[FlatArrays, FlatArrays] = (model.zeros(), model.zeros())

    def update(self, step: int, learning_rate: float) -> float:
        """Apply update `step`, counted from 1, with the model's gradients; returns their norm before clipping.

        A norm that is not finite changes nothing. The gradients stay what they were; what is clipped is a copy.
        """
        model, config = self._model, self._model.config
        library = model.arrays.library
        adamw = plain_kernel("adamw", library)
        weights, slopes = model.weights, model.slopes.flat
        clipped, norm = _clipped(model, slopes, config.clip)
        gradients = clipped if config.clip else slopes
        if not math.isfinite(norm):
            return norm  # nothing is changed, so that where it began can still be found

        def work() -> None:
            for group, weight_decay in self._groups(weights):
                state = [arrays.flat[group] for arrays in (weights, *self._moments)]
                updated = adamw(
                    state[0],
                    gradients[group],
                    *state[1:],
                    t=step,
                    lr=learning_rate,
                    beta_1=config.beta_1,
                    beta_2=config.beta_2,
                    eps=config.eps,
                    weight_decay=weight_decay,
                    workspace=model.workspace,
                )
                for target, value in zip(state, updated, strict=True):
                    model.arrays.copy(target, value)

        model.for_each(work, [()])
        return norm

    def weight_norm(self) -> float:
        """The length of all weights together; not finite if one of them is not, or if it is too long to be measured."""
        return _clipped(self._model, self._model.weights.flat, 0.0)[1]

    def state(self) -> dict[str, Array]:
        """Copies of the running means, `first_moment.<parameter>` and `second_moment.<parameter>`."""
        to_numpy = self._model.arrays.to_numpy
        return {name: to_numpy(view).copy() for name, view in self._named().items()}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Put the running means of `state` in place of these.

        Raises:
            ValueError: One is missing, unknown, or of another shape or type.
        """
        named = self._named()
        check_state("optimiser", state, {name: tuple(view.shape) for name, view in named.items()})
        for name, view in named.items():
            self._model.arrays.copy(view, self._model.arrays.weights(state[name]))

    def _named(self) -> dict[str, Array]:
        pairs = zip(_PREFIXES, self._moments, strict=True)
        return {f"{prefix}{name}": view for prefix, arrays in pairs for name, view in arrays.views.items()}

    def _groups(self, arrays: FlatArrays) -> Iterator[tuple[slice, float]]:
        """The slices of the flat vector that have entries, each with the weight decay of all of them."""
        groups = (
            (slice(0, arrays.decayed_size), self._model.config.weight_decay),
            (slice(arrays.decayed_size, len(arrays.flat)), 0.0),
        )
        return (pair for pair in groups if pair[0].start < pair[0].stop)


def _clipped(model: Model, vector: Any, most: float) -> tuple[Any, float]:
    """The vector, no longer than `most`, and how long it was.

    It is one piece of work for one thread, so that the threads there are do not change the order of additions.
    """
    clip = plain_kernel("gradient_clipping", model.arrays.library)
    found: list[Any] = []
    model.for_each(lambda: found.extend(clip(vector, most=most)), [()])
    clipped, norm = found
    return clipped, float(norm)

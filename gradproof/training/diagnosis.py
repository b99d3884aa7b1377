"""Where a loss that is not finite comes from: the first kernel and array of a step that holds NaN or infinity.

Beside the loop, for when a run diverges. The step is carried out once more, with the same rows and draws, and every
array that a kernel takes or gives is looked at on the way: first the weights, then the forward pass, then the backward
pass, last the length of the gradient. Of an evaluation there is only the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradproof.training.chain import Step, backward_steps, cotangent, forward_steps
from gradproof.training.execution import run_backward, run_forward
from gradproof.training.kernels import plain_kernel
from gradproof.training.model import Ids, Model

__all__ = ["Affected", "affected_weight", "first_affected"]


@dataclass(frozen=True)
class Affected:
    """The first array that is not finite.

    Attributes:
        direction: "weights" where a weight was not finite before the step, else "forward" or "backward".
        place: Where in the model.
        kernel: The kernel that takes the weight or gave the array.
        tensor: The name of the array.
        found: What it holds, "NaN" or "infinity".
    """

    direction: str
    place: str
    kernel: str
    tensor: str
    found: str

    def __str__(self) -> str:
        if self.direction == "weights":
            return f"the weight {self.tensor} of kernel {self.kernel} holds {self.found} before the step"
        given = "gives" if self.direction == "forward" else "gives, backwards,"
        return f"kernel {self.kernel} at {self.place} {given} {self.tensor} with {self.found}, and none before it does"


class _FoundError(Exception):
    def __init__(self, affected: Affected) -> None:
        super().__init__()
        self.affected = affected


def first_affected(model: Model, tokens: Ids, targets: Ids, step: int | None = None) -> Affected | None:
    """The first weight, value or cotangent of a step that is not finite; None where all are.

    Args:
        model: The model as it was before the step's update, with the step's gradients.
        tokens: The step's tokens.
        targets: The step's targets.
        step: Its number, which decides what dropout drops; none for an evaluation.
    """
    training = step is not None
    steps = forward_steps(model.config, dropout=training)
    values = model.evaluation_values(tokens, targets) if step is None else model.training_values(tokens, targets, step)
    to_numpy = model.arrays.to_numpy

    def call(direction: str, taken: Step, arguments: list[Any]) -> Any:
        forward = direction == "forward"
        if forward:
            weights = [(name, model.parameters[name]) for name in taken.inputs if name in model.parameters]
            check("weights", taken, weights)
        results = model.call(direction, taken, arguments)
        names = (taken.output,) if forward else tuple(map(cotangent, taken.varied))
        check("forward" if taken in steps and forward else "backward", taken, zip(names, results, strict=False))
        return results

    def check(direction: str, taken: Step, arrays: Iterable[tuple[str, Any]]) -> None:
        for name, array in arrays:
            found = _not_finite(to_numpy(array))
            if found:
                raise _FoundError(Affected(direction, taken.place, taken.kernel, name, found))

    try:
        with np.errstate(all="ignore"):
            _, kept = run_forward(steps, values, call)
            for _ in run_backward(backward_steps(steps) if training else (), model.arrays.number(1.0), kept, call):
                pass
            return _affected_length(model) if training else None
    except _FoundError as error:
        return error.affected


def affected_weight(weights: Mapping[str, Any]) -> str:
    """The first weight that is not finite, with what it holds; empty where all are."""
    found = ((name, _not_finite(values)) for name, values in weights.items())
    return next((f"{name} with {kind}" for name, kind in found if kind), "")


def _affected_length(model: Model) -> Affected | None:
    """The length of the gradients that the model holds, if it is not finite although they are."""
    name, gradient = "gradient_clipping", model.slopes.flat
    _, norm = plain_kernel(name, model.arrays.library)(gradient, most=model.config.clip)
    found = _not_finite(model.arrays.to_numpy(norm))
    if not found or _not_finite(model.arrays.to_numpy(gradient)):
        return None
    return Affected("forward", "the update", name, "norm", found)


def _not_finite(array: Any) -> str:
    """What an array holds beside finite numbers, or nothing."""
    if np.isnan(array).any():
        return "NaN"
    return "" if np.isfinite(array).all() else "infinity"

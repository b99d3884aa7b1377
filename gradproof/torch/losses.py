"""`cross_entropy` and `mse_loss` with the signatures of `torch.nn.functional`."""

from __future__ import annotations

import torch

from generated.torch.cross_entropy_masked import cross_entropy_masked
from generated.torch.cross_entropy_mean import cross_entropy_mean
from generated.torch.cross_entropy_rows import cross_entropy_rows
from generated.torch.cross_entropy_soft import cross_entropy_soft
from generated.torch.cross_entropy_sum import cross_entropy_sum
from generated.torch.label_smoothing import label_smoothing as smoothed
from generated.torch.mean_squared_error import mean_squared_error
from generated.torch.squared_error import squared_error
from generated.torch.squared_error_sum import squared_error_sum
from gradproof.torch.refusal import refuse, refuse_others

__all__ = ["cross_entropy", "mse_loss"]

CROSS_ENTROPIES = {"mean": cross_entropy_mean, "sum": cross_entropy_sum, "none": cross_entropy_rows}
SQUARED_ERRORS = {"mean": mean_squared_error, "sum": squared_error_sum, "none": squared_error}


def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """The cross entropy of logits (N, C, ...) and classes (N, ...) or shares (N, C, ...); as in torch.nn.functional.

    Entries of `target` that are `ignore_index` count nowhere; a mean over none is 0.

    Raises:
        NotImplementedError: a combination of arguments that no kernel is derived for.
        ValueError: shapes do not fit, or a class is out of range.
    """
    name = "cross_entropy"
    refuse_others(name, "use reduction, and", size_average=(size_average, None), reduce=(reduce, None))
    if reduction not in CROSS_ENTROPIES:
        raise ValueError(f"{name}: reduction: expected one of {', '.join(CROSS_ENTROPIES)}, found {reduction!r}")
    logits = input.movedim(1, -1) if input.ndim > 1 else input
    if target.is_floating_point():
        only = "with shares as targets use"
        refuse_others(name, only, weight=(weight, None), reduction=(reduction, "mean"))
        refuse_others(name, only, label_smoothing=(label_smoothing, 0.0))
        return cross_entropy_soft(logits, target.movedim(1, -1) if target.ndim > 1 else target)
    if label_smoothing != 0.0:
        only = "with label_smoothing use"
        refuse_others(name, only, weight=(weight, None), reduction=(reduction, "mean"))
        if 0 <= ignore_index < logits.shape[-1]:
            raise refuse(name, "ignore_index", ignore_index, "with label_smoothing no target is left out")
        return smoothed(logits, target, eps=label_smoothing)
    kept = target != ignore_index
    classes = target.masked_fill(~kept, 0)
    if weight is None and reduction == "mean":
        return cross_entropy_masked(logits, classes, kept)
    weights = logits.new_ones(logits.shape[-1]) if weight is None else weight
    return CROSS_ENTROPIES[reduction](logits, classes, kept, weights)


def mse_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """The squared error of each entry, their sum, or their mean; as in torch.nn.functional.

    Raises:
        NotImplementedError: an argument that no kernel is derived for.
        ValueError: shapes differ, or a mean is taken over nothing.
    """
    name = "mse_loss"
    refuse_others(name, "use reduction, and", size_average=(size_average, None), reduce=(reduce, None))
    refuse_others(name, "use", weight=(weight, None))
    if reduction not in SQUARED_ERRORS:
        raise ValueError(f"{name}: reduction: expected one of {', '.join(SQUARED_ERRORS)}, found {reduction!r}")
    return SQUARED_ERRORS[reduction](input, target)

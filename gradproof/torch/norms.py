"""`layer_norm`, `rms_norm` and `batch_norm` with the signatures of `torch.nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from generated.torch.batch_norm import batch_norm as batch_norm_kernel
from generated.torch.layer_norm import layer_norm as layer_norm_kernel
from generated.torch.rms_norm import rms_norm as rms_norm_kernel
from gradproof.torch.refusal import refuse, refuse_others

__all__ = ["batch_norm", "layer_norm", "rms_norm"]


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Layer norm over the last dimensions, those of `normalized_shape`; as in torch.nn.functional.

    Raises:
        ValueError: `normalized_shape` is not how the shape of the input ends, or it has no entries.
    """
    rows = _rows("layer_norm", input, normalized_shape)
    gamma = _entries(weight, rows, 1.0)
    beta = _entries(bias, rows, 0.0)
    return layer_norm_kernel(rows, gamma, beta, eps=eps).reshape(input.shape)


def rms_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    """RMS norm over the last dimensions, those of `normalized_shape`; as in torch.nn.functional.

    Without `eps` it is the rounding unit of the input's type.

    Raises:
        ValueError: `normalized_shape` is not how the shape of the input ends, or it has no entries.
    """
    rows = _rows("rms_norm", input, normalized_shape)
    least = torch.finfo(input.dtype).eps if eps is None else eps
    return rms_norm_kernel(rows, _entries(weight, rows, 1.0), eps=least).reshape(input.shape)


def batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Batch norm of (N, C, ...) by the statistics of the batch; as in torch.nn.functional with training=True.

    Raises:
        NotImplementedError: running statistics are asked for.
        ValueError: there is no second dimension, or nothing to average over.
    """
    name = "batch_norm"
    refuse_others(name, "use", running_mean=(running_mean, None), running_var=(running_var, None))
    if not training:
        raise refuse(name, "training", training, "the kernel normalises by the statistics of the batch: training=True")
    if input.ndim < 2:
        raise ValueError(f"{name}: input: expected shape (N, C, ...), found {tuple(input.shape)}")
    columns = input.movedim(1, -1)
    gamma, beta = _entries(weight, columns, 1.0), _entries(bias, columns, 0.0)
    return batch_norm_kernel(columns, gamma, beta, eps=eps).movedim(-1, 1)


def _rows(name: str, input: torch.Tensor, normalized_shape: Sequence[int]) -> torch.Tensor:
    """The input with the normalised dimensions flattened into one."""
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise ValueError(f"{name}: normalized_shape: expected how shape {tuple(input.shape)} ends, found {shape}")
    return input.flatten(-len(shape))


def _entries(given: torch.Tensor | None, rows: torch.Tensor, default: float) -> torch.Tensor:
    """A weight as one row; the default for every entry where there is none."""
    return rows.new_full((rows.shape[-1],), default) if given is None else given.flatten()

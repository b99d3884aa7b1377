"""Moving axes to where a kernel has them: broadcasting and grouping, which torch has without types."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["common_leading", "grouped", "of_one_shape"]

UNTYPED: Any = torch


def common_leading(*tensors: torch.Tensor) -> tuple[int, ...]:
    """The shape that the leading dimensions, all but the last two, are broadcast to.

    Raises:
        RuntimeError: they do not fit.
    """
    return tuple(UNTYPED.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors)))


def of_one_shape(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors broadcast to one shape of at least one dimension.

    Raises:
        RuntimeError: they do not fit.
    """
    one, other = UNTYPED.broadcast_tensors(first, second)
    return (one, other) if one.ndim else (one.unsqueeze(0), other.unsqueeze(0))


def grouped(heads: torch.Tensor, groups: int) -> torch.Tensor:
    """(..., H, T, d) as (..., groups, H / groups, T, d).

    Raises:
        RuntimeError: the number of heads is not a multiple.
    """
    made: torch.Tensor = UNTYPED.unflatten(heads, -3, (groups, -1))
    return made

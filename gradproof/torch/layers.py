"""`linear`, `embedding`, `dropout` and `cosine_similarity` with the signatures of `torch.nn.functional`."""

from __future__ import annotations

import torch

from generated.torch.cosine_similarity import cosine_similarity as cosine_similarity_kernel
from generated.torch.dropout_draws import dropout_draws
from generated.torch.embedding import embedding as embedding_kernel
from generated.torch.linear import linear as linear_kernel
from gradproof.torch.axes import of_one_shape
from gradproof.torch.refusal import refuse_others

__all__ = ["cosine_similarity", "dropout", "embedding", "linear"]


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """input weight^T + bias, for weights (F, C); as in torch.nn.functional."""  # noqa: D403 - a formula
    return linear_kernel(input, weight, weight.new_zeros(weight.shape[0]) if bias is None else bias)


def embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> torch.Tensor:
    """The rows of `weight` that `input` names; as in torch.nn.functional.

    Raises:
        NotImplementedError: an argument that no kernel is derived for.
        ValueError: a position is out of range.
    """
    refuse_others("embedding", "use", padding_idx=(padding_idx, None), max_norm=(max_norm, None))
    refuse_others("embedding", "use", scale_grad_by_freq=(scale_grad_by_freq, False), sparse=(sparse, False))
    return embedding_kernel(input, weight)


def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """Each entry kept with probability 1 - p and divided by it, else 0; as in torch.nn.functional.

    Raises:
        NotImplementedError: the input is to be overwritten.
        ValueError: p is not in [0, 1).
    """
    refuse_others("dropout", "use", inplace=(inplace, False))
    if not 0.0 <= p < 1.0:
        raise ValueError(f"dropout: p: expected 0 <= p < 1, found {p!r}")
    return dropout_draws(input, torch.rand_like(input), p=p) if training else input


def cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, dim: int = 1, eps: float = 1e-8) -> torch.Tensor:
    """The cosine of the angle between vectors along a dimension; as in torch.nn.functional. Shapes are broadcast."""
    first, second = of_one_shape(x1, x2)
    return cosine_similarity_kernel(first.movedim(dim, -1), second.movedim(dim, -1), eps=eps)

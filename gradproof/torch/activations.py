"""Softmax and its kin, and entry-wise functions, with the signatures of `torch.nn.functional` (`torch.logsumexp`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from generated.torch.gelu import gelu as gelu_kernel
from generated.torch.gelu_tanh import gelu_tanh
from generated.torch.log_sigmoid import log_sigmoid
from generated.torch.log_softmax import log_softmax as log_softmax_kernel
from generated.torch.logsumexp import logsumexp as logsumexp_kernel
from generated.torch.silu import silu as silu_kernel
from generated.torch.softmax import softmax as softmax_kernel
from generated.torch.softplus import softplus as softplus_kernel
from gradproof.torch.refusal import refuse, refuse_others

__all__ = ["gelu", "log_softmax", "logsigmoid", "logsumexp", "silu", "softmax", "softplus"]


def softmax(
    input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Softmax along a dimension; as in torch.nn.functional.

    Raises:
        NotImplementedError: no dimension is named.
    """
    return _along("softmax", softmax_kernel, input, dim, dtype)


def log_softmax(
    input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """The logarithm of softmax along a dimension; as in torch.nn.functional.

    Raises:
        NotImplementedError: no dimension is named.
    """
    return _along("log_softmax", log_softmax_kernel, input, dim, dtype)


def _along(
    name: str, kernel: Callable[[torch.Tensor], torch.Tensor], input: torch.Tensor, dim: int | None,
    dtype: torch.dtype | None,
) -> torch.Tensor:  # fmt: skip
    if dim is None:
        raise refuse(name, "dim", dim, "name the dimension")
    values = input if dtype is None else input.to(dtype)
    if values.ndim == 0:
        return kernel(values.unsqueeze(dim)).squeeze(dim)
    return kernel(values.movedim(dim, -1)).movedim(-1, dim)


def logsumexp(input: torch.Tensor, dim: int | Sequence[int], keepdim: bool = False) -> torch.Tensor:
    """The logarithm of the sum of exponentials along dimensions; as torch.logsumexp.

    Raises:
        ValueError: there is nothing to add up.
    """
    values = input.unsqueeze(0) if input.ndim == 0 else input
    dims = [dim] if isinstance(dim, int) else [*dim]
    last = [*range(-len(dims), 0)]
    result = logsumexp_kernel(values.movedim(dims, last).flatten(-len(dims)))
    if not keepdim or input.ndim == 0:
        return result
    for place in sorted(range(values.ndim)[one] for one in dims):
        result = result.unsqueeze(place)
    return result


def gelu(input: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """x Phi(x), or its approximation by tanh; as in torch.nn.functional.

    Raises:
        ValueError: another approximation is asked for.
    """  # noqa: D403 - the formula begins with a letter
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate: expected none or tanh, found {approximate!r}")
    return gelu_tanh(input) if approximate == "tanh" else gelu_kernel(input)


def silu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """x sigmoid(x); as in torch.nn.functional.

    Raises:
        NotImplementedError: the input is to be overwritten.
    """  # noqa: D403 - the formula begins with a letter
    refuse_others("silu", "use", inplace=(inplace, False))
    return silu_kernel(input)


def softplus(input: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    """log(1 + exp(x)), for every x; as in torch.nn.functional, which from `threshold` on returns x.

    Raises:
        NotImplementedError: another beta or threshold is asked for.
    """
    refuse_others("softplus", "use", beta=(beta, 1), threshold=(threshold, 20))
    return softplus_kernel(input)


def logsigmoid(input: torch.Tensor) -> torch.Tensor:
    """-log(1 + exp(-x)); as in torch.nn.functional."""
    return log_sigmoid(input)

"""PyTorch's modules with their parameters, names and options, computed by the functions of this package.

Each class is PyTorch's own with another `forward`, so that state dictionaries, initialisation and printing are the same
and one can stand in for the other.
"""

from __future__ import annotations

import torch

from gradproof.torch import activations, layers, losses, norms

__all__ = [
    "GELU",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "RMSNorm",
    "SiLU",
    "Softmax",
    "Softplus",
]


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The normalised input."""
        return norms.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm by the generated kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The normalised input."""
        return norms.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GELU(torch.nn.GELU):
    """torch.nn.GELU by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """GELU of each entry."""
        return activations.gelu(input, self.approximate)


class SiLU(torch.nn.SiLU):
    """torch.nn.SiLU by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """SiLU of each entry."""
        return activations.silu(input, self.inplace)


class Softplus(torch.nn.Softplus):
    """torch.nn.Softplus by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Softplus of each entry."""
        return activations.softplus(input, self.beta, self.threshold)


class LogSigmoid(torch.nn.LogSigmoid):
    """torch.nn.LogSigmoid by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The logarithm of the sigmoid of each entry."""
        return activations.logsigmoid(input)


class Softmax(torch.nn.Softmax):
    """torch.nn.Softmax by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Softmax along `dim`."""
        return activations.softmax(input, self.dim)


class LogSoftmax(torch.nn.LogSoftmax):
    """torch.nn.LogSoftmax by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The logarithm of softmax along `dim`."""
        return activations.log_softmax(input, self.dim)


class Linear(torch.nn.Linear):
    """torch.nn.Linear by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The linear map of the last axis."""
        return layers.linear(input, self.weight, self.bias)


class Embedding(torch.nn.Embedding):
    """torch.nn.Embedding by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The rows that the input names."""
        return layers.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )


class Dropout(torch.nn.Dropout):
    """torch.nn.Dropout by the generated kernel."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The input with entries left out, while training."""
        return layers.dropout(input, self.p, self.training, self.inplace)


class CosineSimilarity(torch.nn.CosineSimilarity):
    """torch.nn.CosineSimilarity by the generated kernel."""

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        """The cosines along `dim`."""
        return layers.cosine_similarity(x1, x2, self.dim, self.eps)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """torch.nn.CrossEntropyLoss by the generated kernel."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss."""
        return losses.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class MSELoss(torch.nn.MSELoss):
    """torch.nn.MSELoss by the generated kernel."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss."""
        return losses.mse_loss(input, target, reduction=self.reduction)

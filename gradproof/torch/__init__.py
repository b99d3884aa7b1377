"""PyTorch's functions and modules under the signatures people know, computed by generated kernels.

At the end of the data flow, beside `gradproof.training`: every value and every gradient here is computed by a kernel of
`generated/torch`, registered with PyTorch as an operator. What stands in this package is glue, and holds no arithmetic
(a test sees to it): axes are moved to where a kernel has them, arguments are handed on, and an argument for which no
kernel is derived is refused by name.

    from gradproof.torch import scaled_dot_product_attention      instead of torch.nn.functional's
    from gradproof.torch import LayerNorm                         a torch.nn.LayerNorm with the same parameters

Where PyTorch has no number, a policy stands: attention over no key, and a mean loss over no target, is 0 with gradient
0 (PyTorch: nan).
"""

from __future__ import annotations

from gradproof.torch.activations import gelu, log_softmax, logsigmoid, logsumexp, silu, softmax, softplus
from gradproof.torch.attention import scaled_dot_product_attention
from gradproof.torch.layers import cosine_similarity, dropout, embedding, linear
from gradproof.torch.losses import cross_entropy, mse_loss
from gradproof.torch.modules import (
    GELU,
    CosineSimilarity,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    LogSigmoid,
    LogSoftmax,
    MSELoss,
    RMSNorm,
    SiLU,
    Softmax,
    Softplus,
)
from gradproof.torch.norms import batch_norm, layer_norm, rms_norm

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
    "batch_norm",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsigmoid",
    "logsumexp",
    "mse_loss",
    "rms_norm",
    "scaled_dot_product_attention",
    "silu",
    "softmax",
    "softplus",
]

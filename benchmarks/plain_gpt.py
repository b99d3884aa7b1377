"""The same GPT as anybody would write it in PyTorch, to compare gradproof's training with, in figures and in speed.

It shares no code with gradproof: modules and functions of PyTorch, eager autograd, one projection for queries, keys and
values, `scaled_dot_product_attention`. `load` copies the weights of a gradproof model by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class Shape(Protocol):
    """What the model reads of the settings."""

    layers: int
    heads: int
    key_value_heads: int
    width: int
    context: int
    expansion: int
    norm: str
    positions: str
    activation: str
    dropout: float
    tied: bool


class Dropout(nn.Module):
    """Dropout that goes by uniform draws given beforehand, so that two programs can drop the same."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance
        self.draw: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x, or where it is trained, x with the units below the chance dropped."""
        if not self.training or not self.chance:
            return x
        draw = torch.rand_like(x) if self.draw is None else self.draw
        return torch.where(draw >= self.chance, x, 0) / (1 - self.chance)


def rotated(x: Tensor) -> Tensor:
    """x, (..., T, D), with the pairs of neighbouring channels turned by t 10000^(-2a / D)."""
    length, width = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=x.dtype, device=x.device) / width)
    angles = torch.outer(torch.arange(length, dtype=x.dtype, device=x.device), frequencies)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = (first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos())
    return torch.stack(turned, dim=-1).flatten(-2)


class Attention(nn.Module):
    """Causal self-attention with grouped heads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.groups = shape.heads, shape.key_value_heads or shape.heads
        self.own = shape.width // shape.heads
        self.rotary = shape.positions == "rotary"
        self.projection = nn.Linear(shape.width, (self.heads + 2 * self.groups) * self.own, bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The residual branch, like x."""
        batch, length, _ = x.shape
        split = self.projection(x).view(batch, length, -1, self.own).transpose(1, 2)
        q, k, v = split.split((self.heads, self.groups, self.groups), dim=1)
        if self.rotary:
            q, k = rotated(q), rotated(k)
        grouped = self.groups != self.heads
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.output(heads.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """GELU with biases, or SwiGLU without."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gated = shape.activation == "swiglu"
        hidden = shape.expansion * shape.width
        self.up = nn.Linear(shape.width, 2 * hidden if self.gated else hidden, bias=not self.gated)
        self.down = nn.Linear(hidden, shape.width, bias=not self.gated)

    def forward(self, x: Tensor) -> Tensor:
        """The residual branch, like x."""
        if not self.gated:
            return self.down(functional.gelu(self.up(x)))
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * value)


class PlainGPT(nn.Module):
    """Pre-norm decoder with the options of gradproof's model."""

    def __init__(self, shape: Shape, vocabulary: int) -> None:
        super().__init__()

        def norm() -> nn.Module:
            return nn.LayerNorm(shape.width, 1e-5) if shape.norm == "layer" else nn.RMSNorm(shape.width, 1e-6)

        self.tokens = nn.Embedding(vocabulary, shape.width)
        self.places = nn.Embedding(shape.context, shape.width) if shape.positions == "learned" else None
        self.blocks = nn.ModuleList(
            nn.ModuleList((norm(), layer, Dropout(shape.dropout)))
            for _ in range(shape.layers)
            for layer in (Attention(shape), FeedForward(shape))
        )
        self.drop = Dropout(shape.dropout)
        self.norm = norm()
        self.head = nn.Linear(shape.width, vocabulary, bias=False)
        if shape.tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits, (B, T, V), of the token after each of `tokens`, (B, T)."""
        x = self.tokens(tokens)
        if self.places is not None:
            x = x + self.places.weight[: tokens.shape[1]]
        x = self.drop(x)
        for norm, layer, drop in self.blocks:  # type: ignore[misc]
            x = x + drop(layer(norm(x)))
        return self.head(self.norm(x))  # type: ignore[no-any-return]

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy."""
        return functional.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def decay_groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """Parameter groups for torch.optim.AdamW: matrices and embeddings are decayed, gains and biases are not."""
        matrices = [weight for weight in self.parameters() if weight.ndim > 1]
        vectors = [weight for weight in self.parameters() if weight.ndim == 1]
        return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def named_weights(model: PlainGPT, weights: Mapping[str, Any]) -> Iterator[tuple[nn.Parameter, list[str]]]:
    """Each parameter of the model and the names of the gradproof weights that make it up, one below the other."""
    yield model.tokens.weight, ["embedding.E"]
    if model.places is not None:
        yield model.places.weight, ["embedding.P"]
    for number, (norm, layer, _) in enumerate(model.blocks):  # type: ignore[misc]
        attention = isinstance(layer, Attention)
        place = f"layers.{number // 2}.{'attention' if attention else 'feed_forward'}"
        yield from _norm_weights(norm, place)
        if isinstance(layer, Attention):
            yield layer.projection.weight, [f"{place}.W_{symbol}" for symbol in "QKV"]
            yield layer.output.weight, [f"{place}.W_O"]
        elif layer.gated:
            yield layer.up.weight, [f"{place}.W_g", f"{place}.W_u"]
            yield layer.down.weight, [f"{place}.W_d"]
        else:
            yield layer.up.weight, [f"{place}.W_1"]
            yield layer.up.bias, [f"{place}.b_1"]
            yield layer.down.weight, [f"{place}.W_2"]
            yield layer.down.bias, [f"{place}.b_2"]
    yield from _norm_weights(model.norm, "final")
    if "head.W" in weights:
        yield model.head.weight, ["head.W"]


def joined(parameter: nn.Parameter, names: list[str], weights: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The named gradproof arrays, each as a matrix of what the parameter maps from, one below the other."""
    last = parameter.shape[-1]
    shaped = [np.asarray(weights[name]).reshape(-1, last) if parameter.ndim > 1 else weights[name] for name in names]
    return np.concatenate(shaped)


def load(model: PlainGPT, weights: Mapping[str, Any]) -> None:
    """Copy the weights of a gradproof model."""
    with torch.no_grad():
        for parameter, names in named_weights(model, weights):
            parameter.copy_(torch.as_tensor(joined(parameter, names, weights)))


def _norm_weights(norm: Any, place: str) -> Iterator[tuple[nn.Parameter, list[str]]]:
    yield norm.weight, [f"{place}.gamma"]
    if isinstance(norm, nn.LayerNorm):
        yield norm.bias, [f"{place}.beta"]

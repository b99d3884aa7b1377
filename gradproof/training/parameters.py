"""The weights: their names, shapes and first values, all kept in one flat array.

Between the settings and the model. The optimiser sees one vector, the model sees named arrays, and both are the same
memory: every named array is a view into the vector. Gradients are laid out in the same way. What weight decay applies
to comes first, so that it is a slice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradproof.training.config import TrainingConfig

__all__ = ["Array", "FlatArrays", "ParameterSpec", "allocate", "initial_parameters", "parameter_specs"]

Array = NDArray[Any]

_EMBEDDING_SPREAD = 0.1
"""Small against 1, so that steps of the size AdamW takes change an embedding within tens of steps, not thousands."""


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter: its name, its shape, and the normal distribution that its first values are drawn from.

    Attributes:
        name: `<place>.<symbol>`, with the symbol that the kernels use.
        shape: Its sizes.
        centre: Mean of its first values.
        spread: Standard deviation of its first values; 0 for a constant.
        decayed: Whether weight decay applies to it.
    """

    name: str
    shape: tuple[int, ...]
    centre: float = 0.0
    spread: float = 0.0
    decayed: bool = False


@dataclass(frozen=True)
class FlatArrays:
    """One flat array and named views into it.

    Attributes:
        flat: All values, shape (N,).
        views: Name to view, in the order of the specifications.
        decayed_size: The first so many values of `flat` are those that weight decay applies to.
    """

    flat: Array
    views: Mapping[str, Array]
    decayed_size: int


def parameter_specs(config: TrainingConfig, vocabulary: int) -> tuple[ParameterSpec, ...]:
    """The parameters of the model, in the order in which they are used.

    Embeddings start small. Matrices start at a spread of 1/sqrt(inputs); those that write to the residual stream,
    smaller by 1/sqrt(2 * layers), which keeps the stream's variance independent of depth. Gains start at 1, biases
    at 0.
    """
    width, hidden, heads, head_width = config.width, config.feed_forward_width, config.heads, config.head_width
    into_stream = (2 * config.layers) ** -0.5

    def matrix(name: str, shape: tuple[int, ...], spread: float) -> ParameterSpec:
        return ParameterSpec(name, shape, spread=spread, decayed=True)

    def gain(name: str) -> ParameterSpec:
        return ParameterSpec(name, (width,), centre=1.0)

    def bias(name: str, size: int) -> ParameterSpec:
        return ParameterSpec(name, (size,))

    specs = [
        matrix("embedding.E", (vocabulary, width), _EMBEDDING_SPREAD),
        matrix("embedding.P", (config.context, width), _EMBEDDING_SPREAD),
    ]
    for layer in range(config.layers):
        attention, feed_forward = f"layers.{layer}.attention", f"layers.{layer}.feed_forward"
        specs.extend(
            (
                gain(f"{attention}.gamma"),
                bias(f"{attention}.beta", width),
                *(matrix(f"{attention}.W_{symbol}", (heads, head_width, width), width**-0.5) for symbol in "QKV"),
                matrix(f"{attention}.W_O", (width, heads, head_width), width**-0.5 * into_stream),
                gain(f"{feed_forward}.gamma"),
                bias(f"{feed_forward}.beta", width),
                matrix(f"{feed_forward}.W_1", (hidden, width), width**-0.5),
                bias(f"{feed_forward}.b_1", hidden),
                matrix(f"{feed_forward}.W_2", (width, hidden), hidden**-0.5 * into_stream),
                bias(f"{feed_forward}.b_2", width),
            )
        )
    final = (gain("final_norm.gamma"), bias("final_norm.beta", width))
    head = (matrix("head.W", (vocabulary, width), width**-0.5), bias("head.b", vocabulary))
    return (*specs, *final, *head)


def allocate(specs: tuple[ParameterSpec, ...], dtype: str) -> FlatArrays:
    """A flat array of zeros with a view for every specification, those that are decayed first."""
    flat = np.zeros(sum(math.prod(spec.shape) for spec in specs), dtype=dtype)
    views: dict[str, Array] = {}
    start = 0
    decayed_size = 0
    for spec in sorted(specs, key=lambda spec: not spec.decayed):
        stop = start + math.prod(spec.shape)
        views[spec.name] = flat[start:stop].reshape(spec.shape)
        start = stop
        decayed_size = stop if spec.decayed else decayed_size
    return FlatArrays(flat, MappingProxyType({spec.name: views[spec.name] for spec in specs}), decayed_size)


def initial_parameters(specs: tuple[ParameterSpec, ...], dtype: str, generator: np.random.Generator) -> FlatArrays:
    """Parameters at their first values: normal draws, in the order of the specifications."""
    parameters = allocate(specs, dtype)
    for spec in specs:
        np.copyto(parameters.views[spec.name], generator.normal(spec.centre, spec.spread, spec.shape))
    return parameters

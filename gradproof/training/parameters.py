"""The weights: their names, shapes and first values, all kept in one flat array.

Between the settings and the model. The optimiser sees one vector, the model sees named arrays, and both are the same
memory: every named array is a view into the vector. Gradients are laid out in the same way. What weight decay applies
to comes first, so that it is a slice. The vector belongs to NumPy or to PyTorch; nothing here depends on which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradproof.training.chain import forward_steps
from gradproof.training.config import TrainingConfig

__all__ = ["Array", "FlatArrays", "ParameterSpec", "allocate", "first_values", "parameter_specs"]

Array = NDArray[Any]

_EMBEDDING_SPREAD = 0.1
"""Small against 1, so that steps of the size AdamW takes change an embedding within tens of steps, not thousands."""
_MOST_ENTRIES = 2**56
"""More are no array in any library, whatever the memory."""


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

    flat: Any
    views: Mapping[str, Any]
    decayed_size: int


def parameter_specs(config: TrainingConfig, vocabulary: int) -> tuple[ParameterSpec, ...]:
    """The parameters of the model, in the order in which they are first used.

    Embeddings start small. Matrices start at a spread of 1/sqrt(inputs); those that write to the residual stream,
    smaller by 1/sqrt(2 * layers), which keeps the stream's variance independent of depth. Gains start at 1, biases
    at 0.
    """
    shapes = _shapes(config, vocabulary)
    into_stream = (2 * config.layers) ** -0.5
    starts = {
        "E": _EMBEDDING_SPREAD,
        "P": _EMBEDDING_SPREAD,
        "W_O": config.width**-0.5 * into_stream,
        "W_2": config.feed_forward_width**-0.5 * into_stream,
        "W_d": config.feed_forward_width**-0.5 * into_stream,
    }

    def spec_of(name: str) -> ParameterSpec:
        symbol = name.rpartition(".")[2]
        if symbol == "gamma":
            return ParameterSpec(name, shapes[symbol], centre=1.0)
        if symbol[0] == "b":
            return ParameterSpec(name, shapes[symbol])
        return ParameterSpec(name, shapes[symbol], spread=starts.get(symbol, config.width**-0.5), decayed=True)

    made = {step.output for step in forward_steps(config)}
    used = dict.fromkeys(name for step in forward_steps(config) for name in step.varied if name not in made)
    return tuple(map(spec_of, used))


def _shapes(config: TrainingConfig, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The shape of each symbol; the components of queries and keys are pairs where positions are rotary."""
    width, hidden = config.width, config.feed_forward_width
    groups, shared, own = config.groups, config.heads_per_group, config.head_width
    turned = (own // 2, 2) if config.positions == "rotary" else (own,)
    return {
        "E": (vocabulary, width),
        "P": (config.context, width),
        "W": (vocabulary, width),
        "gamma": (width,),
        "beta": (width,),
        "W_Q": (groups, shared, *turned, width),
        "W_K": (groups, *turned, width),
        "W_V": (groups, own, width),
        "W_O": (width, groups, shared, own),
        "W_1": (hidden, width),
        "b_1": (hidden,),
        "W_2": (width, hidden),
        "b_2": (width,),
        "W_g": (hidden, width),
        "W_u": (hidden, width),
        "W_d": (width, hidden),
    }


def allocate(specs: tuple[ParameterSpec, ...], zeros: Callable[[int], Any]) -> FlatArrays:
    """A flat array of zeros with a view for every specification, those that are decayed first.

    Raises:
        MemoryError: There are more values than a machine can address.
    """
    size = sum(math.prod(spec.shape) for spec in specs)
    if size > _MOST_ENTRIES:
        raise MemoryError(f"the model has {size:,} weights")
    flat = zeros(size)
    views: dict[str, Any] = {}
    start = 0
    decayed_size = 0
    for spec in sorted(specs, key=lambda spec: not spec.decayed):
        stop = start + math.prod(spec.shape)
        views[spec.name] = flat[start:stop].reshape(spec.shape)
        start = stop
        decayed_size = stop if spec.decayed else decayed_size
    return FlatArrays(flat, MappingProxyType({spec.name: views[spec.name] for spec in specs}), decayed_size)


def first_values(specs: tuple[ParameterSpec, ...], generator: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """The first value of every parameter: normal draws in float64, in the order of the specifications."""
    for spec in specs:
        yield spec.name, generator.normal(spec.centre, spec.spread, spec.shape)

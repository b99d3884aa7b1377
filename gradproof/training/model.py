"""The model: weights, and what is computed from them by the chain of kernels; the part that both engines share.

The heart of the data flow of training: token ids in; a loss, logits, or the gradient of every parameter out. The
forward pass carries out `forward_steps`, one kernel after another; for the gradient, `gradproof.training.parts` carries
out `backward_steps`. Nothing is computed here: kernels compute, and this module says which arrays go where.

    model = create_model(config, vocabulary=103, seed=0)
    loss = model.loss_and_gradients(tokens, targets, step=1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradproof.training.cache import Cache
from gradproof.training.chain import LOGITS, LOSS, TARGETS, TOKENS, Step, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.draws import draws_for
from gradproof.training.errors import ConfigurationError
from gradproof.training.kernels import kernel, takes_workspace
from gradproof.training.parameters import Array, FlatArrays, allocate, first_values, parameter_specs

if TYPE_CHECKING:
    from gradproof.training.parts import PartedModel

__all__ = ["Arrays", "Model", "check_state", "create_model", "model_class"]

Ids = NDArray[np.int64]
Seed = int | np.random.SeedSequence
_POSITIONS = "embedding.P"


class Arrays(Protocol):
    """What the model needs of an array library beside kernels: making, moving and converting arrays, and threads.

    Attributes:
        library: Its name.
        block: Entries of long vectors that are worked on at a time, so that they stay in the cache.
    """

    library: str
    block: int

    def zeros(self, shape: int | tuple[int, ...], *, weights: bool = False) -> Any:
        """Zeros in the type of the weights or of the activations."""

    def copy(self, target: Any, source: Any) -> None:
        """Write the values of `source` to `target`, converting their type."""

    def number(self, value: float) -> Any:
        """An array without axes that holds a number, in the type of the weights."""

    def ids(self, values: Ids) -> Any:
        """Integers of NumPy as an array of the library."""

    def numbers(self, values: Array) -> Any:
        """Numbers of NumPy as an array of the library, in the type of the activations."""

    def weights(self, values: Array) -> Any:
        """The same in the type of the weights."""

    def wait(self) -> None:
        """Return when everything that was asked for is computed."""

    def adopt(self, values: Array) -> Any:
        """The vector of NumPy's as an array that shares its memory."""

    def is_as_started(self) -> bool:
        """Whether nothing was set that would make results differ from those of a process that has just begun."""

    def threads_of_lane(self, lanes: int) -> int | None:
        """How many threads each of so many lanes has for its kernels; None for all that there are."""

    def side_by_side(self, lanes: int) -> AbstractContextManager[Any]:
        """What the process does while so many lanes compute."""

    def in_lane(self, lanes: int) -> AbstractContextManager[Any]:
        """What each of them does meanwhile, in its thread."""

    def to_numpy(self, array: Any) -> Array:
        """The array as an array of NumPy's, float32 where NumPy lacks the type; it may share memory."""


class Model:
    """The weights, and everything that is computed from them.

    Attributes:
        config: The settings.
        vocabulary: Number of different tokens, V.
        weights: The parameters, flat and by name.
        slopes: Their gradients, flat and by name, as the last `loss_and_gradients` left them.
        first_row: Row of the whole batch that this model's rows begin at, where several processes share a batch.
        workspace: Memory and threads for kernels that work block by block, outside of training steps.
    """

    def __init__(self, config: TrainingConfig, vocabulary: int, arrays: Arrays) -> None:
        """A model whose weights and gradients are zero."""
        self.config = config
        self.vocabulary = vocabulary
        self.arrays = arrays
        self.specs = parameter_specs(config, vocabulary)
        self.weights: FlatArrays = self.zeros()
        self.slopes: FlatArrays = self.zeros()
        self.first_row = 0
        self.workspace: Any = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The weights by name, in the order of their first use; views into one flat array."""
        return self.weights.views

    @property
    def gradients(self) -> Mapping[str, Any]:
        """The gradients by name, in the order of the parameters."""
        return self.slopes.views

    def loss_and_gradients(self, tokens: Ids, targets: Ids, step: int) -> float:
        """The mean cross entropy of a batch; its gradient is left in `gradients`.

        Args:
            tokens: Token ids, shape (B, T) with T the context.
            targets: The id that follows each, of the same shape.
            step: Number of the update; with the seed, it decides what dropout drops.

        Raises:
            ValueError: T is not the context, so that some positions would have no gradient.
        """
        raise NotImplementedError

    def loss(self, tokens: Ids, targets: Ids) -> float:
        """The mean cross entropy of a batch without dropout, in nats per token; T may be shorter than the context."""
        return float(self._forward(forward_steps(self.config), self.evaluation_values(tokens, targets))[LOSS])

    def logits(self, tokens: Ids, cache: Cache | None = None) -> Array:
        """Logits, shape (B, T, V), of what follows each of `tokens`, shape (B, T), without dropout.

        With a cache, the tokens come after those that the cache has seen, and join them.

        Raises:
            ValueError: There are more tokens than the context has room for, or the cache is for another batch size.
        """
        start = 0 if cache is None else cache.length
        if cache is not None:
            cache.check_room(tokens)
        steps = forward_steps(self.config)[:-1]
        values = self._forward(steps, self.values_for(tokens, start), cache)
        if cache is not None:
            cache.length = start + tokens.shape[1]
        return self.arrays.to_numpy(values[LOGITS])

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache of keys and values for so many texts at a time."""
        return Cache(self.config.context, batch, self.arrays)

    def state(self) -> dict[str, Array]:
        """Copies of the weights by name."""
        return {name: self.arrays.to_numpy(view).copy() for name, view in self.parameters.items()}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Put the weights of `state` in place of these.

        Raises:
            ValueError: A weight is missing, unknown, or of another shape or type.
        """
        check_state("weights", state, {name: tuple(view.shape) for name, view in self.parameters.items()})
        for name, view in self.parameters.items():
            self.arrays.copy(view, self.arrays.weights(state[name]))

    def values_for(self, tokens: Ids, start: int) -> dict[str, Any]:
        """The arrays that a forward pass begins with: tokens and weights, the table of positions cut to the tokens."""
        length = tokens.shape[1]
        if start + length > self.config.context:
            raise ValueError(
                f"tokens: expected at most {self.config.context - start} more, since the context is "
                f"{self.config.context} and {start} are seen, found {length}; shorten them or start a new cache"
            )
        values = dict(self._activations())
        if _POSITIONS in values:
            values[_POSITIONS] = values[_POSITIONS][start : start + length]
        values[TOKENS] = self.arrays.ids(tokens)
        return values

    def evaluation_values(self, tokens: Ids, targets: Ids) -> dict[str, Any]:
        """The arrays that the forward pass of an evaluation begins with."""
        values = self.values_for(tokens, 0)
        values[TARGETS] = self.arrays.ids(targets)
        return values

    def training_values(self, tokens: Ids, targets: Ids, step: int, first_row: int = 0) -> dict[str, Any]:
        """The arrays that a forward pass in training begins with; the rows begin at `first_row` of the model's.

        Raises:
            ValueError: There are not as many tokens as the context, so that some positions would have no gradient.
        """
        if tokens.shape[-1] != self.config.context:
            raise ValueError(
                f"tokens: expected windows of {self.config.context} tokens, the context, found {tokens.shape[-1]}; "
                "cut the batch to the context"
            )
        first = self.first_row + first_row
        drawn = draws_for(
            forward_steps(self.config, dropout=True), self.config, step, range(first, first + len(tokens))
        )
        values = self.evaluation_values(tokens, targets)
        values.update({name: self.arrays.weights(draw) for name, draw in drawn.items()})
        return values

    def _activations(self) -> Mapping[str, Any]:
        """The weights in the type of the activations."""
        return self.parameters

    def _forward(self, steps: tuple[Step, ...], values: dict[str, Any], cache: Cache | None = None) -> dict[str, Any]:
        """The values with the outputs of the steps; nothing is kept for a backward pass."""
        for step in steps:
            inputs = [values[name] for name in step.inputs]
            if cache is not None and step.kernel in Cache.KERNELS:
                values[step.output] = cache.attend(step, inputs)
            else:
                values[step.output] = self.call("forward", step, inputs, self.workspace)[0]
        return values

    def zeros(self) -> FlatArrays:
        """Zeros for every parameter, in the type of the weights."""
        return allocate(self.specs, lambda size: self.arrays.zeros(size, weights=True))

    def over(self, vector: Array) -> FlatArrays:
        """The parameters in the memory of a vector."""
        return allocate(self.specs, lambda size: self.arrays.adopt(vector))

    def for_each(self, work: Callable[..., None], items: Sequence[tuple[Any, ...]]) -> None:
        """Call `work` with each of the items, in any order; no two of them write to the same place."""
        for item in items:
            work(*item)

    def call(self, direction: str, step: Step, arguments: list[Any], workspace: Any = None) -> Any:
        """The result of a step's kernel, forward or backward; `workspace` is for kernels that work block by block."""
        options: dict[str, Any] = dict(step.options) if direction == "forward" else {}
        found = kernel(step.kernel, f"{step.kernel}_{direction}", self.arrays.library)
        if workspace is not None and takes_workspace(found):
            options["workspace"] = workspace
        return found(*arguments, **options)


def check_state(what: str, state: Mapping[str, Array], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays that are not those expected, by name and shape, of floating-point numbers.

    Raises:
        ValueError: One is missing, unknown, of another shape, or holds no numbers. The message names it.
    """
    for name in dict.fromkeys([*expected, *state]):
        if name not in state or name not in expected:
            found = "found none" if name not in state else "found one that this model does not have"
            raise ValueError(f"{what}: {name}: expected exactly the arrays of the model, {found}")
        shape, kind = tuple(state[name].shape), state[name].dtype.kind
        if shape != expected[name] or kind != "f":
            raise ValueError(
                f"{what}: {name}: expected floating-point numbers of shape {expected[name]}, found {state[name].dtype} "
                f"of shape {shape}"
            )


def model_class(config: TrainingConfig) -> Callable[..., PartedModel]:
    """What makes the engine's model, from the settings and the size of the vocabulary.

    Raises:
        ConfigurationError: Its library is not installed.
    """
    if config.engine == "torch":
        if find_spec("torch") is None:
            raise ConfigurationError(
                "engine = 'torch' needs PyTorch, which is not installed; pip install 'gradproof[torch]'"
            )
        from gradproof.training.engine_torch import TorchModel

        return TorchModel
    from gradproof.training.engine_numpy import NumpyModel

    return NumpyModel


def create_model(config: TrainingConfig, vocabulary: int, seed: Seed = 0) -> Model:
    """A model with its first weights, which NumPy draws from the seed, the same ones for every engine.

    Raises:
        ConfigurationError: The engine's library is not installed, or there is no such device.
    """
    model = model_class(config)(config, vocabulary)
    for name, value in first_values(model.specs, np.random.default_rng(seed)):
        model.arrays.copy(model.parameters[name], model.arrays.weights(value))
    return model

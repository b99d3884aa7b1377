"""The torch engine: tensors for the chain of kernels, and the chain as a torch module for those who want one.

Between the model and the generated PyTorch kernels. A batch is carried out as with NumPy (`gradproof.training.parts`),
on a GPU by one thread. Weights are kept in float32 where activations are bfloat16.

`TorchModel.as_module` is the same chain made of the operators that the kernels are registered as: its parameters are
views into the model's flat vector, and so are their gradients, autograd decides the order of the backward pass, and
`torch.compile` and DistributedDataParallel can do with it what they do. What is put in `TorchModel.network` is used in
the place of the parts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradproof.training.chain import LOSS, Step, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.errors import ConfigurationError
from gradproof.training.kernels import kernel
from gradproof.training.memory import keep_freed_memory
from gradproof.training.model import Ids
from gradproof.training.parameters import Array
from gradproof.training.parts import PartedModel

__all__ = ["TorchArrays", "TorchModel"]

_BLOCK = 131_072
"""Entries of long vectors that are worked on at a time on the processor."""


class TorchArrays:
    """Making, moving and converting arrays, with PyTorch."""

    library = "torch"

    def __init__(self, dtype: str, weight_dtype: str, device: str) -> None:
        """Tensors of this floating-point type, and of one for weights, on this device.

        Raises:
            ConfigurationError: There is no such device.
        """
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigurationError(
                "device = 'cuda': expected a GPU that torch can use, found none; set device = 'cpu'"
            )
        self.device = torch.device(f"cuda:{torch.cuda.current_device()}" if device == "cuda" else "cpu")
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.weight_dtype: torch.dtype = getattr(torch, weight_dtype)
        # PyTorch's calls cost more than NumPy's, and each is one pass on a GPU.
        self.block = _BLOCK if self.device.type == "cpu" else sys.maxsize

    def zeros(self, shape: int | tuple[int, ...], *, weights: bool = False) -> Tensor:
        """Zeros in the type of the weights or of the activations."""
        try:
            return torch.zeros(shape, dtype=self.weight_dtype if weights else self.dtype, device=self.device)
        except RuntimeError as error:  # how PyTorch says it
            raise MemoryError(str(error).partition("\n")[0]) from error

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Write the values of `source` to `target`."""
        with torch.no_grad():
            target.copy_(source)

    def number(self, value: float) -> Tensor:
        """A tensor without axes that holds the number."""
        return torch.tensor(value, dtype=self.weight_dtype, device=self.device)

    def ids(self, values: Ids) -> Tensor:
        """The integers as a tensor."""
        return torch.as_tensor(np.ascontiguousarray(values), device=self.device)

    def numbers(self, values: Array) -> Tensor:
        """The numbers in the type of the activations."""
        return torch.as_tensor(np.ascontiguousarray(values), device=self.device).to(self.dtype)

    def weights(self, values: Array) -> Tensor:
        """The numbers in the type of the weights."""
        return torch.as_tensor(np.ascontiguousarray(values), device=self.device).to(self.weight_dtype)

    def wait(self) -> None:
        """Return when the device has done what it was asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def adopt(self, values: Array) -> Tensor:
        """The vector as a tensor."""
        return torch.from_numpy(values)

    def is_as_started(self) -> bool:
        """Whether products have the precision that PyTorch begins with."""
        return torch.get_float32_matmul_precision() == "highest"

    def threads_of_lane(self, lanes: int) -> int | None:
        """One, or all of them if there is one lane."""
        return 1 if lanes > 1 else None

    @contextmanager
    def side_by_side(self, lanes: int) -> Iterator[None]:
        """PyTorch's number of threads is what it was, for those that begin afterwards."""
        before = torch.get_num_threads()
        try:
            yield
        finally:
            if lanes > 1:
                torch.set_num_threads(before)

    @contextmanager
    def in_lane(self, lanes: int) -> Iterator[None]:
        """Operations on one thread, if others compute too; nothing is recorded."""
        if lanes > 1:
            torch.set_num_threads(1)
        with torch.no_grad():
            yield

    def to_numpy(self, array: Tensor) -> Array:
        """The tensor as an array of NumPy's, which has no bfloat16."""
        plain = array.detach().cpu()
        values: Array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
        return values


class Network(nn.Module):
    """The chain from tokens to the loss as a module; its parameters in the order of their names."""

    def __init__(self, config: TrainingConfig, weights: Mapping[str, Tensor], arrays: TorchArrays) -> None:
        """The parameters share the memory of the given weights."""
        super().__init__()
        self._names = tuple(weights)
        self._dtype = arrays.dtype
        steps = forward_steps(config, dropout=True)
        # Each step with its registered operator, which autograd differentiates by its backward kernel.
        self._operators = [(step, dict(step.options), kernel(step.kernel, step.kernel, "torch")) for step in steps]
        self.weights = nn.ParameterList(nn.Parameter(view) for view in weights.values())

    def forward(self, values: dict[str, Tensor]) -> Tensor:
        """The loss, from tokens, targets and draws by name."""
        values = dict(values)
        for name, weight in zip(self._names, self.weights, strict=True):
            values[name] = weight.to(self._dtype)
        for step, options, operator in self._operators:
            inputs = [values[name] for name in step.inputs]
            if step.output == LOSS:  # in full precision, whatever the activations have
                inputs = [value.float() if value.dtype == torch.bfloat16 else value for value in inputs]
                values[LOSS] = operator(*inputs, **options)
            else:
                values[step.output] = operator(*inputs, **options).to(self._dtype)
        return values[LOSS]


class TorchModel(PartedModel):
    """The model, computed by generated PyTorch kernels.

    Attributes:
        network: A module made of `as_module()` that computes the loss in training instead, or None.
    """

    def __init__(self, config: TrainingConfig, vocabulary: int) -> None:
        """A model whose weights and gradients are zero."""
        keep_freed_memory()
        arrays = TorchArrays(config.dtype, config.weight_dtype, config.device)
        super().__init__(config, vocabulary, arrays)
        self._tensors, self._cast = arrays, arrays.dtype != arrays.weight_dtype
        self.network: nn.Module | None = None

    def as_module(self) -> Network:
        """The chain from tokens to the loss as a module, whose parameters and gradients are the model's."""
        network = Network(self.config, self.parameters, self._tensors)
        for weight, gradient in zip(network.weights, self.gradients.values(), strict=True):
            weight.grad = gradient
        return network

    def loss_and_gradients(self, tokens: Ids, targets: Ids, step: int) -> float:
        """As `Model.loss_and_gradients`, part by part, or by autograd where there is a network."""
        if self.network is None:
            return super().loss_and_gradients(tokens, targets, step)
        values = self.training_values(tokens, targets, step)
        given = {name: value for name, value in values.items() if name not in self.parameters}
        self.slopes.flat.zero_()
        loss = self.network(given)
        loss.backward()
        return float(loss.detach())

    def call(self, direction: str, step: Step, arguments: list[Any], workspace: Any = None) -> Any:
        """As `Model.call`, the loss in full precision, whatever the activations have."""
        if self._cast and direction == "forward" and step.output == LOSS:
            arguments = [value.float() if value.dtype == torch.bfloat16 else value for value in arguments]
        return super().call(direction, step, arguments, workspace)

    def _activations(self) -> Mapping[str, Any]:
        dtype = self._tensors.dtype
        return {name: view.to(dtype) for name, view in self.parameters.items()} if self._cast else self.parameters

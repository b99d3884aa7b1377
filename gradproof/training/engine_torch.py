"""The torch engine: the chain of kernels as a torch module, differentiated by autograd.

Between the model and the generated PyTorch kernels, which are registered as operators of PyTorch. The module's
parameters are views into the model's flat vector, and so are their gradients, so that the optimiser is the same as for
NumPy. Autograd decides the order of the backward pass and adds what comes back from several uses; each pull-back is a
generated kernel. Weights are kept in float32 where activations are bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradproof.training.chain import LOSS, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.errors import ConfigurationError
from gradproof.training.kernels import kernel
from gradproof.training.memory import keep_freed_memory
from gradproof.training.model import Ids, Model
from gradproof.training.parameters import Array

__all__ = ["TorchArrays", "TorchModel"]


class TorchArrays:
    """Making, moving and converting arrays, with PyTorch."""

    library = "torch"

    def __init__(self, dtype: str, device: str) -> None:
        """Tensors of this floating-point type on this device.

        Raises:
            ConfigurationError: There is no such device.
        """
        if device == "cuda" and not torch.cuda.is_available():
            raise ConfigurationError(
                "device = 'cuda': expected a GPU that torch can use, found none; set device = 'cpu'"
            )
        self.device = torch.device(f"cuda:{torch.cuda.current_device()}" if device == "cuda" else "cpu")
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.weight_dtype = torch.float32 if dtype == "bfloat16" else self.dtype

    def zeros(self, shape: int | tuple[int, ...], *, weights: bool = False) -> Tensor:
        """Zeros in the type of the weights or of the activations."""
        return torch.zeros(shape, dtype=self.weight_dtype if weights else self.dtype, device=self.device)

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Write the values of `source` to `target`."""
        with torch.no_grad():
            target.copy_(source)

    def number(self, value: float) -> Tensor:
        """A tensor without axes that holds the number."""
        return torch.tensor(value, dtype=self.dtype, device=self.device)

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


class TorchModel(Model):
    """The model, computed by generated PyTorch kernels.

    Attributes:
        network: What computes the loss in training; `distributed` puts it inside DistributedDataParallel.
    """

    def __init__(self, config: TrainingConfig, vocabulary: int) -> None:
        """A model whose weights and gradients are zero."""
        keep_freed_memory()
        arrays = TorchArrays(config.dtype, config.device)
        super().__init__(config, vocabulary, arrays)
        self._cast = arrays.dtype != arrays.weight_dtype
        network = Network(config, self.parameters, arrays)
        for weight, gradient in zip(network.weights, self.gradients.values(), strict=True):
            weight.grad = gradient
        self.network: nn.Module = network

    def loss_and_gradients(self, tokens: Ids, targets: Ids, step: int) -> float:
        """As `Model.loss_and_gradients`, by autograd."""
        values = self.training_values(tokens, targets, step)
        given = {name: value for name, value in values.items() if name not in self.parameters}
        self.slopes.flat.zero_()
        loss = self.network(given)
        loss.backward()
        return float(loss.detach())

    def loss(self, tokens: Ids, targets: Ids) -> float:
        """As `Model.loss`; nothing is recorded for a backward pass."""
        with torch.no_grad():
            return super().loss(tokens, targets)

    def _activations(self) -> Mapping[str, Any]:
        dtype = self.arrays.dtype  # type: ignore[attr-defined]
        return {name: view.to(dtype) for name, view in self.parameters.items()} if self._cast else self.parameters

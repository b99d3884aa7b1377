"""The NumPy engine: arrays of NumPy's for the chain of kernels, with BLAS held to one thread for each micro-batch.

Between the model and the generated NumPy kernels. How a batch is carried out is said in `gradproof.training.parts`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from gradproof.training.config import TrainingConfig
from gradproof.training.memory import keep_freed_memory
from gradproof.training.model import Ids
from gradproof.training.parameters import Array
from gradproof.training.parts import PartedModel
from gradproof.training.process_wide import on_one_thread

__all__ = ["NumpyArrays", "NumpyModel"]


class NumpyArrays:
    """Making, moving and converting arrays, with NumPy."""

    library = "numpy"
    block = 1 << 17

    def __init__(self, dtype: str) -> None:
        """Arrays of this floating-point type."""
        self._dtype = np.dtype(dtype)
        self._libraries = ThreadpoolController()

    def zeros(self, shape: int | tuple[int, ...], *, weights: bool = False) -> Array:
        """Zeros; weights and activations are of one type."""
        return np.zeros(shape, self._dtype)

    def copy(self, target: Array, source: Array) -> None:
        """Write the values of `source` to `target`."""
        np.copyto(target, source)

    def number(self, value: float) -> Array:
        """An array without axes that holds the number."""
        return np.array(value, self._dtype)

    def ids(self, values: Ids) -> Ids:
        """The integers themselves."""
        return values

    def numbers(self, values: Array) -> Array:
        """The numbers in the type of the activations."""
        return values.astype(self._dtype)

    weights = numbers

    def wait(self) -> None:
        """Nothing: NumPy returns when it is done."""

    def adopt(self, values: Array) -> Array:
        """The vector itself."""
        return values

    def is_as_started(self) -> bool:
        """It is: nothing that is set for the process changes a result."""
        return True

    def threads_of_lane(self, lanes: int) -> int | None:
        """One."""
        return 1

    def side_by_side(self, lanes: int) -> AbstractContextManager[Any]:
        """Products this small are quicker on one thread each than on all of them together."""
        return on_one_thread(self._libraries)

    def in_lane(self, lanes: int) -> AbstractContextManager[Any]:
        """Nothing: the limit is that of the process."""
        return nullcontext()

    def to_numpy(self, array: Array) -> Array:
        """The array itself."""
        return array


class NumpyModel(PartedModel):
    """The model, computed by generated NumPy kernels."""

    def __init__(self, config: TrainingConfig, vocabulary: int) -> None:
        """A model whose weights and gradients are zero."""
        keep_freed_memory()
        super().__init__(config, vocabulary, NumpyArrays(config.dtype))

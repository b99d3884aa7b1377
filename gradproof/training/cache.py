"""Keys and values of the tokens seen so far, so that generating the next one does not compute them again.

Beside the model, for generation alone. For each attention layer the cache holds room for a whole context. New rows pass
through two kernels: one gives their keys and values, which are appended, the other what the rows make of all of them.
`derive.library.self_attention` proves that this is what attention over the whole text gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradproof.training.chain import Step
from gradproof.training.kernels import kernel

if TYPE_CHECKING:
    from gradproof.training.model import Arrays

__all__ = ["Cache"]


class Cache:
    """The keys and values of each attention layer.

    Attributes:
        length: Tokens seen, at most the context.
    """

    KERNELS = ("self_attention", "self_attention_rotary")
    """The kernels that look at other rows; each has a `_keys` and a `_step` form for new rows."""

    def __init__(self, context: int, batch: int, arrays: Arrays) -> None:
        """An empty cache for `batch` texts of at most `context` tokens."""
        self.length = 0
        self._context = context
        self._batch = batch
        self._arrays = arrays
        self._held: dict[str, tuple[Any, Any]] = {}

    def check_room(self, tokens: NDArray[np.int64]) -> None:
        """Refuse tokens of another batch size.

        Raises:
            ValueError: The number of texts is not that of the cache.
        """
        if tokens.shape[0] != self._batch:
            raise ValueError(f"tokens: expected {self._batch} texts, as the cache holds, found {tokens.shape[0]}")

    def attend(self, step: Step, inputs: list[Any]) -> Any:
        """What the step's new rows, the first of `inputs`, make of themselves and the rows before them."""
        rows, query, key, value, output = inputs
        start, stop = self.length, self.length + rows.shape[1]
        places = np.arange(start, stop)
        position = (self._arrays.numbers(places),) if step.kernel == "self_attention_rotary" else ()
        keys, values = self._kernel(f"{step.kernel}_keys")(rows, *position, key, value)
        held_keys, held_values = self._held.setdefault(step.place, (self._room(keys), self._room(values)))
        self._arrays.copy(held_keys[:, :, start:stop], keys)
        self._arrays.copy(held_values[:, :, start:stop], values)
        seen = held_keys[:, :, :stop], held_values[:, :, :stop]
        return self._kernel(f"{step.kernel}_step")(rows, self._arrays.ids(places), *position, *seen, query, output)

    def _kernel(self, name: str) -> Any:
        return kernel(name, name, self._arrays.library)

    def _room(self, new: Any) -> Any:
        """Zeros like the keys or values of new rows, (B, G, T, ...), with room for a whole context."""
        return self._arrays.zeros((*new.shape[:2], self._context, *new.shape[3:]))

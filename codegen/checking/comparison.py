"""How far an array is from what it should be, and a sentence about the entry where it is farthest.

Used by `codegen.checking.examination` for every comparison. Errors are relative to the largest entry of the expected
array: entries that nearly cancel are as exact as the values they came from, not more. Inputs and upstream gradients are
of order 1, so where everything cancels, as the gradient of a softmax over one logit does, the scale is SMALLEST_SCALE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Difference", "broken", "difference", "scale_of"]

Array = np.ndarray[Any, Any]

SMALLEST_SCALE = 1e-2


@dataclass(frozen=True)
class Difference:
    """A relative error and what is to be said about it; an error without size, such as a wrong shape, is infinite."""

    error: float
    detail: str = ""


def broken(detail: str) -> Difference:
    """A difference without size."""
    return Difference(float("inf"), detail)


def scale_of(expected: Array) -> float:
    """What errors are measured relative to."""
    return max(SMALLEST_SCALE, float(np.max(np.abs(expected), initial=0.0)))


def difference(found: Array, expected: Array, source: str, scale: float | None = None) -> Difference:
    """The largest error of `found`, relative to `scale`, or else to the scale of `expected`; a NaN is infinitely wrong.

    `source` says where the expected values are from: "by autograd".
    """
    if found.shape != expected.shape:
        return broken(f"has shape {found.shape}, expected {expected.shape}")
    if found.size == 0:
        return Difference(0.0)
    with np.errstate(all="ignore"):
        errors = np.abs(found - expected) / (scale_of(expected) if scale is None else scale)
    errors = np.where(np.isnan(errors), np.inf, errors)
    worst = np.unravel_index(int(np.argmax(errors)), errors.shape)
    place = f"entry [{', '.join(map(str, worst))}]" if worst else "the value"
    return Difference(
        float(errors[worst]), f"{place} is {float(found[worst]):.12g}, {source} {float(expected[worst]):.12g}"
    )

"""Finite differences: the second witness of `codegen.checking.examination`.

The derivative of L = sum(output * upstream) along one entry x is (L(x + h) - L(x - h)) / 2h with two errors: rounding,
about eps |L| / h, and truncation, h^2 |L'''| / 6. They meet at h = cbrt(eps) * max(1, |x|), where both are about
eps^(2/3) of the values involved, 4e-11 in float64. A third derivative a thousand times the first, which a norm over two
nearly equal values has, leaves 4e-8. TOLERANCE lies above that and far below any fault: a wrong sign, a missing factor,
or a missing term of one percent.

What is perturbed is what the array holds afterwards: in bfloat16 1 + 1e-4 is 1, and the difference would be 0 for every
function. Such a step, and an array whose entries share memory, so that one moves others, is refused. The *outputs* are
subtracted before they are summed, so that what an entry does not influence adds no rounding error.

Where a function has a corner there is no derivative: the slopes on the two sides differ, however small the step.
`slopes` gives both; what lies between them is a convention, and neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["TOLERANCE", "PerturbationError", "Slopes", "central_difference", "chosen_entries", "slopes", "step_at"]

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-6
EPSILON = float(np.finfo(np.float64).eps)
MOST_ENTRIES = 100  # of one array in one case; of a larger one a random choice is perturbed, another in each case
SMOOTH = 1 / 4  # a 16th of the step leaves a 16th of the gap between the slopes of a smooth function, all of a corner's


class PerturbationError(ValueError):
    """An entry cannot be perturbed by itself; the message says why, and what to do."""


@dataclass(frozen=True)
class Slopes:
    """The slopes on the left and on the right of a point, with a small step."""

    left: float
    right: float

    def between(self, value: float, margin: float) -> bool:
        """Whether a value lies between the two slopes, so that it is one of the conventions for the point."""
        low, high = sorted((self.left, self.right))
        return low - margin <= value <= high + margin

    @property
    def gap(self) -> float:
        """How far the two are apart."""
        return abs(self.right - self.left)


def step_at(x: float, part: float = 1.0, epsilon: float = EPSILON) -> float:
    """The step at x, or a part of it, a power of two, so that x + h and x - h hardly round."""
    return float(2.0 ** np.round(np.log2(np.cbrt(epsilon) * max(1.0, abs(x)) * part)))


def central_difference(
    run: Callable[[Any], Array], at: Any, upstream: Array, entry: tuple[int, ...], part: float = 1.0, *,
    step: float | None = None, epsilon: float = EPSILON,
) -> float:  # fmt: skip
    """The derivative of sum(run(at) * upstream) along at[entry]; `at` is changed on the way and restored.

    Args:
        run: The function; its result is an array of its own, in float64.
        at: An array of any library and precision.
        upstream: The weights of the outputs.
        entry: Which entry is perturbed.
        part: A part of the step that the theory gives.
        step: Another step.
        epsilon: The precision of the array: the distance from 1 to the next number.

    Raises:
        PerturbationError: the step is lost in rounding, or entries of the array share memory.
    """
    _, ends, outputs = _perturbed(run, at, entry, step_at(float(at[entry]), part, epsilon) if step is None else step)
    # The ends are floating-point numbers; what lies between them is known exactly.
    return float(np.sum((outputs[1] - outputs[0]) * upstream) / (ends[1] - ends[0]))


def slopes(
    run: Callable[[Any], Array], at: Any, upstream: Array, entry: tuple[int, ...], part: float = 1.0
) -> Slopes | None:
    """The slopes to the left and to the right where they differ for every step, None at a point that is smooth.

    Raises:
        PerturbationError: as for `central_difference`.
    """
    found = [_one_sided(run, at, upstream, entry, share) for share in (part, part / 16)]
    return found[1] if found[1].gap > SMOOTH * found[0].gap else None


def _one_sided(run: Callable[[Any], Array], at: Any, upstream: Array, entry: tuple[int, ...], part: float) -> Slopes:
    x, (below, above), (left, right) = _perturbed(run, at, entry, step_at(float(at[entry]), part))
    middle = run(at)
    before, after = float(np.sum((middle - left) * upstream)), float(np.sum((right - middle) * upstream))
    return Slopes(before / (x - below), after / (above - x))


def _perturbed(
    run: Callable[[Any], Array], at: Any, entry: tuple[int, ...], step: float
) -> tuple[float, tuple[float, float], tuple[Array, Array]]:
    """The value at the entry, the values that the array took below and above it, and the outputs there."""
    if _shares_entries(at):
        raise PerturbationError(
            f"entries of the array of shape {tuple(at.shape)} share memory, so that one cannot be moved alone; "
            "copy the array first (the derivative along all of them together is the sum of theirs)"
        )
    x = float(at[entry])
    ends, outputs = [], []
    for end in (x - step, x + step):
        at[entry] = end
        ends.append(float(at[entry]))
        outputs.append(run(at))
        at[entry] = x
    if x in ends:
        raise PerturbationError(
            f"the step {step:g} is lost at {x:g}: x + h == x in {at.dtype}, and every difference would be 0; "
            "use a step of about the cube root of the precision"
        )
    return x, (ends[0], ends[1]), (outputs[0], outputs[1])


def _shares_entries(array: Any) -> bool:
    """Whether two entries lie at one place in memory, as in an array that was broadcast or expanded."""
    strides = array.stride() if callable(getattr(array, "stride", None)) else array.strides
    reach = 0
    for stride, length in sorted((abs(stride), length) for stride, length in zip(strides, array.shape, strict=True)):
        if length > 1 and stride <= reach:
            return True
        reach += stride * (length - 1)
    return False


def chosen_entries(shape: tuple[int, ...], generator: np.random.Generator) -> list[tuple[int, ...]]:
    """The entries to perturb: all of them, or a random choice of MOST_ENTRIES."""
    entries = list(np.ndindex(shape))
    if len(entries) <= MOST_ENTRIES:
        return entries
    return [entries[place] for place in sorted(generator.choice(len(entries), MOST_ENTRIES, replace=False))]

"""Central finite differences in float64: the second witness of `codegen.examination`.

The derivative of L = sum(output * upstream) along one entry x is (L(x + h) - L(x - h)) / 2h with two errors: rounding,
about eps |L| / h, and truncation, h^2 |L'''| / 6. They meet at h = cbrt(eps) * max(1, |x|), where both are about
eps^(2/3) = 4e-11 of the values involved. A third derivative a thousand times the first, which a norm over two nearly
equal values has, leaves 4e-8. TOLERANCE lies above that and far below any fault: a wrong sign, a missing factor, or a
missing term of one percent.

The step is rounded so that x + h and x - h are h apart exactly, and the *outputs* are subtracted before they are
summed, so that what an entry does not influence adds no rounding error.

Where the estimates of two step sizes disagree, there is no derivative to compare with at this precision: a kink (the
corner of a relu) or a cliff lies within the step. Such entries are left out, a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["TOLERANCE", "central_difference", "chosen_entries", "step_at"]

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-6
ROOT = float(np.cbrt(np.finfo(np.float64).eps))
MOST_ENTRIES = 100  # of one array in one case; of a larger one a random choice is perturbed, another in each case


def step_at(x: float, part: float = 1.0) -> float:
    """The step at x, or a part of it, a power of two, so that x + h and x - h hardly round."""
    return float(2.0 ** np.round(np.log2(ROOT * max(1.0, abs(x)) * part)))


def central_difference(
    run: Callable[[Array], Array], at: Array, upstream: Array, entry: tuple[int, ...], part: float = 1.0
) -> float:
    """The derivative of sum(run(at) * upstream) along at[entry]; `at` is changed on the way and restored."""
    x = float(at[entry])
    step = step_at(x, part)
    ends = x + step, x - step
    outputs = []
    for end in ends:
        at[entry] = end
        outputs.append(run(at))
    at[entry] = x
    # The ends are floating-point numbers; what lies between them is known exactly.
    return float(np.sum((outputs[0] - outputs[1]) * upstream) / (ends[0] - ends[1]))


def chosen_entries(shape: tuple[int, ...], generator: np.random.Generator) -> list[tuple[int, ...]]:
    """The entries to perturb: all of them, or a random choice of MOST_ENTRIES."""
    entries = list(np.ndindex(shape))
    if len(entries) <= MOST_ENTRIES:
        return entries
    return [entries[place] for place in sorted(generator.choice(len(entries), MOST_ENTRIES, replace=False))]

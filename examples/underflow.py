"""Why losses take logarithms: a product of probabilities underflows, the sum of their logarithms does not.

The generated kernel `sequence_probability` computes both. For T conditionals q the product is q^T (claim B5), which
rounds to 0 once it is at most half of the smallest number of the type: the length at which that happens is computed
first, and then looked for in what the kernel returns.

    python examples/underflow.py
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from generated.numpy.sequence_probability import sequence_probability

CONDITIONALS = (0.5, 0.05, 0.001)


@dataclass(frozen=True)
class Underflow:
    """The first length with a product of 0, as computed beforehand and as found, and the sum of logs there."""

    dtype: str
    conditional: float
    predicted: int
    found: int
    log_probability: float
    expected_log: float


def predicted_length(dtype: str, conditional: float) -> int:
    """The first T with conditional^T at most half of the smallest positive number of the type."""
    smallest = float(np.finfo(dtype).smallest_subnormal)
    return math.ceil((math.log(smallest) - math.log(2)) / math.log(conditional))


def first_zero(dtype: str, conditional: float, longest: int) -> int:
    """The first length up to `longest` at which the kernel's product is 0; `longest` + 1 if there is none."""
    for length in range(1, longest + 1):
        product, _ = sequence_probability(np.full(length, conditional, dtype=dtype))
        if product == 0:
            return length
    return longest + 1


def underflows() -> Iterator[Underflow]:
    """The lengths for both types and all conditionals."""
    for dtype in ("float32", "float64"):
        for conditional in CONDITIONALS:
            predicted = predicted_length(dtype, conditional)
            found = first_zero(dtype, conditional, 2 * predicted)
            _, logs = sequence_probability(np.full(found, conditional, dtype=dtype))
            yield Underflow(dtype, conditional, predicted, found, float(logs), found * math.log(conditional))


def main() -> None:
    """Print a line for each type and conditional."""
    print("type     conditional  product is 0 from length: predicted  found  sum of logs there    T log q")
    for row in underflows():
        print(
            f"{row.dtype}  {row.conditional:11}  {row.predicted:35}  {row.found:5}  {row.log_probability:17.4f}  "
            f"{row.expected_log:9.4f}"
        )


if __name__ == "__main__":
    main()

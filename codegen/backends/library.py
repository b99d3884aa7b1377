"""What is known of an array library: its operators, and the few phrases that are not operators.

The values are in `codegen.backends.numpy_library` and `codegen.backends.torch_library`, a literal each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from codegen.backends.spelling import Spelling


@dataclass(frozen=True)
class Companion:
    """A function that a call computes along with another one of the same argument, {0}, into {other}.

    Attributes:
        operation: The function.
        numbers: Its other arguments, as they are written.
        call: The call that computes both.
    """

    operation: str
    numbers: tuple[str, ...]
    call: str


@dataclass(frozen=True)
class Library:
    """An array library: its operators, and the few phrases that are not operators."""

    name: str
    prefix: str
    operators: Mapping[str, Spelling]
    permute: str
    reductions: Mapping[str, str]
    arange: str
    arange_number: str
    zeros: str
    eye: str
    clone: str
    spread: str  # an array at every place of a larger one; its entries share memory
    full: str  # an array of one number
    as_number: str
    positions: str  # a table of positions as what is looked up by
    scatter: str
    where_host: str
    number: str  # a number of the host as an array, where a selection of two would round it
    blocks: bool
    lots: bool  # whether a stack of matrices is multiplied as fast as one after the other
    plain_summands: bool  # whether functions that keep their last digits are spelled out where these are not seen
    contiguous: str  # lays an array out anew, in the order of its axes, where products would do so each time
    sum_of_rows: str  # the sum over the first axis of a matrix, where that is no call of its own
    sum_along_rows: str  # the sum along the last axis beside products of matrices, where that is no call of its own
    turned: str  # {0} with its last two axes exchanged for {rows} rows of products, where these want it laid out anew
    dots: str  # the sum of products along the last axis, where that is no call of its own
    times_vector: Spelling  # the product of a matrix and a vector, {0} and {1}
    vector_first: Spelling  # the product of a vector, {1}, and a matrix, {0}
    sums_products: bool  # whether a sum of products is faster as a product and a sum than by einsum
    axis: str
    into: Mapping[str, str]
    companions: Mapping[str, Companion]
    in_place: Mapping[str, str]
    needs_array_first: bool
    assigning_copies: bool  # whether an assignment to a part costs more than a call with the part as its memory
    copy: str
    fill: str
    fill_where: str
    empty: str
    falsehoods: str  # truth values, none of which holds
    holding: str  # a decorator of kernels whose blocks share the cores, where other operations would take these
    lowest: str  # a number that is no larger than any
    products: Mapping[int, str]  # by number of axes, a call that computes a product and nothing else
    adds_products: Mapping[int, str]  # by number of axes, a call that adds a product to what is there
    starts_products: Mapping[int, str]  # likewise, one that adds it to {2}, which is broadcast
    adds_multiples: tuple[tuple[str, str], ...]  # calls that add to {0} the array {1}, or {2} times it; then likewise
    # the product by entry of {1} and {2}, or {3} times it
    norm: str  # the root of the sum of squares along an axis
    bands: tuple[str, str]  # calls that put 0 above, or below, a diagonal of the last two axes
    base_two: Mapping[str, str]  # where exponents are quotients by log(2), the faster operation for one of its own
    has: frozenset[str]
    runtime: Mapping[str, str]

    def in_base_two(self) -> Library:
        """The library where exponents are quotients by log(2)."""
        operators = {name: self.operators[other] for name, other in self.base_two.items()}
        into = {name: self.into[other] for name, other in self.base_two.items()}
        return replace(self, operators={**self.operators, **operators}, into={**self.into, **into})

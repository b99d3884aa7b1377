"""What a computation costs: operations and bytes as polynomials in the sizes, and one number at typical sizes.

Used by every pass that has a choice (`codegen.algebra.reuse`, `codegen.algebra.elimination`,
`codegen.lowering.contractions`). Costs are symbolic, so that `2*T_q*T_k*d` can be read; where two are compared, the
sizes take typical values. These are read off the structure of a program, unless it declares them:

    a size that look-ups point into                                             LOOKED_UP
    a size that a sum of exponentials runs over, and the other side of the
    product of two arrays that makes the exponents                              LONG
    the size that is summed in that product, and the one that an array of
    these exponentials carries over to where it is summed                       SHORT
    a size that both arrays have there, such as heads                           FEW
    the size of a leading index                                                 LEADING
    every other size                                                            WIDE

Three kinds of work are told apart, because array libraries are: matrix products run at the speed of the arithmetic
units, everything elementwise passes over memory or cache, and what is stored between two steps is written and read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr, Indexed

from derive.binders import free_indices, leaves_of
from derive.functions import unfold
from derive.gradient import Gradient
from derive.language import Dim, Index, Tensor
from derive.program import Program

LOOKED_UP, LONG, WIDE, SHORT, LEADING, FEW = 8192, 1024, 512, 64, 16, 8
BYTES = 4  # of an entry, in what is shown; ratios do not depend on it
PASS = 24  # an elementwise operation on one entry, counted in the operations of a matrix product
TRAFFIC = 8  # a byte that is stored and read again, likewise

Sizes = Mapping[str, int]
Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Amount:
    """A polynomial in the sizes, with whole coefficients: how many entries, operations or bytes."""

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    def __add__(self, other: Amount) -> Amount:
        terms = dict(self.terms)
        for monomial, count in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + count
        return Amount({monomial: count for monomial, count in terms.items() if count})

    def times(self, factor: int) -> Amount:
        """The amount so many times."""
        return Amount({monomial: count * factor for monomial, count in self.terms.items()})

    def at(self, sizes: Sizes) -> int:
        """The number at the given sizes."""
        total = 0
        for monomial, count in self.terms.items():
            for name in monomial:
                count *= sizes.get(name, WIDE)
            total += count
        return total

    def __str__(self) -> str:
        ordered = sorted(self.terms.items(), key=lambda item: (-len(item[0]), item[0]))
        shown = [([str(count)] if count != 1 or not monomial else []) + [*monomial] for monomial, count in ordered]
        return " + ".join(map("*".join, shown)) or "0"


NOTHING = Amount()


def entries(axes: Iterable[Index]) -> Amount:
    """How many entries an array over these indices has."""
    return _entries(frozenset(axes))


@lru_cache(maxsize=10_000)
def _entries(axes: frozenset[Index]) -> Amount:
    names, number = [], 1
    for index in axes:
        if isinstance(index.extent, sympy.Integer):
            number *= int(index.extent)
        else:
            names.append(str(index.extent))
    return Amount({tuple(sorted(names)): number})


@dataclass(frozen=True)
class Cost:
    """Operations of matrix products, elementwise operations, and bytes that are stored and read."""

    products: Amount = NOTHING
    passes: Amount = NOTHING
    bytes: Amount = NOTHING

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.products + other.products, self.passes + other.passes, self.bytes + other.bytes)

    @property
    def operations(self) -> Amount:
        """All operations, of products and elementwise."""
        return self.products + self.passes

    def at(self, sizes: Sizes) -> int:
        """The cost as one number, in operations of a matrix product."""
        return self.products.at(sizes) + PASS * self.passes.at(sizes) + TRAFFIC * self.bytes.at(sizes)


FREE = Cost()


# ---------------------------------------------------------------------------------------------------------------------
# Typical sizes.


def typical_sizes(program: Program) -> dict[str, int]:
    """A typical value for each size of a program, by the rules above; what its request declares goes first."""
    if isinstance(program, Gradient):
        program = program.forward
    found: dict[str, int] = {}
    bodies = {definition.symbol: definition for definition in program.definitions}
    for definition in program.definitions:
        for leaf in leaves_of(unfold(definition.body)) | set(definition.indices):
            if isinstance(leaf, Index) and leaf.leading:
                _note(found, {leaf}, LEADING)
            if isinstance(leaf, Tensor) and isinstance(leaf.into, Dim):
                found[str(leaf.into)] = LOOKED_UP
    for definition in program.definitions:
        for exponent, index in _exponents(unfold(definition.body)):
            met = _meeting(exponent, index, bodies)
            _note(found, {index, *met.long}, LONG)
            _note(found, met.short, SHORT)
            _note(found, met.few, FEW)
    for definition in program.definitions:
        for node in definition.body.atoms(sympy.Sum):
            _note(found, _carried(node, found), SHORT)
        for size in leaves_of(definition.body):
            if isinstance(size, Dim):
                found.setdefault(str(size), WIDE)
    return {**found, **(program.request.typical if program.request is not None else {})}


def _note(found: dict[str, int], indices: Iterable[Index], value: int) -> None:
    """Note the value for sizes that have none yet, and for those with a smaller one where this one is large."""
    for index in indices:
        if isinstance(index.extent, Dim):
            known = found.get(str(index.extent))
            found[str(index.extent)] = value if known is None or (LONG in (value, known) and known < value) else known


def _exponents(body: Expr) -> list[tuple[Expr, Index]]:
    """The exponents of summed exponentials, each with the index of its sum."""
    return [
        (exponential.args[0], limit[0])
        for node in sorted(body.atoms(sympy.Sum), key=sympy.default_sort_key)
        for limit in node.limits
        for exponential in sorted(node.function.atoms(sympy.exp), key=sympy.default_sort_key)
        if limit[0] in free_indices(exponential)
    ]


def _carried(node: Expr, found: Sizes) -> set[Index]:
    """The indices of what an array over two long sizes is multiplied with where one of these is summed."""

    def is_long(index: Index) -> bool:
        return found.get(str(index.extent)) == LONG

    factors = [free_indices(factor) for factor in sympy.Mul.make_args(node.function)]
    wide = [axes for axes in factors if sum(map(is_long, axes)) > 1]
    if not wide or not any(is_long(limit[0]) for limit in node.limits):
        return set()
    return {i for axes in factors for i in axes if i not in wide[0] and not is_long(i) and not i.leading}


@dataclass(frozen=True)
class Meeting:
    """How indices meet in the product below an exponent: in one factor only, summed, in all factors."""

    long: frozenset[Index] = frozenset()
    short: frozenset[Index] = frozenset()
    few: frozenset[Index] = frozenset()


def _meeting(exponent: Expr, index: Index, bodies: Mapping[Any, Any]) -> Meeting:
    """The indices of the product of two arrays that makes an exponent over `index`, which may have a name or not."""
    for node in sorted(exponent.atoms(sympy.Sum), key=sympy.default_sort_key):
        if index in free_indices(node):
            reads = sorted(node.function.atoms(Indexed), key=sympy.default_sort_key)
            return _met(node, index, tuple(dict.fromkeys(place for read in reads for place in read.indices)))
    for read in sorted(exponent.atoms(Indexed), key=sympy.default_sort_key):
        definition = bodies.get(read.base)
        if definition is None or index not in read.indices:
            continue
        sums = sorted(definition.body.atoms(sympy.Sum), key=sympy.default_sort_key)
        own = definition.indices[read.indices.index(index)]
        return _met(sums[0], own, definition.indices) if sums else _meeting(definition.body, own, bodies)
    return Meeting()


def _met(product: Expr, own: Index, layout: Sequence[Any]) -> Meeting:
    """How the indices of a sum of products meet, in the order of the layout; `own` is what an exponent is over."""
    sides = [free_indices(factor) for factor in sympy.Mul.make_args(product.function) if free_indices(factor)]
    summed = frozenset(limit[0] for limit in product.limits)
    common = frozenset.intersection(*sides) - summed
    outer = {i for i in frozenset().union(*sides) - common - summed if i in layout and not i.leading}
    # A row has one long index, its last; the others tell rows of several kinds apart.
    across = [i for i in layout if i in outer and i != own]
    return Meeting(frozenset(across[-1:]), summed, frozenset(across[:-1]) | common)

"""What a definition costs, estimated from its formula: each sum in its cheapest order, each operation one pass.

Used by the algebraic passes to choose between forms of a definition. The estimate follows what the generated code does:
elementwise operations of one formula run over what they read; a sum of products is a step of its own, whose operands
and result are stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Pow

from codegen.algebra.costs import BYTES, FREE, Cost, Sizes, entries
from codegen.algebra.networks import Factors, Term, components, names_in, term_of
from codegen.algebra.ordering import Axes, cheapest, stored
from codegen.algebra.rewriting import Definitions, Setting
from derive.binders import free_indices
from derive.functions import Defined, unfold
from derive.language import Index, Scalar, is_bracket
from derive.statements import Definition

FUNCTION = 8  # passes that an exponential, a logarithm and their like are worth


@dataclass(frozen=True)
class Estimate:
    """The cost of an expression, less that of reading its entries, which are `leaves`."""

    cost: Cost
    leaves: frozenset[Any]

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.cost + other.cost, self.leaves | other.leaves)

    @property
    def total(self) -> Cost:
        """The cost with each entry read once."""
        read = sum((entries(free_indices(leaf)).times(BYTES) for leaf in self.leaves), FREE.bytes)
        return self.cost + Cost(bytes=read)


NOTHING = Estimate(FREE, frozenset())


def cost_of(expression: Expr, sizes: Sizes) -> Cost:
    """The cost of an expression, less that of storing its value."""
    known = tuple(sorted(sizes.items()))
    numbers, groups = _apart(expression)
    if [bool(scope) for scope, _ in groups] == [True]:
        ((scope, factors),) = groups
        return _contraction(scope, factors, known).total + _scaling(expression, numbers, factors, sizes)
    return _estimate(expression, known).total


def _apart(expression: Expr) -> tuple[list[Expr], list[tuple[tuple[Index, ...], Factors]]]:
    """The numbers of a product that is no sum of terms, and the groups of its other factors."""
    term = term_of(expression)
    groups = [] if isinstance(expression, Add) else components(term)
    single = [factors[0] for scope, factors in groups if not scope]
    numbers = [base**power for base, power in single if isinstance(base, Scalar)]
    numbers += [term.coefficient] if term.coefficient not in (1, -1) else []
    return numbers, [(scope, factors) for scope, factors in groups if scope or not isinstance(factors[0][0], Scalar)]


def _scaling(expression: Expr, numbers: Sequence[Expr], factors: Factors, sizes: Sizes) -> Cost:
    """The cost of multiplying a sum by numbers: a pass over the result, or over an operand if they are inside."""
    if not numbers:
        return FREE
    if isinstance(expression, sympy.Sum) and factors:
        return _passes(min((_axes(base) for base, _ in factors), key=lambda axes: entries(axes).at(sizes)))
    return _passes(_axes(expression))


def definition_cost(definition: Definition, sizes: Sizes) -> Cost:
    """The cost of a definition: of its body, and of storing the value."""
    return _definition_cost(definition, tuple(sorted(sizes.items())))


@lru_cache(maxsize=20_000)
def _definition_cost(definition: Definition, known: tuple[tuple[str, int], ...]) -> Cost:
    return cost_of(definition.body, dict(known)) + Cost(bytes=entries(definition.indices).times(BYTES))


def routine_cost(definitions: Definitions, setting: Setting) -> Cost:
    """The cost of a routine: of its definitions, and of storing the forward values that are kept for it."""
    total = sum((definition_cost(definition, setting.sizes) for definition in definitions), FREE)
    return sum(_kept(names_in(*(definition.body for definition in definitions)), setting), total)


def routine_weight(definitions: Iterable[Definition], setting: Setting) -> int:
    """The same as one number, at typical sizes: what is compared again and again with one definition less."""
    known, read = tuple(sorted(setting.sizes.items())), set[str]()
    total = 0
    for definition in definitions:
        total += _definition_weight(definition, known)
        read |= names_in(definition.body)
    return total + sum(cost.at(setting.sizes) for cost in _kept(read, setting))


def _kept(read: Collection[str], setting: Setting) -> Iterator[Cost]:
    """The cost of storing each forward value that is read, and is not stored in any case."""
    for known in setting.forward:
        if known.name in read and known.name not in setting.free:
            yield Cost(bytes=entries(known.indices).times(BYTES))


@lru_cache(maxsize=20_000)
def _definition_weight(definition: Definition, known: tuple[tuple[str, int], ...]) -> int:
    return _definition_cost(definition, known).at(dict(known))


def cost_of_terms(terms: Iterable[Term], sizes: Sizes) -> Cost:
    """The cost of some terms, each by itself."""
    return sum((cost_of(term.expression, sizes) for term in terms), FREE)


def _passes(axes: Iterable[Index], count: int = 1) -> Cost:
    return Cost(passes=entries(axes).times(count))


@lru_cache(maxsize=100_000)
def _estimate(node: Any, known: tuple[tuple[str, int], ...]) -> Estimate:
    if isinstance(node, (Indexed, Scalar)):
        return Estimate(FREE, frozenset({node}))
    if not node.args or node.is_number or isinstance(node, Index):
        return NOTHING
    if isinstance(node, Defined):
        return _estimate(unfold(node), known)
    if isinstance(node, Add):
        return _combined([_estimate(part, known) for part in node.args], [_axes(part) for part in node.args], known)
    if isinstance(node, (Mul, sympy.Sum)):
        return _product(node, known)
    own = _passes(_axes(node), _weight(node))
    return sum(
        (_estimate(part, known) for part in node.args if isinstance(part, sympy.Basic)), Estimate(own, frozenset())
    )


def _weight(node: Any) -> int:
    """How many passes an operation is worth."""
    if isinstance(node, Pow):
        small = node.exp.is_Integer and 0 < abs(node.exp) <= 4
        return int(abs(node.exp)) - (1 if node.exp > 0 else 0) if small else 2
    return FUNCTION if isinstance(node, sympy.Function) and not is_bracket(node) else 1


def _axes(node: Any) -> Axes:
    return frozenset(free_indices(node))


def _combined(parts: Sequence[Estimate], axes: Sequence[Axes], known: tuple[tuple[str, int], ...]) -> Estimate:
    """Parts added or multiplied, the smallest first: one pass each, over what is there by then."""
    sizes = dict(known)
    total = sum(parts, NOTHING)
    together: Axes = frozenset()
    for place, own in enumerate(sorted(axes, key=lambda own: (entries(own).at(sizes), len(own)))):
        together |= own
        if place:
            total = total + Estimate(_passes(together), frozenset())
    return total


def _product(node: Expr, known: tuple[tuple[str, int], ...]) -> Estimate:
    """A product: its sums are computed and stored first, its factors multiplied then."""
    parts: list[Estimate] = []
    axes: list[Axes] = []
    for scope, factors in components(term_of(node)):
        own = frozenset().union(*(free_indices(base) for base, _ in factors)) - frozenset(scope)
        axes.append(own)
        if scope:
            parts.append(Estimate(_contraction(scope, factors, known).total + stored(own), frozenset()))
        else:
            ((base, exponent),) = factors
            parts.append(_estimate(base**exponent, known))
    return _combined(parts, axes, known)


def _contraction(
    scope: Sequence[Index], factors: Sequence[tuple[Expr, Expr]], known: tuple[tuple[str, int], ...]
) -> Estimate:
    """A sum of a product of arrays; what is no plain entry is computed and stored first."""
    total = FREE
    arrays: list[Axes] = []
    for base, exponent in factors:
        whole = exponent.is_Integer and exponent > 0
        factor = base if whole else base**exponent
        arrays += [_axes(factor)] * (int(exponent) if whole else 1)
        if not isinstance(factor, (Indexed, Scalar)):
            total = total + _estimate(factor, known).total + (stored(_axes(factor)) if len(factors) > 1 else FREE)
    return Estimate(total + cheapest(arrays, frozenset(scope), dict(known)).cost, frozenset())

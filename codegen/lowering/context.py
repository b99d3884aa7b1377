"""What all parts of lowering share: the context of a definition, the way down, products with the host's part apart.

The rules of lowering are a table (`codegen.lowering.rules`) that the context carries, so that a rule can lower what is
below its node without importing the others.

A value may be wanted in part of its array only: the branch of a selection, a term behind a bracket. The context carries
these conditions, its *domain*, so that functions with a pole get an argument at which they are harmless elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from codegen.errors import KernelError
from codegen.ir.nodes import Axes, Literal, Map, Node
from derive.binders import free_indices
from derive.language import Index

ONE, ZERO = Literal(1), Literal(0)
MINUS_INFINITY = Literal(-1, 1, "inf")


Rule = Callable[[Any, "Context"], Node]


@dataclass(frozen=True)
class Context:
    """What lowering knows: its rules, names of host scalars, the preferred order of axes, where the value is wanted.

    `domain` are conditions of the expression at hand, `around` those from outside the sums that it stands in. `parts`
    names the two parts of each defined logsumexp: its maximum, and the logarithm of the scaled sum. `nonempty` are the
    sizes that are never 0, `sizes` typical values for those that have one. With `finite_tops`, a named maximum is taken
    as the least number where it is -inf. With `in_full`, shares are the result itself, and wanted to the last
    place. Where the context is `counting`, integers are positions, or compared with such; where it is `placing`, they
    say where an entry lies, so that indices are whole numbers and not of the kernel's type. A value is wanted `nowhere`
    where the conditions exclude each other: in the branch that a selection inside another one of its condition never
    takes.
    """

    program: str
    options: frozenset[str]
    order: Axes
    domain: tuple[Any, ...] = ()
    around: tuple[Any, ...] = ()
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    nonempty: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    finite_tops: bool = False
    in_full: bool = False
    counting: bool = False
    placing: bool = False
    nowhere: bool = False
    rules: tuple[tuple[Any, Rule], ...] = field(default=(), repr=False)

    def within(self, condition: Any) -> Context:
        """The context where, in addition, a condition holds."""
        more = [part for part in sympy.And.make_args(condition) if part != sympy.true]
        domain = tuple(dict.fromkeys([*self.domain, *more]))
        excluded = self.nowhere or (domain != self.domain and sympy.And(*domain, *self.around) == sympy.false)
        return replace(self, domain=domain, nowhere=excluded)

    def under(self, bound: Iterable[Index]) -> Context:
        """The context inside a binder; what is said of an outer index of the same name is not about the inner one.

        Shares under a sum are weights, and no result.
        """
        inner = set(bound)
        kept = [part for part in (*self.around, *self.domain) if not free_indices(part) & inner]
        return replace(self, domain=(), around=tuple(dict.fromkeys(kept)), in_full=False)

    def everywhere(self) -> Context:
        """The context of a value that is wanted in the whole of its array."""
        return replace(self, domain=(), around=(), nowhere=False)


def lower(node: Any, context: Context) -> Node:
    """The node for an expression, by the first rule for its kind; 0 where its value is wanted nowhere.

    Raises:
        KernelError: the expression has no array form (a ragged range, a product over a range, an unknown function).
    """
    if context.nowhere:
        return ZERO
    for kind, rule in context.rules:
        if isinstance(node, kind):
            return rule(node, context)
    raise KernelError(f"{context.program}: {node}: {type(node).__name__} cannot be compiled")


def multiplied(nodes: Sequence[Node]) -> Node:
    """The elementwise product, small operands first, so that little is computed at full size."""
    ordered = sorted((node for node in nodes if node != ONE), key=lambda node: len(node.axes))
    if not ordered:
        return ONE
    result = ordered[0]
    for node in ordered[1:]:
        result = Map("mul", (result, node))
    return result


def quotient(above: Sequence[Node], below: Sequence[Node]) -> Node:
    """Above / below with everything that is known before the arrays are touched computed once, on the host."""
    host_above = multiplied([node for node in above if node.is_host])
    host_below = multiplied([node for node in below if node.is_host])
    array = multiplied([node for node in above if not node.is_host])
    for divisor in below:
        # One after the other: the product of two small divisors may be 0 where neither is.
        if not divisor.is_host:
            array = Map("div", (array, divisor))
    if array == ONE:
        return host_above if host_below == ONE else Map("div", (host_above, host_below))
    if host_above == ONE:
        return array if host_below == ONE else Map("div", (array, host_below))
    scale = host_above if host_below == ONE else Map("div", (host_above, host_below))
    return Map("mul", (scale, array))

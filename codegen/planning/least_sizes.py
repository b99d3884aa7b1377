"""How small each size may be: an empty axis is fine wherever the statement still has a value.

Beside `codegen.planning.schedule`, which asks when it plans a kernel; what is found stands in the kernel's header and
is what `bind` refuses. A sum over nothing is 0, and so is everything that is a product with it; an array with an empty
axis has no entries and nothing to compute. What has no value over nothing is a mean, a logarithm or a quotient of an
empty sum:

    C >= 1: mean over c             xc[n, c] = x[n, c] - mean(x[n, c], over=c)
    d_k >= 1: division by d_k       S[i, j] = Sum(Q[i, a]*K[j, a], a) / sqrt(d_k)

What is not evaluated is not looked at: an expression below an index of the same range, which is why a softmax asks for
nothing, and the branch that an empty sum does not take, total / M where M > 0. Functions over an index set with a
condition have their policy for the empty set (`codegen.lowering.rules`).

What is computed once for a whole array is evaluated even if that has no entries, as in x[p] - mean(x[p], over=p) the
number 1 / P. Such divisions by a size are found in the statements that definitions were lowered to (`divided_sizes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Pow
from sympy.core.relational import Relational

from codegen.ir.nodes import Map, Node, Size
from codegen.ir.trees import walk
from derive.binders import leaves_of
from derive.functions import Defined, unfold
from derive.language import Dim, Index, Scalar, Where, is_bracket
from derive.statements import Definition
from derive.writing import written

Needs = Mapping[str, tuple[int, str]]

# Functions over an index, without a condition, that have no value over nothing.
WITHOUT_VALUE = frozenset({"mean", "variance", "logsumexp"})
MEANS = frozenset({"mean", "variance"})  # those of them that divide by the size
LONG = 40  # characters; a longer expression is named by what it is
ZERO_AT_ZERO = (sympy.tanh, sympy.sinh, sympy.sin, sympy.atan, sympy.erf, sympy.sign, sympy.Abs)


def least_sizes(definitions: Sequence[Definition], known: Sequence[Definition]) -> dict[str, tuple[int, str]]:
    """For each size that may not be 0: the least number that it may be, and why.

    Args:
        definitions: what is computed, in order; the first reason for a size is the one that is given.
        known: the definitions whose names may occur in these.
    """
    sizes = sorted({size for definition in definitions for size in _sizes(definition)}, key=str)
    needs: dict[str, tuple[int, str]] = {}
    for size in sizes:
        empty = Empty(size, {made.symbol: made for made in (*known, *definitions)})
        for definition in definitions:
            reason = next(empty.reasons(definition), None)
            if reason is not None:
                needs[str(size)] = (1, reason)
                break
    for definition in definitions:
        for name, least, reason in _fixed_positions(definition):
            if least > needs.get(name, (0, ""))[0]:
                needs[name] = (least, reason)
    return needs


def divided_sizes(nodes: Iterable[Node], definitions: Sequence[Definition]) -> dict[str, tuple[int, str]]:
    """For each size that is divided by, or has its logarithm taken, where there are entries without it: 1, and why.

    Args:
        nodes: what the statements of a kernel compute.
        definitions: what they were lowered from, of which a mean is what such a division comes from.
    """
    found: dict[str, str] = {}
    for node in (part for whole in nodes for part in walk(whole)):
        if isinstance(node, Map) and node.operation in POLES:
            argument = node.operands[-1]
            for size in sorted(_sizes_it_vanishes_with(argument) - {str(index.extent) for index in node.axes}):
                found.setdefault(size, f"{POLES[node.operation]} {size}")
    return {size: (1, _function_over(size, definitions) or reason) for size, reason in sorted(found.items())}


POLES = {"div": "division by", "log": "logarithm of"}


def _sizes_it_vanishes_with(node: Node) -> set[str]:
    """The sizes of which any that is 0 makes a number 0."""
    if isinstance(node, Size):
        return {str(node.extent)}
    if not isinstance(node, Map) or not node.is_host or node.operation not in ("mul", "sqrt", "square"):
        return set()
    return set().union(*map(_sizes_it_vanishes_with, node.operands))


def _function_over(size: str, definitions: Sequence[Definition]) -> str:
    """A mean or a variance over an index of this size, as it is called in a reason; nothing if there is none."""
    for definition in definitions:
        for node in sorted(definition.body.atoms(Defined), key=str):
            over, condition = node.args[2], node.args[4]
            if node.name in MEANS and condition == sympy.true and str(over.extent) == size:
                return f"{node.name} over {over}"
    return ""


def _sizes(definition: Definition) -> set[Dim]:
    leaves = leaves_of(definition.body)
    ranges = [leaves_of(index.extent) for index in leaves.union(definition.indices) if isinstance(index, Index)]
    return {leaf for leaf in leaves.union(*ranges) if isinstance(leaf, Dim)}


def _fixed_positions(definition: Definition) -> Iterator[tuple[str, int, str]]:
    """Entries that are asked for by number: x[n, 1] needs an axis of length 2."""
    for entry in sorted(definition.body.atoms(Indexed), key=str):
        for part, size in zip(entry.indices, entry.base.shape, strict=True):
            if isinstance(part, sympy.Integer) and isinstance(size, Dim):
                yield str(size), int(part) + 1, f"entry {written(entry)}"


@dataclass(frozen=True)
class Empty:
    """What can be said about expressions when one size is 0."""

    size: Dim
    known: Mapping[Any, Definition]

    @cached_property
    def _vanishing(self) -> dict[Any, bool]:
        return {}

    def reasons(self, definition: Definition) -> Iterator[str]:
        """Why the definition has no value."""
        if not any(index.extent == self.size for index in definition.indices):
            yield from self._reasons(definition.body)

    def _reasons(self, node: Any) -> Iterator[str]:
        bound = _bound_indices(node)
        if isinstance(node, Defined):
            over, condition = node.args[2], node.args[4]
            if node.name in WITHOUT_VALUE and condition == sympy.true and over.extent == self.size:
                yield f"{node.name} over {over}"
        elif isinstance(node, Pow) and node.exp.is_negative and not _is_count(node.base) and self.vanishes(node.base):
            yield f"division by {_called(node.base)}"
        elif isinstance(node, sympy.log) and self.vanishes(node.args[0]):
            yield f"logarithm of {_called(node.args[0])}"
        if not any(index.extent == self.size for index in bound):
            for child in self._evaluated(node):
                yield from self._reasons(child)

    def _evaluated(self, node: Any) -> tuple[Any, ...]:
        """The parts of an expression that are evaluated: not the other branch, not what a false bracket multiplies."""
        if isinstance(node, Where):
            held = self._holds(node.args[0])
            return tuple(node.args[1:] if held is None else node.args[1:2] if held else node.args[2:])
        if isinstance(node, Mul) and any(is_bracket(part) and self._holds(part.args[0]) is False for part in node.args):
            return ()
        return () if isinstance(node, (Indexed, Scalar, Index, Dim)) else tuple(node.args)

    def _holds(self, condition: Any) -> bool | None:
        """Whether a comparison with a number holds, where an empty sum decides it."""
        if not isinstance(condition, Relational):
            return None
        sides = [sympy.S.Zero if self.vanishes(side) else side for side in condition.args]
        held = condition.func(*sides)
        return bool(held) if held in (sympy.true, sympy.false) else None

    def vanishes(self, node: Any) -> bool:
        """Whether an expression is 0, by its structure, when the size is."""
        if node not in self._vanishing:
            self._vanishing[node] = False
            self._vanishing[node] = self._vanishes(node)
        return self._vanishing[node]

    def _vanishes(self, node: Any) -> bool:
        """Whether the value is certain to be 0 where the size is, by the kind of the node."""
        if isinstance(node, Dim) or node.is_number:
            return bool(node == self.size or node == 0)
        if isinstance(node, Defined) and node.positional:
            return False
        if isinstance(node, (Indexed, Scalar)):
            base = node.base if isinstance(node, Indexed) else node
            return base in self.known and self.vanishes(self.known[base].body)
        if isinstance(node, Defined):
            return self.vanishes(unfold(node))
        if isinstance(node, sympy.Sum):
            return any(limit[0].extent == self.size for limit in node.limits) or self.vanishes(node.function)
        if isinstance(node, Mul):
            return any(map(self.vanishes, node.args))
        if isinstance(node, Add):
            return all(map(self.vanishes, node.args))
        if isinstance(node, Pow):
            return bool(node.exp.is_positive) and self.vanishes(node.base)
        if isinstance(node, Where):
            return all(map(self.vanishes, node.args[1:]))
        return isinstance(node, ZERO_AT_ZERO) and self.vanishes(node.args[0])


def _bound_indices(node: Any) -> tuple[Index, ...]:
    if isinstance(node, (sympy.Sum, sympy.Product)):
        return tuple(limit[0] for limit in node.limits)
    return (node.args[2],) if isinstance(node, Defined) else ()


def _called(expression: Expr) -> str:
    """The expression as it is written, or what it is where that is long."""
    text = written(expression)
    if len(text) > LONG and isinstance(expression, sympy.Sum):
        return f"a sum over {', '.join(str(limit[0]) for limit in expression.limits)}"
    return text


def _is_count(base: Expr) -> bool:
    """Whether an expression is the size of an index set cut out by a condition; over the empty set a mean is 0."""
    return isinstance(base, sympy.Sum) and all(is_bracket(factor) for factor in Mul.make_args(base.function))

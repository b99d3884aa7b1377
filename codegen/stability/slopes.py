"""Slopes where a function has none: of a root at 0, and of 0 log u.

Beside `codegen.stability.rules`, for the adjoints of a program. A root is 0 at 0 and its slope has no bound there, so
that in d sqrt(u) = du / (2 sqrt(u)) infinity meets a du of 0; and x log u is 0 for every u where x is 0, its slope x/u
is 0/0 where u is 0 too. Three rules, identities wherever the left side has a value:

    u^(p - 1)  =  (u^(p - 1) where u != 0, else 0)        0 < p < 1, for a root that some definition takes
    u^(q - 1)  =  (u^(q - 1) where u != 0 or q >= 1, else 0)      q a letter, which may be below 1
    x / u      =  x / (u where x != 0, else 1)            for the logarithm of u that some definition takes

A root that has a name, s = u^p, is divided by under it: 1/s is taken as 0 where s is 0. The first two give the
smallest of all subgradients, PyTorch's choice as well; the third the derivative of what the definition is by
`codegen.stability.guards`. A bracket that holds only where a root is positive says the same, and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Expr, Indexed, Mul, Ne, Pow, S
from sympy.logic.boolalg import Boolean

from codegen.stability.functions import Weight
from codegen.stability.weights import not_zero, symbol_of
from derive.binders import free_indices, map_children
from derive.exceptional import is_positive, is_root, open_roots
from derive.folding import unify
from derive.functions import unfold
from derive.language import Where, is_bracket
from derive.normal.signs import reasons_nonnegative, reasons_positive
from derive.program import Program
from derive.statements import Definition

SLOPE_AT_ZERO = "(there its slope is taken as 0)"


@dataclass(frozen=True)
class Slopes:
    """What the definitions of a program take roots and logarithms of, as far as it may be 0."""

    program: Program
    roots: bool
    named: frozenset[Any]  # the symbols of definitions that are roots
    logarithms: tuple[Expr, ...]

    def settled(self, node: Any) -> Any:
        """The body of an adjoint with slopes that have no value written as 0."""
        if not (self.roots or self.logarithms):
            return node
        if isinstance(node, Boolean):
            return self._in_weights(node)
        if isinstance(node, Mul):
            return self._product(node)
        if self.roots and self._is_slope_of_root(node):
            return Where(Ne(node.base, 0), node, S.Zero)
        if self.roots and _is_slope_of_power(node) and not is_positive(node.base, self.program):
            return Where(sympy.Or(Ne(node.base, 0), sympy.Ge(node.exp, 0)), node, S.Zero)
        return map_children(node, self.settled)

    def _in_weights(self, node: Any) -> Any:
        """A condition: what it compares is a value of the statement and no slope, but for the weight of a logarithm."""
        return map_children(node, self.settled if isinstance(node, Weight) else self._in_weights)

    def _product(self, node: Mul) -> Expr:
        held = [part.args[0] for part in node.args if is_bracket(part)]
        parts = [part if _is_held(part, held) else self.settled(part) for part in node.args]
        made = node if all(a is b for a, b in zip(parts, node.args, strict=True)) else Mul(*parts)
        return Mul(*(self._divided(factor, made.args) for factor in Mul.make_args(made)))

    def _divided(self, factor: Expr, others: Sequence[Expr]) -> Expr:
        """The factor 1/u for the logarithm of u with u taken as 1 where what it is divided into is 0."""
        if not isinstance(factor, Pow) or factor.exp != -1:
            return factor
        if not any(_is_instance(factor.base, known) for known in self.logarithms):
            return factor
        weights = [part for part in others if _is_weight(part, factor)]
        return 1 / Where(Ne(Weight(Mul(*weights)), 0), factor.base, S.One) if weights else factor

    def _is_slope_of_root(self, node: Any) -> bool:
        """Whether an expression is a power u^q with -1 < q < 0 of something that may be 0, or 1/s for a root s."""
        if not isinstance(node, Pow) or not node.exp.is_Rational or not node.exp.is_negative:
            return False
        if symbol_of(node.base) in self.named:
            return True
        return bool(node.exp > -1) and not node.base.is_number and not is_positive(node.base, self.program)


def slopes(definitions: Sequence[Definition], program: Program) -> Slopes:
    """The slopes that may have no value, of the definitions that adjoints are taken of."""
    found = dict.fromkeys(known for definition in definitions for known in _logarithms(unfold(definition.body)))
    roots = any(True for known in definitions for _ in (*open_roots(known, program), *_letter_powers(known, program)))
    named = frozenset(known.symbol for known in definitions if _is_root(unfold(known.body), program))
    return Slopes(program, roots, named, tuple(found))


def _letter_powers(definition: Definition, program: Program) -> Iterator[Expr]:
    """Powers of what may be 0 with an exponent that is a letter: for all that is known it may be below 1."""
    for node in sympy.preorder_traversal(definition.body):
        if isinstance(node, Pow) and not node.exp.is_number and not is_positive(node.base, program):
            yield node


def _is_slope_of_power(node: Any) -> bool:
    """Whether an expression is u^(q - 1) for a letter q, or has a larger number than 1 there."""
    return isinstance(node, Pow) and not node.exp.is_number and bool(node.exp.as_coeff_Add()[0].is_negative)


def _is_root(body: Expr, program: Program) -> bool:
    """Whether a body is a power u^p with 0 < p < 1 of something that may be 0, or a number times that."""
    factors = [factor for factor in Mul.make_args(body) if not factor.is_number]
    return len(factors) == 1 and is_root(factors[0]) and not is_positive(factors[0].base, program)


def _logarithms(body: Expr) -> Iterator[Expr]:
    """Inputs and defined values that a logarithm is taken of."""
    for node in sympy.preorder_traversal(body):
        if isinstance(node, sympy.log) and isinstance(node.args[0], Indexed):
            yield node.args[0]


def _is_instance(entry: Expr, known: Expr) -> bool:
    """Whether an entry is the known one, up to the names of indices."""
    return isinstance(entry, Indexed) and next(iter(unify(known, entry, {})), None) is not None


def _is_weight(part: Expr, slope: Expr) -> bool:
    """Whether a factor varies with the slope and may be 0."""
    return isinstance(part, Indexed) and free_indices(part) >= free_indices(slope)


def _is_held(part: Expr, conditions: Iterable[Any]) -> bool:
    """Whether one of the conditions says that the same root is not 0."""
    return isinstance(part, Pow) and any(
        part.base in not_zero(condition) or _is_above(part.base, condition) for condition in conditions
    )


def _is_above(base: Expr, condition: Any) -> bool:
    """Whether a condition holds only where a root of the base is larger than a number that is not negative."""
    if isinstance(condition, sympy.And):
        return any(_is_above(base, part) for part in condition.args)
    if not isinstance(condition, (sympy.Gt, sympy.Lt, sympy.Ge, sympy.Le)):
        return False
    root, least = condition.gts, condition.lts
    is_strict = isinstance(condition, (sympy.Gt, sympy.Lt))
    is_root = root == base or (isinstance(root, Pow) and root.base == base and bool(root.exp.is_positive))
    reasons = reasons_nonnegative(least) if is_strict else reasons_positive(least)
    return is_root and reasons is not None

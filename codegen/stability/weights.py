"""Sums of weights that may all be 0: what is divided by one is 0 then, the policy for an empty set.

Beside `codegen.stability.rules`, for statements and adjoints. A weighted mean Sum(w x) / Sum(w) has no value where
every weight is 0, and 0/0 in floating point also where all weights underflow. The sum is taken as 1 there,

    1 / u  =  1 / (u where u != 0, else 1)     for u = Sum(w ...) with w >= 0, by which the statement divides w's sums

an identity wherever the left side has a value. A condition is a weight of 0 or 1, and where all weights are conditions
the sum is the size of an index set, by which anything may be divided, as where it has no name
(`codegen.lowering.rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sympy
from sympy import Expr, Indexed, Mul, Ne, Pow, S

from codegen.stability.functions import Weight
from codegen.stability.guards import spelled_out
from derive.binders import free_indices, leaves_of, map_children
from derive.folding import unify
from derive.functions import unfold
from derive.language import Scalar, Where, is_bracket
from derive.normal.signs import reasons_nonnegative
from derive.statements import Definition

LEVELS = 2  # of definitions that are looked into for the sign of a weight


def totals(definitions: Sequence[Definition]) -> frozenset[Any]:
    """The sums of weights by which what has these weights is divided, by name or, without one, as they stand."""
    bodies = {definition.symbol: definition for definition in definitions}
    found = set()
    for definition in definitions:
        body = unfold(definition.body)
        found |= {total for total in _divisors_without_name(body) if _is_weight(total.function, bodies)}
        if isinstance(body, sympy.Sum):
            factors = Mul.make_args(body.function)
            weights = [part for part in factors if isinstance(part, Indexed) or is_bracket(part)]
            shared = () if all(map(is_bracket, factors)) else weights
            if any(_divides(other, definition, shared) for other in definitions) and _is_weight(body.function, bodies):
                found.add(definition.symbol)
    return frozenset(found)


def divided(node: Any, known: frozenset[Any], safe: frozenset[Any] = frozenset()) -> Any:
    """The expression with each of the totals that it divides by taken as 1 where it is 0.

    Those that are `safe` are known not to be 0: a condition around the quotient, or a bracket beside it, says so.
    """
    if not known:
        return node
    if isinstance(node, Pow) and node.exp.is_negative and _is_total(node.base, known) and node.base not in safe:
        return Where(Ne(Weight(node.base), 0), node.base, S.One) ** node.exp
    if isinstance(node, Where):
        condition, yes, no = node.args
        return Where(
            divided(condition, known, safe), divided(yes, known, safe | not_zero(condition)), divided(no, known, safe)
        )
    if isinstance(node, Mul):
        safe = safe.union(*(not_zero(factor.args[0]) for factor in node.args if is_bracket(factor)))
    return map_children(node, lambda part: divided(part, known, safe))


def not_zero(condition: Any) -> frozenset[Any]:
    """What is not 0 where a condition holds: x where it says x > 0 or x != 0, or that and more."""
    if isinstance(condition, sympy.And):
        return frozenset().union(*map(not_zero, condition.args))
    sides = frozenset(condition.args) if isinstance(condition, (sympy.Gt, sympy.Lt, Ne)) else frozenset()
    return sides - {S.Zero} if S.Zero in sides else frozenset()


def _is_weight(summand: Expr, bodies: dict[Any, Definition]) -> bool:
    """Whether a summand is never negative, seen with the definitions that it reads, and may be 0."""
    return reasons_nonnegative(_written_in(summand, bodies, LEVELS)) is not None


def _written_in(node: Any, bodies: dict[Any, Definition], levels: int) -> Any:
    body = spelled_out(node, bodies) if levels else None
    if body is not None:
        return _written_in(body, bodies, levels - 1)
    return map_children(node, lambda part: _written_in(part, bodies, levels))


def _is_total(base: Expr, known: frozenset[Any]) -> bool:
    """Whether an expression is one of the totals, up to the names of indices."""
    if not isinstance(base, sympy.Sum):
        return symbol_of(base) in known
    return any(True for total in known if isinstance(total, sympy.Sum) for _ in unify(total, base, {}))


def _divisors_without_name(body: Any) -> Iterator[Any]:
    """The sums of entries by which a body divides what has these entries."""
    for node in sympy.preorder_traversal(body):
        factors = Mul.make_args(node) if isinstance(node, Mul) else ()
        divisors = (factor.base for factor in factors if isinstance(factor, Pow) and factor.exp.is_negative)
        for total in (base for base in divisors if isinstance(base, sympy.Sum)):
            weights = [part for part in Mul.make_args(total.function) if isinstance(part, Indexed)]
            if any(_is_instance(part, weight) for part in _numerators(factors) for weight in weights):
                yield total


def _divides(other: Definition, total: Definition, weights: Sequence[Expr]) -> bool:
    """Whether a definition divides something by the total: something that has one of the weights, if any are given."""
    body = unfold(other.body)
    if total.symbol not in leaves_of(body):
        return False
    for node in sympy.preorder_traversal(body):
        factors = Mul.make_args(node) if isinstance(node, Mul) else ()
        if any(isinstance(f, Pow) and f.exp.is_negative and symbol_of(f.base) == total.symbol for f in factors):
            shown = any(_is_instance(part, weight) for part in _numerators(factors) for weight in weights)
            return shown or not weights
    return False


def _numerators(factors: Sequence[Expr]) -> Iterator[Expr]:
    for factor in factors:
        if isinstance(factor, sympy.Sum):
            yield from Mul.make_args(factor.function)
        yield factor


def _is_instance(part: Expr, weight: Expr) -> bool:
    return bool(free_indices(part)) and any(True for _ in unify(weight, part, {}))


def symbol_of(node: Any) -> Any:
    """The name that an expression reads, or None."""
    return node.base if isinstance(node, Indexed) else node if isinstance(node, Scalar) else None

"""Exceptional points: where a definition has no derivative, or no value because an index set is empty.

Used by `derive.gradient` and `derive.tangents`, which differentiate definitions and record what they had to leave out,
and by `derive.prove`, whose verdicts repeat it. Nothing is computed here; a point is a sentence about the statement,
which ends with the convention that the derived formulas follow there, if there is one:

    almost everywhere: not where x[i] >= 0 switches ...     ReLU at 0, a tie of a maximum, |x| at 0
    not differentiable where Sum_i(v[i]**2) = 0 ...         a norm at the zero vector, the deviation of a constant row
    no empty index set: some j with allowed[i,j] > 0 ...    a masked softmax or mean over nothing, 0/0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr, Pow

from derive.binders import substitute, symbols_of
from derive.functions import Defined, unfold
from derive.language import Index, Scalar, Tensor, Where
from derive.normal.signs import plain_places, reasons_positive
from derive.program import Program
from derive.statements import Definition
from derive.writing import written

LEVELS = 2  # of definitions that are looked into for the sign of what a root is taken of
CASE_TAKEN = "(by convention the gradient of the case that holds)"
NO_VALUE = "(the gradient has no value there)"
OVER_NOTHING = {"softmax": "0/0", "log_softmax": "log 0", "logsumexp": "log 0", "mean": "0/0", "variance": "0/0"}


def is_differentiable(symbol: Any) -> bool:
    """Whether a name is a real quantity, not an index table, a length, a flag or an integer."""
    if isinstance(symbol, Tensor):
        return symbol.into is None and not symbol.label.is_integer
    return isinstance(symbol, Scalar) and not symbol.is_integer


def record_points(made: Program, definitions: Sequence[Definition], program: Program, moved: AbstractSet[Any]) -> None:
    """Add to `made` where derivatives of definitions of `program` may not exist, and what `program` rests on itself.

    `moved` are the names that vary. A case that is taken by others is the same one nearby.
    """
    made.differentiated = True
    points = [text for known in definitions for text in points_without_derivative(known, program, moved)]
    found = [switch for known in definitions for switch in switches(known, moved)]
    made.assumptions[:] = dict.fromkeys([*made.assumptions, *program.assumptions, *points])
    made.switches[:] = dict.fromkeys([*made.switches, *program.switches, *found])


def points_without_derivative(definition: Definition, program: Program, moved: AbstractSet[Any]) -> list[str]:
    """Where the definition may have no derivative with respect to the values that are moved, in a fixed order."""
    roots = roots_at_zero(definition, program, moved)
    return [*switching_conditions(definition, moved), *roots, *empty_index_sets(definition)]


def switching_conditions(definition: Definition, moved: AbstractSet[Any]) -> list[str]:
    """Conditions on moved values in a definition: at their switching points there may be no derivative."""
    found = switches(definition, moved)
    return sorted({f"almost everywhere: not where {switch} switches {CASE_TAKEN}" for switch in found})


def switches(definition: Definition, moved: AbstractSet[Any]) -> list[Any]:
    """The conditions on moved values that a definition takes its cases by, in a fixed order."""
    found = {
        condition
        for case in unfold(definition.body).atoms(Where)
        for condition in case.args[:1]
        if any(map(is_differentiable, symbols_of(condition) & moved))
    }
    return sorted(found, key=str)


# ---------------------------------------------------------------------------------------------------------------------
# Roots.


def roots_at_zero(definition: Definition, program: Program, moved: AbstractSet[Any]) -> list[str]:
    """Roots of something moved that may be 0: their value is 0 there, and their slope has no bound."""
    return sorted({text for text, inside in open_roots(definition, program) if symbols_of(inside) & moved})


def open_roots(definition: Definition, program: Program) -> Iterator[tuple[str, Expr]]:
    """What roots are taken of and may be 0, each with the sentence that says so."""
    for node in sympy.preorder_traversal(definition.body):
        if (
            is_root(node)
            and any(is_differentiable(symbol) for symbol in symbols_of(node.base))
            and not is_positive(node.base, program)
        ):
            yield f"not differentiable where {written(node.base)} = 0 {NO_VALUE}", node.base


def is_root(node: Any) -> bool:
    """Whether an expression is a power u^(p/q) with 0 < p/q < 1, which has a value and no derivative at u = 0."""
    return isinstance(node, Pow) and bool(node.exp.is_Rational) and bool(0 < node.exp < 1) and not node.base.is_number


def is_positive(expression: Expr, program: Program) -> bool:
    """Whether an expression is positive by its structure, names looked into as far as LEVELS definitions deep."""
    for _ in range(LEVELS):
        if reasons_positive(unfold(expression)) is not None:
            return True
        expression = _one_level(expression, program)
    return reasons_positive(unfold(expression)) is not None


def _one_level(expression: Expr, program: Program) -> Expr:
    names: dict[Any, Any] = {}
    for node in expression.atoms(sympy.Indexed, Scalar):
        base = node.base if isinstance(node, sympy.Indexed) else node
        known = program.definition(str(base.name))
        if known is not None and known.symbol == base:
            names[node] = known.at(node)
    return substitute(expression, names)


# ---------------------------------------------------------------------------------------------------------------------
# Index sets.


def empty_index_sets(definition: Definition) -> list[str]:
    """The index sets of masked functions that may be empty: a softmax or a mean over nothing is 0/0."""
    return sorted(
        {f"{text}; without any, {name} is {OVER_NOTHING[name]}" for name, text in masked_functions(definition)}
    )


def masked_functions(definition: Definition) -> tuple[tuple[str, str], ...]:
    """Each function over an index set that may be empty: its name, and the sentence that says that the set is not."""
    return _masked_functions(definition.body)


@lru_cache(maxsize=20_000)
def _masked_functions(body: Expr) -> tuple[tuple[str, str], ...]:
    found = []
    for node in sympy.preorder_traversal(body):
        if isinstance(node, Defined):
            bound, condition = node.args[2], node.args[4]
            if condition != sympy.true and not _is_met(condition, bound):
                found.append((node.name, f"no empty index set: some {bound} with {written(condition)}"))
    return tuple(found)


def _is_met(condition: Any, bound: Index) -> bool:
    """Whether the condition plainly holds at some place: at 0, or where the index meets another of its range."""
    return any(substitute(condition, {bound: place}) == sympy.true for place in plain_places(condition, bound))

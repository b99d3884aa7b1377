"""The reference: a program evaluated as it is written, on arrays whose axes are named by indices.

The first witness of `codegen.checking.examination`. It reads the same statement as the compiler and shares nothing with
it: no lowering, no stable forms, no planning. Softmax is exp divided by a sum, a contraction is a broadcast product
summed axis by axis. Every subexpression becomes an array together with the index that each axis runs over; two of them
meet by permuting and inserting axes. The arrays are NumPy's or torch's (`codegen.checking.array_library`); with torch,
autograd can run through the evaluation.

A branch that is not taken has no value. So the arguments of functions and powers are replaced by 1 where a surrounding
`Where`, or a bracket that multiplies them, does not hold: log(x) where x > 0 meets no negative x, neither in the value
nor, as a NaN times zero, in the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, BooleanAtom, Not, Or

from codegen.checking.array_library import ArrayLibrary
from derive.errors import StatementError
from derive.functions import unfold
from derive.language import Dim, Flag, Index, Scalar, Where, is_bracket
from derive.program import Program

__all__ = ["NamedArray", "Setting", "aligned", "evaluate", "run_program"]


@dataclass(frozen=True)
class NamedArray:
    """An array and, for each of its axes, the index that runs over it."""

    array: Any
    axes: tuple[Index, ...]


@dataclass(frozen=True)
class Setting:
    """What an expression is evaluated in.

    Attributes:
        library: Whose arrays.
        sizes: A number for each size.
        values: An array for each tensor, an array or number for each scalar, a truth value for each flag.
        domain: Where the value is wanted at all, as truth values; None for everywhere.
    """

    library: ArrayLibrary
    sizes: Mapping[str, int]
    values: Mapping[str, Any]
    domain: NamedArray | None = None


def run_program(
    program: Program, inputs: Mapping[str, Any], sizes: Mapping[str, int], library: ArrayLibrary
) -> dict[str, Any]:
    """The values of all definitions, in order, each an array with one axis for each index of the definition.

    Raises:
        StatementError: a definition has a range that depends on an index, for which there is no rectangular array.
    """
    values = dict(inputs)
    for definition in program.definitions:
        setting = Setting(library, sizes, values)
        body = evaluate(unfold(definition.body), setting)
        extents = tuple(extent(index, setting) for index in definition.indices)
        values[definition.name] = library.broadcast(aligned(body, definition.indices, library), extents)
    return {name: values[name] for name in program.names()}


def evaluate(expression: Any, setting: Setting) -> NamedArray:
    """The value of an unfolded expression: float64, or truth values for a condition.

    Raises:
        StatementError: the expression contains something that has no value here.
    """
    if expression.is_Atom and expression.is_number:
        return NamedArray(setting.library.array(float(expression)), ())
    function = setting.library.functions.get(type(expression))
    if function is not None:
        argument = tamed(evaluate(expression.args[0], setting), setting)
        return NamedArray(function(argument.array), argument.axes)
    for kind, rule in RULES:
        if isinstance(expression, kind):
            return rule(expression, setting)
    raise StatementError(f"{expression}: {type(expression).__name__} has no value in the reference evaluation")


# ---------------------------------------------------------------------------------------------------------------------
# Named axes.


def aligned(value: NamedArray, axes: Sequence[Index], library: ArrayLibrary) -> Any:
    """The array with its axes in the given order, and an axis of length 1 for each index that it lacks."""
    kept = tuple(index for index in axes if index in value.axes)
    permuted = library.permute(value.array, tuple(value.axes.index(index) for index in kept))
    lengths = dict(zip(kept, permuted.shape, strict=True))
    return permuted.reshape(tuple(lengths.get(index, 1) for index in axes))


def all_axes(values: Sequence[NamedArray]) -> tuple[Index, ...]:
    """The axes of all values, each once, in order of first appearance."""
    return tuple(dict.fromkeys(index for value in values for index in value.axes))


def joined(operation: Callable[..., Any], values: Sequence[NamedArray], library: ArrayLibrary) -> NamedArray:
    """The operation applied to the arrays, entry by entry, once their axes are aligned."""
    axes = all_axes(values)
    return NamedArray(operation(*(aligned(value, axes, library) for value in values)), axes)


def folded(operation: Callable[[Any, Any], Any], values: Sequence[NamedArray], library: ArrayLibrary) -> NamedArray:
    """The operation between the first two arrays, then between the result and the third, and so on."""
    return reduce(lambda left, right: joined(operation, [left, right], library), values)


def extent(index: Index, setting: Setting) -> int:
    """How many positions an index runs over.

    Raises:
        StatementError: the range depends on another index.
    """
    if isinstance(index.extent, sympy.Integer):
        return int(index.extent)
    if isinstance(index.extent, Dim):
        return setting.sizes[str(index.extent.name)]
    raise StatementError(f"index {index}: its extent {index.extent} depends on an index; no array has such an axis")


# ---------------------------------------------------------------------------------------------------------------------
# Where a value is wanted.


def within(setting: Setting, condition: NamedArray) -> Setting:
    """The setting narrowed to where a condition holds."""
    if setting.domain is not None:
        condition = joined(and_, [setting.domain, condition], setting.library)
    return replace(setting, domain=condition)


def leaving(setting: Setting, bound: Index) -> Setting:
    """The setting inside a binder: an outer index of the same name is another index, and is wanted anywhere it was."""
    domain = setting.domain
    if domain is None or bound not in domain.axes:
        return setting
    kept = tuple(index for index in domain.axes if index != bound)
    return replace(setting, domain=NamedArray(domain.array.any(domain.axes.index(bound)), kept))


def tamed(argument: NamedArray, setting: Setting) -> NamedArray:
    """The argument where it is wanted, 1 elsewhere; every function and every power has a finite slope at 1."""
    if setting.domain is None:
        return argument
    one = NamedArray(setting.library.array(1.0), ())
    return joined(setting.library.where, [setting.domain, argument, one], setting.library)


# ---------------------------------------------------------------------------------------------------------------------
# One rule for each kind of node.


def _size(node: Any, setting: Setting) -> NamedArray:
    return NamedArray(setting.library.array(float(setting.sizes[str(node.name)])), ())


def _index(node: Any, setting: Setting) -> NamedArray:
    return NamedArray(setting.library.positions(extent(node, setting)), (node,))


def _scalar(node: Any, setting: Setting) -> NamedArray:
    value = setting.values[str(node.name)]
    if isinstance(value, (int, float)):
        value = setting.library.array(float(value))
    return NamedArray(setting.library.real(value), ())


def _flag(node: Any, setting: Setting) -> NamedArray:
    return NamedArray(setting.library.array(bool(setting.values[str(node.name)])), ())


def _truth(node: Any, setting: Setting) -> NamedArray:
    return NamedArray(setting.library.array(node == sympy.true), ())


def _entry(node: Any, setting: Setting) -> NamedArray:
    """X[i, token[n], 0, i]: a look-up of one integer array for each axis, whatever the index expressions are."""
    library = setting.library
    # Outside a domain a position is as good as any other: it is there, it has a value, and it receives no gradient.
    parts = [evaluate(part, setting) for part in node.indices]
    axes = all_axes(parts)
    where = tuple(library.whole(aligned(part, axes, library)) for part in parts)
    return NamedArray(library.real(setting.values[str(node.base.name)][where]), axes)


def _sum(node: Any, setting: Setting) -> NamedArray:
    return _reduced(node, setting, lambda array, axis: array.sum(axis), lambda array, count: array * count)


def _product(node: Any, setting: Setting) -> NamedArray:
    return _reduced(node, setting, lambda array, axis: array.prod(axis), lambda array, count: array**count)


def _reduced(
    node: Any, setting: Setting, along: Callable[[Any, int], Any], repeated: Callable[[Any, int], Any]
) -> NamedArray:
    """A sum or product over whole ranges; along an index that the body lacks, it is the body `count` times."""
    bound = [limits[0] for limits in node.limits]
    value = evaluate(node.function, reduce(leaving, bound, setting))
    for index in bound:
        if index in value.axes:
            kept = tuple(other for other in value.axes if other != index)
            value = NamedArray(along(value.array, value.axes.index(index)), kept)
        else:
            value = NamedArray(repeated(value.array, extent(index, setting)), value.axes)
    return value


def _addition(node: Any, setting: Setting) -> NamedArray:
    return folded(add, [evaluate(argument, setting) for argument in node.args], setting.library)


def _multiplication(node: Any, setting: Setting) -> NamedArray:
    brackets = [evaluate(argument.args[0], setting) for argument in node.args if is_bracket(argument)]
    inner = reduce(within, brackets, setting)
    factors = [evaluate(argument, inner) for argument in node.args if not is_bracket(argument)]
    product = folded(mul, [evaluate(sympy.S.One, setting), *factors], setting.library)
    # A name may be infinite where the bracket keeps it away, and its product with 0 is none.
    zero = evaluate(sympy.S.Zero, setting)
    return reduce(
        lambda value, held: joined(setting.library.where, [held, value, zero], setting.library), brackets, product
    )


def _power(node: Any, setting: Setting) -> NamedArray:
    base = tamed(evaluate(node.base, setting), setting)
    if node.exp.is_number:
        return NamedArray(base.array ** float(node.exp), base.axes)
    return joined(pow, [base, evaluate(node.exp, setting)], setting.library)


def _delta(node: Any, setting: Setting) -> NamedArray:
    equal = joined(eq, [evaluate(argument, setting) for argument in node.args[:2]], setting.library)
    return NamedArray(setting.library.real(equal.array), equal.axes)


def _where(node: Any, setting: Setting) -> NamedArray:
    condition = evaluate(node.args[0], setting)
    otherwise = NamedArray(~condition.array, condition.axes)
    yes = evaluate(node.args[1], within(setting, condition))
    no = evaluate(node.args[2], within(setting, otherwise))
    return joined(setting.library.where, [condition, yes, no], setting.library)


def _comparison(node: Any, setting: Setting) -> NamedArray:
    return joined(COMPARISONS[node.rel_op], [evaluate(argument, setting) for argument in node.args], setting.library)


def _all(node: Any, setting: Setting) -> NamedArray:
    return folded(and_, [evaluate(argument, setting) for argument in node.args], setting.library)


def _any(node: Any, setting: Setting) -> NamedArray:
    return folded(or_, [evaluate(argument, setting) for argument in node.args], setting.library)


def _not(node: Any, setting: Setting) -> NamedArray:
    value = evaluate(node.args[0], setting)
    return NamedArray(~value.array, value.axes)


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}

RULES: tuple[tuple[type, Callable[[Any, Setting], NamedArray]], ...] = (
    (Dim, _size),
    (Index, _index),
    (Scalar, _scalar),
    (Flag, _flag),
    (BooleanAtom, _truth),
    (Indexed, _entry),
    (sympy.Sum, _sum),
    (sympy.Product, _product),
    (sympy.Add, _addition),
    (sympy.Mul, _multiplication),
    (sympy.Pow, _power),
    (KroneckerDelta, _delta),
    (Where, _where),
    (Relational, _comparison),
    (And, _all),
    (Or, _any),
    (Not, _not),
)

"""What each operation of an expression computes: one table from node to code.

Part of the numeric side's compiler (`derive.numeric.compilation`, which knows names, indices, exact numbers and
conditions). A rule takes the compiler, the node and the scope, has the parts compiled, and returns the code.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import sympy
from sympy import KroneckerDelta, Piecewise

from derive.binders import scope_of
from derive.errors import StatementError
from derive.language import Where
from derive.numeric.arithmetic import UndefinedError, Value
from derive.numeric.closures import ARITHMETIC, Code, Frame, Scope, looped, together
from derive.numeric.error_bounds import BoundedReals
from derive.numeric.operators import operator_value
from derive.operators import OverInput

if TYPE_CHECKING:
    from derive.numeric.compilation import Compiler


def cases_of(node: Any) -> list[tuple[Any, Any]]:
    """The (condition, value) pairs of a Where or a Piecewise, in order."""
    if isinstance(node, Where):
        condition, yes, no = node.args
        return [(condition, yes), (sympy.true, no)]
    return [(condition, value) for value, condition in node.args]


def _add(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for a sum of terms."""
    terms = together([compiler.value(argument, scope) for argument in node.args])
    return lambda frame: frame[ARITHMETIC].total(terms(frame))


def _mul(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for a product of factors; brackets come first, and one that vanishes ends it, unless all need a value."""
    brackets = [compiler.exact(argument, scope) for argument in node.args if is_mask(argument)]
    factors = together([compiler.value(argument, scope) for argument in node.args if not is_mask(argument)])
    if not brackets:
        return lambda frame: frame[ARITHMETIC].multiply(factors(frame))

    def multiply(frame: Frame) -> Value:
        values = factors(frame) if compiler.strict else None
        for bracket in brackets:
            if not bracket(frame):
                return frame[ARITHMETIC].rational(0)
        return frame[ARITHMETIC].multiply(factors(frame) if values is None else values)

    return multiply


def is_mask(node: Any) -> bool:
    """Whether a factor is 0 or 1 by its form, so that it ends the product where it is 0."""
    if isinstance(node, (Where, Piecewise)):
        return all(value in (0, 1) for _, value in cases_of(node))
    return isinstance(node, KroneckerDelta)


def _pow(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for a power: exact where the exponent is, by square roots of exact numbers where it is a fraction."""
    base, exponent = node.args
    if not compiler.is_exact(exponent):
        low, high = compiler.value(base, scope), compiler.value(exponent, scope)
        return lambda frame: frame[ARITHMETIC].real_power(low(frame), high(frame))
    times = compiler.exact(exponent, scope)
    if compiler.is_exact(base):
        number = compiler.exact(base, scope)
        return lambda frame: frame[ARITHMETIC].rational_power(number(frame), Fraction(times(frame)))
    low = compiler.value(base, scope)
    return lambda frame: frame[ARITHMETIC].power(low(frame), times(frame))


def _loop(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for a Sum or Product over one or more indices."""
    parts = scope_of(node)
    if parts is None:
        raise StatementError(f"{node}: expected a sum or a product over indices")
    inner = dict(scope)
    ranges: list[tuple[int, Code]] = []
    for index in parts.bound:
        extent = compiler.exact(index.extent, inner)
        inner[index] = compiler.place()
        ranges.append((inner[index], extent))
    code = compiler.value(parts.inside[0], inner)
    for slot, extent in reversed(ranges):
        code = looped(slot, extent, code, adds=isinstance(node, sympy.Sum))
    return code


def _function(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for a scalar function of one argument."""
    name, argument = type(node).__name__, compiler.value(node.args[0], scope)
    return lambda frame: frame[ARITHMETIC].apply(name, argument(frame))


def _constant(compiler: Compiler, node: Any, _scope: Scope) -> Code:
    """Code for pi and e."""
    name = type(node).__name__
    return itemgetter(compiler.slot_of(("value", name), lambda field, _s, _i: field.apply(name, field.rational(0))))


def _extreme(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for Max and Min."""
    parts = [compiler.value(argument, scope) for argument in node.args]
    wanted = 1 if isinstance(node, sympy.Max) else -1

    def choose(frame: Frame) -> Value:
        field = frame[ARITHMETIC]
        best, *others = [part(frame) for part in parts]
        for other in others:
            try:
                best = other if field.order(other, best) == wanted else best
            except UndefinedError:
                if not isinstance(field, BoundedReals):
                    raise
                best = field.either(best, other)
        return best

    return choose


def _sign(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for sign and Abs."""
    part, magnitude = compiler.value(node.args[0], scope), isinstance(node, sympy.Abs)

    def signed(frame: Frame) -> Value:
        field, number = frame[ARITHMETIC], part(frame)
        sign = field.rational(field.order(number, field.rational(0)))
        return field.multiply([sign, number]) if magnitude else sign

    return signed


Rule = Callable[["Compiler", Any, Scope], Code]
RULES: tuple[tuple[Any, Rule], ...] = (
    (sympy.Add, _add),
    (sympy.Mul, _mul),
    (sympy.Pow, _pow),
    ((sympy.Sum, sympy.Product), _loop),
    ((Where, Piecewise), lambda compiler, node, scope: compiler.choice(node, scope, compiler.value)),
    ((sympy.Max, sympy.Min), _extreme),
    ((sympy.Abs, sympy.sign), _sign),
    (sympy.Function, _function),
    (sympy.NumberSymbol, _constant),
    (OverInput, operator_value),
)

"""Values of operators over an input: the body is evaluated at several values of the input, and these are combined.

Part of the numeric side's compiler (`derive.numeric.compilation`), for the nodes of `derive.operators`:

- an expectation is the mean over all entries +1 and -1, which are independent with mean 0 and variance 1: exact in any
  arithmetic, and one distribution among those that the statement is about;
- a limit is the value where the input is so large that it no longer changes, in reals;
- an expansion to first order takes the slope from a central difference with many digits, in reals.

A value that does not settle is no value, so that nothing is refuted by a slow limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from derive.errors import BudgetExceededError
from derive.numeric.arithmetic import Reals, UndefinedError, UnsupportedError, Value, reals
from derive.numeric.closures import ARITHMETIC, WORK, Code, Frame, Scope
from derive.numeric.error_bounds import BoundedReals
from derive.operators import Expectation, FirstOrder, Limit

if TYPE_CHECKING:
    from derive.numeric.compilation import Compiler

MOST_SIGNS = 12  # random entries; all their signs are gone through
FAR, FARTHER = Fraction(10**6), Fraction(10**9)  # two large values of a limit's input
DIGITS, SETTLED = 120, 50  # digits that limits and slopes are worked out with, and that they have to agree to
STEP = Fraction(1, 10**30)  # of the central difference: its error is of the order of STEP^2

At = Callable[[Any, Mapping[str, Any]], Any]  # the value of the body in an arithmetic, with inputs replaced


def operator_value(compiler: Compiler, node: Any, scope: Scope) -> Code:
    """Code for an operator over an input."""
    from derive.evaluation import Evaluator

    inner = Evaluator([node.body], compiler.definitions)
    free = inner.free[0]
    slots = [scope[index] for index in free]
    point = compiler.slot_of(("point", ""), lambda _field, sizes, inputs: (sizes, inputs))
    names = [str(known.name) for known in node.inputs]
    combine = RULES[type(node)]

    def run(frame: Frame) -> Value:
        sizes, inputs = frame[point]

        def at(arithmetic: Any, changes: Mapping[str, Any]) -> Any:
            environment = inner.at(arithmetic, sizes, {**inputs, **changes}, limit=frame[WORK])
            environment.move(free, [frame[slot] for slot in slots])
            value = environment.value(0)
            frame[WORK] = environment.work - 1
            return value

        return combine(frame, at, names, inputs)

    return run


def _mean_over_signs(frame: Frame, at: At, names: list[str], inputs: Mapping[str, Any]) -> Value:
    """The expectation, with every random entry +1 or -1."""
    field = frame[ARITHMETIC]
    entries = sum(_size(inputs[name]) for name in names)
    if entries > MOST_SIGNS:
        raise BudgetExceededError(f"evaluation: an expectation over {entries} random entries")
    values = []
    for signs in product((1, -1), repeat=entries):
        drawn = iter(signs)
        values.append(at(field, {name: _filled(inputs[name], drawn) for name in names}))
    return field.multiply([field.total(values), field.rational(Fraction(1, 2**entries))])


def _size(table: Any) -> int:
    return sum(map(_size, table)) if isinstance(table, (tuple, list)) else 1


def _filled(table: Any, numbers: Iterator[int]) -> Any:
    return tuple(_filled(row, numbers) for row in table) if isinstance(table, (tuple, list)) else next(numbers)


def _far_out(frame: Frame, at: At, names: list[str], _inputs: Mapping[str, Any]) -> Value:
    """The limit: the value at a large input, if a much larger one does not change it."""
    fine = _many_digits(frame)
    first, second = (_rounded(fine, at(fine, {names[0]: far})) for far in (FAR, FARTHER))
    if first != second:
        raise UndefinedError("the limit has not settled")
    return frame[ARITHMETIC].rational(second)


def _value_and_slope(frame: Frame, at: At, names: list[str], inputs: Mapping[str, Any]) -> Value:
    """The expansion to first order, if the slopes to both sides agree."""
    fine = _many_digits(frame)
    middle, above, below = (at(fine, {names[0]: place}) for place in (Fraction(0), STEP, -STEP))
    step = fine.rational(STEP)
    right, left = (above - middle) / step, (middle - below) / step
    if abs(right - left) > fine.rational(STEP * 10**10) * max(1, abs(right)):
        raise UndefinedError("there is no slope at 0")
    value = middle + fine.rational(inputs[names[0]]) * (right + left) / 2
    return frame[ARITHMETIC].rational(_rounded(fine, value))


def _many_digits(frame: Frame) -> Reals:
    """Reals with many digits, for arithmetics of real numbers that are known to fewer."""
    if not isinstance(frame[ARITHMETIC], (Reals, BoundedReals)):
        raise UnsupportedError(f"limits and slopes have no exact meaning in {frame[ARITHMETIC].name}")
    return reals(DIGITS)


def _rounded(fine: Reals, value: Any) -> Fraction:
    """The number to SETTLED digits after the point."""
    scale = 10**SETTLED
    return Fraction(int(fine.context.nint(value * scale)), scale)


RULES: Mapping[type, Callable[[Frame, At, list[str], Mapping[str, Any]], Value]] = {
    Expectation: _mean_over_signs,
    Limit: _far_out,
    FirstOrder: _value_and_slope,
}

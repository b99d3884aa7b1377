"""The frame that compiled expressions run on, and the closures they are made of.

Bottom of the numeric side's compiler (`derive.numeric.compilation`). A *frame* is a flat list that holds everything a
point fixes: the arithmetic, how many terms may still be summed and until when, and in places handed out by the compiler
the sizes, the input tables, the current value of every index, the constants, and memos. *Code* is a function of the
frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import itemgetter
from time import thread_time
from typing import Any

from derive.errors import BudgetExceededError
from derive.language import Index
from derive.numeric.arithmetic import Arithmetic, UndefinedError, Value

Frame = list[Any]
Code = Callable[[Frame], Any]
Scope = Mapping[Index, int]  # where the frame holds the value of each index in scope
Inputs = Mapping[str, Any]
Filler = Callable[[Arithmetic, Mapping[str, int], Inputs], Any]  # what a place holds at a point

ARITHMETIC, WORK, DEADLINE, FIRST_FREE = 0, 1, 2, 3  # places in the frame
LOOK = 128  # terms between two looks at the clock
LONGEST = 10_000  # binary digits of an exact power
MISSING = object()  # in place of a value that a memo does not hold


def new_memo(_field: Arithmetic, _sizes: Mapping[str, int], _inputs: Inputs) -> dict[Any, Any]:
    """An empty memo, one for each point."""
    return {}


def converted(table: Any, convert: Callable[[Any], Any]) -> Any:
    """A nested table with every number converted."""
    return [converted(row, convert) for row in table] if isinstance(table, (tuple, list)) else convert(table)


def together(codes: Sequence[Code]) -> Code:
    """Code for the values of several codes, in order; of two or three without a loop, for most have no more."""
    match codes:
        case [first, second]:
            return lambda frame: (first(frame), second(frame))
        case [first, second, third]:
            return lambda frame: (first(frame), second(frame), third(frame))
        case _:
            return lambda frame: tuple([code(frame) for code in codes])


def product(numbers: Iterable[Any]) -> Any:
    """The product of exact numbers."""
    result = 1
    for number in numbers:
        result = result * number
    return result


def exact_power(base: Any, exponent: Any) -> Any:
    """An integer power of an exact number.

    Raises:
        UndefinedError: zero to a negative power, or a number beyond all bounds.
    """
    if abs(exponent) * Fraction(base).numerator.bit_length() > LONGEST:
        raise UndefinedError(f"({base})**({exponent}) has more than {LONGEST} binary digits")
    if exponent >= 0:
        return base ** int(exponent)
    if base == 0:
        raise UndefinedError("division by zero")
    return Fraction(base) ** int(exponent)


def checked(position: int, size: Code, shown: str) -> Code:
    """A fixed position, which has to lie inside the size."""

    def read(frame: Frame) -> int:
        if position >= size(frame):
            raise UndefinedError(f"{shown}: position {position} lies outside a size of {size(frame)}")
        return position

    return read


def remembered(code: Code, slots: tuple[int, ...], memo: int) -> Code:
    """The code with its value kept for each combination of the indices in `slots`."""
    key: Code = itemgetter(*slots) if slots else lambda _frame: ()

    def remembered(frame: Frame) -> Any:
        known, at = frame[memo], key(frame)
        value = known.get(at, MISSING)  # one look where the value is known, as it mostly is
        if value is MISSING:
            value = known[at] = code(frame)
        return value

    return remembered


def defined_entry(memo: int, slots: tuple[int, ...], body: Code, key: Code) -> Code:
    """An entry of a definition, computed at its own indices when it is first asked for."""

    def read(frame: Frame) -> Any:
        known, at = frame[memo], key(frame)
        value = known.get(at, MISSING)
        if value is MISSING:
            for slot, position in zip(slots, at, strict=True):
                frame[slot] = position
            value = known[at] = body(frame)
        return value

    return read


def looped(slot: int, extent: Code, body: Code, *, adds: bool) -> Code:
    """The sum or product of the body over the values of one index; every term counts as work."""

    def run(frame: Frame) -> Value:
        length, field = extent(frame), frame[ARITHMETIC]
        frame[WORK] -= length
        if frame[WORK] < 0:
            raise BudgetExceededError("evaluation: the sums at this point have more terms than the limit allows")
        if frame[WORK] % LOOK < length and thread_time() > frame[DEADLINE]:
            raise BudgetExceededError("evaluation: the time is used up")
        values = []
        for position in range(length):
            frame[slot] = position
            values.append(body(frame))
        return field.total(values) if adds else field.multiply(values)

    return run


def warmer(
    extents: Sequence[tuple[int, Code]], memo: int, slots: tuple[int, ...], body: Code
) -> Callable[[Frame], None]:  # fmt: skip
    """Computes all entries of a definition that have a value; the others are left to whoever asks for them."""

    def warm(frame: Frame, depth: int = 0) -> None:
        if depth < len(extents):
            slot, extent = extents[depth]
            for value in range(extent(frame)):
                frame[slot] = value
                warm(frame, depth + 1)
            return
        key = tuple(frame[slot] for slot in slots)
        try:
            value = body(frame)
        except (ArithmeticError, RecursionError):
            return
        frame[memo][key] = value

    return warm

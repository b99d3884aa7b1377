"""What a statement may be made of, checked where it enters: names that can be printed into code, and expressions.

Underneath `derive.symbols`. Text is never parsed: a name is a name, and an expression is a SymPy object or a number.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import sympy
from sympy import Expr
from sympy.logic.boolalg import Boolean

from derive.errors import StatementError

LARGEST_NUMBER = 10_000  # bits of an integer that is written out


LONGEST = 80  # characters of an object that a message shows


def shown(value: object) -> str:
    """The object as Python shows it, on one line and cut where it is long: what a message says that it found."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def checked_name(name: object, what: str) -> str:
    """The name itself, when it can stand as a Python identifier in generated code.

    Raises:
        StatementError: the name is not an identifier, is a keyword, or starts with an underscore.
    """
    if not isinstance(name, str):
        raise StatementError(f"{what}: the name must be a string, found {name!r}")
    if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise StatementError(
            f"{what} {name!r}: not a usable name; expected an ASCII Python identifier that is no keyword and does not "
            "start with an underscore, because the name is printed into generated code"
        )
    return name


def split_names(names: object, what: str) -> list[str]:
    """The names of a blank- or comma-separated list, each checked."""
    if not isinstance(names, str):
        raise StatementError(f"{what}: expected names in one string, as in 'a b', found {names!r}")
    parts = names.replace(",", " ").split()
    if not parts:
        raise StatementError(f"{what}: expected at least one name, found {names!r}")
    return [checked_name(part, what) for part in parts]


def expression_of(value: object, what: str) -> Any:
    """The value as a SymPy expression or condition; Python numbers become exact or decimal numbers.

    Raises:
        StatementError: it is neither. Text is never parsed.
    """
    if isinstance(value, (Expr, Boolean)):
        return value
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    if isinstance(value, int):
        if value.bit_length() > LARGEST_NUMBER:
            raise StatementError(
                f"{what}: a number of {value.bit_length()} bits, expected at most {LARGEST_NUMBER}; give it a name "
                "with scalar(...)"
            )
        return sympy.Integer(value)
    if isinstance(value, float):
        return sympy.Float(str(value))
    if isinstance(value, Fraction):
        return sympy.Rational(value.numerator, value.denominator)
    raise StatementError(f"{what}: expected an expression in index notation, found {value!r}")


def condition_of(value: object, what: str) -> Any:
    """The value as a condition; what else it may be is for the rules of `derive.wellformed` to say.

    Raises:
        StatementError: it is Python's True or False. `i == j` is False where i and j are two names, at all values.
    """
    if isinstance(value, bool):
        raise StatementError(
            f"{what}: expected a condition, found Python's {value}: ==, !=, `and`, `or` and `not` are answered at "
            "once, for the names and not for their values; write Eq(i, j), Ne(i, j), And(...), Or(...), Not(...)"
        )
    return expression_of(value, what)


def listed(values: object, what: str, kind: str) -> tuple[Any, ...]:
    """The values as a tuple.

    Raises:
        StatementError: it is no list of several, but one of them, or a text.
    """
    if isinstance(values, (str, sympy.Basic)) or not isinstance(values, Iterable):
        raise StatementError(f"{what}: expected a list of {kind}, as in [...], found {values!r}")
    return tuple(values)


def value_of(value: object, what: str) -> Any:
    """The value as a SymPy expression; see `expression_of`.

    Raises:
        StatementError: it is a condition, or neither.
    """
    expression = expression_of(value, what)
    if not isinstance(expression, Expr):  # a symbol is both
        raise StatementError(
            f"{what}: expected a value, found the condition {expression}; iverson({expression}) is 1 where it holds"
        )
    return expression

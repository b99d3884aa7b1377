"""What may be asked of a kernel: what it is differentiated for, defaults of its options, usual sizes.

Checked where it is asked, `Program.kernel`, so that a slip has the line it stands in and not a fault in generated code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from sympy import Indexed

from derive.errors import StatementError
from derive.language import Dim, Flag, Scalar, Tensor
from derive.names import shown


def not_a_symbol(found: Any) -> str:
    """What is said of something that is no name of a program: a text, an entry, an expression."""
    if isinstance(found, str):
        return f"expected a tensor or a scalar, found the text {found!r}; write program[{found!r}]"
    if isinstance(found, Indexed):
        return f"expected a tensor or a scalar, found the entry {found}; write {found.base.name}, without indices"
    return f"expected a tensor or a scalar, found {shown(found)}; give it a name with define(...)"


def check_names_of(role: str, found: Iterable[Any], what: str) -> None:
    """Raise unless all that is named, as an output or as what is differentiated for, are tensors and scalars."""
    for one in found:
        if not isinstance(one, (Tensor, Scalar)):
            raise StatementError(f"{what}: {role}: {not_a_symbol(one)}")


def check_variables(variables: Iterable[Any], defined: Sequence[str], what: str) -> None:
    """Raise when a kernel is to be differentiated for something that it computes."""
    for variable in variables:
        if str(variable.name) in defined:
            raise StatementError(
                f"{what}: kernel wrt: expected inputs, found {variable.name}, which is defined here; ask for the "
                "gradient of what it is computed from, or state what follows it as a program of which it is an input"
            )


def checked_defaults(given: Mapping[Any, Any], inputs: Sequence[Any], what: str) -> dict[str, float | bool]:
    """The values that options have when they are left out, by name.

    Raises:
        StatementError: one is for something that is no scalar or flag among the inputs, or of another type.
    """
    options = {str(known.name): known for known in inputs if isinstance(known, (Scalar, Flag))}
    result: dict[str, float | bool] = {}
    for key, value in given.items():
        name = _name(key)
        if name not in options:
            kind = "an array" if isinstance(key, Tensor) else "no scalar or flag that is an input here"
            raise StatementError(
                f"{what}: kernel defaults: {name} is {kind}; expected one of {', '.join(options) or 'none'}"
            )
        wanted = "True or False" if isinstance(options[name], Flag) else "a finite number"
        plain = _plain(value)
        if plain is None or isinstance(plain, bool) != isinstance(options[name], Flag):
            raise StatementError(f"{what}: kernel defaults: {name}: expected {wanted}, found {value!r}")
        result[name] = plain
    return result


def checked_sizes(given: Mapping[Any, Any], what: str) -> dict[str, int]:
    """The usual values of sizes, by name.

    Raises:
        StatementError: one is for no size, or no positive integer.
    """
    for key, value in given.items():
        if not isinstance(key, (Dim, str)):
            raise StatementError(f"{what}: kernel typical: expected a size from dims(...), found {key!r}")
        if type(value) is not int or value < 1:
            raise StatementError(f"{what}: kernel typical: {key}: expected a positive integer, found {value!r}")
    return {_name(key): value for key, value in given.items()}


def _name(key: Any) -> str:
    return str(getattr(key, "name", key))


def _plain(value: Any) -> float | bool | None:
    """A truth value or a finite number as Python's own; None for anything else."""
    if isinstance(value, (bool, int)):
        return value
    if not isinstance(value, Real) and not getattr(value, "is_number", False):
        return None
    number = float(value)
    return number if math.isfinite(number) else None

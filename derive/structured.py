"""Variables with structure: symmetric and triangular matrices, points of the simplex; and the two gradients they have.

Beside the derivation, used by statements. The gradient G of a loss with respect to an unconstrained variable has to be
turned into one for a variable with structure, and there are two ways, each right for its own question:

- *free entries*: the derivative with respect to the entries that can be chosen freely, all others being functions of
  them. For a symmetric matrix these are the entries on and above the diagonal, and one above it stands in two places:
  G + G^T - I o G. This is what a parametrisation by those entries receives.
- *within the space*: the gradient in the space of such variables, with the inner product of all entries. It is the
  projection of G, for symmetric matrices (G + G^T) / 2. This is the direction of steepest ascent among them.

People who mean one and read the other find "a factor 2 missing off the diagonal". So neither is a default:
`structured_gradient` has to be told which. The formulas are not taken on trust either: `derive/library/symmetric.py`
states each variable through its free entries and proves both columns of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sympy import Expr

from derive.binders import all_names, fresh_index
from derive.errors import StatementError
from derive.language import Index, Sum, Tensor, delta, iverson, where
from derive.matrices import Matrix

__all__ = ["STRUCTURES", "Convention", "Structure", "is_free_entry", "structured", "structured_gradient"]


class Convention(Enum):
    """Which of the two gradients is meant."""

    FREE_ENTRIES = "with respect to the free entries"
    WITHIN_SPACE = "within the space of such variables"


@dataclass(frozen=True)
class Structure:
    """A row of the table: how such a variable is made from its free entries, and its two gradients.

    Each function takes a tensor, which it reads by subscripts, and a place. `value` is the variable's entry there; an
    entry of the tensor that is not free is never read. `is_free` takes the place only.
    """

    axes: int
    is_free: Callable[..., Any]
    value: Callable[..., Expr]
    gradients: dict[Convention, Callable[..., Expr]]


def _before_last(i: Index) -> Any:
    return i < i.extent - 1


def _over_all(i: Index, body: Callable[[Index], Expr]) -> Expr:
    """The sum of body(k) over the range of i."""
    k = fresh_index(i, all_names(i) | all_names(body(i)))
    return Sum(body(k), k)


STRUCTURES: dict[str, Structure] = {
    "symmetric": Structure(
        axes=2,
        is_free=lambda i, j: i <= j,
        value=lambda F, i, j: where(i <= j, F[i, j], F[j, i]),
        gradients={
            Convention.FREE_ENTRIES: lambda G, i, j: G[i, j] + G[j, i] - delta(i, j) * G[i, j],
            Convention.WITHIN_SPACE: lambda G, i, j: (G[i, j] + G[j, i]) / 2,
        },
    ),
    "lower triangular": Structure(
        axes=2,
        is_free=lambda i, j: j <= i,
        value=lambda F, i, j: where(j <= i, F[i, j], 0),
        gradients=dict.fromkeys(Convention, lambda G, i, j: iverson(j <= i) * G[i, j]),
    ),
    # A point of the simplex sums to 1: the last entry is what the others leave. Directions in the space sum to 0.
    "simplex": Structure(
        axes=1,
        is_free=_before_last,
        value=lambda F, i: where(_before_last(i), F[i], 1 - _over_all(i, lambda k: iverson(_before_last(k)) * F[k])),
        gradients={
            Convention.FREE_ENTRIES: lambda G, i: G[i] - _over_all(i, lambda k: iverson(k >= i.extent - 1) * G[k]),
            Convention.WITHIN_SPACE: lambda G, i: G[i] - _over_all(i, lambda k: G[k]) / i.extent,
        },
    ),
}


def structured(kind: str, free: Tensor | Matrix, *place: Index) -> Expr:
    """The entry at a place of a variable of this kind, written with the free entries of a tensor of the same shape.

    Raises:
        StatementError: there is no such kind, or the place does not fit it.
    """
    return _row(kind, place).value(_readable(kind, free), *place)


def is_free_entry(kind: str, *place: Index) -> Any:
    """The condition that an entry of a variable of this kind can be chosen freely.

    Raises:
        StatementError: there is no such kind, or the place does not fit it.
    """
    return _row(kind, place).is_free(*place)


def structured_gradient(
    kind: str, gradient: Tensor | Matrix, *place: Index, convention: Convention | None = None
) -> Expr:
    """The gradient at a place for a variable of this kind, from that of an unconstrained one, by the named convention.

    With `Convention.FREE_ENTRIES` it means something at free entries only.

    Raises:
        StatementError: no convention is named, there is no such kind, or the place does not fit it.
    """
    row = _row(kind, place)
    if not isinstance(convention, Convention):
        choices = " or ".join(f"Convention.{choice.name} ({choice.value})" for choice in Convention)
        raise StatementError(
            f"gradient for a {kind} variable: expected convention={choices}, found {convention!r}; they are different "
            "arrays, so one has to be named"
        )
    return row.gradients[convention](_readable(kind, gradient), *place)


def _readable(kind: str, table: Any) -> Any:
    """A tensor or matrix, of which entries can be read."""
    if not isinstance(table, (Tensor, Matrix)):
        raise StatementError(f"{kind} variable: expected a tensor or a matrix, found {table!r}")
    return table


def _row(kind: str, place: tuple[Index, ...]) -> Structure:
    if kind not in STRUCTURES:
        raise StatementError(f"structure {kind!r}: expected one of {', '.join(STRUCTURES)}")
    row = STRUCTURES[kind]
    if len(place) != row.axes or not all(isinstance(index, Index) for index in place):
        raise StatementError(f"{kind} variable: expected {row.axes} indices made by index(...), found {place}")
    if len({index.extent for index in place}) > 1:
        sizes = ", ".join(str(index.extent) for index in place)
        raise StatementError(f"{kind} variable: expected a square matrix, found indices over {sizes}")
    return row

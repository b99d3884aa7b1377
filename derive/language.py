"""The words a statement is written in: the symbols of `derive.symbols`, and sums, brackets and deltas over them.

A statement is a plain SymPy expression over these words, so anyone who knows SymPy can read and print it.

    T, d = dims("T d")
    i, j = indices("i j", T)
    a = index("a", d)
    Q, K = tensors("Q K", T, d)
    Sum(Q[i, a] * K[j, a], a) / sqrt(d)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr, KroneckerDelta, Or, Piecewise
from sympy.logic.boolalg import Boolean

from derive.calls import called_as
from derive.declarations import (
    dim,
    dims,
    flag,
    index,
    indices,
    leading_index,
    lengths,
    scalar,
    scalars,
    tensor,
    tensors,
)
from derive.errors import StatementError
from derive.names import checked_name, condition_of, expression_of, listed, split_names, value_of
from derive.symbols import (
    Dim,
    Flag,
    Index,
    Lengths,
    Scalar,
    Tensor,
    are_comparable,
    axis_sizes,
    check_entry,
    checked_extent,
    entry,
    extent_of,
)

__all__ = [
    "Dim",
    "Flag",
    "Index",
    "Lengths",
    "Product",
    "Scalar",
    "Sum",
    "Tensor",
    "Where",
    "axis_sizes",
    "bind",
    "check_entry",
    "checked_extent",
    "checked_name",
    "condition_of",
    "delta",
    "dim",
    "dims",
    "entry",
    "expression_of",
    "extent_of",
    "flag",
    "implies",
    "index",
    "indices",
    "is_bracket",
    "iverson",
    "leading_index",
    "lengths",
    "listed",
    "scalar",
    "scalars",
    "split_names",
    "tensor",
    "tensors",
    "value_of",
    "where",
]


def bound_range(bound: object, what: str) -> tuple[Index, Expr, Expr]:
    """SymPy's limit triple for an index that runs over its whole extent."""
    if not isinstance(bound, Index):
        raise StatementError(f"{what}: expected an index made by index(...), found {bound!r}")
    return bound, sympy.S.Zero, bound.extent - 1


def bind(kind: type[Expr], body: Any, *limits: tuple[Index, Expr, Expr]) -> Any:
    """The Sum or Product (`kind`) of `body` over SymPy's limit triples, innermost first.

    Made as SymPy's constructor makes it, which first looks through the whole body for what may have to be folded; it is
    asked only where there is such a part.
    """
    if isinstance(body, (kind, Piecewise, Boolean)) or body is sympy.S.NaN or _has_pieces(body):
        return kind(body, *limits)
    made = Expr.__new__(kind)
    made._args = (body, *(sympy.Tuple(*limit) for limit in limits))
    made.is_commutative = body.is_commutative
    return made


@lru_cache(maxsize=50_000)
def _has_pieces(expression: Any) -> bool:
    """Whether SymPy's Piecewise occurs in the expression; what has been read from a statement has none."""
    return isinstance(expression, Piecewise) or any(map(_has_pieces, expression.args))


@called_as("Sum(S[i, j], i, j)")
def Sum(body: Any, *over: Index) -> Expr:  # noqa: N802 - it makes, and is named after, SymPy's Sum
    """Sum of `body` over whole extents of the given indices, outermost first, as a SymPy Sum."""
    if not over:
        raise StatementError(f"Sum({body}): expected at least one index to sum over")
    return bind(sympy.Sum, value_of(body, "Sum"), *[bound_range(bound, "Sum") for bound in reversed(over)])


@called_as("Product(x[i], i)")
def Product(body: Any, *over: Index) -> Expr:  # noqa: N802 - it makes, and is named after, SymPy's Product
    """Product of `body` over whole extents of the given indices, outermost first, as a SymPy Product."""
    if not over:
        raise StatementError(f"Product({body}): expected at least one index to multiply over")
    return bind(sympy.Product, value_of(body, "Product"), *[bound_range(bound, "Product") for bound in reversed(over)])


@called_as("delta(i, j)")
def delta(left: Expr, right: Expr) -> Expr:
    """Kronecker's delta: 1 where the two index expressions agree, else 0.

    Raises:
        StatementError: the two run over different extents, so that the comparison is a slip.
    """
    left, right = value_of(left, "delta"), value_of(right, "delta")
    if not are_comparable(left, right):
        raise StatementError(
            f"delta({left}, {right}): size mismatch: {left} runs over {extent_of(left)} but {right} runs over "
            f"{extent_of(right)}; where that is meant, iverson(Eq({left}, {right})) is 1 where they are equal"
        )
    return KroneckerDelta(left, right)


class Where(Expr):
    """`yes` where a condition holds, else `no`.

    SymPy's Piecewise is not used for this: its constructor looks into nested sums and resolves conditions there as if
    their bound indices were free. A Piecewise that a statement brings along is read as nested Where.
    """

    is_commutative = True

    def __new__(cls, condition: Any, yes: Any, no: Any) -> Expr:
        """The node, or the branch itself when the condition is plainly true or false."""
        held = expression_of(condition, "where")
        if held in (sympy.true, sympy.false):
            return yes if held == sympy.true else no
        return Expr.__new__(cls, held, yes, no)

    def _eval_is_extended_real(self) -> bool:
        return True

    def _sympystr(self, printer: Any) -> str:
        condition, yes, no = map(printer._print, self.args)
        return f"[{condition}]" if (yes, no) == ("1", "0") else f"where({condition}, {yes}, {no})"

    def _latex(self, printer: Any) -> str:
        condition, yes, no = map(printer._print, self.args)
        if (yes, no) == ("1", "0"):
            return rf"\left[{condition}\right]"
        return rf"\begin{{cases}} {yes} & {condition} \\ {no} & \text{{otherwise}} \end{{cases}}"


@called_as("where(j <= i, x[j], 0)")
def where(condition: Any, yes: Any, no: Any = 0) -> Expr:
    """`yes` where the condition holds, else `no`."""
    return Where(condition_of(condition, "where"), value_of(yes, "where"), value_of(no, "where"))


def is_bracket(expression: Any) -> bool:
    """Whether the expression is an Iverson bracket, which is its own square."""
    return isinstance(expression, Where) and expression.args[1:] == (sympy.S.One, sympy.S.Zero)


def iverson(condition: Any) -> Expr:
    """Iverson's bracket: 1 where the condition holds, else 0."""
    return where(condition, 1, 0)


def implies(premise: Boolean, conclusion: Boolean) -> Boolean:
    """The condition "if premise then conclusion", for instance a mask that applies when a flag is set."""
    return Or(sympy.Not(condition_of(premise, "implies")), condition_of(conclusion, "implies"))

"""Matrix notation, so that a claim can be written the way the document writes it: dV = A^T dO.

A thin layer over the index language: a `Matrix` is a function from two indices to an entry, together with its two
extents. Every operation expands to index notation at once; nothing here is known to the prover. Sizes are checked when
the operation is written, by name: `Q @ K` with inner extents d and T is an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sympy import Expr, SympifyError

from derive.binders import all_names, fresh_index
from derive.calls import called_as
from derive.errors import MisuseError, StatementError
from derive.foreign import no_member
from derive.functions import softmax as softmax_at
from derive.language import Index, Sum, Tensor, value_of
from derive.names import shown


class NoExpressionError(StatementError, SympifyError):
    """A matrix stands where SymPy wants an expression, which a matrix has for each of its entries."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    __str__ = StatementError.__str__


@dataclass(frozen=True, repr=False, eq=False)
class Matrix:
    """A matrix of `rows` by `columns`; `at(i, j)` is its entry and `text` how it was written."""

    rows: Expr
    columns: Expr
    at: Callable[[Expr, Expr], Expr]
    text: str

    def __repr__(self) -> str:
        return f"the matrix {self.text}"

    __array_ufunc__ = None  # NumPy leaves operators to the matrix

    @property
    def shape(self) -> tuple[Expr, Expr]:
        """The numbers of rows and of columns."""
        return self.rows, self.columns

    def __getattr__(self, name: str) -> Any:
        raise no_member(self, name, "a matrix of symbols")

    def _sympy_(self) -> Expr:
        raise NoExpressionError(
            f"{self.text}: expected an expression, found {self!r}; a function of each entry is one of M[i, j], where M "
            "is the matrix"
        )

    def __iter__(self) -> Any:
        raise MisuseError(
            f"{self.text}: expected entries one after the other, found {self!r}; write Sum(M[i, j], i, j)"
        )

    def _compared(self, other: object) -> Any:
        raise MisuseError(
            f"{self.text}: expected values to compare, found {self!r}; a comparison is one of entries, M[i, j] > 0, "
            "and the equality of two matrices is claimed: program.claim(id, M, N)"
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compared
    __hash__ = object.__hash__

    def __getitem__(self, where: tuple[Expr, Expr]) -> Expr:
        if not isinstance(where, tuple) or len(where) != 2:
            raise StatementError(f"{self.text}[{where}]: expected two indices, as in {self.text}[i, j]")
        return self.at(*where)

    @property
    def T(self) -> Matrix:  # noqa: N802 - the transpose is written T everywhere
        """The transpose."""
        return Matrix(self.columns, self.rows, lambda i, j: self.at(j, i), f"{self.text}.T")

    def trace(self) -> Expr:
        """The sum of the entries on the diagonal.

        Raises:
            StatementError: the matrix is not square.
        """
        if self.rows != self.columns:
            raise StatementError(
                f"the trace of {self.text}: size mismatch: it has {self.rows} rows but {self.columns} columns"
            )
        place = Index("k", self.rows)
        place = fresh_index(place, all_names(self.at(place, place)))
        return Sum(self.at(place, place), place)

    def __pow__(self, power: Any) -> Matrix:
        raise StatementError(
            f"{self.text} ** {power}: write {self.text} * {self.text} for the squares of the entries, {self.text} @ "
            f"{self.text} for the product of matrices"
        )

    def __matmul__(self, other: Matrix) -> Matrix:
        if not isinstance(other, Matrix):
            raise StatementError(
                f"{self.text} @ {other}: expected a matrix, as matrix(...) makes it, found {shown(other)}; the product "
                f"with a vector x is Sum(M[i, j]*x[j], j) with M[i, j] of {self!r}"
            )
        if self.columns != other.rows:
            raise StatementError(
                f"{self.text} @ {other.text}: size mismatch: {self.text} has {self.columns} columns but {other.text} "
                f"has {other.rows} rows"
            )

        def at(i: Expr, j: Expr) -> Expr:
            inner = Index("k", self.columns)
            used = all_names(self.at(i, inner)) | all_names(other.at(inner, j)) | all_names(i) | all_names(j)
            inner = fresh_index(inner, used)
            return Sum(self.at(i, inner) * other.at(inner, j), inner)

        return Matrix(self.rows, other.columns, at, f"({self.text} @ {other.text})")

    def __rmatmul__(self, other: object) -> Matrix:
        raise StatementError(
            f"{shown(other)} @ {self.text}: expected a matrix, as matrix(...) makes it, found {shown(other)}"
        )

    def _entrywise(self, other: Any, sign: str, combine: Callable[[Expr, Expr], Expr]) -> Matrix:
        if not isinstance(other, Matrix):
            other = value_of(other, f"{self.text} {sign} {shown(other)}")
            if isinstance(other, Tensor):
                raise StatementError(
                    f"{self.text} {sign} {other}: expected a matrix or a number, found the tensor {other}; write "
                    f"{self.text} {sign} matrix({other})"
                )
            return Matrix(
                self.rows, self.columns, lambda i, j: combine(self.at(i, j), other), f"({self.text} {sign} {other})"
            )
        if (self.rows, self.columns) != (other.rows, other.columns):
            raise StatementError(
                f"{self.text} {sign} {other.text}: size mismatch: {self.text} is {self.rows} x {self.columns} but "
                f"{other.text} is {other.rows} x {other.columns}"
            )
        return Matrix(
            self.rows,
            self.columns,
            lambda i, j: combine(self.at(i, j), other.at(i, j)),
            f"({self.text} {sign} {other.text})",
        )

    def __mul__(self, other: Any) -> Matrix:
        return self._entrywise(other, "*", lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Matrix:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> Matrix:
        return self._entrywise(other, "/", lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Matrix:
        made = self._entrywise(other, "/", lambda a, b: b / a)
        return Matrix(made.rows, made.columns, made.at, f"({other} / {self.text})")

    def __add__(self, other: Any) -> Matrix:
        return self._entrywise(other, "+", lambda a, b: a + b)

    def __sub__(self, other: Any) -> Matrix:
        return self._entrywise(other, "-", lambda a, b: a - b)

    def __radd__(self, other: Any) -> Matrix:
        return self.__add__(other)

    def __rsub__(self, other: Any) -> Matrix:
        return (-self).__add__(other)

    def __neg__(self) -> Matrix:
        return Matrix(self.rows, self.columns, lambda i, j: -self.at(i, j), f"-{self.text}")

    @staticmethod
    def entries_of(left: Any, right: Any, what: str) -> tuple[Expr, Expr, tuple[Index, Index]]:
        """Both sides as entries at the same fresh pair of indices, and the pair.

        Raises:
            StatementError: one side is no matrix, or their sizes differ.
        """
        for side in (left, right):
            if not isinstance(side, Matrix):
                raise StatementError(f"{what}: a matrix can only be compared with a matrix, found {side}")
        if (left.rows, left.columns) != (right.rows, right.columns):
            raise StatementError(
                f"{what}: size mismatch: {left.text} is {left.rows} x {left.columns} but {right.text} is "
                f"{right.rows} x {right.columns}"
            )
        probe = Index("i", left.rows), Index("j", left.columns)
        used = set().union(*(all_names(side.at(*probe)) for side in (left, right))) - {"i", "j"}
        row = probe[0] if "i" not in used else fresh_index(probe[0], used)
        column = probe[1] if "j" not in used else fresh_index(probe[1], used | {row.name})
        return left.at(row, column), right.at(row, column), (row, column)


@called_as("matrix(Q)")
def matrix(tensor: Tensor) -> Matrix:
    """A two-axis tensor as a matrix.

    Raises:
        StatementError: the tensor does not have two axes.
    """
    if not isinstance(tensor, Tensor) or len(tensor.shape) != 2:
        raise StatementError(f"matrix({shown(tensor)}): expected a tensor of two axes, found {_found(tensor)}")
    rows, columns = tensor.shape
    return Matrix(rows, columns, lambda i, j: tensor[i, j], str(tensor.name))


def _found(given: object) -> str:
    if isinstance(given, Tensor):
        return f"one of shape ({', '.join(map(str, given.shape))})"
    return f"the entry {given}" if isinstance(given, Expr) else f"{type(given).__name__!r}"


def matrices(*tensors: Tensor) -> tuple[Matrix, ...]:
    """Several tensors as matrices."""
    return tuple(map(matrix, tensors))


def _along_row(name: str, x: Matrix, entry: Callable[[Expr, Expr, Index], Expr]) -> Matrix:
    if not isinstance(x, Matrix):
        raise StatementError(f"{name}({x}): expected a matrix, as matrix(...) makes it, found {x!r}")

    def at(i: Expr, j: Expr) -> Expr:
        inner = Index("k", x.columns)
        inner = fresh_index(inner, all_names(x.at(i, inner)) | all_names(i) | all_names(j))
        return entry(i, j, inner)

    return Matrix(x.rows, x.columns, at, f"{name}({x.text})")


@called_as("row_sum(matrix(Q))")
def row_sum(x: Matrix) -> Matrix:
    """Each row's sum, broadcast along the row, as in the document."""
    return _along_row("row_sum", x, lambda i, _j, k: Sum(x.at(i, k), k))


@called_as("row_softmax(matrix(Q))")
def row_softmax(x: Matrix) -> Matrix:
    """The softmax of each row."""

    def at(i: Expr, j: Expr, k: Index) -> Expr:
        from derive.binders import substitute

        return substitute(softmax_at(x.at(i, k), over=k), {k: j})

    return _along_row("row_softmax", x, at)

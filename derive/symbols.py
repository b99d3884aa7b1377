"""The symbols of a statement: sizes, indices, tensors, scalars, flags, each with a type of its own.

First stage of the data flow, underneath `derive.language`, which adds sums, brackets and deltas and is what others
import. SymPy knows symbols and indexed objects; what is added here is *type*: every index carries its extent, every
tensor its shape, and an entry `Q[i, a]` is refused on the spot when the two disagree. Nothing here computes.

Much of a proof's time goes into asking whether two parts are equal. Two things make that cheap: what is made twice is
one object (SymPy's cache, as for its own symbols), and what is compared is only what tells two of a class apart. SymPy
would also compare all that it has deduced about a symbol, but that follows from the class and the few facts named here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
from sympy import Expr, Indexed, IndexedBase, Symbol
from sympy.core.assumptions import StdFactKB
from sympy.core.cache import cacheit

from derive.errors import MisuseError, StatementError
from derive.foreign import Symbolic, SymbolicArray, how_to_read
from derive.names import checked_name

# SymPy's own cache, typed. It tells types apart: Python's 1 and True, and SymPy's 1, are equal as keys.
_cached: Callable[[Callable[..., Any]], Callable[..., Any]] = cacheit


class Dim(Symbolic, Symbol):
    """A symbolic size: a positive integer that stays a letter."""

    __slots__ = ()

    def __new__(cls, name: str) -> Dim:
        """A size named `name`."""
        return _symbol(cls, checked_name(name, "size"), integer=True, positive=True)  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What copying needs: the name alone."""
        return (self.name,), {}


class Scalar(Symbolic, Symbol):
    """A real number that is an input of a statement: a learning rate, a temperature, an epsilon."""

    __slots__ = ()

    def __new__(cls, name: str, *, positive: bool = False, integer: bool = False) -> Scalar:
        """A scalar named `name`; `positive` is a hypothesis that proofs may use."""
        known = {"real": True} | ({"positive": True} if positive else {}) | ({"integer": True} if integer else {})
        return _symbol(cls, checked_name(name, "scalar"), **known)  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What copying needs: the name and the two assumptions."""
        return (self.name,), {"positive": bool(self.is_positive), "integer": bool(self.is_integer)}


class Flag(Symbolic, Symbol):
    """A truth value that is an input of a statement, for instance whether a mask applies."""

    __slots__ = ()

    def __new__(cls, name: str) -> Flag:
        """A flag named `name`."""
        return _symbol(cls, checked_name(name, "flag"))  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What copying needs: the name alone."""
        return (self.name,), {}

    def __bool__(self) -> bool:
        """Refused: Python would take every symbol for true, and drop this one from `causal and j <= i`."""
        raise MisuseError(
            f"{self.name}: expected a truth value, found the flag {self.name}, which stands for both; write "
            f"And({self.name}, ...), Or, Not({self.name}), implies({self.name}, ...) or where({self.name}, yes, no) in "
            "place of `and`, `or`, `not` and `if`"
        )


class Index(Symbolic, Symbol):
    """An index that runs over 0 .. extent-1.

    `leading` marks an index that stands for any number of leading array dimensions in generated code (batch, head);
    in the mathematics it is an index like any other.
    """

    __slots__ = ("extent", "leading")
    extent: Expr
    leading: bool

    def __new__(cls, name: str, extent: Expr, leading: bool = False) -> Index:
        """An index named `name` of the given extent."""
        return _index(cls, checked_name(name, "index"), checked_extent(extent, f"index {name!r}"), leading)  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What copying needs: name, extent, leading."""
        return (self.name, self.extent, self.leading), {}

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Index):
            return self is other
        return bool(self.name == other.name and self.extent == other.extent and self.leading == other.leading)

    __hash__ = Symbol.__hash__

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.name, self.extent, self.leading)


@_cached
def _symbol(cls: type[Symbol], name: str, **known: bool) -> Any:
    return Symbol.__xnew__(cls, name, **known)


@_cached
def _index(cls: type[Index], name: str, extent: Expr, leading: bool) -> Any:
    made = Symbol.__xnew__(cls, name, integer=True, nonnegative=True)
    made.extent = extent
    made.leading = leading
    return made


class Tensor(SymbolicArray, IndexedBase):
    """A named array: its shape in symbolic sizes and, for arrays of indices, the extent its entries point into."""

    __slots__ = ()

    def __new__(
        cls, name: str | Symbol, shape: Sequence[Expr], into: Expr | None = None, *, positive: bool = False
    ) -> Tensor:
        """A tensor of the given shape; `into` makes its entries indices 0 .. into-1.

        SymPy rebuilds an expression from the arguments of its parts, which for a tensor are its label, a symbol that
        carries what is known about the entries, its shape, and `into` where there is one.
        """
        label = name if isinstance(name, Symbol) else _label(name, integer=into is not None, positive=positive)
        return _tensor(cls, label, sympy.Tuple(*shape), into)  # type: ignore[no-any-return]

    def _hashable_content(self) -> tuple[Any, ...]:
        return self._args  # type: ignore[no-any-return]

    @property
    def into(self) -> Expr | None:
        """The extent that the entries point into, or None for a tensor of numbers."""
        return self.args[2] if len(self.args) > 2 else None

    @property
    def positive(self) -> bool:
        """Whether every entry is declared positive."""
        return bool(self.label.is_positive)

    def _latex(self, printer: Any) -> str:
        # SymPy's printer would take this class for the tensors of another of its modules.
        return str(printer._print(self.label))

    def __getitem__(self, where: Any) -> IndexedEntry:
        """The entry at the given indices.

        Raises:
            StatementError: the number of indices, or the extent of one of them, does not fit the shape.
        """
        parts = tuple(where) if isinstance(where, (tuple, list, sympy.Tuple)) else (where,)
        parts = tuple(sympy.S(part) if isinstance(part, int) else part for part in parts)
        return _checked_entry(self, parts)  # type: ignore[no-any-return]


class IndexedEntry(Symbolic, Indexed):
    """A tensor at given indices.

    SymPy's own class deduces for each entry anew what holds for all entries of the tensor.
    """

    __slots__ = ()

    def __new__(cls, base: Tensor, *where: Expr) -> IndexedEntry:
        """The entry of `base` at `where`, not checked: it is what SymPy rebuilds an expression by."""
        return _entry(cls, base, where)  # type: ignore[no-any-return]

    def _hashable_content(self) -> tuple[Any, ...]:
        return self._args  # type: ignore[no-any-return]


@_cached
def _tensor(cls: type[Tensor], label: Symbol, shape: sympy.Tuple, into: Expr | None) -> Any:
    made = IndexedBase.__new__(cls, label, shape=shape)
    if into is not None:
        made._args = (*made.args, into)
    return made


@_cached
def _entry(cls: type[IndexedEntry], base: Tensor, where: tuple[Expr, ...]) -> Any:
    made = Expr.__new__(cls, base, *where)
    made._assumptions = StdFactKB()
    made._assumptions.update(base.assumptions0)
    made._assumptions._generator = base.assumptions0
    return made


@_cached
def _checked_entry(tensor: Tensor, where: tuple[Expr, ...]) -> Any:
    check_entry(tensor, where)
    return IndexedEntry(tensor, *where)


def _label(name: str, *, integer: bool, positive: bool) -> Symbol:
    known = {"integer": True, "nonnegative": True} if integer else {"real": True}
    return Symbol(checked_name(name, "tensor"), **known, **({"positive": True} if positive else {}))


class Lengths(Tensor):
    """A tensor of positive integers that serve as extents of ragged ranges: T[n] for sample n."""

    __slots__ = ()


def check_entry(tensor: Tensor, parts: Sequence[Expr]) -> None:
    """Raise unless the indices fit the tensor's shape, axis by axis."""
    shown = f"{tensor.name}[{', '.join(map(_told, parts))}]"
    if len(parts) != len(tensor.shape):
        raise StatementError(
            f"{shown}: {tensor.name} has {len(tensor.shape)} axes of sizes ({', '.join(map(str, tensor.shape))}), "
            f"found {len(parts)} indices"
        )
    for axis, (part, size) in enumerate(zip(parts, tensor.shape, strict=True)):
        if isinstance(part, sympy.Number) and part.is_Integer and part >= 0:
            continue  # a fixed position; whether it lies inside is a matter of the size
        size = size_at(size, parts[:axis])
        found = extent_of(part)
        if found is None:
            raise StatementError(
                f"{shown}: axis {axis} needs an index of extent {size}, found {_told(part)}, which is neither an index "
                f"nor an entry of an index tensor; {how_to_read(tensor, axis, part)}"
            )
        if found != size and not _fits_below(found, size):
            raise StatementError(
                f"{shown}: size mismatch on axis {axis}: {tensor.name} has extent {size} there, but index {part} runs "
                f"over {found}"
            )


def _told(part: object) -> str:
    """An expression as it is written, anything else as Python shows it: the text 'i' is no index i."""
    return str(part) if isinstance(part, sympy.Basic) else repr(part)


def size_at(size: Expr, before: Sequence[Expr]) -> Expr:
    """The size of an axis, given the indices of the axes before it: that of a ragged axis depends on them."""
    if isinstance(size, sympy.Add):
        return sympy.Add(*[size_at(part, before) for part in size.args])
    return size[tuple(before[len(before) - len(size.shape) :])] if isinstance(size, Lengths) else size


def _over_a_size(value: Expr) -> bool:
    """Whether an expression is a size, or the lengths of a ragged axis, plus a positive integer: T + 1.

    A sum of sizes may be less one for each but the first, as what t + k runs over: T + K - 1.
    """
    rest, constant = value.as_independent(Dim, Tensor)
    if isinstance(constant, sympy.Add) and all(isinstance(part, Dim) for part in constant.args):
        return isinstance(rest, sympy.Integer) and rest > -len(constant.args)
    known = isinstance(constant, Lengths) or _is_size(constant)
    return known and isinstance(rest, sympy.Integer) and rest > 0


def extent_of(part: Expr) -> Expr | None:
    """The extent an index expression runs over; None when it is not an index expression.

    A sum of indices and sizes lies between what it is at both ends of their ranges: t + 1 below extent + 1, t + k below
    the sum of the extents less one, a size T (or a length T[n]) used as a position below T + 1, and T - 1 - t,
    which reads backwards, below T. What may be below 0 is no position.
    """
    if _is_size(part):
        return part + 1
    if isinstance(part, sympy.Add):
        pieces = [term.as_coeff_Mul() for term in part.args]
        if not all(_is_step(c, rest) for c, rest in pieces):
            return None
        ends = [
            (rest.extent - 1 if isinstance(rest, Index) else rest, c, isinstance(rest, Index)) for c, rest in pieces
        ]
        lowest = sympy.Add(*(c * end for end, c, varies in ends if not varies or c < 0))
        above = sympy.Add(*(c * end for end, c, varies in ends if not varies or c > 0), 1)
        return above if _never_negative(lowest) else None
    if isinstance(part, Index):
        return part.extent
    if isinstance(part, Indexed) and isinstance(part.base, Tensor):
        return part.base.into
    return None


def _is_step(coefficient: Expr, rest: Expr) -> bool:
    """Whether a term of a position is an index, forwards or backwards, a size, or a whole number."""
    if isinstance(rest, Index):
        return coefficient in (1, -1)
    return bool(coefficient.is_Integer) and (rest == 1 or _is_size(rest))


def _is_size(part: Expr) -> bool:
    """Whether it is a size, or the length of one row."""
    return isinstance(part, Dim) or (isinstance(part, Indexed) and isinstance(part.base, Lengths))


def _never_negative(value: Expr) -> bool:
    """Whether a sum of sizes, each at least 1, and a whole number is at least 0: T - 1 is."""
    parts = value.as_coefficients_dict()
    least = sum(parts.values())
    known = all(
        part == 1 or isinstance(part, Dim) or (isinstance(part, Indexed) and c > 0) for part, c in parts.items()
    )
    return known and all(c > 0 for part, c in parts.items() if part != 1) and bool(least >= 0)


def are_comparable(left: Expr, right: Expr) -> bool:
    """Whether a delta may compare two positions: of one range, of two rows of a ragged axis, or of an unknown range."""
    ranges = [found.base if isinstance(found, Indexed) else found for found in map(extent_of, (left, right))]
    return None in ranges or ranges[0] == ranges[1]


def _fits_below(found: Expr, size: Expr) -> bool:
    """Whether a range of symbolic size lies inside another: T in T + 1, and in T + K - 1, as a size is at least 1."""
    rest, sizes = (size - found).as_independent(Dim, as_Add=True)
    spare = () if sizes == 0 else sympy.Add.make_args(sizes)
    plain = isinstance(rest, sympy.Integer) and all(isinstance(part, Dim) for part in spare)
    return bool(found.has(Dim, Indexed)) and plain and rest + len(spare) >= (0 if spare else 1)


def checked_extent(extent: object, what: str) -> Expr:
    """The extent as an expression: a size, a positive integer, one of these plus one, or a length (a ragged range)."""
    value = sympy.Integer(extent) if type(extent) is int else extent
    if _is_size(value) or (isinstance(value, sympy.Integer) and value > 0):
        return value
    if isinstance(value, sympy.Add) and _over_a_size(value):
        return value
    raise StatementError(
        f"{what}: expected a size from dims(...), a positive integer, or an entry of lengths(...), found {extent!r}"
    )


def axis_sizes(over: Sequence[Index]) -> list[Expr]:
    """The shape of a tensor over the given indices; a range T[n] becomes the ragged axis T."""
    return [index.extent.base if isinstance(index.extent, Indexed) else index.extent for index in over]


def entry(base: Tensor | Symbol, where: Sequence[Expr]) -> Expr:
    """The entry of a tensor at the given indices, or the scalar itself when there are none."""
    if isinstance(base, Tensor):
        return base[tuple(where)]
    return base

"""How a statement declares its symbols: dims("T d"), indices("i j", T), tensor("X", T, d), scalars("s r").

Beside `derive.symbols`, which says what the symbols are; `derive.language` is what others import. What is declared here
is all that a proof may take for granted: sizes are at least 1, `positive` is positive, and nothing else has a sign.
"""

from __future__ import annotations

from typing import Any

from sympy import Expr, Indexed, Symbol

from derive.calls import called_as
from derive.errors import StatementError
from derive.names import checked_name, split_names
from derive.symbols import Dim, Flag, Index, Lengths, Scalar, Tensor, checked_extent


@called_as('dim("T")')
def dim(name: str) -> Dim:
    """One symbolic size."""
    return Dim(name)


@called_as('dims("T d")')
def dims(names: str) -> tuple[Dim, ...]:
    """Symbolic sizes, one for each name in `names`."""
    return tuple(Dim(name) for name in split_names(names, "size"))


@called_as('scalar("eps", positive=True)')
def scalar(name: str, *, positive: bool = False, integer: bool = False) -> Scalar:
    """A real number that is an input of the statement."""
    return Scalar(name, positive=positive, integer=integer)


@called_as('scalars("s r")')
def scalars(names: str, *, positive: bool = False) -> tuple[Scalar, ...]:
    """Real numbers, one for each name in `names`."""
    return tuple(Scalar(name, positive=positive) for name in split_names(names, "scalar"))


@called_as('flag("causal")')
def flag(name: str) -> Flag:
    """A truth value that is an input of the statement."""
    return Flag(name)


@called_as('index("i", T)')
def index(name: str, extent: Any) -> Index:
    """An index over 0 .. extent-1; the extent may be a size, an integer, or an entry such as T[n] (ragged)."""
    return Index(name, extent)


@called_as('indices("i j", T)')
def indices(names: str, extent: Any) -> tuple[Index, ...]:
    """Indices over the same range, one for each name."""
    return tuple(index(name, extent) for name in split_names(names, "index"))


@called_as('leading_index("n", N)')
def leading_index(name: str, extent: Dim) -> Index:
    """An index that generated code accepts as any number of leading dimensions (none, batch, batch and head ...)."""
    return Index(name, extent, leading=True)


@called_as('tensor("Q", T, d)')
def tensor(name: str, *shape: Any, positive: bool = False, into: Any = None) -> Tensor:
    """A tensor of the given shape.

    `positive=True` is a hypothesis that proofs may use. `into=V` makes it a tensor of indices 0 .. V-1, so that
    `E[token[t], c]` is a look-up. A size may be `lengths`: tensor("P", N, T) has T[n] entries for each n.
    """
    sizes = [size if isinstance(size, Lengths) else _plain_size(size, f"tensor {name!r}") for size in shape]
    if not sizes:
        raise StatementError(f"tensor {name!r}: expected at least one size (a number without axes is a scalar(...))")
    target = None if into is None else _plain_size(into, f"tensor {name!r}")
    return Tensor(name, sizes, target, positive=positive)


@called_as('tensors("Q K", T, d)')
def tensors(names: str, *shape: Any, positive: bool = False) -> tuple[Tensor, ...]:
    """Tensors of one shape, one for each name."""
    return tuple(tensor(name, *shape, positive=positive) for name in split_names(names, "tensor"))


@called_as('lengths("T", N)')
def lengths(name: str, *shape: Any) -> Lengths:
    """A tensor of positive integer lengths, for ragged ranges: `t = index("t", T[n])`."""
    sizes = [_plain_size(size, f"lengths {name!r}") for size in shape]
    return Lengths(Symbol(checked_name(name, "lengths"), integer=True, positive=True), sizes)


def _plain_size(extent: object, what: str) -> Expr:
    """A size that is the same for all indices: that of an axis, or what the entries of an index tensor point into."""
    value = checked_extent(extent, what)
    if value.has(Indexed):
        base = next(iter(sorted(value.atoms(Indexed), key=str))).base
        raise StatementError(
            f"{what}: expected a size that is the same for all indices, found {value}; a ragged axis is written "
            f"{base.name}, after the axes that its lengths depend on, and indices below {value} have the largest "
            "length as their size"
        )
    return value

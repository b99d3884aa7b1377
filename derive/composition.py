"""A program applied inside another one: its letters, inputs and definitions become those of the larger program.

Beside `derive.program`. A kernel's program has letters of its own, and a leading index n stands for any number of axes.
Where it is applied to given arrays, the letters are the sizes of those arrays: n becomes as many indices as the first
array has more axes, a sum over n a sum over all of them, N as a number their product. `Application` is that change of
letters; it translates the program's definitions, and those of its gradient, which a proof about the larger program
needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy
from sympy import Expr, Indexed, KroneckerDelta, Mul

from derive.binders import rebuild, scope_of
from derive.errors import StatementError
from derive.language import Dim, Index, Scalar, Tensor
from derive.program import Program
from derive.statements import Definition, Name

__all__ = ["Application"]


@dataclass
class Application:
    """The change of letters and names from a program to the larger one that it is applied in.

    Attributes:
        program: The program that is applied.
        extents: For each of its sizes, the sizes that stand for it, several only for that of a leading index.
        names: For each of its tensors and scalars, what it is called in the larger program.
    """

    program: Program
    extents: dict[Any, tuple[Expr, ...]] = field(default_factory=dict)
    names: dict[Any, Name] = field(default_factory=dict)

    def bind(self, symbol: Tensor, given: Tensor) -> None:
        """Let an input be the given tensor; its sizes are from now on those of the tensor.

        Raises:
            StatementError: The shapes do not fit each other, or a size is already another one.
        """
        leading = {index.extent for definition in self.program.definitions for index in _leading(definition)}
        more = len(given.shape) - len(symbol.shape)
        spread = [size for size in symbol.shape if size in leading]
        if more < 0 or (more and not spread):
            raise StatementError(
                f"{self.program.name}: {symbol.name}: expected {len(symbol.shape)} axes, found {given.name} with "
                f"{len(given.shape)}"
            )
        rest = list(given.shape)
        for size in symbol.shape:
            count = 1 + more if size in spread[:1] else 1
            taken, rest = tuple(rest[:count]), rest[count:]
            self._agree(size, taken, f"{symbol.name} = {given.name}")
        if symbol.into is not None:
            self._agree(symbol.into, (given.into,), f"{symbol.name} = {given.name}")
        self.names[symbol] = given

    def declare(self, symbol: Tensor, name: str) -> Tensor:
        """A tensor of this name like an input, in the larger program's sizes; a size that is new keeps its letter."""
        shape = [size for letter in symbol.shape for size in self._sizes_of(letter)]
        into = None if symbol.into is None else self._sizes_of(symbol.into)[0]
        made = Tensor(name, shape, positive=symbol.positive, into=into)
        self.names[symbol] = made
        return made

    def definition(self, stated: Definition, symbol: Name) -> Definition:
        """A definition of the program, or of its gradient, in the larger program, where it defines `symbol`."""
        return Definition(symbol, self.indices(stated.indices), self.expression(stated.body))

    def indices(self, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        """The indices that stand for the given ones."""
        return tuple(made for index in indices for made in self._indices_for(index))

    def expression(self, node: Any) -> Any:
        """An expression of the program in the letters and names of the larger one.

        Raises:
            StatementError: An index that stands for several axes is used as a number, or bound by a function.
        """
        if node in self.names:
            return self.names[node]
        if isinstance(node, Dim):
            return Mul(*self._sizes_of(node))
        if isinstance(node, Index):
            return self._single(node)
        if isinstance(node, Indexed):
            places = [place for argument in node.indices for place in self._places(argument)]
            return self.expression(node.base)[tuple(places)]
        if isinstance(node, KroneckerDelta):
            pairs = zip(*map(self._places, node.args), strict=True)
            return Mul(*(KroneckerDelta(left, right) for left, right in pairs))
        if isinstance(node, (Tensor, Scalar)):
            raise StatementError(f"{self.program.name}: {node} has no name in the larger program")
        scope = scope_of(node)
        if scope is None:
            return node.func(*map(self.expression, node.args)) if node.args else node
        summed = isinstance(node, (sympy.Sum, sympy.Product))
        bound = self.indices(scope.bound) if summed else tuple(map(self._single, scope.bound))
        inside = tuple(map(self.expression, scope.inside))
        return rebuild(node, bound, inside, tuple(map(self.expression, scope.outside)))

    def _places(self, argument: Any) -> tuple[Any, ...]:
        return self._indices_for(argument) if isinstance(argument, Index) else (self.expression(argument),)

    def _single(self, index: Index) -> Index:
        found = self._indices_for(index)
        if len(found) != 1:
            raise StatementError(f"{self.program.name}: {index} stands for {len(found)} axes, and is needed as one")
        return found[0]

    def _indices_for(self, index: Index) -> tuple[Index, ...]:
        sizes = self._sizes_of(index.extent)
        names = [index.name, *(f"{index.name}_{size}" for size in sizes[1:])]
        return tuple(Index(name, size) for name, size in zip(names, sizes, strict=True))

    def _sizes_of(self, letter: Any) -> tuple[Expr, ...]:
        return (letter,) if isinstance(letter, sympy.Integer) else self.extents.setdefault(letter, (letter,))

    def _agree(self, letter: Any, sizes: tuple[Any, ...], what: str) -> None:
        known = (letter,) if isinstance(letter, sympy.Integer) else self.extents.setdefault(letter, sizes)
        if known != sizes:
            raise StatementError(f"{self.program.name}: {what}: {letter} is {known}, found {sizes}")


def _leading(definition: Definition) -> Mapping[Index, None]:
    found = (*definition.indices, *sorted(definition.body.atoms(Index), key=str))
    return dict.fromkeys(index for index in found if index.leading)

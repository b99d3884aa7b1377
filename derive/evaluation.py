"""Values of index expressions at small explicit sizes, in any arithmetic.

A face of the numeric side (`derive.numeric`): it reads statements (`derive.language`, `derive.functions`,
`derive.program`) and shares nothing with the symbolic decision procedure, so that the two can check each other. An
`Evaluator` compiles expressions, and the definitions they need, once; an `Environment` is that code at one point:
sizes, inputs and an arithmetic. `derive.refutation` chooses the points and draws the conclusions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any

from derive.binders import free_indices, leaves_of, symbols_of
from derive.errors import StatementError
from derive.language import Dim, Flag, Index, Scalar, Tensor
from derive.numeric.arithmetic import Arithmetic, UnsupportedError, reals
from derive.numeric.closures import ARITHMETIC, WORK, Code, Frame, Inputs
from derive.numeric.compilation import Compiler, ordered_indices
from derive.statements import Definition

__all__ = ["Environment", "Evaluator", "Needs", "evaluate", "needs_of"]

DEFAULT_LIMIT = 1_000_000  # terms to sum at one point


# ---------------------------------------------------------------------------------------------------------------------
# What an expression needs.


@dataclass(frozen=True)
class Needs:
    """What a point has to fix for some expressions: sizes, inputs, and the definitions in between, in order."""

    dims: tuple[Dim, ...]
    inputs: tuple[Tensor | Scalar | Flag, ...]
    definitions: tuple[Definition, ...]


def needs_of(expressions: Iterable[Any], definitions: Sequence[Definition] = ()) -> Needs:
    """The sizes, inputs and definitions that the expressions depend on, sizes and inputs by name."""
    bodies = list(expressions)
    used: set[Any] = set().union(*map(symbols_of, bodies)) if bodies else set()
    kept: list[Definition] = []
    for definition in reversed(definitions):
        if definition.symbol in used:
            kept.append(definition)
            used |= symbols_of(definition.body).union(*map(symbols_of, definition.indices))
    for symbol in [symbol for symbol in used if isinstance(symbol, Tensor)]:
        for extent in (*symbol.shape, *([] if symbol.into is None else [symbol.into])):
            used |= symbols_of(extent)
    defined = {definition.symbol for definition in kept}
    inputs = sorted(used - defined, key=lambda symbol: str(symbol.name))
    sizes: set[Any] = set()
    for part in (*bodies, *inputs, *(part for known in kept for part in (known.body, *known.indices))):
        sizes |= _dims_of(part)
    return Needs(tuple(sorted(sizes, key=lambda size: str(size.name))), tuple(inputs), tuple(reversed(kept)))


@lru_cache(maxsize=20_000)
def _dims_of(part: Any) -> frozenset[Any]:
    """The sizes in an expression, also in the ranges of its indices and the shapes of its tensors."""
    leaves = leaves_of(part)
    ranges = (_dims_of(index.extent) for index in leaves if isinstance(index, Index))
    return frozenset(leaf for leaf in leaves if isinstance(leaf, Dim)).union(*ranges)


# ---------------------------------------------------------------------------------------------------------------------
# Running.


class Environment:
    """Compiled expressions at one point: sizes, inputs and an arithmetic."""

    def __init__(self, evaluator: Evaluator, frame: Frame) -> None:
        """Use `Evaluator.at`."""
        self._evaluator = evaluator
        self._frame = frame

    def places(self, indices: Sequence[Index]) -> Iterator[tuple[int, ...]]:
        """All positions of the given free indices, the last one varying fastest; each is also set as current."""
        if not indices:
            yield ()
            return
        first, *rest = indices
        slot, extent = self._evaluator.slot(first), self._evaluator.extent(first)
        for value in range(extent(self._frame)):
            self._frame[slot] = value
            for others in self.places(rest):
                self._frame[slot] = value
                yield (value, *others)

    def move(self, indices: Sequence[Index], place: Sequence[int]) -> None:
        """Set the current position of the given free indices."""
        for index, value in zip(indices, place, strict=True):
            self._frame[self._evaluator.slot(index)] = value

    def value(self, number: int) -> Any:
        """The value of the expression of that number at the current position; a bool for a condition.

        Raises:
            UndefinedError: it has no value here.
            UnsupportedError: it has none that the arithmetic can represent.
            BudgetExceededError: more terms were summed than the environment's limit.
        """
        try:
            return self._evaluator.codes[number](self._frame)
        except RecursionError:  # a long chain of definitions: computed in order, none asks for more than the one before
            self._evaluator.warm(self._frame)
        try:
            return self._evaluator.codes[number](self._frame)
        except RecursionError:  # one of them has no value in this arithmetic, and all that build on it ask again
            raise UnsupportedError("nested too deeply") from None

    @property
    def arithmetic(self) -> Arithmetic:
        """The kind of numbers that values are."""
        arithmetic: Arithmetic = self._frame[ARITHMETIC]
        return arithmetic

    @property
    def work(self) -> int:
        """How many terms may still be summed."""
        return int(self._frame[WORK])


class Evaluator:
    """Expressions and the definitions they need, compiled."""

    def __init__(
        self, expressions: Sequence[Any], definitions: Sequence[Definition] = (), *, strict: bool = False
    ) -> None:  # fmt: skip
        """Compile the expressions; names among `definitions` are computed, all others are inputs.

        Where it is `strict`, a product has a value only where all of its factors have one, a bracket that is 0 or not.
        """
        self.needs = needs_of(expressions, definitions)
        self.free = tuple(ordered_indices(free_indices(expression)) for expression in expressions)
        compiler = Compiler(self.needs.definitions, strict=strict)
        self._slots = {index: compiler.place() for index in ordered_indices(set().union(*self.free))}
        self._extents = {index: compiler.exact(index.extent, self._slots) for index in self._slots}
        self.codes = [compiler.code(expression, self._slots) for expression in expressions]
        self._fillers = compiler.fillers
        self._warmers = compiler.warmers

    def slot(self, index: Index) -> int:
        """Where the frame holds the current value of a free index."""
        return self._slots[index]

    def extent(self, index: Index) -> Code:
        """The extent of a free index, as code."""
        return self._extents[index]

    def at(
        self, arithmetic: Arithmetic, sizes: Mapping[str, int], inputs: Inputs, *, limit: int = DEFAULT_LIMIT,
        deadline: float = inf,
    ) -> Environment:  # fmt: skip
        """The environment at a point. Tables are nested sequences of integers and Fractions.

        At most `limit` terms are summed there, and none after `deadline`, by the processor time of this thread.

        Raises:
            StatementError: a size or an input is missing.
        """
        for size in self.needs.dims:
            if str(size.name) not in sizes:
                raise StatementError(f"size {size}: no value given; given are {', '.join(sizes) or 'none'}")
        for known in self.needs.inputs:
            if str(known.name) not in inputs:
                raise StatementError(f"input {known.name}: no value given; given are {', '.join(inputs) or 'none'}")
        frame: Frame = [arithmetic, limit, deadline]
        frame.extend(fill(arithmetic, sizes, inputs) for fill in self._fillers)
        return Environment(self, frame)

    def warm(self, frame: Frame) -> None:
        """Compute all entries of all definitions, in order."""
        for warm in self._warmers:
            warm(frame)


def evaluate(
    expression: Any, sizes: Mapping[str, int], inputs: Inputs, position: Mapping[str, int] | None = None, *,
    definitions: Sequence[Definition] = (), arithmetic: Arithmetic | None = None,
) -> Any:  # fmt: skip
    """The value of one expression at one point, in reals to 40 digits unless another arithmetic is given.

    Raises:
        StatementError: a size, an input or the position of a free index is missing.
        UndefinedError: the expression has no value here.
        UnsupportedError: it has none that the arithmetic can represent.
    """
    evaluator = Evaluator([expression], definitions)
    environment = evaluator.at(arithmetic or reals(), sizes, inputs)
    given = position or {}
    for index in evaluator.free[0]:
        if index.name not in given:
            raise StatementError(f"{expression}: no position given for the free index {index}")
    environment.move(evaluator.free[0], [given[index.name] for index in evaluator.free[0]])
    return environment.value(0)

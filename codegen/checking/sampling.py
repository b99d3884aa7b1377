"""Cases to run a kernel in: shapes in which a transposed axis shows, and generic inputs.

Between a program's statement and `codegen.checking.examination`. A case fixes a number for each size, a few leading
dimensions for each leading size (none, one or two), and a value for each input. Sizes are distinct within a shape, so
that a transpose cannot hide, and every size is 1 once. No input is 0 or 1, index tables have repeats, flags are tried
both ways, and a parameter with a default is now given, now left out. Everything is drawn from a generator whose seed
depends on the seed given, the program's name and the case, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any
from zlib import crc32

import numpy as np
import sympy
from sympy import Indexed

from codegen.errors import KernelError
from derive.language import Dim, Flag, Index, Scalar, Tensor
from derive.program import Program
from derive.statements import Name

__all__ = ["Case", "Shape", "cases_of", "draw", "shape_plan", "sizes_of"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shape:
    """A number for each size; a leading size stands for any number of dimensions, whose product is that number."""

    sizes: Mapping[str, int]
    leading: Mapping[str, tuple[int, ...]]

    def of(self, symbol: Name | Flag) -> tuple[int, ...]:
        """The shape of a tensor as kernels take it, with all leading dimensions; () for a scalar."""
        if not isinstance(symbol, Tensor):
            return ()
        first, *rest = symbol.shape
        return (*self.leading.get(str(first), (self.number(first),)), *map(self.number, rest))

    def flat(self, symbol: Name | Flag) -> tuple[int, ...]:
        """The shape of a tensor as the statement has it, one axis for each index; () for a scalar."""
        return tuple(map(self.number, symbol.shape)) if isinstance(symbol, Tensor) else ()

    def number(self, size: Any) -> int:
        """The number that a size stands for.

        Raises:
            KernelError: the size depends on an index.
        """
        if isinstance(size, sympy.Integer):
            return int(size)
        if isinstance(size, Dim):
            return self.sizes[str(size.name)]
        raise KernelError(f"size {size}: it depends on an index (a ragged range); a kernel needs rectangular arrays")

    def __str__(self) -> str:
        parts = [f"{name}={self.leading.get(name, number)}" for name, number in self.sizes.items()]
        return ", ".join(parts) or "no sizes"


@dataclass(frozen=True)
class Case:
    """One run of a kernel: a shape, a truth value for each flag, and whether parameters with defaults are left out."""

    number: int
    shape: Shape
    flags: Mapping[str, bool]
    bare: bool

    def __str__(self) -> str:
        parts = [str(self.shape), *(f"{name}={value}" for name, value in self.flags.items())]
        return ", ".join(parts) + (", other parameters left out where they have a default" if self.bare else "")


# ---------------------------------------------------------------------------------------------------------------------
# Shapes.


def sizes_of(program: Program) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, int]]:
    """The names of the ordinary sizes, those of the leading sizes, and what fixed positions ask of some of them."""
    plain: dict[str, None] = {}
    for symbol in program.all_inputs():
        for extent in (*symbol.shape, symbol.into) if isinstance(symbol, Tensor) else ():
            if isinstance(extent, Dim):
                plain.setdefault(str(extent.name))
    found: set[str] = set()
    leading: set[str] = set()
    least: dict[str, int] = {}
    for definition in program:
        found |= {str(size.name) for size in definition.body.atoms(Dim)}
        for index in (*definition.indices, *definition.body.atoms(Index)):
            found |= {str(size.name) for size in index.extent.atoms(Dim)}
            if index.leading:
                leading.add(str(index.extent))
        for entry in definition.body.atoms(Indexed):
            for part, size in zip(entry.indices, entry.base.shape, strict=True):
                if isinstance(part, sympy.Integer) and isinstance(size, Dim):
                    least[str(size.name)] = max(least.get(str(size.name), 1), int(part) + 1)
    for name in sorted(found):
        plain.setdefault(name)
    return tuple(name for name in plain if name not in leading), tuple(name for name in plain if name in leading), least


def shape_plan(program: Program) -> tuple[Shape, ...]:
    """Three shapes in which all sizes are distinct, then for each size one in which it is 1."""
    plain, leading, least = sizes_of(program)
    turn = len(plain) // 2
    numbers = list(range(len(plain)))
    start = max([2, *least.values()])
    shapes = []
    for rank, order in ((1, numbers[turn:] + numbers[:turn]), (2, numbers[::-1]), (0, numbers)):
        # The leading dimensions come first and so are the smallest; over them most of the work is repeated.
        above = start + rank * len(leading)
        lengths = [tuple(range(first, first + rank))[::-1] for first in range(start, above, rank)] if rank else []
        shapes.append(_shape(plain, [above + place for place in order], leading, lengths or [()] * len(leading)))
    for one in plain:
        if least.get(one, 1) > 1:
            continue
        others = {name: start + 1 + place for place, name in enumerate(name for name in plain if name != one)}
        shapes.append(_shape(plain, [others.get(name, 1) for name in plain], leading, [(2,)] * len(leading)))
    for one in leading:
        lengths = [(1,) if name == one else (2,) for name in leading]
        shapes.append(_shape(plain, [start + place for place in numbers], leading, lengths))
    return tuple(shapes)


def _shape(
    plain: Sequence[str], numbers: Sequence[int], leading: Sequence[str], lengths: Sequence[tuple[int, ...]]
) -> Shape:
    products = {name: prod(length) for name, length in zip(leading, lengths, strict=True)}
    return Shape(products | dict(zip(plain, numbers, strict=True)), dict(zip(leading, lengths, strict=True)))


def cases_of(program: Program) -> Iterator[Case]:
    """All settings of the flags in two of the distinct shapes, one after another in the other shapes."""
    names = [str(known.name) for known in program.all_inputs() if isinstance(known, Flag)]
    if len(names) <= 3:
        settings = [dict(zip(names, values, strict=True)) for values in product((False, True), repeat=len(names))]
    else:  # one flag at a time
        uniform = [dict.fromkeys(names, value) for value in (False, True)]
        settings = uniform + [setting | {name: not setting[name]} for setting in uniform for name in names]
    optional = bool(program.request and program.request.defaults)
    number = 0
    for place, shape in enumerate(shape_plan(program)):
        chosen = settings if place in (0, 2) else [settings[place % len(settings)]]
        for turn, flags in enumerate(chosen):
            # Every setting of the flags is met with the parameters given and with them left out.
            parity = turn + place // 2 if place in (0, 2) else place // len(settings)
            yield Case(number, shape, flags, bare=optional and parity % 2 == 1)
            number += 1


# ---------------------------------------------------------------------------------------------------------------------
# Values.


def draw(program: Program, case: Case, seed: int, attempt: int = 0) -> tuple[dict[str, Any], np.random.Generator]:
    """A value for each input, by name, and the generator for what else is random in this case.

    Tensors are float64, or int64 for tables of indices; scalars are Python numbers, flags truth values. In a bare case,
    scalars that have a default have that value.
    """
    generator = np.random.default_rng([seed, crc32(program.name.encode()), case.number, attempt])
    defaults = program.request.defaults if program.request else {}
    values: dict[str, Any] = {}
    for known in program.all_inputs():
        name = str(known.name)
        if isinstance(known, Flag):
            values[name] = case.flags[name]
        elif isinstance(known, Tensor):
            values[name] = _tensor(known, case, generator, structured=attempt == 0)
        elif case.bare and name in defaults:
            values[name] = defaults[name]
        else:
            values[name] = _scalar(known, generator)
    return values, generator


def _tensor(known: Tensor, case: Case, generator: np.random.Generator, *, structured: bool) -> Array:
    shape = case.shape.of(known)
    if known.into is not None:
        limit = case.shape.number(known.into)
        # A statement may have no value at such a table, if it asks for an entry of each kind: then any will do.
        return _table(shape, limit, case.number, generator) if structured else generator.integers(0, limit, size=shape)
    if known.label.is_integer:
        return generator.integers(1, 6, size=shape)
    # In (0.4, 1.6): far enough from 0 for logarithms, roots and quotients to be smooth within a step.
    values = generator.uniform(0.4, 1.6, size=shape) if known.positive else generator.standard_normal(shape)
    # Users pass transposed views, so every other case has an unusual layout in memory.
    return np.asarray(values, dtype=np.float64, order="F" if case.number % 2 else "C")


def _table(shape: tuple[int, ...], limit: int, number: int, generator: np.random.Generator) -> Array:
    """A table of indices below `limit`: every value occurs where there is room, in this case or in the next ones."""
    table = generator.integers(0, limit, size=shape)
    room = table.size - 1
    if room > 0:
        # A mask that happens to be 0 throughout would hide everything behind it.
        chosen = generator.permutation(room)[:limit]
        table.flat[chosen] = (number + np.arange(len(chosen))) % limit
        table.flat[-1] = table.flat[0]  # a look-up whose rows are all different hides a lost accumulation
    elif table.size:
        table.flat[0] = number % limit
    return table


def _scalar(known: Scalar, generator: np.random.Generator) -> float | int:
    if known.is_integer:
        return int(generator.integers(1, 6))
    # A positive scalar may be a rate or a probability: below 1, so that 1 - beta is positive as well.
    return float(generator.uniform(0.2, 0.9) if known.is_positive else generator.standard_normal())

"""Kernels as data: the functions of a program, what each takes, does and returns, and which names they may use.

Between `codegen.planning.schedule`, which makes them, and the stages that print them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Integer

from codegen.backends.spelling import RUNTIME_FUNCTIONS
from codegen.errors import KernelError
from codegen.ir.nodes import Option, Size
from codegen.ir.sharing import Statement
from codegen.ir.trees import walk
from codegen.planning.least_sizes import Needs
from codegen.planning.row_weights import weighted
from derive.language import Dim, Flag, Index, Scalar, Tensor
from derive.program import Program
from derive.statements import Definition, Name

RESERVED = frozenset({
    "np", "torch", "math", "dtype", "device", "saved", "leading", "types", "bound", "workspace", "room", "part",
    "Array", "Room", "Saved", "Workspace", "add_at", "bind", "bounded", "cast", "incoming", "largest", "or_one",
    "restore", "widened", "float", "len", "max", "min", "slice",
    *RUNTIME_FUNCTIONS,
})  # fmt: skip


ANY = ""  # in place of a size: no kernel knows it


@dataclass(frozen=True)
class Parameter:
    """An array that a kernel takes or returns: its axes by size, and the extent its entries point into, if any.

    Entries that point into a size that is none of an array's are of `ANY` number.
    """

    name: str
    sizes: tuple[str, ...]
    leading: bool = False
    into: str | None = None


@dataclass(frozen=True)
class Routine:
    """One function: what it takes, what it does, what it returns."""

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    returns: tuple[Parameter, ...]
    sizes: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """A program's functions; `backward` is None for one that is not differentiated, and `saved` is then empty.

    `definitions` are those of the program with names for their parts (`codegen.algebra.parts`). `needs` says how small
    the sizes may be that cannot be 0, and why. `variants` are other schedules of the same.
    """

    program: Program
    definitions: tuple[Definition, ...]
    forward: Routine
    backward: Routine | None
    saved: tuple[str, ...]
    defaults: Mapping[str, float | bool]
    hypotheses: tuple[str, ...] = field(default=())
    needs: Needs = field(default_factory=dict)
    variants: tuple[Kernel, ...] = ()

    @property
    def variables(self) -> tuple[Name, ...]:
        """What it is differentiated for."""
        return self.program.request.wrt if self.program.request is not None else ()


def name_of(symbol: Any) -> str:
    """The name of a tensor, a number or a flag."""
    return str(symbol.name)


def check_names(program: Program, inputs: Iterable[Any]) -> None:
    """Check that the names and shapes of a program can stand in generated code.

    Raises:
        KernelError: a name has a meaning of its own there, or names two things; a size is no letter and no number.
    """
    names = [*map(name_of, inputs), *program.names()]
    sizes = {str(dim) for definition in program.definitions for dim in definition.body.atoms(Dim)}
    for name in names:
        if name in RESERVED:
            raise KernelError(f"{program.name}: the name {name} has a meaning of its own in generated code; rename it")
        if name in sizes:
            raise KernelError(f"{program.name}: {name} names both a size and an array; rename one")
    for symbol in inputs:
        for size in symbol.shape if isinstance(symbol, Tensor) else ():
            if not isinstance(size, (Dim, Integer)):
                raise KernelError(
                    f"{program.name}: input {symbol.name} has an axis of size {size}; a kernel takes arrays whose "
                    "sizes are letters or numbers"
                )


def parameters(inputs: Iterable[Any]) -> list[Parameter]:
    """The arrays among the inputs as parameters.

    Labels that are only compared with each other may be of more kinds than the size of any axis tells.
    """
    arrays = [symbol for symbol in inputs if isinstance(symbol, Tensor)]
    known = {str(size) for symbol in arrays for size in symbol.shape}
    made = []
    for symbol in arrays:
        into = None if symbol.into is None else str(symbol.into)
        is_known = into is None or into.isdigit() or into in known
        made.append(Parameter(name_of(symbol), tuple(map(str, symbol.shape)), False, into if is_known else ANY))
    return made


def defined_parameter(definition: Definition) -> Parameter:
    """What a definition defines, as a parameter."""
    return Parameter(definition.name, tuple(str(index.extent) for index in definition.indices))


def _leading_size(program: Program) -> str | None:
    """The size of the leading index, which every array that has it must have in front.

    Raises:
        KernelError: there are two leading indices, or one is not the first axis.
    """
    found: set[Index] = set()
    for definition in program.definitions:
        for index in (*definition.indices, *definition.body.atoms(Index)):
            if index.leading:
                found.add(index)
        for place, index in enumerate(definition.indices):
            if index.leading and place != 0:
                raise KernelError(f"{program.name}: {definition.left}: the leading index {index} must come first")
    sizes = sorted({str(index.extent) for index in found})
    if len(sizes) > 1:
        raise KernelError(f"{program.name}: expected one leading index, found sizes {', '.join(sizes)}")
    return sizes[0] if sizes else None


def routine(
    name: str, program: Program, statements: Sequence[Statement], parameters: Sequence[Parameter],
    returns: Sequence[Parameter], inputs: Sequence[Any],
) -> Routine:  # fmt: skip
    """The function with these statements.

    Raises:
        KernelError: the leading size is not in front everywhere.
    """
    leading = _leading_size(program)
    statements = weighted(statements, [*map(name_of, inputs), *RESERVED])

    def marked(parameter: Parameter) -> Parameter:
        if leading is not None and leading in parameter.sizes[1:]:
            raise KernelError(f"{program.name}: {parameter.name}: the leading size {leading} must be the first axis")
        return replace(parameter, leading=bool(parameter.sizes) and parameter.sizes[0] == leading)

    options = [symbol for symbol in inputs if isinstance(symbol, (Scalar, Flag))]
    used = {node.name for statement in statements for node in walk(statement.node) if isinstance(node, Option)}
    return Routine(
        name,
        tuple(map(marked, parameters)),
        tuple(statements),
        tuple(map(marked, returns)),
        tuple(sorted(_sizes_of(statements))),
        tuple(name_of(symbol) for symbol in options if name_of(symbol) in used),
    )


def _sizes_of(statements: Sequence[Statement]) -> set[str]:
    """Sizes that the statements mention by value. Which of them are printed is the backend's matter."""
    found = set()
    for statement in statements:
        for node in walk(statement.node):
            extents = [node.extent] if isinstance(node, Size) else [index.extent for index in node.axes]
            found |= {str(extent) for extent in extents if isinstance(extent, Dim)}
        found |= {str(index.extent) for index in statement.axes if isinstance(index.extent, Dim)}
    return found

"""From a program to its kernels: which definitions are computed where, what is saved, what is computed once.

Fourth stage of the compiler. A program with `kernel(O, wrt=[Q, K, V])` becomes two functions. The forward one
computes the definitions that O needs; the backward one the adjoints of Q, K, V. Forward values that the adjoints read
are saved, and nothing else. Equal subexpressions, wherever they stand, become one named value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from codegen.context import Context
from codegen.errors import KernelError
from codegen.nodes import (
    Axes,
    Contract,
    Gather,
    Literal,
    Map,
    Node,
    Option,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    Size,
    walk,
)
from codegen.scattering import lower_definition
from codegen.stability import stable
from derive.gradient import depends_on
from derive.language import Dim, Flag, Index, Scalar, Tensor
from derive.program import Definition, Program
from derive.writing import written_definition

RESERVED = frozenset(
    {"np", "torch", "math", "saved", "leading", "bind", "incoming", "restore", "erf", "dtype", "device"}
)
TRIVIAL = (Read, Literal, Size, Option, Position)


@dataclass(frozen=True)
class Parameter:
    """An array that a kernel takes or returns: its axes by size, and the extent its entries point into, if any."""

    name: str
    sizes: tuple[str, ...]
    leading: bool = False
    into: str | None = None


@dataclass(frozen=True)
class Statement:
    """One named value: the node that computes it, its axes in order, and the formula that it comes from."""

    name: str
    node: Node
    axes: Axes
    formula: str = ""


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
    """A program's functions; `backward` is None for one that is not differentiated, and `saved` is then empty."""

    program: Program
    forward: Routine
    backward: Routine | None
    saved: tuple[str, ...]
    defaults: Mapping[str, float | bool]
    hypotheses: tuple[str, ...] = field(default=())


def plan(program: Program) -> Kernel:
    """The kernels that a program asks for.

    Raises:
        KernelError: it asks for none, or for something that has no array form.
    """
    request = program.request
    if request is None:
        raise KernelError(f"{program.name}: asks for no kernel; say {program.name}.kernel(output, wrt=[...])")
    inputs = program.all_inputs()
    _check_names(program, inputs)
    options = {str(symbol.name) for symbol in inputs if isinstance(symbol, (Scalar, Flag))}
    outputs = [str(output.name) for output in request.outputs]
    forward_names = _needed(program, outputs)
    forward = [definition for definition in program.definitions if definition.name in forward_names]
    lowered = _lowered(program, forward, tuple(program.definitions), options)
    shapes = {definition.name: definition for definition in program.definitions}
    if not request.wrt:
        statements = _hoisted(_shrunk(lowered, outputs))
        routine = _routine(program.name, program, statements, [_parameter(s) for s in inputs if isinstance(s, Tensor)],
                           [_defined_parameter(shapes[name]) for name in outputs], inputs)  # fmt: skip
        return Kernel(program, routine, None, (), request.defaults, tuple(program.assumptions))
    if len(request.outputs) != 1:
        raise KernelError(f"{program.name}: a differentiated kernel has one output, found {outputs}")

    gradient = program.gradient(request.outputs[0], request.wrt)
    wanted = [str(gradient.adjoint(symbol).name) for symbol in request.wrt]
    backward_names = _needed(gradient, wanted)
    known = {definition.name for definition in program.definitions}
    adjoints = [d for d in gradient.definitions if d.name in backward_names and d.name not in known]
    adjoint_nodes = _lowered(gradient, adjoints, tuple(program.definitions), options)
    backward_statements = _hoisted(_shrunk(adjoint_nodes, wanted))
    upstream = gradient.upstream
    computed = {statement.name for statement in backward_statements}
    read = {name for statement in backward_statements for name in _reads(statement.node)}
    saved = [name for name in [*map(_name, inputs), *program.names()]
             if name in read - computed and name not in options]  # fmt: skip
    forward_names |= _needed(program, [name for name in saved if name in known])
    forward = [definition for definition in program.definitions if definition.name in forward_names]
    nodes = _lowered(program, forward, tuple(program.definitions), options)
    forward_statements = _hoisted(_shrunk(nodes, [*outputs, *saved]))

    taken = [_parameter(symbol) for symbol in inputs if isinstance(symbol, Tensor)]
    given = _upstream_parameter(upstream, shapes[outputs[0]])
    by_adjoint = {definition.name: definition for definition in gradient.definitions}
    return Kernel(
        program,
        _routine(f"{program.name}_forward", program, forward_statements, taken,
                 [_defined_parameter(shapes[outputs[0]])], inputs),
        _routine(f"{program.name}_backward", program, backward_statements, [given],
                 [_defined_parameter(by_adjoint[name]) for name in wanted], inputs),
        tuple(saved),
        request.defaults,
        tuple(dict.fromkeys([*program.assumptions, *gradient.assumptions])),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Names and shapes.


def _name(symbol: Any) -> str:
    return str(symbol.name)


def _check_names(program: Program, inputs: Iterable[Any]) -> None:
    names = [*map(_name, inputs), *program.names()]
    sizes = {str(dim) for definition in program.definitions for dim in definition.body.atoms(Dim)}
    for name in names:
        if name in RESERVED:
            raise KernelError(f"{program.name}: the name {name} has a meaning of its own in generated code; rename it")
        if name in sizes:
            raise KernelError(f"{program.name}: {name} names both a size and an array; rename one")


def _parameter(symbol: Tensor) -> Parameter:
    return Parameter(
        _name(symbol), tuple(map(str, symbol.shape)), False, None if symbol.into is None else str(symbol.into)
    )


def _defined_parameter(definition: Definition) -> Parameter:
    return Parameter(definition.name, tuple(str(index.extent) for index in definition.indices))


def _upstream_parameter(upstream: Any, output: Definition) -> Parameter:
    return Parameter(_name(upstream), tuple(str(index.extent) for index in output.indices))


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


def _routine(
    name: str, program: Program, statements: Sequence[Statement], parameters: Sequence[Parameter],
    returns: Sequence[Parameter], inputs: Sequence[Any],
) -> Routine:  # fmt: skip
    leading = _leading_size(program)

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
        tuple(_name(symbol) for symbol in options if _name(symbol) in used),
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


# ---------------------------------------------------------------------------------------------------------------------
# Which definitions, and in which form.


def _needed(program: Program, names: Sequence[str]) -> set[str]:
    needed: set[str] = set()
    for name in names:
        needed |= {str(symbol.name) for symbol in depends_on(program, program[name])}
    return needed


def _lowered(
    program: Program, definitions: Sequence[Definition], known: tuple[Definition, ...], options: set[str]
) -> list[Statement]:
    made = []
    for definition in definitions:
        earlier = tuple(other for other in known if other.name != definition.name)
        body = stable(definition.body, earlier)
        node = lower_definition(body, Context(program.name, frozenset(options), definition.indices))
        made.append(Statement(definition.name, node, definition.indices, _formula(definition)))
    return made


def _formula(definition: Definition) -> str:
    return written_definition(definition.left, definition.body)


def _reads(node: Node) -> set[str]:
    return {inner.name for inner in walk(node) if isinstance(inner, (Read, Gather))}


# ---------------------------------------------------------------------------------------------------------------------
# Each value once, and no larger than it is.


def _shrunk(statements: Sequence[Statement], kept: Sequence[str]) -> list[Statement]:
    """The statements with values that are constant along an index stored without it, but for those named in `kept`."""
    places: dict[str, list[int]] = {}

    def narrowed(node: Node) -> Node:
        if isinstance(node, Read) and node.name in places:
            return Read(node.name, tuple(node.where[place] for place in places[node.name]))
        return _with_children(node, [narrowed(child) for child in node.children])

    result: list[Statement] = []
    for statement in statements:
        node = narrowed(statement.node)
        axes = tuple(index for index in statement.axes if index in node.axes)
        if axes != statement.axes and statement.name not in kept:
            places[statement.name] = [statement.axes.index(index) for index in axes]
            statement = replace(statement, axes=axes)
        result.append(replace(statement, node=node))
    return result


COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
LABELS = {"exp": "exp", "max": "top", "sum": "sum", "prod": "prod"} | dict.fromkeys(
    [*sorted(COMPARISONS), "or", "and", "not"], "mask"
)


def _hoisted(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with every value that is used twice computed once, under a name of its own."""
    uses: dict[Node, int] = {}
    seen: set[Node] = set()

    def count(node: Node) -> None:
        uses[node] = uses.get(node, 0) + 1
        if node not in seen:
            seen.add(node)
            for child in node.children:
                count(child)

    for statement in statements:
        count(statement.node)
    taken = {statement.name for statement in statements}.union(*(_reads(statement.node) for statement in statements))
    named: dict[Node, Read] = {}
    result: list[Statement] = []
    for statement in statements:

        def place(node: Node, statement: Statement = statement) -> Node:
            if node in named:
                return named[node]
            rebuilt = _with_children(node, [place(child) for child in node.children])
            if isinstance(node, TRIVIAL) or node.is_host or node is statement.node:
                return rebuilt
            if uses[node] < 2 and not _wants_name(node):
                return rebuilt
            name = _fresh_name(f"{statement.name}_{_label(node)}", taken)
            result.append(Statement(name, rebuilt, rebuilt.axes))
            named[node] = Read(name, rebuilt.axes)
            return named[node]

        root = place(statement.node)
        result.append(replace(statement, node=root))
        if not isinstance(root, (*TRIVIAL, Scatter)) and set(root.axes) == set(statement.axes):
            named.setdefault(statement.node, Read(statement.name, statement.axes))
    return result


def _wants_name(node: Node) -> bool:
    """Whether a value is too much to read inside another expression: a product that regroups axes, a mask."""
    if isinstance(node, Contract):
        return len(node.left_only) > 1 or len(node.right_only) > 1
    return isinstance(node, Map) and node.operation in COMPARISONS and len(node.axes) > 1


def _label(node: Node) -> str:
    if isinstance(node, Select):
        return "masked"
    if isinstance(node, Contract):
        return "product"
    operation = getattr(node, "operation", "part")
    return LABELS.get(operation, "part")


def _fresh_name(stem: str, taken: set[str]) -> str:
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name


def _with_children(node: Node, children: Sequence[Node]) -> Node:
    if tuple(children) == node.children:
        return node
    if isinstance(node, Map):
        return Map(node.operation, tuple(children))
    if isinstance(node, Select):
        return Select(*children)
    if isinstance(node, Reduce):
        return Reduce(node.operation, children[0], node.over)
    if isinstance(node, Contract):
        return Contract(children[0], children[1], node.over)
    if isinstance(node, Gather):
        return Gather(node.name, tuple(children))
    if isinstance(node, Scatter):
        count = len(node.positions)
        base = children[count + 1] if node.base is not None else None
        return Scatter(node.targets, tuple(children[:count]), children[count], base)
    raise KernelError(f"{type(node).__name__}: a leaf has no children")

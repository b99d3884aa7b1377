"""The gradient of a program: reverse mode over its definitions, every adjoint a named definition.

Fourth stage of the data flow. For Y = f(X, ...), the adjoint of X is the sum, over all definitions Y that use X, of
what `derive.differentiation` pulls back from dY. An adjoint is *named* (dA, dS, ...) and used by name in the next one,
never expanded into it: the cost is linear in the number of definitions. Each is then folded (`derive.folding`): what
can be written with values already at hand is written with them, which is what makes dS read A*(dA - Sum(dA*A)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from time import thread_time
from typing import Any

from sympy import Add, Expr, Indexed, Pow, S

from derive.binders import fresh_index, map_children, named_apart, substitute, symbols_of, unshadowed
from derive.differentiation import Contribution, placed, pull_back, with_comparable_deltas
from derive.errors import BudgetExceededError, StatementError
from derive.exceptional import is_differentiable, is_root, record_points
from derive.folding import Known, fold
from derive.language import Index, Scalar, Tensor, axis_sizes, entry, expression_of
from derive.names import shown
from derive.program import Program
from derive.requests import check_names_of
from derive.statements import Definition, Name
from derive.symbols import size_at

MOST_NODES = 100_000  # of an expression with definitions written in
LOOK = 8  # nodes between two looks at the clock


@dataclass(repr=False)
class Gradient(Program):
    """A gradient program: the forward definitions, then the adjoints; `forward` is the program it came from."""

    forward: Program = field(default_factory=lambda: Program("empty"))
    output: Name | None = None
    upstream: Name | None = None
    adjoints: dict[str, str] = field(default_factory=dict)

    def adjoint(self, symbol: Name) -> Name:
        """The adjoint of a name, dX for X.

        Raises:
            StatementError: the output does not depend on it, so that its adjoint is zero.
        """
        name = self.adjoints.get(str(symbol.name))
        if name is None:
            raise StatementError(f"{self.name}: {self.output} does not depend on {symbol}; its gradient is zero")
        return self[name]  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        if self.upstream is not None and name == str(self.upstream.name):
            return self.upstream
        return super().__getitem__(name)


def depends_on(program: Program, output: Name) -> set[Any]:
    """All names that `output` is computed from, itself included."""
    needed: set[Any] = {output}
    for definition in reversed(program.definitions):
        if definition.symbol in needed:
            needed |= symbols_of(definition.body)
    return needed


def influenced_by(program: Program, sources: Sequence[Name]) -> set[Any]:
    """All names that depend on one of the sources, the sources included."""
    touched: set[Any] = set(sources)
    for definition in program.definitions:
        if symbols_of(definition.body) & touched:
            touched.add(definition.symbol)
    return touched


def differentiated_form(body: Expr, program: Program) -> Expr:
    """The body with powers of a named root written as powers of what the root is of: norm^2 as the sum of squares.

    Where a root is 0 it has no derivative, and its square has; the chain rule through the root would give 0/0.
    """

    def resolved(node: Any) -> Any:
        base = node.base if isinstance(node, Pow) else None
        if isinstance(base, (Indexed, Scalar)) and node.exp.is_Rational:
            symbol = base.base if isinstance(base, Indexed) else base
            root = program.definition(str(symbol.name))
            if root is not None and root.symbol == symbol and is_root(root.body) and root.body.exp * node.exp >= 1:
                where = base.indices if isinstance(base, Indexed) else ()
                inside = substitute(root.body.base, dict(zip(root.indices, where, strict=True)))
                return inside ** (root.body.exp * node.exp)
        return map_children(node, resolved)

    return resolved(body)


def reverse(program: Program, output: Name, wrt: tuple[Name, ...], upstream: str | None, prefix: str = "d") -> Gradient:
    """The gradient program of `output`.

    Raises:
        StatementError: the output is not defined here, or a `wrt` name does not influence it.
    """
    check_names_of("gradient", (output,), program.name)
    check_names_of("gradient wrt", wrt, program.name)
    if program.definition(str(output.name)) is None:
        raise StatementError(f"{program.name}: gradient of {output}: not defined here; defined are {program.names()}")
    needed = depends_on(program, output)
    inputs = [symbol for symbol in program.all_inputs() if is_differentiable(symbol) and symbol in needed]
    for symbol in wrt:
        if symbol not in needed:
            raise StatementError(f"{program.name}: {output} does not depend on {symbol}")
    active = needed & influenced_by(program, wrt or tuple(inputs))
    taken = program.declared_names()
    name = upstream or f"{prefix}{output.name}"
    made, given = _begun(program, output, name, taken)

    known = Known.of(program.definitions)
    received: dict[Any, list[Contribution]] = {}
    differentiated: set[Any] = set()
    for definition in reversed(program.definitions):
        symbol = definition.symbol
        if symbol not in active:
            continue
        if symbol == output:
            cotangent = given
            if received.get(symbol):
                extra = entry(given, definition.indices)
                cotangent = _define(made, known, taken, definition.indices, received[symbol], f"{name}_total", extra)
        elif symbol in received:
            cotangent = _define(made, known, taken, definition.indices, received[symbol], f"{prefix}{definition.name}")
        else:
            continue
        made.adjoints[definition.name] = str(cotangent.name)
        differentiated.add(symbol)
        body = differentiated_form(definition.body, program)
        for contribution in pull_back(
            body, entry(cotangent, definition.indices), definition.indices, lambda leaf: leaf in active
        ):
            leaf = contribution.leaf.base if isinstance(contribution.leaf, Indexed) else contribution.leaf
            received.setdefault(leaf, []).append(contribution)
    for symbol in inputs:
        if symbol in received and (not wrt or symbol in wrt):
            over = _indices_for(symbol, received[symbol], taken)
            adjoint = _define(made, known, taken, over, received[symbol], f"{prefix}{symbol.name}")
            made.adjoints[str(symbol.name)] = str(adjoint.name)
    record_points(made, [known for known in program.definitions if known.symbol in differentiated], program, active)
    return made


def _begun(program: Program, output: Name, name: str, taken: set[str]) -> tuple[Gradient, Name]:
    """The gradient program without its adjoints, and the adjoint of the output, which joins the names taken."""
    if name in taken:
        raise StatementError(
            f"{program.name}: the upstream gradient's name {name} is taken; rename what has it (a gradient of your own "
            "may give the upstream one another name, program.gradient(..., upstream=...))"
        )
    taken.add(name)
    given: Name = Tensor(name, output.shape) if isinstance(output, Tensor) else Scalar(name)
    made = Gradient(
        f"{program.name}_backward", f"gradient of {program.name}", [*program.inputs, given], list(program.definitions),
        forward=program, output=output, upstream=given, adjoints={str(output.name): name},
    )  # fmt: skip
    return made, given


def _define(
    made: Gradient,
    known: Known,
    taken: set[str],
    over: tuple[Index, ...],
    received: list[Contribution],
    name: str,
    extra: Expr = S.Zero,
) -> Name:
    """Add the adjoint of one definition or input, folded, under the given name, which joins the names taken.

    It may be constant along one of its indices (the gradient of a sum is), which a stated definition may not.
    """
    body = fold(Add(extra, *(placed(contribution, over) for contribution in received)), known)
    body = unshadowed(body)
    if name in taken:
        raise StatementError(f"{made.name}: the adjoint's name {name} is taken; rename that definition or input")
    definition = Definition.named(name, over, body)
    made.definitions.append(definition)
    taken.add(name)
    return definition.symbol


def _indices_for(symbol: Name, received: list[Contribution], taken: set[str]) -> tuple[Index, ...]:
    """Indices to write the adjoint of an input at: those of its first use where they are plain and distinct.

    Others get names that are not taken by a tensor, a scalar or a size.
    """
    if not isinstance(symbol, Tensor):
        return ()
    for contribution in received:
        parts = contribution.leaf.indices
        plain = all(isinstance(part, Index) for part in parts) and len({part.name for part in parts}) == len(parts)
        if plain and axis_sizes(parts) == list(symbol.shape):
            return tuple(parts)
    named = [part.name if isinstance(part, Index) else "v" for part in received[0].leaf.indices]
    chosen: list[Index] = []
    for name, size in zip(named, symbol.shape, strict=True):
        while name in taken or any(name == other.name for other in chosen):
            name += "_1"
        chosen.append(Index(name, size_at(size, chosen)))
    return tuple(chosen)


# ---------------------------------------------------------------------------------------------------------------------
# The derivative of one entry, for statements about Jacobians.


def inline(
    expression: Any, program: Program, keep: frozenset[Any] = frozenset(), *, most: int = MOST_NODES, until: float = inf
) -> Any:
    """The expression with every name that the program defines replaced by its definition, except those to keep.

    Raises:
        BudgetExceededError: more than `most` different nodes are met on the way, or it is later than `until` by the
            processor time of this thread.
    """
    known: dict[Any, Any] = {}  # a part that occurs many times is written once

    def replaced(node: Any) -> Any:
        if node not in known:
            if len(known) >= most or (len(known) % LOOK == 0 and thread_time() > until):
                raise BudgetExceededError("too much time or too many nodes with definitions written in")
            known[node] = written_in(node)
        return known[node]

    def written_in(node: Any) -> Any:
        base = node.base if isinstance(node, Indexed) else node
        definition = program.definition(str(base.name)) if isinstance(base, (Tensor, Scalar)) else None
        if definition is None or definition.symbol != base or base in keep:
            return map_children(node, replaced)
        return replaced(definition.at(node))

    return replaced(expression)


def jacobian(program: Program, output: Name, variable: Name, name: str) -> Gradient:
    """The program extended by name[output's indices, variable's indices] = d output / d variable, folded.

    Raises:
        StatementError: the output is not defined here.
    """
    check_names_of("jacobian", (output, variable), program.name)
    name = name or f"d{output.name}_d{variable.name}"
    definition = program.definition(str(output.name))
    if definition is None:
        raise StatementError(f"{program.name}: derivative of {output}: not defined here; defined are {program.names()}")
    taken = {*program.declared_names(), *(index.name for index in definition.indices)}
    target: list[Index] = []
    for axis in variable.shape if isinstance(variable, Tensor) else ():
        size = size_at(axis, target)
        like = next((i for i in definition.indices if i.extent == size), Index("i", size))
        index = like if like.name not in taken else fresh_index(like, taken)
        taken.add(index.name)
        target.append(index)
    body = derivative_of(program, definition.left, entry(variable, target), through_definitions=True)
    over = (*definition.indices, *target)
    made = Gradient(
        f"{program.name}_jacobian", f"Jacobian of {program.name}", list(program.inputs), list(program.definitions),
        forward=program, output=output,
    )  # fmt: skip
    record_points(
        made, _differentiated(program, definition.left, variable), program, influenced_by(program, [variable])
    )
    made.definitions.append(Definition.named(name, over, body))
    return made


def derivative_of(program: Program, value: Expr, variable: Expr, *, through_definitions: bool) -> Expr:
    """The derivative of an expression with respect to one entry, as an expression with deltas.

    With `through_definitions` it is the total derivative; otherwise the names that the program defines are held fixed,
    and an entry of such a name stands for its definition. Where it may not exist is recorded in the program.

    Raises:
        StatementError: the variable is neither an entry nor a scalar, or the value is none.
    """
    base = variable.base if isinstance(variable, Indexed) else variable
    if isinstance(variable, Tensor) or not isinstance(base, (Tensor, Scalar)):
        found = f"the tensor {variable}" if isinstance(variable, Tensor) else shown(variable)
        raise StatementError(
            f"{program.name}: derivative with respect to {variable}: expected an entry, as x[j] is one of x, or a "
            f"scalar, found {found}"
        )
    if isinstance(value, Tensor):
        raise StatementError(
            f"{program.name}: derivative of {value}: expected a value, such as an entry {value}[i, ...]"
        )
    value = expression_of(value, f"{program.name}: derivative")
    target = variable.indices if isinstance(variable, Indexed) else ()
    if through_definitions:
        full = inline(value, program, frozenset({base}))
        record_points(program, _differentiated(program, value, base), program, influenced_by(program, [base]))
    else:
        full = _definition_at(program, value) if value != variable else value
        record_points(program, [_unnamed(full)], program, {base})
    terms = [placed(found, target) for found in pull_back(full, S.One, (), lambda leaf: leaf == base)]
    folded = fold(Add(*terms), [known for known in program.definitions if known.symbol != base])
    return named_apart(with_comparable_deltas(folded))


def _differentiated(program: Program, value: Expr, base: Name) -> list[Definition]:
    """The definitions that a derivative goes through, and the value itself as one without a name."""
    touched = influenced_by(program, [base]) - {base}
    behind = set().union(*(depends_on(program, symbol) for symbol in symbols_of(value)))
    return [*(known for known in program.definitions if known.symbol in touched & behind), _unnamed(value)]


def _unnamed(value: Expr) -> Definition:
    return Definition(Scalar("value"), (), value)


def _definition_at(program: Program, value: Expr) -> Expr:
    """What an entry of a defined name is defined as; any other expression as it stands."""
    base = value.base if isinstance(value, Indexed) else value
    known = program.definition(str(base.name)) if isinstance(base, (Tensor, Scalar)) else None
    if known is None or known.symbol != base:
        return value
    return known.at(value)

"""From a program to its kernels: which definitions are computed where, what is saved, what is computed once.

Fourth stage of the compiler. A program with `kernel(O, wrt=[Q, K, V])` becomes two functions. The forward one
computes the definitions that O needs; the backward one the adjoints of Q, K, V. Forward values that the adjoints read
are saved, and nothing else. Equal subexpressions, wherever they stand, become one named value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sympy import Integer, Mul, S, exp, log

from codegen.backends.tables import RUNTIME_FUNCTIONS
from codegen.centring import centred
from codegen.context import Context
from codegen.costs import typical_sizes
from codegen.deferring import deferred
from codegen.errors import KernelError
from codegen.factors import gathered
from codegen.keeping import with_rows_kept
from codegen.least_sizes import Needs, least_sizes
from codegen.lowering import logsumexp_parts
from codegen.naming import shared
from codegen.nodes import (
    Option,
    Size,
    walk,
)
from codegen.row_weights import weighted
from codegen.scattering import lower_definition
from codegen.sharing import Statement, fresh_name, reads
from codegen.shifts import unshifted
from codegen.slopes import SLOPE_AT_ZERO, slopes
from codegen.stability import has_sum_beside_others, stable
from codegen.tails import identities
from codegen.trace import Asked, Told, asked_of, needed, told, traced
from codegen.unnormalised import unnormalised
from codegen.variants import lean, rejoined
from codegen.vectors import without_vectors
from codegen.weights import divided, totals
from derive.binders import free_indices, substitute
from derive.exceptional import NO_VALUE, masked_functions
from derive.functions import Defined, unfold
from derive.language import Dim, Flag, Index, Scalar, Tensor
from derive.program import Definition, Name, Program

RESERVED = frozenset({
    "np", "torch", "math", "dtype", "device", "saved", "leading", "types", "bound", "workspace", "room", "part",
    "Array", "Room", "Saved", "Workspace", "add_at", "bind", "bounded", "cast", "incoming", "largest", "restore",
    *RUNTIME_FUNCTIONS,
})  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """An array that a kernel takes or returns: its axes by size, and the extent its entries point into, if any."""

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

    `needs` says how small the sizes may be that cannot be 0, and why. `variants` are other schedules of the same.
    """

    program: Program
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


def plan(program: Program) -> Kernel:
    """The kernels that a program asks for.

    Raises:
        KernelError: it asks for none, or for something that has no array form.
    """
    return _planned(asked_of(program))


@lru_cache(maxsize=500)
def _planned(asked: Asked) -> Kernel:
    program, request = asked.program, asked.program.request
    if request is None:
        raise KernelError(f"{program.name}: asks for no kernel; say {program.name}.kernel(output, wrt=[...])")
    inputs = program.all_inputs()
    if not any(isinstance(symbol, Tensor) for symbol in inputs):
        raise KernelError(f"{program.name}: has no array among its inputs; a kernel is a function of arrays")
    _check_names(program, inputs)
    options = {str(symbol.name) for symbol in inputs if isinstance(symbol, (Scalar, Flag))}
    outputs = [str(output.name) for output in request.outputs]
    trace = traced(program)
    program = trace.stated
    forward_names = needed(program, outputs)
    forward = [definition for definition in program.definitions if definition.name in forward_names]
    parts = _parts(program)
    stated = tuple(program.definitions)
    nodes = _lowered(program, trace.forward[-1].definitions, stated, options, parts, told(trace.forward))
    shapes = {definition.name: definition for definition in program.definitions}
    if not request.wrt:
        statements = deferred(shared(nodes, outputs), outputs, trace.sizes)
        routine = _routine(program.name, program, statements, [_parameter(s) for s in inputs if isinstance(s, Tensor)],
                           [_defined_parameter(shapes[name]) for name in outputs], inputs)  # fmt: skip
        needs = least_sizes(forward, program.definitions)
        return Kernel(
            asked.program, routine, None, (), request.defaults, _hypotheses(program.assumptions, forward), needs
        )
    if len(request.outputs) != 1:
        raise KernelError(f"{program.name}: a differentiated kernel has one output, found {outputs}")

    gradient, wanted = trace.gradient, trace.wanted
    if gradient is None:
        raise KernelError(f"{program.name}: is differentiated and has no gradient")
    adjoints = list(trace.backward[-1].definitions)
    adjoint_comments = told(trace.backward)
    adjoint_nodes = _lowered(gradient, adjoints, stated, options, parts, adjoint_comments)
    adjoint_nodes = unshifted(adjoint_nodes, [logarithm for _, logarithm in parts.values()])
    stated_nodes, adjoint_nodes = with_rows_kept(nodes, adjoint_nodes, [*map(_name, inputs), *RESERVED])
    backward_statements = shared(adjoint_nodes, wanted)
    upstream = gradient.upstream
    computed = {statement.name for statement in backward_statements}
    read = {name for statement in backward_statements for name in reads(statement.node)}
    made = [statement.name for statement in stated_nodes]
    saved = [name for name in [*map(_name, inputs), *made] if name in read - computed and name not in options]
    kept = [*outputs, *saved]
    forward_statements = shared(stated_nodes, kept)
    forward_statements, backward_statements, saved = unnormalised(
        forward_statements, backward_statements, saved, [*outputs, *wanted], trace.sizes
    )
    backward_statements = without_vectors(backward_statements, wanted)

    taken = [_parameter(symbol) for symbol in inputs if isinstance(symbol, Tensor)]
    given = _upstream_parameter(upstream, shapes[outputs[0]])
    by_adjoint = {definition.name: definition for definition in gradient.definitions}
    returned = [_defined_parameter(shapes[outputs[0]])], [_defined_parameter(by_adjoint[name]) for name in wanted]

    def pair(stem: str, first: Sequence[Statement], second: Sequence[Statement], kept: Sequence[str]) -> Kernel:
        return Kernel(
            asked.program,
            _routine(f"{stem}_forward", program, first, taken, returned[0], inputs),
            _routine(f"{stem}_backward", program, second, [given], returned[1], inputs),
            tuple(kept),
            request.defaults,
            _hypotheses([*program.assumptions, *gradient.assumptions], forward),
            least_sizes([*forward, *adjoints], program.definitions),
        )

    plain = pair(program.name, forward_statements, backward_statements, saved)
    variants = []
    boundary = [parameter.sizes for parameter in (*taken, *returned[0], *returned[1])]
    other = lean(forward_statements, backward_statements, saved, [parameter.name for parameter in taken], boundary)
    if other is not None:
        first, second, few = other
        variants.append(pair(f"{program.name}_lean", deferred(first, [*outputs, *few], trace.sizes), second, few))
    if not shapes[outputs[0]].indices:
        adjoints = [replace(d, body=substitute(d.body, {upstream: S.One})) for d in adjoints]
        adjoint_nodes = _lowered(gradient, adjoints, stated, options, parts, adjoint_comments)
        both = rejoined([*nodes, *adjoint_nodes], parts)
        both = [replace(statement, node=gathered(statement.node)) for statement in both]
        kept = [*outputs, *wanted]
        statements = shared(both, kept)
        name = f"{program.name}_value_and_gradient"
        together = _routine(name, program, statements, taken, [*returned[0], *returned[1]], inputs)
        variants.append(replace(plain, forward=together, backward=None, saved=()))
    return replace(plain, variants=tuple(variants))


OVER_NOTHING: Mapping[str, str] = {
    "softmax": "0", "log_softmax": "inf", "logsumexp": "-inf", "mean": "0", "variance": "0",
}  # fmt: skip


def _hypotheses(stated: Sequence[str], forward: Sequence[Definition]) -> tuple[str, ...]:
    """The hypotheses that a file repeats; of an index set that may be empty it says what the kernel then gives."""
    policies: dict[str, list[str]] = {}
    for definition in forward:
        for name, text in masked_functions(definition):
            policies.setdefault(text, []).append(f"{name} is {OVER_NOTHING[name]}")
    told = {text: f"{text}; without any, {' and '.join(dict.fromkeys(said))}" for text, said in policies.items()}
    # What a statement is over nothing, 0/0, is replaced by what the kernel makes of it.
    named = {text: next((known for known in told if text.startswith(known)), text) for text in [*stated, *told]}
    shown = [told.get(known, known).replace(NO_VALUE, SLOPE_AT_ZERO) for known in named.values()]
    return tuple(dict.fromkeys(shown))


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
    for symbol in inputs:
        for size in symbol.shape if isinstance(symbol, Tensor) else ():
            if not isinstance(size, (Dim, Integer)):
                raise KernelError(
                    f"{program.name}: input {symbol.name} has an axis of size {size}; a kernel takes arrays whose "
                    "sizes are letters or numbers"
                )


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
    statements = weighted(statements, [*map(_name, inputs), *RESERVED])

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


def _lowered(
    program: Program, definitions: Sequence[Definition], known: tuple[Definition, ...], options: set[str],
    parts: Mapping[str, tuple[str, str]], comments: Mapping[str, Told],
) -> list[Statement]:  # fmt: skip
    made = []
    names = [other.name for other in known]
    nonempty = frozenset(least_sizes(definitions, known))
    without_value, sums_of_weights = slopes(known, program), totals(known)
    sizes = typical_sizes(program)
    outputs = program.request.outputs if program.request is not None else ()
    for place, definition in enumerate(definitions):
        is_stated = definition.name in names
        # Of other adjoints it is enough to know where one is infinite, which a logarithm may be.
        logarithms = [other for other in definitions[:place] if other.body.has(log)]
        earlier = known[: names.index(definition.name)] if is_stated else (*known, *logarithms)
        body = stable(definition.body, earlier)
        comment = comments[definition.name]
        named = {other.symbol: other for other in earlier}
        reasons = [comment.because] if comment.because else []
        reasons += identities(unfold(definition.body), named)
        if is_stated:
            body, zeros = centred(body, named)
            reasons += [f"{zero}, subtracted once more" for zero in zeros]
        else:
            body = without_value.settled(body)
        body = divided(body, sums_of_weights)
        context = Context(
            program.name, frozenset(options), definition.indices, parts=parts, nonempty=nonempty, sizes=sizes,
            finite_tops=has_sum_beside_others(body),
            in_full=definition.symbol in outputs and _is_exponential(body, definition.indices),
        )  # fmt: skip
        formula = comment.formula
        both = logsumexp_parts(body, context) if isinstance(body, Defined) else None
        if both is not None and definition.name in parts:
            # A logsumexp keeps its parts: who subtracts from it subtracts from the maximum first.
            called = parts[definition.name]
            for name, node, text in zip(called, both, (f"{formula} = {' + '.join(called)}", ""), strict=True):
                made.append(Statement(name, node, definition.indices, text))
        node = lower_definition(body, context)
        made.append(Statement(definition.name, node, definition.indices, formula, "; ".join(reasons)))
    return [replace(statement, node=gathered(statement.node)) for statement in made]


def _is_exponential(body: Any, over: Sequence[Index]) -> bool:
    """Whether a result consists of exponentials; one that is the same for a row of it is a scale."""
    return any(isinstance(factor, exp) and free_indices(factor) >= set(over) for factor in Mul.make_args(body))


def _parts(program: Program) -> dict[str, tuple[str, str]]:
    """The names of the two parts of each definition that is a logsumexp: the maximum, and the logarithm added to it."""
    taken = {*program.names(), *map(_name, program.all_inputs()), *RESERVED}
    return {
        definition.name: (fresh_name(f"{definition.name}_top", taken), fresh_name(f"{definition.name}_log", taken))
        for definition in program.definitions
        for body in [stable(definition.body)]
        if isinstance(body, Defined) and body.name == "logsumexp"
    }

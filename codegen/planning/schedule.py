"""From a program to its kernels: which definitions are computed where, what is saved, what is computed once.

Fourth stage of the compiler. A program with `kernel(O, wrt=[Q, K, V])` becomes two functions. The forward one
computes the definitions that O needs; the backward one the adjoints of Q, K, V. Forward values that the adjoints read
are saved, and nothing else. Equal subexpressions, wherever they stand, become one named value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sympy import Mul, S, exp, log

from codegen.algebra.costs import typical_sizes
from codegen.algebra.passes import Stage
from codegen.algebra.trace import Asked, Told, Trace, asked_of, needed, told, traced
from codegen.errors import KernelError
from codegen.ir.sharing import Statement, fresh_name, reads
from codegen.lowering.context import Context
from codegen.lowering.exponentials import logsumexp_parts
from codegen.lowering.rules import RULES
from codegen.lowering.scattering import lower_definition
from codegen.planning.deferring import deferred
from codegen.planning.factors import gathered
from codegen.planning.keeping import with_factors_kept, with_rows_kept
from codegen.planning.least_sizes import Needs, divided_sizes, least_sizes
from codegen.planning.naming import shared
from codegen.planning.routines import (
    RESERVED,
    Kernel,
    Routine,
    check_names,
    defined_parameter,
    name_of,
    parameters,
    routine,
)
from codegen.planning.shifts import unshifted
from codegen.planning.unnormalised import unnormalised
from codegen.planning.variants import lean, rejoined
from codegen.planning.vectors import without_vectors
from codegen.stability.bounds import has_sum_below_another, has_sum_beside_others, has_sum_of_powers
from codegen.stability.centring import centred, values_in
from codegen.stability.rules import spelled_stable, stable
from codegen.stability.slopes import SLOPE_AT_ZERO, slopes
from codegen.stability.tails import identities
from codegen.stability.vanishing import selected
from codegen.stability.weights import divided, totals
from derive.binders import free_indices, substitute
from derive.exceptional import NO_VALUE, masked_functions
from derive.functions import DEFINITIONS, Defined, unfold
from derive.gradient import Gradient
from derive.language import Flag, Index, Scalar, Tensor
from derive.program import Program
from derive.statements import Definition


def plan(program: Program) -> Kernel:
    """The kernels that a program asks for.

    Raises:
        KernelError: it asks for none, or for something that has no array form.
    """
    return _planned(asked_of(program))


@lru_cache(maxsize=500)
def _planned(asked: Asked) -> Kernel:
    program = asked.program
    if program.request is None:
        raise KernelError(f"{program.name}: asks for no kernel; say {program.name}.kernel(output, wrt=[...])")
    inputs = program.all_inputs()
    if not any(isinstance(symbol, Tensor) for symbol in inputs):
        raise KernelError(f"{program.name}: has no array among its inputs; a kernel is a function of arrays")
    check_names(program, inputs)
    stated = _stated(program)
    return _differentiated(stated) if program.request.wrt else _forward_only(stated)


@dataclass(frozen=True)
class Stated:
    """What a program states, and what is known of it before its functions are put together.

    Attributes:
        program: The program with names for its parts, its definitions in log space.
        trace: Its definitions and adjoints after each pass.
        inputs: What it takes.
        options: The names of the numbers and flags among them.
        outputs: The names of what is returned.
        forward: The definitions that these need.
        parts: The names of the two parts of each definition that is a logsumexp.
        statements: The definitions, lowered.
    """

    program: Program
    trace: Trace
    inputs: tuple[Any, ...]
    options: frozenset[str]
    outputs: tuple[str, ...]
    forward: tuple[Definition, ...]
    parts: Mapping[str, tuple[str, str]]
    statements: tuple[Statement, ...]

    @property
    def given(self) -> frozenset[str]:
        """The names of the inputs."""
        return frozenset(map(name_of, self.inputs))

    def lowered(self, program: Program, stages: Sequence[Stage], changed: Sequence[Definition] = ()) -> list[Statement]:
        """The definitions that are left after all passes, lowered, or others in their place.

        `program` is what they are definitions of.
        """
        definitions = changed or stages[-1].definitions
        return _lowered(program, definitions, tuple(self.program.definitions), self.options, self.parts, told(stages))


def _stated(asked: Program) -> Stated:
    trace = traced(asked)
    inputs, program = tuple(asked.all_inputs()), trace.stated
    outputs = tuple(name_of(output) for output in program.request.outputs) if program.request is not None else ()
    names = needed(program, outputs)
    options = frozenset(name_of(symbol) for symbol in inputs if isinstance(symbol, (Scalar, Flag)))
    forward = tuple(definition for definition in program.definitions if definition.name in names)
    bare = Stated(program, trace, inputs, options, outputs, forward, _parts(program), ())
    return replace(bare, statements=tuple(bare.lowered(program, trace.forward)))


def _forward_only(stated: Stated) -> Kernel:
    """The kernel of a program that asks for no gradient."""
    program, outputs, named = stated.program, stated.outputs, tuple(stated.trace.program.definitions)
    statements = deferred(shared(stated.statements, outputs), outputs, stated.trace.sizes)
    shapes = {definition.name: definition for definition in program.definitions}
    given = parameters(stated.inputs)
    returned = [defined_parameter(shapes[name]) for name in outputs]
    made = routine(program.name, program, statements, given, returned, stated.inputs)
    needs = _needs(stated, stated.forward, made)
    hypotheses = _hypotheses(program.assumptions, stated.forward)
    return Kernel(stated.trace.asked, named, made, None, (), _defaults(program), hypotheses, needs)


def _needs(stated: Stated, definitions: Sequence[Definition], *routines: Routine) -> Needs:
    """The least size of each axis that may not be empty: for what is defined, and for what is computed of it."""
    nodes = [statement.node for made in routines for statement in made.statements]
    return {**divided_sizes(nodes, definitions), **least_sizes(definitions, stated.program.definitions)}


def _defaults(program: Program) -> Mapping[str, float | bool]:
    return program.request.defaults if program.request is not None else {}


def _differentiated(stated: Stated) -> Kernel:
    """The kernels of a program that asks for a gradient, in all schedules."""
    program, trace = stated.program, stated.trace
    if len(stated.outputs) != 1:
        raise KernelError(f"{program.name}: a differentiated kernel has one output, found {[*stated.outputs]}")
    gradient = trace.gradient
    if gradient is None:
        raise KernelError(f"{program.name}: is differentiated and has no gradient")
    adjoints = stated.lowered(gradient, trace.backward)
    forward, backward, saved = _both(stated, adjoints)
    shapes = {definition.name: definition for definition in (*program.definitions, *gradient.definitions)}
    given = parameters(stated.inputs)
    (output,) = [defined_parameter(shapes[name]) for name in stated.outputs]
    gradients = [defined_parameter(shapes[name]) for name in trace.wanted]
    upstream = replace(output, name=name_of(gradient.upstream))

    both = [*stated.forward, *trace.backward[-1].definitions]
    named = tuple(trace.program.definitions)

    def pair(stem: str, first: Sequence[Statement], second: Sequence[Statement], kept: Sequence[str]) -> Kernel:
        made = (
            routine(f"{stem}_forward", program, first, given, [output], stated.inputs),
            routine(f"{stem}_backward", program, second, [upstream], gradients, stated.inputs),
        )
        hypotheses = _hypotheses([*program.assumptions, *gradient.assumptions], stated.forward)
        needs = _needs(stated, both, *made)
        return Kernel(trace.asked, named, *made, tuple(kept), _defaults(program), hypotheses, needs)

    plain, variants = pair(program.name, forward, backward, saved), []
    boundary = [each.sizes for each in (*given, output, *gradients)]
    other = lean(forward, backward, saved, [each.name for each in given], boundary)
    if other is not None:
        first, second, few = other
        first = deferred(first, [*stated.outputs, *few], trace.sizes)
        variants.append(pair(f"{program.name}_lean", first, second, few))
    if not output.sizes:
        statements = _together(stated, gradient)
        name = f"{program.name}_value_and_gradient"
        together = routine(name, program, statements, given, [output, *gradients], stated.inputs)
        needs = _needs(stated, both, together)
        variants.append(replace(plain, forward=together, backward=None, saved=(), needs=needs))
    return replace(plain, variants=tuple(variants))


def _both(stated: Stated, adjoints: Sequence[Statement]) -> tuple[list[Statement], list[Statement], list[str]]:
    """The statements of the forward and of the backward kernel, and the names of what the first saves."""
    trace, wanted, outputs = stated.trace, stated.trace.wanted, stated.outputs
    adjoints = unshifted(adjoints, [logarithm for _, logarithm in stated.parts.values()])
    forward, backward = with_rows_kept(stated.statements, adjoints, stated.given | RESERVED)
    forward, backward = with_factors_kept(forward, backward, outputs[0], stated.given, stated.options | RESERVED)
    backward = shared(backward, wanted)
    read = {name for statement in backward for name in reads(statement.node)} - {s.name for s in backward}
    at_hand = [*map(name_of, stated.inputs), *(statement.name for statement in forward)]
    saved = [name for name in at_hand if name in read and name not in stated.options]
    kept = [*outputs, *saved]
    forward = shared(forward, kept)
    forward, backward, saved = unnormalised(forward, backward, saved, [*outputs, *wanted], trace.sizes)
    return forward, without_vectors(backward, wanted), saved


def _together(stated: Stated, gradient: Gradient) -> list[Statement]:
    """The statements of value and gradient in one function; the gradient of the value itself is 1."""
    trace, kept = stated.trace, [*stated.outputs, *stated.trace.wanted]
    adjoints = [replace(d, body=substitute(d.body, {gradient.upstream: S.One})) for d in trace.backward[-1].definitions]
    lowered = stated.lowered(gradient, trace.backward, adjoints)
    both = rejoined([*stated.statements, *lowered], stated.parts)
    both = [replace(statement, node=gathered(statement.node)) for statement in both]
    return shared(both, kept)


def _hypotheses(stated: Sequence[str], forward: Sequence[Definition]) -> tuple[str, ...]:
    """The hypotheses that a file repeats; of an index set that may be empty it says what the kernel then gives."""
    policies: dict[str, list[str]] = {}
    for definition in forward:
        for name, text in masked_functions(definition):
            policies.setdefault(text, []).append(f"{name} is {DEFINITIONS[name].over_nothing}")
    told = {text: f"{text}; without any, {' and '.join(dict.fromkeys(said))}" for text, said in policies.items()}
    # What a statement is over nothing, 0/0, is replaced by what the kernel makes of it.
    named = {text: next((known for known in told if text.startswith(known)), text) for text in [*stated, *told]}
    shown = [told.get(known, known).replace(NO_VALUE, SLOPE_AT_ZERO) for known in named.values()]
    return tuple(dict.fromkeys(shown))


# ---------------------------------------------------------------------------------------------------------------------
# Which definitions, and in which form.


def _lowered(
    program: Program, definitions: Sequence[Definition], known: tuple[Definition, ...], options: frozenset[str],
    parts: Mapping[str, tuple[str, str]], comments: Mapping[str, Told],
) -> list[Statement]:  # fmt: skip
    """The statements that compute the definitions: each made stable, then lowered, with what is said of it.

    `known` are the stated definitions, `parts` the names of the two parts of each that is a logsumexp.
    """
    made: list[Statement] = []
    adjoints: dict[Any, Definition] = {}
    in_full = {other.symbol: spelled_stable(other) for other in known}
    names = [other.name for other in known]
    nonempty = frozenset(least_sizes(definitions, known))
    without_value, sums_of_weights = slopes(known, program), totals(known)
    values = frozenset().union(*({other.symbol, *values_in(other.body)} for other in known))
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
        body, zeros = centred(body, named, None if is_stated else values)
        reasons += [f"{zero}, subtracted once more" for zero in zeros]
        if not is_stated:
            body = selected(without_value.settled(body), in_full, adjoints)
            adjoints[definition.symbol] = replace(definition, body=body)
        body = divided(body, sums_of_weights)
        context = Context(
            program.name, options, definition.indices, parts=parts, nonempty=nonempty, sizes=sizes,
            finite_tops=has_sum_beside_others(body) or has_sum_below_another(body, named) or has_sum_of_powers(body),
            in_full=definition.symbol in outputs and _is_exponential(body, definition.indices), rules=RULES,
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
    taken = {*program.names(), *map(name_of, program.all_inputs()), *RESERVED}
    return {
        definition.name: (fresh_name(f"{definition.name}_top", taken), fresh_name(f"{definition.name}_log", taken))
        for place, definition in enumerate(program.definitions)
        for body in [stable(definition.body, program.definitions[:place])]
        if isinstance(body, Defined) and body.name == "logsumexp"
    }

"""What the compiler did to a program, pass by pass: a value, from which the plan and the explanations are made.

Between the derivation and `codegen.planning.schedule`. `traced` chooses the definitions of the two routines, those that
the outputs need and the adjoints that are asked for, and applies the algebraic passes (`codegen.algebra.passes`).
Nothing is logged on the way: what a pass did is the difference of two stages, and can be asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from codegen.algebra.arguments import with_arguments_named
from codegen.algebra.comparisons import with_sets_compared
from codegen.algebra.costs import Cost, Sizes, typical_sizes
from codegen.algebra.logspace import log_space_rewrites
from codegen.algebra.networks import names_in
from codegen.algebra.parts import with_parts_named
from codegen.algebra.passes import Stage, backward_stages, forward_stages
from codegen.algebra.rewriting import Rewrite
from codegen.algebra.sifting import with_entries_read
from derive.gradient import Gradient, depends_on
from derive.program import Program
from derive.statements import Claim, Definition
from derive.writing import written, written_definition


@dataclass(frozen=True)
class Trace:
    """The stages of a program's routines; without a gradient there is no backward one.

    `asked` is the program as it was written, `program` the same with look-ups for sums that pick an entry
    (`codegen.algebra.sifting`), sizes of sets for sums of positive terms that are compared with 0
    (`codegen.algebra.comparisons`), and names for what is stated in one piece: the parts of sums within sums
    (`codegen.algebra.parts`), and what functions are of (`codegen.algebra.arguments`). `stated` is what is
    differentiated, its definitions in log space besides (`codegen.algebra.logspace`).
    """

    asked: Program
    program: Program
    stated: Program
    gradient: Gradient | None
    wanted: tuple[str, ...]
    forward: tuple[Stage, ...]
    backward: tuple[Stage, ...]
    sizes: Sizes


@dataclass(frozen=True)
class Asked:
    """A program with its contents: what is made of one is made of every other with the same contents."""

    program: Program = field(compare=False)
    contents: tuple[Any, ...]


def asked_of(program: Program) -> Asked:
    """The program as it is now, as a key; one that is given more definitions later has another."""
    asked: tuple[Any, ...] = ()
    if program.request is not None:
        choices = (program.request.defaults, program.request.typical)
        asked = program.request.outputs, program.request.wrt, *(tuple(choice.items()) for choice in choices)
    stated = tuple(program.all_inputs()), tuple(program.definitions), tuple(program.assumptions)
    return Asked(program, (program.name, program.title, *stated, *asked))


def traced(program: Program) -> Trace:
    """The stages of a program that asks for a kernel."""
    return _traced(asked_of(program))


@lru_cache(maxsize=500)
def _traced(asked: Asked) -> Trace:
    """The trace of what is asked for: the definitions that it needs, through all algebraic passes."""
    program = with_arguments_named(with_sets_compared(with_parts_named(with_entries_read(asked.program))))
    request = program.request
    outputs = request.outputs if request is not None else ()
    names = needed(program, [str(output.name) for output in outputs])
    forward = [definition for definition in program.definitions if definition.name in names]
    first = forward_stages(program, forward)
    stated = _in_log_space(program)
    sizes = typical_sizes(program)
    if request is None or not request.wrt or len(outputs) != 1:
        return Trace(asked.program, program, stated, None, (), first, (), sizes)
    gradient = stated.gradient(outputs[0], request.wrt)
    wanted = [str(gradient.adjoint(symbol).name) for symbol in request.wrt]
    known, read = set(stated.names()), needed(gradient, wanted)
    adjoints = [d for d in gradient.definitions if d.name in read and d.name not in known]
    forward = list(stated.definitions)
    second = backward_stages(gradient, adjoints, forward, wanted)
    return Trace(asked.program, program, stated, gradient, tuple(wanted), first, second, sizes)


def _in_log_space(program: Program) -> Program:
    """The definitions that the outputs need, names of exponentials written in where they divide or have a logarithm.

    No adjoint is to be written with a name that the forward kernel does not compute.
    """
    bodies = {rewrite.definition.name: rewrite.body for rewrite in log_space_rewrites(program.definitions)}
    changed = replace(program, definitions=[replace(d, body=bodies.get(d.name, d.body)) for d in program.definitions])
    outputs = program.request.outputs if program.request is not None else ()
    names = needed(changed, [str(output.name) for output in outputs])
    return replace(changed, definitions=[d for d in changed.definitions if d.name in names])


def needed(program: Program, names: Sequence[str]) -> set[str]:
    """All names that the given ones are computed from, themselves included."""
    found: set[str] = set()
    for name in names:
        found |= {str(symbol.name) for symbol in depends_on(program, program[name])}
    return found


# ---------------------------------------------------------------------------------------------------------------------
# What a rewrite states.


def claims_of(rewrite: Rewrite, program: Program) -> Iterator[Claim]:
    """The statement of a rewrite, old body = new body, given more and more of the definitions that it rests on.

    Of the program are given, first, the definitions that the rewrite mentions; then those that these are made from, and
    so on to all. What is not given stands for any array: where one of these claims is proved, the rewrite is right.
    """
    mentioned = names_in(rewrite.definition.body, rewrite.body, *(side for pair in rewrite.changes for side in pair))
    given: set[str] = set()
    more = mentioned & set(program.names())
    while True:
        given |= more
        known = [definition for definition in program.definitions if definition.name in given]
        stated = Program(f"{program.name}_rewrite", definitions=known)
        over = rewrite.definition.indices
        yield stated.claim(rewrite.definition.name, rewrite.definition.body, rewrite.body, over=over)
        more = names_in(*(definition.body for definition in known)) & set(program.names())
        if more <= given:
            return


# ---------------------------------------------------------------------------------------------------------------------
# What is said beside the generated lines.


@dataclass(frozen=True)
class Told:
    """What a comment says of a value: its formula, and the identities by which it is computed in another way."""

    formula: str
    because: str = ""


def told(stages: Sequence[Stage]) -> Mapping[str, Told]:
    """The comment for each definition of the last stage.

    The formula is the one that was derived, as long as all that it reads is still there, otherwise the one left.
    """
    first = {definition.name: definition for definition in stages[0].definitions}
    gone = set(first) - {definition.name for definition in stages[-1].definitions}
    comments = {}
    for definition in stages[-1].definitions:
        derived = first.get(definition.name, definition)
        kept = derived if not names_in(derived.body) & gone else definition
        comments[definition.name] = Told(_formula(kept), "; ".join(_reasons(definition, stages, gone)))
    return comments


def _formula(definition: Definition) -> str:
    return written_definition(definition.left, definition.body)


def _reasons(definition: Definition, stages: Sequence[Stage], gone: set[str]) -> Iterator[str]:
    """What was done to one definition on the way: names that were written in, and the identities that were used."""
    written_in: list[str] = []
    identities: list[str] = []
    for rewrite in (rewrite for stage in stages for rewrite in stage.rewrites):
        if rewrite.definition.name == definition.name:
            for left, right in rewrite.changes:
                if names_in(left) <= gone and names_in(left):
                    written_in.append(min(names_in(left)))
                elif not (names_in(left) | names_in(right)) & gone:
                    identities.append(f"{written(left)} = {written(right)}")
    if written_in:
        yield f"{', '.join(dict.fromkeys(written_in))} written in"
    yield from dict.fromkeys(identities)


# ---------------------------------------------------------------------------------------------------------------------
# The whole story, for a reader.


def explained(trace: Trace) -> Iterator[str]:
    """The lines that tell what happened to a program: its definitions after each pass, with costs and identities."""
    yield f"{trace.program.name}: {trace.program.title}"
    if trace.sizes:
        sizes = ", ".join(f"{name} = {size}" for name, size in sorted(trace.sizes.items()))
        yield f"costs at sizes assumed to be typical: {sizes}"
    is_in_one_piece = trace.program.definitions != trace.asked.definitions
    if is_in_one_piece:
        yield from ("", "as stated", *map(_stated, trace.asked.definitions))
    for title, stages in (("forward", trace.forward), ("backward", trace.backward)):
        for place, stage in enumerate(stages):
            yield ""
            start = "with names for its parts" if is_in_one_piece and title == "forward" else stage.name
            yield f"{title}, {start}" if place == 0 else f"{title}, after the pass: {stage.name}"
            before = stages[place - 1] if place else None
            yield from _costs(stage.cost, before.cost if before is not None else None, trace.sizes)
            yield from _definitions(stage) if before is None else _rewrites(stage, before)


def _costs(cost: Cost, before: Cost | None, sizes: Sizes) -> Iterator[str]:
    for label, now, then in (
        ("operations", cost.operations, before and before.operations),
        ("bytes", cost.bytes, before and before.bytes),
    ):
        change = f", was {then.at(sizes):.3g}" if then and then != now else ""
        if before is None or then != now:
            yield f"  {label}: {now} = {now.at(sizes):.3g}{change}"


def _definitions(stage: Stage) -> Iterator[str]:
    yield from map(_stated, stage.definitions)


def _stated(definition: Definition) -> str:
    return f"    {_formula(definition)}"


def _rewrites(stage: Stage, before: Stage) -> Iterator[str]:
    """What a pass did, in order: each new formula with the identities behind it, and at last what is gone."""
    for rewrite in stage.rewrites:
        yield f"    {written_definition(rewrite.definition.left, rewrite.body)}"
        for left, right in rewrite.changes:
            yield f"      by {written(left)} = {written(right)}"
    left_over = {definition.name for definition in stage.definitions}
    gone = [definition.name for definition in before.definitions if definition.name not in left_over]
    if gone:
        yield f"    no longer computed: {', '.join(gone)}"

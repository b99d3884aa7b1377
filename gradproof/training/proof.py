"""What training runs is the gradient of the loss: the claims that say so, for a model of any sizes.

Beside the data flow of training, on the side of the mathematics; nothing here is used while a model trains. The chain
of kernels (`chain`) is read twice. First the programs that the kernels were generated from are put together, step by
step, into one program from tokens to the loss, and its gradient is derived as a whole. Then the backward pass is read,
and for every array that a kernel's backward pass computes it is claimed that the kernel's own formula, with the
cotangents that it is handed, gives the array of the same meaning in the gradient of the whole. Each claim speaks of
cotangents that the claims before it are about; going through the list, each array that training computes is part of the
gradient of the loss.

For each kernel it is claimed besides that its backward pass, derived in reverse mode, is the transpose of the
derivative that forward mode finds: <dy, ty> = the sum of <dx, tx> over its inputs, for all dy and all directions tx.

Sizes stay letters. The number of layers, and which options are on, are those of the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sympy import Add, Expr

from codegen.generate import MANIFEST, render_all
from derive.binders import substitute
from derive.composition import Application
from derive.errors import StatementError
from derive.gradient import Gradient
from derive.language import Index, Scalar, Sum, Tensor, dims, entry
from derive.library import load
from derive.program import Program
from derive.statements import Claim, Definition, Name
from gradproof.training.chain import ADDITION, LOSS, TOKENS, Pull, Step, backward_steps, cotangent, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.errors import KernelMissingError
from gradproof.training.kernels import kernel, kernel_folder

__all__ = ["COVERAGE", "check_generated", "claims_of_model", "program_of_model"]

COVERAGE = (
    "Proved together: every array that the backward pass of this model computes is part of the gradient of the loss, "
    "for all sizes; and each backward kernel is the transpose of its kernel's derivative.",
    "Compared: the files of these kernels, and of what they share, are byte for byte what is generated from the "
    "statements used here.",
    "Not covered: rounding, and that generated code computes its statement, which `gradproof check` tests in numbers. "
    "The parts of a batch and the update have claims of their own, `gradproof prove micro_batches gradient_clipping "
    "step_size adamw`, and files of their own, which `gradproof generate --check` compares.",
)
"""What a proof of all claims of a model means, for whoever reads the verdicts."""


@dataclass(frozen=True)
class _Whole:
    """The model as one program, and for each step how its kernel's program was applied."""

    program: Program
    arrays: dict[str, Name]
    applied: dict[Step, Application]
    kernels: tuple[Program, ...]

    @property
    def addition(self) -> Program:
        """The program of the kernel that adds cotangents."""
        return next(program for program in self.kernels if program.name == ADDITION)


def program_of_model(config: TrainingConfig) -> Program:
    """The program from tokens and targets to the loss, put together from the programs of the kernels."""
    return _whole(config).program


def claims_of_model(config: TrainingConfig) -> list[Claim]:
    """The claims that what training with these settings runs is the gradient of the loss; see the module.

    Raises:
        StatementError: The backward pass reads a cotangent that it has not made, or leaves one out.
    """
    whole = _whole(config)
    weights = _weights(config)
    gradient = whole.program.gradient(whole.arrays[LOSS], [whole.arrays[name] for name in weights])
    parts: dict[str, Definition] = {}  # of cotangents that are sums over several uses, by the name in the chain
    claimed = {cotangent(LOSS)}
    for item in backward_steps(forward_steps(config, dropout=True)):
        if isinstance(item, Pull):
            if item.cotangent not in claimed:
                raise StatementError(f"{item.step.place}: expected {item.cotangent} to be made before it is used")
            found = _pulled_back(item, whole, gradient)
        else:
            found = iter([(item.output, _added(whole, [parts.pop(name) for name in item.inputs]))])
        kernel_name = item.step.kernel if isinstance(item, Pull) else item.kernel
        for name, definition in found:
            known = whole.arrays.get(name.removeprefix(cotangent("")))
            if known is None:
                parts[name] = definition
            else:
                _claim(gradient, gradient.adjoint(known), definition, f"{name}, by {kernel_name}")
                claimed.add(name)
    left = [*parts, *(cotangent(name) for name in weights if cotangent(name) not in claimed)]
    if left:
        raise StatementError(f"the backward pass of the model leaves out {', '.join(left)}")
    return [replace(claim, source="") for claim in (*map(_transpose_of, whole.kernels), *gradient.claims)]


def check_generated(config: TrainingConfig) -> None:
    """Refuse kernels that are not, byte for byte, what is generated from the statements that the claims are about.

    Raises:
        KernelMissingError: A kernel that both passes of training with these settings call is missing, or another one.
    """
    programs = _whole(config).kernels
    for program in programs:
        kernel(program.name, f"{program.name}_forward", config.engine)
    for name, text in render_all(programs, [config.engine]).items():
        file = kernel_folder() / name
        if name != MANIFEST and not (file.is_file() and file.read_bytes() == text.encode()):
            raise KernelMissingError(
                f"{file}: expected what is generated from the statements as they are now, found something else; "
                "`gradproof generate --check` shows the difference, `gradproof generate` writes it anew"
            )


def _transpose_of(program: Program) -> Claim:
    """The claim that a kernel's backward pass is the transpose of its derivative in forward mode."""
    assert program.request is not None
    output, inputs = _output(program), list(program.request.wrt)
    both = program.gradient(output, inputs)
    tangents = program.tangent(output, inputs)
    both.definitions += tangents.definitions[len(program.definitions) :]

    def inner(first: Name, second: Name, over: tuple[Index, ...]) -> Expr:
        product = entry(first, over) * entry(second, over)
        return Sum(product, *over) if over else product

    stated = program.definition(str(output.name))
    assert stated is not None
    assert both.upstream is not None
    terms = []
    for symbol in inputs:
        adjoint = both.definition(str(both.adjoint(symbol).name))
        assert adjoint is not None
        direction = next(known for known in tangents.inputs if str(known.name) == tangents.adjoints[str(symbol.name)])
        terms.append(inner(adjoint.symbol, direction, adjoint.indices))
    left = inner(both.upstream, tangents.adjoint(output), stated.indices)
    return both.claim(program.name, left, Add(*terms), name="backward is the transpose of the derivative")


def _pulled_back(pull: Pull, whole: _Whole, gradient: Gradient) -> Iterator[tuple[str, Definition]]:
    """The cotangents that a kernel's backward pass makes; what it computes on the way is claimed first."""
    step, applied = pull.step, whole.applied[pull.step]
    program = applied.program
    varied = _inputs(program, step, step.varied)
    own = program.gradient(_output(program), [symbol for symbol, _ in varied])
    application = Application(program, dict(applied.extents), dict(applied.names))
    application.names[own.upstream] = gradient.adjoint(whole.arrays[step.output])
    wanted = {str(own.adjoint(symbol).name): name for (symbol, _), name in zip(varied, pull.makes, strict=True)}
    for stated in own.definitions[len(program.definitions) :]:
        if stated.name in wanted:
            continue
        of = next(name for name, adjoint in own.adjoints.items() if adjoint == stated.name)
        application.names[stated.symbol] = gradient.adjoint(applied.names[program[of]])
        definition = application.definition(stated, stated.symbol)
        _claim(gradient, application.names[stated.symbol], definition, f"{stated.name} of {step.place}, {step.kernel}")
    for stated in own.definitions[len(program.definitions) :]:
        if stated.name in wanted:
            yield wanted[stated.name], application.definition(stated, stated.symbol)


def _added(whole: _Whole, parts: list[Definition]) -> Definition:
    """What the addition kernel makes of two parts of a cotangent, by its own statement."""
    (stated,) = whole.addition.definitions
    (index,) = stated.indices
    first, second = parts
    moved = dict(zip(second.indices, first.indices, strict=True))
    summands = (first.body, substitute(second.body, moved))
    given = {symbol[index]: summand for symbol, summand in zip(whole.addition.inputs, summands, strict=True)}
    return Definition(first.symbol, first.indices, substitute(stated.body, given))


def _claim(gradient: Gradient, symbol: Name, found: Definition, name: str) -> None:
    number = len(gradient.claims) + 1
    gradient.claim(f"model-{number}", entry(symbol, found.indices), found.body, name=name, over=found.indices)


# ---------------------------------------------------------------------------------------------------------------------
# The model as one program.


def _whole(config: TrainingConfig) -> _Whole:
    """The programs of the model's kernels put together, in the order of the forward list, into one."""
    steps = forward_steps(config, dropout=True)
    programs = {program.name: program for program in load(sorted({step.kernel for step in steps}))}
    program = Program("model", "a GPT from tokens to the loss", origin=__name__)
    batch, length, vocabulary = dims("N T V")
    arrays: dict[str, Name] = {TOKENS: Tensor(TOKENS, (batch, length), into=vocabulary)}
    applied = {}
    for step in steps:
        application = Application(programs[step.kernel])
        for symbol, name in _inputs(application.program, step, step.inputs):
            if name in arrays:
                application.bind(symbol, arrays[name])
        for symbol, name in _inputs(application.program, step, step.inputs):
            if name not in arrays:
                arrays[name] = application.declare(symbol, _identifier(name))
        _define(program, application, step, arrays)
        applied[step] = application
    return _Whole(program, arrays, applied, tuple(programs.values()))


def _define(program: Program, application: Application, step: Step, arrays: dict[str, Name]) -> None:
    """Add the definitions of a step's program; the last one is the step's output."""
    for scalar in application.program.inputs:
        if isinstance(scalar, Scalar):
            application.names[scalar] = Scalar(f"{step.kernel}_{scalar.name}", positive=bool(scalar.is_positive))
    output = _output(application.program)
    for stated in application.program.definitions:
        name = _identifier(step.output if stated.symbol == output else f"{step.output}.{stated.name}")
        made = application.definition(stated, stated.symbol)
        application.names[stated.symbol] = program.define(name, made.indices, made.body)
    arrays[step.output] = application.names[output]


def _inputs(program: Program, step: Step, names: tuple[str, ...]) -> list[tuple[Tensor, str]]:
    """The program's tensors and the arrays that the step gives for them, those of the given names."""
    tensors = [symbol for symbol in program.inputs if isinstance(symbol, Tensor)]
    return [(symbol, name) for symbol, name in zip(tensors, step.inputs, strict=True) if name in names]


def _weights(config: TrainingConfig) -> list[str]:
    """The names of the parameters: what varies and is made by no step."""
    steps = forward_steps(config, dropout=True)
    made = {step.output for step in steps}
    return list(dict.fromkeys(name for step in steps for name in step.varied if name not in made))


def _identifier(name: str) -> str:
    """The name of an array as a program can have it: letters, digits and underscores."""
    return re.sub(r"\W", "_", name)


def _output(program: Program) -> Name:
    assert program.request is not None
    return program.request.outputs[0]

"""From kernels to files: the lines of each function, the documentation around them, and the layout by template.

Sixth stage of the compiler. Everything that is a decision is made here and in the stages before; the Jinja2 templates
only lay out what they are given. The text of a file depends on the program and on nothing else.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from codegen.backends.tables import LIBRARIES, RUNTIME_FUNCTIONS
from codegen.errors import KernelError
from codegen.printer import Printer
from codegen.registration import as_forward, differentiated_numbers, registration, result_type, summary, version_of
from codegen.schedule import RESERVED, Kernel, Parameter, Routine, plan
from codegen.sharing import reads
from codegen.summed import with_plain_summands
from codegen.sweeps import Step, Sweep, options_of, steps, sweep_lines
from codegen.wrapping import wrapped
from derive.language import Flag, Tensor
from derive.program import Program
from derive.writing import written_definition

TEMPLATES = Path(__file__).parent / "templates"
WIDTH = 116


@dataclass(frozen=True)
class FunctionText:
    """One function as the template lays it out."""

    signature: tuple[str, ...]
    summary: tuple[str, ...]
    arguments: tuple[str, ...]
    returned: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class RegisteredText:
    """An entry in a registry of operators, and the function that calls it."""

    operator: tuple[str, ...]
    function: FunctionText


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The template environment; a name that a template uses and is not given is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def kernel_file(program: Program, target: str) -> str:
    """The source text of the module with a program's kernels.

    Raises:
        KernelError: the program cannot be compiled, or there is no such target.
    """
    return kernel_text(plan(program), target)


def kernel_text(kernel: Kernel, target: str) -> str:
    """The source text of the module with the given kernels.

    Raises:
        KernelError: there is no such target, or a size cannot be known from the inputs.
    """
    if target not in LIBRARIES:
        raise KernelError(f"target {target}: expected one of {', '.join(sorted(LIBRARIES))}")
    program = kernel.program
    library = LIBRARIES[target]
    registers = "operators" in library.has
    kernel = as_forward(kernel) if registers else kernel
    printer = Printer(library, nonempty=frozenset(kernel.needs))
    functions: list[FunctionText] = []
    registered: list[RegisteredText] = []
    for schedule in (kernel, *kernel.variants):
        made, saved = _schedule(schedule, target, printer)
        functions += made
        if registers and (schedule is kernel or schedule.backward is not None):
            registered.append(_registered(schedule, saved, made))
    code = "\n".join(line for function in functions for line in function.lines if not line.lstrip().startswith("#"))
    shared = {"add_at", "bind", "cast", "incoming", "largest", "restore", *RUNTIME_FUNCTIONS} - library.has
    words = {*re.findall(r"(?<![\w.])[A-Za-z_]\w*", code), *(["Workspace"] if "workspace" in code else [])}
    return environment().get_template("kernel.py.jinja").render(
        title=_sentence(program.title or program.name),
        name=program.name,
        formulas=[line for formula in _formulas(kernel) for line in _wrapped(formula)],
        hypotheses=[*kernel.hypotheses, *(f"{size} >= {least}: {why}" for size, (least, why) in kernel.needs.items())],
        digest=statement_digest(program),
        needs_math="math" in words,
        library=library.runtime["library"],
        runtime=_imported([*["Array"], *["Saved"] * (kernel.backward is not None), *sorted(shared & words)]),
        workspace=sorted({"Room", "Workspace", "bounded", "or_one"} & words),
        functions=functions,
        registered=registered,
    )  # fmt: skip


def _imported(names: Sequence[str]) -> tuple[str, ...]:
    """The lines that import what a kernel uses of the runtime."""
    flat = f"from .runtime import {', '.join(names)}"
    return (flat,) if len(flat) <= WIDTH else _call("from .runtime import (", names, ")")


def _schedule(kernel: Kernel, target: str, printer: Printer) -> tuple[list[FunctionText], tuple[str, ...]]:
    """The functions of one schedule, and the names of what the first hands to the second."""
    if printer.library.plain_summands:
        kernel = with_plain_summands(kernel)
    forward_steps, backward_steps = steps(kernel, printer.library)
    forward_lines = _lines(printer, kernel.forward, forward_steps)
    if kernel.backward is None:
        return [_forward(kernel, target, forward_lines, ())], ()
    backward_lines = _lines(printer, kernel.backward, backward_steps)
    saved = _saved(kernel, backward_lines, backward_steps)
    return [_forward(kernel, target, forward_lines, saved), _backward(kernel, target, backward_lines, saved)], saved


def _saved(kernel: Kernel, backward_lines: Sequence[str], backward_steps: Sequence[Step]) -> tuple[str, ...]:
    """The names that the forward kernel hands to the backward one: leading dimensions, sizes, options, arrays."""
    if kernel.backward is None:
        return ()
    (upstream,) = kernel.backward.parameters
    shape = upstream.sizes[1:] if upstream.leading else upstream.sizes
    sizes = dict.fromkeys([*_used(kernel.backward.sizes, backward_lines), *(n for n in shape if not n.isdigit())])
    leading = ["leading"] if any(p.leading for p in (upstream, *kernel.backward.returns)) else []
    types = ["types"] if any(isinstance(symbol, Tensor) for symbol in kernel.variables) else []
    rows = dict.fromkeys(step.rows for step in backward_steps if isinstance(step, Sweep) and step.given)
    options = dict.fromkeys([*kernel.backward.options, *options_of(backward_steps)])
    return (*leading, *types, *sizes, *rows, *options, *kernel.saved)


def _lines(printer: Printer, routine: Routine, planned: Sequence[Step]) -> tuple[str, ...]:
    lines: list[str] = []
    taken = {*RESERVED, *routine.sizes, *routine.options, *(parameter.name for parameter in routine.parameters)}
    taken |= {statement.name for statement in routine.statements}.union(*(reads(s.node) for s in routine.statements))
    for statement in planned:
        if isinstance(statement, Sweep):
            lines += [piece for line in sweep_lines(statement, printer, taken) for piece in wrapped(line, WIDTH)]
            continue
        printed = [piece for line in printer.statement(statement) for piece in wrapped(line, WIDTH)]
        if statement.formula:
            shape = f"({', '.join(str(index.extent) for index in statement.axes)}{',' * (len(statement.axes) == 1)})"
            comment = f"{statement.formula}   {shape}" if statement.axes else statement.formula
            lines += [f"# {line}" for line in textwrap.wrap(comment, WIDTH - 6, subsequent_indent="    ")]
        if statement.because:
            reason = f"    by {statement.because}"
            lines += [f"# {line}" for line in textwrap.wrap(reason, WIDTH - 6, subsequent_indent="    ")]
        lines += printed
    return tuple(lines)


def _words(lines: Sequence[str]) -> set[str]:
    """The names that occur in the code of the lines."""
    return set(re.findall(r"[A-Za-z_]\w*", "\n".join(line for line in lines if not line.lstrip().startswith("#"))))


def _used(sizes: Sequence[str], lines: Sequence[str]) -> tuple[str, ...]:
    """The sizes whose names occur in the lines."""
    words = _words(lines)
    return tuple(size for size in sizes if size in words)


def _preamble(target: str, parameters: Sequence[Parameter], lines: Sequence[str]) -> tuple[str, ...]:
    """Lines that name the element type and the device, where the body needs them."""
    source = next((parameter.name for parameter in parameters if parameter.into is None), None)
    words = _words(lines)
    made = []
    for word in ("dtype", "device"):
        if word in words and source is not None:
            made.append(f"{word} = {source}.{word}")
    if "workspace" in words:
        made.append("workspace = workspace or Workspace()")
    return tuple(made)


def _shape(parameter: Parameter) -> str:
    sizes = ["...", *parameter.sizes[1:]] if parameter.leading else list(parameter.sizes)
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})" if sizes else "scalar"


def _described(parameter: Parameter) -> str:
    kind = f", integers in 0 .. {parameter.into}-1" if parameter.into is not None else ""
    return f"{parameter.name}: {_shape(parameter)}{kind}"


def _binding(parameter: Parameter) -> str:
    sizes = [f"{parameter.sizes[0]}...", *parameter.sizes[1:]] if parameter.leading else list(parameter.sizes)
    into = f', into="{parameter.into}"' if parameter.into is not None else ""
    return f'Array("{parameter.name}", {parameter.name}, "{" ".join(sizes)}"{into})'


def _call(start: str, arguments: Sequence[str], end: str, indent: str = "    ") -> tuple[str, ...]:
    """A call or signature on one line where it fits, else its arguments on lines of their own."""
    flat = f"{start}{', '.join(arguments)}{end}"
    if len(flat) <= WIDTH:
        return (flat,)
    packed = f"{indent}{', '.join(arguments)},"
    inner = [packed] if len(packed) <= WIDTH else [f"{indent}{argument}," for argument in arguments]
    return (start, *inner, end)


def _signature(name: str, arrays: Sequence[str], options: Sequence[str], array: str, result: str) -> tuple[str, ...]:
    arguments = [f"{name}: {array}" for name in arrays] + (["*", *options] if options else [])
    return _call(f"def {name}(", arguments, f") -> {result}:")


def _options(kernel: Kernel) -> list[str]:
    """The options in the order of the signature: those without a default first."""
    backward_options = kernel.backward.options if kernel.backward is not None else ()
    named = dict.fromkeys([*kernel.forward.options, *backward_options])
    return sorted(named, key=lambda name: name in kernel.defaults)


def _option(name: str, kernel: Kernel) -> str:
    flags = {str(symbol.name) for symbol in kernel.program.all_inputs() if isinstance(symbol, Flag)}
    kind = "bool" if name in flags else "float"
    return f"{name}: {kind} = {kernel.defaults[name]!r}" if name in kernel.defaults else f"{name}: {kind}"


def _unpacked(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _tuple(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def _forward(kernel: Kernel, target: str, lines: Sequence[str], saved: Sequence[str]) -> FunctionText:
    routine = kernel.forward
    known = {size for parameter in routine.parameters for size in parameter.sizes}
    least = ", ".join(f'"{size}": ({number}, "{why}")' for size, (number, why) in kernel.needs.items())
    sizes = [*_used(routine.sizes, lines), *(name for name in saved if name in known)]
    wanted = {*sizes, *(p.into for p in routine.parameters if p.into is not None and not p.into.isdigit())}
    if wanted - known:
        raise KernelError(
            f"{kernel.program.name}: size {min(wanted - known)} is the size of no input, so a kernel cannot know it; "
            "expected the size of an axis of an input, or a number"
        )
    options = _options(kernel)
    arrays = [parameter.name for parameter in routine.parameters]
    bound = [f'"{routine.name}"', *map(_binding, routine.parameters), *([f"needs={{{least}}}"] if least else [])]
    opening = [*_call("bound = bind(", bound, ")")]
    opening.append(f"{_unpacked(arrays)} = bound.arrays")
    if sizes:
        unique = list(dict.fromkeys(sizes))
        opening.append(f'{_unpacked(unique)} = bound.sizes("{" ".join(unique)}")')
    if "leading" in saved or any(parameter.leading for parameter in routine.returns):
        opening.append("leading = bound.leading")
    if "types" in saved or "types" in _words(lines):
        opening.append("types = bound.types")
    results = [_restored(parameter, "bound.type") for parameter in routine.returns]
    if kernel.backward is not None:
        closing = [*_call("saved = (", list(saved), "," * (len(saved) == 1) + ")"), f"return {results[0]}, saved"]
    else:
        closing = list(_returned(results)) if len(results) > 1 else [f"return {results[0]}"]
    outputs = [_described(parameter) for parameter in routine.returns]
    outputs += [f"saved: what {kernel.backward.name} needs"] if kernel.backward is not None else []
    array = LIBRARIES[target].runtime["array"]
    result = (
        array
        if len(outputs) == 1
        else f"tuple[{', '.join([array] * len(results))}{', Saved' * (kernel.backward is not None)}]"
    )
    names = ", ".join(parameter.name for parameter in routine.returns)
    chosen = [*(_option(name, kernel) for name in options), *_workspace(lines)]
    return FunctionText(
        _signature(routine.name, arrays, chosen, array, result),
        tuple(textwrap.wrap(f"{names} of {kernel.program.title or kernel.program.name}.", WIDTH - 8)),
        (*map(_described, routine.parameters), *(_option(name, kernel) for name in options), *_about_workspace(lines)),
        tuple(outputs),
        (*opening, *_preamble(target, routine.parameters, lines), *lines, *closing),
    )


def _backward(kernel: Kernel, target: str, lines: Sequence[str], saved: Sequence[str]) -> FunctionText:
    routine = kernel.backward
    if routine is None:
        raise KernelError(f"{kernel.program.name}: has no backward kernel")
    (upstream,) = routine.parameters
    shape = (
        _tuple(upstream.sizes[1:] if upstream.leading else upstream.sizes)
        if len(upstream.sizes) > upstream.leading
        else "()"
    )
    front = "leading" if upstream.leading else "None"
    flat = f"{_unpacked(saved)} = saved"
    opening = [flat] if len(flat) <= WIDTH else [*_call("(", list(saved), ") = saved")]
    # The upstream gradient takes element type and device of a value that the forward pass has seen.
    like = next((name for name in kernel.saved if name not in _integer_names(kernel)), None)
    checked = [
        f'"{routine.name}"',
        f'"{upstream.name}"',
        upstream.name,
        front,
        shape,
        *([f"like={like}"] if like else []),
    ]
    opening += _call(f"{upstream.name} = incoming(", checked, ")")
    # The gradient of an array has its element type; that of a number has the type that is computed in.
    results = [
        _restored(parameter, f'types["{symbol.name}"]') if isinstance(symbol, Tensor) else parameter.name
        for parameter, symbol in zip(routine.returns, kernel.variables, strict=True)
    ]
    array = LIBRARIES[target].runtime["array"]
    names = ", ".join(parameter.name for parameter in routine.returns)
    output = kernel.forward.returns[0].name
    summary = f"{names}: the gradient of a loss of which {upstream.name} is the gradient with respect to {output}."
    return FunctionText(
        _call(
            f"def {routine.name}(",
            [f"{upstream.name}: {array}", "saved: Saved", *(["*"] if _workspace(lines) else []), *_workspace(lines)],
            f") -> tuple[{array}, ...]:",
        ),
        tuple(textwrap.wrap(summary, WIDTH - 8)),
        (_described(upstream), f"saved: the second result of {kernel.forward.name}", *_about_workspace(lines)),
        tuple(map(_described, routine.returns)),
        (*opening, *_preamble(target, routine.parameters, lines), *lines,
         *_returned(results)),
    )  # fmt: skip


def _workspace(lines: Sequence[str]) -> tuple[str, ...]:
    """The argument of a kernel that works in blocks."""
    return ("workspace: Workspace | None = None",) if "workspace" in _words(lines) else ()


def _about_workspace(lines: Sequence[str]) -> tuple[str, ...]:
    return ("workspace: threads and scratch memory, to be reused by later calls",) if _workspace(lines) else ()


def _registered(kernel: Kernel, saved: Sequence[str], functions: Sequence[FunctionText]) -> RegisteredText:
    """A kernel in the library's registry of operators, and the function that calls it there."""
    code = "\n".join(line for function in functions for line in (*function.signature, *function.lines))
    made = registration(kernel, saved, _options(kernel), version_of(code), _call)
    numbers = differentiated_numbers(kernel)
    options = [
        _option(name, kernel).replace(": float", ": float | torch.Tensor") if name in numbers else _option(name, kernel)
        for name in _options(kernel)
    ]
    arrays = [parameter.name for parameter in kernel.forward.parameters]
    function = FunctionText(
        _signature(made.name, arrays, options, "torch.Tensor", result_type(kernel)),
        tuple(textwrap.wrap(summary(kernel), WIDTH - 8)),
        (*map(_described, kernel.forward.parameters), *options),
        tuple(map(_described, kernel.forward.returns)),
        made.body,
    )
    return RegisteredText(made.operator, function)


def _integer_names(kernel: Kernel) -> set[str]:
    return {parameter.name for parameter in kernel.forward.parameters if parameter.into is not None}


def _returned(results: Sequence[str]) -> tuple[str, ...]:
    flat = f"return {', '.join(results)}{',' * (len(results) == 1)}"
    return (flat,) if len(flat) <= WIDTH else _call("return (", results, ")")


def _restored(parameter: Parameter, kind: str) -> str:
    return f"restore({parameter.name}, leading, {kind})" if parameter.leading else f"cast({parameter.name}, {kind})"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _formulas(kernel: Kernel) -> list[str]:
    """The formulas of the forward routine, and before them the definitions that they read and that are not computed."""
    said = [statement.formula for statement in kernel.forward.statements if statement.formula]
    words = {word for formula in said for word in re.findall(r"\w+", formula)}
    computed = {statement.name for statement in kernel.forward.statements}
    needed = [d for d in kernel.program.definitions if d.name in words and d.name not in computed]
    return [*(written_definition(definition.left, definition.body) for definition in needed), *said]


def _wrapped(formula: str) -> list[str]:
    return textwrap.wrap(formula, WIDTH - 4, subsequent_indent="    ")


def statement_digest(program: Program) -> str:
    """A short digest of the statement: its inputs and definitions as written, and what is asked of it."""
    request: Any = program.request
    parts = [program.name, *(f"{symbol}:{getattr(symbol, 'shape', '')}" for symbol in program.all_inputs())]
    parts += [str(definition) for definition in program.definitions]
    if request is not None:
        parts += [f"{request.outputs}", f"{request.wrt}", f"{sorted(request.defaults.items())}"]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

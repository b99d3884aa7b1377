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

from codegen.backends.tables import LIBRARIES
from codegen.errors import KernelError
from codegen.printer import Printer
from codegen.schedule import Kernel, Parameter, Routine, plan
from codegen.wrapping import wrapped
from derive.language import Flag
from derive.program import Program

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
    printer = Printer(library)
    forward_lines = _lines(printer, kernel.forward)
    backward_lines = _lines(printer, kernel.backward) if kernel.backward is not None else ()
    saved = _saved(kernel, backward_lines)
    functions = [_forward(kernel, target, forward_lines, saved)]
    if kernel.backward is not None:
        functions.append(_backward(kernel, target, backward_lines, saved))
    code = "\n".join(line for function in functions for line in function.lines if not line.startswith("#"))
    words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", code))
    return environment().get_template("kernel.py.jinja").render(
        title=_sentence(program.title or program.name),
        name=program.name,
        formulas=[line for statement in kernel.forward.statements for line in _wrapped(statement.formula)],
        hypotheses=kernel.hypotheses,
        digest=statement_digest(program),
        needs_math="math" in words,
        library=library.runtime["library"],
        runtime=[*["Array"], *["Saved"] * (kernel.backward is not None),
                 *sorted({"bind", "erf", "incoming", "restore"} & words)],
        functions=functions,
    )  # fmt: skip


def _saved(kernel: Kernel, backward_lines: Sequence[str]) -> tuple[str, ...]:
    """The names that the forward kernel hands to the backward one: leading dimensions, sizes, options, arrays."""
    if kernel.backward is None:
        return ()
    (upstream,) = kernel.backward.parameters
    shape = upstream.sizes[1:] if upstream.leading else upstream.sizes
    sizes = dict.fromkeys([*_used(kernel.backward.sizes, backward_lines), *(n for n in shape if not n.isdigit())])
    leading = ["leading"] if any(p.leading for p in (upstream, *kernel.backward.returns)) else []
    return (*leading, *sizes, *kernel.backward.options, *kernel.saved)


def _lines(printer: Printer, routine: Routine) -> tuple[str, ...]:
    lines: list[str] = []
    for statement in routine.statements:
        printed = [piece for line in printer.statement(statement) for piece in wrapped(line, WIDTH)]
        if statement.formula:
            shape = f"({', '.join(str(index.extent) for index in statement.axes)}{',' * (len(statement.axes) == 1)})"
            comment = f"{statement.formula}   {shape}" if statement.axes else statement.formula
            lines += [f"# {line}" for line in textwrap.wrap(comment, WIDTH - 6, subsequent_indent="    ")]
        lines += printed
    return tuple(lines)


def _code(lines: Sequence[str]) -> str:
    return "\n".join(line for line in lines if not line.startswith("#"))


def _used(sizes: Sequence[str], lines: Sequence[str]) -> tuple[str, ...]:
    """The sizes whose names occur in the lines."""
    words = set(re.findall(r"[A-Za-z_]\w*", _code(lines)))
    return tuple(size for size in sizes if size in words)


def _preamble(target: str, parameters: Sequence[Parameter], lines: Sequence[str]) -> tuple[str, ...]:
    """Lines that name the element type and the device, where the body needs them."""
    source = next((parameter.name for parameter in parameters if parameter.into is None), None)
    words = set(re.findall(r"[A-Za-z_]\w*", _code(lines)))
    made = []
    for word in ("dtype", "device"):
        if word in words and source is not None:
            made.append(f"{word} = {source}.{word}")
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
    sizes = [*_used(routine.sizes, lines), *(name for name in saved if name in known)]
    wanted = {*sizes, *(p.into for p in routine.parameters if p.into is not None and not p.into.isdigit())}
    if wanted - known:
        raise KernelError(
            f"{kernel.program.name}: size {min(wanted - known)} is the size of no input, so a kernel cannot know it"
        )
    backward_options = kernel.backward.options if kernel.backward is not None else ()
    options = sorted(dict.fromkeys([*routine.options, *backward_options]), key=lambda name: name in kernel.defaults)
    arrays = [parameter.name for parameter in routine.parameters]
    opening = [*_call("bound = bind(", [f'"{routine.name}"', *map(_binding, routine.parameters)], ")")]
    opening.append(f"{_unpacked(arrays)} = bound.arrays")
    if sizes:
        unique = list(dict.fromkeys(sizes))
        opening.append(f'{_unpacked(unique)} = bound.sizes("{" ".join(unique)}")')
    if "leading" in saved or any(parameter.leading for parameter in routine.returns):
        opening.append("leading = bound.leading")
    results = [_restored(parameter) for parameter in routine.returns]
    if kernel.backward is not None:
        closing = [*_call("saved = (", list(saved), "," * (len(saved) == 1) + ")"), f"return {results[0]}, saved"]
    else:
        closing = [f"return {', '.join(results)}"]
    outputs = [_described(parameter) for parameter in routine.returns]
    outputs += [f"saved: what {kernel.backward.name} needs"] if kernel.backward is not None else []
    array = LIBRARIES[target].runtime["array"]
    result = (
        array
        if len(outputs) == 1
        else f"tuple[{', '.join([array] * len(results))}{', Saved' * (kernel.backward is not None)}]"
    )
    names = ", ".join(parameter.name for parameter in routine.returns)
    return FunctionText(
        _signature(routine.name, arrays, [_option(name, kernel) for name in options], array, result),
        tuple(textwrap.wrap(f"{names} of {kernel.program.title or kernel.program.name}.", WIDTH - 8)),
        (*map(_described, routine.parameters), *(_option(name, kernel) for name in options)),
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
    results = [_restored(parameter) for parameter in routine.returns]
    array = LIBRARIES[target].runtime["array"]
    names = ", ".join(parameter.name for parameter in routine.returns)
    output = kernel.forward.returns[0].name
    summary = f"{names}: the gradient of a loss of which {upstream.name} is the gradient with respect to {output}."
    return FunctionText(
        _call(f"def {routine.name}(", [f"{upstream.name}: {array}", "saved: Saved"], f") -> tuple[{array}, ...]:"),
        tuple(textwrap.wrap(summary, WIDTH - 8)),
        (_described(upstream), f"saved: the second result of {kernel.forward.name}"),
        tuple(map(_described, routine.returns)),
        (*opening, *_preamble(target, routine.parameters, lines), *lines,
         *_returned(results)),
    )  # fmt: skip


def _integer_names(kernel: Kernel) -> set[str]:
    return {parameter.name for parameter in kernel.forward.parameters if parameter.into is not None}


def _returned(results: Sequence[str]) -> tuple[str, ...]:
    flat = f"return {', '.join(results)}{',' * (len(results) == 1)}"
    return (flat,) if len(flat) <= WIDTH else _call("return (", results, ")")


def _restored(parameter: Parameter) -> str:
    return f"restore({parameter.name}, leading)" if parameter.leading else parameter.name


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


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

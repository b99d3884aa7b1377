"""From kernels to files: the lines of each function, the documentation around them, and the layout by template.

Sixth stage of the compiler. Everything that is a decision is made here and in the stages before; the Jinja2 templates
only lay out what they are given. The text of a file depends on the program and on nothing else.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from codegen.backends import LIBRARIES, Library
from codegen.backends.spelling import RUNTIME_FUNCTIONS
from codegen.errors import KernelError
from codegen.ir.nodes import Contract
from codegen.ir.sharing import Statement, fresh_name, reads
from codegen.ir.trees import walk
from codegen.planning.numbers import with_numbers
from codegen.planning.routines import RESERVED, Kernel, Routine
from codegen.planning.schedule import plan
from codegen.planning.summed import with_plain_summands
from codegen.printing.functions import (
    WIDTH,
    FunctionText,
    RegisteredText,
    backward_function,
    called,
    forward_function,
    registered_function,
    used,
)
from codegen.printing.printer import Printer
from codegen.printing.products import copied
from codegen.printing.registration import as_forward
from codegen.printing.sweeps import Step, Sweep, options_of, steps, sweep_lines
from codegen.printing.wrapping import wrapped
from derive.language import Tensor
from derive.program import Program
from derive.writing import written_definition

TEMPLATES = Path(__file__).parent / "templates"


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The template environment; a name that a template uses and is not given is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters["quoted"] = quoted
    return made


def quoted(text: str) -> str:
    """A line of a docstring so that it reads as the text: a title may have quotes, backslashes and line breaks."""
    shown = text.replace("\\", r"\\").replace('"""', r"\"\"\"")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


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
            registered.append(registered_function(schedule, saved, made))
    code = "\n".join(line for function in functions for line in function.lines if not line.lstrip().startswith("#"))
    shared = {"add_at", "bind", "cast", "incoming", "largest", "restore", "widened", *RUNTIME_FUNCTIONS} - library.has
    decorators = {line.removeprefix("@") for function in functions for line in function.decorators}
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
        workspace=sorted({"Room", "Workspace", "bounded", "or_one"} & words | decorators),
        functions=functions,
        registered=registered,
    )  # fmt: skip


def _imported(names: Sequence[str]) -> tuple[str, ...]:
    """The lines that import what a kernel uses of the runtime."""
    flat = f"from .runtime import {', '.join(names)}"
    return (flat,) if len(flat) <= WIDTH else called("from .runtime import (", names, ")")


def _schedule(kernel: Kernel, target: str, printer: Printer) -> tuple[list[FunctionText], tuple[str, ...]]:
    """The functions of one schedule, and the names of what the first hands to the second."""
    if printer.library.plain_summands:
        kernel = with_plain_summands(kernel)
    kernel = with_numbers(kernel)
    forward_steps, backward_steps = steps(kernel, printer.library)
    forward_lines = _lines(printer, kernel.forward, forward_steps)
    decorators = _decorators(printer.library, forward_steps)
    if kernel.backward is None:
        return [replace(forward_function(kernel, target, forward_lines, ()), decorators=decorators)], ()
    backward_lines = _lines(printer, kernel.backward, backward_steps)
    saved = _saved(kernel, backward_lines, backward_steps)
    there = forward_function(kernel, target, forward_lines, saved)
    back = backward_function(kernel, target, backward_lines, saved)
    return [
        replace(there, decorators=decorators),
        replace(back, decorators=_decorators(printer.library, backward_steps)),
    ], saved


def _decorators(library: Library, planned: Sequence[Step]) -> tuple[str, ...]:
    """What stands above a kernel: where blocks share the cores, its other operations are held to one thread each.

    Products of matrices are worth the threads that they have: a kernel with some outside of its blocks is not held.
    """
    outside = [step.node for step in planned if isinstance(step, Statement)]
    has_products = any(isinstance(node, Contract) for whole in outside for node in walk(whole))
    return () if not library.holding or has_products or len(outside) == len(planned) else (library.holding,)


def _saved(kernel: Kernel, backward_lines: Sequence[str], backward_steps: Sequence[Step]) -> tuple[str, ...]:
    """The names that the forward kernel hands to the backward one: leading dimensions, sizes, options, arrays."""
    if kernel.backward is None:
        return ()
    (upstream,) = kernel.backward.parameters
    shape = upstream.sizes[1:] if upstream.leading else upstream.sizes
    sizes = dict.fromkeys([*used(kernel.backward.sizes, backward_lines), *(n for n in shape if not n.isdigit())])
    leading = ["leading"] if any(p.leading for p in (upstream, *kernel.backward.returns)) else []
    types = ["types"] if any(isinstance(symbol, Tensor) for symbol in kernel.variables) else []
    rows = dict.fromkeys(step.rows for step in backward_steps if isinstance(step, Sweep) and step.given)
    options = dict.fromkeys([*kernel.backward.options, *options_of(backward_steps)])
    return (*leading, *types, *sizes, *rows, *options, *kernel.saved)


def _lines(printer: Printer, routine: Routine, planned: Sequence[Step]) -> tuple[str, ...]:
    lines: list[str] = []
    printer = replace(printer, returned=frozenset(parameter.name for parameter in routine.returns))
    taken = {*RESERVED, *routine.sizes, *routine.options, *(parameter.name for parameter in routine.parameters)}
    taken |= {statement.name for statement in routine.statements}.union(*(reads(s.node) for s in routine.statements))
    again = _laid_out_again(printer, planned, taken)
    for statement in planned:
        if isinstance(statement, Sweep):
            lines += [piece for line in sweep_lines(statement, printer, taken) for piece in wrapped(line, WIDTH)]
            continue
        for _, text in copied(printer, statement.node):
            if text in again and text not in printer.matrices:
                lines += wrapped(f"{again[text]} = {text}", WIDTH)
                printer = replace(printer, matrices={**printer.matrices, text: again[text]})
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


def _laid_out_again(printer: Printer, planned: Sequence[Step], taken: set[str]) -> dict[str, str]:
    """What lays an array out anew for more than one product of matrices, as text, with a name for what it gives."""
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for statement in planned:
        for array, text in copied(printer, statement.node) if isinstance(statement, Statement) else ():
            counts[text] = counts.get(text, 0) + 1
            if counts[text] > 1 and text not in names:
                names[text] = fresh_name(f"{array}_rows", taken)
    return names


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _formulas(kernel: Kernel) -> list[str]:
    """The formulas of the forward routine, and before them the definitions that they read and that are not computed."""
    said = [statement.formula for statement in kernel.forward.statements if statement.formula]
    words = {word for formula in said for word in re.findall(r"\w+", formula)}
    computed = {statement.name for statement in kernel.forward.statements}
    read = [d for d in kernel.definitions if d.name in words and d.name not in computed]
    needed = [written_definition(definition.left, definition.body) for definition in read]
    # What is computed in parts is no statement by itself; the formula of its parts begins with its definition.
    return [*(text for text in needed if not any(formula.startswith(text) for formula in said)), *said]


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

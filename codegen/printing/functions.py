"""One function of a kernel as text: its signature, what it says of itself, how it begins and how it returns.

Sixth stage of the compiler, below `codegen.printing.emission`, which puts functions into files. The lines in the middle
are printed already; around them a forward kernel checks and binds its arguments and hands on what it saves, a backward
kernel takes that up, and both give results back in the shape and type that the caller knows.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from codegen.backends import LIBRARIES
from codegen.errors import KernelError
from codegen.planning.routines import ANY, Kernel, Parameter, Routine
from codegen.printing.registration import differentiated_numbers, registration, result_type, summary, version_of
from derive.language import Flag, Scalar, Tensor

WIDTH = 116


@dataclass(frozen=True)
class FunctionText:
    """One function as the template lays it out."""

    signature: tuple[str, ...]
    summary: tuple[str, ...]
    arguments: tuple[str, ...]
    returned: tuple[str, ...]
    lines: tuple[str, ...]
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True)
class RegisteredText:
    """An entry in a registry of operators, and the function that calls it."""

    operator: tuple[str, ...]
    function: FunctionText


def forward_function(kernel: Kernel, target: str, lines: Sequence[str], saved: Sequence[str]) -> FunctionText:
    """The forward kernel around its lines; `saved` are the names of what it hands to the backward kernel.

    Raises:
        KernelError: a size cannot be known from the inputs.
    """
    routine = kernel.forward
    results = [_restored(parameter, "bound.type") for parameter in routine.returns]
    outputs = [_described(parameter) for parameter in routine.returns]
    array = LIBRARIES[target].runtime["array"]
    if kernel.backward is not None:
        closing = [*called("saved = (", list(saved), "," * (len(saved) == 1) + ")"), f"return {results[0]}, saved"]
        outputs += [f"saved: what {kernel.backward.name} needs"]
        result = f"tuple[{array}, Saved]"
    else:
        closing = list(_returned(results)) if len(results) > 1 else [f"return {results[0]}"]
        result = array if len(results) == 1 else f"tuple[{', '.join([array] * len(results))}]"
    names = ", ".join(parameter.name for parameter in routine.returns)
    options = [_option(name, kernel) for name in _options(kernel)]
    arrays = [parameter.name for parameter in routine.parameters]
    return FunctionText(
        _signature(routine.name, arrays, [*options, *_workspace(lines)], array, result),
        tuple(textwrap.wrap(f"{names} of {kernel.program.title or kernel.program.name}.", WIDTH - 8)),
        (*map(_described, routine.parameters), *options, *_about_workspace(lines)),
        tuple(outputs),
        (*_bound(kernel, lines, saved), *_preamble(target, routine.parameters, lines), *lines, *closing),
    )


def _bound(kernel: Kernel, lines: Sequence[str], saved: Sequence[str]) -> list[str]:
    """The lines that check the arguments, and name the arrays, the sizes and what else is read of them."""
    routine = kernel.forward
    known = {size for parameter in routine.parameters for size in parameter.sizes}
    sizes = [*used(routine.sizes, lines), *(name for name in saved if name in known)]
    unknown = set(sizes) - known
    if unknown:
        raise KernelError(
            f"{kernel.program.name}: size {min(unknown)} is the size of no input, so a kernel cannot know it; "
            "expected the size of an axis of an input, or a number"
        )
    least = ", ".join(f'"{size}": ({number}, "{why}")' for size, (number, why) in kernel.needs.items())
    bound = [f'"{routine.name}"', *map(_binding, routine.parameters), *([f"needs={{{least}}}"] if least else [])]
    opening = [*called("bound = bind(", bound, ")")]
    opening.append(f"{_unpacked([parameter.name for parameter in routine.parameters])} = bound.arrays")
    if sizes:
        unique = list(dict.fromkeys(sizes))
        opening.append(f'{_unpacked(unique)} = bound.sizes("{" ".join(unique)}")')
    if "leading" in saved or any(parameter.leading for parameter in routine.returns):
        opening.append("leading = bound.leading")
    if "types" in saved or "types" in words_of(lines):
        opening.append("types = bound.types")
    return opening


def backward_function(kernel: Kernel, target: str, lines: Sequence[str], saved: Sequence[str]) -> FunctionText:
    """The backward kernel around its lines; `saved` are the names of what the forward kernel hands to it.

    Raises:
        KernelError: there is none.
    """
    routine = kernel.backward
    if routine is None:
        raise KernelError(f"{kernel.program.name}: has no backward kernel")
    (upstream,) = routine.parameters
    # The gradient of an array has its element type; that of a number has the type that is computed in.
    results = [
        _restored(parameter, f'types["{symbol.name}"]') if isinstance(symbol, Tensor) else parameter.name
        for parameter, symbol in zip(routine.returns, kernel.variables, strict=True)
    ]
    array = LIBRARIES[target].runtime["array"]
    names = ", ".join(parameter.name for parameter in routine.returns)
    output = kernel.forward.returns[0].name
    plural = "s" if len(routine.returns) > 1 else ""
    summary = f"{names}: the gradient{plural} of a loss whose gradient with respect to {output} is {upstream.name}."
    arguments = [f"{upstream.name}: {array}", "saved: Saved", *(["*"] if _workspace(lines) else []), *_workspace(lines)]
    return FunctionText(
        called(f"def {routine.name}(", arguments, f") -> tuple[{array}, ...]:"),
        tuple(textwrap.wrap(summary, WIDTH - 8)),
        (_described(upstream), f"saved: the second result of {kernel.forward.name}", *_about_workspace(lines)),
        tuple(map(_described, routine.returns)),
        (*_taken_up(kernel, routine, saved), *_preamble(target, routine.parameters, lines), *lines,
         *_returned(results)),
    )  # fmt: skip


def _taken_up(kernel: Kernel, routine: Routine, saved: Sequence[str]) -> list[str]:
    """The lines that name what was saved, and check the gradient from above."""
    (upstream,) = routine.parameters
    own = upstream.sizes[1:] if upstream.leading else upstream.sizes
    flat = f"{_unpacked(saved)} = saved"
    opening = [flat] if len(flat) <= WIDTH else [*called("(", list(saved), ") = saved")]
    # The upstream gradient takes element type and device of a value that the forward pass has seen.
    like = next((name for name in kernel.saved if name not in _integer_names(kernel)), None)
    checked = [f'"{routine.name}"', f'"{upstream.name}"', upstream.name, "leading" if upstream.leading else "None"]
    checked += [_tuple(own) if own else "()", *([f"like={like}"] if like else [])]
    return [*opening, *called(f"{upstream.name} = incoming(", checked, ")")]


def registered_function(kernel: Kernel, saved: Sequence[str], functions: Sequence[FunctionText]) -> RegisteredText:
    """A kernel in the library's registry of operators, and the function that calls it there."""
    code = "\n".join(line for function in functions for line in (*function.signature, *function.lines))
    made = registration(kernel, saved, _options(kernel), version_of(code), called)
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


def words_of(lines: Sequence[str]) -> set[str]:
    """The names that occur in the code of the lines."""
    return set(re.findall(r"[A-Za-z_]\w*", "\n".join(line for line in lines if not line.lstrip().startswith("#"))))


def used(sizes: Sequence[str], lines: Sequence[str]) -> tuple[str, ...]:
    """The sizes whose names occur in the lines."""
    words = words_of(lines)
    return tuple(size for size in sizes if size in words)


def _preamble(target: str, parameters: Sequence[Parameter], lines: Sequence[str]) -> tuple[str, ...]:
    """Lines that name the element type and the device, where the body needs them."""
    numbers = [parameter.name for parameter in parameters if parameter.into is None]
    # Without an array of numbers there is one of positions, and the type is the library's own.
    sources = {"dtype": f"{numbers[0]}.dtype" if numbers else "widened(bound.type)", "device": ""}
    sources["device"] = f"{[*numbers, parameters[0].name][0]}.device"
    words = words_of(lines)
    made = [f"{word} = {source}" for word, source in sources.items() if word in words]
    if "workspace" in words:
        made.append("workspace = workspace or Workspace()")
    return tuple(made)


def _shape(parameter: Parameter) -> str:
    sizes = ["...", *parameter.sizes[1:]] if parameter.leading else list(parameter.sizes)
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})" if sizes else "scalar"


def _described(parameter: Parameter) -> str:
    kind = "" if parameter.into is None else ", integers" if parameter.into == ANY else _range(parameter.into)
    return f"{parameter.name}: {_shape(parameter)}{kind}"


def _range(size: str) -> str:
    return f", integers in 0 .. {size}-1"


def _binding(parameter: Parameter) -> str:
    sizes = [f"{parameter.sizes[0]}...", *parameter.sizes[1:]] if parameter.leading else list(parameter.sizes)
    into = f', into="{parameter.into}"' if parameter.into is not None else ""
    return f'Array("{parameter.name}", {parameter.name}, "{" ".join(sizes)}"{into})'


def called(start: str, arguments: Sequence[str], end: str, indent: str = "    ") -> tuple[str, ...]:
    """A call or signature on one line where it fits, else its arguments on lines of their own."""
    flat = f"{start}{', '.join(arguments)}{end}"
    if len(flat) <= WIDTH:
        return (flat,)
    packed = f"{indent}{', '.join(arguments)},"
    inner = [packed] if len(packed) <= WIDTH else [f"{indent}{argument}," for argument in arguments]
    return (start, *inner, end)


def _signature(name: str, arrays: Sequence[str], options: Sequence[str], array: str, result: str) -> tuple[str, ...]:
    arguments = [f"{name}: {array}" for name in arrays] + (["*", *options] if options else [])
    return called(f"def {name}(", arguments, f") -> {result}:")


def _options(kernel: Kernel) -> list[str]:
    """The options in the order of the signature: those without a default first.

    They are all numbers and flags of the statement, as the arrays are all of its arrays: what cancels out is an input.
    """
    inputs = kernel.program.all_inputs()
    named = [str(symbol.name) for symbol in inputs if isinstance(symbol, (Scalar, Flag))]
    return sorted(named, key=lambda name: name in kernel.defaults)


def _option(name: str, kernel: Kernel) -> str:
    flags = {str(symbol.name) for symbol in kernel.program.all_inputs() if isinstance(symbol, Flag)}
    kind = "bool" if name in flags else "float"
    return f"{name}: {kind} = {kernel.defaults[name]!r}" if name in kernel.defaults else f"{name}: {kind}"


def _unpacked(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _tuple(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def _workspace(lines: Sequence[str]) -> tuple[str, ...]:
    """The argument of a kernel that works in blocks."""
    return ("workspace: Workspace | None = None",) if "workspace" in words_of(lines) else ()


def _about_workspace(lines: Sequence[str]) -> tuple[str, ...]:
    return ("workspace: threads and scratch memory, to be reused by later calls",) if _workspace(lines) else ()


def _integer_names(kernel: Kernel) -> set[str]:
    return {parameter.name for parameter in kernel.forward.parameters if parameter.into is not None}


def _returned(results: Sequence[str]) -> tuple[str, ...]:
    flat = f"return {_unpacked(results)}"
    return (flat,) if len(flat) <= WIDTH else called("return (", results, ")")


def _restored(parameter: Parameter, kind: str) -> str:
    return f"restore({parameter.name}, leading, {kind})" if parameter.leading else f"cast({parameter.name}, {kind})"

"""One kernel in one case: its values and gradients against witnesses that share no code with the compiler.

Between `codegen.checking.checks`, which collects, and the witnesses:

- *statement*: the output equals the reference evaluation of the program (`codegen.checking.reference`) to rounding.
- *finite differences*: each gradient equals central differences of the generated forward kernel.
- *autograd* (torch): each gradient equals autograd's, through the reference evaluation.

All in float64, with random upstream gradients. On the way the kernels have to keep what callers rely on: inputs,
upstream gradients and saved values are left as they were; float64 gives float64 and float32 gives float32; gradients
are linear in the upstream gradient; the other schedules of a kernel give the same. A kernel that raises, or breaks one
of these, has an infinite error and a sentence that says so.

At a corner (a relu at 0, a tie of a maximum) there is no derivative. What the kernel returns there is a convention if
it lies between the slopes on the two sides: that is noted, and the gradient is compared again at a point moved away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Literal

import numpy as np

from codegen.checking.array_library import ArrayLibrary, ContractError
from codegen.checking.comparison import Difference, broken, difference, scale_of
from codegen.checking.differences import TOLERANCE, central_difference, chosen_entries, slopes
from codegen.checking.kernel_files import Kernel
from codegen.checking.sampling import Case, draw
from codegen.checking.witnesses import autograd_gradients, roots_met, statement_values
from derive.language import Flag, Scalar, Tensor
from derive.statements import Name

__all__ = ["TOLERANCES", "Finding", "Row", "examine", "rows_of"]

Array = np.ndarray[Any, Any]
Witness = Literal["statement", "finite differences", "autograd"]

# Two evaluations in float64 that order their sums differently agree to some hundred roundings of 1e-16; a backward pass
# through a norm over nearly equal values loses a few more digits.
TOLERANCES: Mapping[Witness, float] = {"statement": 1e-12, "finite differences": TOLERANCE, "autograd": 1e-10}
ROUNDING = 1e-12  # what two schedules may differ by where all of an array is 0 but for rounding
ATTEMPTS = 20  # to draw inputs at which the statement has a finite value
MOVED = 1 / 64  # how far a point is moved away from a corner


@dataclass(frozen=True)
class Row:
    """What is reported: an output's value, or a gradient such as dQ, as one witness sees it."""

    gradient: str
    witness: Witness


@dataclass(frozen=True)
class Finding:
    """What one case says about one row: the error, the largest entry of the array, and a remark on the point."""

    row: Row
    difference: Difference
    largest: float = float("inf")
    note: str = ""


def rows_of(kernel: Kernel) -> list[Row]:
    """The rows of a kernel, values first."""
    values = [Row(str(output.name), "statement") for output in kernel.request.outputs]
    return values + [row for symbol in kernel.request.wrt for row in gradient_rows(symbol, kernel.library)]


def gradient_rows(symbol: Name, library: ArrayLibrary) -> list[Row]:
    """The rows of the gradient of one variable."""
    seen_by: tuple[Witness, ...] = ("finite differences", "autograd")
    return [Row(f"d{symbol.name}", witness) for witness in (seen_by if library.name == "torch" else seen_by[:1])]


@dataclass(frozen=True)
class Run:
    """A kernel in one case: the inputs drawn, the outputs by the statement, an upstream gradient."""

    kernel: Kernel
    case: Case
    inputs: Mapping[str, Any]
    expected: tuple[Array, ...]
    upstream: Array

    def arguments(self, precision: type[np.floating[Any]] = np.float64) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fresh arrays for the tensors, and keyword arguments for the rest, less those that the case leaves out."""
        arrays: dict[str, Any] = {}
        options: dict[str, Any] = {}
        for known in self.kernel.program.all_inputs():
            name = str(known.name)
            value = self.inputs[name]
            if isinstance(known, Tensor):
                floating = value.dtype == np.float64
                arrays[name] = self.kernel.library.array(value.astype(precision) if floating else value.copy("K"))
            elif not self.is_left_out(known):
                options[name] = value
        return arrays, options

    def is_left_out(self, known: Scalar | Flag) -> bool:
        """Whether this case relies on the parameter's default."""
        defaults, name = self.kernel.request.defaults, str(known.name)
        return self.case.bare and name in defaults and defaults[name] == self.inputs[name]

    def changed(self, arrays: Mapping[str, Any]) -> str:
        """A sentence about the first tensor that is no longer what was drawn; empty when all are."""
        for name, array in arrays.items():
            if not np.array_equal(self.kernel.library.plain(array), self.inputs[name]):
                return f"the input {name} was modified"
        return ""

    def output(self, arrays: Mapping[str, Any], options: Mapping[str, Any]) -> Array:
        """The first output, as an array of its own that no later call can change."""
        outputs, _ = self.kernel.run(arrays, options)
        return np.array(self.kernel.library.plain(outputs[0]))


def examine(kernel: Kernel, case: Case, seed: int) -> Iterator[Finding]:
    """What one case says about every row.

    Raises:
        StatementError: the statement has no value on rectangular arrays.
    """
    run, generator = prepared(kernel, case, seed)
    if run is None:
        fault = f"the statement has no finite value at {ATTEMPTS} random inputs; declare what is positive"
        yield from (Finding(row, broken(fault)) for row in rows_of(kernel))
        return
    for part in (values_of(run), gradients_of(run, generator)):
        yield from part


def prepared(kernel: Kernel, case: Case, seed: int) -> tuple[Run | None, np.random.Generator]:
    """Inputs at which the statement has finite values, if they are found, and the generator they were drawn from."""
    library = kernel.library
    for attempt in range(ATTEMPTS):
        inputs, generator = draw(kernel.program, case, seed, attempt)
        given = {name: library.array(v) if isinstance(v, np.ndarray) else v for name, v in inputs.items()}
        values = statement_values(kernel.program, kernel.request, given, case.shape, library)
        expected = tuple(np.array(library.plain(value)) for value in values)
        if all(np.all(np.isfinite(value)) for value in expected):
            shape = expected[0].shape
            # Of either sign and never small, so that no gradient is small for that reason.
            upstream = np.asarray(generator.choice((-1.0, 1.0), shape) * generator.uniform(0.5, 1.5, shape))
            return Run(kernel, case, inputs, expected, upstream), generator
    return None, generator


# ---------------------------------------------------------------------------------------------------------------------
# Values.


def values_of(run: Run) -> list[Finding]:
    """The outputs against the statement, and what callers rely on."""
    kernel, library = run.kernel, run.kernel.library
    rows = [Row(str(output.name), "statement") for output in kernel.request.outputs]
    try:
        with np.errstate(all="ignore"):
            arrays, options = run.arguments()
            outputs, _ = kernel.run(arrays, options)
            found = [np.array(library.plain(output)) for output in outputs]
            changed = run.changed(arrays)
            outputs, _ = kernel.run(*run.arguments(np.float32))
            single = [library.plain(output) for output in outputs] if kernel.takes_numbers else []
            others = [
                (schedule, library.plain(output))
                for schedule, output, _ in kernel.otherwise(*run.arguments(), library.array(run.upstream.copy("K")))
            ]
    except Exception as error:  # a wrong kernel may fail in any way that Python knows
        return [Finding(row, raised(error)) for row in rows]
    faults = [changed or wrong_type(*types) for types in zip_longest(found, single)]
    for schedule, output in others:
        faults[0] = faults[0] or apart(schedule, output, found[0], TOLERANCES["statement"])
    return [
        Finding(row, broken(fault) if fault else difference(value, expected, "by the statement"))
        for row, fault, value, expected in zip(rows, faults, found, run.expected, strict=True)
    ]


def raised(error: Exception) -> Difference:
    """The difference of a kernel that raises, or returns something else than arrays."""
    return broken(str(error) if isinstance(error, ContractError) else f"raises {type(error).__name__}: {error}")


def wrong_type(double: Array, single: Array | None) -> str:
    """A sentence about results that have another type than their inputs, float64 or float32; empty when neither has."""
    for found, expected in ((double, "float64"), (single, "float32")):
        if found is not None and found.dtype.name != expected:
            return f"has dtype {found.dtype.name} for inputs of {expected}"
    return ""


# ---------------------------------------------------------------------------------------------------------------------
# Gradients.


def gradients_of(run: Run, generator: np.random.Generator) -> list[Finding]:
    """The gradients against finite differences and autograd, and what callers rely on."""
    kernel, library = run.kernel, run.kernel.library
    wrt = kernel.request.wrt
    if not wrt:
        return []
    given = {name: library.array(v) if isinstance(v, np.ndarray) else v for name, v in run.inputs.items()}
    met = roots_met(kernel.program, kernel.request, given, run.case.shape, library)
    if met:
        note = f"{'; '.join(met)}, and it is: nothing was compared"
        return [Finding(row, Difference(0.0), note=note) for symbol in wrt for row in gradient_rows(symbol, library)]
    try:
        with np.errstate(all="ignore"):
            found, faults = returned_gradients(run)
            seen = [
                (broken(fault), "") if fault else against_differences(run, symbol, gradient, generator)
                for symbol, gradient, fault in zip(wrt, found, faults, strict=True)
            ]
    except Exception as error:  # a wrong kernel may fail in any way that Python knows
        return [Finding(row, raised(error)) for symbol in wrt for row in gradient_rows(symbol, library)]
    findings = [
        Finding(gradient_rows(symbol, library)[0], by, float(np.max(np.abs(gradient), initial=0.0)), note)
        for symbol, gradient, (by, note) in zip(wrt, found, seen, strict=True)
    ]
    if library.name == "torch":
        expected = autograd_gradients(kernel.program, kernel.request, run.inputs, run.case.shape, run.upstream, library)
        findings += [
            Finding(gradient_rows(symbol, library)[1], difference(gradient, other, "by autograd"))
            for symbol, gradient, other in zip(wrt, found, expected, strict=True)
        ]
    return findings


def returned_gradients(run: Run) -> tuple[list[Array], list[str]]:
    """The gradients that the kernel returns, and for each a sentence about what it breaks, or an empty one."""
    kernel, library = run.kernel, run.kernel.library
    arrays, options = run.arguments()
    upstream = library.array(run.upstream.copy("K"))
    _, saved = kernel.run(arrays, options)
    found = [np.array(library.plain(gradient)) for gradient in kernel.gradients(upstream, saved)]
    modified = "" if np.array_equal(library.plain(upstream), run.upstream) else "the upstream gradient was modified"
    modified = modified or run.changed(arrays)
    # Minus twice the upstream gradient, from the same saved values: both factors are exact in floating point.
    again = [library.plain(gradient) for gradient in kernel.gradients(library.array(-2.0 * run.upstream), saved)]
    _, saved = kernel.run(*run.arguments(np.float32))
    single = kernel.gradients(library.array(run.upstream.astype(np.float32)), saved)
    others = [
        (schedule, [library.plain(gradient) for gradient in gradients])
        for schedule, _, gradients in kernel.otherwise(*run.arguments(), library.array(run.upstream.copy("K")))
    ]
    faults = []
    for place, (symbol, gradient, other, short) in enumerate(
        zip(kernel.request.wrt, found, again, single, strict=True)
    ):
        fault = modified or wrong_type(gradient, library.plain(short) if kernel.takes_numbers else None)
        shape = run.case.shape.of(symbol)
        if not fault and gradient.shape != shape:
            fault = f"has shape {gradient.shape}, expected {shape}"
        if not fault and difference(other, -2.0 * gradient, "").error > TOLERANCES["statement"]:
            same = np.array_equal(other, gradient) and np.any(gradient)
            fault = (
                "ignores the upstream gradient: it is the same for -2 times that"
                if same
                else "is not linear in the upstream gradient, or the backward kernel modifies the saved values"
            )
        for schedule, gradients in others:
            fault = fault or apart(schedule, gradients[place], gradient, TOLERANCES["autograd"])
        faults.append(fault)
    return found, faults


def apart(schedule: str, value: Array, expected: Array, tolerance: float) -> str:
    """A sentence about another schedule that gives something else; empty where it gives the same."""
    if value.shape == expected.shape and np.all(np.abs(value - expected) <= ROUNDING):
        return ""
    seen = difference(value, expected, "by the kernel itself")
    return "" if seen.error <= tolerance else f"{schedule} gives something else: {seen.detail}"


def against_differences(
    run: Run, symbol: Name, gradient: Array, generator: np.random.Generator, *, moved: bool = False
) -> tuple[Difference, str]:
    """The gradient of one variable against central differences of the forward kernel, and a remark on corners."""
    at, output = probe(run, symbol)
    slope = partial(central_difference, output, at, run.upstream)
    entries = chosen_entries(at.shape, generator)
    expected = gradient.copy()
    for entry in entries:
        expected[entry] = slope(entry)
    scale = scale_of(np.array([expected[entry] for entry in entries]))
    margin = TOLERANCE * scale
    # Where the two disagree: is the gradient wrong, or is there no slope, or no slope at this step? Others tell.
    corners: dict[tuple[int, ...], str] = {}
    unsettled = []
    for entry in entries:
        if abs(gradient[entry] - expected[entry]) <= margin:
            continue
        sides = slopes(output, at, run.upstream, entry)
        if sides is not None and sides.between(gradient[entry], margin):
            corners[entry] = f"slopes {sides.left:.4g} and {sides.right:.4g}"
        elif not abs(slope(entry, part=1 / 16) - expected[entry]) <= margin / 4:
            unsettled.append(entry)
    if len(unsettled) > max(1, len(entries) // 10):
        return broken(
            f"finite differences of two step sizes disagree at {len(unsettled)} of {len(entries)} entries"
        ), ""
    for entry in (*unsettled, *corners):
        expected[entry] = gradient[entry]
    here = difference(gradient, expected, "by finite differences", scale)
    if not corners or moved:
        return here, ""
    there = at_moved_point(run, symbol, list(corners), generator)
    return max(here, there, key=lambda seen: seen.error), corner_note(run, symbol, corners, gradient)


def at_moved_point(
    run: Run, symbol: Name, corners: Sequence[tuple[int, ...]], generator: np.random.Generator
) -> Difference:
    """The comparison again, the entries with a corner moved to one side or the other."""
    name = str(symbol.name)
    value = np.array(run.inputs[name], dtype=np.float64)
    for entry in corners:
        value[entry] += MOVED * generator.choice((-1.0, 1.0))
    away = replace(run, inputs={**run.inputs, name: value if isinstance(symbol, Tensor) else float(value)})
    found, _ = returned_gradients(away)
    gradient = found[[str(other.name) for other in run.kernel.request.wrt].index(name)]
    return against_differences(away, symbol, gradient, generator, moved=True)[0]


def corner_note(run: Run, symbol: Name, corners: Mapping[tuple[int, ...], str], gradient: Array) -> str:
    """A sentence about the first corner."""
    (entry, sides), *others = corners.items()
    place = f"{symbol.name}[{', '.join(map(str, entry))}]" if entry else str(symbol.name)
    x = float(np.asarray(run.inputs[str(symbol.name)])[entry])
    more = f" (and {len(others)} more)" if others else ""
    return (
        f"no derivative at {place} = {x:.6g}{more}: {sides}; {float(gradient[entry]):.4g} is a convention, and the "
        "comparison was made at a point moved away"
    )


def probe(run: Run, symbol: Name) -> tuple[Array, Callable[[Array], Array]]:
    """The variable as an array to be perturbed in place, and the output as a function of it."""
    arrays, options = run.arguments()
    name = str(symbol.name)
    if isinstance(symbol, Tensor):
        at = run.inputs[name].copy("K")
        arrays[name] = run.kernel.library.array(at)  # the same memory, seen as an array of the library
        return at, lambda _: run.output(arrays, options)
    return np.array(float(run.inputs[name])), lambda value: run.output(arrays, options | {name: float(value)})

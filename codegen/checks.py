"""The numeric check of generated kernels: every value and every gradient against witnesses that share no code with them.

Last stage of the compiler: it reads the files that `codegen.generate` wrote and the statements that they came from.

- *statement*: the output equals the reference evaluation of the program (`codegen.reference`) to rounding.
- *finite differences*: each gradient equals central differences of the generated forward kernel.
- *autograd* (torch): each gradient equals autograd's, through the reference evaluation.

All in float64, with random upstream gradients, in the cases of `codegen.sampling`. On the way the kernels have to keep
what callers rely on: inputs, upstream gradients and saved values are left as they were; float64 gives float64 and
float32 gives float32; gradients are linear in the upstream gradient. A kernel that raises, or breaks one of these, fails
with an infinite error and a sentence that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from codegen.array_library import ArrayLibrary, array_library
from codegen.comparison import Difference, difference, scale_of
from codegen.differences import TOLERANCE, central_difference, chosen_entries
from codegen.errors import KernelError
from codegen.kernel_files import Kernel, opened
from codegen.sampling import Case, cases_of, draw
from codegen.witnesses import autograd_gradients, statement_values
from derive.language import Flag, Scalar, Tensor
from derive.program import Name, Program

__all__ = ["CheckResult", "check_kernels"]

Array = np.ndarray[Any, Any]
Witness = Literal["statement", "finite differences", "autograd"]

# Two evaluations in float64 that order their sums differently agree to a few hundred roundings of 1e-16; a backward pass
# through a norm over nearly equal values loses some more digits.
TOLERANCES: Mapping[Witness, float] = {"statement": 1e-12, "finite differences": TOLERANCE, "autograd": 1e-10}
ATTEMPTS = 20  # to draw inputs at which the statement has a finite value
BROKEN = float("inf")


@dataclass(frozen=True)
class CheckResult:
    """The largest error of one value or gradient of one kernel, over all cases, as one witness sees it.

    Attributes:
        kernel: The program's name.
        target: "numpy" or "torch".
        gradient: "dQ" for the gradient of Q, or the name of an output for its value.
        error: The largest difference, relative to the largest entry of the array; infinite where there is no number.
        tolerance: What the error may be.
        witness: "statement", "finite differences" or "autograd".
        shapes: In how many shapes it was looked at.
        ok: Whether the error is within the tolerance.
        detail: When not ok, the worst case and entry with both values, or what went wrong.
    """

    kernel: str
    target: str
    gradient: str
    error: float
    tolerance: float
    witness: str
    shapes: int
    ok: bool
    detail: str


@dataclass(frozen=True)
class Finding:
    """What one case says about one value or gradient."""

    gradient: str
    witness: Witness
    difference: Difference


def check_kernels(programs: Iterable[Program], *, target: str, folder: Path, seed: int = 0) -> Iterator[CheckResult]:
    """The results for the programs' kernels of one target, one for each value or gradient and each witness.

    Kernels are the files `folder/target/NAME.py`. Programs that ask for no kernel are passed over.

    Raises:
        KernelError: a kernel's file is missing or cannot be used, or the target's library is not installed.
    """
    try:
        library = array_library(target)
    except (ValueError, ImportError) as error:
        raise KernelError(f"target {target}: its kernels cannot be run: {error}") from error
    for program in programs:
        if program.request is not None:
            with opened(program, program.request, folder, library) as kernel:
                yield from check_kernel(kernel, seed)


def check_kernel(kernel: Kernel, seed: int) -> Iterator[CheckResult]:
    """The results for one kernel."""
    worst: dict[tuple[str, Witness], tuple[Difference, Case]] = {}
    shapes: dict[tuple[str, Witness], set[str]] = {}
    for case in cases_of(kernel.program):
        for finding in examine(kernel, case, seed):
            row = finding.gradient, finding.witness
            shapes.setdefault(row, set()).add(str(case.shape))
            if row not in worst or finding.difference.error > worst[row][0].error:
                worst[row] = finding.difference, case
    for row in rows_of(kernel):
        found, case = worst[row]
        name, witness = row
        tolerance = TOLERANCES[witness]
        ok = found.error <= tolerance
        yield CheckResult(
            kernel.program.name, kernel.library.name, name, found.error, tolerance, witness, len(shapes[row]), ok,
            "" if ok else f"with {case}: {found.detail}",
        )  # fmt: skip


def rows_of(kernel: Kernel) -> list[tuple[str, Witness]]:
    """What is reported about a kernel, in order."""
    rows: list[tuple[str, Witness]] = [(str(output.name), "statement") for output in kernel.request.outputs]
    for symbol in kernel.request.wrt:
        rows += [(gradient_name(symbol), witness) for witness in gradient_witnesses(kernel.library)]
    return rows


def gradient_name(symbol: Name) -> str:
    """The name under which the gradient of a variable is reported."""
    return f"d{symbol.name}"


def gradient_witnesses(library: ArrayLibrary) -> tuple[Witness, ...]:
    """The witnesses that see gradients."""
    return ("finite differences", "autograd") if library.name == "torch" else ("finite differences",)


# ---------------------------------------------------------------------------------------------------------------------
# One case.


@dataclass(frozen=True)
class Run:
    """A kernel in one case: its inputs, drawn, the outputs by the statement, and one way to call it."""

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
        """Whether the parameter has a default, the same value, and this case relies on it."""
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
    """What one case says about every value and gradient."""
    rows = rows_of(kernel)
    for attempt in range(ATTEMPTS):
        inputs, generator = draw(kernel.program, case, seed, attempt)
        given = {name: kernel.library.array(v) if isinstance(v, np.ndarray) else v for name, v in inputs.items()}
        values = statement_values(kernel.program, kernel.request, given, case.shape, kernel.library)
        expected = tuple(np.array(kernel.library.plain(value)) for value in values)
        if all(np.all(np.isfinite(value)) for value in expected):
            break
    else:
        failure = Difference(BROKEN, f"the statement has no finite value at {ATTEMPTS} random inputs; declare positivity")
        yield from (Finding(*row, failure) for row in rows)
        return
    # Of either sign and never small, so that no gradient is.
    upstream = generator.choice((-1.0, 1.0), expected[0].shape) * generator.uniform(0.5, 1.5, expected[0].shape)
    run = Run(kernel, case, inputs, expected, upstream)
    with np.errstate(all="ignore"):
        try:
            yield from values_of(run)
            yield from gradients_of(run, generator)
        except Exception as error:  # a wrong kernel may fail in any way that Python knows
            failure = Difference(BROKEN, f"the kernel raised {type(error).__name__}: {error}")
            yield from (Finding(*row, failure) for row in rows)


def values_of(run: Run) -> Iterator[Finding]:
    """The outputs against the statement, and what callers rely on."""
    kernel, library = run.kernel, run.kernel.library
    arrays, options = run.arguments()
    outputs, saved = kernel.run(arrays, options)
    outputs = tuple(np.array(library.plain(output)) for output in outputs)
    broken = run.changed(arrays)
    if kernel.request.wrt and not broken:
        kernel.gradients(library.array(run.upstream.copy()), saved)
        broken = run.changed(arrays) and f"{run.changed(arrays)} by the backward kernel"
    single, _ = kernel.run(*run.arguments(np.float32))
    for symbol, found, other, expected in zip(kernel.request.outputs, outputs, single, run.expected, strict=True):
        fault = broken or wrong_type(found, np.float64) or wrong_type(library.plain(other), np.float32)
        seen = Difference(BROKEN, fault) if fault else difference(found, expected, "by the statement")
        yield Finding(str(symbol.name), "statement", seen)


def wrong_type(found: Array, expected: type[np.floating[Any]]) -> str:
    """A sentence about an array that has another type than the inputs; empty when it has the same."""
    name = np.dtype(expected).name
    return "" if found.dtype == expected else f"has dtype {found.dtype} for inputs of {name}"


def gradients_of(run: Run, generator: np.random.Generator) -> Iterator[Finding]:
    """The gradients against finite differences and autograd, and what callers rely on."""
    kernel, library = run.kernel, run.kernel.library
    if not kernel.request.wrt:
        return
    found, faults = analytic_gradients(run)
    for place, (symbol, gradient) in enumerate(zip(kernel.request.wrt, found, strict=True)):
        expected_shape = run.case.shape.of(symbol)
        if faults[place]:
            seen = Difference(BROKEN, faults[place])
        elif gradient.shape != expected_shape:
            seen = Difference(BROKEN, f"has shape {gradient.shape}, expected {expected_shape}")
        else:
            seen = against_differences(run, symbol, gradient, generator)
        yield Finding(gradient_name(symbol), "finite differences", seen)
    if "autograd" in gradient_witnesses(library):
        expected = autograd_gradients(
            kernel.program, kernel.request, run.inputs, run.case.shape, run.upstream, library
        )  # fmt: skip
        for symbol, gradient, other in zip(kernel.request.wrt, found, expected, strict=True):
            yield Finding(gradient_name(symbol), "autograd", difference(gradient, other, "by autograd"))


def analytic_gradients(run: Run) -> tuple[list[Array], list[str]]:
    """The gradients that the kernel returns, and for each a sentence about what it breaks, or an empty one."""
    kernel, library = run.kernel, run.kernel.library
    _, saved = kernel.run(*run.arguments())
    given = library.array(run.upstream.copy("K"))
    found = [np.array(library.plain(gradient)) for gradient in kernel.gradients(given, saved)]
    modified = "" if np.array_equal(library.plain(given), run.upstream) else "the upstream gradient was modified"
    # Minus twice the upstream gradient, of which floating point takes both factors exactly.
    scaled = [library.plain(gradient) for gradient in kernel.gradients(library.array(-2.0 * run.upstream), saved)]
    _, saved = kernel.run(*run.arguments(np.float32))
    single = kernel.gradients(library.array(run.upstream.astype(np.float32)), saved)
    faults = []
    for gradient, doubled, other in zip(found, scaled, single, strict=True):
        fault = modified or wrong_type(gradient, np.float64) or wrong_type(library.plain(other), np.float32)
        if not fault and difference(doubled, -2.0 * gradient, "").error > TOLERANCES["statement"]:
            fault = "is not linear in the upstream gradient, or the saved values are modified by the backward kernel"
        faults.append(fault)
    return found, faults


# ---------------------------------------------------------------------------------------------------------------------
# Finite differences.


def against_differences(run: Run, symbol: Name, gradient: Array, generator: np.random.Generator) -> Difference:
    """The gradient of one variable against central differences of the forward kernel."""
    at, output = probe(run, symbol)
    entries = chosen_entries(at.shape, generator)
    slope = partial(central_difference, output, at, upstream=run.upstream)
    expected = np.array([slope(entry) for entry in entries])
    found = np.array([gradient[entry] for entry in entries])
    scale = scale_of(expected)
    wrong = [place for place in range(len(entries)) if not abs(found[place] - expected[place]) <= TOLERANCE * scale]
    # Is it the kernel that is wrong, or is there no slope here? Ask again with a smaller step.
    unsettled = [
        place for place in wrong if not abs(slope(entries[place], part=1 / 16) - expected[place]) <= TOLERANCE * scale / 4
    ]
    if len(unsettled) > max(1, len(entries) // 10):
        return Difference(BROKEN, f"finite differences do not settle at {len(unsettled)} of {len(entries)} entries")
    settled = [place for place in range(len(entries)) if place not in unsettled]
    if not settled:
        return Difference(0.0)
    errors = np.abs(found - expected) / scale
    errors[np.isnan(errors)] = np.inf
    worst = max(settled, key=lambda place: float(errors[place]))
    entry = f"entry [{', '.join(map(str, entries[worst]))}]" if entries[worst] else "the value"
    return Difference(
        float(errors[worst]), f"{entry} is {found[worst]:.12g}, by finite differences {expected[worst]:.12g}"
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

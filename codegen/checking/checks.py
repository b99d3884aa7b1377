"""The numeric check of generated kernels: every value and every gradient against independent witnesses.

Last stage of the compiler: it reads the files that `codegen.generate` wrote and the statements that they came from.
`codegen.checking.sampling` plans the cases, `codegen.checking.examination` looks at a kernel in each of them, and here
the largest error of each value and gradient over all cases becomes one result.

    for result in check_kernels(load(), target="numpy", folder=Path("generated")):
        print(result.kernel, result.gradient, result.error, result.ok)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from sympy import S

from codegen.checking.array_library import array_library
from codegen.checking.comparison import Difference
from codegen.checking.examination import TOLERANCES, Row, examine, rows_of
from codegen.checking.kernel_files import Kernel, opened
from codegen.checking.sampling import Case, cases_of
from codegen.errors import KernelError
from derive.program import Program
from derive.prove import proof_of
from derive.statements import Claim

__all__ = ["CheckResult", "check_kernels"]

NOTHING = 1e-12  # entries of a gradient up to here are rounding, inputs and upstream gradients being of order 1
PROOF, ATTEMPTS = 2.0, 20  # seconds, and ways of writing definitions in, for the proof that a gradient is 0


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
        note: What the row cannot show: a corner where there is no derivative, a gradient that is 0 for every input.
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
    note: str = ""


def check_kernels(programs: Iterable[Program], *, target: str, folder: Path, seed: int = 0) -> Iterator[CheckResult]:
    """The results for the programs' kernels of one target, one for each value or gradient and each witness.

    Kernels are the files `folder/target/NAME.py`. Programs that ask for no kernel are passed over. The same seed gives
    the same results.

    Raises:
        KernelError: a kernel's file is missing or cannot be used, or the target's library is not installed.
        StatementError: a statement has no value on rectangular arrays.
    """
    try:
        library = array_library(target)
    except (ValueError, ImportError) as error:
        raise KernelError(f"target {target}: its kernels cannot be run: {error}") from error
    for program in programs:
        if program.request is not None:
            with opened(program, program.request, folder, library) as kernel, _set_up(kernel):
                results = check_kernel(kernel, seed)
            yield from results


@contextmanager
def _set_up(kernel: Kernel) -> Iterator[None]:
    """The library as kernels are run for a check; one that is given no array of numbers is told their type."""
    library = kernel.library
    with library.single_threaded(), nullcontext() if kernel.takes_numbers else library.in_double():
        yield


def check_kernel(kernel: Kernel, seed: int) -> list[CheckResult]:
    """The results for one kernel."""
    worst: dict[Row, tuple[Difference, Case]] = {}
    shapes: dict[Row, set[str]] = {}
    largest: dict[Row, float] = {}
    notes: dict[Row, str] = {}
    for case in cases_of(kernel.program):
        for finding in examine(kernel, case, seed):
            shapes.setdefault(finding.row, set()).add(str(case.shape))
            largest[finding.row] = max(finding.largest, largest.get(finding.row, 0.0))
            if finding.note:
                notes.setdefault(finding.row, f"with {case}: {finding.note}")
            if finding.row not in worst or finding.difference.error > worst[finding.row][0].error:
                worst[finding.row] = finding.difference, case
    results = []
    for row in rows_of(kernel):
        found, case = worst[row]
        tolerance = TOLERANCES[row.witness]
        ok = found.error <= tolerance
        detail = "" if ok else f"with {case}: {found.detail}"
        note = blind_spot(kernel, row) if ok and largest[row] <= NOTHING else notes.get(row, "")
        names = kernel.program.name, kernel.library.name, row.gradient
        results.append(CheckResult(*names, found.error, tolerance, row.witness, len(shapes[row]), ok, detail, note))
    return results


def blind_spot(kernel: Kernel, row: Row) -> str:
    """A sentence about a gradient that is 0 in every case, which no comparison can tell from a right one."""
    (output,) = kernel.request.outputs
    symbol = next(symbol for symbol in kernel.request.wrt if f"d{symbol.name}" == row.gradient)
    backward = kernel.program.gradient(output, kernel.request.wrt)
    known = backward.definition(str(backward.adjoint(symbol).name))
    zero = Claim("zero", "", known.left, S.Zero, backward) if known is not None else None
    proof = proof_of(zero, seconds=PROOF, attempts=ATTEMPTS) if zero is not None else None
    how = "is 0 in every case" if proof is None else "is identically 0 (proved)"
    return (
        f"{row.gradient} {how}: {output.name} does not change with {symbol.name}, so this row can show no fault; ask "
        "for the gradient of what the sum is over, which meets a generic upstream gradient"
    )

"""`gradproof check`: compare every generated kernel with independent witnesses and report the largest errors.

Takes programs from `selection` to `codegen.checking.checks` and prints one row for each gradient of each kernel.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradproof.cli import render
from gradproof.cli.generate import generation, takes_targets, targets_of
from gradproof.cli.meter import Meter, meter
from gradproof.cli.paths import Named
from gradproof.cli.selection import InputError, chosen_programs

if TYPE_CHECKING:
    from codegen.checking.checks import CheckResult
    from derive.program import Program

COLUMNS = (
    render.Column("kernel"),
    render.Column("target"),
    render.Column("gradient"),
    render.Column("largest error", number=True),
    render.Column("tolerance", number=True),
    render.Column("witness", fold=True),
    render.Column("shapes", number=True),
    render.Column("outcome"),
)
NO_TORCH = "torch is not installed; install it with: pip install 'gradproof[torch]'"


@click.command(
    short_help="Check generated kernels numerically.",
    epilog="""\b
Exit codes:
  0  every kernel agrees with its witnesses
  1  a kernel does not
  2  bad input, or torch kernels were asked for and torch is not installed""",
)
@takes_targets
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random inputs.")
@click.option(
    "--generated",
    type=Named(exists=True, file_okay=False),
    metavar="DIR",
    help="Folder with the kernels instead of generated/.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the results.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_context
def check(
    ctx: click.Context, chosen: tuple[str, ...], seed: int, generated: Path | None, form: str, names: tuple[str, ...]
) -> None:
    """Check generated kernels numerically, in float64.

    Each gradient is compared with central finite differences (and for torch with autograd of a plain forward) under
    random upstream gradients, over several shapes. NAME is the name of a program, or the path of a .py file whose
    kernels lie in the folder that --generated names.
    """
    from codegen.errors import KernelError
    from codegen.generate import default_folder

    asked = targets_of(chosen)
    if asked == ("torch",) and not torch_is_installed():
        raise InputError(NO_TORCH)
    programs = chosen_programs(names)
    targets = installed_among(asked)
    try:
        with meter(["check"], lines=False) as progress:
            results = examine(programs, targets, generated or default_folder(), seed=seed, progress=progress)
    except KernelError as error:
        if generated is None:
            raise
        advice = generation(generated, [name for name in names if name.endswith(".py")])
        raise KernelError(str(error).replace("`gradproof generate`", f"`{advice}`")) from error
    skipped = [name for name in asked if name not in targets]
    if form == "json":
        render.show_json(as_json(results, skipped))
    else:
        show(results)
    if skipped:
        click.echo(f"note: the {', '.join(skipped)} kernels were not checked: {NO_TORCH}", err=True)
    ctx.exit(0 if results and all(result.ok for result in results) else 1)


def torch_is_installed() -> bool:
    """Whether torch can be imported."""
    return importlib.util.find_spec("torch") is not None


def installed_among(targets: Sequence[str]) -> tuple[str, ...]:
    """The targets whose library is installed."""
    return tuple(target for target in targets if target != "torch" or torch_is_installed())


def examine(
    programs: Sequence[Program], targets: Sequence[str], folder: Path, *, seed: int, progress: Meter
) -> list[CheckResult]:
    """The results for the programs' kernels in the folder, target by target."""
    from codegen.checking.checks import check_kernels

    progress.start("check", len(programs) * len(targets))
    results: list[CheckResult] = []
    done = 0
    for target in targets:
        for program in programs:
            progress.move(done, f"{program.name}, {target}")
            results += check_kernels([program], target=target, folder=folder, seed=seed)
            done += 1
    progress.finish(tally(results))
    return results


def largest_error(results: Sequence[CheckResult]) -> float:
    """The largest relative error among the results; a NaN counts as the largest."""
    errors = [result.error for result in results]
    return next((error for error in errors if error != error), max(errors, default=0.0))


def tally(results: Sequence[CheckResult]) -> str:
    """The results in words."""
    if not results:
        return "nothing was checked"
    failed = sum(not result.ok for result in results)
    outcome = f"{failed} of {len(results)} checks fail" if failed else f"{render.counted(len(results), 'check')} passed"
    return f"{outcome}, largest relative error {largest_error(results):.1e}"


def as_json(results: Sequence[CheckResult], skipped: Sequence[str]) -> dict[str, Any]:
    """The results as the JSON object that `--format json` prints; an error that is no number is null."""
    return {
        "checks": [
            {
                "kernel": result.kernel,
                "target": result.target,
                "gradient": result.gradient,
                "error": finite_or_none(result.error),
                "tolerance": result.tolerance,
                "witness": result.witness,
                "shapes": result.shapes,
                "ok": result.ok,
                "detail": result.detail,
                **({"note": result.note} if result.note else {}),
            }
            for result in results
        ],
        "summary": {
            "passed": sum(result.ok for result in results),
            "failed": sum(not result.ok for result in results),
            "largest_error": finite_or_none(largest_error(results)),
            "skipped_targets": list(skipped),
        },
    }


def finite_or_none(value: float) -> float | None:
    """The value, or None where JSON has no number for it."""
    return value if abs(value) < float("inf") else None


def show(results: Sequence[CheckResult]) -> None:
    """Print the results as a table, then what is known about each failure."""
    rows = [
        [
            result.kernel,
            result.target,
            result.gradient,
            f"{result.error:.1e}",
            f"{result.tolerance:.0e}",
            result.witness,
            str(result.shapes),
            "ok" if result.ok else "fails",
        ]
        for result in results
    ]
    render.show_table(COLUMNS, rows)
    for result in results:
        if not result.ok:
            render.show_line(failure(result))
        if result.note:
            render.show_line(f"note: {result.target} kernel {result.kernel}: {result.note}")
    render.show_line(tally(results))


def failure(result: CheckResult) -> str:
    """One failed check in a sentence."""
    subject = f"{result.target} kernel {result.kernel}, {result.gradient}"
    if finite_or_none(result.error) is None and result.detail:  # it gave no number to compare
        return f"{subject}: {result.detail}"
    difference = f"differs from {result.witness} by {result.error:.1e} where {result.tolerance:.0e} is allowed"
    return f"{subject}: {difference}{f'; {result.detail}' if result.detail else ''}"

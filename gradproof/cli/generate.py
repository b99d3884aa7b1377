"""`gradproof generate`: write the kernels of all programs that ask for one, or say which committed ones are stale.

Takes programs from `selection` to `codegen.generate`. What is rendered depends on the programs alone, so writing and
`--check` compare the same bytes.
"""

from __future__ import annotations

import difflib
import importlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradproof.cli import render
from gradproof.cli.paths import Named
from gradproof.cli.selection import InputError, chosen_programs, some_of

if TYPE_CHECKING:
    from derive.program import Program

TARGETS = ("numpy", "torch")


def targets_of(chosen: Sequence[str]) -> tuple[str, ...]:
    """The targets that one `--target` or several mean."""
    return tuple(target for target in TARGETS if target in chosen or "all" in chosen)


takes_targets = click.option(
    "--target",
    "chosen",
    type=click.Choice([*TARGETS, "all"]),
    multiple=True,
    default=("all",),
    help="Which kernels, all by default; may be repeated.",
)


@click.command(
    short_help="Generate kernels, or tell which are stale.",
    epilog="""\b
Exit codes:
  0  written, or with --check: everything is current
  1  with --check: a file differs (the diff is printed)
  2  bad input""",
)
@click.option("--check", "only_compare", is_flag=True, help="Write nothing; print a unified diff if a file differs.")
@takes_targets
@click.option(
    "-o",
    "--output",
    type=Named(file_okay=False),
    metavar="DIR",
    help="Folder instead of generated/.",
)
@click.option(
    "--explain",
    metavar="KERNEL",
    help="Write nothing; show what becomes of one program: each pass with costs and identities, then the blocks.",
)
@click.argument("files", nargs=-1, metavar="[FILE.py]...")
@click.pass_context
def generate(
    ctx: click.Context,
    only_compare: bool,
    chosen: tuple[str, ...],
    output: Path | None,
    explain: str | None,
    files: tuple[str, ...],
) -> None:
    """Generate forward and backward kernels from the derived programs.

    Without FILE.py, the kernels of the library go to generated/. With files of your own, the kernels of the programs
    they state go to the folder that -o names. A folder holds what one command gives: kernels that were generated
    before and that no program asks for now are removed, so name all files at once. A file that was not generated is
    never replaced or removed.
    """
    from codegen.generate import compare, default_folder, render_all

    for name in files:
        if not name.endswith(".py"):
            raise InputError(f"{name!r}: expected the path of a .py file; the library is generated as a whole")
    if explain is not None:
        show_explanation(explain, chosen_programs(files))
        return
    if files and output is None:
        raise InputError("kernels of your own files do not go among the library's; name a folder with -o DIR")
    folder = output if output is not None else default_folder()
    targets = targets_of(chosen)
    if not only_compare:
        count, changed = regenerate(chosen_programs(files), targets, folder)
        for path in changed:
            render.show_line(f"{'wrote' if (folder / path).is_file() else 'removed'} {path}")
        summary = f"{render.counted(count, 'kernel')} in {folder}, {render.counted(len(changed), 'file')} changed"
        render.show_line(summary)
        return
    difference = compare(render_all(chosen_programs(files), targets), folder, targets)
    if difference:
        click.echo(difference, nl=not difference.endswith("\n"))
        advice = generation(output, files)
        click.echo(f"gradproof: {folder} differs from what the derivations give; run `{advice}`", err=True)
        ctx.exit(1)
    render.show_line(f"{folder} is current")


def generation(folder: Path | None, files: Sequence[str]) -> str:
    """The command that writes the kernels of the files, or of the library, to the folder, as a shell takes it."""
    return shlex.join(["gradproof", "generate", *(["-o", str(folder)] if folder is not None else []), *files])


def regenerate(programs: Sequence[Program], targets: Sequence[str], folder: Path) -> tuple[int, list[str]]:
    """Write the programs' kernels, one for each target, to the folder; their number and the files that changed."""
    from codegen.generate import render_all, write

    changed = write(render_all(programs, targets), folder, targets)
    importlib.invalidate_caches()  # a kernel that was not there a moment ago can be imported now
    return len(programs) * len(targets), changed


def show_explanation(name: str, programs: Sequence[Program]) -> None:
    """Print what the compiler does to the program of this name.

    Raises:
        InputError: there is no program of this name that asks for a kernel.
    """
    from codegen.algebra.trace import explained, traced
    from codegen.planning.schedule import plan
    from codegen.printing.overview import overview

    asking = {program.name: program for program in programs if program.request is not None}
    if name not in asking:
        near = difflib.get_close_matches(name, asking, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {some_of(asking)}"
        raise InputError(f"--explain {name}: no program of this name asks for a kernel; {hint}")
    for line in (*explained(traced(asking[name])), *overview(plan(asking[name]))):
        render.show_line(line)

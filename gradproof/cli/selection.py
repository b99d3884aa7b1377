"""What the names on a command line mean: claims and programs of the library, or of the user's own files.

A name is a claim's id (E6), a program's name (attention), the path of a Python file that states programs, or a module
that does (package.module, found as `python -m` would find it). A name that means nothing is an error with the nearest
names that do.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gradproof.cli.foreign_errors import advice_on
from gradproof.cli.render import working_folder

if TYPE_CHECKING:
    from derive.program import Program
    from derive.statements import Claim


MOST_LISTED = 12
"""Most names that a message lists."""


class InputError(ValueError):
    """What the user named cannot be used; the message says what was expected and what was found."""

    exit_code = 2


def chosen_claims(names: Sequence[str]) -> list[Claim]:
    """The claims that `names` mean, in the order of the library; all of the library's claims without names.

    Raises:
        InputError: a name is neither a claim, a program nor a usable file, or there is no claim under it.
    """
    library, files, wanted = _sources(names)
    ids = {claim.id for program in library for claim in program.claims}
    _check_known(wanted, ids | {program.name for program in library}, "a claim or a program of the library")
    claims = [
        claim
        for program in library
        for claim in program.claims
        if not names or claim.id in wanted or program.name in wanted
    ]
    claims += [claim for program in files for claim in program.claims]
    if not claims:
        raise InputError(f"{' '.join(names) or 'the library'}: there is no claim to prove; state one with claim(...)")
    return claims


def chosen_programs(names: Sequence[str]) -> list[Program]:
    """The programs with a kernel that `names` mean; all of the library's without names.

    Raises:
        InputError: a name is neither a program nor a usable file, or no kernel is asked for under it.
    """
    library, files, wanted = _sources(names)
    library = [program for program in library if program.request is not None]
    _check_known(wanted, {program.name for program in library}, "a program of the library with a kernel")
    programs = [program for program in library if not names or program.name in wanted]
    programs += [program for program in files if program.request is not None]
    if not programs:
        raise InputError(
            f"{' '.join(names) or 'the library'}: no program asks for a kernel; ask for one with program.kernel(...)"
        )
    return programs


def programs_of(path: Path) -> list[Program]:
    """The programs that a Python file of the user's states, with the file and line of any error in it.

    Raises:
        InputError: the file cannot be run, or states no program.
    """
    from derive.library import load_file

    if path.is_dir():
        raise InputError(f"{path}: expected a Python file with programs, found a folder; name the files in it")
    try:
        return load_file(path)
    except (Exception, SystemExit) as error:  # the user's file may fail in any way that Python knows, or just leave
        raise InputError(_failure_in(path, error)) from error


def programs_in(name: str) -> list[Program]:
    """The programs that a module of the user's states.

    Raises:
        InputError: the module cannot be imported, or states no program.
    """
    from derive.library import programs_of as programs_of_module

    with _working_folder_first():
        origin = _origin_of(name)
        try:
            module: ModuleType = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # the user's module may fail as a file may
            raise InputError(_failure_in(Path(origin), error)) from error
    found = programs_of_module(module)
    if not found:
        raise InputError(f"{name}: expected at least one module-level Program in {origin}, found none")
    return found


def _origin_of(name: str) -> str:
    """The file of a module, empty when there is no such module."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    return found.origin or "" if found is not None else ""


@contextmanager
def _working_folder_first() -> Iterator[None]:
    """Modules are looked for in the working folder, as `python -m` does."""
    folder = working_folder()
    if folder is None:
        yield
        return
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _failure_in(path: Path, error: Exception | SystemExit) -> str:
    """The error with the last line of the file that led to it."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    real = os.path.realpath if working_folder() is not None else os.path.normpath  # the first one asks where that is
    lines = [frame.lineno for frame in frames if real(frame.filename) == real(path)]
    if not lines and hasattr(error, "exit_code"):  # about the file as a whole, which the message names
        return str(error)
    where = f"{path}{f':{lines[-1]}' if lines else ''}"
    if isinstance(error, SystemExit):
        return f"{where}: expected a file that states programs, found one that ends Python (SystemExit); take that out"
    kind = "" if hasattr(error, "exit_code") else f"{type(error).__name__}: "
    return f"{where}: {kind}{error}{advice_on(error)}"


def _is_path(name: str) -> bool:
    return name.endswith(".py") or "/" in name


def _is_module(name: str) -> bool:
    """Whether a name is that of a module inside a package: dotted, and there is such a module."""
    parts = name.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        return False
    with _working_folder_first():
        return bool(_origin_of(name))


def _sources(names: Sequence[str]) -> tuple[list[Program], list[Program], list[str]]:
    """The library's programs, unless only files and modules are named; the programs of those; the remaining names."""
    from derive.library import load

    found: list[Program] = []
    rest = []
    for name in dict.fromkeys(names):
        if _is_path(name):
            found += programs_of(Path(name))
        elif _is_module(name):
            found += programs_in(name)
        else:
            rest.append(name)
    return (load() if rest or not names else []), found, rest


def some_of(names: Iterable[str]) -> str:
    """The names, or the first of them and how many more there are."""
    listed = sorted(names)
    more = len(listed) - MOST_LISTED
    shown = ", ".join(listed[:MOST_LISTED]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown


def _check_known(wanted: Iterable[str], known: set[str], what: str) -> None:
    for name in wanted:
        if name in known:
            continue
        folded = {candidate.casefold(): candidate for candidate in sorted(known)}
        near = [folded[match] for match in difflib.get_close_matches(name.casefold(), sorted(folded), cutoff=0.5)]
        hint = f"nearest are {', '.join(near)}" if near else f"known are {some_of(known)}"
        raise InputError(f"{name!r}: expected {what}, a module (package.module), or a path to a .py file; {hint}")

"""The library of derivations: one file per subject, each a statement, its claims, and the kernels wanted from it.

A module of this folder is found by looking, not by registering: every `Program` that is a module-level name belongs to
the library, in the order of file names and, within a file, of definition. Remove a file and its claims and kernels are
gone; add one and they are there.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from derive.errors import StatementError
from derive.program import Program

FOLDER = Path(__file__).parent


def load(names: Sequence[str] = (), folder: Path | None = None) -> list[Program]:
    """The programs of the library, or only those with the given names.

    `folder` looks in another folder of such files instead.

    Raises:
        StatementError: a name is not there, or two programs share one.
    """
    programs: list[Program] = []
    for path in sorted((folder or FOLDER).glob("*.py")):
        if path.name != "__init__.py":
            programs += programs_of(_module_at(path, f"derive.library.{path.stem}" if folder is None else None))
    seen: dict[str, Program] = {}
    for program in programs:
        if program.name in seen:
            raise StatementError(f"library: two programs are named {program.name}; rename one")
        seen[program.name] = program
    missing = [name for name in names if name not in seen]
    if missing:
        raise StatementError(f"library: no program {missing[0]}; there are {', '.join(seen)}")
    return [program for program in programs if not names or program.name in names]


def load_file(path: Path) -> list[Program]:
    """The programs of one Python file, which is run as an ordinary module.

    Raises:
        StatementError: there is no such file, or no program in it.
    """
    if not path.is_file():
        raise StatementError(f"{path}: expected a Python file with programs, found no such file")
    found = programs_of(_module_at(path, None))
    if not found:
        raise StatementError(f"{path}: expected at least one module-level Program, found none")
    return found


def programs_of(module: ModuleType) -> list[Program]:
    """The programs that a module defines, in order, each once; those it imported are not its own."""
    found: list[Program] = []
    for value in vars(module).values():
        if (
            isinstance(value, Program)
            and value.origin == module.__name__
            and not any(value is known for known in found)
        ):
            found.append(value)
    return found


class _Reader(SourceFileLoader):
    """Python's own loader, but for the bytecode: nothing is written beside somebody's file."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Keep nothing."""


def _module_at(path: Path, name: str | None) -> ModuleType:
    if name is not None:
        return importlib.import_module(name)
    # A file outside the library gets a name of its own, so that it shadows no installed module.
    own = f"gradproof_statement_{path.stem}"
    spec = importlib.util.spec_from_file_location(own, path, loader=_Reader(own, str(path)))
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise StatementError(f"{path}: expected a Python file, found something that cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

"""How outcomes are printed: tables, lines and frames on a terminal, plain aligned text elsewhere, and JSON.

The plain form is meant for logs and pipes: no control characters, no wrapping, nothing cut off. Everything that is
printed reaches rich as `Text`, never as markup, because a formula such as S[i, j] looks like markup to it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

STYLES: Mapping[str, str] = {
    "Proved": "green",
    "Refuted": "bold red",
    "Undecided": "yellow",
    "ok": "green",
    "fails": "bold red",
    "falls short": "bold red",
    "not finished": "bold red",
    "not run": "yellow",
}

_ANY_WIDTH = 2**31
"""Wider than any table."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, whether it holds numbers, and whether it may be broken into lines."""

    heading: str
    number: bool = False
    fold: bool = False


def on_terminal(*, stderr: bool = False) -> bool:
    """Whether the stream is a terminal that understands more than plain text; one that was closed is none."""
    stream: TextIO | None = sys.stderr if stderr else sys.stdout
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False) -> Console:
    """A rich console on the stream as it is now; COLUMNS=0 sets no width, as in Python's own library."""
    found = Console(stderr=stderr, highlight=False)
    if found.width < 1:
        found.width = shutil.get_terminal_size().columns
    return found


def visible(text: str) -> str:
    """The text with every control character, except line ends, written as an escape."""
    return "".join(
        character if character.isprintable() or character == "\n" else ascii(character)[1:-1] for character in text
    )


def show_line(text: str = "", style: str = "") -> None:
    """Print a line (or several), never wrapped, so that it can be copied."""
    if on_terminal():
        console().print(Text(visible(text), style=style), soft_wrap=True)
    else:
        click.echo(visible(text))


def show_note(text: str, *, indent: int) -> None:
    """Print what stands under a line: dimmed and wrapped on a terminal, on one line elsewhere."""
    if on_terminal():
        console().print(Padding(Text(visible(text), style="dim"), (0, 0, 0, indent)))
    else:
        click.echo(f"{'':<{indent}}{visible(text)}")


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows under headings; a cell whose text is a key of STYLES gets its colour.

    Where the terminal has no room for every number and name as a whole, the lines are those of a log, and it wraps
    them: a number that is cut off is another number.
    """
    cells = [[visible(cell) for cell in row] for row in rows]
    if on_terminal():
        table = Table(title=Text(title) if title else None, title_justify="left")
        for column in columns:
            table.add_column(
                Text(column.heading),
                justify="right" if column.number else "left",
                no_wrap=not column.fold,
                overflow="fold",
            )
        for row in cells:
            table.add_row(*[Text(cell, style=STYLES.get(cell, "")) for cell in row])
        out = console()
        if Measurement.get(out, out.options.update(max_width=_ANY_WIDTH), table).minimum <= out.width:
            out.print(table)
            return
    if title:
        click.echo(title)
    for line in aligned(columns, cells):
        click.echo(line)


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """The headings and rows as lines of equal columns, numbers to the right."""
    lines = [[column.heading for column in columns], *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if column.number else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    ]


def show_text(title: str, text: str) -> None:
    """Print a passage of text, framed on a terminal and indented elsewhere."""
    if on_terminal():
        console().print(Panel(Text(visible(text)), title=Text(title), title_align="left"))
        return
    click.echo(f"{title}:")
    for line in visible(text).splitlines():
        click.echo(f"  | {line}")


def place(source: str) -> str:
    """A file with a line as short as it can be followed from the working folder, or from the folder of the library."""
    name, _, line = source.rpartition(":")
    working = working_folder()
    for folder in (*([] if working is None else [working]), Path(__file__).parents[2]):
        if Path(name).is_relative_to(folder):
            return f"{Path(name).relative_to(folder).as_posix()}:{line}"
    return source


def working_folder() -> Path | None:
    """The folder that relative paths begin in; none if it was removed meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def show_json(payload: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Print a JSON object on stdout; without `indent`, on one line."""
    click.echo(json_text(payload, indent=indent))


def json_text(payload: Mapping[str, Any], *, indent: int | None) -> str:
    """A JSON object as text. What is infinite, or no number, is null: JSON has no other word for it."""
    return json.dumps(_finite(payload), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def seconds(value: float) -> str:
    """A duration: 0.013 s, 12.3 s, 2 min 05 s."""
    if value < 9.995:
        return f"{value:.3f} s" if value < 0.9995 else f"{value:.2f} s"
    if value < 119.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"


def milliseconds(value: float) -> str:
    """A duration of few seconds, as short as those of kernels: 0.021 ms, 5.03 ms, 1,234 ms."""
    number = 1000 * value
    return f"{number:.3f} ms" if number < 0.9995 else f"{number:.2f} ms" if number < 99.995 else f"{number:,.0f} ms"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 claim, 2 claims."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"

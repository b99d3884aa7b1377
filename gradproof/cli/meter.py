"""How far the work is: live bars on a terminal, a line for every tenth elsewhere; always on stderr.

A meter knows the stages of the work in order; each is started, moved and finished, and gets a row when it starts.
stdout stays free for the outcome.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

import click
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from gradproof.cli.render import console, on_terminal, seconds, visible


class Meter(Protocol):
    """What a stage of the work tells while it runs."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End to show, also after an error."""

    def start(self, stage: str, total: int | None) -> None:
        """The stage begins and has `total` steps, or an unknown number of them."""

    def move(self, done: int, note: str = "") -> None:
        """So many steps of the stage that runs are done."""

    def show(self, title: str, text: str) -> None:
        """A passage of text that came up on the way."""

    def finish(self, note: str = "") -> None:
        """The stage that runs is done."""


def meter(stages: Sequence[str], *, lines: bool = True, keep: bool = False) -> Meter:
    """A meter for the given stages.

    `lines` asks for lines where there is no terminal; `keep` leaves the bars on the screen when all is done.
    """
    if on_terminal(stderr=True):
        return BarMeter(stages, keep=keep)
    return LineMeter(lines=lines)


class BarMeter:
    """A live bar for each stage."""

    def __init__(self, stages: Sequence[str], *, keep: bool) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console(stderr=True),
            transient=not keep,
        )
        width = max(map(len, stages))
        self._rows: dict[str, TaskID] = {
            stage: self._progress.add_task(stage.ljust(width), total=None, start=False, visible=False, note="")
            for stage in stages
        }
        self._running = self._rows[stages[0]]

    def __enter__(self) -> Self:
        """Begin to show."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        self._progress.stop()

    def start(self, stage: str, total: int | None) -> None:
        """The stage's clock starts."""
        self._running = self._rows[stage]
        self._progress.start_task(self._running)
        self._progress.update(self._running, total=total, visible=True)

    def move(self, done: int, note: str = "") -> None:
        """Draw the bar anew."""
        self._progress.update(self._running, completed=done, note=visible(note))

    def show(self, title: str, text: str) -> None:
        """Print the passage above the bars."""
        self._progress.console.print(Panel(Text(visible(text)), title=Text(title), title_align="left"))

    def finish(self, note: str = "") -> None:
        """Fill the bar and stop its clock."""
        (task,) = (task for task in self._progress.tasks if task.id == self._running)
        total = task.total if task.total is not None else max(task.completed, 1)
        self._progress.update(self._running, total=total, completed=total, note=visible(note))
        self._progress.stop_task(self._running)


class LineMeter:
    """A line for every tenth of a stage, and one for its end."""

    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._stage = ""
        self._total: int | None = None
        self._tenth = 0
        self._began = 0.0

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def start(self, stage: str, total: int | None) -> None:
        """Remember the stage."""
        self._stage, self._total, self._tenth, self._began = stage, total, 0, time.perf_counter()

    def move(self, done: int, note: str = "") -> None:
        """Print a line when the next tenth is reached."""
        if not self._lines or not self._total:
            return
        tenth = 10 * done // self._total
        if tenth > self._tenth:
            self._tenth = tenth
            self._print(f"{done} of {self._total}{f', {note}' if note else ''}")

    def show(self, title: str, text: str) -> None:
        """Nothing: a log has the passage once, at the end."""

    def finish(self, note: str = "") -> None:
        """Print the stage's end, with the time it took."""
        if self._lines:
            self._print(f"done in {seconds(time.perf_counter() - self._began)}{f', {note}' if note else ''}")

    def _print(self, text: str) -> None:
        click.echo(visible(f"{self._stage}: {text}"), err=True)

"""The metrics of a run: a file of JSON lines, one for every step, evaluation and sample.

Between the loop and whoever plots or reads the run. A line holds what was measured and the step it was measured at;
times come last, since they are all that differs between two runs of one seed. The file grows line by line and is
brought to the disk before a checkpoint counts, so that it never ends before the checkpoint; what lies after the
checkpoint, a line cut off by a kill included, is dropped when the run goes on, and written again by the steps that are
taken again. A damaged line before it loses itself alone, and the file as it was found is kept beside the new one.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gradproof.training.folder import METRICS, content_of_file, damaged_metrics, write_whole, writing

__all__ = ["MetricsFile", "read_metrics"]

_LOSSES = ("loss", "heldout_loss")


class MetricsFile:
    """The metrics of the run in `folder`, open to be added to, from `step` on.

    Attributes:
        note: What a reader should know about the file that was found; empty where nothing is wrong with it.
    """

    def __init__(self, folder: Path, step: int) -> None:
        """Drop the lines of later steps and open the file."""
        self._path = folder / METRICS
        self.note = ""
        content = content_of_file(self._path) if step > 0 and self._path.exists() else b""
        kept, damaged, reached = _lines_up_to(step, content)
        if damaged:
            beside = _keep_beside(self._path, content)
            numbers = ", ".join(map(str, damaged))
            self.note = f"{self._path}: damaged in line {numbers}, which is left out; as it was, the file is {beside}"
        elif reached < step:
            self.note = f"{self._path}: lacks the lines of the steps from {reached + 1} to {step}"
        write_whole(self._path, b"".join(line + b"\n" for line in kept))
        self._file = self._path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        """The file itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        with writing(self._path):
            self._file.close()

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line, which whoever follows the file sees at once."""
        with writing(self._path):
            self._file.write(f"{json.dumps(line)}\n")
            self._file.flush()

    def sync(self) -> None:
        """Bring all lines to the disk."""
        with writing(self._path):
            os.fsync(self._file.fileno())


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of the run in `folder` that are whole."""
    path = folder / METRICS
    if not path.exists():
        return
    for line in content_of_file(path).split(b"\n"):
        measured = _measured(line)
        if measured is not None:
            yield measured


def _lines_up_to(step: int, content: bytes) -> tuple[list[bytes], list[int], int]:
    """The whole lines up to that step, the numbers of those that are damaged and may belong to them, the last step.

    A line after one of a later step does not, nor one at the end that was cut off.
    """
    kept: list[bytes] = []
    damaged: list[int] = []
    reached, beyond = 0, False
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        measured = _measured(line)
        if measured is not None and measured["step"] <= step:
            kept.append(line)
            reached = measured["step"]
        elif measured is not None:
            beyond = True
        elif line and not beyond and not (number == len(lines) and reached == step):
            damaged.append(number)
    return kept, damaged, reached


def _measured(line: bytes) -> dict[str, Any] | None:
    """What a line holds, or nothing if it is none of metrics."""
    try:
        measured = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(measured, dict) or type(measured.get("step")) is not int:
        return None
    return measured if all(isinstance(measured[name], float) for name in _LOSSES if name in measured) else None


def _keep_beside(path: Path, content: bytes) -> Path:
    """The file under another name that nothing else has."""
    for number in itertools.count(1):
        beside = path.with_name(damaged_metrics(number))
        if not beside.exists():
            write_whole(beside, content)
        if content_of_file(beside) == content:
            return beside
    raise AssertionError("there is always a next number")

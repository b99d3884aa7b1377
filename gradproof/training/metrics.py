"""The metrics of a run: a file of JSON lines, one for every step, evaluation and sample.

Between the loop and whoever plots or reads the run. A line holds what was measured and the step it was measured at;
times come last, since they are all that differs between two runs of one seed. The file grows line by line and is
brought to the disk before a checkpoint counts, so that it never ends before the checkpoint; what lies after the
checkpoint, a line cut off by a kill included, is dropped when the run goes on, and written again by the steps that are
taken again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gradproof.training.folder import METRICS, write_whole, writing

__all__ = ["MetricsFile", "read_metrics"]

_LOSSES = ("loss", "heldout_loss")


class MetricsFile:
    """The metrics of the run in `folder`, open to be added to, from `step` on."""

    def __init__(self, folder: Path, step: int) -> None:
        """Drop the lines of later steps and open the file."""
        self._path = folder / METRICS
        kept = "".join(f"{json.dumps(line)}\n" for line in read_metrics(folder) if line["step"] <= step and step > 0)
        write_whole(self._path, kept.encode())
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
    """The lines of the run in `folder`, up to the first that is not whole."""
    path = folder / METRICS
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            measured = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(measured, dict) or not isinstance(measured.get("step"), int):
            return
        if not all(isinstance(measured[name], float) for name in _LOSSES if name in measured):
            return
        yield measured

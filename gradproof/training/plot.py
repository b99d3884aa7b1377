"""The loss of a run as a picture, with the entropies that it is measured against as lines.

At the end of the data flow of training, beside the report. Drawn by matplotlib, which is heavy (some 90 MB) beside what
the rest of gradproof needs, and therefore optional; the same metrics give the same bytes.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gradproof.training.errors import PlotError
from gradproof.training.folder import write_whole

__all__ = ["FORMATS", "check_plot", "check_writable", "draw_losses"]

FORMATS = (".png", ".svg")

_STYLE: Any = {"svg.hashsalt": "gradproof", "svg.fonttype": "none"}
"""Without a salt of its own a picture would name its parts differently every time; text stays text."""


def check_plot(path: Path) -> None:
    """See to it that a picture can be drawn under this name, as far as that can be told without drawing it.

    Raises:
        PlotError: matplotlib is not installed, there is no such folder, or the name is that of one or ends in neither
            .svg nor .png.
    """
    if path.suffix.lower() not in FORMATS:
        raise PlotError(f"{path}: expected a name that ends in {' or '.join(FORMATS)}; choose one of them")
    if path.is_dir():
        raise PlotError(f"{path}: expected the name of a file to draw into, found a folder; choose another")
    if not path.absolute().parent.is_dir():
        raise PlotError(f"{path}: expected a folder to draw into, found none of this name; make it")
    if find_spec("matplotlib") is None:
        raise PlotError(
            "the loss is not drawn, since matplotlib is not installed; `pip install 'gradproof[plot]'` installs it"
        )


def check_writable(path: Path) -> None:
    """See to it, before anything is trained, that a file can be written where the picture is to be.

    Raises:
        PlotError: The system refuses it.
    """
    try:
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}", dir=path.parent)
        os.close(handle)
        os.unlink(unfinished)
    except OSError as error:
        raise PlotError(
            f"{path}: expected a folder that can be written to, found: {error.strerror}; choose another place"
        ) from error


def draw_losses(path: Path, metrics: Iterable[Mapping[str, Any]], lines: Mapping[str, float]) -> None:
    """Write a picture of the losses, SVG or PNG as the name says.

    Args:
        path: Where to.
        metrics: The lines of the metrics file.
        lines: Label and height of each horizontal line.

    Raises:
        PlotError: matplotlib is not installed, or the name ends in neither .svg nor .png.
    """
    check_plot(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    measured = list(metrics)
    with rc_context(_STYLE):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot(xlabel="step", ylabel="loss in nats per token")
        axes.plot(*_series(measured, "loss"), linewidth=0.8, alpha=0.6, label="training loss")
        axes.plot(*_series(measured, "heldout_loss"), marker="o", markersize=4, label="held-out loss")
        for place, (label, height) in enumerate(lines.items()):
            axes.axhline(height, linestyle="--", linewidth=1, color=f"C{place + 2}", label=f"{label} {height:.3f}")
        axes.legend(loc="upper right", fontsize="small")
        drawn = io.BytesIO()
        kind = path.suffix.lower().removeprefix(".")
        figure.savefig(drawn, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, drawn.getvalue())


def _series(measured: Iterable[Mapping[str, Any]], name: str) -> tuple[list[int], list[float]]:
    points = [(line["step"], line[name]) for line in measured if name in line]
    return [step for step, _ in points], [value for _, value in points]

"""What `gradproof train` prints and leaves in the folder of the run when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from gradproof.cli import render

if TYPE_CHECKING:
    from gradproof.training import Source, TrainingConfig, TrainingResult

COLUMNS = (render.Column("quantity", fold=True), render.Column("nats per token", number=True))
PROFILE_COLUMNS = (
    render.Column("kernel"),
    render.Column("direction"),
    *(render.Column(heading, number=True) for heading in ("calls", "time", "share", "of the GEMM limit")),
)


def conclude(
    config: TrainingConfig,
    source: Source,
    result: TrainingResult,
    folder: Path | None,
    plot: Path | None,
    profiled: bool,
    as_json: bool,
    found: Sequence[str] = (),
) -> None:
    """Leave the report and the picture in the folder, and print what was asked for.

    What cannot be left is told when all is printed: a result that took hours to find is not lost with it. `found` are
    notes that came up on the way.
    """
    notes = [*([source.note] if source.note else []), *found]
    if result.floor.repeated:
        notes.append(
            f"{result.floor.repeated:.1%} of the held-out windows also stand in the training text, word for word; on "
            "them a low loss shows memory, not prediction"
        )
    failure: Exception | None = None
    if folder is not None:
        try:
            leave(result, folder, plot, notes)
        except Exception as error:  # told below, whatever it is
            failure = error
        notes.append(f"the run is in {folder}; `gradproof sample {quote(str(folder))}` writes text with it")
    if as_json:
        for note in notes:
            click.echo(render.visible(f"note: {note}"), err=True)
    else:
        show(result, notes, kept=folder is not None)
    if profiled:
        show_profile(config, source)
    if as_json:
        render.show_json(
            {
                "train_loss": result.train_loss,
                "heldout_loss": result.heldout_loss,
                "unigram": result.unigram,
                "bigram": result.bigram,
                "entropy_rate": result.floor.entropy_rate,
                "tokens_per_s": round(result.tokens_per_s, 1),
                "steps": result.steps,
            },
            indent=None,
        )
    if failure is not None:
        raise failure


def leave(result: TrainingResult, folder: Path, plot: Path | None, notes: list[str]) -> None:
    """Draw the losses and write the report with its notes; what comes up meanwhile joins them."""
    from gradproof.training import PlotError
    from gradproof.training.folder import PLOT, REPORT, write_whole
    from gradproof.training.metrics import read_metrics
    from gradproof.training.plot import draw_losses

    lines = {label: height for label, height in yardsticks(result) if height is not None}
    try:
        draw_losses(plot or folder / PLOT, read_metrics(folder), lines)
    except PlotError as error:
        notes.append(str(error))
    finally:
        report = {**asdict(result), "notes": notes}
        write_whole(folder / REPORT, render.json_text(report, indent=1).encode() + b"\n")


def yardsticks(result: TrainingResult) -> list[tuple[str, float | None]]:
    """What the held-out loss is measured against, the least first."""
    floor = result.floor
    if floor.entropy_rate is not None:
        return [
            ("entropy rate of the process", floor.entropy_rate),
            ("least loss within a window", floor.window_floor),
            ("held-out bigram entropy", floor.bigram),
            ("held-out unigram entropy", floor.unigram),
        ]
    known = [
        ("xz, after the training text", floor.xz),
        ("held-out trigram entropy", floor.trigram),
        ("held-out bigram entropy", floor.bigram),
        ("held-out unigram entropy", floor.unigram),
    ]
    return [*sorted(known, key=lambda each: each[1])]


def show(result: TrainingResult, notes: list[str], *, kept: bool) -> None:
    """Print the losses beside what they are measured against, the pace, and the sampled text.

    A run that was not `kept` cannot go on.
    """
    rows: list[tuple[str, float | None]] = [
        ("loss before training", result.first_loss),
        ("training loss", result.train_loss),
        ("held-out loss", result.heldout_loss),
    ]
    if result.parts is not None:
        rows += [
            ("  expected of the model", result.parts.expected),
            ("  = entropy of the process", result.parts.entropy),
            ("  + divergence of the model", result.parts.divergence),
        ]
    rows += yardsticks(result)
    render.show_table(COLUMNS, [[label, f"{value:.4f}"] for label, value in rows if value is not None])
    way_on = "--resume goes on" if kept else "raise run.time_limit_s, or name --steps"
    early = f" (stopped early at the time limit; {way_on})" if result.stopped_early else ""
    render.show_line(f"{result.steps} steps{early}, {result.tokens_per_s:,.0f} tokens per second")
    for note in notes:
        render.show_line(f"note: {note}", "yellow")
    render.show_text("sample", result.sample)


def show_profile(config: TrainingConfig, source: Source) -> None:
    """Print where the time of a step goes."""
    from gradproof.training.data import batch_at, corpus_from
    from gradproof.training.model import create_model
    from gradproof.training.profile import profile

    corpus = corpus_from(source, config.context)
    model = create_model(config, corpus.vocabulary.size, config.seed)
    found = profile(model, *batch_at(corpus.train, config.context, config.batch, config.seed, 1))
    rows = [
        [
            row.kernel,
            row.direction,
            str(row.calls),
            render.milliseconds(row.seconds),
            f"{row.share:.1%}",
            f"{row.gemm_share:.0%}",
        ]
        for row in found.rows
    ]
    render.show_table(PROFILE_COLUMNS, rows, title="time of the kernels in one step, on one thread")
    render.show_line(
        f"all kernels {render.milliseconds(found.seconds)}; their matrix products alone would take "
        f"{render.milliseconds(found.gemm_seconds)} at the {found.gemm_rate / 1e9:,.0f} Gflop/s of one large product"
    )

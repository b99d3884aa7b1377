"""`gradproof train`: train the small Transformer with generated kernels alone and report its losses.

Takes settings to `gradproof.training` and prints the losses beside the entropies they are to be measured against.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradproof.cli import render
from gradproof.cli.meter import Meter, meter

if TYPE_CHECKING:
    from gradproof.training import StepReport, TrainingConfig, TrainingResult

COLUMNS = (render.Column("quantity"), render.Column("nats per character", number=True))
COUNT = click.IntRange(min=1)


@click.command(
    short_help="Train a small Transformer with generated kernels alone.",
    epilog="""\b
Exit codes:
  0  trained
  1  the loss stopped being a finite number
  2  bad input: settings that contradict each other, or a text that cannot be trained on""",
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="FILE", help="Text instead of Python's reference topics."
)
@click.option("--steps", type=COUNT, help="Steps to train, however long they take; by default about a minute's worth.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Makes the run repeatable.")
@click.option("--layers", type=COUNT, help="Blocks of attention and feed-forward (2).")
@click.option("--heads", type=COUNT, help="Attention heads (2).")
@click.option("--width", type=COUNT, help="Channels of the residual stream (64).")
@click.option("--context", type=COUNT, help="Characters the model sees (64).")
@click.option("--batch", type=COUNT, help="Windows of text for each step (16).")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON on stdout.")
def train(
    data: Path | None,
    steps: int | None,
    seed: int,
    layers: int | None,
    heads: int | None,
    width: int | None,
    context: int | None,
    batch: int | None,
    as_json: bool,
) -> None:
    """Train a causal character Transformer with nothing but generated kernels.

    Reports training and held-out loss beside the unigram and bigram entropies of the held-out text, then samples from
    the model.
    """
    from gradproof.training import TrainingConfig

    default = TrainingConfig()
    config = TrainingConfig(
        layers=layers or default.layers,
        heads=heads or default.heads,
        width=width or default.width,
        context=context or default.context,
        batch=batch or default.batch,
        steps=steps or default.steps,
        # Who names a number of steps wants that number, however long it takes.
        time_limit_s=default.time_limit_s if steps is None else math.inf,
        seed=seed,
    )
    with meter(["train"]) as progress:
        result = fit(config, data, progress)
    if not as_json:
        show(result)
        return
    render.show_json(
        {
            "train_loss": result.train_loss,
            "heldout_loss": result.heldout_loss,
            "unigram": result.unigram,
            "bigram": result.bigram,
            "tokens_per_s": round(result.tokens_per_s, 1),
            "steps": result.steps,
        },
        indent=None,
    )


def fit(config: TrainingConfig, data: Path | None, progress: Meter) -> TrainingResult:
    """The result of training on the text of the file, or on the default text."""
    from gradproof.training import default_text, read_text
    from gradproof.training import train as run_training

    text = default_text() if data is None else read_text(data)
    progress.start("train", config.steps)

    def tell(report: StepReport) -> None:
        progress.move(
            report.step,
            f"loss {report.loss:.3f}, {report.tokens_per_s:,.0f} tokens/s, {render.seconds(report.seconds_left)} left",
        )

    result: TrainingResult = run_training(config, text, on_step=tell)
    progress.finish(f"loss {result.train_loss:.3f}, {result.tokens_per_s:,.0f} tokens/s")
    return result


def show(result: TrainingResult) -> None:
    """Print the losses beside the entropies, the pace, and the sampled text."""
    rows = [
        ["loss before training", f"{result.first_loss:.4f}"],
        ["training loss", f"{result.train_loss:.4f}"],
        ["held-out loss", f"{result.heldout_loss:.4f}"],
        ["held-out bigram entropy", f"{result.bigram:.4f}"],
        ["held-out unigram entropy", f"{result.unigram:.4f}"],
    ]
    render.show_table(COLUMNS, rows)
    early = " (stopped early at the time limit)" if result.stopped_early else ""
    render.show_line(f"{result.steps} steps{early}, {result.tokens_per_s:,.0f} tokens per second")
    render.show_text("sample", result.sample)

"""`gradproof train`: train a Transformer with generated kernels alone, and report what its loss is made of.

Takes settings and a text to `gradproof.training`, shows what the run tells on the way, and prints the losses beside
what they are measured against. What a run leaves in its folder is described in docs/training.md.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradproof.cli import render
from gradproof.cli.meter import Meter, meter
from gradproof.cli.paths import Named
from gradproof.cli.training_report import conclude
from gradproof.cli.training_setup import (
    NEWEST,
    check_not_read,
    check_untouched,
    chosen_config,
    chosen_source,
    placed,
    prepared,
)

if TYPE_CHECKING:
    from gradproof.training import Source, TrainingConfig, TrainingResult
    from gradproof.training.reports import Event

STAGES = ("train", "evaluate")
"""What a run goes through, for whoever watches: its steps, then what its result is made of."""

COUNT = click.IntRange(min=1)
FROM_NOTHING = click.IntRange(min=0)


@click.command(
    short_help="Train a small Transformer with generated kernels alone.",
    epilog="""\b
Examples:
  gradproof train                                        Python's help topics, about a minute
  gradproof train --data texts/ --preset small -o mine   all text files of a folder, a larger model
  gradproof train --process markov:order=2,symbols=8     a text whose entropy is known
  gradproof train --resume                               go on with the newest run in runs/
  torchrun --nproc-per-node 2 -m gradproof.training --engine torch    the same command in two processes

\b
What a run leaves in its folder:
  checkpoint.json, step-*.safetensors   the state; what --resume and `gradproof sample` read
  metrics.jsonl                         a line for every step, evaluation and sample
  loss.svg                              the losses, with the entropies as lines (needs matplotlib)
  report.json                           what is printed at the end
docs/training.md has all settings, and what each of these files holds.

\b
Exit codes:
  0    trained
  1    the loss stopped being a finite number: the last checkpoint stays; or a process that computes part of each batch
       ended: saved after the last whole step
  2    bad input: settings that contradict each other, a text that cannot be trained on, a checkpoint that does not fit;
       or a file that cannot be written
  130  Ctrl-C: saved after the step it was in; a second Ctrl-C ends at once, unsaved
  143  SIGTERM: the same""",
)
@click.option(
    "--data",
    type=Named(),
    metavar="PATH",
    help="Text file or folder instead of Python's reference topics.",
)
@click.option(
    "--process",
    metavar="SPEC",
    help="Draw the text from a process of known entropy: markov:order=2,symbols=8 or copy:block=8,symbols=16.",
)
@click.option("--unit", type=click.Choice(["characters", "bytes"]), help="What a token is (characters).")
@click.option("--preset", metavar="NAME", help="Settings by name: nano, tiny or small.")
@click.option("--config", "file", type=Named(), metavar="FILE", help="Settings from a TOML file.")
@click.option(
    "--set", "assignments", multiple=True, metavar="TABLE.NAME=VALUE", help="One setting, such as model.norm=rms."
)
@click.option(
    "--steps",
    type=COUNT,
    help="Steps to train, however long they take (unless --set run.time_limit_s); by default about a minute's worth.",
)
@click.option("--seed", type=FROM_NOTHING, help="Makes the run repeatable (0).")
@click.option("--layers", type=COUNT, help="Blocks of attention and feed-forward (2).")
@click.option("--heads", type=COUNT, help="Attention heads (2).")
@click.option("--width", type=COUNT, help="Channels of the residual stream (64).")
@click.option("--context", type=COUNT, help="Tokens the model sees (64).")
@click.option("--batch", type=COUNT, help="Windows of text for each step (16).")
@click.option("--learning-rate", type=float, help="Largest step size (0.003).")
@click.option("--engine", type=click.Choice(["numpy", "torch"]), help="What runs the kernels (numpy).")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where torch runs them (cpu).")
@click.option("--dtype", type=click.Choice(["float32", "float64", "bfloat16"]), help="Type of the weights (float32).")
@click.option(
    "-o",
    "--output",
    type=Named(file_okay=False),
    metavar="DIR",
    help="Folder of the run; by default the next number in runs/.",
)
@click.option(
    "--resume",
    is_flag=False,
    flag_value=NEWEST,
    metavar="[DIR]",
    help="Go on with the run in DIR. Without DIR: with the one in --output, or the newest in runs/; "
    "if there is none yet, begin it.",
)
@click.option("--no-save", is_flag=True, help="Keep nothing of the run.")
@click.option("--checkpoint-every", type=COUNT, metavar="STEPS", help="Steps between checkpoints (100).")
@click.option(
    "--evaluate-every", type=FROM_NOTHING, metavar="STEPS", help="Steps between looks at held-out text; 0: none."
)
@click.option("--sample-every", type=FROM_NOTHING, metavar="STEPS", help="Steps between samples; 0: none.")
@click.option(
    "--plot",
    type=Named(),
    metavar="FILE",
    help="Where to draw the losses, as .svg or .png (loss.svg in the folder).",
)
@click.option("--profile", "profiled", is_flag=True, help="Print the time of each kernel when training is over.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON on stdout; notes go to stderr.")
def train(
    data: Path | None,
    process: str | None,
    unit: str | None,
    preset: str | None,
    file: Path | None,
    assignments: tuple[str, ...],
    output: Path | None,
    resume: str | None,
    no_save: bool,
    plot: Path | None,
    profiled: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train a causal Transformer on text with nothing but generated kernels.

    Reports training and held-out loss beside the entropies of the held-out text and what xz makes of it; on a text
    drawn from a process of known entropy, the loss as entropy plus divergence. Ends with a sample. Settings come from
    --preset or --config, then --set, then the options; numbers in brackets are the defaults.
    """
    from gradproof.training import Interrupted
    from gradproof.training.distributed import process_group
    from gradproof.training.folder import locked, resumption
    from gradproof.training.interruption import interruptions
    from gradproof.training.plot import check_plot, check_writable

    if plot is not None:
        if no_save:
            raise click.UsageError("--plot draws what a run leaves; leave out --no-save")
        check_plot(plot)
        check_writable(plot)
    place = placed(output, resume, no_save)
    config = chosen_config(place, preset, file, assignments, given)
    source = chosen_source(place, data, process, unit)
    if plot is not None:
        check_not_read(plot, place, source)
    folder: Path | None = None
    notes: list[str] = []

    def made() -> Path:
        """The folder, made and kept to this process to the end of the command, now that the run will begin."""
        nonlocal folder
        folder = prepared(place)
        kept.enter_context(locked(folder))
        check_untouched(place, folder)
        return folder

    with ExitStack() as kept:
        with interruptions() as stop, process_group(config) as group:
            is_first = group.is_first  # one process shows and writes what happens; the others compute
            options = {"stop": stop, "group": group, "resume": place.state, "folder": None if no_save else made}
            with meter(STAGES, lines=is_first) as progress:
                result = follow(config, source, progress, notes, **options)
        # From here on a signal ends the process at once; one that came before is not forgotten.
        if (asked := stop()) is not None:
            kept_in = "" if folder is None else f"; saved in {folder}, go on with `{resumption(folder)}`"
            raise Interrupted(f"interrupted after the last step{kept_in}", asked)
        if is_first:
            conclude(config, source, result, folder, plot, profiled, as_json, notes)


def fit(config: TrainingConfig, source: Source, progress: Meter) -> TrainingResult:
    """The result of training on the text; nothing is kept."""
    return follow(config, source, progress, [])


def follow(config: TrainingConfig, source: Source, progress: Meter, notes: list[str], **options: Any) -> TrainingResult:
    """The result of training, with what happens on the way shown by `progress`; what is to be known joins the notes."""
    from gradproof.training import FinalReport, HeldOutReport, NoteReport, SampleReport, StepReport
    from gradproof.training import train as run_training

    progress.start("train", config.steps)
    held_out = reached = ""

    def tell(event: Event) -> None:
        nonlocal held_out, reached
        if isinstance(event, StepReport):
            reached = f"loss {event.loss:.3f}, {event.tokens_per_s:,.0f} tokens/s"
            pace = f"{event.tokens_per_s:,.0f} tokens/s, {render.seconds(event.seconds_left)} left"
            progress.move(event.step, f"loss {event.loss:.3f}{held_out}, {pace}")
        elif isinstance(event, HeldOutReport):
            held_out = f", held-out {event.loss:.3f}"
        elif isinstance(event, SampleReport):
            progress.show(f"sample after {event.step} steps", event.text)
        elif isinstance(event, NoteReport):
            notes.append(event.text)
        elif isinstance(event, FinalReport):
            progress.finish(reached)
            progress.start(STAGES[1], None)

    result: TrainingResult = run_training(config, source, tell=tell, **options)
    progress.finish(f"loss {result.train_loss:.3f}, held-out {result.heldout_loss:.3f}")
    return result

"""`gradproof run`: the main job, from the statements to a trained model, in one command.

Proves the library's claims, regenerates the kernels, checks them, trains with them and samples text. Each stage gives
an `Outcome`; a stage that falls short is named in the summary and decides the exit code, whatever later stages say. A
stage that cannot be carried out at all ends the run, after the summary of what was done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradproof.cli import render
from gradproof.cli.check import NO_TORCH, examine, failure, installed_among, largest_error
from gradproof.cli.generate import TARGETS, regenerate
from gradproof.cli.meter import Meter, meter
from gradproof.cli.paths import Named
from gradproof.cli.prove import decide, grounds, tally, title_of
from gradproof.cli.selection import chosen_claims, chosen_programs
from gradproof.cli.train import STAGES as TRAINING_STAGES
from gradproof.cli.train import fit

if TYPE_CHECKING:
    from gradproof.training import Source, TrainingConfig, TrainingResult

AFTERWARDS = TRAINING_STAGES[1:]
"""What the meter shows beside the stages below: training has two parts."""

COLUMNS = (
    render.Column("stage"), render.Column("what"), render.Column("result", fold=True), render.Column("outcome"),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a stage came to: lines for the summary, what fell short, and a sampled text if there is one."""

    rows: tuple[tuple[str, str], ...]
    shortfalls: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sample: str = ""


@dataclass(frozen=True)
class Options:
    """What the user chose for the run."""

    folder: Path
    source: Source
    config: TrainingConfig
    seed: int


@click.command(
    short_help="Do all of it in one go and sum it up.",
    epilog="""\b
Exit codes:
  0   every stage did what it should
  1   a claim is not proved, a kernel fails its check, or the model did not learn enough: its held-out loss is to
      fall below the bigram entropy of the text, or with fewer steps than the default, its loss is to fall
  2   bad input
  70  internal alarm: the two proof engines disagree, or gradproof itself failed""",
)
@click.option("--steps", type=click.IntRange(min=1), help="Training steps; by default about a minute's worth.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Makes the run repeatable.")
@click.option("--data", type=Named(), metavar="FILE", help="Text instead of Python's reference topics.")
@click.option(
    "-o",
    "--output",
    type=Named(file_okay=False),
    metavar="DIR",
    help="Folder for the kernels instead of generated/; the run checks and trains with them.",
)
@click.pass_context
def run(ctx: click.Context, steps: int | None, seed: int, data: Path | None, output: Path | None) -> None:
    """Prove, generate, check, train and sample: the whole of gradproof on its own library."""
    from codegen.generate import default_folder
    from gradproof.training import TrainingConfig, open_source
    from gradproof.training.data import corpus_from

    config = TrainingConfig(seed=seed) if steps is None else TrainingConfig(seed=seed, steps=steps)
    source = open_source(data)
    corpus_from(source, config.context)  # a text that cannot be trained on is told now, not after the other stages
    options = Options(output if output is not None else default_folder(), source, config, seed)
    outcomes: dict[str, Outcome] = {}
    began = time.perf_counter()
    try:
        with meter([*STAGES, *AFTERWARDS], keep=True) as progress:
            for name, stage in STAGES.items():
                outcomes[name] = stage(options, progress)
    finally:
        # Also when a stage raised: what was done before stays visible, above the message about the error.
        show(outcomes, time.perf_counter() - began)
    ctx.exit(1 if any(outcome.shortfalls for outcome in outcomes.values()) else 0)


def prove_claims(options: Options, progress: Meter) -> Outcome:
    """Decide every claim of the library."""
    verdicts = decide(chosen_claims(()), seed=options.seed, progress=progress)
    shortfalls = [
        "\n    ".join([f"{verdict.claim.id} {verdict.status}: {title_of(verdict.claim)}", *grounds(verdict)])
        for verdict in verdicts
        if verdict.status != "Proved"
    ]
    return Outcome((("claims", tally(verdicts)),), tuple(shortfalls))


def generate_kernels(options: Options, progress: Meter) -> Outcome:
    """Write the kernels of both targets, and let training use the very files that will be checked."""
    from gradproof.training.kernels import use_kernels

    programs = chosen_programs(())
    progress.start("generate", len(programs))
    count, changed = regenerate(programs, TARGETS, options.folder)
    use_kernels(options.folder)
    summary = f"{count} ({' and '.join(TARGETS)}), {render.counted(len(changed), 'file')} changed"
    progress.finish(f"{count} kernels")
    return Outcome((("kernels generated", summary),))


def check_kernels(options: Options, progress: Meter) -> Outcome:
    """Compare the kernels with their witnesses, for every target whose library is installed."""
    targets = installed_among(TARGETS)
    results = examine(chosen_programs(()), targets, options.folder, seed=options.seed, progress=progress)
    shortfalls = [failure(result) for result in results if not result.ok]
    if not results:
        shortfalls.append("nothing was checked")
    skipped = [f"the {name} kernels were not checked: {NO_TORCH}" for name in TARGETS if name not in targets]
    gradients = [result for result in results if result.witness != "statement"]  # the others are about values
    checked = f"{largest_error(gradients):.1e} over {len(gradients)} gradients ({', '.join(targets)})"
    return Outcome((("largest gradient error", checked),), tuple(shortfalls), tuple(skipped))


def train_model(options: Options, progress: Meter) -> Outcome:
    """Train with the kernels that were just generated, and sample."""
    from gradproof.training import TrainingConfig

    default, config = TrainingConfig(seed=options.seed), options.config
    result = fit(config, options.source, progress)
    rows = (
        ("loss before -> after", f"{result.first_loss:.3f} -> {result.train_loss:.3f} in {result.steps} steps"),
        (
            "held-out loss",
            f"{result.heldout_loss:.3f} (bigram entropy {result.bigram:.3f}, unigram {result.unigram:.3f})",
        ),
        ("tokens per second", f"{result.tokens_per_s:,.0f}"),
    )
    shortfalls = learning_shortfalls(result, config, default)
    early = f"training stopped at its time limit, after {result.steps} of {config.steps} steps"
    return Outcome(rows, shortfalls, (early,) if result.stopped_early else (), result.sample)


def learning_shortfalls(result: TrainingResult, config: TrainingConfig, default: TrainingConfig) -> tuple[str, ...]:
    """What the model failed to learn: the default number of steps is to beat the bigram model, fewer are to help."""
    if config.steps >= default.steps:
        if result.heldout_loss < result.bigram:
            return ()
        return (f"held-out loss {result.heldout_loss:.3f} is not below the bigram entropy {result.bigram:.3f}",)
    if result.steps == 1 or result.train_loss < result.first_loss:
        return ()
    return (f"the loss did not fall: {result.first_loss:.3f} before, {result.train_loss:.3f} after",)


STAGES: dict[str, Callable[[Options, Meter], Outcome]] = {
    "prove": prove_claims,
    "generate": generate_kernels,
    "check": check_kernels,
    "train": train_model,
}


def show(outcomes: dict[str, Outcome], elapsed: float) -> None:
    """Print the sample, the summary table, and last, where it cannot be missed, what fell short."""
    for outcome in outcomes.values():
        if outcome.sample:
            render.show_text("sample of the trained model", outcome.sample)
    rows = []
    unfinished = next((name for name in STAGES if name not in outcomes), "")
    for name in STAGES:
        if name not in outcomes:
            rows.append([name, "", "", "not finished" if name == unfinished else "not run"])
            continue
        verdict = "falls short" if outcomes[name].shortfalls else "ok"
        rows += [[name, what, result, verdict] for what, result in outcomes[name].rows]
    rows.append(["", "total time", render.seconds(elapsed), ""])
    render.show_table(COLUMNS, rows)
    for outcome in outcomes.values():
        for note in outcome.notes:
            render.show_line(f"note: {note}", "yellow")
    for name, outcome in outcomes.items():
        for shortfall in outcome.shortfalls:
            render.show_line(f"{name} falls short: {shortfall}", "bold red")

"""`gradproof sample`: text from a trained model, as it is drawn."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradproof.cli import render
from gradproof.cli.paths import Named

if TYPE_CHECKING:
    from gradproof.training.sampling import Drawn

ROUNDING = 1e-4
"""Most that the log-probability per token may differ between the two ways of computing it, for weights in float32."""


@click.command(
    short_help="Write text with a trained model.",
    epilog="""\b
Exit codes:
  0    written
  1    --check: the log-probability of the text is not the sum of its conditionals; or the model's logits are not finite
  2    bad input: no checkpoint, a damaged one, a prompt with characters that the model has never seen
  130  interrupted""",
)
@click.argument("checkpoint", type=Named())
@click.option("--prompt", default="", help="Text to go on from; without one, from a line break.")
@click.option("--length", type=click.IntRange(min=1), default=500, show_default=True, help="Tokens to draw.")
@click.option(
    "--temperature",
    type=float,
    default=1.0,
    show_default=True,
    help="Below 1 more predictable; 0: always the likeliest.",
)
@click.option(
    "--top-k", type=click.IntRange(min=0), default=0, help="Draw from this many of the likeliest tokens; 0: all."
)
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    help="Draw from the likeliest tokens whose probabilities make up this much; 1: all.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Makes the text repeatable.")
@click.option("--no-cache", is_flag=True, help="Compute every window anew: the same text, slower.")
@click.option("--check", is_flag=True, help="Compute the probability of the text in two ways; both go to stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON instead of the text as it is drawn.")
@click.pass_context
def sample(
    ctx: click.Context,
    checkpoint: Path,
    prompt: str,
    length: int,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int,
    no_cache: bool,
    check: bool,
    as_json: bool,
) -> None:
    """Write text with the model in CHECKPOINT, the folder of a run or its checkpoint.json.

    The text goes to stdout as it is drawn, after the prompt. The NumPy engine runs the model, whichever trained it.
    Where the text outgrows the model's context, the older half of the window is let go.
    """
    import numpy as np

    from gradproof.training.checkpoint import load
    from gradproof.training.sampling import Sampling, conditionals_of, generate, log_probability, restored_model

    prompt = read(prompt)
    sampling = Sampling(temperature, top_k, top_p)
    state = load(checkpoint)
    vocabulary, model = state.vocabulary, restored_model(state)
    begin = vocabulary.encode(prompt) or [vocabulary.first]
    found: list[Drawn] = []

    def drawn() -> Iterator[int]:
        for each in generate(model, begin, length, sampling, np.random.default_rng(seed), cached=not no_cache):
            found.append(each)
            yield each.token

    pieces = vocabulary.decode_each(drawn())
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # what overflows has an error of its own
        if as_json:
            text = "".join(pieces)
        else:
            write(prompt)
            for piece in pieces:
                write(piece)
            click.echo()
    total = log_probability([each.conditional for each in found])
    if as_json:
        render.show_json({"prompt": prompt, "text": text, "tokens": length, "log_probability": total}, indent=None)
    if check:
        again = log_probability(conditionals_of(model, begin + [each.token for each in found], len(begin)))
        apart = abs(total - again)
        click.echo(
            f"log-probability of the {length} tokens: {total:.6f} as the sum of the conditionals they were drawn with, "
            f"{again:.6f} computed again in whole windows, {apart:.1e} apart",
            err=True,
        )
        ctx.exit(0 if apart <= ROUNDING * length else 1)


def read(prompt: str) -> str:
    """The prompt as it was typed: bytes that the locale has no characters for are UTF-8, as everywhere here."""
    if not any("\udc80" <= symbol <= "\udcff" for symbol in prompt):
        return prompt
    return os.fsencode(prompt).decode("utf-8", "surrogateescape")


def write(text: str) -> None:
    """Print a piece of the text at once: as it is into a file or a pipe, without control characters on a terminal."""
    click.echo(render.visible(text) if render.on_terminal() else text, nl=False)

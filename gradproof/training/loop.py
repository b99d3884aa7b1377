"""The training run: batches to the model, gradients to the optimiser, losses to whoever listens.

Draws the data flow of training together. `training_steps` is the bare loop, a generator of one report per step; `train`
is the whole run, from a text to a result. The only arithmetic here is on step counts and seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from threadpoolctl import threadpool_limits

from gradproof.training.config import TrainingConfig, learning_rate_at
from gradproof.training.data import Batch, Corpus, corpus_from, evaluation_batches, random_batch
from gradproof.training.entropy import bigram_entropy, unigram_entropy
from gradproof.training.errors import DivergenceError
from gradproof.training.model import loss_and_gradient, loss_of
from gradproof.training.optimiser import AdamW
from gradproof.training.parameters import FlatArrays, allocate, initial_parameters, parameter_specs
from gradproof.training.sampling import sample_text

__all__ = ["StepReport", "TrainingResult", "held_out_loss", "random_batches", "train", "training_steps"]

_LAST_STEPS = slice(-50, None)
"""The training loss of a run is the mean over these of its steps."""


@dataclass(frozen=True)
class StepReport:
    """What is known after one step.

    Attributes:
        step: Steps done.
        steps: Steps of the whole run.
        loss: Loss of this step's batch before its update, in nats per character.
        learning_rate: Step size of this update.
        elapsed_s: Seconds since training began.
        seconds_left: Seconds that the remaining steps need at the pace so far, or that the time limit leaves.
        tokens_per_s: Characters per second so far.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    elapsed_s: float
    seconds_left: float
    tokens_per_s: float


@dataclass(frozen=True)
class TrainingResult:
    """What a run comes to; losses and entropies in nats per character.

    Attributes:
        train_loss: Mean over the last steps.
        heldout_loss: Mean over windows that cover the held-out text.
        unigram: Entropy of the held-out text's characters.
        bigram: Entropy of a character of the held-out text given the one before it.
        tokens_per_s: Characters trained on per second.
        steps: Steps done.
        first_loss: Loss of the first batch.
        sample: Text drawn from the trained model.
        stopped_early: Whether the time limit ended the run before its last step.
    """

    train_loss: float
    heldout_loss: float
    unigram: float
    bigram: float
    tokens_per_s: float
    steps: int
    first_loss: float
    sample: str
    stopped_early: bool


# Products this small are quicker on one thread, and two that wait for each other on a busy machine are much slower.
@threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
def train(
    config: TrainingConfig,
    text: str,
    on_step: Callable[[StepReport], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> TrainingResult:
    """Train on all but the last tenth of `text`, evaluate on that tenth, and draw a sample.

    The same settings and text give the same result, bar `tokens_per_s`, when the run ends before the time limit.

    Args:
        config: The settings.
        text: What to learn from.
        on_step: Called after every step.
        clock: Seconds from any fixed moment.

    Raises:
        DataError: The text is too short for the context.
        KernelMissingError: The kernels have not been generated.
        DivergenceError: The loss stopped being finite.
    """
    corpus = corpus_from(text, config.context)
    weights_seed, batches_seed, sample_seed = np.random.SeedSequence(config.seed).spawn(3)
    specs = parameter_specs(config, len(corpus.alphabet))
    parameters = initial_parameters(specs, config.dtype, np.random.default_rng(weights_seed))
    batches = random_batches(corpus, config, np.random.default_rng(batches_seed))

    reports: list[StepReport] = []
    for report in training_steps(parameters, allocate(specs, config.dtype), batches, config, clock):
        reports.append(report)
        if on_step is not None:
            on_step(report)
    first, last = reports[0], reports[-1]

    return TrainingResult(
        train_loss=fmean(report.loss for report in reports[_LAST_STEPS]),
        heldout_loss=held_out_loss(parameters, corpus, config),
        unigram=unigram_entropy(corpus.held_out),
        bigram=bigram_entropy(corpus.held_out),
        tokens_per_s=last.tokens_per_s,
        steps=last.step,
        first_loss=first.loss,
        sample=sample_text(parameters, corpus, config, np.random.default_rng(sample_seed)),
        stopped_early=last.step < config.steps,
    )


def training_steps(
    parameters: FlatArrays,
    gradients: FlatArrays,
    batches: Iterator[Batch],
    config: TrainingConfig,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[StepReport]:
    """Change `parameters` step by step; ends after `config.steps` steps, or at the first past the time limit.

    Args:
        parameters: The weights; updated in place.
        gradients: Laid out like the weights; holds the last step's gradient.
        batches: At least `config.steps` batches.
        config: The settings.
        clock: Seconds from any fixed moment.

    Raises:
        DivergenceError: The loss stopped being finite; the message names the step.
    """
    optimiser = AdamW(parameters, config)
    began = clock()
    for step in range(1, config.steps + 1):
        loss = loss_and_gradient(parameters, gradients, next(batches), config)
        rate = learning_rate_at(step, config)
        if not math.isfinite(loss):
            raise DivergenceError(
                f"step {step} of {config.steps}: expected a finite loss, found {loss} at a learning rate of "
                f"{rate:.3g}; lower the largest learning rate, {config.learning_rate:g}"
            )
        optimiser.update(gradients, step, rate)
        elapsed = clock() - began
        yield StepReport(
            step=step,
            steps=config.steps,
            loss=loss,
            learning_rate=rate,
            elapsed_s=elapsed,
            seconds_left=max(0.0, min(elapsed / step * (config.steps - step), config.time_limit_s - elapsed)),
            tokens_per_s=step * config.tokens_per_step / elapsed if elapsed > 0 else 0.0,
        )
        if elapsed >= config.time_limit_s:
            return


def held_out_loss(parameters: FlatArrays, corpus: Corpus, config: TrainingConfig) -> float:
    """Mean loss over windows spread over the held-out text, in nats per character."""
    batches = evaluation_batches(corpus.held_out, config.context, config.batch, config.evaluation_windows)
    return fmean(loss_of(parameters, batch, config) for batch in batches)


def random_batches(corpus: Corpus, config: TrainingConfig, generator: np.random.Generator) -> Iterator[Batch]:
    """Batches of windows that start anywhere in the training text, without end."""
    while True:
        yield random_batch(corpus.train, config.context, config.batch, generator)

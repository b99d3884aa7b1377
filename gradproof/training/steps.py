"""The bare loop, a generator of one report per step, and the evaluation: what a run is made of.

Between the model with its optimiser and the run, which says what happens on the way and to whom it is told. The only
arithmetic here is on step counts and seconds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import fmean

from gradproof.training.config import TrainingConfig
from gradproof.training.data import Batch, Corpus, batch_at, evaluation_batches
from gradproof.training.diagnosis import first_affected
from gradproof.training.distributed import Group
from gradproof.training.errors import DivergenceError
from gradproof.training.model import Model
from gradproof.training.optimiser import AdamW, learning_rate_at
from gradproof.training.reports import StepReport

__all__ = ["LAST_STEPS", "Progress", "held_out_batches", "held_out_loss", "training_steps"]

LAST_STEPS = 50
"""The training loss of a run is the mean over so many of its last steps."""


@dataclass
class Progress:
    """How far a run is: what changes from step to step beside the model and the optimiser."""

    step: int = 0
    first_loss: float | None = None
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_STEPS))
    trained_s: float = 0.0

    def note(self, report: StepReport) -> None:
        """Take a step into account."""
        self.step, self.trained_s = report.step, report.elapsed_s
        self.first_loss = report.loss if self.first_loss is None else self.first_loss
        self.losses.append(report.loss)


def training_steps(
    model: Model,
    optimiser: AdamW,
    corpus: Corpus,
    config: TrainingConfig,
    done: Progress,
    group: Group,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[StepReport]:
    """Change the weights step by step; ends after `config.steps` steps, or at the first past the time limit.

    Args:
        model: The model; its weights are updated in place.
        optimiser: Of that model.
        corpus: What the batches are cut from.
        config: The settings.
        done: What came before.
        group: The processes that train together.
        clock: Seconds from any fixed moment.

    Raises:
        DivergenceError: The loss or the gradient stopped being finite; the message names the step, and the kernel and
            the tensor where that began.
    """
    before, before_s = done.step, done.trained_s
    began = clock()
    for step in range(before + 1, config.steps + 1):
        batch = batch_at(corpus.train, config.context, config.batch, config.seed, step)
        tokens, targets = (group.share(part) for part in batch)
        with group.reaching():
            own_loss = model.loss_and_gradients(tokens, targets, step)
        loss = group.mean(own_loss)
        rate = learning_rate_at(step, config)
        norm = optimiser.update(step, rate) if math.isfinite(loss) else math.nan
        if not (math.isfinite(loss) and math.isfinite(norm)):
            affected = first_affected(model, tokens, targets, step)
            raise DivergenceError(
                f"step {step} of {config.steps}: expected a finite loss and gradient, found a loss of {loss} and a "
                f"gradient of length {norm} at a learning rate of {rate:.3g}; "
                f"{affected or 'every array is finite when the step is repeated'}; lower the largest learning rate, "
                f"{config.learning_rate:g}"
            )
        elapsed = clock() - began
        pace = elapsed / (step - before)
        yield StepReport(
            step=step,
            steps=config.steps,
            loss=loss,
            learning_rate=rate,
            gradient_norm=norm,
            elapsed_s=before_s + elapsed,
            seconds_left=max(0.0, min(pace * (config.steps - step), config.time_limit_s - elapsed)),
            tokens_per_s=config.tokens_per_step / pace if pace > 0 else 0.0,
        )
        if group.mean(1.0 if elapsed >= config.time_limit_s else 0.0):
            return


def held_out_loss(model: Model, corpus: Corpus, most: int, between: Callable[[], None] = lambda: None) -> float:
    """Mean loss over at most `most` windows spread over the held-out text, in nats per token.

    `between` is called before each batch of them; what it raises ends the evaluation.
    """
    return fmean(model.loss(*batch) for batch in held_out_batches(model, corpus, most, between))


def held_out_batches(
    model: Model, corpus: Corpus, most: int, between: Callable[[], None] = lambda: None
) -> Iterator[Batch]:
    """The batches of that evaluation."""
    for batch in evaluation_batches(corpus.held_out, model.config.context, model.config.batch, most):
        between()
        yield batch

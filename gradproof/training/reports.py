"""What a run tells: what happens on the way, and what it comes to.

Between the loop and whoever listens: the metrics file, the meter on the screen, the report at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradproof.training.floor import Floor, LossParts

__all__ = [
    "Event",
    "FinalReport",
    "HeldOutReport",
    "NoteReport",
    "SampleReport",
    "SavedReport",
    "StepReport",
    "TrainingResult",
]


@dataclass(frozen=True)
class StepReport:
    """What is known after one step.

    Attributes:
        step: Steps done.
        steps: Steps of the whole run.
        loss: Loss of this step's batch before its update, in nats per token.
        learning_rate: Step size of this update.
        gradient_norm: Length of the gradient over all parameters, before clipping.
        elapsed_s: Seconds of training, those before the run was stopped included.
        seconds_left: Seconds that the remaining steps need at the pace so far, or that the time limit leaves.
        tokens_per_s: Tokens per second since this process began.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    gradient_norm: float
    elapsed_s: float
    seconds_left: float
    tokens_per_s: float


@dataclass(frozen=True)
class HeldOutReport:
    """The loss on some windows of the held-out text, on the way."""

    step: int
    loss: float


@dataclass(frozen=True)
class SampleReport:
    """What the model writes, on the way."""

    step: int
    text: str


@dataclass(frozen=True)
class SavedReport:
    """The checkpoint of a step is on the disk."""

    step: int
    folder: Path


@dataclass(frozen=True)
class FinalReport:
    """The last step is taken and saved, and the final evaluation begins."""

    step: int


@dataclass(frozen=True)
class NoteReport:
    """What whoever reads the result should know, in words."""

    text: str


Event = StepReport | HeldOutReport | SampleReport | SavedReport | FinalReport | NoteReport


@dataclass(frozen=True)
class TrainingResult:
    """What a run comes to; losses and entropies in nats per token.

    Attributes:
        train_loss: Mean over the last steps.
        heldout_loss: Mean over windows that cover the held-out text.
        floor: What the held-out loss is measured against.
        parts: What it is made of, when the text was drawn from a known process.
        tokens_per_s: Tokens trained on per second.
        steps: Steps done.
        first_loss: Loss of the first batch.
        sample: Text drawn from the trained model.
        stopped_early: Whether the time limit ended the run before its last step.
    """

    train_loss: float
    heldout_loss: float
    floor: Floor
    parts: LossParts | None
    tokens_per_s: float
    steps: int
    first_loss: float
    sample: str
    stopped_early: bool

    @property
    def unigram(self) -> float:
        """Entropy of the held-out text's tokens."""
        return self.floor.unigram

    @property
    def bigram(self) -> float:
        """Entropy of a token of the held-out text given the one before it."""
        return self.floor.bigram

"""The settings of a training run: the shape of the model, the length of the run, the step size at each step.

First in the data flow of training: everything else takes a `TrainingConfig` and derives its sizes from it. The only
arithmetic here is on settings, plain Python numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gradproof.training.errors import ConfigurationError

__all__ = ["TrainingConfig", "learning_rate_at"]

_COUNTS = ("layers", "heads", "width", "context", "expansion", "batch", "steps", "evaluation_windows")
_NOT_NEGATIVE = ("warm_up", "seed", "sample_length")


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of one run; the defaults are sized for about a minute on two processor cores.

    Attributes:
        layers: Number of blocks, each attention and then feed-forward.
        heads: Attention heads; divides `width`.
        width: Channels of the residual stream, C.
        context: Characters the model sees, T.
        expansion: Hidden units of the feed-forward block for every channel, F / C.
        batch: Windows per step.
        steps: Updates of the run.
        time_limit_s: Wall-clock seconds of training after which the run stops early and says so.
        learning_rate: Largest step size, reached when the warm-up is over.
        warm_up: Most steps over which the step size rises linearly; a short run rises over its first tenth.
        final_rate: Step size at the last step, as a fraction of `learning_rate`.
        weight_decay: Decay of the weight matrices and embeddings; gains and biases are not decayed.
        beta_1: Decay of AdamW's running mean of the gradient.
        beta_2: Decay of AdamW's running mean of its square.
        evaluation_windows: Most windows of the held-out text that the held-out loss averages over.
        sample_length: Characters sampled after training.
        seed: Makes weights, batches and sample repeatable.
        dtype: Floating-point type of weights and activations.
    """

    layers: int = 2
    heads: int = 2
    width: int = 64
    context: int = 64
    expansion: int = 4
    batch: int = 16
    steps: int = 1000
    time_limit_s: float = 80.0
    learning_rate: float = 3e-3
    warm_up: int = 100
    final_rate: float = 0.05
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.99
    evaluation_windows: int = 704
    sample_length: int = 200
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        """Refuse settings no run can have.

        Raises:
            ConfigurationError: A setting is out of range, or `heads` does not divide `width`.
        """
        for name in _COUNTS:
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in _NOT_NEGATIVE:
            self._require(name, getattr(self, name) >= 0, "at least 0")
        self._require("time_limit_s", self.time_limit_s > 0, "positive")
        self._require("learning_rate", 0 < self.learning_rate < math.inf, "positive and finite")
        self._require("final_rate", 0 <= self.final_rate <= 1, "between 0 and 1")
        self._require("weight_decay", 0 <= self.weight_decay < math.inf, "at least 0 and finite")
        self._require("beta_1", 0 <= self.beta_1 < 1, "at least 0 and below 1")
        self._require("beta_2", 0 <= self.beta_2 < 1, "at least 0 and below 1")
        self._require("dtype", self.dtype in ("float32", "float64"), "'float32' or 'float64'")
        if self.width % self.heads:
            raise ConfigurationError(
                f"heads must divide width, but width is {self.width} and heads is {self.heads}; "
                f"choose a width that is a multiple of {self.heads}"
            )

    def _require(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise ConfigurationError(f"{name} must be {expected}, found {getattr(self, name)!r}; change {name}")

    @property
    def head_width(self) -> int:
        """Channels of one head, D = C / H."""
        return self.width // self.heads

    @property
    def feed_forward_width(self) -> int:
        """Hidden units of the feed-forward block, F."""
        return self.expansion * self.width

    @property
    def warm_up_steps(self) -> int:
        """Steps over which the step size rises linearly in this run."""
        return min(self.warm_up, self.steps // 10)

    @property
    def tokens_per_step(self) -> int:
        """Characters predicted in one step."""
        return self.batch * self.context


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """The step size of update `step`, counted from 1.

    A linear rise over `warm_up_steps` steps, then half a cosine down to `final_rate` of the largest step size:
    rate * (final + (1 - final) * (1 + cos(pi * progress)) / 2).
    """
    rise = config.warm_up_steps
    if step <= rise:
        return config.learning_rate * (step / rise)
    progress = (step - rise) / (config.steps - rise)
    cosine = (1 + math.cos(math.pi * progress)) / 2
    return config.learning_rate * (config.final_rate + (1 - config.final_rate) * cosine)

"""Text from a trained model, one token at a time, and the probability that the model gives a text.

Last in the data flow of training: a model in, tokens and their probabilities out. The model sees at most its context.
When a text outgrows it, the older half of the window is let go and the newer half is read again, so that a cache of
keys and values, which holds for one window, serves half a context of tokens before it is made anew. Which window a
token is drawn from depends on its place alone: with and without the cache, and when a finished text is scored, the
probabilities are the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradproof.training.checkpoint import Checkpoint
from gradproof.training.data import Vocabulary
from gradproof.training.errors import CheckpointError, DivergenceError, SamplingError
from gradproof.training.kernels import forward_kernel, kernel
from gradproof.training.model import Model, create_model

__all__ = [
    "Drawn",
    "Sampling",
    "conditionals_of",
    "generate",
    "log_probability",
    "restored_model",
    "sample_text",
    "window_start",
]

_COLDEST = 1e-3


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn.

    Attributes:
        temperature: What the logits are divided by; 0 always takes the likeliest token, the first of several.
        top_k: Only so many of the likeliest tokens are drawn from; 0 for all.
        top_p: Only the likeliest tokens that together weigh so much are drawn from; 1 for all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what nothing can be drawn with.

        Raises:
            SamplingError: A setting is out of range.
        """
        if not (self.temperature == 0 or _COLDEST <= self.temperature < math.inf):
            raise SamplingError(
                f"temperature must be 0, or at least {_COLDEST} and finite, found {self.temperature}; change it"
            )
        if self.top_k < 0:
            raise SamplingError(f"top_k must be at least 0, found {self.top_k}; 0 is for all tokens")
        if not 0 < self.top_p <= 1:
            raise SamplingError(f"top_p must be above 0 and at most 1, found {self.top_p}; 1 is for all tokens")


@dataclass(frozen=True)
class Drawn:
    """A token and the probability that the model, at temperature 1 and with all tokens, gives it."""

    token: int
    conditional: float


def restored_model(state: Checkpoint) -> Model:
    """The model of a checkpoint on the NumPy engine, whichever engine trained it.

    Raises:
        CheckpointError: The weights do not fit the model that the settings describe.
    """
    kept = {"dtype": "float32"} if state.config.dtype == "bfloat16" else {}
    config = replace(state.config, **{"engine": "numpy", "device": "cpu", **kept})  # type: ignore[arg-type]
    model = create_model(config, state.vocabulary.size)
    try:
        model.load_state(state.weights)
    except ValueError as error:
        raise CheckpointError(f"{state.name}: does not fit the model that its settings describe: {error}") from error
    return model


def sample_text(
    model: Model,
    vocabulary: Vocabulary,
    length: int,
    generator: np.random.Generator,
    between: Callable[[], None] = lambda: None,
) -> str:
    """`length` tokens drawn from the model's own distribution, after a line break if the text has one.

    `between` is called before each token is looked at; what it raises ends the sample.
    """

    def drawn() -> Iterator[int]:
        for each in generate(model, [vocabulary.first], length, Sampling(), generator):
            between()
            yield each.token

    return vocabulary.decode(drawn())


def generate(
    model: Model,
    prompt: Sequence[int],
    length: int,
    sampling: Sampling,
    generator: np.random.Generator,
    *,
    cached: bool = True,
) -> Iterator[Drawn]:
    """`length` tokens that continue the prompt, each as soon as it is drawn.

    Args:
        model: What gives the logits.
        prompt: At least one token.
        length: Tokens to draw.
        sampling: How to draw.
        generator: What to draw with.
        cached: Whether keys and values are kept from token to token. It changes the time, not the text.

    Raises:
        DivergenceError: The model gives logits that are not finite.
    """
    softmax, truncated_softmax = forward_kernel("softmax"), kernel("truncated_softmax", "truncated_softmax")
    greedy = sampling.temperature == 0
    text = list(prompt)
    window = _Window(model, cached=cached)
    for _ in range(length):
        # In float64, whatever the weights are in: the generator requires probabilities that sum to 1 in float64.
        logits = window.next_logits(text).astype(np.float64)
        conditionals, _ = softmax(logits)
        if math.isnan(float(conditionals[0, 0])):
            raise DivergenceError(
                f"after token {len(text)}: expected finite logits to draw the next from, found some that are not; "
                "train the model with a lower learning rate"
            )
        weights = truncated_softmax(
            logits,
            temperature=1.0 if greedy else sampling.temperature,
            most=1 if greedy else sampling.top_k or math.inf,
            mass=math.inf if sampling.top_p == 1 else sampling.top_p,
        )
        if greedy:  # the first of the likeliest, whatever the seed
            token = next(place for place, weight in enumerate(weights[0]) if weight)
        else:
            token = int(generator.choice(len(weights[0]), p=weights[0]))
        text.append(token)
        yield Drawn(token, float(conditionals[0, token]))


def conditionals_of(model: Model, text: Sequence[int], first: int) -> list[float]:
    """The probabilities that the model gives the tokens of `text` from place `first`, at least 1, on.

    Computed in whole windows and without a cache: what `generate` found token by token, found in another way.
    """
    softmax = forward_kernel("softmax")
    found: list[float] = []
    while first < len(text):
        start = window_start(first, model.config.context)
        end = first
        while end < len(text) and window_start(end, model.config.context) == start:
            end += 1
        # The last of these tokens is predicted by the one before it, so that the window ends there.
        probabilities, _ = softmax(model.logits(_row(text[start : end - 1])).astype(np.float64))
        found += [float(probabilities[0, place - start - 1, text[place]]) for place in range(first, end)]
        first = end
    return found


def log_probability(conditionals: Sequence[float]) -> float:
    """The log of the probability of a text, the sum of the logs of its conditionals: the chain rule (claim B1)."""
    _, total = kernel("sequence_probability", "sequence_probability")(np.asarray(conditionals, dtype=np.float64))
    return float(total)


def window_start(known: int, context: int) -> int:
    """Where the window begins that predicts the token after the first `known`, at least 1.

    It begins at 0 as long as `context` tokens suffice. Then, whenever the window would be longer than the context, it
    moves on and keeps its newer half.
    """
    if known <= context:
        return 0
    kept = max(1, context // 2)
    stride = context - kept + 1
    return ((known - context - 1) // stride + 1) * stride


class _Window:
    """The logits of the next token of a text that grows, with or without a cache."""

    def __init__(self, model: Model, *, cached: bool) -> None:
        self._model = model
        self._cached = cached
        self._cache: Any = None
        self._start = 0
        self._seen = 0

    def next_logits(self, text: Sequence[int]) -> Any:
        """Logits, shape (1, V), of the token after `text`."""
        start = window_start(len(text), self._model.config.context)
        if not self._cached:
            return self._model.logits(_row(text[start:]))[:, -1]
        if self._cache is None or start != self._start:
            self._cache, self._start, self._seen = self._model.new_cache(), start, start
        logits = self._model.logits(_row(text[self._seen :]), self._cache)
        self._seen = len(text)
        return logits[:, -1]


def _row(tokens: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray([tokens], dtype=np.int64)

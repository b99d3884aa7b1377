"""What the held-out loss is measured against, and what it is made of.

At the end of the data flow of training. On any text a loss stands beside the entropies of the text's own statistics and
beside what a compressor needs. On a text drawn from a known process more can be said: the loss expected of a model is
the entropy of the process plus the divergence of the model from it, so that the part that training can still remove is
known. The expected loss and the divergence are computed by kernels, the entropies by counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from gradproof.training.config import TrainingConfig
from gradproof.training.data import Corpus, evaluation_starts, windows_at
from gradproof.training.entropy import bigram_entropy, repeated_share, trigram_entropy, unigram_entropy, xz_rate
from gradproof.training.kernels import forward_kernel
from gradproof.training.model import Model
from gradproof.training.processes import Process, mean_entropy
from gradproof.training.text import Source, content_of

__all__ = ["Floor", "LossParts", "floor_of", "loss_parts"]

_FEW, _LOOKS = 32, 2**33
"""All held-out windows are looked for in the training text; in a very long one, some, at least the first number."""


@dataclass(frozen=True)
class Floor:
    """Numbers that a held-out loss is measured against, in nats per token.

    Attributes:
        unigram: Entropy of the held-out text's tokens.
        bigram: Their entropy given the one before.
        trigram: Their entropy given the two before.
        xz: What xz needs for the held-out text after the training text.
        repeated: Share of the held-out windows that also stand in the training text, word for word.
        entropy_rate: Entropy of the process given all that came before; none for a text of unknown origin.
        window_floor: The least loss of a model that sees no more than its window; none likewise.
    """

    unigram: float
    bigram: float
    trigram: float
    xz: float
    repeated: float
    entropy_rate: float | None = None
    window_floor: float | None = None


@dataclass(frozen=True)
class LossParts:
    """What the loss of a model on the held-out windows is made of, in nats per token.

    Attributes:
        entropy: Mean entropy of the distributions that the targets were drawn from, H(P).
        divergence: Mean divergence of the model from them, KL(P || Q).
        expected: Mean of their cross entropy, -Sum P log Q = H(P) + KL(P || Q): the loss expected before the targets
            are drawn. The measured loss differs from it by the luck of the draw alone.
    """

    entropy: float
    divergence: float
    expected: float


def floor_of(source: Source, corpus: Corpus, config: TrainingConfig) -> Floor:
    """What a loss on the held-out part of `corpus`, which was cut from `source`, is measured against."""
    split, held_out = len(corpus.train), corpus.held_out
    train_text, held_out_text = source.text[:split], source.text[split:]
    process, context = source.process, config.context
    starts = [start for each in _starts(corpus, config) for start in each.tolist()]
    most = max(_FEW, _LOOKS // split)  # looking for a window takes as long as the training text
    some = starts[:: -(-len(starts) // most)]
    return Floor(
        unigram=unigram_entropy(held_out),
        bigram=bigram_entropy(held_out),
        trigram=trigram_entropy(held_out),
        xz=xz_rate(content_of(train_text, source.unit), content_of(held_out_text, source.unit), len(held_out)),
        repeated=repeated_share(train_text, [held_out_text[start : start + context] for start in some]),
        entropy_rate=None if process is None else process.entropy_rate,
        window_floor=None if process is None else process.window_floor(context),
    )


def loss_parts(model: Model, process: Process, corpus: Corpus) -> LossParts:
    """The loss expected on the held-out windows, as entropy and divergence.

    At each place P is the distribution that the process drew the target from, given all that came before it, and Q the
    model's, given what it sees of it. What the model cannot see therefore counts as divergence.
    """
    softmax, kullback_leibler = forward_kernel("softmax"), forward_kernel("kullback_leibler")
    cross_entropy = forward_kernel("cross_entropy_soft")
    config = model.config
    before = corpus.train[len(corpus.train) - process.memory :]
    rows = process.conditionals(np.concatenate((before, corpus.held_out)), len(corpus.train) - len(before))[
        len(before) :
    ]
    entropies, divergences, expected = [], [], []
    for starts in _starts(corpus, config):
        tokens, _ = windows_at(corpus.held_out, config.context, starts)
        P = np.stack([rows[start : start + config.context] for start in starts.tolist()])
        logits = model.logits(tokens).astype(np.float64)
        Q, _ = softmax(logits)
        total, _ = kullback_leibler(P.reshape(-1), Q.reshape(-1))
        loss, _ = cross_entropy(logits, P)
        entropies.append(mean_entropy(P))
        divergences.append(float(total) / tokens.size)
        expected.append(float(loss))
    return LossParts(fmean(entropies), fmean(divergences), fmean(expected))


def _starts(corpus: Corpus, config: TrainingConfig) -> Any:
    return evaluation_starts(corpus.held_out, config.context, config.batch, config.evaluation_windows)

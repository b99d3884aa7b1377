"""What a text's own statistics can predict: the entropies and the compression that a loss is measured against.

Beside the data flow of training: these numbers are computed once from the text, by counting and by compressing, and
appear next to the losses. They are counts of tokens and lengths of files, and no weight, activation, gradient or loss
ever reaches this module.

The entropies use the held-out text's own frequencies, which no model fitted on other text can know. They are therefore
lower, and harder to beat, than the loss of a model of the same order that was fitted on the training text; and the
shorter the text is for the number of contexts, the lower: a trigram entropy of a few ten thousand characters is well
below the entropy of the language. The compressor, like the model, is charged for the held-out text after it has seen
the training text.
"""

from __future__ import annotations

import lzma
import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["bigram_entropy", "conditional_entropy", "repeated_share", "trigram_entropy", "unigram_entropy", "xz_rate"]

_SEEN = 2**23
"""The last so many bytes of the training text are what the compressor has seen; it looks back no further."""


def unigram_entropy(ids: NDArray[np.int64]) -> float:
    """Entropy of the tokens of `ids`, shape (N,), in nats per token.

    H(x) = -sum_a n_a / N * log(n_a / N), with n_a the number of times that `a` occurs.
    """
    return conditional_entropy(ids, 0)


def bigram_entropy(ids: NDArray[np.int64]) -> float:
    """Entropy of a token of `ids`, shape (N,), given the one before it, in nats per token."""
    return conditional_entropy(ids, 1)


def trigram_entropy(ids: NDArray[np.int64]) -> float:
    """Entropy of a token of `ids`, shape (N,), given the two before it, in nats per token."""
    return conditional_entropy(ids, 2)


def conditional_entropy(ids: NDArray[np.int64], order: int) -> float:
    """Entropy of a token of `ids`, shape (N,), given the `order` tokens before it, in nats per token.

    H(x_t | c_t) = -sum_cb n_cb / (N - order) * log(n_cb / n_c), with c_t the `order` tokens before t, n_cb the number
    of times that `b` follows `c` and n_c = sum_b n_cb. It is computed by the chain rule, as the entropy of contexts and
    tokens together less the entropy of the contexts. In a text of no more than `order` tokens nothing follows a
    context, and the entropy is 0.
    """
    length = len(ids) - order
    if length < 1:
        return 0.0
    size = int(ids.max()) + 1
    contexts = np.zeros(length, dtype=np.int64)
    for place in range(order):
        # Numbered anew after each token, so that the numbers stay as small as the text is long.
        _, contexts = np.unique(contexts * size + ids[place : place + length], return_inverse=True)
    return _entropy_of(contexts * size + ids[order:]) - _entropy_of(contexts)


def xz_rate(train: bytes, held_out: bytes, tokens: int) -> float:
    """What xz needs for the `tokens` tokens of `held_out` after `train`, in nats per token.

    (length of xz(train, held_out) - length of xz(train)) * 8 * log(2) / tokens.
    """
    seen = train[-_SEEN:]
    added = len(lzma.compress(seen + held_out)) - len(lzma.compress(seen))
    return added * 8 * math.log(2) / tokens


def repeated_share(train: str, windows: list[str]) -> float:
    """The share of the windows that also stand, word for word, in the training text."""
    return sum(window in train for window in windows) / len(windows)


def _entropy_of(values: NDArray[np.int64]) -> float:
    _, counts = np.unique(values, return_counts=True)
    shares = counts / counts.sum()
    return max(0.0, float(-(shares * np.log(shares)).sum()))

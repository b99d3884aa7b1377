"""What a text's own character statistics can predict: the entropies that a loss is measured against.

Beside the data flow of training: these numbers are computed once from the held-out text, by counting, and appear next
to the losses. This is the one module of the package that does arithmetic on arrays; they are counts of characters, and
no weight, activation, gradient or loss ever reaches it.

Both entropies use the held-out text's own frequencies, which no model fitted on other text can know. They are
therefore lower, and harder to beat, than the loss of a unigram or bigram model that was fitted on the training text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["bigram_entropy", "unigram_entropy"]


def unigram_entropy(ids: NDArray[np.int64]) -> float:
    """Entropy of the characters of `ids`, shape (N,), in nats per character.

    H(x) = -sum_a n_a / N * log(n_a / N), with n_a the number of times that `a` occurs.
    """
    _, counts = np.unique(ids, return_counts=True)
    return _entropy_of(counts)


def bigram_entropy(ids: NDArray[np.int64]) -> float:
    """Entropy of a character of `ids`, shape (N,), given the one before it, in nats per character.

    H(x_t | x_{t-1}) = -sum_ab n_ab / (N - 1) * log(n_ab / n_a), with n_ab the number of times that `b` follows `a` and
    n_a = sum_b n_ab. It is computed by the chain rule, as the entropy of the pairs less the entropy of their first
    characters. A text of fewer than two characters has no pair, and its bigram entropy is 0.
    """
    if len(ids) < 2:
        return 0.0
    first, second = ids[:-1], ids[1:]
    _, pair_counts = np.unique(first * (second.max() + 1) + second, return_counts=True)
    return _entropy_of(pair_counts) - unigram_entropy(first)


def _entropy_of(counts: NDArray[np.int64]) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())

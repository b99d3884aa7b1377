"""Text from a trained model, one character at a time.

Last in the data flow of training: weights in, a string out. The model sees at most its context; older characters slide
out of the window.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from gradproof.training.config import TrainingConfig
from gradproof.training.data import Corpus
from gradproof.training.kernels import forward_kernel
from gradproof.training.model import next_character_logits
from gradproof.training.parameters import FlatArrays

__all__ = ["sample_text"]


def sample_text(parameters: FlatArrays, corpus: Corpus, config: TrainingConfig, generator: np.random.Generator) -> str:
    """`config.sample_length` characters drawn from the model's own distribution (temperature 1).

    The model starts after a line break, or after the first character of the alphabet when the text has no line break.
    """
    softmax = forward_kernel("softmax")
    window = deque([max(0, corpus.alphabet.find("\n"))], maxlen=config.context)
    drawn: list[int] = []
    for _ in range(config.sample_length):
        logits = next_character_logits(parameters, np.asarray([window], dtype=np.int64), config)
        # In float64, whatever the weights are in: the generator requires probabilities that sum to 1 in float64.
        probabilities, _ = softmax(logits.astype(np.float64))
        character = int(generator.choice(len(corpus.alphabet), p=probabilities[0]))
        window.append(character)
        drawn.append(character)
    return corpus.decode(drawn)

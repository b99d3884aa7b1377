"""Tokens: the text numbered, split, and cut into windows.

Second in the data flow of training: a source becomes a `Corpus` of integer arrays, and a corpus becomes batches
`(tokens, targets)`, each of shape (batch, context), where the target of a token is the token after it. The batch of a
step is a function of the seed and the step, so that a run which is resumed sees the batches that it would have seen.
The only arithmetic here is on positions in the text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradproof.training.errors import DataError, SamplingError
from gradproof.training.text import Source, Unit, source_of

__all__ = [
    "Batch",
    "Corpus",
    "Ids",
    "Vocabulary",
    "batch_at",
    "corpus_from",
    "evaluation_batches",
    "evaluation_starts",
    "random_batch",
    "windows_at",
]

Ids = NDArray[np.int64]
Batch = tuple[Ids, Ids]

_HELD_OUT_SHARE = 10
"""One part in ten of the text, at its end, is held out."""


@dataclass(frozen=True)
class Vocabulary:
    """What the ids stand for.

    Attributes:
        alphabet: The tokens in code-point order; a token's id is its place here.
        unit: What a token is.
    """

    alphabet: str
    unit: Unit = "characters"

    @property
    def size(self) -> int:
        """How many tokens there are, V."""
        return len(self.alphabet)

    @property
    def first(self) -> int:
        """The token that a text begins after when nothing stands before it: the line break, or else the first."""
        return max(0, self.alphabet.find("\n"))

    def encode(self, text: str) -> list[int]:
        """The ids of the tokens of `text`.

        Raises:
            SamplingError: A character is not one of the alphabet.
        """
        tokens = text if self.unit == "characters" else text.encode("utf-8", "surrogateescape").decode("latin-1")
        places = {symbol: place for place, symbol in enumerate(self.alphabet)}
        for symbol in tokens:
            if symbol not in places:
                raise SamplingError(
                    f"prompt: expected characters of the text that the model was trained on, found {symbol!r}, which "
                    "does not occur in it; leave it out"
                )
        return [places[symbol] for symbol in tokens]

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids stand for; bytes that are not UTF-8 become replacement characters."""
        return "".join(self.decode_each(ids))

    def decode_each(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of each id as soon as it is known: a character of several bytes comes with its last byte."""
        if self.unit == "characters":
            yield from (self.alphabet[place] for place in ids)
            return
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for place in ids:
            yield decoder.decode(self.alphabet[place].encode("latin-1"))
        yield decoder.decode(b"", final=True)


@dataclass(frozen=True)
class Corpus:
    """A text as integers.

    Attributes:
        vocabulary: What the integers stand for.
        train: Ids of the text trained on, in order.
        held_out: Ids of the text held out, in order.
    """

    vocabulary: Vocabulary
    train: Ids
    held_out: Ids

    @property
    def alphabet(self) -> str:
        """The tokens in code-point order."""
        return self.vocabulary.alphabet

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids stand for."""
        return self.vocabulary.decode(ids)


def corpus_from(source: Source | str, context: int) -> Corpus:
    """Number the tokens of a text and hold out its last tenth.

    Raises:
        DataError: The held-out tenth would be shorter than one window of `context` tokens and its last target.
    """
    source = source_of(source) if isinstance(source, str) else source
    text = source.text
    held_out_length = len(text) // _HELD_OUT_SHARE
    if held_out_length <= context:
        needed = (context + 1) * _HELD_OUT_SHARE
        raise DataError(
            f"{source.name} has {len(text)} {source.unit}; a context of {context} needs at least {needed}, so that the "
            "held-out tenth fills one window; give a longer text or a smaller context"
        )
    # Fixed-width code points make numbering a search; `surrogatepass` keeps the function total on Python strings.
    ids = np.searchsorted(_code_points(source.alphabet), _code_points(text)).astype(np.int64)
    train_length = len(text) - held_out_length
    return Corpus(Vocabulary(source.alphabet, source.unit), ids[:train_length], ids[train_length:])


def batch_at(ids: Ids, context: int, batch: int, seed: int, step: int) -> Batch:
    """The batch of step `step`: windows that start anywhere in `ids`, drawn for this seed and this step alone."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, step)))
    return random_batch(ids, context, batch, generator)


def random_batch(ids: Ids, context: int, batch: int, generator: np.random.Generator) -> Batch:
    """`batch` windows that start anywhere in `ids`, every start equally likely."""
    starts = generator.integers(0, len(ids) - context, size=batch)
    return windows_at(ids, context, starts)


def evaluation_batches(ids: Ids, context: int, batch: int, most: int) -> Iterator[Batch]:
    """The windows of `evaluation_starts` in batches of equal size, always the same ones."""
    for starts in evaluation_starts(ids, context, batch, most):
        yield windows_at(ids, context, starts)


def evaluation_starts(ids: Ids, context: int, batch: int, most: int) -> Iterator[Ids]:
    """Where windows start that are spread evenly over the whole of `ids`, in batches of equal size.

    There are as many as fit side by side, at most `most`, rounded down to whole batches, or one smaller batch when not
    even one whole batch fits. The batches being equal in size, the mean of their means is the mean over all tokens.
    """
    last = len(ids) - context - 1
    windows = min(most, last // context + 1)
    size = min(batch, windows)
    windows -= windows % size
    starts = [last * window // max(1, windows - 1) for window in range(windows)]
    for first in range(0, windows, size):
        yield np.asarray(starts[first : first + size], dtype=np.int64)


def windows_at(ids: Ids, context: int, starts: Ids) -> Batch:
    """The windows of `context` tokens that begin at `starts`, and the tokens that follow each of theirs."""
    windows = np.lib.stride_tricks.sliding_window_view(ids, context + 1)[starts]
    return windows[:, :-1], windows[:, 1:]


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)

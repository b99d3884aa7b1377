"""The text: read, turned into integers, split, and cut into windows.

Second in the data flow of training: a string becomes a `Corpus` of integer arrays, and a corpus becomes batches
`(tokens, targets)`, each of shape (batch, context), where the target of a character is the character after it. The only
arithmetic here is on positions in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradproof.training.errors import DataError

__all__ = ["Batch", "Corpus", "Ids", "corpus_from", "default_text", "evaluation_batches", "random_batch", "read_text"]

Ids = NDArray[np.int64]
Batch = tuple[Ids, Ids]

_HELD_OUT_SHARE = 10
"""One part in ten of the text, at its end, is held out."""


@dataclass(frozen=True)
class Corpus:
    """A text as integers.

    Attributes:
        alphabet: The distinct characters of the whole text in code-point order; a character's id is its place here.
        train: Ids of the text trained on, in order.
        held_out: Ids of the text held out, in order.
    """

    alphabet: str
    train: Ids
    held_out: Ids

    def decode(self, ids: list[int]) -> str:
        """The characters that the ids stand for."""
        return "".join(self.alphabet[position] for position in ids)


def default_text() -> str:
    """The reference topics that come with Python, in the order of their names, one after the other.

    Raises:
        DataError: This Python was installed without `pydoc_data`.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError("this Python comes without the default text, pydoc_data.topics; give --data FILE") from error
    return "\n".join(topics[name] for name in sorted(topics))


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, as it stands; a byte-order mark is dropped.

    Raises:
        DataError: The file is missing, unreadable, empty, or not UTF-8.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; check the path given to --data") from error
    except OSError as error:
        raise DataError(f"{path}: expected a readable text file, found: {error.strerror}; check --data") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected UTF-8 text, found byte 0x{content[error.start]:02x} at offset {error.start}, "
            "which is not UTF-8; convert the file to UTF-8"
        ) from error
    if not text:
        raise DataError(f"{path}: expected text, found an empty file; give a file with text to --data")
    return text


def corpus_from(text: str, context: int) -> Corpus:
    """Number the characters of `text` and hold out its last tenth.

    Raises:
        DataError: The held-out tenth would be shorter than one window of `context` characters and its last target.
    """
    held_out_length = len(text) // _HELD_OUT_SHARE
    if held_out_length <= context:
        needed = (context + 1) * _HELD_OUT_SHARE
        raise DataError(
            f"the text has {len(text)} characters; a context of {context} needs at least {needed}, so that the "
            "held-out tenth fills one window; give a longer text or a smaller context"
        )
    # Fixed-width code points make numbering a sort; `surrogatepass` keeps the function total on Python strings.
    code_points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    distinct, places = np.unique(code_points, return_inverse=True)
    ids = places.astype(np.int64)
    train_length = len(text) - held_out_length
    alphabet = "".join(chr(code_point) for code_point in distinct.tolist())
    return Corpus(alphabet, ids[:train_length], ids[train_length:])


def random_batch(ids: Ids, context: int, batch: int, generator: np.random.Generator) -> Batch:
    """`batch` windows that start anywhere in `ids`, every start equally likely."""
    starts = generator.integers(0, len(ids) - context, size=batch)
    return _windows_at(ids, context, starts)


def evaluation_batches(ids: Ids, context: int, batch: int, most: int) -> Iterator[Batch]:
    """Windows spread evenly over the whole of `ids`, in batches of equal size, always the same ones.

    There are as many as fit side by side, at most `most`, rounded down to whole batches, or one smaller batch when not
    even one whole batch fits. The batches being equal in size, the mean of their means is the mean over all characters.
    """
    last = len(ids) - context - 1
    windows = min(most, last // context + 1)
    size = min(batch, windows)
    windows -= windows % size
    starts = [last * window // max(1, windows - 1) for window in range(windows)]
    for first in range(0, windows, size):
        yield _windows_at(ids, context, np.asarray(starts[first : first + size], dtype=np.int64))


def _windows_at(ids: Ids, context: int, starts: Ids) -> Batch:
    windows = np.lib.stride_tricks.sliding_window_view(ids, context + 1)[starts]
    return windows[:, :-1], windows[:, 1:]

"""Where the text comes from: Python's own reference topics, a file, a folder, or a process of known entropy.

First in the data flow of training. A `Source` is a text, the alphabet its tokens are numbered by, and how to obtain the
same text again: a run that is resumed reads it anew and compares fingerprints. Tokens are characters or bytes; a text
read as bytes is held as the string whose code points are the bytes, so that everything after this module is the same
for both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from gradproof.training.errors import DataError
from gradproof.training.folder import left_by_run
from gradproof.training.processes import Process, parse_process

__all__ = ["Source", "Unit", "content_of", "default_text", "open_source", "read_text", "reopen", "source_of"]

Unit = Literal["characters", "bytes"]

_EVERY_BYTE = bytes(range(256)).decode("latin-1")


@dataclass(frozen=True)
class Source:
    """A text to train on.

    Attributes:
        text: One code point for every token.
        alphabet: The tokens in code-point order; a token's id is its place here.
        unit: What a token is.
        origin: How to obtain the text again; what `reopen` takes.
        process: What the text was drawn from, when that is known.
        note: What a reader of the report should know about how the text was read.
    """

    text: str = field(repr=False)
    alphabet: str
    unit: Unit = "characters"
    origin: Mapping[str, str] = field(default_factory=dict)
    process: Process | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """What a message calls it."""
        return self.origin.get("path") or self.origin.get("process") or "the text"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the unit and the text."""
        return hashlib.sha256(self.unit.encode() + b"\n" + content_of(self.text, self.unit)).hexdigest()


def content_of(text: str, unit: Unit) -> bytes:
    """The bytes that a text of such tokens is in a file."""
    return text.encode("latin-1") if unit == "bytes" else text.encode("utf-8", "surrogatepass")


def source_of(text: str) -> Source:
    """A string as a source of characters."""
    return Source(text, _distinct(text))


def open_source(path: Path | str | None = None, process: str | None = None, unit: Unit = "characters") -> Source:
    """The text of a file or a folder, or drawn from a process; by default, Python's reference topics.

    Raises:
        DataError: The text cannot be read, is empty, or is not UTF-8; the process is unknown; both are given.
    """
    if path is not None and process is not None:
        raise DataError(f"expected a text or a process, found both, {path} and {process}; leave one of them out")
    if process is not None and unit != "characters":
        raise DataError(f"{process}: a process is a text of characters, found --unit {unit}; leave it out")
    if process is not None:
        drawn_from = parse_process(process)
        origin = {"kind": "process", "process": process}
        return Source(drawn_from.draw(), drawn_from.symbols, "characters", origin, drawn_from)
    if path is None:
        return _source(default_text().encode(), unit, {"kind": "default"}, "the default text")
    path = Path(path)
    origin = {"kind": "path", "path": str(path.absolute())}
    if path.is_dir():
        content, note = _read_folder(path)
        return _source(content, unit, origin, str(path), note)
    return _source(_read(path), unit, origin, str(path))


def reopen(origin: Mapping[str, str], unit: Unit) -> Source:
    """The source that says `origin` of itself, read again.

    Raises:
        DataError: It cannot be read any more.
    """
    path = origin.get("path")
    if path is not None and not Path(path).exists():
        raise DataError(
            f"{path}: expected the text that the run began with, found nothing there; name the place where it is now "
            "by --data"
        )
    return open_source(None if path is None else Path(path), origin.get("process"), unit)


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


def read_text(path: Path | str) -> str:
    """The text of a UTF-8 file, as it stands; a byte-order mark is dropped.

    Raises:
        DataError: The file is missing, unreadable, empty, or not UTF-8.
    """
    return _source(_read(Path(path)), "characters", {}, str(path)).text


def _source(content: bytes, unit: Unit, origin: Mapping[str, str], name: str, note: str = "") -> Source:
    if unit == "bytes":
        text, alphabet = content.decode("latin-1"), _EVERY_BYTE
    else:
        text = _decoded(content, name)
        alphabet = _distinct(text)
    if not text:
        raise DataError(f"{name}: expected text, found an empty file; give a file with text to --data")
    return Source(text, alphabet, unit, origin, note=note)


def _read(path: Path) -> bytes:
    try:
        # A pipe or a device may never end, and a run that is resumed could not read it again.
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: expected a readable text file, found something else; check --data")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; check the path given to --data") from error
    except OSError as error:
        raise DataError(f"{path}: expected a readable text file, found: {error.strerror}; check --data") from error


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x} at offset {error.start}, "
            "which is not UTF-8; convert the file to UTF-8, or train on its bytes with --unit bytes"
        ) from error


def _read_folder(folder: Path) -> tuple[bytes, str]:
    """The text files of the folder and those below it in the order of their paths, and a note on what was left out."""
    files = sorted(_visible_files(folder), key=lambda file: file.relative_to(folder).as_posix())
    if not files:
        raise DataError(f"{folder}: expected a folder with text files, found no file in it; check --data")
    contents = {file: _read(file) for file in files}
    texts = [content.removeprefix(b"\xef\xbb\xbf") for content in contents.values() if _is_text(content)]
    if not texts:
        raise DataError(
            f"{folder}: expected a folder with text files, found {len(files)} of which none is UTF-8 text; check "
            "--data, or name a single file, which --unit bytes takes whatever it is"
        )
    left_out = len(files) - len(texts)
    note = f"{len(texts)} text files read" + (f", {left_out} left out: empty or not UTF-8 text" if left_out else "")
    return b"\n".join(texts), note


def _visible_files(folder: Path) -> Iterator[Path]:
    """The files below the folder, in any order; links to folders are not followed.

    What begins with a dot is left out, and what a run has left: a folder that is trained on may hold the runs.
    """
    folders = [folder]
    while folders:
        within = folders.pop()
        try:
            entries = list(within.iterdir())
        except OSError as error:
            raise DataError(f"{within}: expected a readable folder, found: {error.strerror}; check --data") from error
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_file():
                if not left_by_run(entry):
                    yield entry
            elif entry.is_dir() and not entry.is_symlink():
                folders.append(entry)


def _is_text(content: bytes) -> bool:
    """Whether a file of a folder is text: not empty, UTF-8, and without the zero bytes that mark binary files."""
    if not content or b"\0" in content:
        return False
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return True


def _distinct(text: str) -> str:
    return "".join(sorted(set(text)))

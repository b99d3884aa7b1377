"""The folder of a run: what lies in it, and how files get there whole.

Beside the data flow of training. Every file that is written at once is written under another name and renamed, so that
whoever reads it, also after the power failed, finds the old content or the new, never a part. The metrics are the
exception: they grow line by line (see `metrics`).

    checkpoint.json  step-00000200.safetensors  metrics.jsonl  report.json  loss.svg
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradproof.training.errors import CheckpointError

try:
    import fcntl
except ImportError:  # not on Windows, where two processes in one folder go unnoticed
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "CHECKPOINT", "METRICS", "PLOT", "REPORT",
    "check_free", "content_of_file", "damaged_metrics", "is_own", "left_by_run", "locked", "newest_run", "next_run",
    "resumption", "taken", "tensor_file", "write_whole", "writing",
]  # fmt: skip

CHECKPOINT = "checkpoint.json"
METRICS = "metrics.jsonl"
REPORT = "report.json"
PLOT = "loss.svg"

_NUMBERED = re.compile(r"step-[0-9]{8,}\.safetensors|metrics\.jsonl\.damaged-[0-9]+")
"""The names of files of which a run may have several."""
_UNFINISHED = ".part"
"""What the name of a file ends in as long as it is being written."""
_LOCK = ".lock"


def tensor_file(step: int) -> str:
    """The name of the file with the tensors of the checkpoint of a step."""
    return f"step-{step:08}.safetensors"


def damaged_metrics(number: int) -> str:
    """The name under which metrics are kept that were found damaged, the first, second, ... time."""
    return f"{METRICS}.damaged-{number}"


def is_own(name: str) -> bool:
    """Whether a run gives this name to a file in its folder, whole or unfinished; no other may be removed."""
    whole = name.removesuffix(_UNFINISHED)
    return whole in (CHECKPOINT, METRICS, REPORT, PLOT) or _NUMBERED.fullmatch(whole) is not None


def left_by_run(file: Path) -> bool:
    """Whether the file is one that a run leaves in its folder."""
    return is_own(file.name) and (file.parent / CHECKPOINT).exists()


def check_free(folder: Path) -> None:
    """See to it that a run which begins in the folder writes over nothing that somebody else wants to keep.

    A run that died before its first checkpoint is no obstacle: it leaves parts of files, metrics without a line and the
    tensors of step 0.

    Raises:
        CheckpointError: The folder holds no checkpoint, but files of the names that a run writes.
    """
    if (folder / CHECKPOINT).exists() or not folder.is_dir():
        return
    taken = [path.name for path in sorted(folder.iterdir()) if is_own(path.name) and not _is_beginning(path)]
    if taken:
        raise CheckpointError(
            f"{folder}: holds no checkpoint, but {', '.join(taken)}, which a run would write over; move what is there "
            "away, or choose another folder"
        )


def _is_beginning(path: Path) -> bool:
    """Whether a run leaves this before its first checkpoint."""
    if not path.is_file():
        return False
    if path.name == METRICS:
        return path.stat().st_size == 0
    return path.name == tensor_file(0) or path.name.endswith(_UNFINISHED)


def content_of_file(path: Path) -> bytes:
    """The bytes of the file; nothing is waited for where a pipe or a device has its name.

    Raises:
        OSError: It cannot be read.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise _no_file(path)
    return path.read_bytes()


def write_whole(path: Path, content: bytes) -> None:
    """Write the file so that it holds its old content until it holds all of the new, on the disk."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    _check_no_pipe(unfinished)
    with writing(path):
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        _sync(path.parent)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the system name the file; a full disk, say, does not tell by itself which file it was."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def resumption(folder: Path) -> str:
    """The command that goes on with the run in the folder, as a shell takes it."""
    return f"gradproof train --resume {shlex.quote(str(folder))}"


def next_run(parent: Path) -> Path:
    """A new folder in `parent`, named by the next free number: 001, 002, ..."""
    parent.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(_last_number(parent) + 1):
        folder = parent / f"{number:03}"
        try:
            folder.mkdir()
        except FileExistsError:  # another run has begun at the same moment
            continue
        return folder
    raise AssertionError("there is always a next number")


def newest_run(parent: Path) -> Path | None:
    """The folder in `parent` of the highest number, if there is one that holds a checkpoint."""
    numbered = sorted(
        (int(path.parent.name), path.parent) for path in parent.glob(f"*/{CHECKPOINT}") if _is_number(path)
    )
    return numbered[-1][1] if numbered else None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep the folder to this process; a process that is killed leaves no lock behind.

    Raises:
        CheckpointError: Another process is at work in the folder.
    """
    _check_no_pipe(folder / _LOCK)
    with (folder / _LOCK).open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CheckpointError(
                    f"{folder}: another process is training in this folder; wait for it, or choose another folder"
                ) from error
        yield


@contextmanager
def taken(folder: Path, *, anew: bool) -> Iterator[Path]:
    """The folder, made if need be, and kept to this process; a run that begins `anew` replaces no other.

    Raises:
        CheckpointError: It holds another run, or files of the names that a run writes, or another process is at work.
    """
    check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if anew and (folder / CHECKPOINT).exists():
            raise CheckpointError(
                f"{folder}: holds a run already; go on with it, resume=load(folder), or choose another folder"
            )
        yield folder


def _check_no_pipe(path: Path) -> None:
    """See to it that opening the file to write waits for nobody who reads.

    Raises:
        OSError: It is a pipe.
    """
    if path.is_fifo():
        raise _no_file(path)


def _no_file(path: Path) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", str(path))


def _last_number(parent: Path) -> int:
    return max((int(path.name) for path in parent.iterdir() if path.name.isdecimal()), default=0)


def _is_number(checkpoint: Path) -> bool:
    return checkpoint.parent.name.isdecimal()


def _sync(folder: Path) -> None:
    """Bring the renaming itself to the disk; where folders cannot be opened, the system sees to it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

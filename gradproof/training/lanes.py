"""Lanes that are processes: each computes its share of every batch, on weights and gradients in shared memory.

Beside `gradproof.training.parts`, which says what a share is. Threads of one interpreter take turns in it, and each
time two meet, one is put to sleep and has to be woken: about a twelfth of a step. A process has an interpreter of its
own. It is started with the modules of this one at hand, hears the settings and where the memory is, and then, step by
step, a batch; it answers with the losses, and leaves the gradient of its share in a vector of its own. A line of
JSON and the token ids go one way, a line of JSON comes back. Arithmetic and order of additions are those of threads, so
that the results have the same bits.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import subprocess
import sys
import warnings
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from gradproof.training.config import TrainingConfig
from gradproof.training.errors import LaneError
from gradproof.training.model import Ids, model_class
from gradproof.training.parameters import Array

__all__ = ["Crew", "Seat", "SharedVectors", "can_be_processes", "serve"]

_START = """
import json, os, sys
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path[:] = json.loads(sys.argv[1])
from gradproof.training.lanes import serve
serve(sys.stdin.buffer, answers)
"""
"""What the interpreter of a lane begins with: whatever a library may print is no answer, and modules are found where
they are found here, once Python's own are there."""


def can_be_processes() -> bool:
    """Whether the system has memory without a name that processes can share, and the interpreter knows where it is."""
    return hasattr(os, "memfd_create") and bool(sys.executable)


class SharedVectors:
    """Vectors of one length in memory that processes share: the weights, then one of gradients for each lane.

    The memory has no name, and is gone with the last process that has it.

    Attributes:
        descriptor: What another process opens the memory by.
    """

    def __init__(self, size: int, dtype: str, count: int, descriptor: int | None = None) -> None:
        """`count` vectors of `size` entries; zeros, or those that are behind the descriptor."""
        self._size, self._dtype = size, np.dtype(dtype)
        pages = math.ceil(size * self._dtype.itemsize / mmap.PAGESIZE)
        self._stride = pages * mmap.PAGESIZE
        if descriptor is None:
            descriptor = os.memfd_create("gradproof")
            os.ftruncate(descriptor, count * self._stride)
        self.descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._memory = mmap.mmap(descriptor, count * self._stride)

    def __getitem__(self, number: int) -> Array:
        """The vector of this number, shape (size,)."""
        return np.frombuffer(self._memory, self._dtype, self._size, number * self._stride)


@dataclass(frozen=True)
class Seat:
    """The place of a process among the lanes of a model.

    Attributes:
        lane: The lane that it is.
        descriptor: Where the vectors are.
    """

    lane: int
    descriptor: int


class Crew:
    """The processes of all lanes but the first, started when they are first needed.

    They end when the crew is let go, and by themselves when this process ends, however that is.
    """

    def __init__(self, config: TrainingConfig, vocabulary: int, vectors: SharedVectors, lanes: int) -> None:
        """Processes for lanes 1 to `lanes - 1` of a model with these settings, whose vectors are `vectors`."""
        self._task = {"config": config.as_dict(), "vocabulary": vocabulary, "descriptor": vectors.descriptor}
        self._vectors = vectors
        self._lanes = range(1, lanes)
        self._processes: list[subprocess.Popen[bytes]] = []
        weakref.finalize(self, _dismiss, self._processes)

    def begin(self, lanes: int, tokens: Ids, targets: Ids, step: int, first_row: int) -> None:
        """Have the processes of the first `lanes` lanes carry out their shares of a batch.

        Raises:
            LaneError: One of them has ended.
        """
        if not self._processes:
            self._processes.extend(map(self._start, self._lanes))
        question = _line({"shape": tokens.shape, "step": step, "first_row": first_row})
        content = b"".join([question, *(ids.astype(np.int64).tobytes() for ids in (tokens, targets))])
        for process in self._processes[: lanes - 1]:
            try:
                _send(process.stdin, content)
            except BrokenPipeError:
                raise _lost(process) from None

    def finish(self, lanes: int) -> list[float]:
        """The losses that the first `lanes` lanes but one have found, when they have; gradients are in place then.

        Raises:
            LaneError: One of them has ended, or could not do what it was asked for.
        """
        losses: list[float] = []
        for process in self._processes[: lanes - 1]:
            answer = _receive(process.stdout)
            if answer is None:
                raise _lost(process)
            if "error" in answer:
                raise LaneError(f"a process that computes part of each batch failed: {answer['error']}")
            losses += answer["losses"]
        return losses

    def dismiss(self) -> None:
        """End the processes, whatever they are at; they are started anew when they are needed."""
        _dismiss(self._processes)

    def _start(self, lane: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, json.dumps([*map(str, sys.path)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._vectors.descriptor],
            process_group=0,  # Ctrl-C is for the process that saves
        )
        _send(process.stdin, _line({"lane": lane, **self._task}))
        return process


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Carry out the shares of one lane, until nobody asks any more.

    Args:
        questions: A line with the settings, the lane and the memory; then, for each step, a line and two blocks of ids.
        answers: A line for each step.
    """
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # what overflows shows in the loss
    task = json.loads(questions.readline())
    config = TrainingConfig.from_dict(task["config"])
    model = model_class(config)(config, task["vocabulary"], Seat(task["lane"], task["descriptor"]))
    with model.arrays.side_by_side(config.lanes):
        while (asked := _receive(questions)) is not None:
            shape, model.first_row = asked["shape"], asked["first_row"]
            ids = [bytearray(questions.read(8 * math.prod(shape))) for _ in range(2)]
            try:
                tokens, targets = (np.frombuffer(part, np.int64).reshape(shape) for part in ids)
                answer: dict[str, Any] = {"losses": model.share(task["lane"], tokens, targets, asked["step"])}
            except Exception as error:  # the one who asked has to hear of it
                answer = {"error": repr(error)}
            with suppress(BrokenPipeError):  # nobody wants to know any more
                _send(answers, _line(answer))


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _send(pipe: IO[bytes] | None, content: bytes) -> None:
    if pipe is not None:
        pipe.write(content)
        pipe.flush()


def _receive(pipe: IO[bytes] | None) -> dict[str, Any] | None:
    """The next line's content; None where there is no whole line any more."""
    line = b"" if pipe is None else pipe.readline()
    content: dict[str, Any] | None = json.loads(line) if line.endswith(b"\n") else None
    return content


def _dismiss(processes: list[subprocess.Popen[bytes]]) -> None:
    """Processes hold nothing of their own, so that they can be killed."""
    while processes:
        # Leaving the block closes the pipes, though what was not sent may be left in them, and waits.
        with suppress(BrokenPipeError), processes.pop() as process:
            process.kill()


def _lost(process: subprocess.Popen[bytes]) -> LaneError:
    code = process.wait()
    how = f"killed by signal {-code}" if code < 0 else f"with exit code {code}"
    return LaneError(
        f"a process that computes part of each batch has ended, {how}; go on with --resume, or let threads compute: "
        "--set run.processes=false"
    )

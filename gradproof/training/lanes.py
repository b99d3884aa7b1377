"""Lanes that are processes: each computes its share of every batch, on weights and gradients in shared memory.

Beside `gradproof.training.parts`, which says what a share is. Threads of one interpreter take turns in it, and each
time two meet, one is put to sleep and has to be woken: about a twelfth of a step. A process has an interpreter of its
own. It is started with the modules and kernels of this one, hears the settings and where the memory is, and then, step
by step, a batch; it answers with the losses, and leaves the gradient of its share in a vector of its own. A line of
JSON and the token ids go one way, a line of JSON comes back. Arithmetic and order of additions are those of threads, so
that the results have the same bits.

The weights of the model stay in memory of its own and are copied for each step, so that a fork of the process has a
model of its own, as ever.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from gradproof.training.config import TrainingConfig
from gradproof.training.errors import LaneError
from gradproof.training.kernels import kernel_folder, use_kernels
from gradproof.training.model import Ids, model_class
from gradproof.training.parameters import Array

__all__ = ["Crew", "SharedVectors", "serve"]

_START = """
import json, os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.path[:] = json.loads(sys.argv[1])
from gradproof.training.lanes import serve
serve(sys.stdin.buffer, answers)
"""
"""What the interpreter of a lane begins with. Signals are for the process that saves; whatever a library may print is
no answer; modules are found where they are found here, once Python's own are there."""

_ROOT = Path(__file__).resolve().parents[2]


class SharedVectors:
    """Vectors of one length in memory that processes share: the weights, then one of gradients for each lane.

    The memory has no name, and is gone with the last process that has it.
    """

    def __init__(self, size: int, dtype: str, count: int, descriptor: int) -> None:
        """`count` vectors of `size` entries, in the memory that is behind the descriptor."""
        self._size, self._dtype = size, np.dtype(dtype)
        self._stride = math.ceil(size * self._dtype.itemsize / mmap.PAGESIZE) * mmap.PAGESIZE
        if os.fstat(descriptor).st_size == 0:
            os.ftruncate(descriptor, count * self._stride)
        self._memory = mmap.mmap(descriptor, count * self._stride)

    def __getitem__(self, number: int) -> Array:
        """The vector of this number, shape (size,)."""
        return np.frombuffer(self._memory, self._dtype, self._size, number * self._stride)


class Crew:
    """The processes of all lanes of a model but the first, started when they are first needed.

    They end when the crew is let go, and by themselves when this process ends, however that is.
    """

    def __init__(self, config: TrainingConfig, vocabulary: int, size: int) -> None:
        """Processes for a model with these settings, whose parameters have `size` entries."""
        self._size = size
        self._task = {"config": config.as_dict(), "vocabulary": int(vocabulary), "size": size}
        self._lanes, self._dtype = config.lanes, config.weight_dtype
        self._processes: list[subprocess.Popen[bytes]] = []
        self._vectors: SharedVectors | None = None
        self._turn = threading.Lock()
        weakref.finalize(self, _dismiss, self._processes)
        _CREWS.add(self)

    def is_ready(self) -> bool:
        """Whether the processes are there, now or before; false where the system refuses memory or processes."""
        if not hasattr(os, "memfd_create") or not sys.executable:
            return False
        with self._turn:
            if self._processes:
                return True
            try:
                self._start()
            except OSError:
                _dismiss(self._processes)
                return False
            except BaseException:
                _dismiss(self._processes)
                raise
            return True

    @contextmanager
    def at_work(
        self, lanes: int, weights: Array, tokens: Ids, targets: Ids, step: int, first_row: int
    ) -> Iterator[Callable[[], list[float]]]:
        """The processes of the first `lanes` lanes carry out their shares of a batch, beside what is done meanwhile.

        Gives a function that waits for them and returns their losses; the gradients are in place then. Whatever goes
        wrong, the processes are ended, and started anew when they are needed.

        Raises:
            LaneError: One of them has ended, or could not do what it was asked for.
            ValueError: One of them refuses the batch.
        """
        busy = self._processes[: lanes - 1]
        with self._turn:
            try:
                np.copyto(self._vector(0), weights)
                ids = [np.ascontiguousarray(part, np.int64) for part in (tokens, targets)]
                shapes = [part.shape for part in ids]
                question = _line({"shapes": shapes, "step": int(step), "first_row": int(first_row)})
                for process in busy:
                    _tell(process, b"".join([question, *(part.tobytes() for part in ids)]))
                yield lambda: [loss for process in busy for loss in _losses(process)]
            except BaseException:
                _dismiss(self._processes)
                raise

    def slopes(self, lane: int) -> Array:
        """The gradient of a lane's share, as the last batch left it."""
        return self._vector(lane)

    def forget(self) -> None:
        """In the child of a fork: the processes and the memory are the parent's."""
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
            process.returncode = 0
        self._processes.clear()
        self._vectors, self._turn = None, threading.Lock()

    def _vector(self, number: int) -> Array:
        if self._vectors is None:
            raise LaneError("the processes that compute parts of each batch are not there; call the model anew")
        return self._vectors[number]

    def _start(self) -> None:
        _keep_standard_descriptors()
        descriptor = os.memfd_create("gradproof")
        try:
            self._vectors = SharedVectors(self._size, self._dtype, 1 + self._lanes, descriptor)
            task = {**self._task, "descriptor": descriptor, "kernels": str(kernel_folder())}
            for lane in range(1, self._lanes):
                self._processes.append(_interpreter(descriptor))
                _tell(self._processes[-1], _line({**task, "lane": lane}))
        finally:
            os.close(descriptor)


_CREWS: weakref.WeakSet[Crew] = weakref.WeakSet()


def _forget() -> None:
    for crew in _CREWS:
        crew.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Carry out the shares of one lane, until nobody asks any more.

    Args:
        questions: A line with the settings, the lane and the memory; then, for each step, a line and two blocks of ids.
        answers: A line for each step.
    """
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # what overflows shows in the loss
    task = _receive(questions)
    if task is None:
        return
    use_kernels(Path(task["kernels"]))
    config, lane = TrainingConfig.from_dict(task["config"]), task["lane"]
    vectors = SharedVectors(task["size"], config.weight_dtype, 1 + config.lanes, task["descriptor"])
    os.close(task["descriptor"])
    model = model_class(config)(config, task["vocabulary"])
    model.join(lane, vectors[0], vectors[lane])
    with model.arrays.side_by_side(config.lanes):
        while (asked := _receive(questions)) is not None:
            blocks = [(shape, bytearray(questions.read(8 * math.prod(shape)))) for shape in asked["shapes"]]
            model.first_row = asked["first_row"]
            try:
                tokens, targets = (np.frombuffer(block, np.int64).reshape(shape) for shape, block in blocks)
                answer: dict[str, Any] = {"losses": model.share(lane, tokens, targets, asked["step"])}
            except ValueError as error:
                answer = {"refused": str(error)}
            except Exception as error:  # the one who asked has to hear of it
                answer = {"failed": repr(error)}
            with suppress(BrokenPipeError):  # nobody wants to know any more
                _send(answers, _line(answer))


def _interpreter(descriptor: int) -> subprocess.Popen[bytes]:
    """A process that serves, with the memory behind the descriptor."""
    flags = [
        flag
        for flag, is_set in (
            ("-E", sys.flags.ignore_environment),
            ("-s", sys.flags.no_user_site),
            ("-S", sys.flags.no_site),
        )
        if is_set
    ]
    places = [str(_ROOT), *(os.path.abspath(place) for place in sys.path)]
    return subprocess.Popen(
        [sys.executable, *flags, "-P", "-c", _START, json.dumps(places)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[descriptor],
        start_new_session=True,  # what a terminal does is for the process that saves
    )


def _keep_standard_descriptors() -> None:
    """Have something open as 0, 1 and 2: what lay there would be written to by whoever prints."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


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


def _tell(process: subprocess.Popen[bytes], content: bytes) -> None:
    try:
        _send(process.stdin, content)
    except BrokenPipeError:
        raise _lost(process) from None


def _losses(process: subprocess.Popen[bytes]) -> list[float]:
    """The losses that a process answers with."""
    answer = _receive(process.stdout)
    if answer is None:
        raise _lost(process)
    if "refused" in answer:
        raise ValueError(answer["refused"])
    if "failed" in answer:
        raise LaneError(f"a process that computes part of each batch failed: {answer['failed']}")
    losses: list[float] = answer["losses"]
    return losses


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
        f"a process that computes part of each batch has ended, {how}; try again, or let threads of one process "
        "compute: run.processes = false"
    )

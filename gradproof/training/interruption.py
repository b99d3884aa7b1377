"""Ctrl-C and SIGTERM as a request: the run ends after the step that it is in, with its state saved.

Beside the loop. The first signal is noted, and whatever it did before comes back; a second one therefore ends the
process at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["ending_at_once", "interruptions"]

_SIGNALS = signal.SIGINT, signal.SIGTERM


@contextmanager
def interruptions() -> Iterator[Callable[[], int | None]]:
    """A function that returns the signal that asked the run to end, or nothing."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # where Python lets nobody handle signals
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: noted[0] if noted else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Either signal ends the process as the system does it, also in a call that waits and would not hear of it.

    For where nothing is there yet to be saved.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

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
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        signal.signal(number, before[signal.Signals(number)])

    with _handled_by(note):
        yield lambda: noted[0] if noted else None


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Either signal ends the process as the system does it, also in a call that waits and would not hear of it.

    For where nothing is there yet to be saved.
    """
    with _handled_by(signal.SIG_DFL):
        yield


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """Both signals are handled so until the end of the block; nothing changes where Python lets nobody handle them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, found in before.items():
            signal.signal(number, found)

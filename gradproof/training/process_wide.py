"""What a run sets for the whole process, for as long as any run needs it: one thread for BLAS, and no warnings.

Beside the engines. Runs in several threads of a process overlap: each would find what another one has set, and leave
that behind. Here the first one to begin sets it, and the last one to end sets it back.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["on_one_thread", "without_warnings"]


class _Setting:
    """Something that is set as long as it has users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: list[object] = []
        self._kept = ExitStack()

    @contextmanager
    def held(self, begin: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
        """It is set until the end of the block, and of all other such blocks; `begin` sets it if nobody has."""
        user = object()
        with self._lock:
            if not self._users:
                self._kept.enter_context(begin())
            self._users.append(user)
        try:
            yield
        finally:
            with self._lock:
                self._users.remove(user)
                if not self._users:
                    self._kept.close()


_THREADS, _WARNINGS = _Setting(), _Setting()


def on_one_thread(libraries: ThreadpoolController) -> AbstractContextManager[None]:
    """Products of BLAS are computed on one thread each."""
    return _THREADS.held(lambda: libraries.limit(limits=1, user_api="blas"))


def without_warnings() -> AbstractContextManager[None]:
    """Nobody is warned of what overflows, in whatever thread it does."""
    return _WARNINGS.held(lambda: warnings.catch_warnings(action="ignore", category=RuntimeWarning))

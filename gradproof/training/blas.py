"""BLAS on one thread, for as long as anybody asks for it: how many it has is a matter of the whole process.

Beside the engines. Products of matrices in training are quicker on one thread each than on all of them together. Runs
in several threads of a process overlap: the first one to begin sets the limit, and the last one to end lifts it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from threadpoolctl import ThreadpoolController

__all__ = ["on_one_thread"]

_LOCK = threading.Lock()
_USERS: list[object] = []
_LIMIT = ExitStack()


@contextmanager
def on_one_thread(libraries: ThreadpoolController) -> Iterator[None]:
    """Products are computed on one thread each, until the end of the block, and of all other such blocks."""
    user = object()
    with _LOCK:
        if not _USERS:
            _LIMIT.enter_context(libraries.limit(limits=1, user_api="blas"))
        _USERS.append(user)
    try:
        yield
    finally:
        with _LOCK:
            _USERS.remove(user)
            if not _USERS:
                _LIMIT.close()

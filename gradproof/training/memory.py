"""Keeping freed memory for the next step, since a step takes and frees the same arrays as the step before.

Beside the engines. The C library returns large arrays to the system as soon as they are freed, and the system
hands out pages filled with zeros anew: a quarter of a step was spent on that. glibc can be asked to keep them;
elsewhere nothing is done. The setting is one of the process and costs memory only.
"""

from __future__ import annotations

import ctypes
from functools import cache

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_LARGEST_ARRAY = 32 * 2**20
"""Bytes up to which glibc lets arrays come from the memory that it keeps."""
_KEPT = 2**31 - 1


@cache
def keep_freed_memory() -> bool:
    """Whether the C library has been asked to keep freed memory; it is asked once."""
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, or none that can be reached
        return False
    return bool(set_option(_MMAP_THRESHOLD, _LARGEST_ARRAY)) and bool(set_option(_TRIM_THRESHOLD, _KEPT))

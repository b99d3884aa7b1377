"""The size of SymPy's cache, which has to be said before SymPy is imported.

Beside the entry points: the command line, the benchmarks and the tests call this first of all. By default SymPy
remembers 1,000 results of a kind. The statements of the library are made of more, and making them again costs a
twentieth of the time of `gradproof prove`, more for long chains.
"""

from __future__ import annotations

import os

__all__ = ["enlarge"]


def enlarge() -> None:
    """Have SymPy remember 20,000 results of a kind, unless the environment says how many."""
    os.environ.setdefault("SYMPY_CACHE_SIZE", "20000")

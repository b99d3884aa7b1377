"""The errors of the compiler."""

from __future__ import annotations


class KernelError(ValueError):
    """A program cannot be compiled, or a generated kernel cannot be found. The message says which and what to do."""

    exit_code = 2

"""Saying no by name: arguments of PyTorch's functions for which no kernel is derived."""

from __future__ import annotations

from typing import Any

__all__ = ["refuse", "refuse_others"]


def refuse(function: str, argument: str, value: Any, advice: str) -> NotImplementedError:
    """The error for an argument that no kernel is derived for."""
    return NotImplementedError(f"{function}: {argument}={value!r}: no kernel is derived for it; {advice}")


def refuse_others(function: str, advice: str, **given: tuple[Any, Any]) -> None:
    """Check that arguments have the only value that a kernel is derived for: name=(value, that one).

    Raises:
        NotImplementedError: one has another.
    """
    for argument, (value, only) in given.items():
        if value is not only and value != only:
            raise refuse(function, argument, value, f"{advice} {argument}={only!r}".strip())

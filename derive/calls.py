"""How a word of the language is called: where the arguments do not fit, the message shows a call that does.

Underneath `derive.language`. Python's own message, "got an unexpected keyword argument 'axis'", says what was wrong but
not how it is written here; `called_as` keeps one example beside each word.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from derive.errors import MisuseError
from derive.names import shown

P = ParamSpec("P")
R = TypeVar("R")


def called_as(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The word itself, which answers arguments that do not fit it with the `example`."""

    def decorate(word: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(word)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            try:
                return word(*arguments, **options)
            except TypeError:
                problem = _misfit(word, arguments, options)
                if problem is None:
                    raise
            where, called = "", word.__name__
            if next(iter(inspect.signature(word).parameters), "") == "self":
                where, arguments = f"{getattr(arguments[0], 'name', '')}: ", arguments[1:]  # type: ignore[assignment]
            given = [shown(part) for part in arguments] + [f"{key}={shown(part)}" for key, part in options.items()]
            raise MisuseError(f"{where}{called}({', '.join(given)}): {problem}; expected a call such as {example}")

        return call

    return decorate


def _misfit(word: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> str | None:
    """What does not fit about the arguments; None where they do, and the error is about something else."""
    try:
        inspect.signature(word).bind(*arguments, **options)
    except TypeError as error:
        return str(error)
    return None

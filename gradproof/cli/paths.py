"""Paths on a command line: an empty one is refused, since Python would take it for the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class Named(click.Path):
    """A path that has at least one character."""

    def __init__(self, **options: Any) -> None:
        """As `click.Path`, giving a `pathlib.Path`."""
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("expected a path, found an empty text; name one, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)

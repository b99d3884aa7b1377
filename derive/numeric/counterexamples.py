"""A point where the two sides of a claim differ, as it is shown to people and handed to machines.

What `derive.numeric.trial` finds and `derive.refutation` gives back; `derive.numeric.reproduction` writes its line.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

__all__ = ["Counterexample"]


@dataclass(frozen=True)
class Counterexample:
    """A point where the two sides of a claim differ, and a line of Python that shows it.

    `inputs` holds ints, Fractions, truth values and nested tuples of them; `left` and `right` are the values in digits.
    """

    sizes: dict[str, int]
    inputs: dict[str, Any]
    position: dict[str, int]
    left: str
    right: str
    line: str

    @property
    def command(self) -> str:
        """The line as a shell command."""
        return f'python -c "{self.line}"'

    def as_dict(self) -> dict[str, Any]:
        """The counterexample in plain values; a fraction becomes the text `3/2`."""
        return {
            "sizes": dict(self.sizes),
            "inputs": {name: _plain(value) for name, value in self.inputs.items()},
            "position": dict(self.position),
            "left": self.left,
            "right": self.right,
            "line": self.line,
        }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(row) for row in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    return value

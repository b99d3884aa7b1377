"""Inference rules: what the document needs beyond equalities that the normal form decides.

A rule takes a claim and returns *obligations*: equalities from which the claim follows. It checks its side conditions
itself and refuses, by name, when one cannot be established; the obligations go to the normal form like any claim. So a
rule is trusted for one sentence only, its `statement`, and everything else is decided by the same small core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from derive.errors import StatementError
from derive.names import listed
from derive.statements import Claim


class RuleRefusedError(ValueError):
    """A side condition of a rule does not hold, or cannot be established. The message says which."""


def check_parts(rule: str, kind: type, parts: Sequence[Any]) -> None:
    """Raise StatementError unless all parts that a rule is made of are of one kind."""
    for part in listed(parts, rule, f"parts made by {kind.__name__}(...)"):
        if not isinstance(part, kind):
            raise StatementError(f"{rule}: expected parts made by {kind.__name__}(...), found {part!r}")


class Rule(Protocol):
    """A named rule with its statement and source."""

    @property
    def name(self) -> str:
        """What the rule is called where a verdict lists what it rests on."""

    @property
    def statement(self) -> str:
        """The one sentence that is trusted."""

    @property
    def source(self) -> str:
        """Where the sentence is proved."""

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """Claims from which the claim follows by the rule.

        Raises:
            RuleRefusedError: a side condition fails.
        """

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """What the rule assumes that is not part of the claim's own conditions."""

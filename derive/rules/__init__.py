"""Inference rules: what the document needs beyond equalities that the normal form decides.

A rule takes a claim and returns *obligations*: equalities from which the claim follows. It checks its side conditions
itself and refuses, by name, when one cannot be established; the obligations go to the normal form like any claim. So a
rule is trusted for one sentence only, its `statement`, and everything else is decided by the same small core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from derive.program import Claim


class RuleRefusedError(ValueError):
    """A side condition of a rule does not hold, or cannot be established. The message says which."""


class Rule(Protocol):
    """A named rule with its statement and source."""

    name: str
    statement: str
    source: str

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """Equalities from which the claim follows by the rule.

        Raises:
            RuleRefusedError: a side condition fails.
        """

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """What the rule assumes that is not part of the claim's own conditions."""

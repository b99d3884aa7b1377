"""Transitivity: a chain of proved equalities, as in a paper, proves that its first expression equals its last.

`Program.steps` states such a chain step by step; this rule draws the conclusion as a claim of its own. Each step may
have a rule of its own, which is what the chain is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from derive.rules import RuleRefusedError, check_parts
from derive.rules.obligations import equality
from derive.statements import Claim


@dataclass(frozen=True)
class Chain:
    """left = steps[0].left = steps[0].right = steps[1].left = ... = right."""

    steps: tuple[Claim, ...]
    name: ClassVar[str] = "chain of equalities"
    statement: ClassVar[str] = "equality is transitive"
    source: ClassVar[str] = "the axioms of equality"

    def __post_init__(self) -> None:
        check_parts("Chain", Claim, self.steps)

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """The steps, that they fit together, and that the claim's sides are the ends.

        Raises:
            RuleRefusedError: there is no step, or a step is of another program or under another condition.
        """
        if not self.steps:
            raise RuleRefusedError("expected at least one step, found none")
        for step in self.steps:
            if step.program is not claim.program:
                raise RuleRefusedError(f"step {step.id} is about {step.program.name}, not about {claim.program.name}")
            for condition in step.given:
                if condition not in claim.given:
                    raise RuleRefusedError(f"step {step.id} assumes {condition}, which {claim.id} does not")
        ends = [claim.left, *(side for step in self.steps for side in (step.left, step.right)), claim.right]
        joints = [
            equality(claim, f"joint {number}: {left} = {right}", left, right)
            for number, (left, right) in enumerate(pairwise(ends))
            if number % 2 == 0 and left != right
        ]
        return [*(replace(step, name=f"step {step.id}", assuming=()) for step in self.steps), *joints]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """What the steps assume in words."""
        return [text for step in self.steps for text in step.assuming]

"""Proof by cases: a claim holds if it holds in each of finitely many cases, of which one always applies.

A case is a condition, with facts that follow from it (an inequality, say, by a rule of `derive.rules.order`). The claim
is then an obligation in each case, with the condition and the facts as further hypotheses. This is how max(x, 0)
becomes x where an integer is at least another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sympy import Mul

from derive.gradient import inline
from derive.language import iverson
from derive.rules import Rule, RuleRefusedError, check_parts
from derive.rules.obligations import equality
from derive.statements import Claim
from derive.wellformed import is_equation


@dataclass(frozen=True)
class Case:
    """A condition, and pairs of a further condition that follows from it and the rule by which it does."""

    condition: Any
    facts: tuple[tuple[Any, Rule | None], ...] = ()


@dataclass(frozen=True)
class Cases:
    """The claim holds because it holds in every one of the cases."""

    cases: tuple[Case, ...]
    name: ClassVar[str] = "proof by cases"
    statement: ClassVar[str] = "what holds in each of finitely many cases, of which one always applies, holds"
    source: ClassVar[str] = "propositional logic"

    def __post_init__(self) -> None:
        check_parts("Cases", Case, self.cases)

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That one case always applies; in each, that its facts hold, and that the claim does.

        Raises:
            RuleRefusedError: there is no case, or one is an equality between values, which as a hypothesis would stand
                for all values of its indices.
        """
        if not self.cases:
            raise RuleRefusedError("expected at least one case, found none")
        for condition in (known for case in self.cases for known in (case.condition, *(f for f, _ in case.facts))):
            if is_equation(condition):
                raise RuleRefusedError(f"the case {condition} is an equality between values; state it as >= and <=")
        none_applies = Mul(*(1 - iverson(case.condition) for case in self.cases))
        parts = [equality(claim, "one of the cases applies", none_applies, 0)]
        for case in self.cases:
            for fact, rule in case.facts:
                what = f"in the case {case.condition}, {fact}"
                parts.append(equality(claim, what, iverson(fact), 1, given=[case.condition], by=rule))
            # Written out, a fact still applies when the prover has written all names of the claim in.
            known = [case.condition, *(inline(fact, claim.program) for fact, _ in case.facts)]
            sides = (inline(side, claim.program) for side in (claim.left, claim.right))
            parts.append(equality(claim, f"the claim in the case {case.condition}", *sides, given=known))
        return parts

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """None."""
        return []

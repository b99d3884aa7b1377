"""Lemmas: an equality that is proved for all its indices may be used as a hypothesis of another claim.

The prover puts the right side of a hypothesis in place of the left wherever it occurs, also inside sums. A lemma is
such a hypothesis that is not assumed but proved: each lemma is an obligation, by its own rule if it has one. It must
hold for all values of its indices under hypotheses that do so too, or it could not be used under a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import sympy
from sympy import Eq, Expr

from derive.binders import substitute, symbols_of
from derive.gradient import inline
from derive.language import Index, extent_of
from derive.rules import Rule, RuleRefusedError, check_parts
from derive.rules.obligations import equality, written_in
from derive.statements import Claim
from derive.wellformed import is_equation


@dataclass(frozen=True)
class Lemmas:
    """The claim follows from other claims of its program, which are proved as well.

    `at` lists indices of the lemmas with the values at which they are used, where only those are wanted; `then` is the
    rule by which the claim follows, where the normal form alone does not see it.
    """

    facts: tuple[Claim, ...]
    at: tuple[tuple[Index, Expr], ...] = ()
    then: Rule | None = None
    name: ClassVar[str] = "use of a lemma"
    statement: ClassVar[str] = "what follows from a proved equality holds"
    source: ClassVar[str] = "the substitution of equals"

    def __post_init__(self) -> None:
        check_parts("Lemmas", Claim, self.facts)

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """The lemmas, and the claim with the lemmas as hypotheses.

        Raises:
            RuleRefusedError: a lemma is of another program, or rests on a hypothesis that the claim does not have, or
                on one that holds at single indices only; or a value lies outside the range of its index.
        """
        for fact in self.facts:
            if fact.program is not claim.program:
                raise RuleRefusedError(f"lemma {fact.id} is about {fact.program.name}, not about {claim.program.name}")
            for condition in fact.given:
                if not is_equation(condition):
                    raise RuleRefusedError(f"lemma {fact.id} is proved only where {condition}, not for all its indices")
                if condition not in claim.given:
                    raise RuleRefusedError(f"lemma {fact.id} assumes {condition}, which {claim.id} does not")
        chosen = dict(self._checked())
        known = [
            Eq(substitute(fact.left, chosen), substitute(written_in(fact.right, claim.program), chosen), evaluate=False)
            for fact in self.facts
        ]
        # Only the names that the lemmas are about are left to be rewritten.
        kept = frozenset(symbol for fact in self.facts for symbol in symbols_of(fact.left))
        sides = [inline(side, claim.program, kept) for side in (claim.left, claim.right)]
        used = equality(claim, "the claim, from the lemmas", *sides, given=known, by=self.then)
        return [*(replace(fact, name=f"lemma {fact.id}", assuming=()) for fact in self.facts), used]

    def _checked(self) -> tuple[tuple[Index, Expr], ...]:
        """The values that indices are given, each in the range of its index."""
        for index, value in self.at:
            inside = extent_of(value)
            spare = None if inside is None else index.extent - inside
            if value != 0 and not (isinstance(spare, sympy.Integer) and spare >= 0):
                raise RuleRefusedError(f"{index} = {value}: {value} may lie outside the range {index.extent}")
        return self.at

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """What the lemmas assume in words."""
        return [text for fact in self.facts for text in fact.assuming]

"""Inequalities from inequalities: nonnegative combinations of hypotheses, and bounds of absolute values.

`Combination` proves a >= b from hypotheses c >= d by a certificate: a - b = Sum weight (c - d) + rest, with weights and
rest at least 0 by structure. That the two sides are equal is an obligation; finding the weights is the author's art.
`Absolute` proves |e| <= b by two certificates, for b - e and for b + e, which is the triangle inequality and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import sympy
from sympy import Add, Expr, S

from derive.binders import symbols_of
from derive.gradient import inline
from derive.program import Program
from derive.rules import RuleRefusedError, check_parts
from derive.rules.obligations import condition_of, equality, inequality_of, nonnegative, positive
from derive.statements import Claim

SOURCE = "the axioms of an ordered field"


@dataclass(frozen=True)
class Bound:
    """A hypothesis c >= d that is used with a weight; of |e| <= c, the half c - sign * e >= 0."""

    condition: Any
    weight: Expr = S.One
    sign: int = 1

    @property
    def gap(self) -> Expr:
        """What the hypothesis says is at least 0."""
        stated = inequality_of(self.condition)
        if isinstance(stated.smaller, sympy.Abs) and self.sign in (1, -1):
            return stated.larger - self.sign * stated.smaller.args[0]
        return stated.gap


@dataclass(frozen=True)
class Combination:
    """a >= b (or a > b, with a positive rest) because a - b = Sum weight * gap + rest over the bounds."""

    bounds: tuple[Bound, ...] = ()
    rest: Expr = S.Zero
    name: ClassVar[str] = "combination of inequalities"
    statement: ClassVar[str] = "a sum of products of quantities that are at least 0 is at least 0"
    source: ClassVar[str] = SOURCE

    def __post_init__(self) -> None:
        check_parts("Combination", Bound, self.bounds)

    @property
    def total(self) -> Expr:
        """The certificate, which is at least 0."""
        return Add(*(bound.weight * bound.gap for bound in self.bounds), S(self.rest))

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That the gap of the claim equals the certificate.

        Raises:
            RuleRefusedError: the claim is no inequality, a bound is no hypothesis of it, or the sign of a weight or of
                the rest does not show.
        """
        stated = inequality_of(condition_of(claim))
        self.facts(claim, strict=stated.strict)
        return [self.equal_to(claim, "the gap is the combination of the hypotheses", stated.gap)]

    def equal_to(self, claim: Claim, what: str, gap: Expr) -> Claim:
        """The obligation that the gap equals the certificate, names written in that the gap does not mention."""
        return equality(claim, what, gap, inline(self.total, claim.program, symbols_of(gap)))

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """The declarations that the signs rest on."""
        return self.facts(claim, strict=inequality_of(condition_of(claim)).strict)

    def facts(self, claim: Claim, *, strict: bool) -> list[str]:
        """The declarations that make the certificate at least 0, or positive.

        Raises:
            RuleRefusedError: a bound is no hypothesis of the claim, or a sign does not show.
        """
        return [*self._weights(claim), *self._rest(claim.program, strict=strict)]

    def _weights(self, claim: Claim) -> list[str]:
        found: list[str] = []
        for bound in self.bounds:
            if bound.condition not in claim.given:
                given = ", ".join(map(str, claim.given)) or "nothing"
                raise RuleRefusedError(f"{bound.condition} is not among the hypotheses; given is {given}")
            found += nonnegative(bound.weight, claim.program, f"the weight of {bound.condition}")
        return found

    def _rest(self, program: Program, *, strict: bool) -> list[str]:
        return (positive if strict else nonnegative)(self.rest, program, "the rest")


@dataclass(frozen=True)
class Absolute:
    """|e| <= b because b - e equals the combination `above` and b + e the combination `below`."""

    above: Combination
    below: Combination
    name: ClassVar[str] = "bound of an absolute value"
    statement: ClassVar[str] = "-b <= e <= b implies |e| <= b"
    source: ClassVar[str] = SOURCE

    def __post_init__(self) -> None:
        check_parts("Absolute", Combination, (self.above, self.below))

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That b - e and b + e are the two combinations.

        Raises:
            RuleRefusedError: the claim is not |e| <= b, a bound is no hypothesis of it, or a sign does not show.
        """
        stated = inequality_of(condition_of(claim))
        if not isinstance(stated.smaller, sympy.Abs):
            raise RuleRefusedError(f"expected a claim |e| <= b, found {condition_of(claim)}")
        self.hypotheses(claim)
        (inside,) = stated.smaller.args
        return [
            self.above.equal_to(claim, "b - e is the first combination", stated.larger - inside),
            self.below.equal_to(claim, "b + e is the second combination", stated.larger + inside),
        ]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """The declarations that the signs rest on."""
        strict = inequality_of(condition_of(claim)).strict
        return [*self.above.facts(claim, strict=strict), *self.below.facts(claim, strict=strict)]

"""Nonnegative by structure: a square, an exponential, a product or sum of such is at least 0.

The rule for inequalities without hypotheses. The claim a >= b is reduced to one equality, a - b = form, where the
structure of `form` shows its sign: x^2 + y^2 >= 2 x y because the gap is (x - y)^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr

from derive.rules.obligations import condition_of, equality, inequality_of, nonnegative, positive
from derive.statements import Claim


@dataclass(frozen=True)
class Squares:
    """a >= b (or a > b) because a - b equals `form`, whose structure shows that it is at least 0 (or positive)."""

    form: Expr
    name: ClassVar[str] = "nonnegative by structure"
    statement: ClassVar[str] = "sums and products of squares, exponentials and positive terms are at least 0"
    source: ClassVar[str] = "the axioms of an ordered field"

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That a - b equals the form.

        Raises:
            RuleRefusedError: the claim is no inequality, or the sign of the form does not show.
        """
        stated = inequality_of(condition_of(claim))
        self.hypotheses(claim)
        return [equality(claim, f"the gap is {self.form}", stated.gap, self.form)]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """The declarations that the sign rests on."""
        strict = inequality_of(condition_of(claim)).strict
        return (positive if strict else nonnegative)(self.form, claim.program, "the gap")

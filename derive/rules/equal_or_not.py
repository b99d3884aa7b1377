"""Two numbers are equal or not: a claim that compares them holds if it holds either way.

As an equality, s = 1 is solved for s and written in, also inside of functions, which the cases of a bracket are not: in
log(s exp(y) + (1 - s) exp(where(s != 1, x, y))) one of the terms is gone where s = 1. `derive.prove` tries it where
nothing else proves or refutes a claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import sympy
from sympy import Eq, Expr, Ne

from derive.binders import free_indices, leaves_of
from derive.language import Scalar
from derive.operators import OverInput
from derive.rules import RuleRefusedError
from derive.rules.obligations import equality
from derive.statements import Claim
from derive.ties import comparisons_of


@dataclass(frozen=True)
class EqualOrNot:
    """The claim holds because it holds where two numbers are equal, and where they are not."""

    left: Expr
    right: Expr
    name: ClassVar[str] = "two numbers are equal or not"
    statement: ClassVar[str] = "what holds where s = r, and where s != r, holds for all numbers s and r"
    source: ClassVar[str] = "propositional logic"

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """The claim where the numbers are equal, and where they are not.

        Raises:
            RuleRefusedError: one of them is no number but an entry, for as a hypothesis their equality would stand for
                all of its indices; or a number varies in the claim, under a limit, or in what was differentiated.
        """
        if not _is_number(self.left) or not _is_number(self.right):
            raise RuleRefusedError(f"expected two numbers without an index, found {self.left} and {self.right}")
        bodies = (claim.left, claim.right, *(definition.body for definition in claim.program.definitions))
        if sympy.Tuple(*bodies).has(OverInput) or comparisons_of(claim):
            raise RuleRefusedError("a number may vary in the claim, under a limit or where it is differentiated")
        return [
            equality(claim, f"the claim where {case.lhs} {relation} {case.rhs}", claim.left, claim.right, given=[case])
            for case, relation in ((Eq(self.left, self.right), "="), (Ne(self.left, self.right), "!="))
        ]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """None."""
        return []


def numbers_compared(claim: Claim) -> Iterator[EqualOrNot]:
    """The rule for each two numbers that the claim compares for equality."""
    compared = sympy.Tuple(claim.left, claim.right).atoms(Eq, Ne)
    known = {part for condition in claim.given for part in (condition, sympy.Not(condition))}
    for condition in sorted(compared - known, key=sympy.default_sort_key):
        if _is_number(condition.lhs) and _is_number(condition.rhs):
            yield EqualOrNot(condition.lhs, condition.rhs)


def _is_number(value: Any) -> bool:
    """Whether a value is made of numbers alone, given ones and others."""
    leaves = leaves_of(value)
    return isinstance(value, Expr) and not free_indices(value) and all(isinstance(leaf, Scalar) for leaf in leaves)

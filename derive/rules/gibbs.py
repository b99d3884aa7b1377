"""Gibbs' inequality: the Kullback-Leibler divergence of two distributions is at least 0, and 0 only when they agree.

`Gibbs` decides claims D >= 0 (or a >= b with a - b = D), `GibbsEquality` the claim that D = 0 exactly when p = q, for
D = Sum p log(p/q). What is checked: p and q are positive by declaration or structure, and both sum to 1; the sums are
obligations, so that a hypothesis Sum(q) = 1 is used like any other, and a softmax needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sympy import Eq, Expr, log

from derive.language import Index, Product, Sum, iverson
from derive.rules import RuleRefusedError
from derive.rules.obligations import condition_of, equality, inequality_of, positive, sides_are
from derive.statements import Claim

SOURCE = "Cover and Thomas 2006, theorem 2.6.3 (from log x <= x - 1, with equality only at x = 1)"


@dataclass(frozen=True)
class Gibbs:
    """Sum p log(p/q) >= 0 for distributions p and q over the index `over`."""

    p: Expr
    q: Expr
    over: Index
    name: ClassVar[str] = "Gibbs' inequality"
    statement: ClassVar[str] = "p, q > 0 and Sum p = Sum q = 1 imply Sum p log(p/q) >= 0"
    source: ClassVar[str] = SOURCE

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That the claim says a >= b with a - b = Sum p log(p/q), and that p and q sum to 1.

        Raises:
            RuleRefusedError: the claim is no inequality, or a strict one, or p or q is not known to be positive.
        """
        stated = inequality_of(condition_of(claim))
        if stated.strict:
            raise RuleRefusedError("the divergence is 0 when p = q; expected a >= b, found a strict inequality")
        self.hypotheses(claim)
        gap = equality(claim, "the gap is Sum p log(p/q)", stated.gap, divergence(self.p, self.q, self.over))
        return [gap, *sum_to_one(claim, self.p, self.q, self.over)]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """The declarations that make p and q positive."""
        return [*positive(self.p, claim.program, "p"), *positive(self.q, claim.program, "q")]


@dataclass(frozen=True)
class GibbsEquality:
    """[Sum p log(p/q) = 0] = Product [p = q] for distributions p and q over the index `over`."""

    p: Expr
    q: Expr
    over: Index
    name: ClassVar[str] = "equality in Gibbs' inequality"
    statement: ClassVar[str] = "p, q > 0 and Sum p = Sum q = 1 imply that Sum p log(p/q) = 0 exactly when p = q"
    source: ClassVar[str] = SOURCE

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That the claim's sides are [Sum p log(p/q) = 0] and Product [p = q], and that p and q sum to 1.

        Raises:
            RuleRefusedError: p or q is not known to be positive.
        """
        self.hypotheses(claim)
        vanishes = iverson(Eq(divergence(self.p, self.q, self.over), 0))
        agree = Product(iverson(Eq(self.p, self.q)), self.over)
        return [*sides_are(claim, vanishes, agree), *sum_to_one(claim, self.p, self.q, self.over)]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """The declarations that make p and q positive."""
        return [*positive(self.p, claim.program, "p"), *positive(self.q, claim.program, "q")]


def divergence(p: Expr, q: Expr, over: Index) -> Expr:
    """The Kullback-Leibler divergence, Sum p log(p/q)."""
    return Sum(p * log(p / q), over)


def sum_to_one(claim: Claim, p: Expr, q: Expr, over: Index) -> list[Claim]:
    """The obligations that p and q sum to 1."""
    return [equality(claim, f"{part} sums to 1 over {over}", Sum(part, over), 1) for part in (p, q)]

"""Expansion to first order: a smooth function is its value at 0 plus the input times its slope at 0, up to O(eta^2).

The node `first_order(body, eta=eta)` is that expansion; the rule works it out by differentiating the body, through all
definitions that depend on eta, and leaves the equality with the claimed expansion as the obligation. What is checked is
that the body is smooth around 0, because a kink there has no expansion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sympy import Add, S, nan, oo, zoo

from derive.binders import substitute
from derive.differentiation import placed, pull_back
from derive.gradient import influenced_by, inline
from derive.language import Scalar
from derive.operators import FirstOrder
from derive.rules import RuleRefusedError
from derive.rules.obligations import check_unconditional, equality, operator_and_value, written_in
from derive.rules.smoothness import check_smooth
from derive.statements import Claim


@dataclass(frozen=True)
class TaylorExpansion:
    """first_order(body, eta) = value for a body that is smooth in eta around 0."""

    name: ClassVar[str] = "expansion to first order"
    statement: ClassVar[str] = (
        "a function f that is twice continuously differentiable around 0 is f(0) + eta f'(0) + O(eta^2)"
    )
    source: ClassVar[str] = "Taylor's theorem; Rudin 1976, theorem 5.15"

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That the value of the body at 0, plus eta times its slope there, is what is claimed.

        Raises:
            RuleRefusedError: the claim is not first_order(body, eta) = value, a condition is about eta, or the body is
                not known to be smooth around 0, or has no value there.
        """
        node, value = operator_and_value(claim, FirstOrder, "first_order(body, eta)")
        eta: Scalar = node.inputs[0]
        check_unconditional(claim, node.inputs)
        check_smooth(written_in(node.body, claim.program), eta, open_domain=True)
        changing = influenced_by(claim.program, [eta])
        # What does not depend on eta keeps its name: the obligation is then about as large as the statement.
        constant = frozenset(d.symbol for d in claim.program.definitions if d.symbol not in changing)
        body = inline(node.body, claim.program, constant)
        slope = Add(*(placed(found, ()) for found in pull_back(body, S.One, (), lambda leaf: leaf == eta)))
        at_zero = {eta: S.Zero}
        expanded = substitute(body, at_zero) + eta * substitute(slope, at_zero)
        if expanded.has(nan, zoo, oo, -oo):
            raise RuleRefusedError(f"{node.body} has no value, or no slope, at {eta} = 0")
        return [equality(claim, "the expansion worked out", expanded, value)]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """That the input is small."""
        node, _ = operator_and_value(claim, FirstOrder, "first_order(body, eta)")
        return [f"up to O({node.inputs[0]}^2) as {node.inputs[0]} tends to 0"]

"""Induction on a position: two sequences that agree at 0 and have the same differences agree everywhere.

For a claim left[j] = right[j] with j over n + 1, the obligations are left[0] = right[0] and, for t over n,
left[t + 1] - left[t] = right[t + 1] - right[t], or the same with a factor beside left[t] and right[t]. Sums that end at
j lose all but one term that way, so that telescoping needs no closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import sympy
from sympy import Expr, Indexed, S

from derive.binders import all_names, free_indices, fresh_index, substitute
from derive.gradient import inline
from derive.language import Dim, Index, Scalar
from derive.rules import RuleRefusedError
from derive.rules.obligations import equality, written_in
from derive.statements import Claim
from derive.wellformed import is_equation


@dataclass(frozen=True)
class Induction:
    """The claim holds for all values of the index `over`, whose range is n + 1, by induction on it.

    With a `factor`, which may depend on `over`, left - right is multiplied by it from one position to the next: x[t +
    1] = s x[t] and s^(t + 1) = s s^t.
    """

    over: Index
    factor: Expr = S.One
    name: ClassVar[str] = "induction"
    statement: ClassVar[str] = (
        "sequences that agree at 0 and have the same differences agree everywhere, and so do those whose distance is "
        "multiplied by a factor from one position to the next"
    )
    source: ClassVar[str] = "Peano's axiom of induction"

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That the sides agree at 0, and that their differences do at every step.

        Raises:
            RuleRefusedError: the index is not free in the claim, its range is not n + 1, or a condition mentions it
                that holds at single indices only.
        """
        free = free_indices(claim.left) | free_indices(claim.right)
        if self.over not in free:
            raise RuleRefusedError(f"the index {self.over} is not free in {claim}")
        for condition in claim.given:
            if self.over in free_indices(condition) and not is_equation(condition):
                raise RuleRefusedError(f"the condition {condition} restricts the index {self.over} of the induction")
        before = step_index(self.over, claim, self._factor(claim))
        sides = [inline(side, claim.program) for side in (claim.left, claim.right)]
        start = [substitute(side, {self.over: sympy.S.Zero}) for side in sides]
        factor = substitute(self._factor(claim), {self.over: before})
        rise = [
            substitute(side, {self.over: before + 1}) - factor * substitute(side, {self.over: before}) for side in sides
        ]
        return [
            equality(claim, f"the claim at {self.over} = 0", *start),
            equality(claim, f"the step from {before} to {before + 1}", *rise),
        ]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """None."""
        return []

    def _factor(self, claim: Claim) -> Any:
        """The factor, which has to have a value wherever the claim has one: a step without one would say nothing.

        Raises:
            RuleRefusedError: it is no polynomial in numbers, entries and exponentials.
        """
        factor = written_in(sympy.sympify(self.factor, strict=True), claim.program)
        if not _has_a_value(factor):
            raise RuleRefusedError(f"the factor {self.factor} may have no value; expected a polynomial")
        if free_indices(factor) - {self.over, *free_indices(claim.left), *free_indices(claim.right)}:
            raise RuleRefusedError(f"the factor {self.factor} has an index that the claim does not have")
        return factor


def _has_a_value(node: Any) -> bool:
    """Whether the structure of an expression shows that it has a value whatever its numbers are."""
    if isinstance(node, Indexed):
        return all(isinstance(part, Index) for part in node.indices)
    if isinstance(node, sympy.Pow):
        return bool(node.exp.is_Integer and node.exp > 0) and _has_a_value(node.base)
    if isinstance(node, (sympy.Add, sympy.Mul, sympy.exp)):
        return all(map(_has_a_value, node.args))
    return isinstance(node, (sympy.Rational, Scalar, Dim, Index))


def step_index(over: Index, claim: Claim, beside: Any = S.One) -> Index:
    """An index with a fresh name over n, for one over n + 1.

    Raises:
        RuleRefusedError: the range is of another form.
    """
    extent: Any = over.extent - 1
    if not (isinstance(extent, Dim) or (extent.is_Integer and extent > 0)):
        raise RuleRefusedError(f"expected an index over a size plus one, found {over} over {over.extent}")
    taken = (
        all_names(sympy.Tuple(claim.left, claim.right, beside, *claim.given))
        | claim.program.declared_names()
        | {over.name}
    )
    return fresh_index(Index(over.name, extent), taken)

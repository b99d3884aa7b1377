"""How rules read a claim and how they write their obligations.

Shared by the rules of this folder. An inequality is claimed as "its bracket equals 1"; `inequality_of` reads it back.
An obligation is a claim about the same program under the same conditions, with further ones where a rule allows it.
`nonnegative` and `positive` ask the structure of an expression for its sign, with all definitions written in, and
refuse when it does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import sympy
from sympy import Expr

from derive.functions import unfold
from derive.gradient import inline
from derive.language import is_bracket
from derive.normal.signs import Facts, reasons_nonnegative, reasons_positive
from derive.program import Program
from derive.rules import Rule, RuleRefusedError
from derive.statements import Claim

Operator = TypeVar("Operator", bound=Expr)


@dataclass(frozen=True)
class Inequality:
    """larger >= smaller, or larger > smaller when `strict`."""

    larger: Expr
    smaller: Expr
    strict: bool

    @property
    def gap(self) -> Expr:
        """By how much the larger side exceeds the smaller."""
        return self.larger - self.smaller


def equality(
    claim: Claim, what: str, left: Any, right: Any, *, given: Sequence[Any] = (), by: Rule | None = None
) -> Claim:
    """The obligation left = right, called `what`, under the claim's conditions and the further ones `given`."""
    sides = sympy.sympify(left, strict=True), sympy.sympify(right, strict=True)
    return replace(
        claim, name=what, left=sides[0], right=sides[1], given=(*claim.given, *given), by=by, note="", assuming=()
    )


def sides_are(claim: Claim, first: Any, second: Any) -> list[Claim]:
    """The obligations that the claim's two sides are these two, in either order."""
    swapped = claim.left == second or claim.right == first
    first, second = (second, first) if swapped else (first, second)
    return [
        equality(claim, f"the left side is {first}", claim.left, first),
        equality(claim, f"the right side is {second}", claim.right, second),
    ]


def operator_and_value(claim: Claim, kind: type[Operator], form: str) -> tuple[Operator, Any]:
    """The two sides of a claim operator(...) = value; `form` shows how it is written.

    Raises:
        RuleRefusedError: the claim is of another form.
    """
    for side, other in ((claim.left, claim.right), (claim.right, claim.left)):
        if isinstance(side, kind) and not other.has(kind):
            return side, other
    raise RuleRefusedError(f"expected a claim {form} = value, found {claim}")


def check_unconditional(claim: Claim, inputs: Sequence[Any]) -> None:
    """Refuse where a condition of the claim is about an input that an operator makes its own.

    The condition speaks of one value of the input, the operator of all of them.

    Raises:
        RuleRefusedError: a condition mentions such an input, itself or through a definition.
    """
    for condition in claim.given:
        for known in inputs:
            if written_in(condition, claim.program).has(known):
                raise RuleRefusedError(f"the condition {condition} is about {known.name}, which the operator varies")


def condition_of(claim: Claim) -> Any:
    """The condition that the claim says holds.

    Raises:
        RuleRefusedError: the claim is of another form.
    """
    for bracket, one in ((claim.left, claim.right), (claim.right, claim.left)):
        if is_bracket(bracket) and one == 1:
            return bracket.args[0]
    raise RuleRefusedError(f"expected a claim that a condition holds, [a >= b] = 1, found {claim}")


def inequality_of(condition: Any) -> Inequality:
    """The two sides of a comparison.

    Raises:
        RuleRefusedError: the condition is no comparison by size.
    """
    if not isinstance(condition, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)):
        raise RuleRefusedError(f"expected a comparison a >= b, a > b, a <= b or a < b, found {condition}")
    return Inequality(condition.gts, condition.lts, isinstance(condition, (sympy.Gt, sympy.Lt)))


def written_in(expression: Any, program: Program) -> Any:
    """The expression with all of the program's definitions, and all functions', written in."""
    return unfold(inline(expression, program))


def positive(expression: Any, program: Program, what: str) -> list[str]:
    """The declarations that make the expression positive.

    Raises:
        RuleRefusedError: its structure does not show that it is.
    """
    return _declared(reasons_positive, expression, program, what, "positive")


def nonnegative(expression: Any, program: Program, what: str) -> list[str]:
    """The declarations that make the expression at least 0.

    Raises:
        RuleRefusedError: its structure does not show that it is.
    """
    return _declared(reasons_nonnegative, expression, program, what, "at least 0")


def _declared(
    reasons: Callable[[Any], Facts | None], expression: Any, program: Program, what: str, sign: str
) -> list[str]:
    """The declarations that give the expression its sign, by its structure with all definitions written in."""
    facts = reasons(written_in(sympy.sympify(expression, strict=True), program))
    if facts is None:
        raise RuleRefusedError(
            f"{what}: {expression} is not known to be {sign}; declare its parts with positive=True, or write it as "
            "a sum of squares, exponentials and positive terms"
        )
    return sorted(facts)

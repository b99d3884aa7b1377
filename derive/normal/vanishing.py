"""Equational hypotheses that no rewrite expresses: what is zero by them, and what follows from that.

Beside `derive.normal.rewriting`. Of x[i]^2 + u[i]^2 = 1 no term stands alone, so that nothing can be put in its place;
but whatever is a combination of such differences is zero as well. Polynomial division finds it: the leading term is
cancelled by a multiple of what is zero, as long as one can be made. Every step subtracts a product with zero, so that
an unlucky order of terms can miss a combination and cannot make one up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derive.normal import products, renaming
from derive.normal.ledger import Ledger
from derive.normal.rewriting import instances, parts_in, resting, variables_in
from derive.normal.terms import UNIT, Monomial, Polynomial, Var, ratio

MOST_STEPS = 50


@dataclass(frozen=True)
class Vanishing:
    """difference = 0, for all values of `variables`; `text` is how the statement wrote it."""

    difference: Polynomial
    variables: tuple[Var, ...]
    text: str


def vanishing(difference: Polynomial, text: str) -> Vanishing:
    """What a hypothesis says to be zero, for all values of its free indices."""
    return Vanishing(difference, variables_in(parts_in(difference), difference.free), text)


def follows(ledger: Ledger, polynomial: Polynomial, zeros: Sequence[Vanishing]) -> bool:
    """Whether division by what is zero leaves nothing of a polynomial."""
    used: dict[str, None] = {}
    for _ in range(MOST_STEPS if zeros else 0):
        if polynomial.is_zero:
            for text in used:
                ledger.use(f"hypothesis {text}")
            return True
        step = _without_leading_term(ledger, polynomial, zeros)
        if step is None:
            return False
        polynomial = step[0]
        used[step[1]] = None
    return False


def _without_leading_term(
    ledger: Ledger, polynomial: Polynomial, zeros: Sequence[Vanishing]
) -> tuple[Polynomial, str] | None:
    """The polynomial less a multiple of what is zero, and by which hypothesis it is; None where none cancels."""
    lead, c = products.leading_term(polynomial)
    if lead == UNIT:
        return None
    for zero in zeros:
        for names in instances(zero.variables, parts_in(polynomial)):
            with resting(ledger):
                instance = renaming.renamed(ledger, zero.difference, names)
            head, d = products.leading_term(instance)
            rest = _divided(lead, head) if head != UNIT else None
            if rest is not None:
                multiple = products.normal_monomial(ledger, ratio(c, d), rest)
                return polynomial - products.product(ledger, [multiple, instance]), zero.text
    return None


def _divided(monomial: Monomial, by: Monomial) -> Monomial | None:
    """The quotient of monomials, None where it would divide by a factor that is not there."""
    powers = dict(monomial)
    for atom, power in by:
        if atom not in powers or not 0 < power <= powers[atom]:
            return None
        powers[atom] -= power
    return tuple((atom, power) for atom, power in powers.items() if power)

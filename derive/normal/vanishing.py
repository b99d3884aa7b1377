"""Equational hypotheses that no rewrite expresses: what is zero by them, and what follows from that.

Beside `derive.normal.rewriting`. Of x[i]^2 + u[i]^2 = 1 no term stands alone, so that nothing can be put in its place;
but whatever is a combination of such differences is zero as well. Polynomial division finds it: a term that the leading
one goes into is cancelled by a multiple of what is zero. Every step subtracts a product with zero, so that an unlucky
order of terms can miss a combination and cannot make one up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derive.normal import products, renaming
from derive.normal.ledger import Ledger
from derive.normal.rewriting import instances, parts_in, resting, variables_in
from derive.normal.terms import UNIT, Polynomial, Var, ratio, total

MOST_DIVISIONS = 50  # of one polynomial by another
MOST_ROUNDS = 6  # through all that is zero


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
    for _ in range(MOST_ROUNDS):
        before = polynomial
        for zero in zeros:
            for names in instances(zero.variables, parts_in(polynomial)):
                with resting(ledger):
                    instance = renaming.renamed(ledger, zero.difference, names)
                rest = remainder(ledger, polynomial, instance)
                if rest is not polynomial:
                    used[zero.text] = None
                    polynomial = rest
        if polynomial.is_zero:
            for text in used:
                ledger.use(f"hypothesis {text}")
            return True
        if polynomial is before:
            break
    return False


def remainder(ledger: Ledger, polynomial: Polynomial, divisor: Polynomial) -> Polynomial:
    """What is left of a polynomial when the divisor is 0, by its leading term."""
    lead, c = products.leading_term(divisor)
    if lead == UNIT:
        return polynomial
    rest = Polynomial({m: ratio(-d, c) for m, d in divisor.terms.items() if m != lead})
    for _ in range(MOST_DIVISIONS):
        for monomial, coefficient in polynomial.ordered():
            have = dict(monomial)
            if all(have.get(atom, 0) >= power for atom, power in lead):
                others = products.normal_monomial(ledger, coefficient, (*monomial, *((a, -e) for a, e in lead)))
                gone = Polynomial({monomial: -coefficient})
                polynomial = total((polynomial, gone, products.product(ledger, [others, rest])))
                break
        else:
            break
    return polynomial

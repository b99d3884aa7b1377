"""Equational hypotheses that no rewrite expresses: what is zero by them, and what follows from that.

Beside `derive.normal.rewriting`. Of x[i]^2 + u[i]^2 = 1 no term stands alone, so that nothing can be put in its place;
but whatever is a combination of such differences is zero as well. Polynomial division finds it: a term that the leading
one goes into is cancelled by a multiple of what is zero. Every step subtracts a product with zero, so that an unlucky
order of terms can miss a combination and cannot make one up.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.normal import products, renaming
from derive.normal.ledger import Ledger
from derive.normal.rewriting import instances, parts_in, resting, variables_in
from derive.normal.terms import UNIT, Entry, Monomial, Polynomial, Rational, Var, ratio, total

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


def follows(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether division by what is zero leaves nothing of a polynomial."""
    return bool(ledger.zeros) and reduced(ledger, polynomial).is_zero


def reduced(ledger: Ledger, polynomial: Polynomial) -> Polynomial:
    """What division by all that is zero leaves of a polynomial: the body of a sum, or the whole at last."""
    zeros, ledger.zeros = ledger.zeros, ()
    try:
        for _ in range(MOST_ROUNDS):
            before = polynomial
            for zero in zeros:
                polynomial = _reduced_by(ledger, polynomial, zero)
            if polynomial is before:
                break
    finally:
        ledger.zeros = zeros
    return polynomial


def _reduced_by(ledger: Ledger, polynomial: Polynomial, zero: Vanishing) -> Polynomial:
    for names in instances(zero.variables, parts_in(polynomial)):
        with resting(ledger):
            instance = renaming.renamed(ledger, zero.difference, names)
        rest = remainder(ledger, polynomial, instance)
        if rest is not polynomial:
            ledger.use(f"hypothesis {zero.text}")
            polynomial = rest
    return polynomial


def _lead(divisor: Polynomial) -> tuple[Monomial, Rational]:
    """The term with the most entries, if it is one: of x[i] u[i] = s x[i] the first: no sum has s inside."""
    counts = {m: sum(e for atom, e in m if isinstance(atom, Entry) and atom.where) for m in divisor.terms}
    most = [m for m, count in counts.items() if count == max(counts.values())]
    return (most[0], divisor.terms[most[0]]) if len(most) == 1 else products.leading_term(divisor)


def remainder(ledger: Ledger, polynomial: Polynomial, divisor: Polynomial) -> Polynomial:
    """What is left of a polynomial when the divisor is 0, by its leading term."""
    lead, c = _lead(divisor)
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

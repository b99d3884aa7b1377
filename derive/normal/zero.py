"""Whether a normal polynomial is zero: the question that every proof ends in.

What the normal form leaves open about quotients is settled by a common denominator: the whole is multiplied by every
base that still stands under a negative power. Where that is not enough, an index of a short range is taken position by
position, and functions in pieces are taken case by case (`derive.normal.case_analysis`).
"""

from __future__ import annotations

import math

from derive.normal import case_analysis, deltas, positivity, products, renaming, rewriting
from derive.normal.ledger import Ledger
from derive.normal.terms import Atom, Base, Fixed, Polynomial, Var, from_atom, total

MAX_ROUNDS = 6  # of clearing denominators; each one that does something removes the outermost level of quotients


def is_zero(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether a normal polynomial is zero, after bringing it to a common denominator."""
    for _ in range(MAX_ROUNDS):
        if polynomial.is_zero:
            return True
        cleared = _cleared(ledger, polynomial)
        if cleared is None:
            return _is_zero_everywhere(ledger, polynomial) or case_analysis.is_zero_by_cases(ledger, polynomial)
        ledger.use("common denominator")
        polynomial = cleared
    return polynomial.is_zero


def _is_zero_everywhere(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether a polynomial is zero at each position of a free index with a short range; False without such an index."""
    atoms = set(rewriting.parts_in(polynomial))
    short = [atom for atom in atoms if isinstance(atom, Var) and deltas.is_short(atom.extent)]
    index = min((atom for atom in short if atom.name in polynomial.free), key=lambda atom: atom.key, default=None)
    if index is None:
        return False
    ledger.use("an index of a short range, position by position")
    places = range(int(index.extent.constant() or 0))
    return all(is_zero(ledger, renaming.renamed(ledger, polynomial, {index.name: Fixed(place)})) for place in places)


def _cleared(ledger: Ledger, polynomial: Polynomial) -> Polynomial | None:
    """The polynomial times every base it is divided by; None when it is divided by none.

    Multiplying by B^k loses nothing where B != 0, and B != 0 wherever B^-k has a value. A sine counts as a base,
    because its square is written with the cosine.
    """
    lowest: dict[Atom, int] = {}
    for monomial in polynomial.terms:
        for atom, power in monomial:
            if (isinstance(atom, Base) or products.is_sine(atom)) and power < 0:
                lowest[atom] = min(lowest.get(atom, 0), math.floor(power))
    for base in sorted(lowest, key=lambda atom: atom.key):
        if ledger.partial and not base.positive:  # a base that was divided by in some branches now is in all
            positivity.assume(ledger, base.inside if isinstance(base, Base) else from_atom(base), "!= 0")
        # Each exponent is lifted before anything is multiplied out, so that no quotient is reduced half-way.
        terms = []
        for monomial, coefficient in polynomial.ordered():
            powers_ = dict(monomial)
            powers_[base] = powers_.get(base, 0) - lowest[base]
            terms.append(products.normal_monomial(ledger, coefficient, powers_.items()))
        polynomial = total(terms)
    return polynomial if lowest else None

"""Positivity: what declarations and structure say about the signs of atoms and polynomials, and what is assumed.

Used by the laws of `derive.normal` that have a side condition: a root, a logarithm, a quotient. "Not known" is a good
answer, for then the condition is recorded in the ledger (`assume`), unless the branch that is being read makes sure of
it.
"""

from __future__ import annotations

from derive.normal import products, ranges
from derive.normal.ledger import Ledger, UndefinedError
from derive.normal.terms import (
    ONE,
    UNITY,
    Atom,
    Base,
    Entry,
    Exponent,
    Log,
    Monomial,
    Polynomial,
    Total,
    from_atom,
    is_idempotent,
    parts_of,
)


def is_root(atom: Atom, power: Exponent) -> bool:
    """Whether atom^power is a root, of which the base cannot be negative."""
    return isinstance(atom, Base) and power.denominator != 1


def factor_is_positive(atom: Atom, power: Exponent) -> bool:
    """Whether atom^power is positive wherever it is defined and the hypotheses hold."""
    return atom.positive or (is_root(atom, power) and power < 0)


def factor_is_nonnegative(atom: Atom, power: Exponent) -> bool:
    """Whether atom^power is at least 0 wherever it is defined."""
    even = power.denominator == 1 and power.numerator % 2 == 0
    if factor_is_positive(atom, power) or is_root(atom, power) or even or is_idempotent(atom):
        return True
    return isinstance(atom, Total) and all(factor_is_nonnegative(inner, e) for inner, e in atom.monomial)


def monomial_is_positive(monomial: Monomial) -> bool:
    """Whether every factor is positive."""
    return all(factor_is_positive(atom, power) for atom, power in monomial)


def sign_of(ledger: Ledger, atom: Atom, *, strict: bool = True) -> int:
    """1 where something says that an atom is positive, -1 where it says so of its opposite, else 0.

    Where it need not be `strict`, what is at least 0 will do. It may be a declaration, a hypothesis, the branch that is
    being read, or that a side of the claim has a value: what the ledger has of that is true wherever both have one.
    """
    if factor_is_positive(atom, ONE):
        return 1
    known = ledger.known_positive | ledger.valued[0] | (set() if strict else ledger.valued[1])
    for sign in (1, -1):
        signed = from_atom(atom).scaled(sign)
        # What is renamed is remembered for all branches.
        if signed.key in known or (not ledger.muted and is_positive_here(ledger, signed)):
            return sign
    return 0


def is_nonnegative(polynomial: Polynomial) -> bool:
    """Whether no term of the polynomial can be negative."""
    return all(c > 0 and all(factor_is_nonnegative(a, e) for a, e in m) for m, c in polynomial.terms.items())


def is_positive(polynomial: Polynomial) -> bool:
    """Whether the polynomial is positive: no term can be negative, and one is positive."""
    return is_nonnegative(polynomial) and any(monomial_is_positive(monomial) for monomial in polynomial.terms)


def note_positive(ledger: Ledger, monomial: Monomial) -> None:
    """Write down the declarations that a positivity rests on."""
    for atom, _ in monomial:
        if isinstance(atom, Entry) and atom.sign == "+":
            ledger.rest_on(f"{atom.name} >= 1" if atom.integer else f"{atom.name} > 0")
        elif isinstance(atom, Total):
            for var in atom.bound:
                ledger.rest_on(f"{var.extent.key} >= 1")
            note_positive(ledger, atom.monomial)
        elif isinstance(atom, Base):
            for inner in atom.inside.terms:
                note_positive(ledger, inner)


# ---------------------------------------------------------------------------------------------------------------------
# Conditions.


def assume(ledger: Ledger, polynomial: Polynomial, relation: str) -> None:
    """Record that a polynomial is "> 0", ">= 0" or "!= 0", unless the branch that is being read makes sure of it.

    Raises:
        UndefinedError: it never is.
    """
    never = polynomial.is_zero if relation == "!= 0" else is_positive(polynomial.scaled(-ONE))
    if never or (polynomial.is_zero and relation == "> 0"):
        raise UndefinedError(f"{polynomial.key} is never {relation}")
    if (relation == ">= 0" and is_nonnegative(polynomial)) or _is_known(ledger, polynomial, relation):
        return
    if ledger.muted or (products.is_integer_valued(polynomial) and _is_in_range(polynomial, relation)):
        return
    if ledger.branches and _is_met(ledger, polynomial, relation):
        ledger.partial = True
        return
    ledger.assume(relation, polynomial)


def _is_known(ledger: Ledger, polynomial: Polynomial, relation: str) -> bool:
    """Whether a hypothesis or the structure of the statement says that the polynomial is positive, or negative."""
    signs = (ONE, -ONE) if relation == "!= 0" else (ONE,)
    return any(polynomial.scaled(sign).key in ledger.known_positive for sign in signs)


def _is_in_range(polynomial: Polynomial, relation: str) -> bool:
    """Whether the ranges of indices and sizes imply the relation, for an integer polynomial."""
    lowest = ranges.least(polynomial)
    if relation == "!= 0" or lowest is None:
        return relation == "!= 0" and ranges.never_zero(polynomial)
    return lowest > 0 or (relation == ">= 0" and lowest == 0)


def assume_value(ledger: Ledger, polynomial: Polynomial) -> None:
    """Record what a polynomial that no part of the statement says needs to have a value."""
    for monomial in polynomial.terms:
        for atom, power_ in monomial:
            inside = atom.inside if isinstance(atom, (Base, Log)) else from_atom(atom)
            if isinstance(atom, Log):
                assume(ledger, inside, "!= 0" if atom.formal else "> 0")
            elif power_ < 0 and not factor_is_positive(atom, power_):
                assume(ledger, inside, "!= 0")
            for part in parts_of(atom):
                assume_value(ledger, part)


def is_positive_here(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether the branch that is being read makes sure that the polynomial is positive."""
    return bool(ledger.branches) and _is_met(ledger, polynomial, "> 0")


def _is_met(ledger: Ledger, polynomial: Polynomial, relation: str) -> bool:
    """Whether the conditions of the branches imply the relation."""
    from derive.normal import case_analysis, comparisons

    with ledger.unrecorded():
        above, below = (comparisons.bracket(ledger, polynomial.scaled(sign)) for sign in (ONE, -ONE))
        met = {"> 0": above, ">= 0": UNITY - below, "!= 0": above + below}[relation]
        here = products.product(ledger, [branch.form for branch in ledger.branches])
        if (here - products.product(ledger, [here, met])).is_zero:
            return True
    return case_analysis.is_implied(ledger, [branch.form for branch in ledger.branches], polynomial, relation)

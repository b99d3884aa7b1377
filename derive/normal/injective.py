"""Injective functions in equations: of exp(s) = exp(r) what is left is s = r, and of log(s) = log(r) too.

Used by `derive.equations`. SOUND: exp, log, erf and atan are strictly increasing where they have a value, and where an
equation holds both of its sides have one. So f(a) = f(b) says no more and no less than a = b; that a and b are positive
where f is log has been noted when the equation was read.
"""

from __future__ import annotations

from derive.normal import comparisons
from derive.normal.ledger import Ledger
from derive.normal.positivity import note_positive
from derive.normal.terms import Apply, Exp, Log, Polynomial

INCREASING = ("atan", "erf")


def without_functions(ledger: Ledger, difference: Polynomial) -> Polynomial | None:
    """What is 0 where a difference is, log a - log b or erf a - erf b: the difference a - b. None for any other."""
    if all(c in (1, -1) for c in difference.terms.values()) and not difference.is_zero:
        atoms = [monomial[0][0] for monomial in difference.terms if monomial]
        if not any(isinstance(atom, Log) and atom.formal for atom in atoms):
            found = comparisons.without_logs(ledger, difference) if len(atoms) == len(difference.terms) else None
            if found is not None:
                return found
    return _arguments(difference)


def _arguments(difference: Polynomial) -> Polynomial | None:
    """The difference of the arguments of a difference of two values of one function; None for any other."""
    terms = [(*monomial[0], c) for monomial, c in difference.ordered() if len(monomial) == 1]
    if len(terms) != 2 or len(difference.terms) != 2:
        return None
    (one, e, c), (other, f, d) = terms
    if not isinstance(one, Apply) or not isinstance(other, Apply) or one.function not in INCREASING:
        return None
    return one.argument - other.argument if one.function == other.function and e == f == 1 and c == -d else None


def without_exponentials(ledger: Ledger, difference: Polynomial) -> Polynomial | None:
    """What is 0 where a difference a - b of positive terms with exponentials is: log a - log b. None for any other."""
    if not any(isinstance(atom, Exp) and atom.positive for monomial in difference.terms for atom, _ in monomial):
        return None
    found = comparisons.as_logs(ledger, difference)
    for monomial in difference.terms if found is not None else ():
        note_positive(ledger, monomial)
    return found

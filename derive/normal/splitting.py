"""Splitting by cases: what a function of a polynomial with brackets is where a bracket holds, and where it does not.

f([c] x + y) = [c] f(x + y) + (1 - [c]) f(y), for every function f of `derive.normal`. Where f has no value in a case,
it is something of which nothing is known there (`NoValue`), so that only the bracket beside it removes it, and that the
other case holds is a condition of the result.
"""

from __future__ import annotations

from collections.abc import Callable

from derive.normal import deltas, positivity, products
from derive.normal.ledger import Ledger, UndefinedError
from derive.normal.terms import UNITY, Atom, Bracket, Delta, NoValue, Polynomial, from_atom, is_idempotent, total

NOWHERE = from_atom(NoValue())


def case_split(ledger: Ledger, argument: Polynomial, function: Callable[[Polynomial], Polynomial]) -> Polynomial | None:
    """f(argument) by cases on the first bracket in it; None when there is none, or no case has a value."""
    bracket = first_bracket(argument)
    if bracket is None:
        return None
    values = []
    forms, texts = forms_of(bracket), texts_of(bracket)
    for holds, form, text in zip((True, False), forms, texts, strict=True):
        with ledger.within(form, text):
            values.append(_value(ledger, function, argument, bracket, holds=holds))
    if all(value is NOWHERE for value in values):
        return None
    ledger.use("case split on a bracket")
    yes, no = values
    for value, form, other in zip(values, forms, reversed(texts), strict=True):
        if value is NOWHERE and not _is_excluded(ledger, form):
            ledger.assume(other)
    return products.product(ledger, [from_atom(bracket), yes - no]) + no


def _is_excluded(ledger: Ledger, form: Polynomial) -> bool:
    """Whether a case cannot occur in the branch that is being read."""
    with ledger.unrecorded():
        return products.product(ledger, [form, *(branch.form for branch in ledger.branches)]).is_zero


def forms_of(bracket: Atom) -> tuple[Polynomial, Polynomial]:
    """What is 1 where a bracket holds, and what is 1 where it does not."""
    return from_atom(bracket), UNITY - from_atom(bracket)


def texts_of(bracket: Atom) -> tuple[str, str]:
    """How a reader writes that a bracket holds, and that it does not."""
    if isinstance(bracket, Bracket):
        return f"{bracket.inside.key} > 0", f"{bracket.inside.key} <= 0"
    if isinstance(bracket, Delta):
        return f"{bracket.left.key} = {bracket.right.key}", f"{bracket.left.key} != {bracket.right.key}"
    return bracket.key, f"not {bracket.key}"


def _value(
    ledger: Ledger, function: Callable[[Polynomial], Polynomial], argument: Polynomial, bracket: Atom, *, holds: bool
) -> Polynomial:
    """f(argument) in one case; where it has none, a value of which nothing is known: only a bracket removes it."""
    try:
        return function(case_of(ledger, argument, bracket, holds=holds))
    except UndefinedError:
        return NOWHERE


def first_bracket(polynomial: Polynomial) -> Atom | None:
    """The bracket, delta or flag of a polynomial that cases are taken by first; None when there is none."""
    brackets = (atom for m in polynomial.terms for atom, power in m if is_idempotent(atom) and power > 0)
    return min(brackets, default=None, key=lambda atom: atom.key)


def cases_of(ledger: Ledger, polynomial: Polynomial, bracket: Atom) -> tuple[Polynomial, Polynomial]:
    """What the polynomial is where the bracket holds, and where it does not."""
    yes, no = (case_of(ledger, polynomial, bracket, holds=holds) for holds in (True, False))
    return yes, no


def case_of(ledger: Ledger, polynomial: Polynomial, bracket: Atom, *, holds: bool) -> Polynomial:
    """What the polynomial is where the bracket holds, or where it does not."""
    inside = Polynomial({m: c for m, c in polynomial.terms.items() if any(atom == bracket for atom, _ in m)})
    outside = polynomial - inside
    if not holds:
        return outside
    freed = total(Polynomial({tuple(pair for pair in m if pair[0] != bracket): c}) for m, c in inside.terms.items())
    gone, kept = deltas.delta_direction(bracket) if isinstance(bracket, Delta) else (None, bracket)
    if gone is None:
        return freed + outside
    from derive.normal.renaming import renamed

    return freed + renamed(ledger, outside, {gone.name: kept})


def is_positive_by_cases(ledger: Ledger, polynomial: Polynomial, here: Polynomial = UNITY) -> bool:
    """Whether the polynomial is positive whichever of its brackets hold, `here` being 1 in the case that it is in.

    Cases that exclude each other, such as i > j and i = j, are left out.
    """
    bracket = first_bracket(polynomial)
    if bracket is None or positivity.is_positive(polynomial):
        return positivity.is_positive(polynomial)
    for case, form in zip(cases_of(ledger, polynomial, bracket), forms_of(bracket), strict=True):
        with ledger.unrecorded():
            there = products.product(ledger, [here, form])
        if not there.is_zero and not is_positive_by_cases(ledger, case, there):
            return False
    return True

"""Products over a symbolic range.

A product of positive factors is exp of the sum of their logarithms. Any other is taken apart factor by factor, what
does not depend on the index leaves it as a power, and what cannot be taken apart is an atom. The product without one
factor, which differentiation leaves behind, is the whole product divided by that factor; since it may be 0, this law is
used in a second try at a proof only.
"""

from __future__ import annotations

from derive.normal import comparisons, deltas, logarithms, positivity, powers, products, renaming, splitting, sums
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.terms import (
    ONE,
    UNITY,
    ZERO,
    Atom,
    Delta,
    Exponent,
    Fixed,
    Polynomial,
    Prod,
    Total,
    Var,
    from_atom,
    is_idempotent,
    number,
    position,
)
from derive.normal.terms import magnitude as magnitude_of_number


def product_over(ledger: Ledger, bound: Var, body: Polynomial) -> Polynomial:
    """The normal form of the product of `body` over an index with a fresh name."""
    if body.is_zero:
        return ZERO  # a range is never empty
    if bound.name not in body.free:
        return _repeated(ledger, bound, body)
    if deltas.is_short(bound.extent):
        ledger.use("a product over a short range is the product of its factors")
        places = map(Fixed, range(int(bound.extent.constant() or 0)))
        return products.product(ledger, [renaming.renamed(ledger, body, {bound.name: place}) for place in places])
    if splitting.is_positive_by_cases(ledger, body):
        ledger.use("a product of positive factors is exp of the sum of their logs")
        for monomial in body.terms:
            positivity.note_positive(ledger, monomial)
        return powers.exponential(ledger, sums.sum_over(ledger, [bound], logarithms.logarithm(ledger, body)))
    if _has_a_zero(ledger, bound, body):
        ledger.use("a product with a factor 0 is 0")
        return ZERO
    if (met := _at_all_positions(ledger, bound, body)) is not None:
        ledger.use("a condition holds at all positions where it fails at none")
        return met
    one = body.single()
    if one is None:
        content, primitive = powers.content_of(ledger, body, fractional=False)
        if content.constant() != 1:
            ledger.use("a product is taken factor by factor")
            parts = [product_over(ledger, bound, part) for part in (content, primitive)]
            return products.product(ledger, parts)
        return _without_one_factor(ledger, bound, body) or from_atom(_named(ledger, bound, body))
    monomial, coefficient = one
    if len(monomial) == 1 and coefficient == 1:
        return _of_factor(ledger, bound, *monomial[0])
    ledger.use("a product is taken factor by factor")
    parts = [product_over(ledger, bound, from_atom(atom, power)) for atom, power in monomial]
    return products.product(ledger, [_repeated(ledger, bound, number(coefficient)), *parts])


def _has_a_zero(ledger: Ledger, bound: Var, body: Polynomial) -> bool:
    """Whether the factor at the first or at the last position is 0. Both are positions, for a range is never empty.

    SOUND: a product has a value only where all of its factors have one, and then one that is 0 makes it 0.
    """
    for place in (position(ZERO), position(bound.extent - UNITY)):
        try:
            if renaming.renamed(ledger, body, {bound.name: place}).is_zero:
                ledger.rest_on(f"{bound.extent.key} >= 1")
                return True
        except (UndefinedError, UndefinedInstanceError):
            continue
    return False


def _at_all_positions(ledger: Ledger, bound: Var, body: Polynomial) -> Polynomial | None:
    """The product of a condition, as the condition that the number of positions at which it fails is 0.

    Only where that number has a closed form; None for any other body.

    SOUND: the body is 0 or 1, its own square, and so is 1 - body, the sum of which counts the zeros of the body.
    """
    if not all(is_idempotent(atom) for monomial in body.terms for atom, _ in monomial):
        return None
    if not (products.product(ledger, [body, body]) - body).is_zero:
        return None
    count = sums.sum_over(ledger, [bound], UNITY - body)
    if any(isinstance(atom, Total) for monomial in count.terms for atom, _ in monomial):
        return None
    return UNITY - comparisons.bracket(ledger, count)


def _repeated(ledger: Ledger, bound: Var, factor: Polynomial) -> Polynomial:
    """factor^T for a range of T, which is at least 1."""
    if factor.constant() == 1:
        return UNITY
    split = splitting.case_split(ledger, factor, lambda part: product_over(ledger, bound, part))
    if split is not None:
        return split
    ledger.use("a product of one number is its power")
    raised = logarithms.logarithm(ledger, factor, formal=True)
    return powers.exponential(ledger, products.product(ledger, [bound.extent, raised]))


def _of_factor(ledger: Ledger, bound: Var, atom: Atom, power: Exponent) -> Polynomial:
    """The product of atom^power, which depends on the index and need not be positive."""
    if power.denominator != 1 or is_idempotent(atom):
        return from_atom(_named(ledger, bound, from_atom(atom, power)))
    if power != 1:
        ledger.use("a product is taken factor by factor")
    return products.normal_monomial(ledger, ONE, [(_named(ledger, bound, from_atom(atom)), power)])


def _named(ledger: Ledger, bound: Var, body: Polynomial) -> Prod:
    """The product as an atom, its index under a canonical name."""
    named = Var(f"#{body.height + 1}.0", bound.extent)
    return Prod(named, renaming.renamed(ledger, body, {bound.name: named}))


def _without_one_factor(ledger: Ledger, bound: Var, body: Polynomial) -> Polynomial | None:
    """The product of a(j) at i = j and b(i) elsewhere, as a(j) Product b / b(j), where the ledger divides."""
    delta = next((atom for m, _ in body.ordered() for atom, _ in m if _is_about(atom, bound)), None)
    if not isinstance(delta, Delta):
        return None
    gone, kept = deltas.delta_direction(delta)
    if gone != bound or not sums.stays_below(ledger, kept, bound.extent, {}):
        return None
    there, elsewhere = splitting.cases_of(ledger, body, delta)
    if any(_is_about(atom, bound) for m in elsewhere.terms for atom, _ in m):
        return None
    if not ledger.divides:
        ledger.could_divide = True
        return None
    whole = product_over(ledger, bound, elsewhere)
    if whole.is_zero:
        return None  # what is left may be anything where the factor left out is the one that is 0
    ledger.use("a product without one factor is the whole product divided by it")
    with ledger.everywhere():
        below = powers.power(ledger, renaming.renamed(ledger, elsewhere, {bound.name: kept}), -ONE)
    return products.product(ledger, [there, whole, below])


def _is_about(atom: Atom, bound: Var) -> bool:
    return isinstance(atom, Delta) and bound.name in atom.free


def magnitude(ledger: Ledger, value: Polynomial) -> Polynomial:
    """|value|, that of a product over a range as the product of absolute values, which holds at 0 as well."""
    found = magnitude_of_factors(ledger, value)
    if found is not None:
        return found
    if products.leading_term(value)[1] < 0:
        value = value.scaled(-ONE)
    return products.product(ledger, [value, comparisons.bracket(ledger, value).scaled(2) - UNITY])


def magnitude_of_factors(ledger: Ledger, value: Polynomial) -> Polynomial | None:
    """|value| for one term in which there is a product over a range; None for any other value."""
    one = value.single()
    if one is None or not any(isinstance(atom, Prod) for atom, _ in one[0]):
        return None
    if not all(e.denominator == 1 and e > 0 for _, e in one[0]):
        return None
    sizes = [powers.magnitude_of(ledger, atom, int(e)) for atom, e in one[0]]
    return products.product(ledger, [number(magnitude_of_number(one[1])), *sizes])


def magnitude_of_product(ledger: Ledger, atom: Prod) -> Polynomial:
    """|Product f| as Product |f|."""
    ledger.use("the absolute value of a product is the product of absolute values")
    bound = ledger.fresh_var(atom.bound.extent)
    inside = renaming.renamed(ledger, atom.inside, {atom.bound.name: bound})
    return product_over(ledger, bound, magnitude(ledger, inside))

"""Brackets of comparisons: [p > 0] in normal form, from which every other condition is built.

[a >= b] is 1 - [b - a > 0]; `and` is a product, `not` is 1 - c. Over the integers [p > 0] and [1 - p > 0] complement
each other, so j <= i and not (i < j) meet. Multiplying by a positive quantity, and applying log to both sides of a
comparison of positive quantities, does not change a bracket: log is strictly increasing on (0, inf). That one law is
why the maximisers of a likelihood and of its logarithm are the same.
"""

from __future__ import annotations

from fractions import Fraction

from derive.normal import powers, products
from derive.normal.ledger import Ledger
from derive.normal.terms import UNITY, ZERO, Bracket, Polynomial, from_atom, number


def bracket(ledger: Ledger, argument: Polynomial) -> Polynomial:
    """The normal form of [argument > 0]."""
    value = argument.constant()
    if value is not None:
        return UNITY if value > 0 else ZERO
    split = powers.case_split(ledger, argument, lambda part: bracket(ledger, part))
    if split is not None:
        return split
    if products.is_integer_valued(argument):
        if products.leading_term(argument)[1] < 0:
            ledger.use("integers: [p > 0] = 1 - [1 - p > 0]")
            return UNITY - from_atom(Bracket(number(1) - argument))
        return from_atom(Bracket(argument))
    for sign, outcome in ((Fraction(1), UNITY), (Fraction(-1), ZERO)):
        if powers.is_positive(argument.scaled(sign)):
            _note(ledger, argument)
            return outcome
    logs = _as_logs(ledger, argument)
    if logs is not None:
        ledger.use("log is strictly increasing")
        return bracket(ledger, logs)
    content, primitive = powers.content_of(argument, fractional=True)
    if content.constant() != 1:
        _note(ledger, content)
        ledger.use("[c p > 0] = [p > 0] for c > 0")
    return from_atom(Bracket(primitive))


def _note(ledger: Ledger, polynomial: Polynomial) -> None:
    for monomial in polynomial.terms:
        powers.note_positive(ledger, monomial)


def _as_logs(ledger: Ledger, argument: Polynomial) -> Polynomial | None:
    """For a difference a - b of positive monomials, log a - log b; None otherwise."""
    if len(argument.terms) != 2:
        return None
    up = [(m, c) for m, c in argument.terms.items() if c > 0]
    down = [(m, -c) for m, c in argument.terms.items() if c < 0]
    if len(up) != 1 or len(down) != 1 or not all(powers.monomial_is_positive(m) for m, _ in (*up, *down)):
        return None
    first, second = (powers.logarithm(ledger, Polynomial(dict(part))) for part in (up, down))
    return first - second

"""Conditions and selections as polynomials: a condition is a bracket, 1 where it holds and 0 where it does not.

The part of `derive.normal.form` that reads comparisons, flags, their combinations, and `where`. `and` is a product,
`not` is 1 - c; where(c, x, y) is c x + (1 - c) y. What a case needs to have a value, it needs where its condition
holds. Where both cases meet at a tie it does not matter which way the comparison is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
from sympy import Indexed

from derive.binders import free_indices
from derive.errors import StatementError
from derive.functions import unfold
from derive.language import Dim, Flag, Index, extent_of
from derive.normal import comparisons, deltas, form, products, ranged_products, signs
from derive.normal.ledger import Ledger
from derive.normal.terms import ONE, UNITY, ZERO, Entry, Polynomial, from_atom, ratio


def condition_form(ledger: Ledger, condition: Any) -> Polynomial:
    """A condition as a polynomial with values 0 and 1."""
    return _condition(ledger, unfold(condition), {})


def where(ledger: Ledger, node: Any, scope: form.Scope) -> Polynomial:
    """A selection as the sum of its cases, each beside the bracket of its condition."""
    condition, *cases = node.args
    held = _condition(ledger, condition, scope)
    if held.constant() is not None:
        return form.read(ledger, cases[held.is_zero], scope)  # the other case need not have a value
    yes = _read_case(ledger, held, condition, cases[0], scope)
    no = _read_case(ledger, UNITY - held, sympy.Not(condition), cases[1], scope)
    gap, difference = yes - no, _difference(ledger, condition, scope)
    if difference is not None and _is_multiple(gap, difference):
        # The cases meet where the two sides are equal, so that it does not matter which way the comparison is written.
        size = ranged_products.magnitude_of_factors(ledger, yes) if (yes + no).is_zero else None
        if size is not None:  # where(p > 0, p, -p)
            lead, c = products.leading_term(difference)
            return size.scaled(ONE if yes.terms[lead] * c > 0 else -ONE)
        ledger.use("p [p > 0] = p - p [p < 0]")
        if products.leading_term(difference)[1] > 0:
            return no + products.product(ledger, [comparisons.bracket(ledger, difference), gap])
        return yes - products.product(ledger, [comparisons.bracket(ledger, difference.scaled(-ONE)), gap])
    return products.product(ledger, [held, yes]) + products.product(ledger, [UNITY - held, no])


def _read_case(ledger: Ledger, held: Polynomial, condition: Any, case: Any, scope: form.Scope) -> Polynomial:
    """One case of a selection; what it needs to have a value, it needs where its condition holds."""
    with ledger.within(held, form.shown(condition, scope)):
        return form.read(ledger, case, scope)


def _difference(ledger: Ledger, condition: Any, scope: form.Scope) -> Polynomial | None:
    """The polynomial p of a comparison p > 0 or p >= 0, None for any other condition."""
    if not isinstance(condition, (sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le)):
        return None
    return form.read(ledger, condition.gts, scope) - form.read(ledger, condition.lts, scope)


def _is_multiple(polynomial: Polynomial, of: Polynomial) -> bool:
    """Whether the polynomial is a rational number times the other one, which is not 0."""
    ratios = {ratio(c, of.terms[m]) if m in of.terms else None for m, c in polynomial.terms.items()}
    return len(ratios) == 1 and None not in ratios and len(polynomial.terms) == len(of.terms)


def _condition(ledger: Ledger, node: Any, scope: form.Scope) -> Polynomial:
    """A condition as a polynomial with values 0 and 1."""
    if node == sympy.true or node == sympy.false:
        return UNITY if node == sympy.true else ZERO
    if isinstance(node, Flag):
        return from_atom(Entry(node.name, (), "01"))
    if isinstance(node, sympy.Not):
        return UNITY - _condition(ledger, node.args[0], scope)
    if isinstance(node, (sympy.And, sympy.Or)):
        parts = [_condition(ledger, part, scope) for part in node.args]
        if isinstance(node, sympy.And):
            return products.product(ledger, parts)
        return UNITY - products.product(ledger, [UNITY - part for part in parts])
    for kind, reader in COMPARISONS:
        if isinstance(node, kind):
            left, right = node.args
            return reader(ledger, left, right, scope)
    raise StatementError(f"{node}: expected a condition")


def _greater(ledger: Ledger, left: Any, right: Any, scope: form.Scope) -> Polynomial:
    # Multiplied out, what is compared may not show its sign any more: a variance is at least 0.
    above, below = signs.reasons_positive(left - right), signs.reasons_nonnegative(right - left)
    for facts, outcome in ((above, UNITY), (below, ZERO)):
        if facts is not None:
            for fact in facts:
                ledger.rest_on(fact)
            ledger.use("a sum of squares, exponentials and positive terms is positive")
            return outcome
    return comparisons.bracket(ledger, form.read(ledger, left, scope) - form.read(ledger, right, scope))


def equal(ledger: Ledger, left: Any, right: Any, scope: form.Scope) -> Polynomial:
    """Where two positions, or two values, are equal."""
    if all(_is_position(side) for side in (left, right)) or _is_last(left, right) or _is_last(right, left):
        return deltas.delta(ledger, form.index_atom(ledger, left, scope), form.index_atom(ledger, right, scope))
    neither = [UNITY - _greater(ledger, *sides, scope) for sides in ((left, right), (right, left))]
    return products.product(ledger, neither)


def _is_position(side: Any) -> bool:
    """Whether one side of an equation is an index expression, so that the equation is a delta."""
    plain = isinstance(side, (Index, Indexed, sympy.Integer)) and side.is_integer
    return bool(plain) or (isinstance(side, sympy.Add) and extent_of(side) is not None)


def _is_last(side: Any, size: Any) -> bool:
    """Whether a position, computed from an index, is compared with a size: t + s + 1 = T."""
    return isinstance(size, Dim) and isinstance(side, sympy.Add) and bool(free_indices(side)) and _is_position(side)


COMPARISONS: tuple[tuple[Any, Callable[[Ledger, Any, Any, form.Scope], Polynomial]], ...] = (
    (sympy.StrictGreaterThan, _greater),
    (sympy.StrictLessThan, lambda ledger, left, right, scope: _greater(ledger, right, left, scope)),
    (sympy.GreaterThan, lambda ledger, left, right, scope: UNITY - _greater(ledger, right, left, scope)),
    (sympy.LessThan, lambda ledger, left, right, scope: UNITY - _greater(ledger, left, right, scope)),
    (sympy.Equality, equal),
    (sympy.Unequality, lambda ledger, left, right, scope: UNITY - equal(ledger, left, right, scope)),
)

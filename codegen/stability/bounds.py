"""What is known of the size of an exponential: whether a scale has been taken from its exponent, and of what.

Part of `codegen.stability.rules`, which asks before an exponential is moved, and of `codegen.planning.schedule`, which
asks before a maximum is taken away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul

from codegen.stability.functions import Largest, Softplus
from codegen.stability.guards import Definitions, exponent_of
from derive.binders import free_indices, map_children, substitute, symbols_of
from derive.folding import unify
from derive.functions import Defined
from derive.normal.signs import reasons_nonnegative


def has_sum_beside_others(body: Any) -> bool:
    """Whether a logsumexp is one of the terms of a sum of exponentials, which has a value where that is -inf."""
    return any(
        isinstance(argument, Defined)
        for node in body.atoms(Softplus, Largest)
        for argument in (part for term in node.args for part in Add.make_args(term))
    )


def has_sum_of_powers(body: Any) -> bool:
    """Whether a logsumexp is of logarithms, which are -inf where the values are 0."""
    exponents = [node.args[1] for node in body.atoms(Defined)]
    return any(isinstance(factor, sympy.log) for term in exponents for factor in Mul.make_args(term))


def has_sum_below_another(body: Any, known: Definitions) -> bool:
    """Whether an exponent is less the logsumexp of an index set, which is -inf where that is empty."""
    exponents = [node.args[1] for node in body.atoms(Defined)] + [node.args[0] for node in body.atoms(sympy.exp)]
    terms = (term for exponent in exponents for term in Add.make_args(exponent))
    return any(_is_sum_of_a_set(-term, known) for term in terms if term.as_coeff_Mul()[0].is_negative)


def _is_sum_of_a_set(value: Any, known: Definitions) -> bool:
    scale = meant(value, known)
    return isinstance(scale, Defined) and scale.name == "logsumexp" and scale.args[4] != sympy.true


def is_bounded(exponent: Expr, known: Definitions) -> bool:
    """Whether a scale has been taken away from an exponent: a logsumexp, by itself or by name, or its like.

    What else it has must be what the scale is of, or at most 0: x - softplus(y) is as large as x.
    """
    scales: dict[Expr, Any] = {}
    for term in Add.make_args(exponent):
        number, value = term.as_coeff_Mul()
        scale = meant(value, known)
        if number.is_negative and isinstance(scale, (Softplus, Largest, Defined)):
            scales[term] = scale
    held = frozenset().union(*map(symbols_of, (*scales.values(), *scales)))
    others = [term for term in Add.make_args(exponent) if term not in scales]
    return bool(scales) and all(symbols_of(term) <= held or is_never_positive(term, known) for term in others)


def is_never_positive(exponent: Expr, known: Definitions) -> bool:
    """Whether the structure of an exponent shows that it is at most 0, as that of -x^2 does, by itself or by name."""
    return any(reasons_nonnegative(-each) is not None for each in (exponent, _written_out(exponent, known)))


def _written_out(value: Any, known: Definitions) -> Any:
    """The value with what its names are defined as, and not what the names in that are."""
    definition = known.get(value.base if isinstance(value, Indexed) else value)
    if definition is None:
        return map_children(value, lambda part: _written_out(part, known))
    return definition.at(value)


def may_overflow(product: Expr, known: Definitions) -> bool:
    """Whether a product has an exponential that nothing is known of."""
    exponents = [exponent_of(factor, {}) for factor in Mul.make_args(product)]
    found = [exponent for exponent in exponents if exponent is not None]
    return bool(found) and not is_bounded(Add(*found), known)


def has_exponential(product: Expr, _known: Definitions) -> bool:
    """Whether a factor of a product is an exponential."""
    return any(exponent_of(factor, {}) is not None for factor in Mul.make_args(product))


def is_share(exponent: Expr, known: Definitions) -> bool:
    """Whether an exponent is less the logsumexp of its like, by itself or by name: its exponential is at most 1."""
    for term in Add.make_args(exponent):
        scale = meant(-term, known)
        is_sum = isinstance(scale, Defined) and scale.name == "logsumexp"
        if is_sum and next(unify(scale.args[1], exponent - term, {}), None) is not None:
            return True
    return False


def row_among(terms: Sequence[Expr], scale: Expr) -> Expr | None:
    """The row that a logsumexp is of, at a place where all of its terms but one, or all, are among the terms."""
    _, body, bound, _, condition = (-scale).args
    if not isinstance(body, Add) or condition != sympy.true:
        return None
    places = sorted(free_indices(Add(*terms)), key=lambda place: (place != bound, str(place)))
    for place in places:
        row = substitute(body, {bound: place}) if place.extent == bound.extent else None
        if isinstance(row, Add) and len(set(row.args) - set(terms)) <= 1 and place in free_indices(row):
            left = Add(*terms) - scale - row
            if left == 0 or len(Add.make_args(left)) <= len(terms) - len(row.args):
                return row
    return None


def has_own_row(exponent: Expr) -> bool:
    """Whether an exponent is less a logsumexp of several terms, of which all but one at most are in it."""
    terms = Add.make_args(exponent)
    return any(
        isinstance(-term, Defined) and (-term).name == "logsumexp" and row_among(terms, term) is not None
        for term in terms
    )


def is_logistic(exponent: Expr) -> bool:
    """Whether an exponential is a logistic function: that of u - softplus(u), or of -softplus(u).

    Or a share of a sum that has 1 as another term: that of x - softplus(u) for a logsumexp u of x.
    """
    for term in Add.make_args(exponent):
        if isinstance(-term, Softplus):
            rest, u = exponent - term, (-term).args[0]
            is_sum = isinstance(u, Defined) and u.name == "logsumexp"
            is_share_of_it = is_sum and next(unify(u.args[1], rest, {}), None) is not None
            return is_share_of_it or bool(rest == 0 or sympy.expand(rest - u) == 0)
    return False


def meant(value: Any, known: Definitions) -> Any:
    """What a name is defined as; any other value as it stands."""
    definition = known.get(value.base if isinstance(value, Indexed) else value)
    return value if definition is None else definition.body

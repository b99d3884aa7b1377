"""Scales of sums go back where they met nothing.

The last of the rules of `codegen.stability.rules`. Sum(exp(f) * x, j) was written exp(s) * Sum(exp(f - s) * x, j) with
the logsumexp s of f, for exp(s) to meet an exponential that it is divided by. Where there is none, a term of the sum
overflows only where exp(s) does, and the sum is taken as it stood; so it is where the other one has taken a logsumexp
away from all terms of f but one: those are shares of it, and only their differences from its maximum keep their digits
when f is large.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Add, Expr, Mul, S

from codegen.stability.bounds import has_own_row, is_bounded, is_logistic, is_never_positive
from codegen.stability.exponents import cancelled, exponential_parts
from codegen.stability.guards import Definitions
from derive.binders import free_indices, map_children
from derive.functions import Defined
from derive.language import Sum, iverson


def unscaled(node: Any, known: Definitions) -> Any:
    """The expression with sums as they were where their scale met nothing: it is 0 or infinite only where they are.

    Or where it met the logsumexp that all terms but one, at most, are those of: they are shares, but for a factor.
    """
    if not isinstance(node, Mul):
        return _as_sum(map_children(node, lambda part: unscaled(part, known)), known)
    inner = node.func(*(map_children(factor, lambda part: unscaled(part, known)) for factor in node.args))
    for factor in inner.args if isinstance(inner, Mul) else ():
        met = factor.args[0] if isinstance(factor, sympy.exp) else S.Zero
        scales = [term for term in Add.make_args(met) if isinstance(term, Defined)]
        for total in (other for other in inner.args if isinstance(other, sympy.Sum) and any(map(other.has, scales))):
            exponent, brackets, others = exponential_parts(total.function, {})
            exponent = cancelled(exponent + met)
            is_caught = free_indices(met) & {limit[0] for limit in total.limits}
            # The scale may be that of a sum inside, which goes back as well.
            function = unscaled(Mul(*brackets, *others, sympy.exp(exponent)), known)
            if not is_caught and (met in scales or has_own_row(exponent)) and not any(map(function.has, scales)):
                plain = sympy.Sum(function, *total.limits)
                return Mul(*(part for part in inner.args if part not in (factor, total)), plain)
    return Mul(*(_as_sum(factor, known) for factor in Mul.make_args(inner)))


def _as_sum(node: Any, known: Definitions) -> Any:
    """The exponential of a logsumexp as the sum that it is, where no term overflows; anything else as it is."""
    scale = node.args[0] if isinstance(node, sympy.exp) else None
    if not isinstance(scale, Defined) or scale.name != "logsumexp":
        return node
    _, body, bound, _, condition = scale.args
    term = _as_sum(sympy.exp(body), known)
    overflows = body.has(Defined) or not _cannot_overflow(body, known)
    if isinstance(term, sympy.exp) and overflows and not is_logistic(body):
        return node
    return Sum(term if condition == sympy.true else iverson(condition) * term, bound)


def _cannot_overflow(exponent: Expr, known: Definitions) -> bool:
    return is_bounded(exponent, known) or is_never_positive(exponent, known)

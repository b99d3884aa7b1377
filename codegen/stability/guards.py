"""Zero times a logarithm is zero: 0 log 0 = 0, its limit, and no infinity is computed where it does not count.

Part of `codegen.stability.rules`. One rule, an identity wherever both sides have a value:

    x g = x (g where x != 0, else 0)        where g is a logarithm, or a sum with one, and x varies at least as g does

So x exp(x/t - s) is 0 for an x of -inf, and exp(p log(x) - s)/x, the slope of a power, for an x of 0. The weight of a
sum of logarithms may be a number of the caller's, such as the share of a term that is switched off. A logarithm is also
whatever stands in log space, such as a logit less the logsumexp of its row: a logit of -inf with a weight of 0 adds 0.
Arrays are computed everywhere and selected from afterwards, so log(y) is selected by its argument, log(y where x != 0,
else 1): log(0) is not met on the way, and no warning is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Ne, Pow, S

from codegen.stability.functions import Finite, Weight
from derive.binders import free_indices, map_children, substitute
from derive.functions import Defined, unfold
from derive.language import Scalar, Where, is_bracket
from derive.statements import Definition

Definitions = Mapping[Any, Definition]  # the definition of each name known so far, its body stable


def spelled_out(factor: Any, known: Definitions) -> Expr | None:
    """What an entry of a definition stands for, its functions unfolded; None for anything else."""
    definition = known.get(factor.base if isinstance(factor, Indexed) else factor)
    if definition is None or not isinstance(factor, (Indexed, Scalar)):
        return None
    where = factor.indices if isinstance(factor, Indexed) else ()
    return substitute(unfold(definition.body), dict(zip(definition.indices, where, strict=True)))


def exponent_of(factor: Expr, known: Definitions) -> Expr | None:
    """The exponent x of a factor exp(x), also of a name that is defined so; None for any other factor."""
    if isinstance(factor, sympy.exp):
        return factor.args[0]
    if isinstance(factor, Pow) and isinstance(factor.base, sympy.exp):
        return factor.base.args[0] * factor.exp
    definition = known.get(factor.base) if isinstance(factor, Indexed) else None
    if definition is None or not isinstance(definition.body, sympy.exp):
        return None
    names = dict(zip(definition.indices, factor.indices, strict=True))
    return substitute(definition.body.args[0], names)


def guarded(node: Any, known: Definitions) -> Any:
    """The expression with logarithms selected where their weight is not 0."""
    inner = map_children(node, lambda part: guarded(part, known))
    return _weighted(inner, known) if isinstance(inner, Mul) else inner


def _weighted(product: Expr, known: Definitions) -> Expr:
    factors = [_divided(factor, product) for factor in Mul.make_args(product)]
    for place, factor in enumerate(factors):
        others = [*factors[:place], *factors[place + 1 :]]
        varies = free_indices(factor)
        if isinstance(factor, Indexed) and any(_grows_with(factor, exponent_of(f, known)) for f in others):
            factors[place] = Finite(factor)
            continue
        if not varies or not (_is_logarithmic(factor, known, others) or _is_sum_of_logarithms(factor, known)):
            continue
        weights = [f for f in others if free_indices(f) >= varies and _may_vanish(f) and not _is_logarithmic(f, known)]
        if not weights and _is_sum_of_logarithms(factor, known):
            weights = [f for f in others if isinstance(f, Scalar) and not f.is_positive]
        if weights:
            # What a bracket leaves out may overflow: it is no part of the weight there.
            brackets = filter(is_bracket, others) if any(isinstance(w, sympy.exp) for w in weights) else ()
            factors[place] = _selected(factor, Ne(Weight(Mul(*brackets, *weights)), 0), known, others)
    return Mul(*factors)


def _divided(factor: Expr, product: Expr) -> Expr:
    """A divisor x beside exp(p log(x) - s), the slope of a power, as 1 where that is 0; any other factor as it is."""
    if not isinstance(factor, Pow) or factor.exp != -1 or not free_indices(factor):
        return factor
    taken = sympy.log(factor.base)
    for power in Mul.make_args(product):
        if isinstance(power, sympy.exp) and any(taken in Mul.make_args(term) for term in Add.make_args(power.args[0])):
            return 1 / Where(Ne(Weight(power), 0), factor.base, S.One)
    return factor


def _may_vanish(factor: Expr) -> bool:
    """Whether a factor can be 0 and is not one that selects already."""
    return not is_bracket(factor) and not (isinstance(factor, Pow) and factor.exp.is_negative)


def _selected(node: Any, counts: Any, known: Definitions, others: Sequence[Expr]) -> Any:
    """The expression with each of its logarithms selected by itself: the difference of two infinities is no number."""
    if node.is_number:
        return node
    if isinstance(node, sympy.log):
        return sympy.log(Where(counts, node.args[0], S.One))
    if _is_logarithm(node, known, others) or _is_sum_of_logarithms(node, known):
        return Where(counts, node, S.Zero)
    parts = [_selected(part, counts, known, others) for part in _terms(node)]
    return node.func(*parts, *node.args[len(parts) :]) if parts else node


def _is_logarithmic(node: Any, known: Definitions, others: Sequence[Expr] = ()) -> bool:
    """Whether an expression is a logarithm, or a sum, product or power with one, so that it can be infinite."""
    if isinstance(node, sympy.log):
        return not node.is_number
    if _is_logarithm(node, known, others):
        return True
    return any(_is_logarithmic(part, known, others) for part in _terms(node))


def _terms(node: Any) -> tuple[Any, ...]:
    """The parts of which an infinite one makes a sum, a product or a power infinite."""
    if isinstance(node, Pow):
        return () if node.exp.is_negative else node.args[:1]
    return node.args if isinstance(node, (Add, Mul)) else ()


def _is_logarithm(node: Any, known: Definitions, others: Sequence[Expr]) -> bool:
    """Whether an expression is a logarithm without saying so: x beside exp(x), a name, x - logsumexp(x) of a share."""
    if any(node == exponent_of(factor, known) for factor in others):
        return True
    if isinstance(node, Add):
        return any(_is_logsumexp(factor, known) for term in node.args for factor in Mul.make_args(term))
    definition = known.get(node.base if isinstance(node, Indexed) else node)
    return definition is not None and _is_logarithmic(definition.body, known)


def _grows_with(node: Expr, exponent: Expr | None) -> bool:
    """Whether an exponent, not the expression itself, has a multiple of it among its terms: x beside exp(x/t - s).

    A negative multiple, as of a distance, is not meant: where that is -inf, the exponential is not 0.
    """
    terms = Add.make_args(exponent) if exponent is not None else ()
    multiples = [term / node for term in terms if node in Mul.make_args(term)]
    return node != exponent and any(not multiple.is_negative for multiple in multiples)


def _is_sum_of_logarithms(node: Any, known: Definitions) -> bool:
    """Whether an expression is a sum of logarithms, or the name of one: it is infinite where one of them is."""
    definition = known.get(node.base) if isinstance(node, Indexed) else None
    parts = Mul.make_args(definition.body if definition is not None else node)
    return any(isinstance(part, sympy.Sum) and _is_logarithmic(part.function, known) for part in parts)


def _is_logsumexp(node: Any, known: Definitions) -> bool:
    definition = known.get(node.base if isinstance(node, Indexed) else node)
    body = node if definition is None else definition.body
    return isinstance(body, Defined) and body.name == "logsumexp"

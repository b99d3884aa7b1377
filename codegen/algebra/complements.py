"""What stands under a logarithm, or a root, in a form that keeps its digits: what a share leaves of 1, and products.

Part of `codegen.algebra.logspace`. A share of 1 leaves 0, and a product of many numbers below 1 is 0 before long, but
neither has to be computed to know its logarithm:

    1 - exp(x[k]) / Sum(exp(x[j]), j)   =  1 / (1 + exp(x[k]) / Sum([j != k] exp(x[j]), j))
    1 - a / (a + b)                     =  1 / (1 + a / b)                                      under a product
    Product(f[j], j)                    =  exp(Sum(log(f[j]), j))                               where f is positive
    Sum([c] exp(x[j]) / Z, j)           =  Sum([c] exp(x[j]), j) / Z                            shares of some of them

So the likelihood that something lasts, Product(1 - h[j], j), and that it happens at all, 1 less that, have logarithms.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Add, Expr, Mul, Pow, S

from derive.binders import all_names, free_indices, fresh_index, substitute
from derive.folding import unify
from derive.functions import unfold
from derive.language import Sum, Where, iverson


def spread(node: Any) -> Any:
    """An expression that a logarithm is taken of, with its products over indices as exponentials of sums."""
    if isinstance(node, sympy.Product):
        function = _by_the_rest(spread(node.function))
        return sympy.exp(sympy.Sum(_log(function), *node.limits)) if _is_positive(function) else node
    if isinstance(node, sympy.Sum):
        bound = {limit[0] for limit in node.limits}
        factors = Mul.make_args(unfold(node.function))
        moving = [factor for factor in factors if free_indices(factor) & bound]
        fixed = Mul(*(factor for factor in factors if factor not in moving))
        return node if fixed.is_number else spread(fixed) * node.func(Mul(*moving), *node.limits)
    if isinstance(node, Add):
        others = without_own_term(node)
        return others if others != node else node.func(*map(spread, node.args))
    if isinstance(node, Where):
        condition, *branches = node.args
        return Where(condition, *map(spread, branches))
    return node.func(*map(spread, node.args)) if isinstance(node, (Mul, Pow)) else node


def without_own_term(node: Any) -> Any:
    """1 less the share of one term in a sum of exponentials, by the others; anything else as it is."""
    for own, total in _shares_left(node):
        if not isinstance(total, sympy.Sum) or len(total.limits) > 1 or not total.function.has(sympy.exp):
            continue
        bound = total.limits[0][0]
        index = fresh_index(bound, set(all_names(node)))  # the term may be at a place of the same name
        term = substitute(total.function, {bound: index})
        for binding in unify(term, own, {}):
            if index in binding and all(binding[place] == place for place in binding.keys() - {index}):
                return 1 / (1 + own / Sum(iverson(sympy.Ne(index, binding[index])) * term, index))
    return node


def _by_the_rest(node: Any) -> Any:
    """An expression with 1 less the share of one term in a sum of two or more as the share of the rest."""
    if isinstance(node, (Mul, Pow, Where)):
        return node.func(*map(_by_the_rest, node.args))
    for own, total in _shares_left(node):
        if isinstance(total, Add) and own in total.args:
            return 1 / (1 + own / (total - own))
    return node


def _shares_left(node: Any) -> list[tuple[Expr, Expr]]:
    """The ways to read an expression as 1 less own/total."""
    number, rest = node.as_coeff_Add() if isinstance(node, Add) else (S.Zero, node)
    factors = Mul.make_args(unfold(-rest)) if number == 1 else ()
    return [
        (Mul(*(other for other in factors if other is not factor)), factor.base)
        for factor in factors
        if isinstance(factor, Pow) and factor.exp == S.NegativeOne
    ]


def _log(node: Any) -> Any:
    """The logarithm of what is positive, case by case."""
    if not isinstance(node, Where):
        return sympy.log(node)
    condition, *branches = node.args
    return Where(condition, *map(_log, branches))


def _is_positive(node: Any) -> bool:
    """Whether an expression is made of exponentials and positive numbers alone, so that it has a logarithm."""
    if isinstance(node, sympy.exp) or node.is_positive:
        return True
    if isinstance(node, Pow):
        return _is_positive(node.base)
    if isinstance(node, Where):
        return all(map(_is_positive, node.args[1:]))
    return isinstance(node, (Add, Mul)) and all(map(_is_positive, node.args))

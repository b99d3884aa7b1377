"""Sums of powers with a letter for an exponent, as sums of exponentials where only a root or a quotient is wanted.

Part of `codegen.algebra.logspace`. The powers of a generalised mean underflow, or overflow, long before it does:

    (Sum(x[j]^p, j) / K)^(1/p)        =  (Sum(exp(p log(x[j])), j) / K)^(1/p)
    x[i]^p / Sum(x[j]^p, j)           =  exp(p log(x[i])) / Sum(exp(p log(x[j])), j)          the softmax of p log(x)
    log(Sum(x[j]^p, j))               =  log(Sum(exp(p log(x[j])), j))

for x that are positive by what is declared. A sum of powers that is wanted itself overflows where its powers do, and is
left alone; so are powers with a number for an exponent, which a library computes by products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from sympy import Mul, Pow

from derive.binders import free_indices, map_children
from derive.functions import unfold
from derive.normal.signs import reasons_positive


def with_sum_in_log_space(node: Any) -> Any:
    """What is divided by, or has a root or logarithm taken, with exponentials if it has a sum of powers."""
    return _as_exponentials(node) if _has_sum_of_powers(node) else node


def as_powers_meet(factors: Sequence[Any]) -> list[Any]:
    """The factors of a product, all with exponentials if one divides by a sum of such."""
    has_sum = any(isinstance(factor, Pow) and factor.exp.is_negative and _is_in_log_space(factor) for factor in factors)
    return list(map(_as_exponentials, factors)) if has_sum else list(factors)


def is_power(node: Any) -> bool:
    """Whether an expression is the power of a positive entry, with a letter for its exponent."""
    is_open = isinstance(node, Pow) and not node.exp.is_number and bool(free_indices(node.base))
    return is_open and reasons_positive(unfold(node.base)) is not None


def _is_in_log_space(node: Any) -> bool:
    """Whether exponentials of multiples of logarithms are summed in an expression, as powers with a letter are."""
    exponents = [power.args[0] for total in node.atoms(sympy.Sum) for power in total.atoms(sympy.exp)]
    return any(isinstance(factor, sympy.log) for exponent in exponents for factor in Mul.make_args(exponent))


def _has_sum_of_powers(node: Any) -> bool:
    """Whether an expression is a sum over an index of powers with a letter, or has one as a factor or a term."""
    if isinstance(node, sympy.Sum):
        return _has_sum_of_powers(node.function) or any(map(is_power, Mul.make_args(node.function)))
    if isinstance(node, Pow):
        return _has_sum_of_powers(node.base)
    return isinstance(node, (sympy.Add, sympy.Mul)) and any(map(_has_sum_of_powers, node.args))


def _as_exponentials(node: Any) -> Any:
    """The expression with the powers that are its terms and factors, or those of its sums, as exponentials."""
    if is_power(node):
        return sympy.exp(node.exp * sympy.log(node.base))
    if isinstance(node, sympy.Sum):
        return node.func(_as_exponentials(node.function), *node.limits)
    if isinstance(node, Pow):
        return _as_exponentials(node.base) ** node.exp
    return map_children(node, _as_exponentials) if isinstance(node, (sympy.Add, sympy.Mul)) else node

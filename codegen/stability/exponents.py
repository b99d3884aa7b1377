"""The exponent of a product: the sum of the exponents of its factors, in which logsumexps cancel.

Below `codegen.stability.rules` and `codegen.stability.scales`.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, Mul, S

from codegen.stability.functions import Softplus
from codegen.stability.guards import Definitions, exponent_of
from derive.binders import substitute
from derive.folding import same
from derive.functions import Defined
from derive.language import is_bracket


def exponential_parts(product: Expr, known: Definitions) -> tuple[Expr, list[Expr], list[Expr]]:
    """(exponent, brackets, other factors) of a product with an exponential among its factors."""
    exponent, brackets, others = S.Zero, [], []
    for factor in Mul.make_args(product):
        raised = exponent_of(factor, known)
        if raised is not None:
            exponent += raised
        elif is_bracket(factor):
            brackets.append(factor)
        else:
            others.append(factor)
    return cancelled(exponent), brackets, others


def cancelled(exponent: Expr) -> Expr:
    """A sum in which a logsumexp has one name for its bound index, so that equal ones cancel."""
    found: list[Any] = []
    for scale in sorted(exponent.atoms(Defined), key=sympy.default_sort_key):
        known = next((other for other in found if same(other, scale)), None)
        if known is None:
            found.append(scale)
        else:
            exponent = substitute(exponent, {scale: known})
    for scale in sorted(exponent.atoms(Softplus), key=sympy.default_sort_key):
        opposite = Softplus(-scale.args[0])
        if exponent.coeff(scale).is_positive and exponent.coeff(opposite).is_negative:
            exponent = sympy.expand(exponent + exponent.coeff(scale) * (opposite + scale.args[0] - scale))
    return exponent

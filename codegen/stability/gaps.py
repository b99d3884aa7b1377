"""Differences of two logistic functions: what is left where both are close to each other.

Beside `codegen.stability.rules`. In floating point the difference of two numbers close to 1 has few digits, and at 17
and 18 none:

    sigma(a) - sigma(b)        =  tanh((a - b)/2) (sigma(a) sigma(-b) + sigma(-a) sigma(b))

has no difference but a - b, of either sign. For its logarithm `codegen.algebra.gaps` has a form in log space.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Add, Pow

from codegen.algebra.gaps import apart, gaps
from codegen.stability.functions import Logistic
from derive.binders import map_children


def without_gaps(node: Any) -> Any:
    """The expression with differences of two logistic functions as products.

    One that is divided by, all by itself, is left alone: relative to its larger term (`codegen.stability.rules`) it
    does not underflow.
    """
    base = node.base if isinstance(node, Pow) and node.exp.is_negative else None
    if isinstance(base, Add) and any(set(terms) == set(base.args) for _, _, _, terms in gaps(base)):
        return node
    inner = map_children(node, without_gaps)
    if not isinstance(inner, Add):
        return inner
    for scale, a, b, terms in gaps(inner):
        both = Logistic(a) * Logistic(-b) + Logistic(-a) * Logistic(b)
        gap = scale * sympy.tanh(apart(a, b) / 2) * both
        return without_gaps(Add(gap, *(term for term in inner.args if term not in terms)))
    return inner

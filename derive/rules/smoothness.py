"""Smoothness read off the structure: whether an expression is a smooth function of one of its scalars.

Shared by the rules that differentiate (`derive.rules.monotone`, `derive.rules.expansion`). An expression is smooth
where it is built from sums, products, powers and the smooth functions of the language, and where what it divides by,
takes roots and logarithms of is positive. What does not contain the scalar may be anything.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Add, Mul, Pow

from derive.language import Scalar
from derive.normal.signs import reasons_positive
from derive.rules import RuleRefusedError

ENTIRE = (
    sympy.exp, sympy.erf, sympy.erfc, sympy.tanh, sympy.sinh, sympy.cosh, sympy.sin, sympy.cos, sympy.atan,
)  # fmt: skip


def check_smooth(node: Any, scalar: Scalar, *, open_domain: bool) -> None:
    """Refuse unless the expression, with all definitions written in, is a smooth function of the scalar.

    With `open_domain`, smooth wherever it has a value: a denominator or the argument of a logarithm that is not 0
    stays so nearby. Without, smooth for all values of the scalar that its declaration allows.

    Raises:
        RuleRefusedError: a part of the expression is not smooth, or not known to be; the message names it.
    """
    if not node.has(scalar):
        return
    if isinstance(node, Pow):
        base, exponent = node.args
        if exponent.has(scalar) or not exponent.is_number:
            _check_positive(base, node, scalar)
            check_smooth(exponent, scalar, open_domain=open_domain)
        elif not exponent.is_Integer or (exponent < 0 and not open_domain):
            _check_positive(base, node, scalar)
        check_smooth(base, scalar, open_domain=open_domain)
        return
    if isinstance(node, sympy.log) and not open_domain:
        _check_positive(node.args[0], node, scalar)
    if not isinstance(node, (Scalar, Add, Mul, sympy.Sum, sympy.log, *ENTIRE)):
        raise RuleRefusedError(f"{node} is not known to be a smooth function of {scalar}")
    for part in (node.function,) if isinstance(node, sympy.Sum) else node.args:
        check_smooth(part, scalar, open_domain=open_domain)


def _check_positive(base: Any, node: Any, scalar: Scalar) -> None:
    if reasons_positive(base) is None:
        raise RuleRefusedError(
            f"{node} is not known to be a smooth function of {scalar}: {base} is not known to be positive"
        )

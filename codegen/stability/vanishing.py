"""What may overflow is not met by a factor of 0: infinity times 0 is no number, and the product is 0.

Beside `codegen.stability.rules`, for the adjoints of a program. Where a clipped ratio takes over, or the share of a
component is 0, nothing reaches the exponential, however large it is there:

    x u  =  (x where u != 0, else 0) u      x an exponential that nothing is known of, u a sum of conditions or a share

an identity over the reals. In one exponent such factors are together already; these are the others: names of
exponentials, and names of shares. A condition by itself selects (`codegen.lowering.arithmetic`).
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Add, Expr, Mul, Ne, Pow, S
from sympy.logic.boolalg import Boolean

from codegen.stability.bounds import is_bounded, is_never_positive, is_share, meant
from codegen.stability.functions import Largest, Softplus, Weight
from codegen.stability.guards import Definitions
from derive.binders import free_indices, map_children
from derive.language import Where, is_bracket


def selected(body: Any, known: Definitions, adjoints: Definitions) -> Any:
    """The body with what may overflow selected where the factors that may be 0 beside it are not.

    `known` are the definitions of the statement, `adjoints` those before this one, all with stable bodies.
    """
    both = {**known, **adjoints}

    def visit(node: Any, summed: bool) -> Any:
        if isinstance(node, Boolean):
            return node
        inner = map_children(node, lambda part: visit(part, summed or isinstance(node, sympy.Sum)))
        return _product(inner, both, summed) if isinstance(inner, Mul) else inner

    return visit(body, False)


def _product(product: Mul, both: Definitions, summed: bool) -> Expr:
    large = [factor for factor in product.args if _may_overflow(factor, both)]
    weights = [factor for factor in product.args if _may_be_zero(factor, both)]
    if summed:  # what has an index more would be no factor of a matrix product any longer
        weights = [factor for factor in weights if free_indices(factor) <= free_indices(Mul(*large))]
    if not large or not weights:
        return product
    others = [factor for factor in product.args if factor not in large]
    return Mul(*others, Where(Ne(Weight(Mul(*weights)), 0), Mul(*large), S.Zero))


def _may_overflow(node: Any, known: Definitions) -> bool:
    """Whether an expression has an exponential that nothing is known of among its terms and factors, or in a name."""
    node = meant(node, known)
    if isinstance(node, Mul) and any(map(is_bracket, node.args)):
        return False  # the condition may say what is known, as in where(x > 0, x, exp(x) - 1)
    if isinstance(node, (Add, Mul)):
        return any(_may_overflow(part, known) for part in node.args)
    if isinstance(node, Pow):
        return bool(node.exp.is_positive) and _may_overflow(node.base, known)
    if not isinstance(node, sympy.exp) or node.is_number:
        return False
    exponent = node.args[0]
    has_own_scale = is_share(exponent, known) or exponent.has(Softplus, Largest)
    return not (is_bounded(exponent, known) and has_own_scale) and not is_never_positive(exponent, known)


def _may_be_zero(factor: Expr, known: Definitions) -> bool:
    """Whether a factor is a sum of conditions, the name of a product with such or with a share, or a sum over one."""
    if isinstance(factor, Add):
        return all(any(map(is_bracket, Mul.make_args(term))) for term in factor.args)
    if isinstance(factor, sympy.Sum):
        return any(_may_be_zero(part, known) for part in Mul.make_args(factor.function))
    parts = _parts(factor, known) if factor != meant(factor, known) else ()
    return any(
        is_bounded(part.args[0], known) if isinstance(part, sympy.exp) else _may_be_zero(part, known) for part in parts
    )


def _parts(factor: Expr, known: Definitions) -> tuple[Any, ...]:
    """The factors of what a name stands for, or of anything else as it stands."""
    return tuple(Mul.make_args(meant(factor, known)))

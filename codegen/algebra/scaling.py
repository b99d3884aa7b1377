"""Numbers are multiplied where they cost least: a scale goes into the smaller operand of a product of arrays.

One of the algebraic passes (`codegen.algebra.passes`). The scale of a product may stand before the sum or inside it,

    Sum_a(Q[i,a]*K[j,a]) / sqrt(d)  =  Sum_a(Q[i,a]*K[j,a]/sqrt(d))

and lowering multiplies a number inside a sum into one of the operands. With many queries and keys and few channels that
is a pass over Q instead of one over all scores. `codegen.algebra.ordering.scaled_place` says which array is best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy
from sympy import Add, Expr, Indexed, Mul

from codegen.algebra.networks import opened_sums
from codegen.algebra.ordering import scaled_place
from codegen.algebra.rewriting import Definitions, Rewrite, Setting
from derive.binders import free_indices
from derive.language import Flag, Index, Scalar


def scaled(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions with scales moved into sums where that is cheaper."""
    made, rewrites = [], []
    for definition in definitions:
        terms = Add.make_args(definition.body)
        moved = [_inside(term, definition.indices, setting) for term in terms]
        body = Add(*moved)
        if body != definition.body:
            pairs = tuple((old, new) for old, new in zip(terms, moved, strict=True) if old != new)
            rewrites.append(Rewrite(definition, body, pairs))
            definition = replace(definition, body=body)
        made.append(definition)
    return tuple(made), tuple(rewrites)


def _inside(term: Expr, order: Sequence[Index], setting: Setting) -> Expr:
    """A number times one sum of a product, the number inside the sum if it is worth it; any other term as it stands."""
    factors = Mul.make_args(term)
    sums = [factor for factor in factors if isinstance(factor, sympy.Sum)]
    scale = [factor for factor in factors if factor not in sums]
    if term.as_coeff_Mul()[0].is_negative:
        return -_inside(-term, order, setting)
    if len(sums) != 1 or not scale or not all(is_number(factor, setting) for factor in scale):
        return term
    (total,) = sums
    operands, _ = opened_sums(total, ())
    axes = [_axes(operand) for operand in operands]
    result = [index for index in order if index in free_indices(total)]
    if len(operands) < 2 or scaled_place(axes, result, setting.sizes) is None:
        return term
    return total.func(Mul(*scale, total.function), *total.limits)


def _axes(operand: Expr) -> tuple[Index, ...]:
    """The indices of an operand, those of an entry in its order."""
    free = free_indices(operand)
    written = operand.indices if isinstance(operand, Indexed) else ()
    ordered = [index for index in written if index in free]
    return (*ordered, *sorted(free - set(ordered), key=str))


def is_number(factor: Expr, setting: Setting) -> bool:
    """Whether a factor is known before any array is touched: made of numbers, sizes and what the caller passes."""
    names = {str(symbol.name) for symbol in factor.atoms(Scalar, Flag)}
    return not free_indices(factor) and not factor.atoms(Indexed) and names <= setting.options

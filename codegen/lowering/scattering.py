"""Definitions with a delta between one of their indices and a look-up or another index: values are added in place.

The entrance of  The gradient of a look-up, the one-hot term of a cross entropy, and the diagonal of a Jacobian
are such deltas; as dense arrays they would be zero almost everywhere. Every other body is lowered as it stands.
"""

from __future__ import annotations

from sympy import Add, Expr, Indexed, KroneckerDelta, Mul

from codegen.algebra.networks import opened_sums
from codegen.errors import KernelError
from codegen.ir.nodes import Axes, Node, Position, Scatter
from codegen.lowering.context import Context, lower
from codegen.lowering.leaves import position
from derive.binders import free_indices, substitute
from derive.differentiation import contracted_sum


def lower_definition(body: Expr, context: Context) -> Node:
    """The node for the (stable) body of a definition over the indices `context.order`.

    Terms with a delta between one of these indices and a look-up, or another of them, are scattered; everything else is
    dense.
    """
    dense: list[Expr] = []
    scattered: list[tuple[Expr, KroneckerDelta]] = []
    for term in Add.make_args(_distributed(body)):
        delta = _scattering_delta(term, context)
        if delta is None:
            dense.append(term)
        else:
            scattered.append((term, delta))
    if not scattered:
        return lower(body, context)
    base = lower(Add(*dense), context) if dense else None
    for term, delta in scattered:
        base = _scatter(term, delta, base, context)
    if base is None:
        raise KernelError(f"{context.program}: {body}: nothing to compute")
    return base


def _distributed(body: Expr) -> Expr:
    """Products multiplied out over sums that have a scattering delta among their terms, and only over those."""
    if isinstance(body, Add):
        return Add(*map(_distributed, body.args))
    if isinstance(body, Mul):
        for factor in body.args:
            if isinstance(factor, Add) and any(term.has(KroneckerDelta) for term in factor.args):
                rest = Mul(*(other for other in body.args if other != factor))
                return _distributed(Add(*(rest * term for term in factor.args)))
    return body


def _sum_parts(term: Expr, context: Context) -> tuple[list[Expr], Axes]:
    """A term as factors, and the indices summed over; their names are none of the definition's."""
    return opened_sums(term, context.order, of_sums=False)


def _scattering_delta(term: Expr, context: Context) -> KroneckerDelta | None:
    factors, _ = _sum_parts(term, context)
    for factor in factors:
        if isinstance(factor, KroneckerDelta):
            plain = [side for side in factor.args[:2] if side in context.order]
            looked_up = [side for side in factor.args[:2] if isinstance(side, Indexed)]
            if (len(plain) == 1 and len(looked_up) == 1) or len(set(plain)) == 2:
                return factor
    return None


def _scatter(term: Expr, delta: KroneckerDelta, base: Node | None, context: Context) -> Node:
    factors, scope = _sum_parts(term, context)
    target = max((side for side in delta.args[:2] if side in context.order), key=context.order.index)
    source = next(side for side in delta.args[:2] if side != target)
    rest = substitute(Mul(*(factor for factor in factors if factor != delta)), {target: source})
    kept = free_indices(source)
    value = lower(contracted_sum(rest, [index for index in scope if index not in kept]), context)
    positions = tuple(position(source, context) if index == target else Position(index) for index in context.order)
    return Scatter(context.order, positions, value, base)

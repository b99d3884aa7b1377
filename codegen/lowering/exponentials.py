"""Exponentials of differences: the scale of a scaled sum cancels before anything overflows.

Part of  exp(x - logsumexp(x)) is e / sum(e) with e = exp(x - max x): the exponential is taken once. Where a
condition cuts out an index set, what is left out is -inf before the exponential, which then gives exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import sympy
from sympy import Add, Expr, Indexed

from codegen.errors import KernelError
from codegen.ir.nodes import Map, Node, Reduce, Select
from codegen.lowering.context import MINUS_INFINITY, ZERO, Context, lower
from codegen.lowering.leaves import named_entry
from codegen.lowering.selections import chosen, lower_condition, tamed, wanted_top
from codegen.stability.bounds import row_among
from codegen.stability.functions import Softplus
from derive.binders import free_indices, substitute
from derive.folding import same, unify
from derive.functions import Defined
from derive.language import Dim, Index, Scalar, Tensor

PAIR = 2  # terms: a number and the logsumexp of its row


def lower_exp(node: Any, context: Context) -> Node:
    """The node for an exponential."""
    return exp_where(node.args[0], sympy.true, context)


def exp_where(exponent: Expr, condition: Any, context: Context) -> Node:
    """exp(exponent) where the condition holds, else 0: what is left out is -inf before the exponential, not 0 after."""
    for term in Add.make_args(exponent):
        scale = -term
        if isinstance(scale, Defined) and scale.name == "logsumexp":
            quotient = _softened(exponent - term, scale, condition, context)
            if quotient is not None:
                return quotient
    # Outside the condition the top of an index set may be -inf; nothing is to be subtracted from that.
    argument = lower(exponent, replace(context, finite_tops=context.finite_tops or condition != sympy.true))
    if condition != sympy.true:
        argument = Select(lower_condition(condition, context), argument, MINUS_INFINITY)
    else:
        argument = tamed(exponent, argument, context)
    return Map("exp", (argument,))


def _softened(value: Expr, scale: Defined, condition: Any, context: Context) -> Node | None:
    """exp(value - logsumexp(value)) as e / sum(e): the exponential is taken once and its scale cancels."""
    body, over, inside = _flat(scale)
    # At a place that the scale reads elsewhere as well, as in exp(S[i,i]) / Sum(exp(S[i,j]), j), it is another scale.
    free = sorted(free_indices(value) - free_indices(scale), key=str)
    for places in product(*([place for place in free if place.extent == bound.extent] for bound in over)):
        names = dict(zip(over, places, strict=True))
        if len(set(places)) < len(places):
            continue
        moved = substitute(body, names), substitute(inside, names)
        if same(moved[0], value) and (inside == sympy.true or same(moved[1], condition)):
            shifted, total = _scaled_sum(value, places, moved[1], context)
            result = Map("div", (shifted, total))
            if condition != sympy.true and inside == sympy.true:
                return Select(lower_condition(condition, context), result, ZERO)
            return result
    return None


def _flat(node: Any) -> tuple[Expr, tuple[Index, ...], Any]:
    """The body of a logsumexp, what it is over, and the condition; one of another is one over both their indices."""
    _, body, bound, _, condition = node.args
    over: tuple[Index, ...] = (bound,)
    while condition == sympy.true and _is_logsumexp(body):
        over, body = (*over, body.args[2]), body.args[1]
    return body, over, condition


def _is_logsumexp(node: Any) -> bool:
    """Whether an expression is a logsumexp over the whole of its range."""
    return isinstance(node, Defined) and node.name == "logsumexp" and node.args[4] == sympy.true


def _scaled_sum(body: Expr, over: Sequence[Index], condition: Any, context: Context) -> tuple[Node, Node]:
    """(exp(body - m), its sum over the indices) with m the maximum over them.

    With a condition, an empty index set gives exp = 0 and the sum 1: the policy for the empty set is zero. The sum is
    at least 1 for every other, because the largest term is exp(0). The same form is taken where the result is wanted in
    part of its array only: elsewhere all values may be -inf, of which no difference is to be met.
    """
    over = tuple(over)
    # Every position counts in the sum, wherever the result is wanted.
    partly = bool(context.domain or context.around)
    context = context.everywhere()
    value = lower(body, context)
    if condition == sympy.true and not partly and not context.finite_tops and not _may_be_of_nothing(body):
        top: Node = Reduce("max", value, over)
        return _exp_and_sum(value, top, over, context)
    if condition != sympy.true:
        value = Select(lower_condition(condition, context), value, MINUS_INFINITY)
    top = Reduce("max", value, over)
    shifted, total = _exp_and_sum(value, Map("finite", (top,)), over, context)
    return shifted, Map("at_least_one", (total,))


def _may_be_of_nothing(body: Expr) -> bool:
    """Whether a logsumexp of an index set that may be empty is in an exponent, which may be -inf then."""
    return any(scale.name == "logsumexp" and scale.args[4] != sympy.true for scale in body.atoms(Defined))


def _exp_and_sum(value: Node, top: Node, over: tuple[Index, ...], context: Context) -> tuple[Node, Node]:
    """exp(value - top) and its sum over the indices.

    The difference is rounded, and exp makes of it a relative error |value - top| times as large. Within a kernel that
    is no matter: what comes out is a mean, whose error is that of its largest terms. A result that consists of the
    shares is computed with a difference and a sum of twice the digits.
    """
    if context.in_full:
        shifted = Map("exp_difference", (value, top))
        return shifted, Reduce("wide sum", shifted, over)
    shifted = Map("exp", (Map("sub", (value, top)),))
    return shifted, Reduce("sum", shifted, over)


def lower_logsumexp(node: Any, context: Context) -> Node:
    """The node for logsumexp: the maximum plus the logarithm of the scaled sum.

    Raises:
        KernelError: the function is another one, which should have been unfolded.
    """
    if node.name != "logsumexp":
        raise KernelError(f"{context.program}: {node}: expected an unfolded function")
    return Map("add", parts_of(node, context))


def parts_of(node: Any, context: Context) -> tuple[Node, Node]:
    """The maximum, and the logarithm of the scaled sum."""
    body, over, condition = _flat(node)
    value = lower(body, context.everywhere())
    if condition != sympy.true:
        value = Select(lower_condition(condition, context.everywhere()), value, MINUS_INFINITY)
    top = Reduce("max", value, over)
    _, total = _scaled_sum(body, over, condition, context)
    sizes = [str(bound.extent) for bound in over if isinstance(bound.extent, Dim)]
    if isinstance(total, Reduce) and not context.nonempty.issuperset(sizes):
        # Over nothing there is nothing to subtract it from; only the logarithm of 0 must not be met.
        total = Map("at_least_one", (total,))
    return wanted_top(top, context), Map("log", (total,))


def logsumexp_parts(value: Expr, context: Context) -> tuple[Node, Node] | None:
    """The maximum and the logarithm that a logsumexp, or a name defined as one, consists of; None for anything else."""
    if isinstance(value, Defined) and value.name == "logsumexp":
        return parts_of(value, context)
    if isinstance(value, Softplus):
        inside = logsumexp_parts(value.args[0], context)
        return softplus_parts(inside) if inside is not None else None
    base = value.base if isinstance(value, Indexed) else value
    names = context.parts.get(str(base.name)) if isinstance(base, (Tensor, Scalar)) else None
    if names is None:
        return None
    where = value.indices if isinstance(value, Indexed) else ()
    top, logarithm = (named_entry(name, where, context) for name in names)
    return Map("finite", (top,)) if context.finite_tops else wanted_top(top, context), logarithm


def rows(terms: Sequence[Expr]) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """The terms of a sum of three or more that are less the logsumexp of their row, each with that, and the others.

    What is less twice a logsumexp may have two such terms. A row may be a sum itself, x - y - logsumexp(x - z) is
    (x - z) - logsumexp(x - z) and z - y.
    """
    found: list[tuple[Expr, Expr]] = []
    left = [copy for term in terms for copy in _one_by_one(term)]
    if len(left) <= PAIR:
        return found, list(terms)
    for scale in list(left):
        bare = -scale if is_negative(scale) else scale
        if scale not in left or not (isinstance(bare, Defined) and bare.name == "logsumexp"):
            continue
        for term in left:
            value = -term if is_negative(term) else term
            opposite = is_negative(term) != is_negative(scale)
            if opposite and next(unify(bare.args[1], value, {}), None) is not None:
                left.remove(term)
                left.remove(scale)
                found.append((term, scale))
                break
        else:
            row = row_among(left, scale) if is_negative(scale) else None
            if row is not None:
                left = list(Add.make_args(Add(*left) - row - scale)) if Add(*left) != row + scale else []
                found.append((row, scale))
    return found, list(Add.make_args(Add(*left))) if left else []


def _one_by_one(term: Expr) -> list[Expr]:
    """A multiple of a logsumexp as that many terms, and what is left of the multiple; any other term as it is."""
    number, value = term.as_coeff_Mul()
    is_sum = isinstance(value, Defined) and value.name == "logsumexp"
    if not is_sum or not number.is_Rational or abs(number) < 1:
        return [term]
    whole = int(number)
    rest = [(number - whole) * value] if number != whole else []
    return [sympy.sign(number) * value] * abs(whole) + rest


def is_negative(term: Expr) -> bool:
    """Whether a term is subtracted: the number in it is below 0."""
    return bool(term.as_coeff_Mul()[0].is_negative)


def softplus_parts(argument: tuple[Node, Node]) -> tuple[Node, Node]:
    """The two parts of softplus(u), u a logsumexp in its two parts: one more term, 0, in the sum."""
    top, logarithm = argument
    larger = chosen(Map("ge", (top, ZERO)), top, ZERO)
    below = Map("sub", (top, larger))
    terms = Map("exp", (Map("add", (below, logarithm)),)), Map("exp", (Map("neg", (larger,)),))
    return larger, Map("log", (Map("add", terms),))

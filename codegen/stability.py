"""Stability by construction: exponentials, their sums and logarithms are rewritten before anything is planned.

First stage of the compiler. The body of a definition is mathematics; two bodies that are equal over the reals may
differ by an overflow in floating point. Each rule of the table is an identity that `derive.prove` decides (a test
replays them):

    Sum(exp(f), j)            = exp(logsumexp(f, j))
    Sum(exp(f) * x, j)        = exp(logsumexp(f, j)) * Sum(exp(f - logsumexp(f, j)) * x, j)
    1 + exp(u)                = exp(softplus(u))          softplus(u) = log(1 + exp(u))
    exp(u) exp(v)             = exp(u + v)
    log(exp(u))               = u
    log(x y)                  = log x + log y             where one factor is an exponential

After them an exponential is only ever taken of a difference such as S - logsumexp(S), which is at most 0. The kernel
for logsumexp subtracts the row's maximum; softplus is the elementwise case. Nothing is recognised by name: a
statement that spells out exp(s)/Sum(exp(s)) gets what `softmax` gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
from sympy import Add, Expr, Mul, Pow, S

from derive.binders import all_names, free_indices, fresh_index, map_children, substitute
from derive.folding import same
from derive.functions import Defined, unfold
from derive.language import Index, is_bracket
from derive.program import Definition


class Softplus(sympy.Function):
    """log(1 + exp(u)), kept as one elementwise function."""

    nargs = 1


def stable(expression: Expr, known: tuple[Definition, ...] = ()) -> Expr:
    """The expression rewritten so that no intermediate value overflows where the result does not.

    `known` are definitions already computed: a logsumexp that one of them is defined as is read from it.
    """
    return _rewrite(unfold(expression), known)


def _rewrite(node: Any, known: tuple[Definition, ...]) -> Any:
    if isinstance(node, Defined):
        node = unfold(node)
    inner = map_children(node, lambda part: _rewrite(part, known))
    for kind, rule in RULES:
        if isinstance(inner, kind):
            changed = rule(inner, known)
            if changed is not None:
                return changed
    return inner


def _exponential_parts(product: Expr) -> tuple[Expr, list[Expr], list[Expr]]:
    """(exponent, brackets, other factors) of a product with an exponential among its factors."""
    exponent, brackets, others = S.Zero, [], []
    for factor in Mul.make_args(product):
        base, power = factor.as_base_exp() if isinstance(factor, Pow) else (factor, S.One)
        if isinstance(factor, sympy.exp):
            exponent += factor.args[0]
        elif isinstance(base, sympy.exp):
            exponent += base.args[0] * power
        elif is_bracket(factor):
            brackets.append(factor)
        else:
            others.append(factor)
    return exponent, brackets, others


def _sum(node: Any, known: tuple[Definition, ...]) -> Expr | None:
    """A sum with an exponential factor that depends on the index becomes a scaled sum."""
    if len(node.limits) != 1:
        return None
    index: Index = node.limits[0][0]
    exponent, brackets, others = _exponential_parts(node.function)
    moving = Add(*(term for term in Add.make_args(exponent) if index in free_indices(term)))
    if moving == 0:
        return None
    fixed = exponent - moving
    condition = sympy.And(*(bracket.args[0] for bracket in brackets))
    scale = _logsumexp(moving, index, condition, known)
    outside = Mul(*(factor for factor in others if index not in free_indices(factor)))
    inside = [factor for factor in others if index in free_indices(factor)]
    if not inside:
        return outside * sympy.exp(fixed + scale)
    # Under the remaining sum the inner index gets a name of its own: no index is bound inside its own scope.
    apart = fresh_index(index, all_names(node))
    inner_body, inner_condition = substitute(moving, {index: apart}), substitute(condition, {index: apart})
    scale = _logsumexp(inner_body, apart, inner_condition, known)
    weighted = Mul(*brackets, sympy.exp(moving - scale), *inside)
    return outside * sympy.exp(fixed + scale) * sympy.Sum(weighted, *node.limits)


def _logsumexp(body: Expr, index: Index, condition: Any, known: tuple[Definition, ...]) -> Expr:
    made = Defined("logsumexp", body, index, index, condition)
    for definition in known:
        for binding in _instances(definition, made):
            return binding
    return made


def _instances(definition: Definition, wanted: Defined) -> list[Expr]:
    """The entry of a definition that is this very logsumexp, up to the names of its indices."""
    body = definition.body
    if not (isinstance(body, Defined) and body.name == wanted.name):
        return []
    if len(definition.indices) != len(free_indices(wanted)):
        return []
    by_extent = {index.name: index for index in free_indices(wanted)}
    names = {index: by_extent.get(index.name, index) for index in definition.indices}
    if not all(value in free_indices(wanted) for value in names.values()):
        return []
    moved = substitute(body, names)
    return [substitute(definition.left, names)] if same(moved, wanted) else []


def _add(node: Any, _known: tuple[Definition, ...]) -> Expr | None:
    """1 + exp(u) is exp(softplus(u))."""
    if len(node.args) == 2 and S.One in node.args:
        other = node.args[1] if node.args[0] == S.One else node.args[0]
        if isinstance(other, sympy.exp):
            return sympy.exp(Softplus(other.args[0]))
    return None


def _pow(node: Any, _known: tuple[Definition, ...]) -> Expr | None:
    base, power = node.args
    return sympy.exp(base.args[0] * power) if isinstance(base, sympy.exp) and power != S.One else None


def _mul(node: Any, _known: tuple[Definition, ...]) -> Expr | None:
    exponent, brackets, others = _exponential_parts(node)
    count = sum(isinstance(f, sympy.exp) or (isinstance(f, Pow) and isinstance(f.base, sympy.exp)) for f in node.args)
    if count < 2:
        return None
    return Mul(*brackets, *others, sympy.exp(exponent))


def _log(node: Any, _known: tuple[Definition, ...]) -> Expr | None:
    exponent, brackets, others = _exponential_parts(node.args[0])
    if exponent == 0 or brackets:
        return None
    rest = Mul(*others)
    return exponent if rest == 1 else exponent + sympy.log(rest)


RULES: tuple[tuple[type, Callable[[Any, tuple[Definition, ...]], Expr | None]], ...] = (
    (sympy.Sum, _sum),
    (sympy.Add, _add),
    (sympy.Pow, _pow),
    (sympy.Mul, _mul),
    (sympy.log, _log),
)

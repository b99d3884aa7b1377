"""Differences from a mean, centred once more: what a rounded mean leaves over is a mean itself.

Beside `codegen.stability.rules`, for the definitions of a statement. A mean m of values around 1e4 is off by about an
eps of 1e4, and so is every x - m, however small the spread is. But that error is the same for all of them, and their
mean shows it. With d = x - m, whose mean is 0,

    x[c] - mean(x)  =  d[c] - mean(d)

over the reals, and the right side is right to an eps of itself (the corrected two-pass algorithm; Chan, Golub and
LeVeque 1983). Nothing is assumed of the mean but that it is one: it may be written out, or be the name of a definition,
over any index or several. In adjoints only differences of forward values are centred, which may be divided by their
spread. What comes from above is left alone: adjoints are linear in it, and nothing divides it by its own size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import sympy
from sympy import Add, Expr, Mul

from codegen.stability.functions import Whole
from codegen.stability.guards import Definitions, spelled_out
from derive.binders import (
    all_names,
    free_indices,
    fresh_index,
    leaves_of,
    map_children,
    scope_of,
    substitute,
    unshadowed,
)
from derive.folding import same
from derive.language import Index, Scalar, Tensor
from derive.writing import written


def centred(body: Expr, known: Definitions, among: frozenset[Any] | None = None) -> tuple[Expr, tuple[str, ...]]:
    """The body with every difference from a mean centred once more, and the identities that this rests on.

    With `among`, differences of these tensors and scalars alone.
    """
    reasons: dict[Expr, str] = {}

    def visit(node: Any, bound: frozenset[Index]) -> Any:
        scope = scope_of(node)
        inside = bound if scope is None else bound | frozenset(scope.bound)
        inner = map_children(node, lambda part: visit(part, inside))
        if not isinstance(inner, Add):
            return inner
        for difference, index_of in _differences(inner, known):
            if among is not None and not values_in(difference) <= among:
                continue
            total = _total(difference, index_of, bound)
            count = Mul(*(index.extent for index in index_of.values()))
            if not any(same(total, other) for other in reasons):
                reasons[total] = f"{written(unshadowed(total))} = 0"
            rest = Add(*(term for term in inner.args if term not in difference.args))
            return rest + Whole(difference) - total.replace(difference, Whole(difference)) / count
        return inner

    return visit(body, frozenset()), tuple(reasons.values())


def values_in(expression: Any) -> frozenset[Any]:
    """The tensors and scalars that an expression reads."""
    return frozenset(leaf for leaf in leaves_of(expression) if isinstance(leaf, (Tensor, Scalar)))


def _total(difference: Expr, index_of: Mapping[Index, Index], bound: frozenset[Index]) -> Expr:
    """The sum of the differences; its indices are the ones they have, unless these are bound already."""
    names = {index: index for index in index_of.values()}
    taken = set(all_names(difference))
    for index in names:
        if index in bound:
            names[index] = fresh_index(index, taken)
            taken.add(names[index].name)
    limits = [(index, 0, index.extent - 1) for index in names.values()]
    return sympy.Sum(substitute(difference, names), *limits)


def _differences(node: Add, known: Definitions) -> Iterator[tuple[Expr, Mapping[Index, Index]]]:
    """The differences k x - k mean(x) in a sum, each with the index of x for each one that the mean is taken over."""
    for mean in node.args:
        for scale, average in _means(mean, known):
            others = [term for term in node.args if term != mean]
            for candidate in (Add(*others), *others):
                for index_of in _readings(average, candidate, scale):
                    yield candidate + mean, index_of


def _means(term: Expr, known: Definitions) -> Iterator[tuple[Expr, Any]]:
    """(k, Sum(f)) for a term that is k Sum(f), spelled out or by name."""
    for place, factor in enumerate(factors := Mul.make_args(term)):
        found = spelled_out(factor, known)
        number, rest = (factor if found is None else found).as_independent(sympy.Sum, as_Add=False)
        if isinstance(rest, sympy.Sum):
            yield Mul(number, *factors[:place], *factors[place + 1 :]), rest


def _readings(total: Any, candidate: Expr, scale: Expr) -> Iterator[Mapping[Index, Index]]:
    """The indices under which scale * total is less the mean of the candidate over them.

    Neither the scale nor what is added up may have such an index too: g[c] x[c] - g[c] mean(x) does not add up to 0.
    """
    bound = [limit[0] for limit in total.limits]
    weight = -scale * Mul(*(index.extent for index in bound))
    free = sorted(free_indices(candidate) - free_indices(scale) - free_indices(total), key=str)
    for places in product(*([other for other in free if other.extent == index.extent] for index in bound)):
        index_of = dict(zip(bound, places, strict=True))
        if len(set(places)) == len(places) and same(substitute(weight * total.function, index_of), candidate):
            yield index_of

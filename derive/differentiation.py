"""Differentiation from one axiom: dX[i, a] / dX[j, b] = delta(i, j) delta(a, b).

The chain rule is carried *backwards* through an expression. `pull_back` starts with a cotangent at the root and walks
to the leaves; at a sum the bound index joins the scope, at a product the other factors join the cotangent, at a scalar
function SymPy's derivative of that one function does. At a leaf X[e] the axiom gives the contribution

    dX[b] += Sum over the scope of  cotangent * delta(b, e)

and `contracted_sum` removes the deltas. No matrix rule and no Jacobian of softmax is listed anywhere; they come out.
Because sums are never multiplied out, the cost is linear in the size of the expression, and the result has the shape
of the textbook formula.

FAILURE: piecewise functions are differentiated branch by branch, which is right almost everywhere; the points where a
condition switches are excluded (`derive.exceptional` names them as a hypothesis).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Eq, Expr, Indexed, KroneckerDelta, Mul, Ne, Not, Or

from derive.binders import all_names, free_indices, fresh_index, map_children, substitute
from derive.errors import StatementError
from derive.functions import unfold
from derive.language import Index, Product, Scalar, Sum, Tensor, Where, extent_of, iverson, where
from derive.symbols import are_comparable


@dataclass(frozen=True)
class Contribution:
    """What one leaf receives: the sum over `scope` of `cotangent`, to be placed at the leaf's own indices."""

    leaf: Expr
    scope: tuple[Index, ...]
    cotangent: Expr


def pull_back(
    expression: Expr, cotangent: Expr, scope: tuple[Index, ...], active: Callable[[Any], bool]
) -> Iterator[Contribution]:
    """The contributions of every active leaf of the expression; a leaf is active when `active(its symbol)` holds."""
    yield from _pull(unfold(expression), cotangent, scope, active)


def _is_active(expression: Any, active: Callable[[Any], bool]) -> bool:
    return any(active(symbol) for symbol in expression.atoms(Tensor, Scalar))


def _pull(
    node: Expr, cotangent: Expr, scope: tuple[Index, ...], active: Callable[[Any], bool]
) -> Iterator[Contribution]:
    """What each active leaf below the node receives of the cotangent; for each node on the way there is a rule."""
    if cotangent == 0 or not _is_active(node, active):
        return
    if isinstance(node, Indexed):
        if active(node.base):
            yield Contribution(node, scope, cotangent)
        return
    if isinstance(node, Scalar):
        yield Contribution(node, scope, cotangent)
        return
    for rule in (rule for kind, rule in RULES if isinstance(node, kind)):
        for child, passed, bound in rule(node, cotangent, scope):
            yield from _pull(child, passed, bound, active)
        return
    raise StatementError(f"{node}: no derivative is known for {type(node).__name__}")


# ---------------------------------------------------------------------------------------------------------------------
# One rule for each kind of node: which children receive which cotangent in which scope.

Passed = Iterator[tuple[Expr, Expr, tuple[Index, ...]]]


def _through_add(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> Passed:
    for term in node.args:
        yield term, cotangent, scope


def _through_mul(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> Passed:
    for place, factor in enumerate(node.args):
        yield factor, Mul(cotangent, *node.args[:place], *node.args[place + 1 :]), scope


def _through_pow(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> Passed:
    base, power = node.args
    yield base, cotangent * power * base ** (power - 1), scope
    if not power.is_number:
        yield power, cotangent * node * sympy.log(base), scope


def _opened(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> tuple[Expr, tuple[Index, ...]]:
    """The body of a sum or product with its bound indices renamed apart from everything in scope."""
    taken = set(all_names(cotangent)) | {index.name for index in scope} | set(all_names(node))
    free = {index.name for index in (*free_indices(cotangent), *scope)}
    bound: list[Index] = []
    renamed: dict[Any, Any] = {}
    for index, *_ in reversed(node.limits):
        new = substitute(index, renamed) if renamed else index
        if index.name in free:
            new = fresh_index(new, taken)
            taken.add(new.name)
        if new != index:
            renamed[index] = new
        free.add(new.name)
        bound.append(new)
    return substitute(node.function, renamed), tuple(bound)


def _through_sum(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> Passed:
    body, bound = _opened(node, cotangent, scope)
    yield body, cotangent, (*scope, *bound)


def _through_product(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> Passed:
    # The factor that varies is left out of the product, not divided out of it: the derivative is right at f = 0 too.
    body, bound = _opened(node, cotangent, scope)
    taken = set(all_names(node) | all_names(body) | all_names(cotangent)) | {index.name for index in (*scope, *bound)}
    other: dict[Any, Any] = {}
    for index in bound:
        other[index] = fresh_index(substitute(index, other), taken)
        taken.add(other[index].name)
    elsewhere = Or(*(Ne(new, old) for old, new in other.items()))
    others = Product(where(elsewhere, substitute(body, other), 1), *other.values())
    yield body, cotangent * others, (*scope, *bound)


def _through_where(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> Passed:
    condition, yes, no = node.args
    yield yes, cotangent * iverson(condition), scope
    yield no, cotangent * iverson(Not(condition)), scope


def _through_function(node: Expr, cotangent: Expr, scope: tuple[Index, ...]) -> Passed:
    for place, argument in enumerate(node.args):
        yield argument, cotangent * node.fdiff(place + 1), scope


def _through_step(_node: Expr, _cotangent: Expr, _scope: tuple[Index, ...]) -> Passed:
    return iter(())  # constant almost everywhere


RULES: tuple[tuple[type, Callable[[Expr, Expr, tuple[Index, ...]], Passed]], ...] = (
    (sympy.Add, _through_add),
    (sympy.Mul, _through_mul),
    (sympy.Pow, _through_pow),
    (sympy.Sum, _through_sum),
    (sympy.Product, _through_product),
    (Where, _through_where),
    (KroneckerDelta, _through_step),
    (sympy.sign, _through_step),
    (sympy.Function, _through_function),
)


# ---------------------------------------------------------------------------------------------------------------------
# The axiom at the leaf, and the removal of its deltas.


def placed(contribution: Contribution, target: Sequence[Expr]) -> Expr:
    """The contribution at the target indices: Sum over the scope of cotangent * delta(target, leaf's indices)."""
    cotangent, scope = contribution.cotangent, contribution.scope
    free = {index.name for part in target for index in free_indices(part)}
    clash = {index.name for index in scope} & free
    where = list(contribution.leaf.indices) if isinstance(contribution.leaf, Indexed) else []
    if clash:
        taken = set(all_names(cotangent)).union(*map(all_names, where), {index.name for index in scope}, free)
        apart: dict[Any, Any] = {}
        for index in scope:
            if index.name in clash:
                new = fresh_index(substitute(index, apart), taken)
                taken.add(new.name)
                apart[index] = new
        cotangent = substitute(cotangent, apart)
        where = [substitute(part, apart) for part in where]
        scope = tuple(substitute(index, apart) for index in scope)
    pairs = list(zip(target, where, strict=True))
    direct: dict[Any, Expr] = {}
    if not any(isinstance(factor, KroneckerDelta) for factor in _factors(cotangent)):
        # Their deltas would be contracted one by one, each time with the whole cotangent made anew.
        direct = {part: to for to, part in pairs if part in scope and where.count(part) == 1 and _is_inside(to, part)}
    cotangent = substitute(cotangent, direct)
    scope = tuple(substitute(index, direct) for index in scope if index not in direct)
    deltas = [KroneckerDelta(wanted, substitute(part, direct)) for wanted, part in pairs if part not in direct]
    return contracted_sum(Mul(*deltas, cotangent), scope)


def with_comparable_deltas(expression: Any) -> Any:
    """The expression with a bracket for each delta between positions of different ranges, which a reader may not write.

    The derivative of x[i + 1] for x[k] is 1 where i + 1 = k, and k may run over less than the whole axis.
    """
    if isinstance(expression, KroneckerDelta) and not are_comparable(*expression.args[:2]):
        return iverson(Eq(*expression.args[:2]))
    return map_children(expression, with_comparable_deltas)


def contracted_sum(body: Expr, scope: Sequence[Index]) -> Expr:
    """Sum(body, *scope) with deltas contracted, factors that do not depend on a bound index pulled out.

    A sum over an index that nothing depends on gives its extent. Sums of more than one term are left whole.
    """
    left = list(scope)
    while (solved := next(_solved(body, left), None)) is not None:
        # Ranges are rewritten along: with n = m, an index over T[n] becomes one over T[m].
        index, value, factor = solved
        left = [substitute(other, {index: value}) for other in left if other != index]
        body = substitute(Mul(*(other for other in _factors(body) if other != factor)), {index: value})
    return _sum_factors(body, _outermost_first(left))


def _solved(body: Expr, scope: Sequence[Index]) -> Iterator[tuple[Index, Expr, Expr]]:
    """The indices that a delta factor forces to a value, each with the value and the factor."""
    for index in scope:
        found = _solve_delta(body, index, scope)
        if found is not None:
            yield index, *found


def _outermost_first(scope: Sequence[Index]) -> list[Index]:
    """The indices in an order in which each range depends on earlier ones only."""
    ordered: list[Index] = []
    waiting = list(scope)
    while waiting:
        outer = next(index for index in waiting if not free_indices(index.extent) & set(waiting))
        waiting.remove(outer)
        ordered.append(outer)
    return ordered


def _factors(body: Expr) -> tuple[Expr, ...]:
    return tuple(Mul.make_args(body))


def _solve_delta(body: Expr, index: Index, scope: Sequence[Index]) -> tuple[Expr, Expr] | None:
    """The value a delta factor forces the index to, a bound index only when no other serves, and the factor."""
    found: list[tuple[Expr, Expr]] = []
    for factor in _factors(body):
        if isinstance(factor, KroneckerDelta):
            value = place_of(index, *factor.args[:2])
            if value is not None:
                found.append((value, factor))
    free = [(value, factor) for value, factor in found if value not in scope]
    return next(iter(free or found), None)


def place_of(index: Index, left: Expr, right: Expr) -> Expr | None:
    """Where the index is when two positions are equal, if that is surely in its range: of s + t + 1 = T, T - 1 - s."""
    if index in (left, right):
        value = right if left == index else left
    else:
        apart = left - right
        step = apart.coeff(index)
        if step not in (1, -1):
            return None
        value = index - step * apart
    return value if index not in free_indices(value) and _is_inside(value, index) else None


def _is_inside(value: Expr, index: Index) -> bool:
    """Whether the index takes the value in every size: a fixed position, or T in a range of T, may lie past its end.

    Two rows of a ragged axis have ranges of their own, until a delta between the rows has made them one.
    """
    if value.is_Integer:
        return value == 0 or bool(index.extent.is_Integer and value < index.extent)
    return bool(extent_of(value) == index.extent)


def _sum_factors(body: Expr, scope: Sequence[Index]) -> Expr:
    if not scope:
        return body
    outer, *rest = scope
    inner = _sum_factors(body, rest)
    dependent = [factor for factor in _factors(inner) if outer in free_indices(factor)]
    free = [factor for factor in _factors(inner) if outer not in free_indices(factor)]
    if not dependent:
        return Mul(*free, outer.extent)
    return Mul(*free, Sum(Mul(*dependent), outer))

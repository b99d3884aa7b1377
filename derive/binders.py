"""Binding: which indices of an expression are free, renaming bound ones, substitution that captures nothing.

SymPy's own `subs` lets `Sum(c[i]*x[i], i)` swallow an outer `i`. Everything that substitutes goes through
`substitute` instead. It meets a binder in one place, the function `scope_of`, so that sums, products and the functions
of `derive.functions` all obey the same two rules: a bound index is never replaced, and when a replacement would be
caught, the bound index first gets a fresh name. Ranges may depend on outer indices (`t` over T[n]); a range is part of
its index, so renaming `n` renames `t` with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
from sympy import Indexed
from sympy.core.relational import Relational

from derive.functions import Defined
from derive.language import Dim, Flag, Index, Scalar, Tensor, bind, bound_range


@dataclass(frozen=True)
class Scope:
    """A binder taken apart: the indices it binds (outermost first), what lies inside and what lies outside."""

    bound: tuple[Index, ...]
    inside: tuple[Any, ...]
    outside: tuple[Any, ...]


def scope_of(expression: Any) -> Scope | None:
    """The binder's parts, or None for an expression that binds nothing."""
    if isinstance(expression, (sympy.Sum, sympy.Product)):
        # SymPy lists the innermost limit first.
        return Scope(tuple(limit[0] for limit in reversed(expression.limits)), (expression.function,), ())
    if isinstance(expression, Defined):
        _, body, bound, place, condition = expression.args
        return Scope((bound,), (body, condition), (place,) if expression.positional else ())
    return None


def rebuild(expression: Any, bound: tuple[Index, ...], inside: tuple[Any, ...], outside: tuple[Any, ...]) -> Any:
    """The binder put together again from new parts."""
    if isinstance(expression, Defined):
        return Defined(expression.name, inside[0], bound[0], outside[0] if outside else bound[0], inside[1])
    return bind(type(expression), inside[0], *[bound_range(index, "binder") for index in reversed(bound)])


@lru_cache(maxsize=50_000)
def leaves_of(expression: Any) -> frozenset[Any]:
    """The tensors, scalars, flags, sizes and indices that occur in an expression, not those in ranges."""
    if isinstance(expression, (Index, Dim, Scalar, Flag)):
        return frozenset({expression})
    found = frozenset().union(*map(leaves_of, expression.args))
    return found | {expression} if isinstance(expression, Tensor) else found


@lru_cache(maxsize=50_000)
def free_indices(expression: Any) -> frozenset[Index]:
    """The free indices, including those that the ranges of bound ones depend on."""
    if isinstance(expression, Index):
        return frozenset({expression}) | free_indices(expression.extent)
    if isinstance(expression, Tensor) or not expression.args:
        return frozenset()
    scope = scope_of(expression)
    if scope is None:
        return frozenset().union(*map(free_indices, expression.args))
    found = frozenset().union(*map(free_indices, scope.inside))
    for bound in reversed(scope.bound):
        found = (found - {bound}) | free_indices(bound.extent)
    return found.union(*map(free_indices, scope.outside))


@lru_cache(maxsize=50_000)
def all_names(expression: Any) -> frozenset[str]:
    """The names of all indices anywhere in the expression, bound or free, and of everything else that has a name."""
    if isinstance(expression, Index):
        return frozenset({expression.name}) | all_names(expression.extent)
    if isinstance(expression, (Tensor, Dim, Scalar, Flag)):
        return frozenset({str(expression.name)})
    if not expression.args:
        return frozenset()
    scope = scope_of(expression)
    bound = frozenset().union(*map(all_names, scope.bound)) if scope else frozenset()
    return bound.union(*map(all_names, expression.args))


@lru_cache(maxsize=50_000)
def node_count(expression: Any) -> int:
    """How many nodes the expression has when it is written out, a part that is shared counted wherever it stands."""
    return 1 + sum(map(node_count, expression.args))


def fresh_index(like: Index, taken: Iterable[str]) -> Index:
    """An index over the same range whose name is not taken: i, i_1, i_2, ..."""
    used = set(taken)
    stem = like.name.rsplit("_", 1)[0] if like.name.rsplit("_", 1)[-1].isdigit() else like.name
    number = 1
    while f"{stem}_{number}" in used:
        number += 1
    return Index(f"{stem}_{number}", like.extent, like.leading)


def substitute(expression: Any, replacements: Mapping[Any, Any]) -> Any:
    """The expression with free indices, scalars or entries replaced, no replacement caught by a binder.

    Keys are indices, scalars or whole entries (`A[i, j]` as written); values any expressions.
    """
    active = {old: new for old, new in replacements.items() if old != new}
    return _substitute(expression, active) if active else expression


def _substitute(expression: Any, active: Mapping[Any, Any]) -> Any:
    if expression in active:
        return active[expression]
    if isinstance(expression, Index):
        extent = _substitute(expression.extent, active)
        return expression if extent == expression.extent else Index(expression.name, extent, expression.leading)
    if isinstance(expression, Tensor) or not expression.args:
        return expression
    scope = scope_of(expression)
    if scope is not None:
        return _substitute_under(expression, scope, active)
    arguments = [_substitute(argument, active) for argument in expression.args]
    if all(new is old for new, old in zip(arguments, expression.args, strict=True)):
        return expression
    return _remade(expression, arguments)


def _remade(expression: Any, arguments: list[Any]) -> Any:
    """The expression with other arguments."""
    if isinstance(expression, Indexed):
        return arguments[0][tuple(arguments[1:])]
    if isinstance(expression, Relational):
        return compared(expression.func, *arguments)
    return expression.func(*arguments)


def compared(kind: type[Relational], left: Any, right: Any) -> Any:
    """The comparison of two expressions. Where it is one of sums, SymPy is not asked for its truth: it looks long."""
    if left != right and (_binds(left) or _binds(right)):
        return kind(left, right, evaluate=False)
    return kind(left, right)


@lru_cache(maxsize=50_000)
def _binds(expression: Any) -> bool:
    """Whether an index is bound anywhere in the expression."""
    return scope_of(expression) is not None or any(map(_binds, expression.args))


def _substitute_under(expression: Any, scope: Scope, active: Mapping[Any, Any]) -> Any:
    inner = {old: new for old, new in active.items() if not free_indices(old) & set(scope.bound)}
    outside = tuple(_substitute(part, active) for part in scope.outside)
    incoming = frozenset().union(*(free_indices(new) for new in inner.values())) if inner else frozenset()
    taken = set(all_names(expression)).union(*(all_names(part) for pair in active.items() for part in pair))
    bound: list[Index] = []
    renamed: dict[Any, Any] = dict(inner)
    for index in scope.bound:
        new = _substitute(index, {old: value for old, value in renamed.items() if old != index})
        if any(index.name == other.name for other in incoming):
            new = fresh_index(new, taken)
            taken.add(new.name)
        if new != index:
            renamed[index] = new
        bound.append(new)
    inside = tuple(_substitute(part, renamed) for part in scope.inside) if renamed else scope.inside
    if tuple(bound) == scope.bound and inside == scope.inside and outside == scope.outside:
        return expression
    return rebuild(expression, tuple(bound), inside, outside)


def unshadowed(expression: Any) -> Any:
    """The expression with an index renamed that is bound inside the scope of another one of its name.

    Substitution respects scopes, so that such an expression means what it should; a reader may not see it, and a
    statement may not say it.
    """
    return _unshadowed(expression, frozenset(), set(all_names(expression)))


def named_apart(expression: Any) -> Any:
    """The expression with every bound index renamed that has a free one's name, so that the free ones may be bound.

    What stands beside Sum(exp(x[i]), i) as x[i] can then be summed over i as well. A function that is read at its own
    index, softmax(x[i], over=i), stays as it is.
    """
    free = frozenset(index.name for index in free_indices(expression))
    return _unshadowed(expression, free, set(all_names(expression)))


def _unshadowed(expression: Any, around: frozenset[str], taken: set[str]) -> Any:
    scope = scope_of(expression)
    if scope is None:
        return map_children(expression, lambda part: _unshadowed(part, around, taken))
    read_in_place = bool(scope.outside) and scope.outside == scope.bound  # a vector over j, read at an outer j
    used = set(around)
    bound: list[Index] = []
    names: dict[Any, Any] = {}
    for index in scope.bound:
        new = substitute(index, names)
        if index.name in used and not read_in_place:
            new = fresh_index(new, taken)
            taken.add(new.name)
        names[index] = new
        used.add(new.name)
        bound.append(new)
    inside = tuple(_unshadowed(substitute(part, names), frozenset(used), taken) for part in scope.inside)
    outside = tuple(_unshadowed(part, around, taken) for part in scope.outside)
    if tuple(bound) == scope.bound and inside == scope.inside and outside == scope.outside:
        return expression
    return rebuild(expression, tuple(bound), inside, outside)


def map_children(expression: Any, change: Callable[[Any], Any]) -> Any:
    """The expression rebuilt from changed parts, itself when nothing changed. Bound indices are left as they are."""
    if isinstance(expression, Tensor) or not expression.args:
        return expression
    scope = scope_of(expression)
    if scope is not None:
        inside = tuple(map(change, scope.inside))
        outside = tuple(map(change, scope.outside))
        same = inside == scope.inside and outside == scope.outside
        return expression if same else rebuild(expression, scope.bound, inside, outside)
    arguments = [change(argument) for argument in expression.args]
    if all(new is old for new, old in zip(arguments, expression.args, strict=True)):
        return expression
    return _remade(expression, arguments)


@lru_cache(maxsize=50_000)
def symbols_of(expression: Any) -> frozenset[Any]:
    """The tensors, scalars and flags that occur in an expression, also in the ranges of its indices."""
    leaves = leaves_of(expression)
    found = frozenset(leaf for leaf in leaves if isinstance(leaf, (Tensor, Scalar, Flag)))
    lengths = (leaf.extent for leaf in leaves if isinstance(leaf, Index) and isinstance(leaf.extent, Indexed))
    return found.union(*map(symbols_of, lengths))

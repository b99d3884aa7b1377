"""Whether an expression has a value wherever it is computed: what stands under a condition may have none elsewhere.

A name is an array, computed for all indices. In

    where(s[n] > 0, log(s[n])*Sum(tanh(log(s[n])*x[n, a]), a), 0)

a name for log(s[n]) would be nan where the condition fails, and so would the slope be, 0 times 1/s[n]: what kept it
away is no longer around it. `codegen.algebra.parts` asks here before it takes a part out of a condition.

The answer is read off the structure. Functions have a value everywhere, but for logarithms, and powers that are no
whole number or negative, of what may not be positive, and exponentials, which may overflow: these count in a logarithm
or a divisor alone, or beside a divisor that has exponentials, where they are taken in log space. What a condition
inside of the expression says is known there: where(s > 0, log(2*s), 0) has a value everywhere, and so has
where(s > 0, s, s/(1 - s)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import sympy
from sympy import And, Indexed, Mul, Pow, S
from sympy.core.relational import Relational

from derive.binders import free_indices, map_children, scope_of
from derive.functions import Defined, unfold
from derive.language import Index, Scalar, Tensor, Where
from derive.normal.signs import reasons_nonnegative, reasons_positive

POSITIVE, NONZERO = Scalar("positive", positive=True), Scalar("nonzero")  # stand for what a condition says is one
NONNEGATIVE = NONZERO**2  # likewise
Known = frozenset[tuple[Any, Any]]  # what a condition says something of, and what stands for it
NOTHING: Known = frozenset()


@lru_cache(maxsize=50_000)
def has_value_everywhere(node: Any, known: Known = NOTHING, in_log_space: bool = False) -> bool:
    """Whether the structure shows it; `in_log_space` says that a logarithm is taken, or something divided by it."""
    if isinstance(node, (Indexed, Index, Tensor)) or not node.args:
        return bool(node not in (S.ComplexInfinity, S.Infinity, S.NegativeInfinity, S.NaN))
    if isinstance(node, Where):
        condition, yes, no = node.args
        met = [(yes, known | _said_by(condition)), (no, known | _said_by(sympy.Not(condition)))]
        return all(has_value_everywhere(branch, inside, in_log_space) for branch, inside in met)
    scope = scope_of(node)
    if scope is not None:  # another index has the same name there
        known = frozenset(fact for fact in known if not free_indices(fact[0]) & set(scope.bound))
    if isinstance(node, Defined):
        return has_value_everywhere(node.args[1], known | _said_by(node.args[4]))
    if isinstance(node, sympy.exp):
        return (in_log_space or _has_sign(-node.args[0], known, strict=False)) and has_value_everywhere(
            node.args[0], known
        )
    if isinstance(node, sympy.log):
        return _has_sign(node.args[0], known, strict=True) and has_value_everywhere(node.args[0], known, True)
    if isinstance(node, Pow) and not (node.exp.is_Integer and node.exp.is_positive):
        is_root = bool(node.exp.is_number and node.exp.is_positive)
        is_defined = _has_sign(node.base, known, strict=not is_root) or (
            not is_root and node.exp.is_Integer and _is_nonzero(node.base, known)
        )
        inside = has_value_everywhere(node.base, known, in_log_space or not is_root)
        return bool(is_defined) and inside and has_value_everywhere(node.exp, known)
    if isinstance(node, (sympy.Sum, sympy.Product)):
        return has_value_everywhere(node.function, known, in_log_space)
    if isinstance(node, Mul):
        conditions = [factor.args[0] for factor in node.args if isinstance(factor, Where) and factor.args[2] == 0]
        known = known.union(*map(_said_by, conditions))
        in_log_space = in_log_space or any(map(_divides_by_exponentials, node.args))
    return all(has_value_everywhere(part, known, in_log_space) for part in node.args)


def _divides_by_exponentials(factor: Any) -> bool:
    return bool(isinstance(factor, Pow) and factor.exp.is_negative and factor.base.has(sympy.exp))


# ---------------------------------------------------------------------------------------------------------------------
# What a condition says.


def _said_by(condition: Any) -> Known:
    """What is positive, at least 0, or other than 0 where a condition holds."""
    said = {fact for part in And.make_args(condition) if isinstance(part, Relational) for fact in _said_by_one(part)}
    return frozenset((_without_factors(value), kind) for value, kind in said)


def _said_by_one(relation: Relational) -> Iterator[tuple[Any, Any]]:
    """What one relation says: a > b that a - b is positive, and so is a if b is at least 0; a > |b| that a^2 > b^2."""
    if isinstance(relation, sympy.Ne):
        yield relation.lhs - relation.rhs, NONZERO
    if relation.rel_op not in (">", "<", ">=", "<="):
        return
    is_strict = relation.rel_op in (">", "<")
    kind = POSITIVE if is_strict else NONNEGATIVE
    more, less = relation.gts, relation.lts
    yield more - less, kind
    if (reasons_nonnegative if is_strict else reasons_positive)(unfold(less)) is not None:
        yield more, POSITIVE
    square = _square_of_absolute(less)
    if square is not None:
        yield more**2 - square, kind


def _square_of_absolute(node: Any) -> Any:
    """The square of |b|, or of a positive multiple of it, without the bars; None for all else."""
    bare = [factor.args[0] for factor in Mul.make_args(node) if isinstance(factor, sympy.Abs)]
    others = [factor for factor in Mul.make_args(node) if not isinstance(factor, sympy.Abs)]
    is_multiple = bare and all(reasons_positive(unfold(factor)) is not None for factor in others)
    return Mul(*bare, *others) ** 2 if is_multiple else None


def _without_factors(value: Any) -> Any:
    """The expression multiplied out, without its positive divisors and numbers: it has the same sign."""
    above, below = sympy.fraction(sympy.together(value))
    same = above if reasons_positive(unfold(below)) is not None else value
    return sympy.expand(same).as_content_primitive()[1]


# ---------------------------------------------------------------------------------------------------------------------
# What follows from it.


def _has_sign(node: Any, known: Known, *, strict: bool) -> bool:
    """Whether the structure shows that an expression is positive, or at least 0, given what is known.

    What is more than something known, by what is not negative, has its sign.
    """
    if isinstance(node, sympy.Max):
        return any(_has_sign(part, known, strict=strict) for part in node.args)
    reasons = reasons_positive if strict else reasons_nonnegative
    signs = [(value, kind) for value, kind in known if kind != NONZERO]
    symbols = {unfold(value): kind for value, kind in signs}
    if reasons(_with_symbols(unfold(node), symbols)) is not None:
        return True
    same = _without_factors(node)
    return reasons(_with_symbols(unfold(same), symbols)) is not None or any(
        (reasons_nonnegative if kind == POSITIVE else reasons)(unfold(sympy.expand(same - value))) is not None
        for value, kind in signs
    )


def _is_nonzero(node: Any, known: Known) -> bool:
    """Whether all factors of an expression are positive, negative, or known to be other than 0."""
    other = {value for value, kind in known if kind == NONZERO}
    return all(
        _without_factors(factor) in other
        or _has_sign(factor, known, strict=True)
        or _has_sign(-factor, known, strict=True)
        for factor in Mul.make_args(node)
        if not (factor.is_number and factor.is_nonzero)
    )


def _with_symbols(node: Any, symbols: Mapping[Any, Any]) -> Any:
    """The expression with symbols for what is known, but not where entries are read: there an index is a place."""
    if node in symbols or isinstance(node, Indexed):
        return symbols.get(node, node)
    scope = scope_of(node)
    if scope is not None:
        symbols = {value: kind for value, kind in symbols.items() if not free_indices(value) & set(scope.bound)}
    return map_children(node, lambda part: _with_symbols(part, symbols))

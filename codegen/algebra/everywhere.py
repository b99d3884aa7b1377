"""Whether an expression has a value wherever it is computed: what stands under a condition may have none elsewhere.

A name is an array, computed for all indices. In

    where(s[n] > 0, log(s[n])*Sum(tanh(log(s[n])*x[n, a]), a), 0)

a name for log(s[n]) would be nan where the condition fails, and so would the slope be, 0 times 1/s[n]: what kept it
away is no longer around it. `codegen.algebra.parts` asks here before it takes a part out of a condition.

The answer is read off the structure. Functions have a value everywhere, but for logarithms, and powers that are no
whole number or negative, of what may not be positive, and exponentials, which may overflow: these count in a logarithm
or a divisor alone, or beside a divisor that has exponentials, where they are taken in log space. What a condition
inside of the expression says is known there: where(s > 0, log(2*s), 0) has a value everywhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy
from sympy import And, Indexed, Mul, Pow, S
from sympy.core.relational import Relational

from derive.functions import Defined, unfold
from derive.language import Index, Scalar, Tensor, Where
from derive.normal.signs import reasons_nonnegative, reasons_positive

POSITIVE = Scalar("positive", positive=True)  # stands for what a condition says is positive
Known = frozenset[Any]
NOTHING: Known = frozenset()


@lru_cache(maxsize=50_000)
def has_value_everywhere(node: Any, known: Known = NOTHING, in_log_space: bool = False) -> bool:
    """Whether the structure shows it; `in_log_space` says that a logarithm is taken, or something divided by it."""
    if isinstance(node, (Indexed, Index, Tensor)) or not node.args:
        return bool(node not in (S.ComplexInfinity, S.Infinity, S.NegativeInfinity, S.NaN))
    if isinstance(node, Where):
        condition, yes, no = node.args
        met = [(yes, known | _positive_where(condition)), (no, known | _positive_where(sympy.Not(condition)))]
        return all(has_value_everywhere(branch, inside, in_log_space) for branch, inside in met)
    if isinstance(node, Defined):
        return has_value_everywhere(node.args[1], known | _positive_where(node.args[4]))
    if isinstance(node, sympy.exp):
        is_bounded = reasons_nonnegative(unfold(-node.args[0])) is not None
        return (in_log_space or is_bounded) and has_value_everywhere(node.args[0], known)
    if isinstance(node, sympy.log):
        return _is_positive(node.args[0], known) and has_value_everywhere(node.args[0], known, True)
    if isinstance(node, Pow) and not (node.exp.is_Integer and node.exp.is_positive):
        is_root = bool(node.exp.is_number and node.exp.is_positive)
        is_defined = _is_positive(node.base, known) or (is_root and reasons_nonnegative(unfold(node.base)) is not None)
        inside = has_value_everywhere(node.base, known, in_log_space or not is_root)
        return is_defined and inside and has_value_everywhere(node.exp, known)
    if isinstance(node, (sympy.Sum, sympy.Product)):
        return has_value_everywhere(node.function, known, in_log_space)
    if isinstance(node, Mul):
        conditions = [factor.args[0] for factor in node.args if isinstance(factor, Where) and factor.args[2] == 0]
        known = known.union(*map(_positive_where, conditions))
        in_log_space = in_log_space or any(map(_divides_by_exponentials, node.args))
    return all(has_value_everywhere(part, known, in_log_space) for part in node.args)


def _divides_by_exponentials(factor: Any) -> bool:
    return bool(isinstance(factor, Pow) and factor.exp.is_negative and factor.base.has(sympy.exp))


def _positive_where(condition: Any) -> Known:
    """What is positive where a condition holds, without numbers as factors."""
    found = set()
    for part in And.make_args(condition):
        if isinstance(part, Relational) and part.rel_op in (">", "<", ">=", "<="):
            more, less = (part.lhs, part.rhs) if part.rel_op in (">", ">=") else (part.rhs, part.lhs)
            is_strict = part.rel_op in (">", "<")
            reasons = reasons_nonnegative if is_strict else reasons_positive
            if reasons(unfold(less)) is not None:
                found.add(more)
            if is_strict:
                found.add(sympy.expand(more - less))
    return frozenset(value.as_content_primitive()[1] for value in found)


def _is_positive(node: Any, known: Known) -> bool:
    """Whether the structure shows that an expression is positive, given what is known to be."""
    spelled = unfold(node).xreplace(dict.fromkeys(map(unfold, known), POSITIVE))
    return reasons_positive(spelled) is not None

"""Whether a sum of positive terms over a set is 0 is asked of the set: exponentials overflow, and vanish.

After parts got names, before anything is differentiated (`codegen.algebra.trace`). A share of what a mask keeps, which
may be nothing, is often guarded by its own divisor:

    where(Sum([c] exp(x[j]), j) > 0, Sum([c] exp(x[j]) y[j], j) / Sum([c] exp(x[j]), j), 0)

At x = -1000 the divisor is 0 in floating point, and the selection would leave a mean out that has a value. With the
condition Sum([c], j) > 0 it is a masked softmax. So it is where the sum has a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sympy
from sympy import Expr, Mul, S
from sympy.core.relational import Relational

from codegen.algebra.rewriting import name_of, written_in
from derive.binders import compared, map_children
from derive.functions import Defined, unfold
from derive.language import is_bracket
from derive.normal.signs import reasons_positive
from derive.program import Program
from derive.statements import Definition


def with_sets_compared(program: Program) -> Program:
    """The program with comparisons of such sums as comparisons of sizes of sets; itself where there are none."""
    known: dict[str, Definition] = {}
    changed = []
    for definition in program.definitions:
        changed.append(replace(definition, body=compared_by_sets(definition.body, known)))
        known[definition.name] = definition
    return program if changed == program.definitions else replace(program, definitions=changed)


def compared_by_sets(node: Any, known: Mapping[str, Definition]) -> Any:
    """The expression with each comparison of a sum of positive terms with 0 as one of the set that it is over."""
    if isinstance(node, Relational) and S.Zero in node.args:
        sides = [_size_of_set(side, known) for side in node.args]
        if any(side is not None for side in sides):
            left, right = (old if new is None else new for old, new in zip(node.args, sides, strict=True))
            return compared(type(node), left, right)
    return map_children(node, lambda part: compared_by_sets(part, known))


def _size_of_set(side: Expr, known: Mapping[str, Definition]) -> Expr | None:
    """The size of the set that a sum of exponentials is over, times what is positive; None for anything else."""
    name = name_of(side)
    if name in known:
        return _size_of_set(written_in(side, known[name]), known)
    sums = [factor for factor in Mul.make_args(side) if isinstance(factor, sympy.Sum)]
    if len(sums) != 1 or not all(factor in sums or _is_positive(factor) for factor in Mul.make_args(side)):
        return None
    factors = Mul.make_args(sums[0].function)
    conditions = [factor for factor in factors if is_bracket(factor)]
    terms = [factor for factor in factors if factor not in conditions]
    if not conditions or not any(term.has(sympy.exp) for term in terms) or not all(map(_is_positive, terms)):
        return None
    return sums[0].func(Mul(*conditions), *sums[0].limits)


def _is_positive(factor: Expr) -> bool:
    """Whether a factor is positive for all sizes: a sum may be one over nothing."""
    if isinstance(factor, sympy.exp):
        return True
    return not factor.has(sympy.Sum, sympy.Product, Defined) and reasons_positive(unfold(factor)) is not None

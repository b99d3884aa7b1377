"""Sums that pick one entry are written as that entry: one-hot targets as look-ups.

The first pass on a statement, before its parts get names (`codegen.algebra.trace`):

    Sum(delta(v, target[n])*p[n, v], v)      p[n, target[n]]
    Sum(where(Eq(v, k), p[v], 0), v)         p[k]
    Sum(where(Eq(t + s + 1, T), x[s], 0), s) x[T - 1 - t]

The logarithm of the entry is that of a share, and so in log space; of the sum, of which all terms but one are 0, it
would be that of what is left of the share in a float. Each is an identity of index sets, which the prover decides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy
from sympy import Eq, Expr, KroneckerDelta, Mul

from derive.binders import free_indices, map_children, scope_of, unshadowed
from derive.differentiation import contracted_sum, place_of
from derive.language import Index, Where
from derive.program import Program


def with_entries_read(program: Program) -> Program:
    """The program with sums that pick an entry written as the entry; itself where there are none."""
    changed = [replace(definition, body=sifted(definition.body)) for definition in program.definitions]
    return program if changed == program.definitions else replace(program, definitions=changed)


def sifted(expression: Any) -> Any:
    """The expression with each sum that has a delta of an index it is over as a factor contracted."""
    inner = map_children(expression, sifted)
    if not isinstance(inner, sympy.Sum):
        return inner
    scope = scope_of(inner)
    bound = scope.bound if scope is not None else ()
    body = Mul(*(_as_delta(factor, bound) for factor in Mul.make_args(inner.function)))
    deltas = [factor for factor in Mul.make_args(body) if isinstance(factor, KroneckerDelta)]
    if not deltas or any(not free_indices(place) for factor in deltas for place in factor.args[:2]):
        return inner  # at a size of 0 there is no first entry, and the sum is 0
    contracted = contracted_sum(body, bound)
    return inner if contracted.has(KroneckerDelta) else unshadowed(contracted)


def _as_delta(factor: Expr, bound: tuple[Index, ...]) -> Expr:
    """A value where an index is one place, and 0 elsewhere, as a delta times the value; anything else as it is."""
    if not isinstance(factor, Where) or factor.args[2] != 0 or not isinstance(factor.args[0], Eq):
        return factor
    condition, value, _ = factor.args
    if set(condition.args) & set(bound):
        return KroneckerDelta(*condition.args) * value
    for index in bound:
        place = place_of(index, *condition.args)
        if place is not None:
            return KroneckerDelta(index, place) * value
    return factor

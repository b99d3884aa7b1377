"""Sums that are 0 or 1 in every size and for all inputs: the prover is asked, and what it decides is used.

One of the steps of `codegen.algebra.search`. The mean of centred values is 0, the sum of a softmax is 1; nothing of
that is looked up. A sum that an empty index set would change does not count: what holds there is the kernel's policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from sympy import Expr, Mul, S

from codegen.algebra.networks import Term, components, names_in
from codegen.algebra.rewriting import Changes, Setting
from derive.binders import free_indices, node_count, unshadowed
from derive.errors import BudgetExceededError
from derive.exceptional import empty_index_sets
from derive.gradient import inline
from derive.language import Index
from derive.program import Program
from derive.prove import PROVED, proof_of, prove

LEVELS = 5  # of definitions that are written in, one after the other
MOST_FACTORS = 2  # of a sum that is asked about
MOST_NODES = 250  # of a sum with its definitions written in
SECONDS = 1.0  # for the first answer to one question


def simplified(term: Term, setting: Setting) -> tuple[Term, Changes]:
    """The term with constant sums of forward values replaced, and these sums with their values."""
    changes: Changes = ()
    for scope, factors in components(term):
        if scope and len(factors) <= MOST_FACTORS and names_in(*(base for base, _ in factors)) <= setting.given:
            total = _sum(Mul(*(base**power for base, power in factors)), scope)
            value = constant(total, setting)
            if value is not None:
                left = tuple(pair for pair in term.factors if pair not in factors)
                term = Term(term.coefficient * value, left, tuple(i for i in term.scope if i not in scope))
                changes += ((total, value),)
    return term, changes


def _sum(body: Expr, scope: Sequence[Index]) -> Expr:
    return sympy.Sum(body, *((index, 0, index.extent - 1) for index in reversed(scope)))


def constant(total: Expr, setting: Setting) -> Expr | None:
    """0 or 1 where the sum is that for all sizes and inputs, else None."""
    if total not in setting.constants:
        try:
            setting.constants[total] = _decided(total, setting.program)
        except BudgetExceededError:  # not known, and no less right for it: the sum stays as it stands
            setting.constants[total] = None
    return setting.constants[total]


def _decided(total: Expr, program: Program) -> Expr | None:
    """The constant, asked with the definitions behind the sum written in one level after the other.

    What is still a name then stands for any array: an identity in those holds for the ones that are meant.
    """
    over = sorted(free_indices(total), key=str)
    defined = frozenset(program.bodies)
    for _ in range(LEVELS):
        names = frozenset(program[name] for name in names_in(total)) & defined
        if not names or any(empty_index_sets(known) for known in program.definitions if known.symbol in names):
            return None
        total = unshadowed(inline(total, program, defined - names))
        if node_count(total) > MOST_NODES:
            return None
        for value in (S.Zero, S.One):
            claim = Program("sums").claim("constant", total, value, over=over)
            # The normal form alone is asked first: nearly all sums are not constant, and it says so at once.
            if proof_of(claim, seconds=SECONDS, attempts=1) is not None and prove(claim).status == PROVED:
                return value
    return None

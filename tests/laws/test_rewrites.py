"""Every rewrite of every kernel is an identity: the prover decides it, and the second engine confirms.

The statement of a rewrite is old body = new body. It is put with the definitions that the rewrite mentions; what is
left as a name stands for any array there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from sympy import Add, Integer

from codegen.algebra.networks import term_of, terms_of
from codegen.algebra.passes import LAST
from codegen.algebra.rewriting import Rewrite
from codegen.algebra.trace import Trace, claims_of, traced
from derive.language import Sum
from derive.library import load
from derive.program import Program
from derive.prove import PROVED, prove

PROGRAMS = {program.name: program for program in load() if program.request is not None}
KNOWN: dict[Any, bool] = {}  # what was decided already: variants of a program share most of their rewrites


@cache
def trace_of(name: str) -> Trace:
    return traced(PROGRAMS[name])


def rewrites_of(trace: Trace) -> Iterator[tuple[Rewrite, Program]]:
    for stages, program in ((trace.forward, trace.named), (trace.backward, trace.gradient)):
        for stage in stages:
            for rewrite in stage.rewrites:
                assert program is not None
                yield rewrite, program


def is_decided(rewrite: Rewrite, program: Program) -> bool:
    return any(prove(claim, seconds=5).status == PROVED for claim in claims_of(rewrite, program))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_rewrite_is_an_identity(name: str) -> None:
    for rewrite, program in rewrites_of(trace_of(name)):
        mentioned = next(iter(claims_of(rewrite, program)))
        key = (rewrite.definition.body, rewrite.body, tuple(mentioned.program.definitions))
        if key not in KNOWN:
            KNOWN[key] = is_decided(rewrite, program)
        assert KNOWN[key], f"{rewrite.definition} = {rewrite.body}"


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_last_stage_follows_from_the_first_by_the_rewrites_alone(name: str) -> None:
    trace = trace_of(name)
    for stages in (trace.forward, trace.backward):
        if stages:
            bodies = {definition.name: definition.body for definition in stages[0].definitions}
            for stage in stages:
                for rewrite in stage.rewrites:
                    assert bodies[rewrite.definition.name] == rewrite.definition.body
                    bodies[rewrite.definition.name] = rewrite.body
                assert all(bodies[definition.name] == definition.body for definition in stage.definitions)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_no_pass_makes_a_routine_dearer(name: str) -> None:
    """Scales are placed for loops over blocks, which the estimate of a whole routine does not know."""
    trace = trace_of(name)
    scaling = dict(LAST)
    for stages in (trace.forward, trace.backward):
        costs = [stage.cost.at(trace.sizes) for stage in stages if stage.name not in scaling]
        assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("name", ["attention", "layer_norm"])
def test_a_false_rewrite_is_not_decided(name: str) -> None:
    """The net has no hole: with a factor, or a term, too much, no claim about a rewrite is proved."""
    for rewrite, program in rewrites_of(trace_of(name)):
        for body in (2 * rewrite.body, rewrite.body + 1):
            claims = list(claims_of(replace(rewrite, body=body), program))
            assert not any(prove(claim, seconds=2).status == PROVED for claim in claims[:2])


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_terms_add_up_to_the_body(name: str) -> None:
    """Multiplied out and put together again, a body is what it was."""
    trace = trace_of(name)
    for stages in (trace.forward, trace.backward):
        for definition in stages[0].definitions if stages else ():
            bare = Program("terms")
            again = Add(*(term.expression for term in terms_of(definition.body)))
            if again != definition.body:
                claim = bare.claim("terms", definition.body, again, over=definition.indices)
                assert prove(claim).status == PROVED, definition


def test_indices_of_opened_sums_are_told_apart() -> None:
    program = PROGRAMS["attention"]
    S = next(definition for definition in program.definitions if definition.name == "S")
    b, i, j = S.indices
    twice = Sum(S.left, j) * Sum(S.left, j)
    term = term_of(twice * Sum(S.left**2, j))
    assert len({index.name for index in term.scope}) == len(term.scope) == 1
    assert term_of(Sum(S.left, i, j)).coefficient == Integer(1)
    assert b not in term.scope

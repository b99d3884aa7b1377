"""Every rewrite that the compiler makes for stability is an identity: each is decided by the prover."""

from __future__ import annotations

import pytest
import sympy
from sympy import exp, log

from codegen.stability import Softplus, stable
from derive.functions import log_softmax, sigmoid, silu, softmax, softplus
from derive.language import Sum, dims, indices, iverson, scalar, tensor
from derive.library import load
from derive.program import Program
from derive.prove import PROVED, prove

T = dims("T")[0]
i, j = indices("i j", T)
x, y = tensor("x", T), tensor("y", T)
u, w = scalar("u"), scalar("w")

BODIES = {
    "softmax spelled out": exp(x[i]) / Sum(exp(x[j]), j),
    "softmax": softmax(x[i], over=i),
    "log softmax": log_softmax(x[i], over=i),
    "log of softmax": log(softmax(x[i], over=i)),
    "masked softmax": softmax(x[i], over=i, where=i <= j),
    "scaled sum": Sum(exp(x[j]) * y[j], j),
    "scaled sum with a fixed part": Sum(exp(x[j] + u) * y[j] * y[i], j),
    "masked scaled sum": Sum(iverson(j <= i) * exp(x[j]) * y[j], j),
    "quotient of scaled sums": Sum(exp(x[j]) * y[j], j) / Sum(exp(x[j]), j),
    "sigmoid": sigmoid(u),
    "sigmoid of the negative": sigmoid(-u),
    "silu": silu(u),
    "softplus": softplus(u),
    "products of exponentials": exp(u) * exp(-w) * y[i] / exp(x[i]),
    "square of an exponential sum": Sum(exp(x[j]), j) ** -2,
}


def proved(name: str, before: sympy.Expr, after: sympy.Expr) -> str:
    """The verdict on before = after."""
    meaning = after.replace(Softplus, lambda argument: log(1 + exp(argument)))
    claim = Program("stability").claim(name, before, meaning, over=sorted({i, j}, key=str))
    return prove(claim).status


@pytest.mark.parametrize("name", sorted(BODIES))
def test_rule_is_an_identity(name: str) -> None:
    after = stable(BODIES[name])
    assert after != BODIES[name]
    assert proved(name, BODIES[name], after) == PROVED


@pytest.mark.parametrize("program", [p for p in load() if p.request is not None], ids=lambda program: program.name)
def test_every_kernel_body_means_what_the_statement_says(program: Program) -> None:
    for definition in program.definitions:
        after = stable(definition.body)
        meaning = after.replace(Softplus, lambda argument: log(1 + exp(argument)))
        claim = program.claim(f"stable-{definition.name}", definition.body, meaning, over=definition.indices)
        program.claims.remove(claim)
        assert prove(claim).status == PROVED, definition


def test_no_exponential_of_a_bare_logit_is_left() -> None:
    after = stable(softmax(x[i], over=i))
    assert all(term.args[0].has(sympy.Function("logsumexp")) or "logsumexp" in str(term) for term in after.atoms(exp))

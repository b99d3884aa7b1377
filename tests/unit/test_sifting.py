"""Sums that pick one entry are the entry; the prover decides each, and others are left as they are."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Ne, log

from codegen.algebra.sifting import sifted, with_entries_read
from derive.binders import substitute
from derive.functions import softmax
from derive.language import Sum, delta, dims, indices, iverson, leading_index, tensor, where
from derive.library import load
from derive.program import Program
from derive.prove import PROVED, prove

N, T, V = dims("N T V")
n = leading_index("n", N)
v, u = indices("v u", V)
i, j = indices("i j", T)
z, tok = tensor("z", N, V), tensor("tok", N, into=V)
A = tensor("A", T, T)
p = softmax(z[n, v], over=v)

PICKED: list[tuple[Any, Any]] = [
    (Sum(delta(v, tok[n]) * z[n, v], v), z[n, tok[n]]),
    (Sum(iverson(Eq(v, tok[n])) * z[n, v] ** 2, v), z[n, tok[n]] ** 2),
    (Sum(where(Eq(tok[n], v), z[n, v], 0), v), z[n, tok[n]]),
    (log(Sum(delta(v, u) * p, v)), log(substitute(p, {v: u}))),
    (Sum(delta(i, j) * A[i, j], i, j), Sum(A[j, j], j)),
    (Sum(Sum(delta(v, tok[n]) * z[n, v], v) ** 2, n), Sum(z[n, tok[n]] ** 2, n)),
]
LEFT = [
    Sum(iverson(Ne(v, tok[n])) * z[n, v], v),
    Sum(delta(v, 3) * z[n, v], v),  # there may be no fourth entry
    Sum(where(Eq(v, 0), z[n, v], 0), v),  # nor a first one
    Sum(where(Eq(v, tok[n]), z[n, v], 1), v),
    Sum(where(Eq(z[n, v], 0), z[n, u], 0), v),
    delta(v, tok[n]) * z[n, v],
]


@pytest.mark.parametrize(("total", "picked"), PICKED, ids=str)
def test_a_sum_that_picks_an_entry_is_that_entry(total: Any, picked: Any) -> None:
    assert sifted(total) == picked
    claim = Program("picked").claim("picked", total, sifted(total))
    assert prove(claim).status == PROVED


@pytest.mark.parametrize("total", LEFT, ids=str)
def test_others_are_left_as_they_are(total: Any) -> None:
    assert sifted(total) == total


@pytest.mark.parametrize("program", [known for known in load() if known.request is not None], ids=lambda p: p.name)
def test_a_program_without_such_sums_is_itself(program: Program) -> None:
    assert with_entries_read(program) is program

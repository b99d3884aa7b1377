"""A derivation that no file of the library has: cosine-similarity attention with a soft cap and a sliding window.

Stated here, derived, compiled, and checked against the statement, finite differences and autograd.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sympy import And, sqrt, tanh

from codegen.algebra.networks import names_in
from codegen.algebra.trace import traced
from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from derive.functions import softmax
from derive.language import Sum, dims, index, indices, leading_index, scalar, tensor
from derive.program import Program


def statement() -> Program:
    N, T, d, e = dims("N T d e")
    n = leading_index("n", N)
    i, j = indices("i j", T)
    a = index("a", d)
    c = index("c", e)
    Q, K, V = tensor("Q", N, T, d), tensor("K", N, T, d), tensor("V", N, T, e)
    cap, tau, eps = scalar("cap", positive=True), scalar("tau", positive=True), scalar("eps", positive=True)
    window = scalar("window", positive=True, integer=True)
    program = Program(
        "cosine_attention", "cosine attention, soft-capped, in a window", [Q, K, V, cap, tau, eps, window]
    )
    p = program.define("p", [n, i], sqrt(Sum(Q[n, i, a] ** 2, a) + eps))
    q = program.define("q", [n, j], sqrt(Sum(K[n, j, a] ** 2, a) + eps))
    U = program.define("U", [n, i, a], Q[n, i, a] / p[n, i])
    W = program.define("W", [n, j, a], K[n, j, a] / q[n, j])
    R = program.define("R", [n, i, j], Sum(U[n, i, a] * W[n, j, a], a) / tau)
    t = program.define("t", [n, i, j], tanh(R[n, i, j] / cap))
    S = program.define("S", [n, i, j], cap * t[n, i, j])
    A = program.define("A", [n, i, j], softmax(S[n, i, j], over=j, where=And(j <= i, i - j < window)))
    O = program.define("O", [n, i, c], Sum(A[n, i, j] * V[n, j, c], j))
    program.kernel(O, wrt=[Q, K, V], defaults={cap: 20.0, tau: 0.1, eps: 1e-6, window: 3})
    return program


def test_the_passes_find_the_same_in_it() -> None:
    made = {definition.name: definition for definition in traced(statement()).backward[-1].definitions}
    sums = [
        names_in(total) for definition in made.values() for total in definition.body.atoms(Sum(1, index("i", 2)).func)
    ]
    assert {"O", "dO"} in sums  # the row sum of dA * A
    assert {"A", "dA"} not in sums
    assert not {"dS", "dt"} & set(made)  # the cap cancels


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_its_kernels_agree_with_every_witness(target: str, tmp_path: Path) -> None:
    program = statement()
    write(render_all([program], [target]), tmp_path, [target])
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert {result.gradient for result in results} == {"O", "dQ", "dK", "dV"}
    assert all(result.ok for result in results), [result for result in results if not result.ok]

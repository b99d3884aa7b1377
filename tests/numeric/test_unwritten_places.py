"""What a loop leaves unwritten outside of an index set is read by no other loop of the same kernel.

None of this is in the library: attention to projected, normalised rows, with a score of 0 beside the others. Its
forward kernel goes through the queries, and then, for what is normalised, through the keys: there it read the places
beyond the diagonal, which held what was in the memory before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import And, Expr, exp

from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from gradproof import (
    Program,
    Sum,
    dims,
    index,
    indices,
    iverson,
    leading_index,
    logsumexp,
    mean,
    scalar,
    sqrt,
    tensor,
    variance,
)

N, T, S, D = dims("N T S D")
n, i, j = leading_index("n", N), index("i0", T), index("j0", S)
out, a, q, key, key_2, mid, v, v_2, v_3 = indices("a0 a1 a2 a5 a6 a7 a10 a11 a12", D)
over, over_2, over_3 = indices("a3 a8 a9", D)
x, k, W, U = tensor("x", N, T, D), tensor("k", N, S, D), tensor("W", D, D), tensor("U", D, D)
b, w, rel = tensor("b", D), tensor("w", D, positive=True), tensor("rel", T, S)
eps = scalar("eps", positive=True)


def projected(matrix: Any, place: Any, inner: Any) -> Expr:
    result: Expr = Sum(matrix[place, inner] * k[n, j, inner], inner)
    return result


def attention() -> Program:
    queries = b[a] + Sum(W[a, q] * x[n, i, q], q)
    keys = exp(projected(W, a, key) - logsumexp(projected(W, over, key_2), over=over))
    centred = projected(U, mid, v) - mean(projected(U, over_2, v_2), over=over_2)
    values = centred / sqrt(variance(projected(U, over_3, v_3), over=over_3) + eps) * w[mid]
    held = iverson(And(j <= i, rel[i, j] > 0))
    weights = held * exp(Sum(queries * keys, a) / sqrt(D))
    program = Program("attended", "to normalised rows", [x, k, W, U, b, w, rel, eps])
    body = Sum(U[out, mid] * Sum(weights * values, j) / (1 + Sum(weights, j)), mid)
    program.kernel(program.define("o", [n, i, out], body), wrt=[x, k, W, U, b, w, eps], defaults={eps: 1e-5})
    return program


def test_no_loop_reads_what_none_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh memory is nan here, so that whatever reads it shows."""
    program, empty = attention(), np.empty

    def poisoned(shape: Any, dtype: Any = float, **options: Any) -> Any:
        made = empty(shape, dtype, **options)
        if np.issubdtype(made.dtype, np.floating):
            made.fill(np.nan)
        return made

    write(render_all([program], ("numpy",)), tmp_path, ("numpy",))
    monkeypatch.setattr(np, "empty", poisoned)
    results = list(check_kernels([program], target="numpy", folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [str(result) for result in results if not result.ok]

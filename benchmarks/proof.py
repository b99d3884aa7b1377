"""The cost of deriving and proving grows with the length of a program, not with its square.

A chain of L pre-norm Transformer blocks is stated as one program. Measured in processor time, in one process and one
run: deriving the gradient of its output, and proving for every block the backward pass of its softmax, of its layer
norm (the gradient that leaves the block), and the gradient of W_Q. Adjoints are named definitions and are never
expanded into the next one; that is what keeps both linear.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sympy import Rational, sqrt

from benchmarks.timing import Note, Row
from derive.functions import gelu, mean, softmax
from derive.language import Sum, dims, index, indices, scalar, tensor
from derive.program import Program
from derive.prove import PROVED, prove

CHAINS = (1, 2, 4, 8, 16, 32)
QUICK_CHAINS = (1, 2, 4, 8)

T, C, H, D, F = dims("T C H D F")
i, j, k = indices("i j k", T)
c, e = indices("c e", C)
h = index("h", H)
a = index("a", D)
f = index("f", F)
eps = scalar("eps", positive=True)


@dataclass(frozen=True, kw_only=True)
class Cost(Row):
    """Seconds of processor time for a chain of `blocks`; `ours_ms` is all of it."""

    blocks: int
    definitions: int
    derive_s: float
    prove_s: float
    per_block_s: float


def chain(blocks: int) -> tuple[Program, Any]:
    """A program of that many blocks, and its output."""
    program = Program(f"chain_{blocks}")
    x = tensor("x", T, C)
    for number in range(blocks):
        x = _block(program, x, number)
    return program, x


def _block(program: Program, x: Any, number: int) -> Any:
    def define(name: str, over: list[Any], body: Any) -> Any:
        return program.define(f"{name}_{number}", over, body)

    def weights(name: str, *sizes: Any) -> Any:
        return tensor(f"{name}_{number}", *sizes)

    gain = weights("gain", C)
    W_Q, W_K, W_V = (weights(name, H, D, C) for name in ("W_Q", "W_K", "W_V"))
    W_O, W_1, W_2 = weights("W_O", C, H, D), weights("W_1", F, C), weights("W_2", C, F)
    mu = define("mu", [i], mean(x[i, c], over=c))
    xc = define("xc", [i, c], x[i, c] - mu[i])
    r = define("r", [i], (mean(xc[i, c] ** 2, over=c) + eps) ** Rational(-1, 2))
    xhat = define("xhat", [i, c], xc[i, c] * r[i])
    z = define("z", [i, c], xhat[i, c] * gain[c])
    Q = define("Q", [h, i, a], Sum(W_Q[h, a, c] * z[i, c], c))
    K = define("K", [h, j, a], Sum(W_K[h, a, c] * z[j, c], c))
    V = define("V", [h, j, a], Sum(W_V[h, a, c] * z[j, c], c))
    S = define("S", [h, i, j], Sum(Q[h, i, a] * K[h, j, a], a) / sqrt(D))
    A = define("A", [h, i, j], softmax(S[h, i, j], over=j))
    O = define("O", [h, i, a], Sum(A[h, i, j] * V[h, j, a], j))
    y = define("y", [i, c], x[i, c] + Sum(O[h, i, a] * W_O[c, h, a], h, a))
    u = define("u", [i, f], Sum(W_1[f, c] * y[i, c], c))
    g = define("g", [i, f], gelu(u[i, f]))
    return define("x", [i, c], y[i, c] + Sum(W_2[c, f] * g[i, f], f))


def measure(quick: bool, note: Note) -> list[Cost]:
    """The cost for each length.

    Raises:
        RuntimeError: a claim is not proved; a time for it would mean nothing.
    """
    return [_cost(blocks) for blocks in (QUICK_CHAINS if quick else CHAINS)]


def _cost(blocks: int) -> Cost:
    program, output = chain(blocks)
    started = time.process_time()
    gradient = program.gradient(output)
    derived = time.process_time()
    for number in range(blocks):
        for claim in _claims(program, gradient, number):
            if prove(claim).status != PROVED:
                raise RuntimeError(f"{claim.id} of {gradient.name} is not proved")
    proved = time.process_time()
    return Cost(
        f"{blocks} Transformer block{'s' * (blocks > 1)}",
        "proof",
        ours_ms=round(1000 * (proved - started), 1),
        blocks=blocks,
        definitions=len(gradient.definitions),
        derive_s=round(derived - started, 4),
        prove_s=round(proved - derived, 4),
        per_block_s=round((proved - started) / blocks, 4),
    )


def _claims(program: Program, gradient: Any, number: int) -> list[Any]:
    A, z, r, xhat = (program[f"{name}_{number}"] for name in ("A", "z", "r", "xhat"))
    dA, dS, dQ, dz, dy = (gradient[f"d{name}_{number}"] for name in ("A", "S", "Q", "z", "y"))
    W_Q = gradient[f"dW_Q_{number}"]
    before = gradient[f"dx_{number - 1}"] if number else gradient["dx"]
    gain = tensor(f"gain_{number}", C)
    g = dz[i, c] * gain[c]
    norm = r[i] * (g - mean(g, over=c) - xhat[i, c] * mean(g * xhat[i, c], over=c))
    return [
        gradient.claim(f"dS_{number}", dS[h, i, j], A[h, i, j] * (dA[h, i, j] - Sum(dA[h, i, k] * A[h, i, k], k))),
        gradient.claim(f"dW_Q_{number}", W_Q[h, a, c], Sum(dQ[h, i, a] * z[i, c], i)),
        gradient.claim(f"dx_{number}", before[i, c], dy[i, c] + norm),
    ]

"""Exponentials to base 2: taken where log(2) joins a scale that is there, for all of a kernel or for nothing of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sympy import Expr, exp, sqrt, tanh

from codegen.printing.emission import kernel_file
from derive.functions import logsumexp, softmax
from derive.language import Sum, dims, index, indices, scalar, tensor
from derive.program import Program

T, d = dims("T d")
i, j = indices("i j", T)
a = index("a", d)
Q, K, V, B = (tensor(name, T, d) for name in "QKVB")
M = tensor("M", T, T)
cap = scalar("cap")


def attention(
    score: Callable[[Expr], Expr] = lambda s: s / sqrt(d), share: Callable[..., Expr] | None = None
) -> Program:
    """Attention with scores made of the products of queries and keys."""
    program = Program("mine", "some attention", [Q, K, V, M, cap])
    S = program.define("S", [i, j], score(Sum(Q[i, a] * K[j, a], a)))
    A = program.define("A", [i, j], (share or softmax)(S[i, j], over=j))
    program.kernel(program.define("O", [i, a], Sum(A[i, j] * V[j, a], j)), wrt=[Q, K, V])
    return program


@pytest.mark.parametrize(
    "program",
    [attention(), attention(lambda s: cap * tanh(s / cap)), attention(share=lambda s, over: exp(s))],
    ids=["scaled", "capped", "as they are"],
)
def test_a_scale_takes_the_logarithm_up(program: Program) -> None:
    text = kernel_file(program, "torch")
    assert "torch.exp2(" in text
    assert "torch.exp(" not in text
    assert "math.log(2)" in text
    assert "divided by log(2), as exp(x) = 2^(x/log(2))" in " ".join(text.replace("#", "").split())
    assert "exp2" not in kernel_file(program, "numpy")


def test_logarithms_of_the_sums_are_to_base_2_too() -> None:
    program = attention(share=lambda s, over: exp(s - logsumexp(s, over=over)))
    text = kernel_file(program, "torch")
    assert "torch.exp2(" in text
    assert "torch.exp(" not in text
    assert "torch.log(" not in text


def given_scores() -> Program:
    program = Program("mine", "softmax of scores that are given, over values", [M, V])
    A = program.define("A", [i, j], softmax(M[i, j], over=j))
    program.kernel(program.define("O", [i, a], Sum(A[i, j] * V[j, a], j)), wrt=[M, V])
    return program


def returned_scores() -> Program:
    program = attention(share=lambda s, over: exp(s - logsumexp(s, over=over)))
    L = program.define("L", [i], logsumexp(program["S"][i, j], over=j))
    program.kernel(program["O"], L)
    return program


@pytest.mark.parametrize(
    "program",
    [
        given_scores(),
        returned_scores(),
        attention(lambda s: s),
        attention(lambda s: s / sqrt(d) + M[i, j]),
        attention(share=lambda s, over: softmax(s, over=over) * s),
        attention(share=lambda s, over: exp(s) + exp(M[i, j])),
    ],
    ids=["given", "returned", "without a scale", "with a bias", "read beside", "another exponential"],
)
def test_what_costs_a_pass_is_left(program: Program) -> None:
    text = kernel_file(program, "torch")
    assert "exp2" not in text
    assert "log2" not in text

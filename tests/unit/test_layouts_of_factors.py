"""Factors of matrix products whose axes have to be put in another order first."""

from __future__ import annotations

import re

import pytest

from codegen.printing.emission import kernel_file
from derive.language import Sum, dims, index, tensor
from derive.program import Program

N, H, T, D, C = dims("N H T D C")
n, h, t, a, c = index("n", N), index("h", H), index("t", T), index("a", D), index("c", C)
O, W, X = tensor("O", N, H, T, D), tensor("W", C, H, D), tensor("X", C, H, D)


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_what_several_products_read_is_laid_out_once(target: str) -> None:
    program = Program("two_readings", "two readings of heads", [O, W, X])
    u = program.define("u", [n, t, c], Sum(O[n, h, t, a] * W[c, h, a], h, a))
    v = program.define("v", [n, t, c], Sum(O[n, h, t, a] * X[c, h, a], h, a))
    program.kernel(program.define("z", [n, t, c], u[n, t, c] * v[n, t, c]), wrt=[W])
    forward, backward = kernel_file(program, target).split("def two_readings_backward")
    assert len(re.findall(r"O\.(?:transpose|permute)\(", forward)) == 1
    assert forward.count("O_rows @ ") == 2
    assert "O_rows" not in backward, "one product reads it there"


def test_a_product_is_laid_out_as_what_it_meets_next() -> None:
    b, e = index("b", N), index("e", C)
    Y, H, G = tensor("Y", N, D), tensor("H", N, C), tensor("G", C, D)
    program = Program("scale_slope", "the slope of a scale of features", [Y, H, G])
    program.kernel(program.define("s", [a], Sum(Y[b, a] * Sum(G[e, a] * H[b, e], e), b)))
    text = kernel_file(program, "numpy")
    assert "H @ G" in text
    assert "G.T" not in text

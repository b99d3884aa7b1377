"""Products without a name get one where a function is of them, and the statement is compiled as if it had it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sympy import Max, log, sqrt

from codegen.algebra.arguments import with_arguments_named
from codegen.algebra.costs import typical_sizes
from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from codegen.printing.emission import kernel_file
from derive.functions import gelu, gelu_tanh, relu, softmax
from derive.gradient import inline
from derive.language import Sum, Tensor, dims, index, indices, iverson, leading_index, scalar, tensor, where
from derive.program import Program
from derive.prove import PROVED, prove

N, T, d, F = dims("N T d F")
n = leading_index("n", N)
i, j = indices("i j", T)
a, b = indices("a b", d)
f = index("f", F)
Q, K, V = (tensor(letter, N, T, d) for letter in "QKV")
x, W, U = tensor("x", N, d), tensor("W", d, F), tensor("U", F, d)
bias, tau = tensor("bias", F), scalar("tau", positive=True)
scores = Sum(Q[n, i, a] * K[n, j, a], a) / sqrt(d)


def attention(name: str | None) -> Program:
    program = Program("attention", "attention", [Q, K, V])
    argument = scores if name is None else program.define(name, [n, i, j], scores)[n, i, j]
    A = program.define("A", [n, i, j], softmax(argument, over=j, where=j <= i))
    program.kernel(program.define("O", [n, i, a], Sum(A[n, i, j] * V[n, j, a], j)), wrt=[Q, K, V])
    return program


def near(name: str) -> Program:
    """Weights by distance, with a width that is differentiated for."""
    program = Program(name, "weights by distance", [Q, K, V, tau])
    D = program.define("D", [n, i, j], Sum((Q[n, i, a] - K[n, j, a]) ** 2, a))
    A = program.define("A", [n, i, j], softmax(-D[n, i, j] / (2 * tau**2), over=j))
    program.kernel(program.define("O", [n, i, a], Sum(A[n, i, j] * V[n, j, a], j)), wrt=[Q, K, V, tau])
    return program


def experts(name: str) -> Program:
    """A mixture of two-layer experts in two formulas, a gate of products and a function of products."""
    program = Program(name, "experts", [x, W, U])
    gate = program.define("g", [n, f], softmax(Sum(x[n, a] * W[a, f], a), over=f))
    out = Sum(gate[n, f] * gelu(Sum(x[n, b] * U[f, b], b)) * U[f, a], f)
    program.kernel(program.define("y", [n, a], out), wrt=[x, W, U])
    return program


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_statement_without_the_name_is_compiled_as_one_with_it(target: str) -> None:
    """Line by line, but for comments; the name is as long as the one that is given."""

    def code(program: Program) -> list[str]:
        text = kernel_file(program, target).split("from __future__", 1)[1]
        lines = text.replace("A_argument", "the_scores").splitlines()
        return [line for line in lines if not line.lstrip().startswith("#") and "version=" not in line]

    assert code(attention(None)) == code(attention("the_scores"))
    assert typical_sizes(attention(None)) == typical_sizes(attention("the_scores"))


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("statement", [near, experts])
def test_kernels_agree_with_every_witness(statement: Callable[[str], Program], target: str, tmp_path: Path) -> None:
    program = statement("named")
    write(render_all([program], [target]), tmp_path, [target])
    assert all(result.ok for result in check_kernels([program], target=target, folder=tmp_path))


def names_of(body: Any, *wrt: Tensor, other: Any = 0) -> list[str]:
    program = Program("p", "p")
    y = program.define("y", [n, f], body)
    if other:
        y = program.define("z", [n, f], y[n, f] + other)
    program.kernel(y, wrt=wrt)
    return [definition.name for definition in with_arguments_named(program).definitions]


product = Sum(x[n, a] * W[a, f], a)
shifted = product + bias[f]


def test_what_gets_a_name() -> None:
    assert names_of(relu(product) ** 2, x) == ["y_product", "y"]
    assert names_of(relu(product), x, other=relu(Sum(x[n, b] * W[b, f], b))) == ["y_product", "y", "z"]
    assert names_of(gelu_tanh(shifted), x) == ["y_argument", "y"]
    assert names_of(Max(shifted, -shifted / 10) - 2 * shifted, x) == ["y_argument", "y"]  # and multiples of it
    assert names_of(product + x[n, 0] * iverson(f >= 1), x) == ["y"]  # no function is of it
    assert names_of(Max(Sum(x[n, a] ** 2, a), x[n, 0]) + iverson(f >= 1), x) == ["y"]  # no product of two
    assert names_of(where(x[n, 0] > 0, relu(Sum(log(x[n, a]) * W[a, f], a)), 0), W) == ["y"]  # no value everywhere


def test_written_out_again_it_is_the_statement() -> None:
    program = experts("written")
    named, stated = with_arguments_named(program), frozenset(definition.symbol for definition in program.definitions)
    assert len(named.definitions) > len(program.definitions)
    for definition in program.definitions:
        body = named.definition(definition.name).body
        assert prove(Program("same").claim("same", definition.body, inline(body, named, stated))).status == PROVED

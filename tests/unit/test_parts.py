"""Statements in one piece get names for their parts, and compile as if they had been written with these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr, tanh

from codegen.algebra.forms import Forms
from codegen.algebra.parts import with_parts_named
from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from derive.binders import node_count
from derive.gradient import inline
from derive.library import load
from gradproof import (
    Max,
    Program,
    Sum,
    dims,
    exp,
    gelu,
    index,
    indices,
    iverson,
    leading_index,
    lengths,
    log,
    mean,
    relu,
    scalar,
    softmax,
    sqrt,
    tensor,
    variance,
    where,
)

B, T, S, D, C, V = dims("B T S D C V")
b = leading_index("b", B)
i, j, j_2, a, c = index("i", T), index("j", S), index("j_2", S), index("a", D), index("c", C)
Q, K, W = tensor("Q", B, T, D), tensor("K", B, S, D), tensor("W", B, S, C)


def defined(program: Program) -> dict[str, str]:
    return {f"{definition.left}": f"{definition.body}" for definition in with_parts_named(program).definitions}


def in_one_piece() -> Program:
    program = Program("attended", "attention in one piece", [Q, K, W])
    scores = Sum(Q[b, i, a] * K[b, j, a], a) / sqrt(D)
    O = program.define("O", [b, i, c], Sum(softmax(scores, over=j, where=j <= i) * W[b, j, c], j))
    program.kernel(O, wrt=[Q, K, W])
    return program


def with_names() -> Program:
    program = Program("attended", "attention in one piece", [Q, K, W])
    scores = program.define("O_argument", [b, i, j], Sum(Q[b, i, a] * K[b, j, a], a) / sqrt(D))
    shares = program.define("O_softmax", [b, i, j], softmax(scores[b, i, j], over=j, where=j <= i))
    O = program.define("O", [b, i, c], Sum(shares[b, i, j] * W[b, j, c], j))
    program.kernel(O, wrt=[Q, K, W])
    return program


def test_one_piece_compiles_to_what_three_named_ones_do() -> None:
    def texts(program: Program) -> dict[str, str]:
        made = render_all([program])
        return {
            name: "\n".join(line for line in text.splitlines() if not line.startswith("Statement "))
            for name, text in made.items()
            if name.endswith("attended.py")
        }

    assert texts(in_one_piece()) == texts(with_names())


def test_what_stands_at_several_places_has_one_name() -> None:
    def scores(place: Any) -> Expr:
        return relu(Sum(Q[b, i, a] * K[b, place, a], a) / sqrt(D)) ** 2

    program = Program("shares", inputs=[Q, K, W])
    program.define("O", [b, i, c], Sum(scores(j) * W[b, j, c], j) / (1 + Sum(scores(j_2), j_2)))
    assert list(defined(program)) == ["O_sum[b, i, j_2]", "O_part[b, i, j_2]", "O_sum_2[b, i]", "O[b, i, c]"]
    assert "O_part[b, i, j]*W[b, j, c]" in defined(program)["O[b, i, c]"]


def test_a_factor_of_the_sum_around_it_is_left_there() -> None:
    program = Program("product", inputs=[Q, K, W])
    program.define("O", [b, i, c], Sum(Sum(Q[b, i, a] * K[b, j, a], a) * W[b, j, c], j))
    assert list(defined(program)) == ["O[b, i, c]"]


def test_rows_of_a_part_come_before_what_is_in_them() -> None:
    """Values projected inside of the sum over j are rows j of entries c, though c is named first."""
    P, X = tensor("P", D, C), tensor("X", B, S, D)
    a_2 = index("a_2", D)
    program = Program("projected", inputs=[Q, X, P])
    row = tanh(Sum(X[b, j, a_2] * P[a_2, c], a_2))
    program.define("O", [b, i, c], Sum(softmax(Sum(Q[b, i, a] * X[b, j, a], a), over=j) * row, j))
    assert "O_sum[b, j, c]" in defined(program)
    assert "O_argument[b, i, j]" in defined(program)


def test_heads_come_before_the_rows_of_a_product() -> None:
    """Each group g of heads has R heads of queries: scores are matrices of i and j, a value has columns c."""
    G, R = dims("G R")
    g, r, k, k_2, k_3, o = index("g", G), index("r", R), *indices("k k_2 k_3 o", D)
    X, W_Q, W_K = tensor("X", B, T, D), tensor("W_Q", G, R, D, D), tensor("W_K", G, D, D)
    W_V, W_O = tensor("W_V", G, C, D), tensor("W_O", D, G, R, C)
    t, c_2 = index("t", T), index("c_2", C)
    queries, keys = Sum(X[b, i, k] * W_Q[g, r, a, k], k), Sum(X[b, t, k_2] * W_K[g, a, k_2], k_2)
    values = Sum(X[b, t, k_3] * W_V[g, c_2, k_3], k_3)
    shares = softmax(Sum(queries * keys, a) / sqrt(D), over=t, where=t <= i)
    program = Program("heads", inputs=[X, W_Q, W_K, W_V, W_O])
    program.define("O", [b, i, o], Sum(Sum(shares * values, t) * W_O[o, g, r, c_2], g, r, c_2))
    found = {left: body for left, body in defined(program).items() if left.startswith(("O_arg", "O_soft", "O_sum"))}
    axes = [left.split("[")[1] for left in found]
    assert sorted(axes) == sorted([
        "b, i, g, r, a]", "b, t, g, a]", "b, g, r, i, t]", "b, g, r, i, t]", "b, t, g, c_2]", "b, g, r, i, c_2]",
    ])  # fmt: skip


def test_leading_axes_come_first_though_they_are_summed_inside() -> None:
    program = Program("total", inputs=[Q, K])
    total = program.define("total", [], Sum(log(Sum(exp(Sum(Q[b, i, a] * K[b, j, a], a)), j)), i, b))
    program.kernel(total, wrt=[Q, K])
    assert {"total_sum[b, i, j]", "total_sum_2[b, i]"} == set(defined(program)) - {"total"}


def test_names_that_are_taken_are_left_alone() -> None:
    taken = tensor("O_argument", B, T, S)
    program = Program("biased", inputs=[Q, K, W, taken])
    scores = Sum(Q[b, i, a] * K[b, j, a], a) + taken[b, i, j]
    program.define("O", [b, i, c], Sum(softmax(scores, over=j) * W[b, j, c], j))
    assert list(defined(program)) == ["O_argument_2[b, i, j]", "O_softmax[b, i, j]", "O[b, i, c]"]


def test_no_adjoint_of_a_part_takes_the_name_of_an_input() -> None:
    """The adjoint of O_argument would be dO_argument, and who wrote the statement was told to rename it."""
    bias = tensor("dO_argument", B, T, S)
    program = Program("biased", inputs=[Q, K, W, bias])
    scores = Sum(Q[b, i, a] * K[b, j, a], a) + bias[b, i, j]
    O = program.define("O", [b, i, c], Sum(softmax(scores, over=j) * W[b, j, c], j))
    program.kernel(O, wrt=[Q, bias])
    assert list(defined(program)) == ["O_argument_2[b, i, j]", "O_softmax[b, i, j]", "O[b, i, c]"]
    assert render_all([program], ("numpy",))


def test_at_a_computed_place_there_may_be_no_entry() -> None:
    """A part would be computed for all indices, and where a condition keeps some away there is nothing to be read."""
    x, a_2 = tensor("x", T + 1, D), index("a_2", D)
    program = Program("later", inputs=[x])
    program.define("y", [i], where(i > 0, Sum(log(Sum(x[i + 1, a] ** 2, a)) * x[i, a_2], a_2), 0))
    assert list(defined(program)) == ["y[i]"]


def test_an_index_that_is_but_compared_is_an_axis() -> None:
    """Scores by the first entries alone, for each number of these: no array has the index that they are counted by."""
    first, value = index("first", D), tensor("value", B, S)
    program = Program("nested", inputs=[Q, K, value])
    scores = Sum(iverson(a <= first) * Q[b, i, a] * K[b, j, a], a)
    program.define("y", [b, i], Sum(softmax(scores, over=j) * value[b, j], j, first))
    assert list(defined(program)) == ["y_argument[b, first, i, j]", "y_softmax[b, first, i, j]", "y[b, i]"]


def test_a_range_that_depends_on_an_index_is_no_axis() -> None:
    N, n = lengths("N", B), index("n", B)
    x, t = tensor("x", B, N), index("t", N[n])
    program = Program("ragged", inputs=[x])
    program.define("y", [], Sum(x[n, t] * log(Sum(exp(x[n, index("t_2", N[n])] * x[n, t]), index("t_2", N[n]))), n, t))
    assert list(defined(program)) == ["y"]


@pytest.mark.parametrize("program", [known for known in load() if known.request is not None], ids=lambda p: p.name)
def test_what_has_names_gets_no_others(program: Program) -> None:
    assert with_parts_named(program).definitions == program.definitions


# ---------------------------------------------------------------------------------------------------------------------
# Deep statements.


def network(layers: int) -> Program:
    """Layers of normalised rows, each layer written into the next."""
    x, eps = tensor("x", B, D), scalar("eps", positive=True)
    weights = [tensor(f"W{number}", D, D) for number in range(layers)]
    names = iter(indices(" ".join(f"k{number}" for number in range(400)), D))

    def given(place: Any) -> Expr:
        return x[b, place]

    def layer(value: Callable[[Any], Expr], weight: Any) -> Callable[[Any], Expr]:
        def normed(place: Any) -> Expr:
            k, k_2 = next(names), next(names)
            return (value(place) - mean(value(k), over=k)) / sqrt(variance(value(k_2), over=k_2) + eps)

        def made(place: Any) -> Expr:
            k = next(names)
            return value(place) + gelu(Sum(weight[place, k] * normed(k), k))

        return made

    value: Callable[[Any], Expr] = given
    for weight in weights:
        value = layer(value, weight)
    program = Program(f"network_{layers}", inputs=[x, *weights, eps])
    y = program.define("y", [b, a], value(a))
    program.kernel(y, wrt=[x, *weights], defaults={eps: 1e-5})
    return program


def test_layers_cost_what_they_are() -> None:
    """Written out, each layer multiplies the nodes by seven; under names it adds its own."""
    counts = [sum(node_count(d.body) for d in with_parts_named(network(layers)).definitions) for layers in (1, 2, 3)]
    assert counts[2] - counts[1] <= 1.2 * (counts[1] - counts[0])


@pytest.mark.parametrize("program", [in_one_piece(), network(1), network(2)], ids=lambda program: program.name)
def test_written_out_again_it_is_the_statement(program: Program) -> None:
    named, forms = with_parts_named(program), Forms()
    (output,) = program.definitions
    assert len(named.definitions) > 1
    written = inline(named.definitions[-1].body, named)
    assert forms.of(written).number == forms.of(output.body).number


def test_kernels_of_layers_are_right(tmp_path: Path) -> None:
    program = network(2)
    write(render_all([program], ("numpy",)), tmp_path, ("numpy",))
    results = list(check_kernels([program], target="numpy", folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [str(result) for result in results if not result.ok]


def test_a_number_given_as_an_integer_is_differentiated(tmp_path: Path) -> None:
    """The second witness, autograd, took the default 2 of a temperature for an integer and stopped."""
    torch = pytest.importorskip("torch")
    tau = scalar("tau", positive=True)
    x = tensor("x", B, D)
    program = Program("warm", inputs=[x, tau])
    y = program.define("y", [b, a], Max(x[b, a] / tau, 0))
    program.kernel(y, wrt=[x, tau], defaults={tau: 2})
    write(render_all([program], ("torch",)), tmp_path, ("torch",))
    assert all(result.ok for result in check_kernels([program], target="torch", folder=tmp_path)), torch.__version__

"""Kernels of rows, such as norms: vectors leave sums, means are products, parts have names, memory is reused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from codegen.backends import LIBRARIES
from codegen.ir.nodes import Contract, Map, Node, Read, Reduce
from codegen.ir.sharing import Statement
from codegen.ir.trees import walk
from codegen.planning.factors import gathered
from codegen.planning.schedule import plan
from codegen.planning.vectors import without_vectors
from codegen.printing.emission import kernel_file
from codegen.printing.views import with_views
from derive.functions import mean
from derive.language import Sum, dims, index, tensor
from derive.library import load
from derive.program import Program

N, C = dims("N C")
n, c = index("n", N), index("c", C)
x, w = tensor("x", N, C), tensor("w", C)


def centred_and_scaled() -> Program:
    """Under other letters than a norm has, and without a root."""
    program = Program("centred_and_scaled", "rows that are centred, squared and scaled", [x, w])
    d = program.define("d", [n, c], x[n, c] - mean(x[n, c], over=c))
    s = program.define("s", [n], Sum(d[n, c] ** 2, c))
    h = program.define("h", [n, c], d[n, c] / (1 + s[n]))
    program.kernel(program.define("y", [n, c], w[c] * h[n, c]), wrt=[x, w])
    return program


def load_one(name: str) -> Program:
    """A program of the library."""
    (program,) = (program for program in load() if program.name == name)
    return program


def block_of(text: str, function: str) -> list[str]:
    """The lines of the block of a kernel, without comments."""
    kernel = text[text.index(f"def {function}(") :]
    block = kernel[kernel.index("_block(room") : kernel.index("workspace.sweep(")]
    return [line.strip() for line in block.splitlines()[2:] if line.strip() and not line.strip().startswith("#")]


def read(name: str, *axes: object) -> Read:
    return Read(name, tuple(axes))  # type: ignore[arg-type]


def sums(statements: Sequence[Statement]) -> list[Node]:
    return [node for s in statements for node in walk(s.node) if isinstance(node, (Contract, Reduce))]


G = Statement("g", Map("mul", (read("v", c), read("u", n, c))), (n, c))
USE = Statement("out", Map("mul", (read("g", n, c), read("t", n, c))), (n, c))


def test_a_sum_of_what_a_vector_scales_is_a_product_with_the_vector() -> None:
    total = Statement("total", Reduce("sum", read("g", n, c), (c,)), (n,))
    made = without_vectors([G, total, USE], ["total", "out"])
    assert sums(made) == [Contract(read("u", n, c), read("v", c), (c,))]
    assert [statement.name for statement in made] == ["total", "out"]  # with one reader left, g is written in there


def test_two_sums_over_one_product_share_it() -> None:
    rows = Statement("rows", Contract(read("g", n, c), read("t", n, c), (c,)), (n,))
    columns = Statement("columns", Contract(read("u", n, c), read("t", n, c), (n,)), (c,))
    made = without_vectors([G, rows, columns, USE], ["rows", "columns", "out"])
    product = next(statement for statement in made if statement.name == "t_u")
    assert product.node == Map("mul", (read("t", n, c), read("u", n, c)))
    assert set(sums(made)) == {
        Contract(read("t_u", n, c), read("v", c), (c,)), Reduce("sum", read("t_u", n, c), (n,)),
    }  # fmt: skip


def test_a_product_that_others_need_stays() -> None:
    """One sum of products and nothing to share: the scaled array is read, as it is needed anyway."""
    rows = Statement("rows", Contract(read("g", n, c), read("t", n, c), (c,)), (n,))
    statements = [G, rows, USE]
    assert without_vectors(statements, ["rows", "out"]) == statements


def test_a_name_that_is_wanted_is_kept() -> None:
    total = Statement("total", Reduce("sum", read("g", n, c), (c,)), (n,))
    assert without_vectors([G, total], ["g", "total"]) == [G, total]


def test_vectors_of_both_sides_are_not_multiplied_with_each_other() -> None:
    node = Map("mul", (Map("mul", (read("w", c), read("r", n))), read("x", n, c)))
    made = gathered(node)
    assert not any(
        isinstance(inner, Map) and set(inner.operands) == {read("w", c), read("r", n)} for inner in walk(made)
    )
    assert {inner for inner in walk(made) if isinstance(inner, Read)} == {read("w", c), read("r", n), read("x", n, c)}


@pytest.mark.parametrize("target", sorted(LIBRARIES))
def test_a_mean_along_a_row_is_a_product_with_equal_weights(target: str) -> None:
    text = kernel_file(centred_and_scaled(), target)
    product = LIBRARIES[target].times_vector.text.format("x_n", "share_of_C")
    assert any(line.endswith(product) for line in block_of(text, "centred_and_scaled_forward"))
    assert "1 / C" in text[: text.index("_block(room")]  # the weights are made outside of the loop


def test_sums_of_torch_are_added_up_by_calls_that_multiply_as_well() -> None:
    lines = block_of(kernel_file(centred_and_scaled(), "torch"), "centred_and_scaled_backward")
    assert any(line.startswith("torch.addcmul((-") and line.endswith("out=dx_n)") for line in lines)
    assert not any(".sub_(" in line for line in lines)


@pytest.mark.parametrize("name", ["layer_norm", "layer_norm_std"])
def test_a_block_that_is_not_written_yet_is_scratch_memory(name: str) -> None:
    assert not any("room(" in line for line in block_of(kernel_file(load_one(name), "torch"), f"{name}_forward"))
    lines = block_of(kernel_file(load_one("layer_norm"), "torch"), "layer_norm_backward")
    assert "dy_xhat = torch.mul(dy_n, xhat_n, out=dx_n)" in lines
    # What is summed over the rows is summed while it is there.
    assert lines.index("dgamma[part].add_(dy_xhat.sum(dim=0))") < next(
        place for place, line in enumerate(lines) if line.startswith("torch.addcmul(") and "out=dx_n" in line
    )


def test_only_parts_that_are_read_again_have_names() -> None:
    lines = ["# x[n] twice: x[n]", "a = f(x[n], y[n])", "r[n] = g(x[n], y[part])", "z[n] += x[0]"]
    made = with_views(lines, ["part", "n"], ["n"], {"x_n"})
    assert made == [
        "x_n_2 = x[n]", "# x[n] twice: x[n]", "a = f(x_n_2, y[n])", "r[n] = g(x_n_2, y[part])", "z[n] += x[0]",
    ]  # fmt: skip


def test_sums_over_rows_of_numpy() -> None:
    from generated.numpy.runtime import add_rows, dot_rows

    rng = np.random.default_rng(0)
    for shape in ((5, 3), (0, 3), (4, 0), (1, 1)):
        a, b = rng.standard_normal((2, *shape))
        np.testing.assert_allclose(add_rows(a), a.sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(dot_rows(a, b), (a * b).sum(axis=-1), atol=1e-12)
        assert add_rows(a.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("target", sorted(LIBRARIES))
def test_statements_are_planned_for_both_targets_alike(target: str) -> None:
    """What vectors and weights do is decided before a library is known."""
    names = [statement.name for statement in plan(centred_and_scaled()).forward.statements]
    text = kernel_file(centred_and_scaled(), target)
    assert all(name in text for name in names)


def test_operands_that_die_within_their_statement_share_memory_and_are_named_after_it() -> None:
    lines = block_of(kernel_file(load_one("adam_l2"), "numpy"), "adam_l2")
    assert [line for line in lines if "room(" in line] == [
        "m_next_part = np.multiply(beta_1, m[n], out=room(0, n))",
        "s_next_part = np.multiply(beta_2, s[n], out=room(0, n))",
    ]


def test_a_definition_that_is_computed_in_parts_is_told_once() -> None:
    text = kernel_file(load_one("cross_entropy"), "numpy")
    assert [line for line in text.splitlines() if line.startswith("    L[n] =")] == [
        "    L[n] = logsumexp(z[n,v], over=v) = L_top + L_log"
    ]

"""Kernels that read an axis backwards: one look-up each way, whatever the statement says it by, and sizes 0 and 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Eq

from codegen.checking.array_library import array_library
from codegen.checking.checks import check_kernels
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.language import Sum, dims, index, indices, tensor, tensors, where
from derive.program import Program

T, d = dims("T d")
i, j = indices("i j", T)
(a,) = indices("a", d)
x, y = tensors("x y", T)
W, z = tensor("W", T, d), tensor("z", d)
TARGETS = ["numpy", "torch"]
Array = np.ndarray[Any, Any]

STATEMENTS = {
    "backwards": x[T - 1 - i] ** 2 * y[i],
    "by_an_equation": Sum(where(Eq(i + j + 1, T), x[j], 0), j) ** 2 * y[i],
    "by_its_solution": Sum(where(Eq(j, T - 1 - i), x[j], 0), j) ** 2 * y[i],
}


def stated(name: str) -> Program:
    program = Program(name, inputs=[x, y])
    program.kernel(program.define("o", [i], STATEMENTS[name]), wrt=[x, y])
    return program


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_values_and_gradients(name: str, target: str, tmp_path: Path) -> None:
    program, library = stated(name), array_library(target)
    write(render_all([program], [target]), tmp_path, [target])
    assert program.request is not None
    text = (tmp_path / target / f"{name}.py").read_text(encoding="utf-8")
    assert "sweep" not in text  # T^2 entries would be worth a loop
    for size in (0, 1, 2, 7):
        for dtype in (np.float32, np.float64):
            first, second = np.random.default_rng(size).standard_normal((2, size)).astype(dtype)
            with opened(program, program.request, tmp_path, library) as kernel:
                (output,), saved = kernel.run({"x": library.array(first), "y": library.array(second)}, {})
                made = (output, *kernel.gradients(library.array(np.ones(size, dtype)), saved))
            turned = first[::-1]
            for found, right in zip(made, (turned**2 * second, 2 * first * second[::-1], turned**2), strict=True):
                assert library.plain(found).dtype == dtype
                np.testing.assert_allclose(library.plain(found), right, rtol=1e-5)


def more() -> list[Program]:
    """A cumulative sum from the end, rows of a matrix backwards, a last entry, the middle and the diagonal."""
    cumulative = Program("from_the_end", inputs=[x])
    sums = cumulative.define("s", [i], Sum(where(j <= i, x[T - 1 - j], 0), j))
    cumulative.kernel(cumulative.define("o", [i], sums[T - 1 - i]), wrt=[x])
    rows = Program("rows_backwards", inputs=[W, y])
    rows.kernel(rows.define("o", [a], Sum(W[T - 1 - i, a] * y[i], i)), wrt=[W, y])
    last = Program("last", inputs=[W])
    last.kernel(last.define("o", [a], W[T - 1, a] ** 2), wrt=[W])
    # What comes from above is the same at all places that are read: it is stored without them.
    middle = Program("the_middle", inputs=[W, z])
    total = Sum(where(Eq(T - i - 1, i), Sum(W[T - j - 1, a] + z[a], a), 0), j)
    middle.kernel(middle.define("o", [i], total), wrt=[W, z])
    # In the gradient a block of rows may begin two columns before the end.
    S, k = tensor("S", T, T), index("k", T)
    apart = Program("two_apart", inputs=[S])
    square = where(Eq(i, 2 * k), S[T - k - 1, T - k - 1] ** 2, 0)
    apart.kernel(apart.define("o", [i], Sum(where(T - k - 1 < i - 1, square, 0), k)), wrt=[S])
    return [cumulative, rows, last, middle, apart]


@pytest.mark.parametrize("target", TARGETS)
def test_against_every_witness(target: str, tmp_path: Path) -> None:
    programs = [*map(stated, STATEMENTS), *more()]
    write(render_all(programs, [target]), tmp_path, [target])
    results = list(check_kernels(programs, target=target, folder=tmp_path))
    assert len(results) >= len(programs)
    assert all(result.ok for result in results), [result for result in results if not result.ok]


def test_positions_beyond_the_whole_numbers_of_a_type(tmp_path: Path) -> None:
    """float16 counts up to 2048 in steps of 1."""
    program, library = stated("backwards"), array_library("numpy")
    write(render_all([program], ["numpy"]), tmp_path, ["numpy"])
    assert program.request is not None
    first = np.arange(5000).astype(np.float32) % 7
    with opened(program, program.request, tmp_path, library) as kernel:
        (output,), _ = kernel.run({"x": first.astype(np.float16), "y": np.ones(5000, np.float16)}, {})
    np.testing.assert_array_equal(np.asarray(output, np.float32), first[::-1] ** 2)

"""A table of integers may stand in a formula as numbers: it is then computed with in the kernel's type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codegen.checking.array_library import array_library
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.language import Sum, dims, index, leading_index, tensor, where
from derive.program import Program


def statement() -> Program:
    N, V = dims("N V")
    n, v = leading_index("n", N), index("v", V)
    x, place = tensor("x", N, V), tensor("place", N, into=V)
    program = Program("placed", "sums up to a place, weighted by it", [x, place])
    y = program.define("y", [n, v], where(v <= place[n] + 1, x[n, v] * place[n] + place[n] / V, 0))
    total = program.define("total", [n], Sum(y[n, v], v) + x[n, place[n]])
    program.kernel(total, wrt=[x])
    return program


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_place_is_a_number_of_the_kernels_type(target: str, kind: str, tmp_path: Path) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    program = statement()
    write(render_all([program], [target]), tmp_path, [target])
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(kind)
    place = np.array([0, 2, 4])
    library = array_library(target)
    assert program.request is not None
    with opened(program, program.request, tmp_path, library) as kernel:
        (total,), saved = kernel.run({"x": library.array(x), "place": library.array(place)}, {})
        (dx,) = kernel.gradients(library.array(np.ones(3, kind)), saved)
    seen = np.arange(5) <= place[:, None] + 1
    weighted = np.where(seen, x * place[:, None] + place[:, None] / 5, 0)
    np.testing.assert_allclose(library.plain(total), weighted.sum(axis=1) + x[np.arange(3), place], rtol=1e-5)
    np.testing.assert_allclose(library.plain(dx), seen * place[:, None] + (np.arange(5) == place[:, None]), rtol=1e-5)
    assert str(total.dtype).endswith(kind)
    assert str(dx.dtype).endswith(kind)

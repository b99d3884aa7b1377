"""Functions that keep their last digits, spelled out again where these are lost in a sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sympy import erf, exp, sqrt

from codegen.ir.nodes import Map, Node
from codegen.ir.trees import walk
from codegen.planning.routines import Kernel
from codegen.planning.schedule import plan
from codegen.planning.summed import with_plain_summands
from derive.language import Sum, dims, index, tensor
from derive.program import Program

T, d, e = dims("T d e")
i, a, c = index("i", T), index("a", d), index("c", e)
x, W = tensor("x", T, d), tensor("W", e, d)


def operations(kernel: Kernel) -> set[str]:
    routines = [routine for routine in (kernel.forward, kernel.backward) if routine is not None]
    return {operation for r in routines for s in r.statements for operation in _operations(s.node)}


def _operations(node: Node) -> Iterator[str]:
    return (part.operation for part in walk(node) if isinstance(part, Map))


def kernel_of(name: str, *, summed: bool, wanted: bool = False) -> Kernel:
    program = Program(name, "x Phi(x)", [x, W])
    h = program.define("h", [i, a], x[i, a] * (1 + erf(x[i, a] / sqrt(2))) / 2)
    y = program.define("y", [i, c], Sum(W[c, a] * h[i, a], a)) if summed else h
    program.kernel(h if wanted else y, wrt=[x])
    return plan(program)


@pytest.mark.parametrize("name", ["normal_cdf", "exp_at"])
def test_they_stay_where_they_are_a_result(name: str) -> None:
    kernel = kernel_of("alone", summed=False)
    assert name in operations(kernel)
    assert with_plain_summands(kernel) == kernel


def test_they_are_spelled_out_where_they_are_summed() -> None:
    kernel = with_plain_summands(kernel_of("layer", summed=True))
    plain = operations(replace(kernel, backward=None))
    assert not {"normal_cdf", "scaled_normal_cdf"} & plain
    assert {"erfc", "mul"} <= plain
    assert "normal_cdf" in operations(kernel), "the slope of x Phi(x) is a factor of a result"


def test_an_exponent_shows_the_digits_of_what_it_is_made_of() -> None:
    program = Program("weights", "exp of Phi", [x, W])
    h = program.define("h", [i, a], (1 + erf(x[i, a] / sqrt(2))) / 2)
    y = program.define("y", [i, c], Sum(W[c, a] * exp(h[i, a]), a))
    program.kernel(y, wrt=[W])
    kernel = plan(program)
    assert "normal_cdf" in operations(kernel)
    assert "normal_cdf" in operations(with_plain_summands(kernel))

"""Branches that no entry takes: nothing in them warns, or divides by a number of the caller's that is 0."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from codegen.printing.emission import kernel_file
from derive.declarations import dims, index, scalar, tensor
from derive.language import where
from derive.program import Program

(N,) = dims("N")
n = index("n", N)
x = tensor("x", N)
width = scalar("width")


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_ramp_of_no_width_is_a_step() -> None:
    program = Program("ramp", "a linear rise, then 1", [x, width])
    program.kernel(program.define("y", [n], where(x[n] <= width, x[n] / width, 1)), wrt=[x])
    module = ModuleType("ramp")
    module.__package__ = "generated.numpy"
    exec(compile(kernel_file(program, "numpy"), "ramp", "exec"), module.__dict__)
    for width_of_it, expected in ((0.0, [1.0, 1.0, 1.0]), (2.0, [0.5, 1.0, 1.0])):
        y, saved = module.ramp_forward(np.array([1.0, 2.0, 3.0]), width=width_of_it)
        np.testing.assert_array_equal(y, expected)
        (dx,) = module.ramp_backward(np.ones(3), saved)
        np.testing.assert_array_equal(dx, [0.5 * (width_of_it > 0), 0.5 * (width_of_it > 0), 0])


def test_dropout_of_everything_is_0() -> None:
    from generated.numpy.dropout_draws import dropout_draws_backward, dropout_draws_forward

    y, saved = dropout_draws_forward(np.ones(4), np.linspace(0, 0.9, 4), p=1.0)
    (dx,) = dropout_draws_backward(np.ones(4), saved)
    assert not y.any()
    assert not dx.any()


def test_dropout_of_everything_is_0_in_torch() -> None:
    torch = pytest.importorskip("torch")
    from generated.torch.dropout_draws import dropout_draws

    values = torch.ones(4, requires_grad=True)
    y = dropout_draws(values, torch.linspace(0, 0.9, 4), p=1.0)
    y.sum().backward()
    assert not y.any()
    assert not values.grad.any()

"""A slope that has no value is written as 0, and nothing else changes: the prover decides each rule."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Abs, Gt, Ne, Rational, S, log, sqrt

from codegen.stability.functions import Weight
from codegen.stability.slopes import slopes
from derive.language import Sum, Where, dims, index, indices, iverson, scalar, tensor
from derive.library import load
from derive.program import Program
from derive.prove import PROVED, prove

N, T = dims("N T")
n = index("n", N)
i, j = indices("i j", T)
x, y = tensor("x", N, T), tensor("y", N, T)
p = tensor("p", N, T, positive=True)
eps = scalar("eps", positive=True)
square = Sum(x[n, j] ** 2, j)


def program_of(body: Any) -> Program:
    program = Program("p")
    program.define("r", [n, i], body)
    return program


def unweighted(node: Any) -> Any:
    """The expression with weights as the numbers that they are."""
    return node.replace(Weight, lambda inner: inner)


@pytest.mark.parametrize(
    ("forward", "adjoint", "given"),
    [
        (sqrt(square) + x[n, i], y[n, i] / sqrt(square), Ne(square, 0)),
        (square ** Rational(1, 3) + x[n, i], y[n, i] * square ** Rational(-2, 3), Ne(square, 0)),
        ((1 - p[n, i]) ** eps, (1 - p[n, i]) ** (eps - 1) * y[n, i], Gt(1 - p[n, i], 0)),
        (y[n, i] * log(x[n, i]), 3 * y[n, i] / x[n, i], Ne(y[n, i], 0)),
        (y[n, i] * log(x[n, i]), Sum(y[n, j] / x[n, j], j) + eps, None),
    ],
)
def test_a_slope_changes_only_where_it_has_no_value(forward: Any, adjoint: Any, given: Any) -> None:
    program = program_of(forward)
    settled = slopes(program.definitions, program).settled(adjoint)
    assert settled != adjoint
    assert settled.has(Where)
    if given is not None:
        check = Program("check")
        claim = check.claim("same", unweighted(settled), adjoint, given=[given])
        assert prove(claim).status == PROVED


@pytest.mark.parametrize("body", [sqrt(square), 2 * sqrt(square), square ** Rational(1, 3)])
def test_a_root_that_has_a_name_is_not_divided_by_where_it_is_zero(body: Any) -> None:
    program = Program("named")
    root = program.define("r", [n], body)[n]
    adjoint = y[n, i] * (1 / root + root)
    settled = slopes(program.definitions, program).settled(adjoint)
    assert settled.has(Where)
    assert settled.xreplace({root: S.Zero}) == 0
    assert prove(Program("check").claim("same", settled, adjoint, given=[Ne(root, 0)])).status == PROVED
    held = y[n, i] * iverson(root > 0) / root
    assert slopes(program.definitions, program).settled(held) == held


def test_a_slope_with_a_letter_is_left_where_the_letter_gives_it_a_value() -> None:
    program = program_of(Abs(x[n, i]) ** eps)
    settled = slopes(program.definitions, program).settled(Abs(x[n, i]) ** (eps - 1))
    at_zero = settled.subs(x[n, i], 0)
    assert [at_zero.subs(eps, value) for value in (Rational(1, 2), 1, 2)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("forward", "adjoint"),
    [
        (p[n, i] ** eps, p[n, i] ** (eps - 1)),  # of what is positive
        (sqrt(square + eps) + x[n, i], y[n, i] / sqrt(square + eps)),  # positive by its structure
        (sqrt(square) + x[n, i], y[n, i] * iverson(eps < sqrt(square)) / sqrt(square)),  # a bracket says so
        (x[n, i] ** 2, y[n, i] / sqrt(square)),  # no root in the definitions
        (y[n, i] * log(p[n, i]), eps / p[n, i]),  # no weight that may be 0
        (y[n, i] / x[n, i], y[n, i] / x[n, i]),  # a quotient, not the slope of a logarithm
    ],
)
def test_what_is_left_alone(forward: Any, adjoint: Any) -> None:
    program = program_of(forward)
    assert slopes(program.definitions, program).settled(adjoint) == adjoint


def test_few_kernels_of_the_library_have_such_slopes() -> None:
    changed = set()
    for program in load():
        if program.request is not None and program.request.wrt:
            gradient = program.gradient(program.request.outputs[0], program.request.wrt)
            without_value = slopes(program.definitions, program)
            if any(without_value.settled(made.body) != made.body for made in gradient.definitions):
                changed.add(program.name)
    assert changed == {"layer_norm_std", "kullback_leibler"}

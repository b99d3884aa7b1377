"""Statements that one call of the library's computes together."""

from __future__ import annotations

from sympy import erf, sqrt

from codegen.backends import LIBRARIES
from codegen.ir.nodes import Axes, Literal, Map, Read
from codegen.ir.sharing import Statement
from codegen.printing.companions import is_companion, with_companions_next
from codegen.printing.emission import kernel_file
from derive.language import Sum, dims, index, tensor
from derive.program import Program

N, F = dims("N F")
n, f = index("n", N), index("f", F)
NUMPY = LIBRARIES["numpy"]
U = Read("u", (n, f))


def bell(name: str, argument: Read = U, curvature: int = -1, axes: Axes = (n, f)) -> Statement:
    zero = Literal(0)
    return Statement(name, Map("exp_at", (argument, zero, zero, Literal(curvature, 2), zero)), axes)


CDF = Statement("p", Map("normal_cdf", (U,)), (n, f))
BETWEEN = Statement("q", Map("tanh", (U,)), (n, f))


def test_a_companion_moves_up() -> None:
    made = with_companions_next([CDF, BETWEEN, bell("e"), bell("e_2")], NUMPY)
    assert [statement.name for statement in made] == ["p", "e", "q", "e_2"]


def test_others_stay_where_they_are() -> None:
    statements = [bell("e"), CDF, BETWEEN, bell("e_2", Read("v", (n, f))), bell("e_3", curvature=-2)]
    assert with_companions_next(statements, NUMPY) == statements
    assert with_companions_next([CDF, BETWEEN, bell("e")], LIBRARIES["torch"]) == [CDF, BETWEEN, bell("e")]
    assert not is_companion(CDF, bell("e", axes=(f, n)), NUMPY)


def test_one_call_computes_both() -> None:
    x, w = tensor("x", N, F), tensor("w", F, F)
    g = index("g", F)
    program = Program("bent", "a product, bent", [x, w])
    u = program.define("u", [n, f], Sum(w[f, g] * x[n, g], g))
    p = program.define("p", [n, f], (1 + erf(u[n, f] / sqrt(2))) / 2)
    h = program.define("h", [n, f], p[n, f] * u[n, f])
    program.kernel(program.define("y", [n, f], Sum(w[g, f] * h[n, g], g)), wrt=[x, w])
    text = kernel_file(program, "numpy")
    forward = text[: text.index("def bent_backward")]
    assert "bell=" in forward
    assert "exp_at(" not in forward

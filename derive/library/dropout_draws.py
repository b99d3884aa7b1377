"""Dropout by uniform draws: a unit is kept where its draw from [0, 1) is not below p. Srivastava et al. 2014.

    y = [draw >= p] x / (1 - p),   dx = [draw >= p] dy / (1 - p)

The draws are an input, as the mask is in `dropout`: forward and backward see the same ones, and a run can be repeated.
Comparing is part of the statement, so that a caller has nothing to do but draw.
"""

from sympy import Expr

from derive.language import Sum, dims, iverson, leading_index, scalar, tensor, where
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x, draw = tensor("x", N), tensor("draw", N)
p = scalar("p", positive=True)

dropout_draws = Program("dropout_draws", "dropout by uniform draws", [x, draw, p])
y = dropout_draws.define("y", [n], where(draw[n] >= p, x[n] / (1 - p), 0))
dropout_draws.kernel(y, wrt=[x], defaults={p: 0.1})


def masked(value: Expr) -> Expr:
    """The value where the unit is kept, scaled so that the mean stays."""
    return iverson(draw[n] >= p) * value / (1 - p)


dropout_draws.claim("dropout-draws", y[n], masked(x[n]), name="dropout with the mask [draw >= p]")
backward = dropout_draws.gradient(y, [x])
dx, dy = backward["dx"], backward["dy"]
backward.claim("dropout-draws-backward", dx[n], masked(dy[n]), name="the same mask and scale backwards")
backward.claim(
    "dropout-draws-adjoint", Sum(dx[n] * x[n], n), Sum(dy[n] * y[n], n), name="dropout is linear: <dx, x> = <dy, y>"
)

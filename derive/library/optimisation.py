"""Gradient descent: claim B11, that a small step against the gradient lowers the loss by eta |g|^2 to first order.

    L(theta - eta g) = L(theta) - eta |g|^2 + O(eta^2),   g = dL/dtheta

Stated for the loss the document trains with, the cross entropy of a softmax over logits that are linear in theta (the
last layer of a Transformer), and for least squares; the rule that is used does not depend on the loss. Cauchy 1847.
"""

from collections.abc import Callable

from sympy import Expr

from derive.functions import log_softmax
from derive.language import Sum, Tensor, delta, dims, index, scalar, tensor
from derive.operators import first_order
from derive.program import Program
from derive.rules.expansion import TaylorExpansion

N, V, C = dims("N V C")
n, v, c = index("n", N), index("v", V), index("c", C)
x = tensor("x", N, C)
theta = tensor("theta", V, C)
target = tensor("target", N, into=V)
y = tensor("y", N, V)
eta = scalar("eta")


def descent(name: str, title: str, loss: Callable[[Tensor], Expr]) -> Program:
    """One step of gradient descent on a loss of theta, with B11 claimed of it."""
    program = Program(name, title, [theta, x, eta], origin=__name__)
    value = program.define("L", [], loss(theta))
    g = program.define("g", [v, c], program.derivative(value, theta[v, c]))
    moved = program.define("theta_next", [v, c], theta[v, c] - eta * g[v, c])
    after = program.define("L_next", [], loss(moved))
    program.claim(
        "B11", first_order(after, eta=eta), value - eta * Sum(g[v, c] ** 2, v, c),
        name=f"L(theta - eta g) = L(theta) - eta |g|^2 + O(eta^2), {title}", by=TaylorExpansion(),
    )  # fmt: skip
    return program


cross_entropy_descent = descent(
    "cross_entropy_descent",
    "cross entropy of linear logits",
    lambda w: -Sum(delta(v, target[n]) * log_softmax(Sum(w[v, c] * x[n, c], c), over=v), n, v) / N,
)
least_squares_descent = descent(
    "least_squares_descent",
    "least squares",
    lambda w: Sum((Sum(w[v, c] * x[n, c], c) - y[n, v]) ** 2, n, v) / (2 * N),
)

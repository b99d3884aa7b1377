"""Linear regression: least squares with an optional ridge penalty, its gradient, Hessian and normal equations.

    e = X w - y,   loss = |e|^2 / (2 N) + ridge |w|^2 / 2
    dw = X^T e / N + ridge w,   Hessian = X^T X / N + ridge I

A quadratic loss is its own Taylor expansion: loss(w + h) = loss(w) + dw.h + h^T Hessian h / 2 with nothing left over.
So where dw = 0 no other w is better, since h^T X^T X h = |X h|^2 cannot be negative.
"""

from sympy import Eq

from derive.language import Sum, delta, dims, index, indices, scalar, tensor
from derive.program import Program

N, C = dims("N C")
n = index("n", N)
c, k = indices("c k", C)
X, w, y, h = tensor("X", N, C), tensor("w", C), tensor("y", N), tensor("h", C)
ridge = scalar("ridge")

linear_regression = Program("linear_regression", "ridge regression", [X, w, y, ridge])
e = linear_regression.define("e", [n], Sum(X[n, c] * w[c], c) - y[n])
loss = linear_regression.define("loss", [], Sum(e[n] ** 2, n) / (2 * N) + ridge * Sum(w[c] ** 2, c) / 2)
linear_regression.kernel(loss, wrt=[w], defaults={ridge: 0.0})

backward = linear_regression.gradient(loss, [w])
dw, dloss = backward["dw"], backward["dloss"]
backward.steps(
    "regression",
    dw[c],
    dloss * (Sum(X[n, c] * e[n], n) / N + ridge * w[c]),
    dloss * (Sum(X[n, c] * X[n, k] * w[k], n, k) / N - Sum(X[n, c] * y[n], n) / N + ridge * w[c]),
    because=[
        "the square's slope is 2 e, and e is linear in w",
        "e = X w - y; at dw = 0 these are the normal equations",
    ],
)

hessian = backward.jacobian(dw, w, "H")
hessian.claim(
    "regression-hessian", hessian["H"][c, k], dloss * (Sum(X[n, c] * X[n, k], n) / N + ridge * delta(c, k)),
    name="Hessian = X^T X / N + ridge I",
)  # fmt: skip
slope = Sum(X[n, c] * e[n], n) / N + ridge * w[c]
moved = Sum((Sum(X[n, c] * (w[c] + h[c]), c) - y[n]) ** 2, n) / (2 * N) + ridge * Sum((w[c] + h[c]) ** 2, c) / 2
linear_regression.claim(
    "regression-taylor", moved,
    loss + Sum(slope * h[c], c) + Sum(Sum(X[n, c] * h[c], c) ** 2, n) / (2 * N) + ridge * Sum(h[c] ** 2, c) / 2,
    name="the second-order expansion is exact",
)  # fmt: skip

# Without a penalty, at a solution of the normal equations, the fit and the residual are orthogonal.
solved = [Eq(Sum(X[n, c] * e[n], n), 0)]
linear_regression.claim(
    "regression-orthogonal", Sum(Sum(X[n, c] * h[c], c) * e[n], n), 0, given=solved,
    name="the residual is orthogonal to all that X can reach",
)  # fmt: skip

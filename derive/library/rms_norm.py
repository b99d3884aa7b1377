"""RMS norm over the last axis, with its backward pass. Zhang and Sennrich 2019.

    r = (mean(x^2) + eps)^(-1/2),   y = x r gamma
    dx = r gamma dy - r^3 x mean(gamma dy x),   dgamma = sum over rows of dy x r

The mean in dx is one number for each row n: c[n], never c[k]. Here rows and columns have different letters, so that the
mistake is an error of sizes and not a wrong number that a square array hides.
"""

from sympy import Expr, Rational, sqrt

from derive.functions import mean
from derive.language import Sum, delta, dims, indices, leading_index, scalar, tensor
from derive.program import Program

N, C = dims("N C")
n = leading_index("n", N)
c, k = indices("c k", C)
x, gamma = tensor("x", N, C), tensor("gamma", C)
eps, scale = scalar("eps", positive=True), scalar("scale", positive=True)

rms_norm = Program("rms_norm", "RMS norm", [x, gamma, eps])
r = rms_norm.define("r", [n], (mean(x[n, c] ** 2, over=c) + eps) ** Rational(-1, 2))
y = rms_norm.define("y", [n, c], x[n, c] * r[n] * gamma[c])
rms_norm.kernel(y, wrt=[x, gamma], defaults={eps: 1e-6})
rms_norm.claim(
    "rms-norm-size", mean((x[n, c] * r[n]) ** 2, over=c), 1 - eps * r[n] ** 2, name="rows have mean square 1"
)


def normalised(factor: Expr | int) -> Expr:
    """A row times a factor, divided by its root mean square, without eps."""
    return factor * x[n, c] / sqrt(mean((factor * x[n, k]) ** 2, over=k))


rms_norm.claim("rms-norm-scale", normalised(scale), normalised(1), name="without eps the size of a row does not matter")

jacobian = rms_norm.jacobian(r, x)
jacobian.claim("rms-norm-dr", jacobian["dr_dx"][n, n, c], -(r[n] ** 3) * x[n, c] / C, name="dr/dx = -r^3 x / C")

backward = rms_norm.gradient(y)
dy, dx = backward["dy"], backward["dx"]
g = dy[n, c] * gamma[c]
mean_gx = Sum(dy[n, k] * gamma[k] * x[n, k], k) / C
backward.claim("rms-norm-dx", dx[n, c], r[n] * g - r[n] ** 3 * x[n, c] * mean_gx, name="dx in one reduction")
backward.claim("rms-norm-dgamma", backward["dgamma"][c], Sum(dy[n, c] * x[n, c] * r[n], n), name="dgamma = sum dy x r")
backward.claim(
    "rms-norm-radial", Sum(x[n, c] * dx[n, c], c), eps * r[n] ** 3 * Sum(dy[n, c] * gamma[c] * x[n, c], c),
    name="along x the gradient vanishes but for eps",
)  # fmt: skip
backward.steps(
    "rms-norm",
    dx[n, c],
    Sum(dy[n, k] * gamma[k] * (delta(k, c) * r[n] - x[n, k] * r[n] ** 3 * x[n, c] / C), k),
    r[n] * g - Sum(dy[n, k] * gamma[k] * x[n, k], k) * r[n] ** 3 * x[n, c] / C,
    r[n] * (g - x[n, c] * r[n] * mean(dy[n, k] * gamma[k] * x[n, k] * r[n], over=k)),
    because=[
        "product rule for y = x r gamma, with dr/dx = -r^3 x / C",
        "the delta contracts; what does not depend on k leaves the sum",
        "r^3 = r r r, and Sum / C is the mean",
    ],
)

"""Layer norm with eps outside the root, and the second derivative of layer norm.

Some programs divide by s + eps with s the standard deviation, others by sqrt(v + eps) with v the variance. These are
two functions with two backward passes, and the formula for one is wrong for the other:

    xc / sqrt(v + eps)   dx = r (g - mean(g) - xhat mean(g xhat))                             as in layer_norm.py
    xc / (s + eps)       dx = (g - mean(g)) / (s + eps) - xc mean(g xc) / (s (s + eps)^2)     where s > 0

The second has no derivative at a constant row, where s = 0, because the square root has none at 0.
"""

from sympy import Eq, Rational, sqrt

from derive.functions import mean, variance
from derive.language import Sum, dims, index, leading_index, scalar, tensor, where
from derive.program import Program

N, C = dims("N C")
n = leading_index("n", N)
c = index("c", C)
x, eps = tensor("x", N, C), scalar("eps", positive=True)

layer_norm_std = Program("layer_norm_std", "layer norm by the standard deviation plus eps", [x, eps])
xc = layer_norm_std.define("xc", [n, c], x[n, c] - mean(x[n, c], over=c))
s = layer_norm_std.define("s", [n], sqrt(mean(xc[n, c] ** 2, over=c)))
y = layer_norm_std.define("y", [n, c], xc[n, c] / (s[n] + eps))
layer_norm_std.kernel(y, wrt=[x], defaults={eps: 1e-5})
layer_norm_std.claim("std", s[n] ** 2, variance(x[n, c], over=c), name="s is the standard deviation")

backward = layer_norm_std.gradient(y)
g = backward["dy"]
centred = backward["dxc"][n, c] - mean(backward["dxc"][n, c], over=c)
backward.steps(
    "layer-norm-std",
    backward["dx"][n, c],
    centred,
    (g[n, c] - mean(g[n, c], over=c)) / (s[n] + eps)
    - xc[n, c] * mean(g[n, c] * xc[n, c], over=c) / (s[n] * (s[n] + eps) ** 2),
    because=[
        "the mean is taken off the gradient of the centred rows",
        "through 1 / (s + eps) directly, and through s, whose slope is xc / (C s)",
    ],
)

# Second order, at two channels: rows (t, 0), weights 1 and 2, eps = 1/4. The outputs sum to -t / sqrt(1 + t^2).
k = index("k", 2)
t = scalar("t")
curved = Program("layer_norm_curved", "layer norm along a line", [t])
point = curved.define("point", [k], where(Eq(k, 0), t, 0))
root = curved.define("root", [], (variance(point[k], over=k) + Rational(1, 4)) ** Rational(-1, 2))
centre = curved.define("centre", [], mean(point[k], over=k))
total = curved.define("total", [], Sum((k + 1) * (point[k] - centre) * root, k))
curved.claim("layer-norm-line", total, -t / sqrt(1 + t**2), name="the sum of the outputs in closed form")

first = curved.gradient(total)
first.claim(
    "layer-norm-slope", first["dt"], -first["dtotal"] * (1 + t**2) ** Rational(-3, 2), name="its first derivative"
)
second = first.gradient(first["dt"], [t], prefix="d2")
second.claim(
    "layer-norm-curvature", second["d2t"], second["d2dt"] * second["dtotal"] * 3 * t * (1 + t**2) ** Rational(-5, 2),
    name="its second derivative, backward over backward",
)  # fmt: skip
ahead = curved.tangent(total, [t])
twice = ahead.tangent(ahead["ttotal"], [t], prefix="u")
twice.claim(
    "layer-norm-curvature", twice["uttotal"],
    twice["tt"] * twice["ut"] * 3 * t * (1 + t**2) ** Rational(-5, 2), name="and forward over forward",
)  # fmt: skip

"""SiLU, or Swish: x sigmoid(beta x). Hendrycks and Gimpel 2016; Ramachandran, Zoph and Le 2017.

    y = x s,   s = sigmoid(x),   dy/dx = s + x s (1 - s) = y + s (1 - y)

With a slope beta the second form is beta y + s (1 - beta y); what is sometimes printed, y + s (beta - beta y), differs
from it by s (1 - beta)(1 - x) and so agrees at beta = 1 and at x = 1 only.

The sigmoid gets no name of its own: e^-x s^2 would be written with it, and e^-x is not finite for every x.
"""

from sympy import Eq, exp

from derive.functions import sigmoid
from derive.functions import silu as silu_of
from derive.language import Sum, dims, leading_index, scalar, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x = tensor("x", N)
beta = scalar("beta")

silu = Program("silu", "SiLU", [x])
y = silu.define("y", [n], silu_of(x[n]))
silu.kernel(y, wrt=[x])
s = sigmoid(x[n])
silu.claim("silu-reflection", x[n] - y[n], x[n] / (1 + exp(x[n])), name="x - SiLU(x) = x sigmoid(-x) = -SiLU(-x)")

backward = silu.gradient(y)
dx, dy = backward["dx"], backward["dy"]
backward.claim("silu-backward", dx[n], dy[n] * (s + x[n] * s * (1 - s)), name="dx = dy (s + x s (1 - s))")
backward.steps(
    "silu",
    dx[n],
    dy[n] * (s + x[n] * exp(-x[n]) / (1 + exp(-x[n])) ** 2),
    dy[n] * (s + x[n] * s * (1 - s)),
    dy[n] * (y[n] + s * (1 - y[n])),
    because=[
        "product rule, and the derivative of 1 / (1 + e^-x)",
        "e^-x / (1 + e^-x) = 1 - s",
        "x s = y",
    ],
)

swish = Program("swish", "Swish with a slope", [x, beta])
sigma = swish.define("sigma", [n], 1 / (1 + exp(-beta * x[n])))
w = swish.define("w", [n], x[n] * sigma[n])
swish_backward = swish.gradient(w, [x, beta])
dw = swish_backward["dw"]
slope = beta * w[n] + sigma[n] * (1 - beta * w[n])
printed = w[n] + sigma[n] * (beta - beta * w[n])
swish_backward.claim("swish", swish_backward["dx"][n], dw[n] * slope, name="w' = beta w + sigma (1 - beta w)")
swish_backward.claim(
    "swish-beta", swish_backward["dbeta"], Sum(dw[n] * w[n] * (x[n] - w[n]), n), name="dw/dbeta = w (x - w)"
)
swish_backward.claim(
    "swish-printed", slope - printed, sigma[n] * (1 - beta) * (1 - x[n]), name="how far the printed form is off"
)
swish_backward.claim(
    "swish-printed", swish_backward["dx"][n], dw[n] * printed, given=[Eq(beta, 1)], name="at beta = 1 it is right"
)

"""GELU with the exact normal distribution function. Hendrycks and Gimpel 2016."""

from sympy import erf, exp, pi, sqrt

from derive.functions import gelu as gelu_of
from derive.language import dims, leading_index, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x = tensor("x", N)

gelu = Program("gelu", "GELU, exact", [x])
Phi = gelu.define("Phi", [n], (1 + erf(x[n] / sqrt(2))) / 2)
y = gelu.define("y", [n], x[n] * Phi[n])
gelu.kernel(y, wrt=[x])
gelu.claim("gelu", y[n], gelu_of(x[n]), name="GELU is x Phi(x)")

backward = gelu.gradient(y)
backward.claim(
    "gelu-backward", backward["dx"][n], backward["dy"][n] * (Phi[n] + x[n] * exp(-(x[n] ** 2) / 2) / sqrt(2 * pi)),
    name="GELU' = Phi + x phi",
)  # fmt: skip

density = exp(-(x[n] ** 2) / 2) / sqrt(2 * pi)
backward.steps(
    "gelu-chain", backward["dx"][n],
    backward["dy"][n] * Phi[n] + backward["dy"][n] * x[n] * density,
    backward["dy"][n] * (Phi[n] + x[n] * density),
    because=["the product rule, and Phi' is the density", "dy factored out"],
)  # fmt: skip

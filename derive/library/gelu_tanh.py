"""GELU with tanh in place of the normal distribution function. Hendrycks and Gimpel 2016, section 2.

    u = sqrt(2/pi) (x + 0.044715 x^3),   t = tanh(u),   y = x (1 + t) / 2
    dy/dx = (1 + t) / 2 + x (1 - t^2) u' / 2,   u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)

Since (1 + tanh u) / 2 = sigmoid(2 u), it is x sigmoid(2 u) as well.
"""

from sympy import Rational, pi, sqrt, tanh

from derive.functions import gelu_tanh as gelu_tanh_of
from derive.functions import sigmoid
from derive.language import dims, leading_index, tensor
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x = tensor("x", N)
CUBIC = Rational(44715, 1000000)

gelu_tanh = Program("gelu_tanh", "GELU, tanh approximation", [x])
t = gelu_tanh.define("t", [n], tanh(sqrt(2 / pi) * (x[n] + CUBIC * x[n] ** 3)))
y = gelu_tanh.define("y", [n], x[n] * (1 + t[n]) / 2)
gelu_tanh.kernel(y, wrt=[x])
gelu_tanh.claim("gelu-tanh", y[n], gelu_tanh_of(x[n]), name="the statement is the published one")
u = sqrt(2 / pi) * (x[n] + CUBIC * x[n] ** 3)
gelu_tanh.claim("gelu-tanh-sigmoid", y[n], x[n] * sigmoid(2 * u), name="(1 + tanh u) / 2 = sigmoid(2 u)")

backward = gelu_tanh.gradient(y)
dy = backward["dy"]
slope = sqrt(2 / pi) * (1 + 3 * CUBIC * x[n] ** 2)
backward.steps(
    "gelu-tanh-backward",
    backward["dx"][n],
    dy[n] * ((1 + t[n]) / 2 + x[n] * (1 - tanh(u) ** 2) * slope / 2),
    dy[n] * ((1 + t[n]) / 2 + x[n] * (1 - t[n] ** 2) * slope / 2),
    dy[n] * ((1 + t[n]) / 2 + x[n] * (1 - t[n]) * (1 + t[n]) / 2 * slope),
    because=["product rule, and tanh' = 1 - tanh^2", "tanh(u) is t", "1 - t^2 = (1 - t)(1 + t)"],
)

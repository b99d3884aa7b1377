"""The feed-forward layer with GELU as a kernel of its own: y = W_2 GELU(W_1 x + b_1) + b_2, without norm and residual.

GELU(u) = u Phi(u) with Phi the normal distribution function. Hendrycks and Gimpel 2016. Claim E10 of `feed_forward` has
the formulas of every such layer; here they are claimed in the names that the kernel has.
"""

from sympy import erf, exp, pi, sqrt

from derive.language import Sum, dims, index, indices, leading_index, tensor
from derive.matrices import matrices, matrix
from derive.program import Program

N, C, F = dims("N C F")
n = leading_index("n", N)
c, k = indices("c k", C)
f = index("f", F)
x = tensor("x", N, C)
W_1, b_1, W_2, b_2 = tensor("W_1", F, C), tensor("b_1", F), tensor("W_2", C, F), tensor("b_2", C)

layer = Program("feed_forward", "feed-forward layer with GELU", [x, W_1, b_1, W_2, b_2])
u = layer.define("u", [n, f], Sum(x[n, c] * W_1[f, c], c) + b_1[f])
Phi = layer.define("Phi", [n, f], (1 + erf(u[n, f] / sqrt(2))) / 2)
h = layer.define("h", [n, f], u[n, f] * Phi[n, f])
y = layer.define("y", [n, c], Sum(h[n, f] * W_2[c, f], f) + b_2[c])
layer.kernel(y, wrt=[x, W_1, b_1, W_2, b_2])

backward = layer.gradient(y)
dy, dh, du = backward["dy"], backward["dh"], backward["du"]
mx, mh, mdy, mdu = matrices(x, h, dy, du)
slope = Phi[n, f] + u[n, f] * exp(-(u[n, f] ** 2) / 2) / sqrt(2 * pi)
backward.claim("feed-forward-du", du[n, f], Sum(dy[n, k] * W_2[k, f], k) * slope, name="du = dy W_2 * GELU'(u)")
backward.claim("feed-forward-dW_1", matrix(backward["dW_1"]), mdu.T @ mx, name="dW_1 = du^T x")
backward.claim("feed-forward-dW_2", matrix(backward["dW_2"]), mdy.T @ mh, name="dW_2 = dy^T h")
backward.claim("feed-forward-dx", matrix(backward["dx"]), mdu @ matrix(W_1), name="dx = du W_1")

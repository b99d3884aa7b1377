"""SwiGLU: a feed-forward layer whose hidden units are gated by SiLU. Shazeer 2020.

    g = x W_g,  u = x W_u,  s = sigmoid(g),  a = g s,  h = a u,  y = h W_d
    du = a dh,  dg = u dh (s + a (1 - s)),  dx = dg W_g^T + du W_u^T

Weights are stored as PyTorch stores them, outputs first; no biases.
"""

from derive.functions import sigmoid, silu
from derive.language import Sum, dims, index, indices, leading_index, tensor
from derive.matrices import matrices, matrix
from derive.program import Program

N, C, F = dims("N C F")
n = leading_index("n", N)
c, k = indices("c k", C)
f = index("f", F)
x, W_g, W_u, W_d = tensor("x", N, C), tensor("W_g", F, C), tensor("W_u", F, C), tensor("W_d", C, F)

swiglu = Program("swiglu", "SwiGLU feed-forward layer", [x, W_g, W_u, W_d])
g = swiglu.define("g", [n, f], Sum(x[n, c] * W_g[f, c], c))
u = swiglu.define("u", [n, f], Sum(x[n, c] * W_u[f, c], c))
a = swiglu.define("a", [n, f], silu(g[n, f]))
h = swiglu.define("h", [n, f], a[n, f] * u[n, f])
y = swiglu.define("y", [n, c], Sum(h[n, f] * W_d[c, f], f))
swiglu.kernel(y, wrt=[x, W_g, W_u, W_d])
s = sigmoid(g[n, f])
swiglu.claim("swiglu", y[n, c], Sum(g[n, f] * s * u[n, f] * W_d[c, f], f), name="one branch gates the other")

backward = swiglu.gradient(y)
dy, dh, du, dg = backward["dy"], backward["dh"], backward["du"], backward["dg"]
mx, mW_g, mW_u, mh, mdy, mdu, mdg = matrices(x, W_g, W_u, h, dy, du, dg)
backward.claim("swiglu-du", du[n, f], dh[n, f] * a[n, f], name="the value branch receives dh times the gate")
backward.claim("swiglu-dW_d", matrix(backward["dW_d"]), mdy.T @ mh, name="dW_d = dy^T h")
backward.claim("swiglu-dW_g", matrix(backward["dW_g"]), mdg.T @ mx, name="dW_g = dg^T x")
backward.claim("swiglu-dW_u", matrix(backward["dW_u"]), mdu.T @ mx, name="dW_u = du^T x")
backward.claim("swiglu-dx", matrix(backward["dx"]), mdg @ mW_g + mdu @ mW_u, name="dx sums over both branches")
backward.steps(
    "swiglu-gate",
    dg[n, f],
    dh[n, f] * u[n, f] * (s + g[n, f] * s * (1 - s)),
    dh[n, f] * u[n, f] * (s + a[n, f] * (1 - s)),
    Sum(dy[n, c] * W_d[c, f], c) * u[n, f] * (a[n, f] + s * (1 - a[n, f])),
    because=["h = a u, and SiLU' = s + g s (1 - s)", "g s = a", "dh = dy W_d, and s + a - a s = a + s - s a"],
)

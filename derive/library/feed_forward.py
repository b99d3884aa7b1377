"""The feed-forward layer: claim E10 for any activation that has a slope, and the residual block as a kernel.

The gradient sees nothing of an activation but its value and its slope at the point. So E10 is stated once for its
tangent line there, with any value and any slope, which covers every smooth and piecewise-smooth activation; ReLU, tanh
and GELU are the instances with the slopes that one knows them by.
"""

from collections.abc import Callable

from sympy import Expr, Rational, erf, exp, pi, sqrt, tanh

from derive.functions import gelu, mean, relu
from derive.gradient import Gradient
from derive.language import Sum, dims, index, indices, iverson, leading_index, scalar, tensor, tensors
from derive.matrices import matrix
from derive.program import Program

N, C, F = dims("N C F")
n = leading_index("n", N)
c, k = indices("c k", C)
f = index("f", F)
x = tensor("x", N, C)
W_1, b_1, W_2, b_2 = tensor("W_1", F, C), tensor("b_1", F), tensor("W_2", C, F), tensor("b_2", C)


def two_layers(label: str, activation: Callable[[Expr], Expr], slope: Callable[[Expr], Expr]) -> Gradient:
    """The gradient of y = W_2 activation(W_1 x + b_1) + b_2, with E10 claimed of it.

    The slope of the activation enters as one factor; the five formulas are the same for every activation. Both are
    functions of u[n, f], at the row n and the unit f.
    """
    layer = Program(
        f"feed_forward_{label}", f"two-layer feed-forward, {label}", [x, W_1, b_1, W_2, b_2], origin=__name__
    )
    u = layer.define("u", [n, f], Sum(x[n, c] * W_1[f, c], c) + b_1[f])
    h = layer.define("h", [n, f], activation(u[n, f]))
    y = layer.define("y", [n, c], Sum(h[n, f] * W_2[c, f], f) + b_2[c])
    back = layer.gradient(y)
    dy, du = back["dy"], Sum(back["dy"][n, k] * W_2[k, f], k) * slope(u[n, f])
    back.claim("E10", matrix(back["dW_2"]), matrix(dy).T @ matrix(h), name=f"dW_2 = dy^T h ({label})")
    back.claim("E10", back["db_2"][c], Sum(dy[n, c], n), name=f"db_2 = column sums of dy ({label})")
    back.claim("E10", back["dW_1"][f, c], Sum(du * x[n, c], n), name=f"dW_1 = (dy W_2 * slope)^T x ({label})")
    back.claim("E10", back["db_1"][f], Sum(du, n), name=f"db_1 = column sums of dy W_2 * slope ({label})")
    back.claim("E10", back["dx"][n, c], Sum(du * W_1[f, c], f), name=f"dx = (dy W_2 * slope) W_1 ({label})")
    return back


at, value, rise = tensors("at value rise", N, F)
with_any = two_layers(
    "any", lambda u: value[n, f] + rise[n, f] * (u - at[n, f]), lambda u: rise[n, f],
)  # fmt: skip
with_relu = two_layers("relu", relu, lambda u: iverson(u > 0))
with_tanh = two_layers("tanh", tanh, lambda u: 1 - tanh(u) ** 2)
with_gelu = two_layers("gelu", gelu, lambda u: (1 + erf(u / sqrt(2))) / 2 + u * exp(-(u**2) / 2) / sqrt(2 * pi))

# The kernel: a pre-norm residual block, y = x + W_2 GELU(W_1 norm(x) + b_1) + b_2.
gamma, beta = tensor("gamma", C), tensor("beta", C)
eps = scalar("eps", positive=True)

block = Program("feed_forward_block", "pre-norm residual feed-forward block", [x, gamma, beta, W_1, b_1, W_2, b_2, eps])
mu = block.define("mu", [n], mean(x[n, c], over=c))
xc = block.define("xc", [n, c], x[n, c] - mu[n])
r = block.define("r", [n], (mean(xc[n, c] ** 2, over=c) + eps) ** Rational(-1, 2))
xhat = block.define("xhat", [n, c], xc[n, c] * r[n])
z = block.define("z", [n, c], xhat[n, c] * gamma[c] + beta[c])
u = block.define("u", [n, f], Sum(z[n, c] * W_1[f, c], c) + b_1[f])
Phi = block.define("Phi", [n, f], (1 + erf(u[n, f] / sqrt(2))) / 2)
h = block.define("h", [n, f], u[n, f] * Phi[n, f])
y = block.define("y", [n, c], x[n, c] + Sum(h[n, f] * W_2[c, f], f) + b_2[c])
block.kernel(y, wrt=[x, gamma, beta, W_1, b_1, W_2, b_2], defaults={eps: 1e-5})

block_backward = block.gradient(y)
block_backward.claim(
    "residual", block_backward["dx"][n, c],
    block_backward["dy"][n, c]
    + r[n] * (block_backward["dxhat"][n, c] - mean(block_backward["dxhat"][n, c], over=c)
              - xhat[n, c] * mean(block_backward["dxhat"][n, c] * xhat[n, c], over=c)),
    name="the residual path adds dy",
)  # fmt: skip

dy = block_backward["dy"]
block_backward.steps(
    "feed-forward-chain", block_backward["dW_1"][f, c],
    Sum(block_backward["du"][n, f] * z[n, c], n),
    Sum(Sum(dy[n, k] * W_2[k, f], k) * (Phi[n, f] + u[n, f] * exp(-(u[n, f] ** 2) / 2) / sqrt(2 * pi)) * z[n, c], n),
    because=["dW_1 = du^T z", "du is dh times the slope of GELU, and dh = dy W_2"],
)  # fmt: skip

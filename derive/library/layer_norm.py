"""Layer norm over the last axis, with its textbook backward pass proved for every width. Ba, Kiros and Hinton 2016."""

from sympy import Rational

from derive.functions import mean
from derive.language import dims, indices, leading_index, scalar, tensor
from derive.program import Program

N, C = dims("N C")
n = leading_index("n", N)
c, k = indices("c k", C)
x, gamma, beta = tensor("x", N, C), tensor("gamma", C), tensor("beta", C)
eps = scalar("eps", positive=True)

layer_norm = Program("layer_norm", "layer norm", [x, gamma, beta, eps])
mu = layer_norm.define("mu", [n], mean(x[n, c], over=c))
xc = layer_norm.define("xc", [n, c], x[n, c] - mu[n])
r = layer_norm.define("r", [n], (mean(xc[n, c] ** 2, over=c) + eps) ** Rational(-1, 2))
xhat = layer_norm.define("xhat", [n, c], xc[n, c] * r[n])
y = layer_norm.define("y", [n, c], xhat[n, c] * gamma[c] + beta[c])
layer_norm.kernel(y, wrt=[x, gamma, beta], defaults={eps: 1e-5})
layer_norm.claim(
    "variance", mean(xc[n, c] ** 2, over=c), mean(x[n, c] ** 2, over=c) - mu[n] ** 2, name="two forms of the variance"
)
layer_norm.claim("centred", mean(xhat[n, c], over=c), 0, name="normalised rows have mean 0")

backward = layer_norm.gradient(y)
dy = backward["dy"]
g = dy[n, c] * gamma[c]
backward.claim(
    "layer-norm-backward", backward["dx"][n, c],
    r[n] * (g - mean(g, over=c) - xhat[n, c] * mean(g * xhat[n, c], over=c)), name="dx in three reductions",
)  # fmt: skip

dxc = g * r[n] - xc[n, c] * r[n] ** 3 * mean(dy[n, k] * gamma[k] * xc[n, k], over=k)
backward.steps(
    "layer-norm-chain", backward["dx"][n, c],
    dxc - mean(dxc, over=c),
    r[n] * g - r[n] * mean(g, over=c) - r[n] * xhat[n, c] * mean(g * xhat[n, c], over=c),
    r[n] * (g - mean(g, over=c) - xhat[n, c] * mean(g * xhat[n, c], over=c)),
    because=["through the centring, which subtracts the mean", "centred values have mean 0", "r factored out"],
)  # fmt: skip

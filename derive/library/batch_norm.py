"""Batch norm in training mode, and three ways to write its backward pass. Ioffe and Szegedy 2015.

    mu = mean of x over the batch,   v = mean of (x - mu)^2,   r = (v + eps)^(-1/2)
    xhat = (x - mu) r,   y = gamma xhat + beta

With g = gamma dy (gamma inside, before anything is averaged):

    textbook    dx = r (g - mean(g) - xhat mean(g xhat))
    by parts    dx = g r + 2 (x - mu) dv / N + dmu / N      as in the original paper, through dv and dmu
    completed   the same with mean(g xhat) mean(xhat) and the like added back: these terms are 0, because mean(xhat) = 0

The mean is over the batch n, each channel c by itself; any number of leading dimensions counts as the batch.
"""

from sympy import Rational

from derive.functions import mean
from derive.language import Sum, dims, index, indices, leading_index, scalar, tensor
from derive.program import Program

N, C = dims("N C")
n = leading_index("n", N)
m = indices("m", N)[0]
c = index("c", C)
x, gamma, beta = tensor("x", N, C), tensor("gamma", C), tensor("beta", C)
eps = scalar("eps", positive=True)

batch_norm = Program("batch_norm", "batch norm in training mode", [x, gamma, beta, eps])
mu = batch_norm.define("mu", [c], mean(x[n, c], over=n))
xc = batch_norm.define("xc", [n, c], x[n, c] - mu[c])
r = batch_norm.define("r", [c], (mean(xc[n, c] ** 2, over=n) + eps) ** Rational(-1, 2))
xhat = batch_norm.define("xhat", [n, c], xc[n, c] * r[c])
y = batch_norm.define("y", [n, c], xhat[n, c] * gamma[c] + beta[c])
batch_norm.kernel(y, wrt=[x, gamma, beta], defaults={eps: 1e-5})
batch_norm.claim("batch-norm-centred", mean(xhat[n, c], over=n), 0, name="normalised channels have mean 0")
batch_norm.claim(
    "batch-norm-variance", mean(xc[n, c] ** 2, over=n), mean(x[n, c] ** 2, over=n) - mu[c] ** 2,
    name="E[(x - mu)^2] = E[x^2] - mu^2 over the reals; only the first stays at least 0 in floating point",
)  # fmt: skip

backward = batch_norm.gradient(y)
dy, dx = backward["dy"], backward["dx"]
g = dy[n, c] * gamma[c]
mean_g, mean_gx = mean(g, over=n), mean(g * xhat[n, c], over=n)
textbook = r[c] * (g - mean_g - xhat[n, c] * mean_gx)
dv = Sum(dy[m, c] * gamma[c] * xc[m, c], m) * Rational(-1, 2) * r[c] ** 3
dmu = -r[c] * Sum(dy[m, c] * gamma[c], m) - 2 * dv * mean(xc[m, c], over=m)
by_parts = g * r[c] + 2 * dv * xc[n, c] / N + dmu / N
completed = textbook + r[c] * (mean_gx + mean_g * xhat[n, c]) * mean(xhat[m, c], over=m)

backward.claim("batch-norm-textbook", dx[n, c], textbook, name="dx in two reductions")
backward.claim("batch-norm-parts", dx[n, c], by_parts, name="dx through dv and dmu, as in the paper")
backward.claim("batch-norm-completed", dx[n, c], completed, name="the terms that were thought missing are 0")
backward.claim("batch-norm-same", by_parts, textbook, name="two of the forms equal each other")
backward.claim("batch-norm-dgamma", backward["dgamma"][c], Sum(dy[n, c] * xhat[n, c], n), name="dgamma = sum dy xhat")
backward.claim("batch-norm-dbeta", backward["dbeta"][c], Sum(dy[n, c], n), name="dbeta = sum dy")
backward.claim("batch-norm-sum", Sum(dx[n, c], n), 0, name="the gradient of each channel sums to 0")
backward.steps(
    "batch-norm",
    dx[n, c],
    by_parts,
    r[c] * g - r[c] ** 3 * xc[n, c] * mean(g * xc[n, c], over=n) - r[c] * mean_g,
    textbook,
    because=[
        "x reaches y directly, through the variance, and through the mean",
        "the mean of x - mu is 0, so dmu keeps one term; dv written in",
        "xhat = r (x - mu)",
    ],
)

# A test with an upstream gradient of ones, or with the loss sum(y^2), is blind: there is next to nothing to see.
blind = Program("batch_norm_blind", "the loss sum(y^2) after batch norm", [x, gamma, beta, eps])
blind_mu = blind.define("mu", [c], mean(x[n, c], over=n))
blind_r = blind.define("r", [c], (mean((x[n, c] - blind_mu[c]) ** 2, over=n) + eps) ** Rational(-1, 2))
blind_xhat = blind.define("xhat", [n, c], (x[n, c] - blind_mu[c]) * blind_r[c])
squares = blind.define("squares", [], Sum((gamma[c] * blind_xhat[n, c] + beta[c]) ** 2, n, c))
blind_backward = blind.gradient(squares)
blind_backward.claim(
    "batch-norm-blind", blind_backward["dx"][n, c],
    blind_backward["dsquares"] * 2 * gamma[c] ** 2 * blind_xhat[n, c] * blind_r[c] ** 3 * eps,
    name="the gradient of sum(y^2) vanishes but for eps",
)  # fmt: skip

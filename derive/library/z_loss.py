"""z-loss: cross entropy plus a penalty on the square of the log-partition function. Chowdhery et al. 2022, section 5.

    loss = mean_n (L_n - z_n,target) + scale L_n^2,   dz = ((1 + 2 scale L) p - y) / N

The penalty keeps L near 0, which logits leave freely because a shift does not change p.
"""

from sympy import exp, log

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, indices, leading_index, scalar, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v, k = indices("v k", V)
z = tensor("z", N, V)
target = tensor("target", N, into=V)
scale = scalar("scale")
m = tensor("m", N)

z_loss = Program("z_loss", "mean cross entropy with z-loss", [z, target, scale])
L = z_loss.define("L", [n], logsumexp(z[n, v], over=v))
loss = z_loss.define("loss", [], Sum(L[n] - z[n, target[n]] + scale * L[n] ** 2, n) / N)
z_loss.kernel(loss, wrt=[z], defaults={scale: 1e-4})

# The log of the partition function with any number taken out of it: m + log of the sum, not m + the sum.
z_loss.steps(
    "z-loss-shift",
    L[n],
    log(exp(m[n]) * Sum(exp(z[n, v] - m[n]), v)),
    m[n] + log(Sum(exp(z[n, v] - m[n]), v)),
    because=["e^m taken out of the sum", "log of a product"],
)

p = softmax(z[n, v], over=v)
backward = z_loss.gradient(loss)
backward.claim(
    "z-loss-backward", backward["dz"][n, v],
    backward["dloss"] * ((1 + 2 * scale * L[n]) * p - delta(v, target[n])) / N, name="dz = ((1 + 2 scale L) p - y) / N",
)  # fmt: skip
z_loss.claim(
    "z-loss-gradient", z_loss.derivative(scale * L[n] ** 2, z[n, k]), 2 * scale * L[n] * softmax(z[n, k], over=k),
    name="the penalty alone: 2 scale L p",
)  # fmt: skip

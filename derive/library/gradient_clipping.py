"""Gradient clipping by global norm: one factor for all gradients, so that the direction stays. Pascanu et al. 2013.

    norm = sqrt(sum g^2),   clipped = g min(1, most / (norm + eps))

eps keeps the quotient finite at norm 0; PyTorch has it too, at 1e-6. All gradients stand in one vector, so that the
norm is over all of them.
"""

from sympy import sqrt

from derive.language import Sum, dims, index, scalar, tensor, where
from derive.program import Program

N = dims("N")[0]
n, m = index("n", N), index("m", N)
g = tensor("g", N)
most, eps = scalar("most", positive=True), scalar("eps", positive=True)

clipping = Program("gradient_clipping", "gradients clipped by their global norm", [g, most, eps])
norm = clipping.define("norm", [], sqrt(Sum(g[m] ** 2, m)))
scale = clipping.define("scale", [], where(norm + eps <= most, 1, most / (norm + eps)))
clipped = clipping.define("clipped", [n], g[n] * scale)
clipping.kernel(clipped, norm, defaults={eps: 1e-6})
clipping.claim("clipping-ratio", clipped[n] * g[m], clipped[m] * g[n], name="the direction stays")
clipping.claim(
    "clipping-small", clipped[n], g[n], given=[norm + eps <= most], name="what is short enough is left alone"
)
clipping.claim(
    "clipping-large", clipped[n], most * g[n] / (norm + eps), given=[norm + eps > most], name="the rest is scaled down"
)
clipping.claim(
    "clipping-norm", Sum(clipped[n] ** 2, n), scale**2 * norm**2, name="the norm afterwards is scale times the norm"
)

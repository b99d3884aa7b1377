"""Label smoothing: cross entropy to a target that is one-hot but for a share eps spread evenly. Szegedy et al. 2016.

    y_v = (1 - eps) [v = target] + eps / V,   dz = (p - y) / N

The loss is (1 - eps) times the cross entropy to the target plus eps times the cross entropy to the uniform
distribution.
"""

from sympy import log

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, indices, leading_index, scalar, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v, k = indices("v k", V)
z = tensor("z", N, V)
target = tensor("target", N, into=V)
eps = scalar("eps")

label_smoothing = Program("label_smoothing", "mean cross entropy with label smoothing", [z, target, eps])
L = label_smoothing.define("L", [n], logsumexp(z[n, v], over=v))
hard = label_smoothing.define("hard", [n], L[n] - z[n, target[n]])
uniform = label_smoothing.define("uniform", [n], Sum(L[n] - z[n, v], v) / V)
loss = label_smoothing.define("loss", [], Sum((1 - eps) * hard[n] + eps * uniform[n], n) / N)
label_smoothing.kernel(loss, wrt=[z], defaults={eps: 0.1})

p = softmax(z[n, v], over=v)
y = (1 - eps) * delta(v, target[n]) + eps / V
label_smoothing.claim("smoothing-normalised", Sum(y, v), 1, over=[n], name="the smoothed target sums to 1")
label_smoothing.steps(
    "smoothing",
    -Sum(y * log(p), n, v) / N,
    Sum(y * (L[n] - z[n, v]), n, v) / N,
    Sum((1 - eps) * (L[n] - z[n, target[n]]) + eps / V * Sum(L[n] - z[n, v], v), n) / N,
    loss,
    because=["-log p = L - z", "delta contraction in the one-hot share", "by name"],
)

backward = label_smoothing.gradient(loss)
dloss, dz = backward["dloss"], backward["dz"]
backward.claim("smoothing-backward", dz[n, v], dloss * (p - y) / N, name="dz = (p - y) / N with the smoothed target")
backward.claim("smoothing-backward-sum", Sum(dz[n, v], v), 0, over=[n], name="the gradient sums to 0")

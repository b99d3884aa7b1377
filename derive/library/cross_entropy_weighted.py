"""Cross entropy with class weights: the weighted mean over rows, as PyTorch's cross_entropy(weight=...) has it.

    loss = Sum_n w[target_n] (logsumexp(z_n) - z_n,target) / Sum_n w[target_n]

It is divided by the sum of the weights met, not by N, so that a common factor of all weights cancels.
"""

from sympy import Eq, log

from derive.binders import substitute
from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, index, leading_index, scalar, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v = index("v", V)
z, w = tensor("z", N, V), tensor("w", V, positive=True)
target = tensor("target", N, into=V)
c = scalar("c", positive=True)

weighted = Program("cross_entropy_weighted", "weighted mean cross entropy", [z, target, w])
L = weighted.define("L", [n], logsumexp(z[n, v], over=v))
W = weighted.define("W", [], Sum(w[target[n]], n))
loss = weighted.define("loss", [], Sum(w[target[n]] * (L[n] - z[n, target[n]]), n) / W)
weighted.kernel(loss, wrt=[z])
weighted.claim(
    "weighted-scale", Sum(c * w[target[n]] * (L[n] - z[n, target[n]]), n) / Sum(c * w[target[n]], n), loss,
    name="a common factor of the weights cancels",
)  # fmt: skip
weighted.claim(
    "weighted-equal", loss, Sum(L[n] - z[n, target[n]], n) / N, given=[Eq(w[v], c)],
    name="equal weights: the ordinary mean",
)  # fmt: skip

p = softmax(z[n, v], over=v)
softmax_at_target = substitute(p, {v: target[n]})
weighted.steps(
    "weighted",
    -Sum(w[v] * delta(v, target[n]) * log(p), n, v) / W,
    -Sum(w[target[n]] * log(softmax_at_target), n) / W,
    loss,
    because=["one-hot targets are contracted", "-log p = logsumexp(z) - z"],
)
backward = weighted.gradient(loss)
dloss, dz = backward["dloss"], backward["dz"]
backward.claim(
    "weighted-backward",
    dz[n, v],
    dloss * w[target[n]] * (p - delta(v, target[n])) / W,
    name="dz = w_target (p - y) / W",
)

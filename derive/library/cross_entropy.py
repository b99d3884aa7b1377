"""Softmax cross entropy from logits with integer targets: the mean over rows of logsumexp(z) - z[target]."""

from sympy import exp, log

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, index, leading_index, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v = index("v", V)
z = tensor("z", N, V)
target = tensor("target", N, into=V)

cross_entropy = Program("cross_entropy", "mean softmax cross entropy from logits", [z, target])
L = cross_entropy.define("L", [n], logsumexp(z[n, v], over=v))
loss = cross_entropy.define("loss", [], Sum(L[n] - z[n, target[n]], n) / N)
cross_entropy.kernel(loss, wrt=[z])
cross_entropy.claim(
    "cross-entropy", loss, -Sum(delta(v, target[n]) * log(softmax(z[n, v], over=v)), n, v) / N,
    name="the mean of -log softmax(z)[target]",
)  # fmt: skip

backward = cross_entropy.gradient(loss)
backward.claim(
    "cross-entropy-backward", backward["dz"][n, v],
    backward["dloss"] * (softmax(z[n, v], over=v) - delta(v, target[n])) / N, name="dz = (p - y) / N",
)  # fmt: skip

backward.steps(
    "cross-entropy-chain", backward["dz"][n, v],
    backward["dloss"] / N * (exp(z[n, v]) / exp(L[n]) - delta(v, target[n])),
    backward["dloss"] / N * (exp(z[n, v] - L[n]) - delta(v, target[n])),
    backward["dloss"] * (softmax(z[n, v], over=v) - delta(v, target[n])) / N,
    because=["the gradient of logsumexp is e^z / e^L", "exponentials merge", "e^(z - L) is the softmax"],
)  # fmt: skip

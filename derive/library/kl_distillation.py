"""Kullback-Leibler divergence and distillation with a temperature. Hinton, Vinyals and Dean 2015.

    p = softmax(z / T),  q = softmax(t / T),   KL(q || p) = Sum_v q_v (log q_v - log p_v),   d KL / dz = (p - q) / T

exactly, for every T. The loss is multiplied by T^2, which makes its gradient T (p - q): of the order of 1 for large T,
where T (p - q) tends to ((z - mean z) - (t - mean t)) / V. That limit is all that is left of the "1 / T^2" rule.
"""

from sympy import log

from derive.functions import log_softmax, logsumexp, softmax
from derive.language import Sum, delta, dims, indices, leading_index, scalar, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v, k = indices("v k", V)
z, t = tensor("z", N, V), tensor("t", N, V)
T = scalar("temperature", positive=True)

distillation = Program("distillation", "distillation from a teacher's logits", [z, t, T])
log_p = distillation.define("log_p", [n, v], log_softmax(z[n, v] / T, over=v))
log_q = distillation.define("log_q", [n, v], log_softmax(t[n, v] / T, over=v))
q = distillation.define("q", [n, v], softmax(t[n, v] / T, over=v))
KL = distillation.define("KL", [n], Sum(q[n, v] * (log_q[n, v] - log_p[n, v]), v))
loss = distillation.define("loss", [], T**2 * Sum(KL[n], n) / N)
distillation.kernel(loss, wrt=[z], defaults={T: 2.0})

p = softmax(z[n, v] / T, over=v)
distillation.claim(
    "distillation-cross-entropy", KL[n], Sum(q[n, v] * log_q[n, v], v) - Sum(q[n, v] * log(p), v),
    name="KL is the cross entropy less the entropy of the teacher",
)  # fmt: skip
distillation.steps(
    "distillation-gradient",
    distillation.derivative(KL[n], z[n, k]),
    -Sum(q[n, v] * (delta(v, k) - softmax(z[n, k] / T, over=k)) / T, v),
    -q[n, k] / T + softmax(z[n, k] / T, over=k) / T,
    (softmax(z[n, k] / T, over=k) - q[n, k]) / T,
    because=["d log p_v / dz_k = (delta_vk - p_k) / T", "delta contraction; q sums to 1", "exactly (p - q) / T"],
)

backward = distillation.gradient(loss)
dloss, dz = backward["dloss"], backward["dz"]
backward.claim("distillation-backward", dz[n, v], dloss * T * (p - q[n, v]) / N, name="with T^2: dz = T (p - q) / N")
backward.claim("distillation-backward-sum", Sum(dz[n, v], v), 0, over=[n], name="the gradient sums to 0")

# Cross entropy at a temperature: the same, with any target that sums to 1 in the place of q.
target = tensor("target", N, into=V)
tempered = Program("tempered_cross_entropy", "cross entropy at a temperature", [z, target, T])
row = tempered.define("row", [n], logsumexp(z[n, v] / T, over=v) - z[n, target[n]] / T)
tempered.claim(
    "tempered-gradient", tempered.derivative(row[n], z[n, k]), (softmax(z[n, k] / T, over=k) - delta(k, target[n])) / T,
    name="(p - y) / T",
)  # fmt: skip
tempered.claim(
    "tempered-temperature", tempered.derivative(row[n], T),
    (z[n, target[n]] - Sum(softmax(z[n, v] / T, over=v) * z[n, v], v)) / T**2,
    name="dT = (z_target - <p, z>) / T^2",
)  # fmt: skip

# KL between given distributions, for reference: it is 0 where they agree.
P, Q = tensor("P", V, positive=True), tensor("Q", V, positive=True)
divergence = Program("kullback_leibler", "Kullback-Leibler divergence of two distributions", [P, Q])
D = divergence.define("D", [], Sum(P[v] * (log(P[v]) - log(Q[v])), v))
divergence.kernel(D, wrt=[Q])
divergence.claim("kl-ratio", D, Sum(P[v] * log(P[v] / Q[v]), v), name="the expected log-ratio")

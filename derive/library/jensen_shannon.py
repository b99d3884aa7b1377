"""The Jensen-Shannon divergence with a weight b, from log-probabilities and from logits. Lin 1991.

    M = b P + (1 - b) Q,   JSD = b KL(P || M) + (1 - b) KL(Q || M)
    d JSD / d log Q_v = (1 - b) Q_v (log Q_v - log M_v) = G_v

G is the gradient of X = log Q, each entry a variable of its own. When Q = softmax(z) it is not yet the gradient of z:
it has to be projected, dz_v = G_v - Q_v Sum_k G_k.
"""

from sympy import exp, log

from derive.functions import log_softmax
from derive.language import Sum, dims, indices, leading_index, scalar, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v, k = indices("v k", V)
X, Y, z = tensor("X", N, V), tensor("Y", N, V), tensor("z", N, V)
b = scalar("b", positive=True)

# From log-probabilities, X of Q and Y of P.
P, Q = exp(Y[n, v]), exp(X[n, v])
M = b * P + (1 - b) * Q
jensen_shannon = Program("jensen_shannon", "Jensen-Shannon divergence from log-probabilities", [X, Y, b])
log_M = jensen_shannon.define("log_M", [n, v], log(M))
D = jensen_shannon.define("D", [n], Sum(b * P * (Y[n, v] - log_M[n, v]) + (1 - b) * Q * (X[n, v] - log_M[n, v]), v))
jensen_shannon.kernel(D, wrt=[X], defaults={b: 0.5})
jensen_shannon.steps(
    "jensen-shannon",
    D[n],
    b * Sum(P * (log(P) - log(M)), v) + (1 - b) * Sum(Q * (log(Q) - log(M)), v),
    b * Sum(P * log(P), v) + (1 - b) * Sum(Q * log(Q), v) - Sum(M * log(M), v),
    because=["KL of P and of Q to the mixture", "the entropy of the mixture less the mean of the two entropies"],
)
backward = jensen_shannon.gradient(D)
backward.claim(
    "jensen-shannon-backward", backward["dX"][n, v], backward["dD"][n] * (1 - b) * Q * (X[n, v] - log_M[n, v]),
    name="dX = (1 - b) Q (X - log M)",
)  # fmt: skip

# From logits z of Q: the same after a log softmax, whose backward pass is the projection.
from_logits = Program("jensen_shannon_logits", "Jensen-Shannon divergence from logits", [z, Y, b])
log_Q = from_logits.define("log_Q", [n, v], log_softmax(z[n, v], over=v))
R = exp(log_Q[n, v])
log_N = from_logits.define("log_M", [n, v], log(b * P + (1 - b) * R))
E = from_logits.define("D", [n], Sum(b * P * (Y[n, v] - log_N[n, v]) + (1 - b) * R * (log_Q[n, v] - log_N[n, v]), v))
from_logits.kernel(E, wrt=[z], defaults={b: 0.5})
projected = from_logits.gradient(E)
G, dz = projected["dlog_Q"], projected["dz"]
projected.claim(
    "jensen-shannon-logits", G[n, v], projected["dD"][n] * (1 - b) * R * (log_Q[n, v] - log_N[n, v]),
    name="G = (1 - b) Q (log Q - log M)",
)  # fmt: skip
projected.claim("jensen-shannon-projected", dz[n, v], G[n, v] - R * Sum(G[n, k], k), name="dz = G - Q Sum(G)")
projected.claim("jensen-shannon-projected-sum", Sum(dz[n, v], v), 0, over=[n], name="the gradient sums to 0")

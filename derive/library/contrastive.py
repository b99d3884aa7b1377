"""Contrastive losses. InfoNCE, van den Oord et al. 2018; in both directions as in CLIP, Radford et al. 2021.

    S_ij = <a_i, b_j> / tau,   L = mean_i (logsumexp_j S_ij - S_ii),   G = (softmax(S) - I) / N
    dA = G B / tau,   dB = G^T A / tau,   dtau = -Sum_ij G_ij S_ij / tau

When both sides come from one set of embeddings, b_j = z_partner(j), the gradient of z is dA plus dB carried back
through the look-up. Treating the looked-up side as a constant loses the second part. Candidates that are padding count
in no sum, so that they have no part in the gradient of the temperature either.
"""

from sympy import Eq, Or

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, index, indices, leading_index, scalar, tensor
from derive.matrices import matrices
from derive.program import Program

N, d = dims("N d")
i, j, k = indices("i j k", N)
c = index("c", d)
A, B, Z = tensor("A", N, d), tensor("B", N, d), tensor("Z", N, d)
partner = tensor("partner", N, into=N)
tau = scalar("tau", positive=True)

info_nce = Program("info_nce", "InfoNCE", [A, B, tau])
S = info_nce.define("S", [i, j], Sum(A[i, c] * B[j, c], c) / tau)
L = info_nce.define("L", [i], logsumexp(S[i, j], over=j))
loss = info_nce.define("loss", [], Sum(L[i] - S[i, i], i) / N)
info_nce.kernel(loss, wrt=[A, B, tau])

backward = info_nce.gradient(loss)
dS, dloss = backward["dS"], backward["dloss"]
backward.claim(
    "info-nce-scores", dS[i, j], dloss * (softmax(S[i, j], over=j) - delta(i, j)) / N, name="G = (P - I) / N"
)
mA, mB, mdS, mdA, mdB = matrices(A, B, dS, backward["dA"], backward["dB"])
backward.claim("info-nce-backward", mdA, mdS @ mB / tau, name="dA = G B / tau")
backward.claim("info-nce-backward", mdB, mdS.T @ mA / tau, name="dB = G^T A / tau")
backward.steps(
    "info-nce-temperature",
    backward["dtau"],
    -Sum(dS[i, j] * Sum(A[i, c] * B[j, c], c), i, j) / tau**2,
    -Sum(dS[i, j] * S[i, j], i, j) / tau,
    because=["d(1 / tau) = -1 / tau^2", "S = A B^T / tau"],
)
backward.claim("info-nce-rows", Sum(dS[i, j], j), 0, over=[i], name="each row of G sums to 0")

# Both sides from one set of embeddings: row j of the second side is row partner[j] of the first.
paired = Program("info_nce_paired", "InfoNCE within one set of embeddings", [Z, partner, tau])
paired_S = paired.define("S", [i, j], Sum(Z[i, c] * Z[partner[j], c], c) / tau)
paired_L = paired.define("L", [i], logsumexp(paired_S[i, j], over=j))
paired_loss = paired.define("loss", [], Sum(paired_L[i] - paired_S[i, i], i) / N)
paired.kernel(paired_loss, wrt=[Z, tau])
paired_backward = paired.gradient(paired_loss)
G = paired_backward["dS"]
paired_backward.claim(
    "info-nce-paired", paired_backward["dZ"][k, c],
    Sum(G[k, j] * Z[partner[j], c], j) / tau + Sum(delta(k, partner[j]) * Sum(G[i, j] * Z[i, c], i), j) / tau,
    name="dZ = dA + Pi^T dB",
)  # fmt: skip

# Both directions: rows choose among columns, columns among rows.
symmetric = Program("clip_loss", "contrastive loss in both directions", [A, B, tau])
both_S = symmetric.define("S", [i, j], Sum(A[i, c] * B[j, c], c) / tau)
R = symmetric.define("R", [i], logsumexp(both_S[i, j], over=j))
C = symmetric.define("C", [j], logsumexp(both_S[i, j], over=i))
rows = symmetric.define("rows", [], Sum(R[i] - both_S[i, i], i) / N)
columns = symmetric.define("columns", [], Sum(C[j] - both_S[j, j], j) / N)
both_loss = symmetric.define("loss", [], (rows + columns) / 2)
symmetric.kernel(both_loss, wrt=[A, B, tau])
symmetric_backward = symmetric.gradient(both_loss)
symmetric_backward.claim(
    "clip-scores", symmetric_backward["dS"][i, j],
    symmetric_backward["dloss"] / (2 * N)
    * (softmax(both_S[i, j], over=j) + softmax(both_S[i, j], over=i) - 2 * delta(i, j)),
    name="G = (P_rows + P_columns - 2 I) / 2N",
)  # fmt: skip

# One query at a time: scores of candidates, some of which are padding and count in no sum; the target always counts.
M = dims("M")[0]
q, m = leading_index("q", N), index("m", M)
s = tensor("s", N, M)
target, valid = tensor("target", N, into=M), tensor("valid", N, M, into=2)
counts = Or(valid[q, m] > 0, Eq(m, target[q]))
ranking = Program("ranking_loss", "contrastive loss over the valid candidates of each query", [s, target, valid, tau])
Z_valid = ranking.define("Z", [q], logsumexp(s[q, m] / tau, over=m, where=counts))
ranked = ranking.define("L", [q], Z_valid[q] - s[q, target[q]] / tau)
ranking.kernel(ranked, wrt=[s, tau])
weight = softmax(s[q, m] / tau, over=m, where=counts)
ranking.claim(
    "ranking-temperature", ranking.derivative(ranked[q], tau),
    (s[q, target[q]] - Sum(weight * s[q, m], m)) / tau**2, name="dtau = (s_target - <p, s>) / tau^2",
)  # fmt: skip
ranking_backward = ranking.gradient(ranked)
ranking_backward.claim(
    "ranking-backward", ranking_backward["ds"][q, m], ranking_backward["dL"][q] * (weight - delta(m, target[q])) / tau,
    name="ds = (p - y) / tau",
)  # fmt: skip

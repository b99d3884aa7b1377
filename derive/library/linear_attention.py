"""Linear attention: phi(q).phi(k) in place of exp(q.k), so that keys are summed up once. Katharopoulos et al. 2020.

    phi(x) = x + 1 for x > 0, else exp(x)                                  (ELU plus one, positive everywhere)
    S = Sum_j phi(k_j) v_j^T,   z = Sum_j phi(k_j),   o_i = phi(q_i)^T S / (phi(q_i).z)

The cost is linear in the number of keys; the quadratic form, in which weights w_ij = phi(q_i).phi(k_j) average the
values, is the same function. In the causal form the sums run over j <= i; as a recurrence each step adds one term.
"""

from sympy import Expr, exp

from derive.language import Sum, dims, index, indices, iverson, leading_index, tensor, where
from derive.program import Program

N, T_q, T_k, d_k, d_v = dims("N T_q T_k d_k d_v")
n = leading_index("n", N)
i = index("i", T_q)
j, l = indices("j l", T_k)
a = index("a", d_k)
c = index("c", d_v)
Q, K, V = tensor("Q", N, T_q, d_k), tensor("K", N, T_k, d_k), tensor("V", N, T_k, d_v)


def feature(x: Expr) -> Expr:
    """ELU plus one."""
    return where(x > 0, x + 1, exp(x))


linear_attention = Program("linear_attention", "linear attention", [Q, K, V])
phi_q = linear_attention.define("phi_q", [n, i, a], feature(Q[n, i, a]))
phi_k = linear_attention.define("phi_k", [n, j, a], feature(K[n, j, a]))
S = linear_attention.define("S", [n, a, c], Sum(phi_k[n, j, a] * V[n, j, c], j))
z = linear_attention.define("z", [n, a], Sum(phi_k[n, j, a], j))
norm = linear_attention.define("norm", [n, i], Sum(phi_q[n, i, a] * z[n, a], a))
O = linear_attention.define("O", [n, i, c], Sum(phi_q[n, i, a] * S[n, a, c], a) / norm[n, i])
linear_attention.kernel(O, wrt=[Q, K, V])
weight = Sum(phi_q[n, i, a] * phi_k[n, j, a], a)
linear_attention.steps(
    "linear-attention",
    O[n, i, c],
    Sum(phi_q[n, i, a] * Sum(phi_k[n, j, a] * V[n, j, c], j), a) / Sum(phi_q[n, i, a] * Sum(phi_k[n, j, a], j), a),
    Sum(weight * V[n, j, c], j) / Sum(weight, j),
    because=["S and z written in", "the sums over keys and components change places"],
)
linear_attention.claim("linear-attention-average", Sum(weight / norm[n, i], j), 1, name="the weights sum to 1")

backward = linear_attention.gradient(O)
dO = backward["dO"]
backward.claim(
    "linear-attention-dS", backward["dS"][n, a, c], Sum(phi_q[n, i, a] * dO[n, i, c] / norm[n, i], i),
    name="dS = phi(Q)^T (dO / norm)",
)  # fmt: skip
backward.claim(
    "linear-attention-dV",
    backward["dV"][n, j, c],
    Sum(phi_k[n, j, a] * backward["dS"][n, a, c], a),
    name="dV = phi(K) dS",
)
backward.claim(
    "linear-attention-dnorm", backward["dnorm"][n, i], -Sum(dO[n, i, c] * O[n, i, c], c) / norm[n, i],
    name="dnorm = -row_sum(dO * O) / norm",
)  # fmt: skip

# Causal: R[s] is the sum over the first s keys; as a recurrence, which generation runs, R[t + 1] = R[t] + phi(k) v^T.
T = dims("T")[0]
s = index("s", T + 1)
t, m = indices("t m", T)
f, g, u = tensor("f", T, d_k), tensor("g", T, d_k), tensor("u", T, d_v)
causal = Program("linear_attention_causal", "causal linear attention, its numerator", [f, g, u])
R = causal.define("R", [s, a, c], Sum(iverson(t < s) * g[t, a] * u[t, c], t))
causal.claim("linear-attention-start", R[0, a, c], 0, name="the state begins at 0")
causal.claim("linear-attention-step", R[t + 1, a, c], R[t, a, c] + g[t, a] * u[t, c], name="each step adds one term")
causal.claim(
    "linear-attention-causal", Sum(f[t, a] * R[t + 1, a, c], a),
    Sum(iverson(m <= t) * Sum(f[t, a] * g[m, a], a) * u[m, c], m), name="which is the masked quadratic form",
)  # fmt: skip
causal.claim("linear-attention-total", R[T, a, c], Sum(g[t, a] * u[t, c], t), name="and ends at the sum over all keys")

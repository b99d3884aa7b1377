"""Scaled dot-product attention and its backward pass: the document's second derivation, claims E1 to E9, A3 and B10.

    S = Q K^T / sqrt(d_k),   A = softmax of each row of S,   O = A V

The sizes T_q, T_k, d_k, d_v are different letters, so a transposed factor is a size error or a refuted claim.
"""

from sympy import exp, sqrt

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, flag, implies, index, indices, leading_index, tensor
from derive.matrices import Matrix, matrices, matrix, row_softmax, row_sum
from derive.program import Program

# ---------------------------------------------------------------------------------------------------------------------
# The document's statement: one sequence, no mask, a name for each step.

T_q, T_k, d_k, d_v = dims("T_q T_k d_k d_v")
i = index("i", T_q)
j, l = indices("j l", T_k)
a = index("a", d_k)
c = index("c", d_v)
Q, K, V = tensor("Q", T_q, d_k), tensor("K", T_k, d_k), tensor("V", T_k, d_v)

stepwise = Program("attention_stepwise", "scaled dot-product attention, step by step", [Q, K, V])
S = stepwise.define("S", [i, j], Sum(Q[i, a] * K[j, a], a) / sqrt(d_k))
A = stepwise.define("A", [i, j], softmax(S[i, j], over=j))
O = stepwise.define("O", [i, c], Sum(A[i, j] * V[j, c], j))

kernel_value = exp(Sum(Q[i, a] * K[j, a], a) / sqrt(d_k))
stepwise.claim(
    "A3", O[i, c], Sum(kernel_value * V[j, c], j) / Sum(kernel_value, j), name="attention is a kernel smoother"
)
stepwise.claim("B10", Sum(A[i, j], j), 1, name="attention weights sum to 1")
stepwise.claim(
    "E1", matrix(O), row_softmax(matrix(Q) @ matrix(K).T / sqrt(d_k)) @ matrix(V), name="O = softmax(QK^T/sqrt d) V"
)
stepwise.claim("attention-lse", A[i, j], exp(S[i, j] - logsumexp(S[i, j], over=j)), name="A = exp(S - logsumexp S)")

backward = stepwise.gradient(O)
dO, dA, dS = backward["dO"], backward["dA"], backward["dS"]
dQ, dK, dV = backward["dQ"], backward["dK"], backward["dV"]
mQ, mK, mV, mA, mO, mdO, mdA, mdS, mdQ, mdK, mdV = matrices(Q, K, V, A, O, dO, dA, dS, dQ, dK, dV)

backward.claim("E2", dV[j, c], Sum(dO[i, c] * A[i, j], i), name="dV by entries")
backward.claim("E2", mdV, mA.T @ mdO, name="dV = A^T dO")
backward.claim("E2", (mA.T @ mdO)[j, c], Sum(dO[i, c] * A[i, j], i), name="the two forms of dV are one")
backward.claim("E3", dA[i, j], Sum(dO[i, c] * V[j, c], c), name="dA by entries")
backward.claim("E3", mdA, mdO @ mV.T, name="dA = dO V^T")
backward.claim("E3", (mdO @ mV.T)[i, j], Sum(dO[i, c] * V[j, c], c), name="the two forms of dA are one")
backward.claim("E6", mdS, mA * (mdA - row_sum(mdA * mA)), name="dS = A * (dA - row_sum(dA * A))")
backward.claim("E7", mdQ, mdS @ mK / sqrt(d_k), name="dQ = dS K / sqrt(d_k)")
backward.claim("E7", mdK, mdS.T @ mQ / sqrt(d_k), name="dK = dS^T Q / sqrt(d_k)")
backward.claim(
    "row-sum", Sum(dA[i, j] * A[i, j], j), Sum(dO[i, c] * O[i, c], c), name="row_sum(dA * A) = row_sum(dO * O)"
)

backward.steps(
    "attention-chain", dS[i, j],
    Sum(dA[i, l] * A[i, l] * (delta(l, j) - A[i, j]), l),
    A[i, j] * dA[i, j] - A[i, j] * Sum(dA[i, l] * A[i, l], l),
    A[i, j] * (dA[i, j] - Sum(dO[i, c] * O[i, c], c)),
    because=["the chain rule through the Jacobian a_l (delta_lj - a_j)", "the delta contracts",
             "row_sum(dA * A) is row_sum(dO * O)"],
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# End to end: the output is one definition with nothing named in between, and its gradient is compared with the
# document's five formulas composed. What the chain rule finds and what the document says are thus derived apart.


def document_gradient(
    q: Matrix, k: Matrix, v: Matrix, upstream: Matrix, scale: object
) -> tuple[Matrix, Matrix, Matrix]:
    """(dQ, dK, dV) by the document's five formulas."""
    weights = row_softmax(q @ k.T * scale)
    weights_gradient = upstream @ v.T
    scores_gradient = weights * (weights_gradient - row_sum(weights_gradient * weights))
    return scores_gradient @ k * scale, scores_gradient.T @ q * scale, weights.T @ upstream


whole = Program("attention_whole", "scaled dot-product attention, one definition", [Q, K, V])
whole_O = whole.define("O", [i, c], Sum(softmax(Sum(Q[i, a] * K[j, a], a) / sqrt(d_k), over=j) * V[j, c], j))
whole_backward = whole.gradient(whole_O)
expected = document_gradient(mQ, mK, mV, matrix(whole_backward["dO"]), 1 / sqrt(d_k))
for name, formula in zip(("dQ", "dK", "dV"), expected, strict=True):
    whole_backward.claim("E8", matrix(whole_backward[name]), formula, name=f"{name} from O alone")

T, d_x = dims("T d_x")
s = index("s", T)
t = index("t", T)
m, n = indices("m n", d_x)
X = tensor("X", T, d_x)
W_Q, W_K, W_V = tensor("W_Q", d_x, d_k), tensor("W_K", d_x, d_k), tensor("W_V", d_x, d_v)
mX, mW_Q, mW_K, mW_V = matrices(X, W_Q, W_K, W_V)
projected_q, projected_k, projected_v = mX @ mW_Q, mX @ mW_K, mX @ mW_V

projected = Program(
    "attention_projected", "self-attention from X and its projections, one definition", [X, W_Q, W_K, W_V]
)
scores = (projected_q @ projected_k.T / sqrt(d_k))[s, t]
projected_O = projected.define("O", [s, c], Sum(softmax(scores, over=t) * projected_v[t, c], t))
projected_backward = projected.gradient(projected_O)
upstream = matrix(projected_backward["dO"])
gQ, gK, gV = document_gradient(projected_q, projected_k, projected_v, upstream, 1 / sqrt(d_k))
projected_backward.claim("E9", matrix(projected_backward["dW_Q"]), mX.T @ gQ, name="dW_Q = X^T dQ")
projected_backward.claim("E9", matrix(projected_backward["dW_K"]), mX.T @ gK, name="dW_K = X^T dK")
projected_backward.claim("E9", matrix(projected_backward["dW_V"]), mX.T @ gV, name="dW_V = X^T dV")
projected_backward.claim(
    "E9", matrix(projected_backward["dX"]), gQ @ mW_Q.T + gK @ mW_K.T + gV @ mW_V.T,
    name="dX = dQ W_Q^T + dK W_K^T + dV W_V^T",
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# The kernel: any leading dimensions, and a causal mask that the caller switches on. A masked sum is a sum over the
# index set that is left; query i sees the keys j <= i.

N = dims("N")[0]
b = leading_index("b", N)
causal = flag("causal")
bQ, bK, bV = tensor("Q", N, T_q, d_k), tensor("K", N, T_k, d_k), tensor("V", N, T_k, d_v)

attention = Program("attention", "scaled dot-product attention with an optional causal mask", [bQ, bK, bV, causal])
bS = attention.define("S", [b, i, j], Sum(bQ[b, i, a] * bK[b, j, a], a) / sqrt(d_k))
bA = attention.define("A", [b, i, j], softmax(bS[b, i, j], over=j, where=implies(causal, j <= i)))
bO = attention.define("O", [b, i, c], Sum(bA[b, i, j] * bV[b, j, c], j))
attention.kernel(bO, wrt=[bQ, bK, bV], defaults={causal: False})

batch_backward = attention.gradient(bO)
gA = batch_backward["dA"]
batch_backward.claim(
    "attention-dS", batch_backward["dS"][b, i, j], bA[b, i, j] * (gA[b, i, j] - Sum(gA[b, i, l] * bA[b, i, l], l)),
    name="dS = A * (dA - row_sum(dA * A)) under any mask",
)  # fmt: skip

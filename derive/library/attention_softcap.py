"""Attention with soft-capped scores: |S| stays below a cap, smoothly. Gemma 2, Riviere et al. 2024.

    U = Q K^T / sqrt(d_k),   S = cap tanh(U / cap),   A = softmax of each row of S,   O = A V
    dU = dS (1 - (S / cap)^2)

The mask comes after the cap, as a selection: capped scores are never compared with a large negative number.
"""

from sympy import sqrt, tanh

from derive.functions import softmax
from derive.language import Sum, dims, flag, implies, index, indices, leading_index, scalar, tensor
from derive.program import Program

N, T_q, T_k, d_k, d_v = dims("N T_q T_k d_k d_v")
n = leading_index("n", N)
i = index("i", T_q)
j, l = indices("j l", T_k)
a = index("a", d_k)
c = index("c", d_v)
Q, K, V = tensor("Q", N, T_q, d_k), tensor("K", N, T_k, d_k), tensor("V", N, T_k, d_v)
cap, causal = scalar("cap", positive=True), flag("causal")

attention_softcap = Program("attention_softcap", "attention with soft-capped scores", [Q, K, V, cap, causal])
U = attention_softcap.define("U", [n, i, j], Sum(Q[n, i, a] * K[n, j, a], a) / sqrt(d_k))
t = attention_softcap.define("t", [n, i, j], tanh(U[n, i, j] / cap))
S = attention_softcap.define("S", [n, i, j], cap * t[n, i, j])
A = attention_softcap.define("A", [n, i, j], softmax(S[n, i, j], over=j, where=implies(causal, j <= i)))
O = attention_softcap.define("O", [n, i, c], Sum(A[n, i, j] * V[n, j, c], j))
attention_softcap.kernel(O, wrt=[Q, K, V], defaults={cap: 50.0, causal: False})

backward = attention_softcap.gradient(O)
dU, dS, dA = backward["dU"], backward["dS"], backward["dA"]
backward.claim(
    "softcap-dS", dS[n, i, j], A[n, i, j] * (dA[n, i, j] - Sum(dA[n, i, l] * A[n, i, l], l)),
    name="up to the capped scores nothing changes",
)  # fmt: skip
backward.claim(
    "softcap-dQ", backward["dQ"][n, i, a], Sum(dU[n, i, j] * K[n, j, a], j) / sqrt(d_k), name="dQ = dU K / sqrt(d_k)"
)
backward.steps(
    "softcap",
    dU[n, i, j],
    dS[n, i, j] * cap * (1 - tanh(U[n, i, j] / cap) ** 2) / cap,
    dS[n, i, j] * (1 - (S[n, i, j] / cap) ** 2),
    dS[n, i, j] * (cap - S[n, i, j]) * (cap + S[n, i, j]) / cap**2,
    because=["tanh' = 1 - tanh^2, and U / cap inside", "t = tanh(U / cap) = S / cap", "at |S| = cap nothing passes"],
)

"""Grouped-query attention: R query heads share the keys and values of a group. Ainslie et al. 2023; Shazeer 2019.

    S[g, r, i, j] = Q[g, r, i].K[g, j] / sqrt(d_k),   O[g, r] = softmax(S[g, r]) V[g]

Query head g R + r reads key head g. With one group (G = 1) it is multi-query attention, with R = 1 multi-head
attention. What is shared receives the sum of the gradients of its copies.
"""

from sympy import sqrt

from derive.functions import softmax
from derive.language import Sum, dims, flag, implies, index, indices, leading_index, tensor
from derive.program import Program

N, G, R, T_q, T_k, d_k, d_v = dims("N G R T_q T_k d_k d_v")
n = leading_index("n", N)
g = index("g", G)
r = index("r", R)
i = index("i", T_q)
j, l = indices("j l", T_k)
a = index("a", d_k)
c = index("c", d_v)
Q = tensor("Q", N, G, R, T_q, d_k)
K, V = tensor("K", N, G, T_k, d_k), tensor("V", N, G, T_k, d_v)
causal = flag("causal")

attention_grouped = Program("attention_grouped", "grouped-query attention", [Q, K, V, causal])
S = attention_grouped.define("S", [n, g, r, i, j], Sum(Q[n, g, r, i, a] * K[n, g, j, a], a) / sqrt(d_k))
A = attention_grouped.define("A", [n, g, r, i, j], softmax(S[n, g, r, i, j], over=j, where=implies(causal, j <= i)))
O = attention_grouped.define("O", [n, g, r, i, c], Sum(A[n, g, r, i, j] * V[n, g, j, c], j))
attention_grouped.kernel(O, wrt=[Q, K, V], defaults={causal: False})


backward = attention_grouped.gradient(O)
dO, dA, dS = backward["dO"], backward["dA"], backward["dS"]
backward.claim(
    "grouped-dS", dS[n, g, r, i, j],
    A[n, g, r, i, j] * (dA[n, g, r, i, j] - Sum(dO[n, g, r, i, c] * O[n, g, r, i, c], c)),
    name="each query head has a softmax of its own",
)  # fmt: skip
backward.claim(
    "grouped-dQ", backward["dQ"][n, g, r, i, a], Sum(dS[n, g, r, i, j] * K[n, g, j, a], j) / sqrt(d_k),
    name="dQ = dS K / sqrt(d_k), with the key head of the group",
)  # fmt: skip
backward.claim(
    "grouped-dV", backward["dV"][n, g, j, c], Sum(A[n, g, r, i, j] * dO[n, g, r, i, c], r, i),
    name="dV sums over the query heads of the group",
)  # fmt: skip
of_copy = Sum(dS[n, g, r, i, j] * Q[n, g, r, i, a], i) / sqrt(d_k)
backward.steps(
    "grouped",
    backward["dK"][n, g, j, a],
    Sum(of_copy, r),
    Sum(A[n, g, r, i, j] * (dA[n, g, r, i, j] - Sum(dA[n, g, r, i, l] * A[n, g, r, i, l], l)) * Q[n, g, r, i, a], r, i)
    / sqrt(d_k),
    because=["each query head would send dS^T Q / sqrt(d_k) to a copy of its own; the copies are one", "dS written in"],
)

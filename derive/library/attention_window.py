"""Causal attention over a sliding window: query i sees the keys i - window < j <= i. Beltagy, Peters and Cohan 2020.

    A[i, j] = exp(S[i, j]) / Sum over i - window < k <= i of exp(S[i, k])

With window >= 1 every query sees itself, so no row is empty; with a smaller one rows are empty, and the kernel gives 0
for them. The backward pass is that of attention under any mask.
"""

from sympy import And, exp, sqrt
from sympy.logic.boolalg import Boolean

from derive.functions import softmax
from derive.language import Index, Sum, dims, index, indices, iverson, leading_index, scalar, tensor
from derive.program import Program

N, T, d_k, d_v = dims("N T d_k d_v")
n = leading_index("n", N)
i, j, l = indices("i j l", T)
a = index("a", d_k)
c = index("c", d_v)
Q, K, V = tensor("Q", N, T, d_k), tensor("K", N, T, d_k), tensor("V", N, T, d_v)
window = scalar("window", positive=True, integer=True)


def seen(key: Index) -> Boolean:
    """Whether query i sees a key."""
    return And(key <= i, i - key < window)


attention_window = Program("attention_window", "causal attention over a sliding window", [Q, K, V, window])
S = attention_window.define("S", [n, i, j], Sum(Q[n, i, a] * K[n, j, a], a) / sqrt(d_k))
A = attention_window.define("A", [n, i, j], softmax(S[n, i, j], over=j, where=seen(j)))
O = attention_window.define("O", [n, i, c], Sum(A[n, i, j] * V[n, j, c], j))
attention_window.kernel(O, wrt=[Q, K, V])
attention_window.claim("window-future", A[n, i, j], 0, given=[j > i], name="later keys have weight 0")
attention_window.claim(
    "window-past", A[n, i, j], 0, given=[i - j >= window], name="keys before the window have weight 0"
)
attention_window.claim("window-sum", Sum(A[n, i, j], j), 1, name="the weights in the window sum to 1")
attention_window.steps(
    "window-forward",
    O[n, i, c],
    Sum(iverson(seen(j)) * exp(S[n, i, j]) * V[n, j, c], j) / Sum(iverson(seen(j)) * exp(S[n, i, j]), j),
    Sum(iverson(seen(j)) * exp(S[n, i, j] - S[n, i, i]) * V[n, j, c], j)
    / Sum(iverson(seen(j)) * exp(S[n, i, j] - S[n, i, i]), j),
    because=["softmax by its definition over the window", "any number may be taken off a row of scores"],
)

backward = attention_window.gradient(O)
dO, dA, dS = backward["dO"], backward["dA"], backward["dS"]
backward.steps(
    "window",
    dS[n, i, j],
    A[n, i, j] * (dA[n, i, j] - Sum(dA[n, i, l] * A[n, i, l], l)),
    A[n, i, j] * (Sum(dO[n, i, c] * V[n, j, c], c) - Sum(dO[n, i, c] * O[n, i, c], c)),
    because=["the backward pass of softmax, over the window", "dA = dO V^T, and row_sum(dA * A) = row_sum(dO * O)"],
)
backward.claim(
    "window-dV", backward["dV"][n, j, c], Sum(iverson(seen(j)) * A[n, i, j] * dO[n, i, c], i),
    name="a value receives gradients from the queries that see it",
)  # fmt: skip

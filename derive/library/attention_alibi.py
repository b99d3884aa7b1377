"""Causal attention with linear biases: a key loses slope times its distance. Press, Smith and Lewis 2022 (ALiBi).

    S[h, i, j] = Q[h, i].K[h, j] / sqrt(d_k) - slope[h] (i - j),   A = softmax over j <= i,   O = A V

The paper's slopes are slope[h] = 2^(-8 (h + 1) / H) for h = 0 .. H - 1; here they are an input, with a gradient of
their own. Because softmax does not see what is common to a row, slope j serves as well as -slope (i - j).
"""

from sympy import Eq, sqrt

from derive.functions import softmax
from derive.language import Sum, dims, index, indices, leading_index, tensor
from derive.program import Program

N, H, T, d_k, d_v = dims("N H T d_k d_v")
n = leading_index("n", N)
h = index("h", H)
i, j, l = indices("i j l", T)
a = index("a", d_k)
c = index("c", d_v)
Q, K, V = tensor("Q", N, H, T, d_k), tensor("K", N, H, T, d_k), tensor("V", N, H, T, d_v)
slope = tensor("slope", H)

attention_alibi = Program("attention_alibi", "causal attention with linear biases", [Q, K, V, slope])
S = attention_alibi.define(
    "S", [n, h, i, j], Sum(Q[n, h, i, a] * K[n, h, j, a], a) / sqrt(d_k) - slope[h] * (i - j)
)  # fmt: skip
A = attention_alibi.define("A", [n, h, i, j], softmax(S[n, h, i, j], over=j, where=j <= i))
O = attention_alibi.define("O", [n, h, i, c], Sum(A[n, h, i, j] * V[n, h, j, c], j))
attention_alibi.kernel(O, wrt=[Q, K, V, slope])
attention_alibi.claim(
    "alibi-shift", A[n, h, i, j],
    softmax(Sum(Q[n, h, i, a] * K[n, h, j, a], a) / sqrt(d_k) + slope[h] * j, over=j, where=j <= i),
    name="a bias of slope j gives the same weights",
)  # fmt: skip

backward = attention_alibi.gradient(O)
dA, dS, dO = backward["dA"], backward["dS"], backward["dO"]
backward.claim(
    "alibi-dS-sum", Sum(dS[n, h, i, j], j), 0, over=[n, h, i], name="the gradient of a row of scores sums to 0"
)
backward.claim(
    "alibi-dQ", backward["dQ"][n, h, i, a], Sum(dS[n, h, i, j] * K[n, h, j, a], j) / sqrt(d_k),
    name="the bias does not change dQ = dS K / sqrt(d_k)",
)  # fmt: skip
by_position = Sum(dS[n, h, i, j] * j, n, i, j)
backward.steps(
    "alibi-slope",
    backward["dslope"][h],
    -Sum(dS[n, h, i, j] * (i - j), n, i, j),
    by_position - Sum(i * Sum(dS[n, h, i, j], j), n, i),
    because=["the bias is -slope (i - j) in every score", "the sum splits; i leaves the sum over j"],
)
backward.claim(
    "alibi-slope.3", by_position - Sum(i * Sum(dS[n, h, i, j], j), n, i), by_position,
    given=[Eq(Sum(dS[n, h, i, j], j), 0)], name="a row of dS sums to 0, as proved above, so i drops out",
)  # fmt: skip
backward.claim(
    "alibi-dS", dS[n, h, i, j], A[n, h, i, j] * (dA[n, h, i, j] - Sum(dA[n, h, i, l] * A[n, h, i, l], l)),
    name="dS = A * (dA - row_sum(dA * A)) under the causal mask",
)  # fmt: skip

"""Attention with what PyTorch's function takes besides: a scale and a mask for each query, or a bias on the scores.

    S = scale Q K^T,   A = softmax of each row over the allowed keys,   O = A V,   dQ = scale dS K
    S = Q K^T / sqrt(d_k) + bias,   A = softmax of each row,   O = A V,   dbias = dS

A mask selects keys; a bias (a relative position, ALiBi) is a number for each pair and has a gradient. A bias of -inf
takes a key out as a mask does, but a row in which all are -inf has no value, whereas a row without an allowed key is 0.
"""

from sympy import sqrt

from derive.functions import softmax
from derive.language import Sum, dims, flag, implies, index, indices, leading_index, scalar, tensor
from derive.program import Program

N, T_q, T_k, d_k, d_v = dims("N T_q T_k d_k d_v")
b = leading_index("b", N)
i = index("i", T_q)
j, l = indices("j l", T_k)
a = index("a", d_k)
c = index("c", d_v)
Q, K, V = tensor("Q", N, T_q, d_k), tensor("K", N, T_k, d_k), tensor("V", N, T_k, d_v)
mask, bias = tensor("mask", N, T_q, T_k, into=2), tensor("bias", N, T_q, T_k)
scale, causal = scalar("scale"), flag("causal")
dot = Sum(Q[b, i, a] * K[b, j, a], a)

attention_scaled = Program("attention_scaled", "attention with a scale and a mask", [Q, K, V, mask, scale, causal])
S = attention_scaled.define("S", [b, i, j], scale * dot)
allowed = (mask[b, i, j] > 0) & implies(causal, j <= i)
A = attention_scaled.define("A", [b, i, j], softmax(S[b, i, j], over=j, where=allowed))
O = attention_scaled.define("O", [b, i, c], Sum(A[b, i, j] * V[b, j, c], j))
attention_scaled.kernel(O, wrt=[Q, K, V], defaults={causal: False})
backward = attention_scaled.gradient(O)
backward.claim(
    "scaled-dQ", backward["dQ"][b, i, a], scale * Sum(backward["dS"][b, i, j] * K[b, j, a], j), name="dQ = scale dS K"
)
backward.claim("scaled-masked", backward["dS"][b, i, j], 0, given=[mask[b, i, j] <= 0], name="no gradient where masked")

attention_biased = Program("attention_biased", "attention with a bias on the scores", [Q, K, V, bias])
biased_S = attention_biased.define("S", [b, i, j], dot / sqrt(d_k) + bias[b, i, j])
biased_A = attention_biased.define("A", [b, i, j], softmax(biased_S[b, i, j], over=j))
biased_O = attention_biased.define("O", [b, i, c], Sum(biased_A[b, i, j] * V[b, j, c], j))
attention_biased.kernel(biased_O, wrt=[Q, K, V, bias])
biased_backward = attention_biased.gradient(biased_O)
dO, dA = biased_backward["dO"], biased_backward["dA"]
biased_backward.claim(
    "biased-dbias", biased_backward["dbias"][b, i, j],
    biased_A[b, i, j] * (dA[b, i, j] - Sum(dA[b, i, l] * biased_A[b, i, l], l)),
    name="the bias receives what the scores receive",
)  # fmt: skip
biased_backward.claim("biased-rows", Sum(biased_backward["dbias"][b, i, j], j), 0, name="each row of it sums to 0")

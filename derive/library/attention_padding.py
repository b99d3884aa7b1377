"""Attention over a part of the keys: a mask says which keys are there, and a row may be left with none.

    A[i, j] = exp(S[i, j]) / Sum over allowed k of exp(S[i, k])   for allowed j, else 0

`keep[b, j]` is 1 where key j of batch entry b is a token and 0 where it is padding (for lengths: keep = positions <
length). The mask selects; nothing is added to the scores and nothing is multiplied by zero.

Where no key is allowed the quotient is 0/0, and a convention must be chosen. The kernel's is *zero*: such a row of A
and O is 0 and contributes nothing to any gradient. The last program states that convention as a function of its own,
total and without 0/0: [no key] is added to the denominator. The uniform average, which a large negative number in
place of the mask amounts to, is another function.
"""

from sympy import Eq, exp, sqrt

from derive.functions import softmax
from derive.language import Sum, dims, index, indices, iverson, leading_index, tensor
from derive.program import Program

B, H, T_q, T_k, d_k, d_v = dims("B H T_q T_k d_k d_v")
b = leading_index("b", B)
h = index("h", H)
i = index("i", T_q)
j, l = indices("j l", T_k)
a = index("a", d_k)
c = index("c", d_v)
Q, K, V = tensor("Q", B, H, T_q, d_k), tensor("K", B, H, T_k, d_k), tensor("V", B, H, T_k, d_v)
keep = tensor("keep", B, T_k, into=2)

attention_padding = Program("attention_padding", "attention over the keys that a mask keeps", [Q, K, V, keep])
S = attention_padding.define("S", [b, h, i, j], Sum(Q[b, h, i, a] * K[b, h, j, a], a) / sqrt(d_k))
A = attention_padding.define("A", [b, h, i, j], softmax(S[b, h, i, j], over=j, where=keep[b, j] > 0))
O = attention_padding.define("O", [b, h, i, c], Sum(A[b, h, i, j] * V[b, h, j, c], j))
attention_padding.kernel(O, wrt=[Q, K, V])
attention_padding.claim("padding-out", A[b, h, i, j], 0, given=[keep[b, j] <= 0], name="padding has weight 0")
attention_padding.claim("padding-sum", Sum(A[b, h, i, j], j), 1, name="rows with a key sum to 1")

backward = attention_padding.gradient(O)
dO, dA, dS = backward["dO"], backward["dA"], backward["dS"]
backward.claim("padding-dK", backward["dK"][b, h, j, a], 0, given=[keep[b, j] <= 0], name="padding receives nothing")
backward.steps(
    "padding",
    dS[b, h, i, j],
    A[b, h, i, j] * (dA[b, h, i, j] - Sum(dA[b, h, i, l] * A[b, h, i, l], l)),
    A[b, h, i, j] * (Sum(dO[b, h, i, c] * V[b, h, j, c], c) - Sum(dO[b, h, i, c] * O[b, h, i, c], c)),
    because=[
        "the backward pass of softmax, over the allowed keys",
        "dA = dO V^T, and row_sum(dA * A) = row_sum(dO * O)",
    ],
)

# A mask of its own for each query.
mask = tensor("mask", B, T_q, T_k, into=2)
attention_masked = Program("attention_masked", "attention with a mask for each query", [Q, K, V, mask])
masked_S = attention_masked.define("S", [b, h, i, j], Sum(Q[b, h, i, a] * K[b, h, j, a], a) / sqrt(d_k))
masked_A = attention_masked.define("A", [b, h, i, j], softmax(masked_S[b, h, i, j], over=j, where=mask[b, i, j] > 0))
masked_O = attention_masked.define("O", [b, h, i, c], Sum(masked_A[b, h, i, j] * V[b, h, j, c], j))
attention_masked.kernel(masked_O, wrt=[Q, K, V])
masked_backward = attention_masked.gradient(masked_O)
masked_backward.claim(
    "masked-dS", masked_backward["dS"][b, h, i, j], 0, given=[mask[b, i, j] <= 0], name="a masked score has no gradient"
)

# The zero convention, for one row of scores and any condition on its keys.
s, v, allowed = tensor("s", T_k), tensor("v", T_k, d_v), tensor("allowed", T_k, into=2)
none = Sum(iverson(allowed[l] > 0), l) <= 0
zero = Program("attention_zero_policy", "softmax over the allowed keys, 0 where there are none", [s, v, allowed])
p = zero.define(
    "p", [j], iverson(allowed[j] > 0) * exp(s[j]) / (Sum(iverson(allowed[l] > 0) * exp(s[l]), l) + iverson(none))
)
o = zero.define("o", [c], Sum(p[j] * v[j, c], j))
zero.claim(
    "zero-policy", p[j], softmax(s[j], over=j, where=allowed[j] > 0), given=[~none], name="with a key it is softmax"
)
empty = [Eq(allowed[j], 0)]  # for every j
zero.claim("zero-policy-sum", Sum(p[j], j), 1, given=[~none], name="and the weights sum to 1")
zero.claim("zero-policy-output", o[c], 0, given=empty, name="without a key the output is 0")
zero_backward = zero.gradient(o)
do = zero_backward["do"]
zero_backward.claim("zero-policy-ds", zero_backward["ds"][j], 0, given=empty, name="so is the gradient of the scores")
zero_backward.claim("zero-policy-dv", zero_backward["dv"][j, c], 0, given=empty, name="and that of the values")
zero_backward.claim(
    "zero-policy-softmax", zero_backward["ds"][j], p[j] * (Sum(do[c] * v[j, c], c) - Sum(do[c] * o[c], c)),
    name="one formula for rows with and without keys",
)  # fmt: skip

"""Sampling: softmax at a temperature, cut to the likeliest tokens. Top-k: Fan et al. 2018; top-p: Holtzman et al. 2020.

    p = softmax(z / temperature),   q = p over the tokens kept, divided by their sum

A token is kept when fewer than `most` tokens are likelier than it, and the tokens likelier than it weigh less than
`mass` together: the smallest set of likeliest tokens that weighs `mass` or more. Tokens of equal probability are kept
or cut together. The likeliest token is always kept, so that the set is never empty.
"""

from sympy import And

from derive.functions import softmax
from derive.language import Sum, dims, indices, iverson, leading_index, scalar, tensor, where
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v, u = indices("v u", V)
z = tensor("z", N, V)
temperature = scalar("temperature", positive=True)
most, mass = scalar("most", positive=True), scalar("mass", positive=True)

truncated_softmax = Program(
    "truncated_softmax", "softmax at a temperature over the most likely tokens", [z, temperature, most, mass]
)
p = truncated_softmax.define("p", [n, v], softmax(z[n, v] / temperature, over=v))
likelier = truncated_softmax.define("likelier", [n, v], Sum(iverson(p[n, u] > p[n, v]), u))
weight = truncated_softmax.define("weight", [n, v], Sum(iverson(p[n, u] > p[n, v]) * p[n, u], u))
kept = And(likelier[n, v] < most, weight[n, v] < mass)
q = truncated_softmax.define("q", [n, v], softmax(z[n, v] / temperature, over=v, where=kept))
truncated_softmax.kernel(q)

truncated_softmax.claim("truncated-sum", Sum(q[n, v], v), 1, name="what is left sums to 1")
truncated_softmax.claim(
    "truncated-share", q[n, v], where(kept, p[n, v], 0) / Sum(where(kept, p[n, v], 0), v),
    name="what is kept keeps its proportions",
)  # fmt: skip

"""Embedding: a look-up is a delta contraction, so a token that occurs twice receives both gradients."""

from derive.language import Sum, delta, dims, index, indices, leading_index, tensor
from derive.program import Program

N, T, V, C = dims("N T V C")
n = leading_index("n", N)
t = index("t", T)
v, w = indices("v w", V)
c = index("c", C)
E = tensor("E", V, C)

token = tensor("token", N, into=V)
embedding = Program("embedding", "embedding look-up", [token, E])
x = embedding.define("x", [n, c], E[token[n], c])
embedding.kernel(x, wrt=[E])
embedding.claim("embedding", x[n, c], Sum(delta(v, token[n]) * E[v, c], v), name="a look-up is a one-hot product")

backward = embedding.gradient(x)
backward.claim(
    "embedding-backward", backward["dE"][w, c], Sum(delta(w, token[n]) * backward["dx"][n, c], n),
    name="dE sums over all occurrences",
)  # fmt: skip

# With learned positions: one table for tokens, one for places.
tokens = tensor("token", N, T, into=V)
P = tensor("P", T, C)
positioned = Program("token_embedding", "token and position embedding", [tokens, E, P])
h = positioned.define("x", [n, t, c], E[tokens[n, t], c] + P[t, c])
positioned.kernel(h, wrt=[E, P])
positioned_backward = positioned.gradient(h)
positioned_backward.claim(
    "position-backward", positioned_backward["dP"][t, c], Sum(positioned_backward["dx"][n, t, c], n),
    name="dP sums over the leading dimensions",
)  # fmt: skip

backward.steps(
    "embedding-chain", backward["dE"][w, c],
    Sum(backward["dx"][n, c] * Sum(delta(v, token[n]) * delta(v, w), v), n),
    Sum(delta(w, token[n]) * backward["dx"][n, c], n),
    because=["the chain rule through the one-hot product", "the inner delta contracts"],
)  # fmt: skip

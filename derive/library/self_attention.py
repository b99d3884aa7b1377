"""Causal self-attention with grouped-query heads, from normalised rows to the residual branch, as one statement.

    y = softmax(Q K^T / sqrt(D)) V in every head, the heads projected back

G groups of R query heads share the keys and values of their group: R = 1 is multi-head attention, G = 1 multi-query.
Heads are indices like any other: W_Q[g, r, d, c] maps channel c to component d of query head r in group g. The rows x
are used three times, for queries, keys and values; that their gradient is the sum over the three uses is derived here.

For generation there are two forward kernels more: `self_attention_keys` gives keys and values of new rows, and
`self_attention_step` what new rows make of the keys and values so far. New row s stands at position place[s]. Such a
row is row place[s] of the whole, which is proved: a cache changes the order of the work, not the result.
"""

from typing import Any

from sympy import sqrt

from derive.functions import softmax
from derive.language import Sum, Tensor, dims, index, indices, leading_index, tensor
from derive.program import Program

N, T, S, C, G, R, D = dims("N T S C G R D")
n = leading_index("n", N)
i, j = indices("i j", T)
s = index("s", S)
c, k = indices("c k", C)
g, r = index("g", G), index("r", R)
d = index("d", D)
x, W_O = tensor("x", N, T, C), tensor("W_O", C, G, R, D)
W_Q, W_K, W_V = tensor("W_Q", G, R, D, C), tensor("W_K", G, D, C), tensor("W_V", G, D, C)

self_attention = Program("self_attention", "causal self-attention with grouped heads", [x, W_Q, W_K, W_V, W_O])
Q = self_attention.define("Q", [n, g, r, i, d], Sum(x[n, i, c] * W_Q[g, r, d, c], c))
K = self_attention.define("K", [n, g, j, d], Sum(x[n, j, c] * W_K[g, d, c], c))
V = self_attention.define("V", [n, g, j, d], Sum(x[n, j, c] * W_V[g, d, c], c))
Z = self_attention.define("Z", [n, g, r, i, j], Sum(Q[n, g, r, i, d] * K[n, g, j, d], d) / sqrt(D))
A = self_attention.define("A", [n, g, r, i, j], softmax(Z[n, g, r, i, j], over=j, where=j <= i))
O = self_attention.define("O", [n, g, r, i, d], Sum(A[n, g, r, i, j] * V[n, g, j, d], j))
y = self_attention.define("y", [n, i, c], Sum(O[n, g, r, i, d] * W_O[c, g, r, d], g, r, d))
self_attention.kernel(y, wrt=[x, W_Q, W_K, W_V, W_O])

backward = self_attention.gradient(y)
dQ, dK, dV, dO, dA = (backward[name] for name in ("dQ", "dK", "dV", "dO", "dA"))
backward.claim(
    "self-attention-dx", backward["dx"][n, i, k],
    Sum(dQ[n, g, r, i, d] * W_Q[g, r, d, k], g, r, d)
    + Sum(dK[n, g, i, d] * W_K[g, d, k] + dV[n, g, i, d] * W_V[g, d, k], g, d),
    name="queries, keys and values send back to the same rows",
)  # fmt: skip
backward.claim(
    "self-attention-dZ", backward["dZ"][n, g, r, i, j],
    A[n, g, r, i, j] * (dA[n, g, r, i, j] - Sum(dO[n, g, r, i, d] * O[n, g, r, i, d], d)),
    name="each query head has a softmax of its own",
)  # fmt: skip
backward.claim(
    "self-attention-dW_K", backward["dW_K"][g, d, c], Sum(dK[n, g, j, d] * x[n, j, c], n, j), name="dW_K = dK^T x"
)

# ---------------------------------------------------------------------------------------------------------------------
# With a cache.

x_new, place = tensor("x", N, S, C), tensor("place", S, into=T)


def attend(program: Program, new: Tensor, keys: Tensor, values: Tensor) -> Any:
    """What the new rows, each at its place, make of the keys and values so far."""
    q = program.define("Q_new", [n, g, r, s, d], Sum(new[n, s, c] * W_Q[g, r, d, c], c))
    z = program.define("Z_new", [n, g, r, s, j], Sum(q[n, g, r, s, d] * keys[n, g, j, d], d) / sqrt(D))
    weights = program.define("A_new", [n, g, r, s, j], softmax(z[n, g, r, s, j], over=j, where=j <= place[s]))
    o = program.define("O_new", [n, g, r, s, d], Sum(weights[n, g, r, s, j] * values[n, g, j, d], j))
    return program.define("y_new", [n, s, c], Sum(o[n, g, r, s, d] * W_O[c, g, r, d], g, r, d))


keys_of = Program("self_attention_keys", "keys and values of rows", [x, W_K, W_V])
rows_K = keys_of.define("K", [n, g, j, d], Sum(x[n, j, c] * W_K[g, d, c], c))
rows_V = keys_of.define("V", [n, g, j, d], Sum(x[n, j, c] * W_V[g, d, c], c))
keys_of.kernel(rows_K, rows_V)

cached_K, cached_V = tensor("K", N, G, T, D), tensor("V", N, G, T, D)
step = Program("self_attention_step", "self-attention of new rows", [x_new, place, cached_K, cached_V, W_Q, W_O])
step.kernel(attend(step, x_new, cached_K, cached_V))

whole = Program("self_attention_rows", "new rows beside the whole", [x, place, W_Q, W_K, W_V, W_O])
whole.definitions += self_attention.definitions
rows = whole.define("rows", [n, s, c], x[n, place[s], c])
with_cache = attend(whole, rows, K, V)
whole.claim("self-attention-cache", with_cache[n, s, c], y[n, place[s], c], name="a new row is its row of the whole")

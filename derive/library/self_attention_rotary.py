"""Causal self-attention with grouped-query heads and rotary positions; `self_attention` says what the letters mean.

    Q[i] = R_i W_Q x[i],   K[j] = R_j W_K x[j],   y = softmax(Q K^T / sqrt(2 A)) V in every head, projected back

The components of a query or key are A pairs (a, e) with e = 0 or 1. R_t turns pair a by the angle t base^(-a / A), so
that a score depends on the distance of its positions only (`rotary` proves it). Values are not turned. Su et al. 2021.
"""

from typing import Any

from sympy import Eq, Expr, cos, sin, sqrt

from derive.functions import softmax
from derive.language import Flag, Scalar, Sum, Tensor, dims, index, indices, leading_index, scalar, tensor, where
from derive.program import Program

N, T, S, C, G, R, A, D = dims("N T S C G R A D")
n = leading_index("n", N)
i, j = indices("i j", T)
s = index("s", S)
c, k = indices("c k", C)
g, r = index("g", G), index("r", R)
a = index("a", A)
e, f = indices("e f", 2)
d = index("d", D)
x, W_O, base = tensor("x", N, T, C), tensor("W_O", C, G, R, D), scalar("base", positive=True)
W_Q, W_K, W_V = tensor("W_Q", G, R, A, 2, C), tensor("W_K", G, A, 2, C), tensor("W_V", G, D, C)


def turn(angle: Expr) -> Expr:
    """Entry e, f of the rotation by an angle."""
    return where(Eq(e, f), cos(angle), where(Eq(e, 0), -sin(angle), sin(angle)))


name = "self_attention_rotary"
attention = Program(name, "causal self-attention, grouped heads, rotary positions", [x, W_Q, W_K, W_V, W_O, base])
angle = attention.define("angle", [i, a], i * base ** (-a / A))
turns = attention.define("turns", [i, a, e, f], turn(angle[i, a]))
q = attention.define("q", [n, g, r, i, a, f], Sum(x[n, i, c] * W_Q[g, r, a, f, c], c))
h = attention.define("h", [n, g, j, a, f], Sum(x[n, j, c] * W_K[g, a, f, c], c))
Q = attention.define("Q", [n, g, r, i, a, e], Sum(turns[i, a, e, f] * q[n, g, r, i, a, f], f))
K = attention.define("K", [n, g, j, a, e], Sum(turns[j, a, e, f] * h[n, g, j, a, f], f))
V = attention.define("V", [n, g, j, d], Sum(x[n, j, c] * W_V[g, d, c], c))
Z = attention.define("Z", [n, g, r, i, j], Sum(Q[n, g, r, i, a, e] * K[n, g, j, a, e], a, e) / sqrt(2 * A))
P = attention.define("P", [n, g, r, i, j], softmax(Z[n, g, r, i, j], over=j, where=j <= i))
O = attention.define("O", [n, g, r, i, d], Sum(P[n, g, r, i, j] * V[n, g, j, d], j))
y = attention.define("y", [n, i, c], Sum(O[n, g, r, i, d] * W_O[c, g, r, d], g, r, d))
attention.kernel(y, wrt=[x, W_Q, W_K, W_V, W_O], defaults={base: 10000.0})

backward = attention.gradient(y)
dZ = backward["dZ"]
backward.claim(
    "self-attention-rotary-dq", backward["dq"][n, g, r, i, a, f],
    Sum(turns[i, a, e, f] * dZ[n, g, r, i, j] * K[n, g, j, a, e], j, e) / sqrt(2 * A),
    name="what comes back to a query is turned back",
)  # fmt: skip
backward.claim(
    "self-attention-rotary-dx", backward["dx"][n, i, k],
    Sum(backward["dq"][n, g, r, i, a, f] * W_Q[g, r, a, f, k], g, r, a, f)
    + Sum(backward["dh"][n, g, i, a, f] * W_K[g, a, f, k], g, a, f)
    + Sum(backward["dV"][n, g, i, d] * W_V[g, d, k], g, d),
    name="queries, keys and values send back to the same rows",
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# With a cache.

x_new, place = tensor("x", N, S, C), tensor("place", S, into=T)
position = tensor("position", S)  # the place as a real number, for the angle


def attend(program: Program, new: Tensor, position: Expr, keys: Tensor, values: Tensor) -> Any:
    """What the new rows, row s at its position, make of the keys and values so far."""
    angles = program.define("angle_new", [s, a], position * base ** (-a / A))
    turned = program.define("turns_new", [s, a, e, f], turn(angles[s, a]))
    own = program.define("q_new", [n, g, r, s, a, f], Sum(new[n, s, c] * W_Q[g, r, a, f, c], c))
    query = program.define("Q_new", [n, g, r, s, a, e], Sum(turned[s, a, e, f] * own[n, g, r, s, a, f], f))
    z = program.define("Z_new", [n, g, r, s, j], Sum(query[n, g, r, s, a, e] * keys[n, g, j, a, e], a, e) / sqrt(2 * A))
    weights = program.define("P_new", [n, g, r, s, j], softmax(z[n, g, r, s, j], over=j, where=j <= place[s]))
    o = program.define("O_new", [n, g, r, s, d], Sum(weights[n, g, r, s, j] * values[n, g, j, d], j))
    return program.define("y_new", [n, s, c], Sum(o[n, g, r, s, d] * W_O[c, g, r, d], g, r, d))


def key_of(program: Program, new: Tensor, position: Expr) -> Any:
    """The keys of new rows, row s turned by its position."""
    angles = program.define("angle_key", [s, a], position * base ** (-a / A))
    turned = program.define("turns_key", [s, a, e, f], turn(angles[s, a]))
    own = program.define("h_new", [n, g, s, a, f], Sum(new[n, s, c] * W_K[g, a, f, c], c))
    return program.define("K_new", [n, g, s, a, e], Sum(turned[s, a, e, f] * own[n, g, s, a, f], f))


keys_of = Program(f"{name}_keys", "keys and values of rows", [x_new, position, W_K, W_V, base])
rows_K = key_of(keys_of, x_new, position[s])
rows_V = keys_of.define("V_new", [n, g, s, d], Sum(x_new[n, s, c] * W_V[g, d, c], c))
keys_of.kernel(rows_K, rows_V, defaults={base: 10000.0})

cached_K, cached_V = tensor("K", N, G, T, A, 2), tensor("V", N, G, T, D)
step_inputs: list[Tensor | Scalar | Flag] = [x_new, place, position, cached_K, cached_V, W_Q, W_O, base]
step = Program(f"{name}_step", "self-attention of new rows", step_inputs)
step.kernel(attend(step, x_new, position[s], cached_K, cached_V), defaults={base: 10000.0})

whole = Program(f"{name}_rows", "new rows beside the whole", [x, place, W_Q, W_K, W_V, W_O, base])
whole.definitions += attention.definitions
rows = whole.define("rows", [n, s, c], x[n, place[s], c])
with_cache, key = attend(whole, rows, place[s], K, V), key_of(whole, rows, place[s])
whole.claim(
    "self-attention-rotary-key", key[n, g, s, a, e], K[n, g, place[s], a, e], name="a new key is its key of the whole"
)
whole.claim(
    "self-attention-rotary-cache", with_cache[n, s, c], y[n, place[s], c], name="a new row is its row of the whole"
)

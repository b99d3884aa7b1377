"""Weight tying: one matrix E embeds the tokens and reads out the logits. Press and Wolf 2017; Inan et al. 2017.

    x = E[token],   h = x W,   z = h E^T,   loss = mean cross entropy of z with the next token

E is one parameter used twice, and its gradient is the sum over both uses: the scatter of dx into the rows of the
tokens, and dz^T h from the output. Holding one use fixed gives only a part, and that part is no gradient of the loss.
"""

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, indices, leading_index, tensor
from derive.program import Program

N, V, C = dims("N V C")
n = leading_index("n", N)
v, w = indices("v w", V)
c, d = indices("c d", C)
E, W = tensor("E", V, C), tensor("W", C, C)
token, target = tensor("token", N, into=V), tensor("target", N, into=V)

weight_tying = Program("weight_tying", "cross entropy with a tied embedding", [token, target, E, W])
x = weight_tying.define("x", [n, c], E[token[n], c])
h = weight_tying.define("h", [n, d], Sum(x[n, c] * W[c, d], c))
z = weight_tying.define("z", [n, v], Sum(h[n, d] * E[v, d], d))
L = weight_tying.define("L", [n], logsumexp(z[n, v], over=v))
loss = weight_tying.define("loss", [], Sum(L[n] - z[n, target[n]], n) / N)
weight_tying.kernel(loss, wrt=[E, W])

backward = weight_tying.gradient(loss)
dx, dz, dh, dE = backward["dx"], backward["dz"], backward["dh"], backward["dE"]
as_input = Sum(delta(v, token[n]) * dx[n, c], n)
as_output = Sum(dz[n, v] * h[n, c], n)
backward.claim("tied", dE[v, c], as_input + as_output, name="dE sums over both uses")
backward.claim(
    "tied-dz",
    dz[n, v],
    backward["dloss"] * (softmax(z[n, v], over=v) - delta(v, target[n])) / N,
    name="dz = (p - y) / N",
)
backward.claim("tied-dx", dx[n, c], Sum(dz[n, v] * E[v, d] * W[c, d], v, d), name="dx = dz E W^T")
backward.claim("tied-dW", backward["dW"][c, d], Sum(x[n, c] * dh[n, d], n), name="dW = x^T dh")

# The same network with a matrix for each use. Its two gradients, at equal matrices, are the two parts.
E_in, E_out = tensor("E_in", V, C), tensor("E_out", V, C)
untied = Program("weight_untied", "cross entropy with an embedding and a read-out", [token, target, E_in, E_out, W])
untied_x = untied.define("x", [n, c], E_in[token[n], c])
untied_h = untied.define("h", [n, d], Sum(untied_x[n, c] * W[c, d], c))
untied_z = untied.define("z", [n, v], Sum(untied_h[n, d] * E_out[v, d], d))
untied_L = untied.define("L", [n], logsumexp(untied_z[n, v], over=v))
untied_loss = untied.define("loss", [], Sum(untied_L[n] - untied_z[n, target[n]], n) / N)
parts = untied.gradient(untied_loss)
parts.claim(
    "untied-in", parts["dE_in"][w, c], Sum(delta(w, token[n]) * parts["dz"][n, v] * E_out[v, d] * W[c, d], n, v, d),
    name="the embedding's part sees the tokens that occur",
)  # fmt: skip
parts.claim(
    "untied-out", parts["dE_out"][v, c], Sum(parts["dz"][n, v] * E_in[token[n], d] * W[d, c], n, d),
    name="the read-out's part sees every row",
)  # fmt: skip
backward.steps(
    "tying",
    dE[w, c],
    Sum(delta(w, token[n]) * dx[n, c], n) + Sum(dz[n, w] * h[n, c], n),
    Sum(delta(w, token[n]) * Sum(dz[n, v] * E[v, d] * W[c, d], v, d), n) + Sum(dz[n, w] * h[n, c], n),
    Sum(delta(w, token[n]) * dz[n, v] * E[v, d] * W[c, d], n, v, d) + Sum(dz[n, w] * E[token[n], d] * W[d, c], n, d),
    because=[
        "one term for each use: a look-up and a product",
        "dx through z = h E^T and h = x W",
        "the sum of what the untied network gives its two matrices, at E_in = E_out = E",
    ],
)

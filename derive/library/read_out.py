"""The read-out: one logit for every row of a matrix, z = x W^T, over any leading dimensions, without a bias.

With a matrix of its own it is an untied head; with the embedding's matrix, a tied one (`weight_tying`).
"""

from derive.language import Sum, dims, index, leading_index, tensor
from derive.matrices import matrix
from derive.program import Program

N, C, V = dims("N C V")
n = leading_index("n", N)
c = index("c", C)
v = index("v", V)
x, W = tensor("x", N, C), tensor("W", V, C)

read_out = Program("read_out", "logits from rows", [x, W])
z = read_out.define("z", [n, v], Sum(x[n, c] * W[v, c], c))
read_out.kernel(z, wrt=[x, W])

backward = read_out.gradient(z)
mdz = matrix(backward["dz"])
backward.claim("read-out-dx", matrix(backward["dx"]), mdz @ matrix(W), name="dx = dz W")
backward.claim("read-out-dW", matrix(backward["dW"]), mdz.T @ matrix(x), name="dW = dz^T x")

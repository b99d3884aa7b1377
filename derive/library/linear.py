"""The linear layer y = x W^T + b, over any leading dimensions."""

from derive.language import Sum, delta, dims, index, leading_index, tensor
from derive.matrices import matrix
from derive.program import Program

N, C, F = dims("N C F")
n = leading_index("n", N)
c = index("c", C)
f = index("f", F)
x, W, b = tensor("x", N, C), tensor("W", F, C), tensor("b", F)

linear = Program("linear", "linear layer", [x, W, b])
y = linear.define("y", [n, f], Sum(x[n, c] * W[f, c], c) + b[f])
linear.kernel(y, wrt=[x, W, b])

backward = linear.gradient(y)
mdy = matrix(backward["dy"])
backward.claim("linear-dx", matrix(backward["dx"]), mdy @ matrix(W), name="dx = dy W")
backward.claim("linear-dW", matrix(backward["dW"]), mdy.T @ matrix(x), name="dW = dy^T x")
backward.claim("linear-db", backward["db"][f], Sum(backward["dy"][n, f], n), name="db = column sums of dy")

dy = backward["dy"]
i = index("i", C)
backward.steps(
    "linear-chain", backward["dx"][n, c],
    Sum(dy[n, f] * Sum(W[f, i] * delta(i, c), i), f), Sum(dy[n, f] * W[f, c], f),
    because=["the chain rule, dx_i / dx_c = delta_ic", "the delta contracts"],
)  # fmt: skip

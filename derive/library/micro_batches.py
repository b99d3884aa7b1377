"""A batch in equal parts: the mean over the batch is the mean over its parts, and so is its gradient.

    loss = mean over m of loss_m,   dW = sum over m of (1/M) dW_m

This is why a backward pass may go through a batch part by part, each from a cotangent of 1/M, and add up what it finds;
processes that share a batch do the same. The loss of a row is any function of the weights; what its gradient sees of it
are the slopes, so that a function with given slopes stands for all of them.
"""

from derive.functions import mean
from derive.language import Sum, dims, index, tensor
from derive.program import Program

M, N, P = dims("M N P")
m, n = index("m", M), index("n", N)
p, q = index("p", P), index("q", P)
slope, W = tensor("slope", M, N, P), tensor("W", P)

micro_batches = Program("micro_batches", "a batch of M parts of N rows", [slope, W])
row = micro_batches.define("row", [m, n], Sum(slope[m, n, p] * W[p], p))
part = micro_batches.define("part", [m], mean(row[m, n], over=n))
loss = micro_batches.define("loss", [], Sum(row[m, n], m, n) / (M * N))
micro_batches.claim(
    "micro-batches", loss, mean(part[m], over=m), name="the mean of the means of equal parts is the mean"
)
of_part = micro_batches.derivative(part[m], W[q])
micro_batches.claim(
    "micro-batches-gradient", micro_batches.derivative(loss, W[q]), Sum(of_part / M, m),
    name="the gradient is the sum of the parts' gradients, each from a cotangent of 1/M",
)  # fmt: skip

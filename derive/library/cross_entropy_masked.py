"""Cross entropy that ignores some targets: the mean over the kept ones, and 0 when there are none.

    loss = Sum over kept n of (logsumexp(z_n) - z_n,target) / M,   M the number kept;   0 if M = 0

A position is kept where keep > 0. What is ignored is not multiplied by 0 but left out: its logits may be anything. With
none kept the mean would be 0/0; the policy is the value 0 with gradient 0.
"""

from sympy import Eq

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, index, iverson, leading_index, tensor, where
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v = index("v", V)
z = tensor("z", N, V)
target, keep = tensor("target", N, into=V), tensor("keep", N, into=2)
kept = iverson(keep[n] > 0)

masked = Program("cross_entropy_masked", "mean cross entropy over the kept targets", [z, target, keep])
row = logsumexp(z[n, v], over=v) - z[n, target[n]]
kept_row = masked.define("row", [n], where(keep[n] > 0, row, 0))
total = masked.define("total", [], Sum(kept_row[n], n))
M = masked.define("M", [], Sum(kept, n))
loss = masked.define("loss", [], where(M > 0, total / M, 0))
masked.kernel(loss, wrt=[z])
masked.claim("masked-mean", loss, total / M, given=[M > 0], name="the mean over the kept targets")
masked.claim("masked-none", loss, 0, given=[Eq(keep[n], 0)], name="none kept: the loss is 0")
masked.claim("masked-all", loss, Sum(row, n) / N, given=[Eq(keep[n], 1)], name="all kept: the ordinary mean")

p = softmax(z[n, v], over=v)
masked.steps(
    "masked-row",
    masked.derivative(kept_row[n], z[n, v]),
    where(keep[n] > 0, p - delta(v, target[n]), 0),
    kept * (p - delta(v, target[n])),
    because=["where it is kept, the slope of logsumexp less that of the target's logit", "as a factor"],
)
backward = masked.gradient(loss)
dloss, dz = backward["dloss"], backward["dz"]
backward.claim(
    "masked-backward",
    dz[n, v],
    dloss * kept * (p - delta(v, target[n])) / M,
    given=[M > 0],
    name="dz = [kept] (p - y) / M",
)
backward.claim("masked-backward-ignored", dz[n, v], 0, given=[keep[n] <= 0], name="an ignored row has gradient 0")

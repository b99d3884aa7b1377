"""Cross entropy with class weights and ignored targets, row by row, as a sum, and as the weighted mean.

    row_n = w[target_n] (logsumexp(z_n) - z_n,target)   where row n is kept, else 0
    total = Sum_n row_n,   loss = total / W,   W = Sum over kept n of w[target_n]

It is what PyTorch's cross_entropy computes for reduction "none", "sum" and "mean". What is ignored is left out, not
multiplied by 0. Where nothing is kept, or all weights that are met cancel, the mean would be divided by 0; the policy
is the value 0 with gradient 0.
"""

from sympy import Eq, Ne

from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, index, iverson, leading_index, tensor, where
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v = index("v", V)
z, w = tensor("z", N, V), tensor("w", V)
target, keep = tensor("target", N, into=V), tensor("keep", N, into=2)
INPUTS = [z, target, keep, w]
kept = keep[n] > 0
weighted_row = where(kept, w[target[n]] * (logsumexp(z[n, v], over=v) - z[n, target[n]]), 0)
p = softmax(z[n, v], over=v)

rows = Program("cross_entropy_rows", "cross entropy of each row, weighted, 0 where it is ignored", INPUTS)
row = rows.define("row", [n], weighted_row)
rows.kernel(row, wrt=[z])
rows.claim(
    "rows-plain", row[n], logsumexp(z[n, v], over=v) - z[n, target[n]], given=[Eq(keep[n], 1), Eq(w[v], 1)],
    name="kept and with weight 1: logsumexp less the target's logit",
)  # fmt: skip
rows_backward = rows.gradient(row)
rows_backward.claim(
    "rows-backward", rows_backward["dz"][n, v],
    rows_backward["drow"][n] * iverson(kept) * w[target[n]] * (p - delta(v, target[n])),
    name="dz = [kept] w_target (p - y) drow",
)  # fmt: skip

summed = Program("cross_entropy_sum", "cross entropy, weighted, summed over the kept rows", INPUTS)
summed_row = summed.define("row", [n], weighted_row)
total = summed.define("total", [], Sum(summed_row[n], n))
summed.kernel(total, wrt=[z])
summed_backward = summed.gradient(total)
summed_backward.claim(
    "sum-backward", summed_backward["dz"][n, v],
    summed_backward["dtotal"] * iverson(kept) * w[target[n]] * (p - delta(v, target[n])),
    name="dz = [kept] w_target (p - y)",
)  # fmt: skip

averaged = Program("cross_entropy_mean", "weighted mean cross entropy over the kept rows", INPUTS)
averaged_row = averaged.define("row", [n], weighted_row)
whole = averaged.define("total", [], Sum(averaged_row[n], n))
W = averaged.define("W", [], Sum(where(kept, w[target[n]], 0), n))
loss = averaged.define("loss", [], where(Ne(W, 0), whole / W, 0))
averaged.kernel(loss, wrt=[z])
averaged.claim("mean-none", loss, 0, given=[Eq(keep[n], 0)], name="none kept: the loss is 0")
averaged.claim(
    "mean-equal", loss, Sum(logsumexp(z[n, v], over=v) - z[n, target[n]], n) / N, given=[Eq(keep[n], 1), Eq(w[v], 1)],
    name="all kept, weights 1: the ordinary mean",
)  # fmt: skip
averaged_backward = averaged.gradient(loss)
averaged_backward.claim(
    "mean-backward", averaged_backward["dz"][n, v],
    averaged_backward["dloss"] * iverson(kept) * w[target[n]] * (p - delta(v, target[n])) / W, given=[Ne(W, 0)],
    name="dz = [kept] w_target (p - y) / W",
)  # fmt: skip

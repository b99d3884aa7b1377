"""Softmax cross entropy with soft targets: one-hot, smoothed, mixed, or from a teacher.

    loss = mean_n Sum_v y_nv (logsumexp(z_n) - z_nv),   dz = ((Sum_v y_v) p - y) / N

Only when each row of y sums to 1 is that (p - y) / N, and the loss L - <y, z>. Where y is 0 a logit may be -inf:
0 log 0 is 0, and the kernel knows.
"""

from sympy import Eq, log

from derive.functions import log_softmax, logsumexp, softmax
from derive.language import Sum, dims, index, indices, leading_index, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v, k = indices("v k", V)
z, y = tensor("z", N, V), tensor("y", N, V)
normalised = Eq(Sum(y[n, v], v), 1)

cross_entropy_soft = Program("cross_entropy_soft", "mean softmax cross entropy with soft targets", [z, y])
L = cross_entropy_soft.define("L", [n], logsumexp(z[n, v], over=v))
loss = cross_entropy_soft.define("loss", [], Sum(y[n, v] * (L[n] - z[n, v]), n, v) / N)
cross_entropy_soft.kernel(loss, wrt=[z, y])

p = softmax(z[n, v], over=v)
cross_entropy_soft.steps(
    "soft-targets",
    loss,
    -Sum(y[n, v] * log_softmax(z[n, v], over=v), n, v) / N,
    -Sum(y[n, v] * log(p), n, v) / N,
    because=["z - logsumexp(z) is the log softmax", "the log of the softmax"],
)
cross_entropy_soft.claim(
    "soft-targets-normalised", loss, Sum(L[n] - Sum(y[n, v] * z[n, v], v), n) / N, given=[normalised],
    name="targets that sum to 1: L - <y, z>",
)  # fmt: skip

backward = cross_entropy_soft.gradient(loss)
dloss, dz = backward["dloss"], backward["dz"]
backward.claim(
    "soft-targets-backward", dz[n, v], dloss * (Sum(y[n, k], k) * p - y[n, v]) / N, name="dz = (Sum(y) p - y) / N"
)
backward.claim(
    "soft-targets-backward-normalised", dz[n, v], dloss * (p - y[n, v]) / N, given=[normalised],
    name="targets that sum to 1: dz = (p - y) / N",
)  # fmt: skip
backward.claim("soft-targets-backward-sum", Sum(dz[n, v], v), 0, over=[n], name="the gradient sums to 0")
backward.claim(
    "soft-targets-backward-target", backward["dy"][n, v], dloss * (L[n] - z[n, v]) / N, name="dy = (L - z) / N"
)

# Two classes: the two entries of the gradient have opposite signs; they are not the same number.
pair = index("pair", 2)
s, t = tensor("s", 2), tensor("t", 2)
two_classes = Program("cross_entropy_two_classes", "softmax cross entropy of two classes", [s, t])
two_loss = two_classes.define("loss", [], -Sum(t[pair] * log_softmax(s[pair], over=pair), pair))
two_backward = two_classes.gradient(two_loss)
two_backward.claim(
    "two-classes", two_backward["ds"][1], -two_backward["ds"][0], name="the second entry is minus the first"
)

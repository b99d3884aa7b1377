"""Log softmax, kept in log space: y = z - logsumexp(z), with dz = dy - softmax(z) Sum(dy).

The sum in the backward pass runs over the upstream gradient alone. Weighting it with y, or adding p without it, are
mistakes that have been shipped; both agree with this formula at no generic point.
"""

from sympy import exp, log

from derive.functions import log_softmax as log_softmax_of
from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, indices, leading_index, tensor
from derive.program import Program

N, V = dims("N V")
n = leading_index("n", N)
v, k = indices("v k", V)
z, shift = tensor("z", N, V), tensor("shift", N)

log_softmax = Program("log_softmax", "log softmax over the last axis", [z])
y = log_softmax.define("y", [n, v], log_softmax_of(z[n, v], over=v))
log_softmax.kernel(y, wrt=[z])

log_softmax.steps(
    "log-softmax-definition",
    y[n, v],
    z[n, v] - logsumexp(z[n, k], over=k),
    z[n, v] - log(Sum(exp(z[n, k]), k)),
    log(exp(z[n, v]) / Sum(exp(z[n, k]), k)),
    log(softmax(z[n, v], over=v)),
    because=["definition", "logsumexp spelled out", "log of a quotient", "softmax"],
)  # fmt: skip
log_softmax.claim(
    "log-softmax-shift", log_softmax_of(z[n, v] + shift[n], over=v), y[n, v],
    name="each row may be shifted by a number of its own",
)  # fmt: skip
log_softmax.claim(
    "log-softmax-twice", log_softmax_of(y[n, v], over=v), y[n, v], name="log softmax of a log softmax is itself"
)
log_softmax.claim("log-softmax-normal", Sum(exp(y[n, v]), v), 1, name="exp(y) sums to 1", over=[n])

backward = log_softmax.gradient(y)
dy, dz = backward["dy"], backward["dz"]
backward.claim(
    "log-softmax-backward", dz[n, v], dy[n, v] - softmax(z[n, v], over=v) * Sum(dy[n, k], k), name="dz = dy - p Sum(dy)"
)
backward.claim("log-softmax-backward-saved", dz[n, v], dy[n, v] - exp(y[n, v]) * Sum(dy[n, k], k), name="from y alone")
backward.claim("log-softmax-backward-sum", Sum(dz[n, v], v), 0, name="the gradient sums to 0", over=[n])

jacobian = log_softmax.derivative(y[n, v], z[n, k])
log_softmax.claim(
    "log-softmax-jacobian", jacobian, delta(v, k) - softmax(z[n, k], over=k), name="dy_v / dz_k = delta_vk - p_k"
)

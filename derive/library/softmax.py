"""Softmax: its Jacobian (the document's E4 and E5), its backward pass, its invariance under a shift of the logits."""

from sympy import Ne, exp, log

from derive.functions import log_softmax, logsumexp, softmax
from derive.language import Sum, delta, dims, index, indices, leading_index, scalar, tensor
from derive.program import Program

V = dims("V")[0]
i, j, k = indices("i j k", V)
s = tensor("s", V)
shift = scalar("shift")

vector = Program("softmax_vector", "softmax of one vector", [s])
Z = vector.define("Z", [], Sum(exp(s[k]), k))
a = vector.define("a", [i], softmax(s[i], over=i))
vector.claim("softmax-sum", Sum(a[i], i), 1, name="softmax sums to 1")
vector.claim("softmax-shift", softmax(s[i] + shift, over=i), a[i], name="softmax does not change under a shift")
vector.claim("log-softmax", log_softmax(s[i], over=i), log(a[i]), name="log softmax is the log of softmax")
vector.claim(
    "logsumexp-shift",
    logsumexp(s[i] + shift, over=i),
    logsumexp(s[i], over=i) + shift,
    name="logsumexp moves with a shift",
)

jacobian = vector.jacobian(a, s)
J = jacobian["da_ds"]
jacobian.claim(
    "E4", J[i, i], (exp(s[i]) * Z - exp(s[i]) * exp(s[i])) / Z**2, name="same position: (e^s_i Z - e^s_i e^s_i) / Z^2"
)
jacobian.claim("E4", J[i, i], a[i] * (1 - a[i]), name="same position: a_i (1 - a_i)")
jacobian.claim(
    "E5", J[i, j], -exp(s[i]) * exp(s[j]) / Z**2, given=[Ne(i, j)], name="different position: -e^s_i e^s_j / Z^2"
)
jacobian.claim("E5", J[i, j], -a[i] * a[j], given=[Ne(i, j)], name="different position: -a_i a_j")
jacobian.claim("softmax-jacobian", J[i, j], a[i] * (delta(i, j) - a[j]), name="E4 and E5 together")

jacobian.steps(
    "softmax-chain", J[i, j],
    (delta(i, j) * exp(s[i]) * Z - exp(s[i]) * exp(s[j])) / Z**2,
    delta(i, j) * exp(s[i]) / Z - exp(s[i]) / Z * exp(s[j]) / Z,
    a[i] * (delta(i, j) - a[j]),
    because=["the quotient rule", "the fraction taken apart", "e^s / Z is a"],
)  # fmt: skip

# The kernel, over the last axis of an array with any leading dimensions.
N = dims("N")[0]
n = leading_index("n", N)
v = index("v", V)
z = tensor("z", N, V)
softmax_rows = Program("softmax", "softmax over the last axis", [z])
p = softmax_rows.define("p", [n, v], softmax(z[n, v], over=v))
softmax_rows.kernel(p, wrt=[z])
backward = softmax_rows.gradient(p)
dp = backward["dp"]
backward.claim(
    "softmax-backward",
    backward["dz"][n, v],
    p[n, v] * (dp[n, v] - Sum(dp[n, i] * p[n, i], i)),
    name="dz = p (dp - <dp, p>)",
)
backward.claim("softmax-backward-sum", Sum(backward["dz"][n, v], v), 0, name="the gradient of softmax sums to 0")

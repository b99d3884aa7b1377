"""logsumexp: its gradient is the softmax, its Hessian diag(p) - p p^T. Boyd and Vandenberghe 2004, section 3.1.5.

    L = log(Sum_j exp(s_j)),   dL/ds_i = p_i,   d2L/ds_i ds_j = p_i (delta_ij - p_j)

The Hessian is the covariance of the distribution p: v^T H v = Sum_i p_i (v_i - Sum_j p_j v_j)^2 is never negative, so L
is convex; (1, ..., 1) is a null direction, because a shift of all s adds a constant.
"""

from sympy import exp, log

from derive.functions import logsumexp as logsumexp_of
from derive.functions import softmax
from derive.language import Sum, delta, dims, indices, leading_index, scalar, tensor
from derive.program import Program

V = dims("V")[0]
i, j, k = indices("i j k", V)
s, direction = tensor("s", V), tensor("direction", V)
shift = scalar("shift")

vector = Program("logsumexp_vector", "logsumexp of one vector", [s])
L = vector.define("L", [], logsumexp_of(s[i], over=i))
p = vector.define("p", [i], softmax(s[i], over=i))
vector.claim("logsumexp-moves", logsumexp_of(s[i] + shift, over=i), L + shift, name="a shift of all s moves L by it")
vector.claim(
    "logsumexp-stable",
    L,
    shift + log(Sum(exp(s[i] - shift), i)),
    name="any shift may be taken out, such as the maximum",
)
vector.claim("logsumexp-softmax", exp(s[i] - L), p[i], name="exp(s - L) is the softmax")

gradient = vector.gradient(L)
gradient.claim("logsumexp-gradient", gradient["ds"][i], gradient["dL"] * p[i], name="the gradient is the softmax")

# The tangent: what L does when s moves in a direction.
tangent = vector.tangent(L, [s])
tangent.claim("logsumexp-tangent", tangent["tL"], Sum(p[i] * tangent["ts"][i], i), name="dL = <p, ds>")

# Second order: the gradient of the gradient is the Hessian times a direction, the upstream gradient of ds.
second = gradient.gradient(gradient["ds"], [s], prefix="h")
h = second["hds"]
second.claim(
    "logsumexp-hessian-vector", second["hs"][i], gradient["dL"] * p[i] * (h[i] - Sum(p[j] * h[j], j)),
    name="H v = p (v - <p, v>)",
)  # fmt: skip

H = vector.derivative(exp(s[i] - L), s[j])
vector.steps(
    "logsumexp-hessian",
    H,
    exp(s[i] - L) * (delta(i, j) - exp(s[j] - L)),
    p[i] * (delta(i, j) - p[j]),
    delta(i, j) * p[i] - p[i] * p[j],
    because=["chain rule, with dL/ds_j = exp(s_j - L)", "exp(s - L) is the softmax", "diag(p) - p p^T, multiplied out"],
)  # fmt: skip
vector.claim("logsumexp-hessian-null", Sum(H, j), 0, over=[i], name="(1, ..., 1) is a null direction of the Hessian")
vector.claim(
    "logsumexp-convex", Sum(direction[i] * H * direction[j], i, j),
    Sum(p[i] * (direction[i] - Sum(p[k] * direction[k], k)) ** 2, i), name="v^T H v is a variance, so never negative",
)  # fmt: skip

# The kernel, over the last axis of an array with any leading dimensions.
N = dims("N")[0]
n = leading_index("n", N)
z = tensor("z", N, V)
rows = Program("logsumexp", "logsumexp over the last axis", [z])
row_L = rows.define("L", [n], logsumexp_of(z[n, i], over=i))
rows.kernel(row_L, wrt=[z])

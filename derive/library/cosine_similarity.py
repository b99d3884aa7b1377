"""Cosine similarity: normalise each vector, then multiply.

    cos(v, w) = <v / max(|v|, eps), w / max(|w|, eps)>
    d cos / dv = w / (|v| |w|) - cos(v, w) v / |v|^2,   where |v|, |w| > eps

eps bounds each *norm*: not its square, which would put the floor at sqrt(eps), and not the product of the two, which
underflows to 0. The cosine with a zero vector is 0. The gradient is orthogonal to v: its length does not matter.
"""

from sympy import Max, sqrt

from derive.language import Sum, dims, indices, leading_index, scalar, tensor
from derive.program import Program

N, d = dims("N d")
n = leading_index("n", N)
a, b = indices("a b", d)
v, w = tensor("v", N, d), tensor("w", N, d)
eps = scalar("eps", positive=True)

cosine = Program("cosine_similarity", "cosine similarity over the last axis", [v, w, eps])
p = cosine.define("p", [n], Sum(v[n, a] ** 2, a))
q = cosine.define("q", [n], Sum(w[n, a] ** 2, a))
length_v = cosine.define("length_v", [n], Max(sqrt(p[n]), eps))
length_w = cosine.define("length_w", [n], Max(sqrt(q[n]), eps))
unit_v = cosine.define("unit_v", [n, a], v[n, a] / length_v[n])
unit_w = cosine.define("unit_w", [n, a], w[n, a] / length_w[n])
y = cosine.define("y", [n], Sum(unit_v[n, a] * unit_w[n, a], a))
cosine.kernel(y, wrt=[v, w], defaults={eps: 1e-8})

backward = cosine.gradient(y)
dy, dv = backward["dy"], backward["dv"]
backward.claim(
    "cosine-backward", dv[n, b], dy[n] * (unit_w[n, b] - y[n] * unit_v[n, b]) / sqrt(p[n]), given=[sqrt(p[n]) > eps],
    name="dv = (w / |w| - cos v / |v|) / |v|",
)  # fmt: skip
backward.claim(
    "cosine-backward-small", dv[n, b], dy[n] * unit_w[n, b] / eps, given=[sqrt(Sum(v[n, a] ** 2, a)) < eps],
    name="below eps the similarity is linear in v",
)  # fmt: skip

# Without the bound on the norms.
plain = Program("cosine_plain", "cosine similarity of vectors that are not 0", [v, w])
norm_v = plain.define("norm_v", [n], sqrt(Sum(v[n, a] ** 2, a)))
norm_w = plain.define("norm_w", [n], sqrt(Sum(w[n, a] ** 2, a)))
cos = plain.define("cos", [n], Sum(v[n, a] * w[n, a], a) / (norm_v[n] * norm_w[n]))
slope = plain.derivative(cos[n], v[n, b])
plain.steps(
    "cosine-slope",
    slope,
    w[n, b] / (norm_v[n] * norm_w[n]) - Sum(v[n, a] * w[n, a], a) * v[n, b] / (norm_v[n] ** 3 * norm_w[n]),
    w[n, b] / (norm_v[n] * norm_w[n]) - cos[n] * v[n, b] / norm_v[n] ** 2,
    because=["d|v| / dv = v / |v|", "written with the cosine itself"],
)
plain.claim("cosine-orthogonal", Sum(v[n, b] * slope, b), 0, over=[n], name="the gradient is orthogonal to v")

"""Dropout with a given mask: kept units are scaled by 1/(1 - p), so that the mean stays. Srivastava et al. 2014.

    y = keep x / (1 - p)        keep is 1 with probability 1 - p and 0 with probability p
    dx = keep dy / (1 - p)      the same mask as forward

The mask is an input, so that forward and backward see the same one and a run can be repeated.
"""

from derive.language import Sum, delta, dims, index, iverson, leading_index, scalar, tensor, where
from derive.program import Program

N = dims("N")[0]
n = leading_index("n", N)
x = tensor("x", N)
keep = tensor("keep", N, into=2)
p = scalar("p", positive=True)

dropout = Program("dropout", "dropout with a given mask", [x, keep, p])
y = dropout.define("y", [n], where(keep[n] > 0, x[n] / (1 - p), 0))
dropout.kernel(y, wrt=[x], defaults={p: 0.1})
backward = dropout.gradient(y)
dx, dy = backward["dx"], backward["dy"]
backward.claim("dropout-backward", dx[n], iverson(keep[n] > 0) * dy[n] / (1 - p), name="dx = keep dy / (1 - p)")
backward.claim(
    "dropout-adjoint", Sum(dx[n] * x[n], n), Sum(dy[n] * y[n], n), name="dropout is linear: <dx, x> = <dy, y>"
)

# One unit, its mask drawn: chance[1] = 1 - p, chance[0] = p. Mean and variance over the mask.
k = index("k", 2)
unit = scalar("unit")
drawn = Program("dropout_drawn", "one unit under a random mask", [unit, p])
chance = drawn.define("chance", [k], p * delta(k, 0) + (1 - p) * delta(k, 1))
value = drawn.define("value", [k], delta(k, 1) * unit / (1 - p))
mean = drawn.define("mean", [], Sum(chance[k] * value[k], k))
drawn.claim("dropout-chance", Sum(chance[k], k), 1, name="the probabilities sum to 1")
drawn.steps(
    "dropout-mean",
    mean,
    p * 0 + (1 - p) * unit / (1 - p),
    unit,
    because=["the two values of the mask", "why kept units are divided by 1 - p"],
)
drawn.claim(
    "dropout-variance", Sum(chance[k] * (value[k] - mean) ** 2, k), unit**2 * p / (1 - p), name="Var = x^2 p / (1 - p)"
)

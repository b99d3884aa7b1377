"""Sinusoidal positions: a sine and a cosine for each of A frequencies. Vaswani et al. 2017.

    E[t, a, 0] = sin(t theta_a),   E[t, a, 1] = cos(t theta_a)        with theta_a = 10000^(-a / A) in the paper

The embedding of a position k further on is a rotation of that of t, by an angle that does not depend on t: this is what
rotary embedding (rotary.py) does to queries and keys instead. The inner product of two positions depends on their
distance only.
"""

from sympy import Eq, cos, sin

from derive.language import Sum, dims, index, leading_index, scalars, tensor, where
from derive.program import Program

N, A = dims("N A")
n = leading_index("n", N)
a = index("a", A)
e = index("e", 2)
position, theta = tensor("position", N), tensor("theta", A)

positions = Program("sinusoidal_positions", "sinusoidal position embedding", [position, theta])
angle = positions.define("angle", [n, a], position[n] * theta[a])
E = positions.define("E", [n, a, e], where(Eq(e, 0), sin(angle[n, a]), cos(angle[n, a])))
positions.kernel(E, wrt=[position, theta])

p, k = scalars("p k")
shifts = Program("sinusoidal_shift", "sinusoidal positions at a distance", [theta, p, k])
first, second = p * theta[a], k * theta[a]
shifts.claim(
    "positions-sine", sin((p + k) * theta[a]), sin(first) * cos(second) + cos(first) * sin(second),
    name="k positions further on: a rotation by k theta",
)  # fmt: skip
shifts.steps(
    "positions",
    Sum(sin(first) * sin(second) + cos(first) * cos(second), a),
    Sum(cos(first - second), a),
    Sum(cos((p - k) * theta[a]), a),
    because=["cosine of a difference", "the inner product depends on the distance alone"],
)
shifts.claim(
    "positions-length", Sum(sin(first) ** 2 + cos(first) ** 2, a), A, name="every position has the same length, sqrt(A)"
)

"""An inner product is at most the product of the norms, for every width. Cauchy 1821, Note II, Theorem XVI.

Lagrange's identity says by how much: the gap is half the sum of all (x_a y_b - x_b y_a)^2. The compiler rests on this
where it leaves out the maximum of a row of logits (`codegen.blocking.scales`).
"""

from sympy import Le

from derive.language import Sum, dims, indices, tensors
from derive.program import Program
from derive.rules.squares import Squares

(C,) = dims("C")
a, b = indices("a b", C)
x, y = tensors("x y", C)

norm_bound = Program("norm_bound", "an inner product is at most the product of the norms", [x, y])
product = norm_bound.define("product", [], Sum(x[a] * y[a], a))
norm_x = norm_bound.define("norm_x", [], Sum(x[a] ** 2, a))
norm_y = norm_bound.define("norm_y", [], Sum(y[a] ** 2, a))
gap = Sum((x[a] * y[b] - x[b] * y[a]) ** 2, a, b) / 2

norm_bound.claim("lagrange", norm_x * norm_y - product**2, gap, name="Lagrange's identity")
norm_bound.claim_that(
    "cauchy-schwarz", Le(product**2, norm_x * norm_y), by=Squares(gap), name="|x.y| <= |x| |y|, squared on both sides"
)
norm_bound.steps(
    "cauchy-schwarz-chain", norm_x * norm_y - product**2,
    Sum(x[a] ** 2 * y[b] ** 2 - x[a] * y[a] * x[b] * y[b], a, b),
    Sum(x[a] ** 2 * y[b] ** 2 + x[b] ** 2 * y[a] ** 2 - 2 * x[a] * y[b] * x[b] * y[a], a, b) / 2,
    gap,
    because=["products of sums are double sums", "half of the sum with a and b exchanged", "a square multiplied out"],
)  # fmt: skip

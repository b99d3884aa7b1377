"""The inverse and the determinant of a matrix of any size, through the equations that define them.

The inverse B of A is what A B = I = B A say it is. Differentiating A B = I along a direction gives dA B + A dB = 0, and
from that dB = -B dA B: this is proved here, with the three equations as hypotheses and no formula for B's entries.
For a loss with gradient G with respect to B the gradient with respect to A is therefore -B^T G B^T.

For the determinant Jacobi's formula, d det A = det A tr(B dA), is an assumption about the number det A. That
d log det A = tr(B dA) follows from it, so the gradient of log det A is B^T = A^-T. Magnus and Neudecker 1988.
"""

from sympy import Eq, log

from derive.language import Sum, delta, dims, indices, scalar, tensors
from derive.matrices import matrices
from derive.program import Program

n = dims("n")[0]
i, j, k, l = indices("i j k l", n)
A, B, tA, tB, G = tensors("A B tA tB G", n, n)
mA, mB, mtA, mtB, mG = matrices(A, B, tA, tB, G)
left_inverse = Eq(Sum(B[i, j] * A[j, k], j), delta(i, k))
right_inverse = Eq(Sum(A[i, j] * B[j, k], j), delta(i, k))
differentiated = Eq(Sum(A[i, j] * tB[j, k], j), -Sum(tA[i, j] * B[j, k], j))

# The defining equation and its tangent: what the third hypothesis says is derived, not put in.
equation = Program("inverse_equation", "A B, along a direction", [A, B])
product = equation.define("product", [i, k], Sum(A[i, j] * B[j, k], j))
along = equation.tangent(product)
along.claim(
    "inverse-tangent", along["tproduct"][i, k], Sum(A[i, j] * tB[j, k], j) + Sum(tA[i, j] * B[j, k], j),
    name="d(A B) = A dB + dA B, which is 0 where A B = I along the way",
)  # fmt: skip

inverse = Program("inverse", "differential of the inverse", [A, B, tA, tB, G])
inverse.claim("inverse.1", tB[i, l], Sum(delta(i, k) * tB[k, l], k), name="dB = I dB")
inverse.claim(
    "inverse.2", Sum(delta(i, k) * tB[k, l], k), Sum(B[i, j] * A[j, k] * tB[k, l], j, k), given=[left_inverse],
    name="I = B A",
)  # fmt: skip
inverse.claim(
    "inverse.3", Sum(B[i, j] * A[j, k] * tB[k, l], j, k), -Sum(B[i, j] * tA[j, k] * B[k, l], j, k),
    given=[differentiated], assuming=["B is the inverse of A all along the way"], name="A dB = -dA B",
)  # fmt: skip
inverse.claim(
    "inverse-gradient", Sum(G[i, l] * -Sum(B[i, j] * tA[j, k] * B[k, l], j, k), i, l),
    Sum((-(mB.T @ mG @ mB.T))[j, k] * tA[j, k], j, k), name="so the gradient for A is -B^T G B^T",
)  # fmt: skip
inverse.claim(
    "inverse-solve", Sum(A[i, j] * Sum(B[j, k] * G[k, l], k), j), G[i, l], given=[right_inverse],
    name="B G solves A Y = G",
)  # fmt: skip
inverse.claim(
    "inverse-unique", Sum(B[i, j] * Sum(A[j, k] * G[k, l], k), j), G[i, l], given=[left_inverse],
    name="and is the only solution",
)  # fmt: skip

# The determinant: a positive number det whose differential is given by Jacobi's formula.
det, tdet = scalar("det", positive=True), scalar("tdet")
jacobi = Eq(tdet, det * Sum(B[i, j] * tA[j, i], i, j))
JACOBI = ["Jacobi's formula: d det A = det A tr(A^-1 dA)", "det A > 0"]
determinant = Program("determinant", "differential of log det", [A, B, tA, det, tdet])
logarithm = determinant.define("logarithm", [], log(det))
log_along = determinant.tangent(logarithm, [det], prefix="d")
log_along.claim("logdet-chain", log_along["dlogarithm"], log_along["ddet"] / det, name="d log det = d det / det")
determinant.steps(
    "logdet",
    tdet / det,
    Sum(B[i, j] * tA[j, i], i, j),
    Sum(mB.T[j, i] * tA[j, i], j, i),
    because=["Jacobi's formula", "an inner product with A^-T, which is therefore the gradient"],
    given=[jacobi],
    assuming=JACOBI,
)

"""Matrix calculus for every size: gradients of traces, quadratic forms and norms. Magnus and Neudecker 1988.

A gradient has the shape of its variable. So d tr(A X B)/dX is A^T B^T; B A is its transpose, the layout of a Jacobian,
and for a rectangular X not even of the right size.

    tr(A X B)        A^T B^T                      x^T S x + w^T x    (S + S^T) x + w
    tr(X^T P X D)    P X D + P^T X D^T            |x|                x / |x|
    tr(X^T P X)      (P + P^T) X                  |S|_F^2            2 S
    tr(S^2 Q)        (S Q + Q S)^T                (tr(I - S))^2      -2 (n - tr S) I
"""

from sympy import Eq, Expr, sqrt

from derive.gradient import Gradient
from derive.language import Sum, delta, dims, index, indices, scalar, tensor, tensors
from derive.matrices import matrices, matrix
from derive.program import Program

m, n, p, q = dims("m n p q")
a, b = indices("a b", m)
i, j, k, l = indices("i j k l", n)
r, t = index("r", p), index("t", q)


def gradient_of(name: str, title: str, value: Expr) -> Gradient:
    """The gradient of a scalar expression, which is the definition f of a program of its own."""
    program = Program(name, title, origin=__name__)
    return program.gradient(program.define("f", [], value))


# ---------------------------------------------------------------------------------------------------------------------
# Traces.

A, X, B = tensor("A", p, m), tensor("X", m, n), tensor("B", n, p)
mA, mX, mB = matrices(A, X, B)
linear = gradient_of("trace_axb", "tr(A X B)", Sum(A[r, a] * X[a, i] * B[i, r], r, a, i))
linear.claim("trace-axb", matrix(linear["dX"]), mA.T @ mB.T * linear["df"], name="A^T B^T, of the shape of X")
linear.claim("trace-axb", matrix(linear["dX"]), (mB @ mA).T * linear["df"], name="B A is the transposed layout")
linear.steps(
    "trace-axb-chain", linear["dX"][a, i],
    linear["df"] * Sum(A[r, b] * delta(a, b) * delta(i, j) * B[j, r], r, b, j),
    linear["df"] * Sum(A[r, a] * B[i, r], r),
    linear["df"] * (mA.T @ mB.T)[a, i],
    because=["dX[b, j] / dX[a, i] is a product of deltas", "the deltas contract", "the entry of A^T B^T"],
)  # fmt: skip

P, D = tensor("P", m, m), tensor("D", n, n)
mP, mD = matrices(P, D)
quadratic = gradient_of("trace_xpxd", "tr(X^T P X D)", Sum(X[a, i] * P[a, b] * X[b, j] * D[j, i], a, b, i, j))
quadratic.claim(
    "trace-xpxd", matrix(quadratic["dX"]), (mP @ mX @ mD + mP.T @ mX @ mD.T) * quadratic["df"], name="P X D + P^T X D^T"
)
quadratic.claim(
    "trace-xpxd-symmetric", matrix(quadratic["dX"]), (mP + mP.T) @ mX @ mD * quadratic["df"],
    given=[Eq(D[k, l], D[l, k])], name="(P + P^T) X D, where D is symmetric",
)  # fmt: skip
form = gradient_of("trace_xpx", "tr(X^T P X)", Sum(X[a, i] * P[a, b] * X[b, i], a, b, i))
form.claim("trace-xpx", matrix(form["dX"]), (mP + mP.T) @ mX * form["df"], name="(P + P^T) X")

F, G, M, R = tensor("F", p, m), tensor("G", p, m), tensor("M", n, q), tensor("R", n, q)
mF, mG, mM, mR = matrices(F, G, M, R)
E = mF.T @ mG
product = gradient_of(
    "trace_products", "tr((F X M)^T G X R)",
    Sum(F[r, a] * X[a, i] * M[i, t] * G[r, b] * X[b, j] * R[j, t], r, t, a, b, i, j),
)  # fmt: skip
product.claim(
    "trace-products", matrix(product["dX"]), (E @ mX @ mR @ mM.T + E.T @ mX @ mM @ mR.T) * product["df"],
    name="E X R M^T + E^T X M R^T, with E = F^T G",
)  # fmt: skip

S, Q, W = tensors("S Q W", n, n)
mS, mQ, mW = matrices(S, Q, W)
twice = gradient_of("trace_sqsw", "tr(S Q S^T W)", Sum(S[i, j] * Q[j, k] * S[l, k] * W[l, i], i, j, k, l))
twice.claim(
    "trace-sqsw",
    matrix(twice["dS"]),
    (mW @ mS @ mQ + mW.T @ mS @ mQ.T) * twice["df"],
    name="W S Q + W^T S Q^T: two terms",
)
square = gradient_of("trace_square", "tr(S^2 Q)", Sum(S[i, j] * S[j, k] * Q[k, i], i, j, k))
square.claim("trace-square", matrix(square["dS"]), (mS @ mQ + mQ @ mS).T * square["df"], name="(S Q + Q S)^T")

offset = scalar("offset")
sums = gradient_of("trace_sums", "tr(S^T S) + tr(Q^T Q) - offset", Sum(S[i, j] ** 2 + Q[i, j] ** 2, i, j) - offset)
sums.claim("trace-sums", sums["dS"][i, j], 2 * S[i, j] * sums["df"], name="2 S; what is added does not matter")
power = gradient_of("trace_power", "(tr(I - S))^2", Sum(1 - S[i, i], i) ** 2)
power.steps(
    "trace-power",
    power["dS"][i, j],
    power["df"] * 2 * Sum(1 - S[k, k], k) * -delta(i, j),
    -2 * (n - Sum(S[k, k], k)) * delta(i, j) * power["df"],
    because=["chain rule, with d tr(I - S)/dS = -I", "tr(I) = n"],
)
scaled = Program("trace_scaled", "tr(S) S", [S])
Y = scaled.define("Y", [i, j], Sum(S[k, k], k) * S[i, j])
rank_four = scaled.jacobian(Y, S)
u, v = indices("u v", n)
rank_four.claim(
    "trace-scaled", rank_four["dY_dS"][i, j, u, v], delta(u, v) * S[i, j] + Sum(S[k, k], k) * delta(i, u) * delta(j, v),
    name="rank four: the factor tr(S) is differentiated as well",
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# Quadratic forms and norms.

x, w = tensor("x", n), tensor("w", n)
bilinear = gradient_of("quadratic_form", "x^T S x + w^T x", Sum(x[i] * S[i, j] * x[j], i, j) + Sum(w[i] * x[i], i))
bilinear.claim(
    "quadratic-form", bilinear["dx"][i], bilinear["df"] * (Sum((S[i, j] + S[j, i]) * x[j], j) + w[i]),
    name="(S + S^T) x + w",
)  # fmt: skip
bilinear.steps(
    "quadratic-form-chain", bilinear["dx"][i],
    bilinear["df"] * (Sum(delta(i, k) * S[k, j] * x[j] + x[k] * S[k, j] * delta(i, j), k, j) + w[i]),
    bilinear["df"] * (Sum(S[i, j] * x[j], j) + Sum(x[k] * S[k, i], k) + w[i]),
    bilinear["df"] * (Sum((S[i, j] + S[j, i]) * x[j], j) + w[i]),
    because=["x stands in two places: product rule", "the deltas contract", "S x + S^T x, as one sum"],
)  # fmt: skip
curvature = bilinear.jacobian(bilinear["dx"], x, "H")
curvature.claim("quadratic-hessian", curvature["H"][i, j], curvature["df"] * (S[i, j] + S[j, i]), name="S + S^T")

norms = Program("vector_norm", "norm and unit vector", [x])
size = norms.define("size", [], sqrt(Sum(x[i] ** 2, i)))
unit = norms.define("unit", [i], x[i] / size)
squared = norms.define("squared", [], size**2)
norm_backward = norms.gradient(size)
norm_backward.claim("norm", norm_backward["dx"][i], norm_backward["dsize"] * x[i] / size, name="x / |x|, where x != 0")
norms.claim("norm-squared", squared, Sum(x[i] ** 2, i), name="|x|^2 is the sum of squares, smooth everywhere")
tangential = norms.jacobian(unit, x)
tangential.claim(
    "unit-vector", tangential["dunit_dx"][i, j], (delta(i, j) - unit[i] * unit[j]) / size, name="(I - u u^T) / |x|"
)
tangential.claim("unit-tangential", Sum(unit[i] * tangential["dunit_dx"][i, j], i), 0, name="which is orthogonal to u")

scaling = Program("vector_inversion", "x / |x|^2", [x])
norm2 = Sum(x[k] ** 2, k)
inverted = scaling.define("inverted", [i], x[i] / norm2)
inversion = scaling.jacobian(inverted, x)
inversion.claim(
    "inversion", inversion["dinverted_dx"][i, j], delta(i, j) / norm2 - 2 * x[i] * x[j] / norm2**2,
    name="I / s - 2 x x^T / s^2: the denominator is differentiated too",
)  # fmt: skip

"""Why the scores of attention are divided by sqrt(d_k): claims B8 and B9.

B8 states the shapes: T_q queries and T_k keys of size d_k, T_k values of size d_v, each a projection of its input.
B9 has two halves. For independent entries with mean 0 and variance 1 the score q . k has variance d_k, and variance 1
after the division. And where scores grow without bound, softmax tends to a one-hot row and every entry of its Jacobian
tends to 0, provided the maximum of the row is unique. Vaswani et al. 2017, section 3.2.1.
"""

from sympy import Eq, Expr, Or, sqrt

from derive.functions import softmax
from derive.language import Sum, delta, dims, index, indices, scalar, tensor
from derive.matrices import matrices, matrix, row_softmax
from derive.operators import expectation, limit, variance_over
from derive.program import Program
from derive.rules.expectation import Moments
from derive.rules.limits import Decay, LimitOfDecays

# ---------------------------------------------------------------------------------------------------------------------
# B8.

T_q, T_k, d_x, d_k, d_v = dims("T_q T_k d_x d_k d_v")
i, j = index("i", T_q), index("j", T_k)
c, a, e = index("c", d_x), index("a", d_k), index("e", d_v)
X, Y = tensor("X", T_q, d_x), tensor("Y", T_k, d_x)
W_Q, W_K, W_V = tensor("W_Q", d_x, d_k), tensor("W_K", d_x, d_k), tensor("W_V", d_x, d_v)

projections = Program("attention_of_projections", "attention of projected inputs", [X, Y, W_Q, W_K, W_V])
Q = projections.define("Q", [i, a], Sum(X[i, c] * W_Q[c, a], c))
K = projections.define("K", [j, a], Sum(Y[j, c] * W_K[c, a], c))
V = projections.define("V", [j, e], Sum(Y[j, c] * W_V[c, e], c))
S = projections.define("S", [i, j], Sum(Q[i, a] * K[j, a], a) / sqrt(d_k))
A = projections.define("A", [i, j], softmax(S[i, j], over=j))
O = projections.define("O", [i, e], Sum(A[i, j] * V[j, e], j))
mX, mY, mW_Q, mW_K, mW_V = matrices(X, Y, W_Q, W_K, W_V)
projections.claim(
    "B8", matrix(O), row_softmax(matrix(Q) @ matrix(K).T / sqrt(d_k)) @ matrix(V),
    name="O = softmax(Q K^T / sqrt(d_k)) V, of shape T_q x d_v",
)  # fmt: skip
projections.claim(
    "B8", matrix(O), row_softmax((mX @ mW_Q) @ (mY @ mW_K).T / sqrt(d_k)) @ (mY @ mW_V),
    name="with Q = X W_Q, K = Y W_K, V = Y W_V",
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# B9, the variance of a score.

q, k = tensor("q", d_k), tensor("k", d_k)
score = Sum(q[a] * k[a], a)

variances = Program("score_variance", "the variance of a score", [q, k])
variances.claim("B9", expectation(score, over=[q, k]), 0, name="q . k has mean 0", by=Moments())
variances.claim("B9", variance_over(score, over=[q, k]), d_k, name="q . k has variance d_k", by=Moments())
variances.claim(
    "B9", variance_over(score / sqrt(d_k), over=[q, k]), 1, name="q . k / sqrt(d_k) has variance 1", by=Moments()
)

# ---------------------------------------------------------------------------------------------------------------------
# B9, saturation. In row r the largest of the scores s is the one at top[r]; all are multiplied by a growing g.

R, M = dims("R M")
r = index("r", R)
m, n, l = indices("m n l", M)
s = tensor("s", R, M)
top = tensor("top", R, into=M)
g = scalar("g", positive=True)

saturation = Program("softmax_saturation", "softmax and its Jacobian at large scores", [s, g])
z = saturation.define("z", [r, m], g * s[r, m])
p = saturation.define("p", [r, m], softmax(z[r, m], over=m))
jacobian = saturation.derivative(p[r, m], z[r, n])

# Divided by its largest term, softmax is a quotient of decays exp(-g (s[top] - s[l])).
decaying = tensor("decaying", R, M)
decay = Decay(decaying, (r, l), gap=s[r, top[r]] - s[r, l], vanishes=delta(l, top[r]))
unique = [Or(Eq(l, top[r]), s[r, l] < s[r, top[r]])]  # for all l


def share(at: Expr) -> Expr:
    """The softmax weight at a position, in decaying quantities."""
    return decaying[r, at] / Sum(decaying[r, l], l)


saturation.claim(
    "B9", limit(p[r, m], of=g), delta(m, top[r]), name="softmax tends to a one-hot row", given=unique,
    assuming=["the maximum of the row is unique"], by=LimitOfDecays(share(m), (decay,)),
)  # fmt: skip
saturation.claim(
    "B9", limit(jacobian, of=g), 0, name="every entry of the softmax Jacobian tends to 0", given=unique,
    assuming=["the maximum of the row is unique"], by=LimitOfDecays(share(m) * (delta(m, n) - share(n)), (decay,)),
)  # fmt: skip

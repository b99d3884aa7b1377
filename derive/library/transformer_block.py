"""A whole pre-norm Transformer block as one program: attention, then feed-forward, each on a residual path.

    u = x + W_O attention(norm(x)),    y = u + W_2 GELU(W_1 norm(u) + b_1) + b_2

Nothing in the gradient is stated: every adjoint, through both norms, all heads and both residual sums, is derived from
these definitions, and a few of them are claimed here in the form a reader knows. Xiong et al. 2020 (pre-norm).
"""

from sympy import Expr, Rational, erf, exp, pi, sqrt

from derive.functions import mean, softmax
from derive.language import Sum, dims, flag, implies, index, indices, leading_index, scalar, tensor
from derive.program import Program

N, T, C, H, D, F = dims("N T C H D F")
n = leading_index("n", N)
i, j = indices("i j", T)
c = index("c", C)
h = index("h", H)
a = index("a", D)
f = index("f", F)
x = tensor("x", N, T, C)
gamma_1, beta_1, gamma_2, beta_2 = (tensor(name, C) for name in ("gamma_1", "beta_1", "gamma_2", "beta_2"))
W_Q, W_K, W_V = tensor("W_Q", H, D, C), tensor("W_K", H, D, C), tensor("W_V", H, D, C)
W_O, W_1, b_1 = tensor("W_O", C, H, D), tensor("W_1", F, C), tensor("b_1", F)
W_2, b_2 = tensor("W_2", C, F), tensor("b_2", C)
eps, causal = scalar("eps", positive=True), flag("causal")
PARAMETERS = [gamma_1, beta_1, W_Q, W_K, W_V, W_O, gamma_2, beta_2, W_1, b_1, W_2, b_2]

block = Program("transformer_block", "pre-norm Transformer block", [x, *PARAMETERS, eps, causal])
mu_1 = block.define("mu_1", [n, i], mean(x[n, i, c], over=c))
xc_1 = block.define("xc_1", [n, i, c], x[n, i, c] - mu_1[n, i])
r_1 = block.define("r_1", [n, i], (mean(xc_1[n, i, c] ** 2, over=c) + eps) ** Rational(-1, 2))
xhat_1 = block.define("xhat_1", [n, i, c], xc_1[n, i, c] * r_1[n, i])
z_1 = block.define("z_1", [n, i, c], xhat_1[n, i, c] * gamma_1[c] + beta_1[c])
Q = block.define("Q", [n, h, i, a], Sum(z_1[n, i, c] * W_Q[h, a, c], c))
K = block.define("K", [n, h, j, a], Sum(z_1[n, j, c] * W_K[h, a, c], c))
V = block.define("V", [n, h, j, a], Sum(z_1[n, j, c] * W_V[h, a, c], c))
S = block.define("S", [n, h, i, j], Sum(Q[n, h, i, a] * K[n, h, j, a], a) / sqrt(D))
A = block.define("A", [n, h, i, j], softmax(S[n, h, i, j], over=j, where=implies(causal, j <= i)))
O = block.define("O", [n, h, i, a], Sum(A[n, h, i, j] * V[n, h, j, a], j))
u = block.define("u", [n, i, c], x[n, i, c] + Sum(O[n, h, i, a] * W_O[c, h, a], h, a))
mu_2 = block.define("mu_2", [n, i], mean(u[n, i, c], over=c))
xc_2 = block.define("xc_2", [n, i, c], u[n, i, c] - mu_2[n, i])
r_2 = block.define("r_2", [n, i], (mean(xc_2[n, i, c] ** 2, over=c) + eps) ** Rational(-1, 2))
xhat_2 = block.define("xhat_2", [n, i, c], xc_2[n, i, c] * r_2[n, i])
z_2 = block.define("z_2", [n, i, c], xhat_2[n, i, c] * gamma_2[c] + beta_2[c])
q = block.define("q", [n, i, f], Sum(z_2[n, i, c] * W_1[f, c], c) + b_1[f])
Phi = block.define("Phi", [n, i, f], (1 + erf(q[n, i, f] / sqrt(2))) / 2)
g = block.define("g", [n, i, f], q[n, i, f] * Phi[n, i, f])
y = block.define("y", [n, i, c], u[n, i, c] + Sum(g[n, i, f] * W_2[c, f], f) + b_2[c])
block.kernel(y, wrt=[x, *PARAMETERS], defaults={eps: 1e-5, causal: True})

backward = block.gradient(y)
dy, du, dx, dO, dA, dS = (backward[name] for name in ("dy", "du", "dx", "dO", "dA", "dS"))
dQ, dK, dV, dq, dz_1, dz_2, dxc_2 = (backward[name] for name in ("dQ", "dK", "dV", "dq", "dz_1", "dz_2", "dxc_2"))


def through_norm(gradient: Expr, normalised: Expr, root: Expr) -> Expr:
    """What a layer norm makes of the gradient of its normalised rows."""
    return root * (gradient - mean(gradient, over=c) - normalised * mean(gradient * normalised, over=c))


backward.claim("transformer-dW_2", backward["dW_2"][c, f], Sum(dy[n, i, c] * g[n, i, f], n, i), name="dW_2 = dy^T g")
backward.claim("transformer-dW_1", backward["dW_1"][f, c], Sum(dq[n, i, f] * z_2[n, i, c], n, i), name="dW_1 = dq^T z")
backward.claim("transformer-dW_O", backward["dW_O"][c, h, a], Sum(du[n, i, c] * O[n, h, i, a], n, i), name="du^T O")
backward.claim("transformer-dW_K", backward["dW_K"][h, a, c], Sum(dK[n, h, i, a] * z_1[n, i, c], n, i), name="dK^T z")
backward.claim(
    "transformer-dS", dS[n, h, i, j],
    A[n, h, i, j] * (Sum(dO[n, h, i, a] * V[n, h, j, a], a) - Sum(dO[n, h, i, a] * O[n, h, i, a], a)),
    name="dS = A * (dO V^T - row_sum(dO * O)) in every head",
)  # fmt: skip
backward.claim(
    "transformer-dz_1", dz_1[n, i, c],
    Sum(dQ[n, h, i, a] * W_Q[h, a, c] + dK[n, h, i, a] * W_K[h, a, c] + dV[n, h, i, a] * W_V[h, a, c], h, a),
    name="queries, keys and values send back to the same rows",
)  # fmt: skip
backward.claim(
    "transformer-dgamma_2", backward["dgamma_2"][c], Sum(dz_2[n, i, c] * xhat_2[n, i, c], n, i),
    name="dgamma = sum dz xhat",
)  # fmt: skip
dxhat_2 = dz_2[n, i, c] * gamma_2[c]
backward.steps(
    "transformer-centred",
    dxc_2[n, i, c],
    r_2[n, i] * dxhat_2 - r_2[n, i] ** 3 * xc_2[n, i, c] * mean(dxhat_2 * xc_2[n, i, c], over=c),
    r_2[n, i] * (dxhat_2 - xhat_2[n, i, c] * mean(dxhat_2 * xhat_2[n, i, c], over=c)),
    because=["through xhat = xc r directly, and through r", "xhat = r xc"],
)
backward.claim(
    "transformer-du", du[n, i, c], dy[n, i, c] + through_norm(dxhat_2, xhat_2[n, i, c], r_2[n, i]),
    name="the feed-forward half: the residual path adds dy to what comes through the norm",
)  # fmt: skip
backward.claim(
    "transformer-dx", dx[n, i, c], du[n, i, c] + through_norm(dz_1[n, i, c] * gamma_1[c], xhat_1[n, i, c], r_1[n, i]),
    name="the attention half: the residual path adds du",
)  # fmt: skip
backward.claim(
    "transformer-dq", dq[n, i, f],
    Sum(dy[n, i, c] * W_2[c, f], c)
    * (Phi[n, i, f] + q[n, i, f] * exp(-(q[n, i, f] ** 2) / 2) / sqrt(2 * pi)),
    name="dq = dy W_2 * GELU'(q)",
)  # fmt: skip

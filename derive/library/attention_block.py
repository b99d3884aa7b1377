"""The pre-norm residual attention block of a Transformer, heads included, as one statement.

    y = x + concatenated heads of attention(norm(x)), projected

Heads are an index like any other: W_Q[h, a, c] maps channel c to component a of head h. Everything that training needs
from this block, the residual sum of gradients included, is derived from this one program.
"""

from sympy import Rational, sqrt

from derive.functions import mean, softmax
from derive.language import Sum, dims, flag, implies, index, indices, leading_index, scalar, tensor
from derive.program import Program

N, T, C, H, D = dims("N T C H D")
n = leading_index("n", N)
i, j = indices("i j", T)
c = index("c", C)
h = index("h", H)
a = index("a", D)
x, gamma, beta = tensor("x", N, T, C), tensor("gamma", C), tensor("beta", C)
W_Q, W_K, W_V = tensor("W_Q", H, D, C), tensor("W_K", H, D, C), tensor("W_V", H, D, C)
W_O = tensor("W_O", C, H, D)
eps = scalar("eps", positive=True)
causal = flag("causal")

attention_block = Program(
    "attention_block", "pre-norm residual attention block", [x, gamma, beta, W_Q, W_K, W_V, W_O, eps, causal]
)
mu = attention_block.define("mu", [n, i], mean(x[n, i, c], over=c))
xc = attention_block.define("xc", [n, i, c], x[n, i, c] - mu[n, i])
r = attention_block.define("r", [n, i], (mean(xc[n, i, c] ** 2, over=c) + eps) ** Rational(-1, 2))
xhat = attention_block.define("xhat", [n, i, c], xc[n, i, c] * r[n, i])
z = attention_block.define("z", [n, i, c], xhat[n, i, c] * gamma[c] + beta[c])
Q = attention_block.define("Q", [n, h, i, a], Sum(z[n, i, c] * W_Q[h, a, c], c))
K = attention_block.define("K", [n, h, j, a], Sum(z[n, j, c] * W_K[h, a, c], c))
V = attention_block.define("V", [n, h, j, a], Sum(z[n, j, c] * W_V[h, a, c], c))
S = attention_block.define("S", [n, h, i, j], Sum(Q[n, h, i, a] * K[n, h, j, a], a) / sqrt(D))
A = attention_block.define("A", [n, h, i, j], softmax(S[n, h, i, j], over=j, where=implies(causal, j <= i)))
O = attention_block.define("O", [n, h, i, a], Sum(A[n, h, i, j] * V[n, h, j, a], j))
y = attention_block.define("y", [n, i, c], x[n, i, c] + Sum(O[n, h, i, a] * W_O[c, h, a], h, a))
attention_block.kernel(y, wrt=[x, gamma, beta, W_Q, W_K, W_V, W_O], defaults={eps: 1e-5, causal: True})

backward = attention_block.gradient(y)
dy, dQ, dz = backward["dy"], backward["dQ"], backward["dz"]
dA = backward["dA"]
backward.claim("block-dW_O", backward["dW_O"][c, h, a], Sum(dy[n, i, c] * O[n, h, i, a], n, i), name="dW_O = dy^T O")
backward.claim("block-dW_Q", backward["dW_Q"][h, a, c], Sum(dQ[n, h, i, a] * z[n, i, c], n, i), name="dW_Q = dQ^T z")
backward.claim(
    "block-dS", backward["dS"][n, h, i, j],
    A[n, h, i, j] * (dA[n, h, i, j] - Sum(backward["dO"][n, h, i, a] * O[n, h, i, a], a)),
    name="dS = A * (dA - row_sum(dO * O))",
)  # fmt: skip
backward.claim(
    "block-dx", backward["dx"][n, i, c],
    dy[n, i, c] + r[n, i] * (dz[n, i, c] * gamma[c] - mean(dz[n, i, c] * gamma[c], over=c)
                             - xhat[n, i, c] * mean(dz[n, i, c] * gamma[c] * xhat[n, i, c], over=c)),
    name="the residual path adds dy",
)  # fmt: skip

backward.steps(
    "block-chain", backward["dW_V"][h, a, c],
    Sum(backward["dV"][n, h, j, a] * z[n, j, c], n, j),
    Sum(A[n, h, i, j] * backward["dO"][n, h, i, a] * z[n, j, c], n, i, j),
    Sum(Sum(A[n, h, i, j] * z[n, j, c], j) * backward["dO"][n, h, i, a], n, i),
    because=["dW_V = dV^T z", "dV = A^T dO", "the sum over keys taken first: A z"],
)  # fmt: skip

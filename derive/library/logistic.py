"""Logistic and softmax regression: gradient and Hessian of the negative log-likelihood. Murphy 2012, section 8.3.

    NLL = Sum_i softplus(u_i) - y_i u_i,   u = X theta,   gradient X^T (s - y),   H = X^T diag(s (1 - s)) X

The labels do not occur in the Hessian. With several classes, mu_i = softmax(W x_i), it is the sum over samples of a
covariance times x x^T: positive semi-definite and never definite, because one vector added to the weights of every
class changes nothing.
"""

from derive.functions import logsumexp, sigmoid, softmax, softplus
from derive.language import Sum, delta, dims, index, indices, leading_index, tensor
from derive.program import Program

N, d, C = dims("N d C")
i = index("i", N)
a, b, f = indices("a b f", d)
c, e, k = indices("c e k", C)
X, y, theta = tensor("X", N, d), tensor("y", N), tensor("theta", d)

logistic = Program("logistic", "negative log-likelihood of logistic regression", [X, y, theta])
u = logistic.define("u", [i], Sum(X[i, a] * theta[a], a))
loss = logistic.define("loss", [], Sum(softplus(u[i]) - y[i] * u[i], i))
logistic.kernel(loss, wrt=[theta])

backward = logistic.gradient(loss)
dtheta, dloss = backward["dtheta"], backward["dloss"]
backward.claim("logistic-gradient", dtheta[a], dloss * Sum(X[i, a] * (sigmoid(u[i]) - y[i]), i), name="X^T (s - y)")
second = backward.gradient(dtheta, [theta], prefix="h")
second.claim(
    "logistic-hessian-vector", second["htheta"][b],
    dloss * Sum(X[i, b] * sigmoid(u[i]) * (1 - sigmoid(u[i])) * Sum(X[i, a] * second["hdtheta"][a], a), i),
    name="H v = X^T diag(s (1 - s)) X v",
)  # fmt: skip

# The Hessian as a kernel, with any leading dimensions.
B = dims("B")[0]
r = leading_index("r", B)
rX, rtheta = tensor("X", B, N, d), tensor("theta", B, d)
curvature = Program("logistic_hessian", "Hessian of logistic regression", [rX, rtheta])
scores = curvature.define("u", [r, i], Sum(rX[r, i, a] * rtheta[r, a], a))
s = curvature.define("s", [r, i], sigmoid(scores[r, i]))
H = curvature.define("H", [r, a, b], Sum(s[r, i] * (1 - s[r, i]) * rX[r, i, a] * rX[r, i, b], i))
curvature.kernel(H)
slope = curvature.derivative(Sum(rX[r, i, a] * (s[r, i] - y[i]), i), rtheta[r, b])
curvature.claim("logistic-hessian", slope, H[r, a, b], name="the derivative of the gradient; no label is left in it")

# Several classes.
W, label, direction = tensor("W", C, d), tensor("label", N, into=C), tensor("direction", C, d)
regression = Program("softmax_regression", "negative log-likelihood of softmax regression", [X, label, W])
U = regression.define("u", [i, c], Sum(W[c, a] * X[i, a], a))
L = regression.define("L", [i], logsumexp(U[i, c], over=c))
nll = regression.define("loss", [], Sum(L[i] - U[i, label[i]], i))
regression.kernel(nll, wrt=[W])
classes_backward = regression.gradient(nll)
dW = classes_backward["dW"]
classes_backward.claim(
    "softmax-regression-gradient", dW[c, a],
    classes_backward["dloss"] * Sum((softmax(U[i, c], over=c) - delta(c, label[i])) * X[i, a], i),
    name="Sum (mu - y) x",
)  # fmt: skip

rW = tensor("W", B, C, d)
classes = Program("softmax_regression_hessian", "Hessian of softmax regression", [rX, rW])
V = classes.define("u", [r, i, c], Sum(rW[r, c, a] * rX[r, i, a], a))
mu = classes.define("mu", [r, i, c], softmax(V[r, i, c], over=c))
cov = classes.define("cov", [r, i, c, e], mu[r, i, c] * (delta(c, e) - mu[r, i, e]))
K = classes.define("H", [r, c, a, e, b], Sum(cov[r, i, c, e] * rX[r, i, a] * rX[r, i, b], i))
classes.kernel(K)
gradient = Sum((mu[r, i, c] - delta(c, label[i])) * rX[r, i, a], i)
classes.claim(
    "softmax-regression-hessian", classes.derivative(gradient, rW[r, e, b]), K[r, c, a, e, b],
    name="Sum mu_c (delta_ce - mu_e) x x^T",
)  # fmt: skip
classes.claim(
    "softmax-regression-null", Sum(K[r, c, a, e, b], e), 0, over=[r, c, a, b],
    name="the same for all classes: no curvature",
)  # fmt: skip
projected = Sum(direction[c, a] * rX[r, i, a], a)
centre = Sum(mu[r, i, k] * direction[k, f] * rX[r, i, f], k, f)
classes.steps(
    "softmax-regression-semidefinite",
    Sum(direction[c, a] * K[r, c, a, e, b] * direction[e, b], c, a, e, b),
    Sum(Sum(mu[r, i, c] * projected**2, c) - centre**2, i),
    Sum(mu[r, i, c] * (projected - centre) ** 2, i, c),
    because=["mean of the square less square of the mean", "a variance for each sample: never negative"],
)

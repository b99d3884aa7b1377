"""Cross entropy is maximum likelihood: the document's first derivation, claims B3 to B7 and C2 to C9.

N samples, sample n of length T[n] (a ragged range), Theta candidate parameters. Q[theta, n, t, v] is the model's
probability of token v at position t of sample n given the tokens before it; x[n, t] is the token that stands there.

The set of maximisers of f is stated as its indicator, argmax(f)[theta] = Product over theta' of [f(theta) >=
f(theta')], so that "the same argmax" is an equality like any other.
"""

from sympy import log

from derive.functions import argmax, argmin
from derive.language import Product, Sum, delta, dims, index, indices, lengths, tensor
from derive.program import Program

N, V, Theta = dims("N V Theta")
T = lengths("T", N)
theta, theta_1 = indices("theta theta_1", Theta)
n = index("n", N)
t = index("t", T[n])
v = index("v", V)
Q = tensor("Q", Theta, N, T, V, positive=True)
x = tensor("x", N, T, into=V)

likelihood = Program("likelihood", "cross entropy is maximum likelihood", [Q, x])
IID = ["the samples are independent and identically distributed (i.i.d.)"]  # what makes the likelihood a product

# C1 and B1: the likelihood is the product over samples of the product over positions.
P = likelihood.define("P", [theta, n], Product(Q[theta, n, t, x[n, t]], t))
Likelihood = likelihood.define("Likelihood", [theta], Product(P[theta, n], n))
LogLikelihood = likelihood.define("LogLikelihood", [theta], Sum(log(P[theta, n]), n))
# C6: cross entropy H(P, Q) = -Sum P log Q of the one-hot distribution, and the total loss.
H = likelihood.define("H", [theta, n, t], -Sum(delta(v, x[n, t]) * log(Q[theta, n, t, v]), v))
Total = likelihood.define("Total", [theta], Sum(H[theta, n, t], n, t))

log_conditionals = Sum(log(Q[theta, n, t, x[n, t]]), n, t)

likelihood.claim(
    "B3", LogLikelihood[theta], log_conditionals, name="log-likelihood is the double sum of log conditionals"
)
likelihood.claim(
    "B4", argmax(Likelihood[theta], over=theta, among=theta_1), argmax(LogLikelihood[theta], over=theta, among=theta_1),
    name="maximising the log-likelihood maximises the likelihood", assuming=IID,
)  # fmt: skip
likelihood.claim(
    "B6", H[theta, n, t], -log(Q[theta, n, t, x[n, t]]), name="one-hot cross entropy is -log P(target)",
    note="with the natural logarithm the unit is nats; bits = nats / ln 2",
)  # fmt: skip
likelihood.claim("B7", Total[theta], -LogLikelihood[theta], name="the total loss is minus the log-likelihood")
likelihood.claim(
    "C2", log(Likelihood[theta]), Sum(log(P[theta, n]), n), name="the log turns the product into a sum", assuming=IID
)
maximisers = argmax(Likelihood[theta], over=theta, among=theta_1)
likelihood.claim(
    "C3", maximisers, argmax(log(Likelihood[theta]), over=theta, among=theta_1),
    name="the maximum-likelihood estimate maximises the log", assuming=IID,
)  # fmt: skip
likelihood.claim("C4", log(Likelihood[theta]), log_conditionals, name="the factorisation inserted", assuming=IID)
likelihood.claim(
    "C5", argmax(LogLikelihood[theta], over=theta, among=theta_1), argmin(-log_conditionals, over=theta, among=theta_1),
    name="the maximiser is the minimiser of the negative",
)  # fmt: skip
likelihood.claim(
    "C8", H[theta, n, t], -log(Q[theta, n, t, x[n, t]]),
    name="cross entropy at a position is the negative log-likelihood there",
)  # fmt: skip
likelihood.claim(
    "C9", Sum(H[theta, n, t], n, t), -log_conditionals, name="total cross entropy is the negative log-likelihood"
)

"""Cross entropy is maximum likelihood: the document's first derivation, claims B1 to B7 and C1 to C9.

N samples, sample n of length T[n] (a ragged range), Theta candidate parameters. Q[theta, n, t, v] is the model's
probability of token v at position t of sample n given the tokens before it; x[n, t] is the token that stands there.

The set of maximisers of f is stated as its indicator, argmax(f)[theta] = Product over theta' of [f(theta) >=
f(theta')], so that "the same argmax" is an equality like any other.
"""

from sympy import Eq, exp, log

from derive.functions import argmax, argmin
from derive.language import Product, Sum, delta, dims, index, indices, iverson, leading_index, lengths, scalar, tensor
from derive.program import Program
from derive.rules.gibbs import Gibbs, GibbsEquality, divergence
from derive.rules.monotone import StrictlyMonotone

N, V, Theta = dims("N V Theta")
T = lengths("T", N)
theta, theta_1 = indices("theta theta_1", Theta)
n = index("n", N)
t = index("t", T[n])
v = index("v", V)
Q = tensor("Q", Theta, N, T, V, positive=True)
x = tensor("x", N, T, into=V)

# ---------------------------------------------------------------------------------------------------------------------
# B1: the chain rule with a length of its own for each sample. F[n, t] is the probability of the first t tokens of
# sample n, so that F[n, 0] = 1.

F = tensor("F", N, T + 1, positive=True)
factorisation = Program("factorisation", "autoregressive factorisation, one length for each sample", [F])
conditional = factorisation.define("conditional", [n, t], F[n, t + 1] / F[n, t])
certain = [Eq(F[n, 0], 1)]
factorisation.claim(
    "B1", Product(conditional[n, t], t), F[n, T[n]], name="a sample's probability is the product of its conditionals",
    given=certain, assuming=["every prefix has positive probability"],
)  # fmt: skip
factorisation.claim(
    "B1", Product(conditional[n, t], n, t), Product(F[n, T[n]], n), name="and so for all samples together",
    given=certain, assuming=["every prefix has positive probability"],
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# B2 to B7 and C1 to C9.

likelihood = Program("likelihood", "cross entropy is maximum likelihood", [Q, x])
IID = ["the samples are independent and identically distributed (i.i.d.)"]  # what makes the likelihood a product

# C1 and B1: the likelihood is the product over samples of the product over positions.
P = likelihood.define("P", [theta, n], Product(Q[theta, n, t, x[n, t]], t))
Likelihood = likelihood.define("Likelihood", [theta], Product(P[theta, n], n))
LogLikelihood = likelihood.define("LogLikelihood", [theta], Sum(log(P[theta, n]), n))
# C6: cross entropy H(P, Q) = -Sum P log Q of the one-hot distribution, and the total loss.
H = likelihood.define("H", [theta, n, t], -Sum(delta(v, x[n, t]) * log(Q[theta, n, t, v]), v))
Total = likelihood.define("Total", [theta], Sum(H[theta, n, t], n, t))
# B2 and C3: the maximum-likelihood estimate, as the indicator of the set of maximisers.
MLE = likelihood.define("MLE", [theta], argmax(LogLikelihood[theta], over=theta, among=theta_1))

SYMBOL = (
    "the text writes L(theta; D) for the log-likelihood in part two and for the likelihood in part three, step 1; they "
    "are two functions, here LogLikelihood and Likelihood"
)
UNIT = "with the natural logarithm the unit is nats, where the text says bits; bits = nats / ln 2"

log_conditionals = Sum(log(Q[theta, n, t, x[n, t]]), n, t)

likelihood.claim(
    "notation", log(Likelihood[theta]), LogLikelihood[theta],
    name="what the text calls L(theta; D) is twice defined: the one is the log of the other", assuming=IID, note=SYMBOL,
)  # fmt: skip
likelihood.claim(
    "B2", MLE[theta], argmax(Sum(log(P[theta, n]), n), over=theta, among=theta_1),
    name="the estimate maximises the log-likelihood", assuming=IID, note=SYMBOL,
)  # fmt: skip
likelihood.claim(
    "B3", LogLikelihood[theta], log_conditionals, name="log-likelihood is the double sum of log conditionals"
)
likelihood.claim(
    "B4", argmax(Likelihood[theta], over=theta, among=theta_1), argmax(LogLikelihood[theta], over=theta, among=theta_1),
    name="maximising the log-likelihood maximises the likelihood", assuming=IID,
)  # fmt: skip
likelihood.claim(
    "B6", H[theta, n, t], -log(Q[theta, n, t, x[n, t]]), name="one-hot cross entropy is -log P(target)",
    note=UNIT,
)  # fmt: skip
likelihood.claim("B7", Total[theta], -LogLikelihood[theta], name="the total loss is minus the log-likelihood")
likelihood.claim(
    "C1", Likelihood[theta], Product(Product(Q[theta, n, t, x[n, t]], t), n),
    name="the likelihood of an i.i.d. sample is the product", assuming=IID, note=SYMBOL,
)  # fmt: skip
likelihood.claim(
    "C2", log(Likelihood[theta]), Sum(log(P[theta, n]), n), name="the log turns the product into a sum", assuming=IID
)
w = scalar("w", positive=True)
likelihood.claim(
    "C3", argmax(Likelihood[theta], over=theta, among=theta_1), MLE[theta],
    name="the maximiser of the likelihood is the maximum-likelihood estimate", assuming=IID,
)  # fmt: skip
likelihood.claim(
    "C3", argmax(log(Likelihood[theta]), over=theta, among=theta_1),
    argmax(Likelihood[theta], over=theta, among=theta_1),
    name="because log is strictly increasing", assuming=IID,
    by=StrictlyMonotone(log(w), w, Likelihood[theta], theta, theta_1),
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
likelihood.steps(
    "C9", Total[theta], Sum(-log(Q[theta, n, t, x[n, t]]), n, t), -Sum(log(P[theta, n]), n), -log(Likelihood[theta]),
    because=["one-hot targets", "a sample's probability is a product", "the likelihood is a product"], assuming=IID,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# B5: why one works with the log. The kernel computes both; of T conditionals q, the product is q^T, which is below the
# smallest floating-point number from some length on, and the log is T log q.

Samples, Tokens = dims("Samples Tokens")
row = leading_index("row", Samples)
s = index("s", Tokens)
each = tensor("conditional", Samples, Tokens, positive=True)
q = scalar("q", positive=True)

sequence = Program("sequence_probability", "probability of sequences, as a product and as a sum of logs", [each])
probability = sequence.define("probability", [row], Product(each[row, s], s))
log_probability = sequence.define("log_probability", [row], Sum(log(each[row, s]), s))
sequence.kernel(probability, log_probability)
sequence.claim(
    "B5", exp(log_probability[row]), probability[row], name="the sum of logs is the log of the product",
    note="in numbers: the generated kernel sequence_probability gives 0 for the product at the length found from q^T, "
    "and the right sum of logs, examples/underflow.py",
)  # fmt: skip
sequence.claim("B5", Product(q, s), q**Tokens, name="T equal conditionals multiply to q^T")
sequence.claim("B5", Sum(log(q), s), Tokens * log(q), name="and their logs add up to T log q")

# ---------------------------------------------------------------------------------------------------------------------
# C6 and C7: the cross entropy of two distributions over the vocabulary, and what a smaller one says.

truth, model = tensor("truth", V, positive=True), tensor("model", Theta, V, positive=True)
both = Program("cross_entropy_of_distributions", "cross entropy, entropy and divergence", [truth, model])
cross_entropy = both.define("cross_entropy", [theta], -Sum(truth[v] * log(model[theta, v]), v))
entropy = both.define("entropy", [], -Sum(truth[v] * log(truth[v]), v))
bits = both.define("bits", [theta], -Sum(truth[v] * log(model[theta, v]) / log(2), v))
kl = divergence(truth[v], model[theta, v], v)
distributions = [Eq(Sum(truth[v], v), 1), Eq(Sum(model[theta, v], v), 1)]
FIXED = ["P is fixed, and only Q varies"]

both.claim(
    "C6", cross_entropy[theta], -Sum(truth[v] * log(model[theta, v]), v), name="H(P, Q) = -Sum P log Q", note=UNIT
)
both.claim("C6", bits[theta], cross_entropy[theta] / log(2), name="bits are nats / ln 2")
both.claim("C7", cross_entropy[theta] - entropy, kl, name="H(P, Q) - H(P) = KL(P, Q)", assuming=FIXED)
both.claim_that(
    "C7", cross_entropy[theta] >= entropy, name="and that is at least 0", given=distributions,
    by=Gibbs(truth[v], model[theta, v], v), assuming=FIXED,
)  # fmt: skip
both.claim(
    "C7", iverson(Eq(cross_entropy[theta] - entropy, 0)), Product(iverson(Eq(truth[v], model[theta, v])), v),
    name="and 0 exactly when Q = P", given=distributions, by=GibbsEquality(truth[v], model[theta, v], v),
    assuming=FIXED,
)  # fmt: skip
both.claim(
    "C7", argmin(cross_entropy[theta], over=theta, among=theta_1), argmin(kl, over=theta, among=theta_1),
    name="the smaller H(P, Q), the closer Q is to P", assuming=FIXED,
    note="true for fixed P only: across two P a smaller cross entropy may only mean a smaller entropy",
)  # fmt: skip

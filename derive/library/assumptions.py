"""The document's assumptions, claims A1 to A4: chain rule, universal approximation, kernel smoothing, risk.

A1, the chain rule of probability. F[t] is the probability of the first t tokens, so that F[0] = 1 and the conditional
probability of token t + 1 is F[t + 1] / F[t]; their product telescopes, for every length T.

A2, universal approximation in one dimension, by construction. The nodes a, a + h, ..., a + n h carry the values y of
the target. A ReLU layer with n hidden units, one for each node but the last, is at every x between two nodes equal to
the straight line between them, and within L h / 2 of any target with Lipschitz constant L. See Pinkus 1999, section 3.
A point inside cell m is written as (alpha node[m] + beta node[m + 1]) / (alpha + beta) with positive alpha, beta.

A3, self-attention is a kernel smoother: its weights are positive and sum to 1 (Nadaraya 1964, Watson 1964).

A4, empirical risk minimisation is maximum likelihood: the cross entropy to the empirical distribution is the mean
negative log-likelihood, and differs from the divergence KL(P, Q) >= 0 by a constant.
"""

from sympy import Abs, Eq, Rational, exp, log, sqrt

from derive.functions import argmax, argmin, relu
from derive.language import Product, Sum, delta, dims, index, indices, iverson, leading_index, scalars, tensor
from derive.program import Program
from derive.rules.cases import Case, Cases
from derive.rules.chain import Chain
from derive.rules.gibbs import Gibbs, GibbsEquality, divergence
from derive.rules.induction import Induction
from derive.rules.lemma import Lemmas
from derive.rules.order import Absolute, Bound, Combination

# ---------------------------------------------------------------------------------------------------------------------
# A1.

T = dims("T")[0]
t = index("t", T)
F = tensor("F", T + 1, positive=True)

chain_rule = Program("chain_rule", "the chain rule of probability", [F])
conditional = chain_rule.define("conditional", [t], F[t + 1] / F[t])
certain = [Eq(F[0], 1)]  # the probability of the empty prefix
chain_rule.claim(
    "A1", Product(conditional[t], t), F[T], name="the joint probability is the product of the conditionals",
    given=certain, assuming=["every prefix has positive probability"],
)  # fmt: skip
chain_rule.steps(
    "A1", log(Product(F[t + 1] / F[t], t)), Sum(log(F[t + 1]) - log(F[t]), t), log(F[T]) - log(F[0]), log(F[T]),
    because=["the log of a product", "the sum telescopes", "the empty prefix has probability 1"], given=certain,
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# A2, what the layer computes. The slope in cell k is s[k + 1]; hidden unit k switches on at node k and adds the change
# of slope there, unit 0 all of its slope (s[0] is not used). Any values at the nodes come about in this way.

n = dims("n")[0]
k, m = indices("k m", n)
j = index("j", n + 1)
h, alpha, beta, L = scalars("h alpha beta L", positive=True)
a, y_0 = scalars("a y_0")
s, v = tensor("s", n + 1), tensor("v", n + 1)
f = tensor("f", n)  # the target at x

interpolation = Program("interpolation", "a ReLU layer that interpolates", [a, h, y_0, s, alpha, beta])
node = interpolation.define("node", [j], a + j * h)
y = interpolation.define("y", [j], y_0 + Sum(iverson(k < j) * h * s[k + 1], k))
x = interpolation.define("x", [m], (alpha * node[m] + beta * node[m + 1]) / (alpha + beta))
unit = interpolation.define("unit", [m, j], relu(x[m] - node[j]))
network = interpolation.define("network", [m], y_0 + Sum((s[k + 1] - iverson(k > 0) * s[k]) * unit[m, k], k))

interpolation.claim(
    "A2-values", v[0] + Sum(iverson(k < j) * h * s[k + 1], k), v[j], name="any values at the nodes can be had",
    given=[Eq(h * s[k + 1], v[k + 1] - v[k])], by=Induction(j),
)  # fmt: skip
# x lies to the right of node j by h (m - j + u) with u = beta / (alpha + beta) between 0 and 1.
u = beta / (alpha + beta)
to_the_right = Case(j <= m, ((x[m] - node[j] > 0, Combination((Bound(j <= m, h),), h * u)),))
to_the_left = Case(
    j >= m + 1, ((x[m] - node[j] < 0, Combination((Bound(j >= m + 1, h),), h * alpha / (alpha + beta))),)
)  # fmt: skip
unit_on = interpolation.claim(
    "A2-units", unit[m, j], iverson(j <= m) * h * (m - j + u), name="unit j is on exactly to the right of node j",
    by=Cases((to_the_right, to_the_left)),
)  # fmt: skip
last_off = interpolation.claim(
    "A2-last", unit[m, n], 0, name="a unit at the last node would never be on", by=Lemmas((unit_on,))
)
by_units = y_0 + Sum(s[k + 1] * (unit[m, k] - unit[m, k + 1]), k)
by_cells = y_0 + Sum(s[k + 1] * (h * iverson(k < m) + delta(k, m) * h * u), k)
line = y[m] + (y[m + 1] - y[m]) / h * (x[m] - node[m])
steps = (
    interpolation.claim("A2.1", network[m], by_units, name="summation by parts", by=Lemmas((last_off,))),
    interpolation.claim("A2.2", by_units, by_cells, name="what each cell adds up to x", by=Lemmas((unit_on,))),
    interpolation.claim("A2.3", by_cells, y[m] + s[m + 1] * h * u, name="the cells to the left add up"),
    interpolation.claim("A2.4", y[m] + s[m + 1] * h * u, line, name="the slope is the rise over h"),
)
exact = interpolation.claim(
    "A2", network[m], line, name="a ReLU layer with n units is the piecewise linear interpolant on n + 1 nodes",
    by=Chain(steps),
)  # fmt: skip

at_node = Sum((s[k + 1] - iverson(k > 0) * s[k]) * relu(node[j] - node[k]), k)
interpolation.claim("A2", y_0 + at_node, y[j], name="and at the nodes it has their values")

# A2, how far it is from the target: (1 - u) L h u + u L h (1 - u) = L h / 2 - 2 L h (u - 1/2)^2.
lipschitz = [
    Abs(f[m] - y[m]) <= L * (x[m] - node[m]),
    Abs(f[m] - y[m + 1]) <= L * (node[m + 1] - x[m]),
]
square = 2 * L * h * (u - Rational(1, 2)) ** 2
above, below = (
    Combination((Bound(lipschitz[0], alpha / (alpha + beta), sign), Bound(lipschitz[1], u, sign)), square)
    for sign in (1, -1)
)
interpolation.claim_that(
    "A2", Abs(f[m] - network[m]) <= L * h / 2, name="the error for an L-Lipschitz target is at most L h / 2",
    given=lipschitz, by=Lemmas((exact,), then=Absolute(above, below)),
    assuming=[
        "the other half of the claim, that multi-head attention approximates every continuous map of sequences "
        "(Yun et al. 2020), is an assumption and not proved here"
    ],
    note="the text claims universal approximation for attention as well; only the feed-forward half is proved. In "
    "numbers: the generated kernel relu_layer at widths 4 to 256, examples/feed_forward_fit.py",
)  # fmt: skip

# The layer itself, as a kernel: with W_1 = 1, b_1 = -node, W_2 the changes of slope and b_2 = y[0] it is the network.
N, C_in, C_out, Hidden = dims("N C_in C_out Hidden")
row = leading_index("row", N)
c, o, i = index("c", C_in), index("o", C_out), index("i", Hidden)
X = tensor("x", N, C_in)
W_1, b_1 = tensor("W_1", Hidden, C_in), tensor("b_1", Hidden)
W_2, b_2 = tensor("W_2", C_out, Hidden), tensor("b_2", C_out)

relu_layer = Program("relu_layer", "two-layer feed-forward layer with ReLU", [X, W_1, b_1, W_2, b_2])
z = relu_layer.define("z", [row, i], Sum(X[row, c] * W_1[i, c], c) + b_1[i])
hidden = relu_layer.define("hidden", [row, i], relu(z[row, i]))
Y = relu_layer.define("y", [row, o], Sum(hidden[row, i] * W_2[o, i], i) + b_2[o])
relu_layer.kernel(Y, wrt=[X, W_1, b_1, W_2, b_2])
relu_layer.claim(
    "A2-layer", Y[row, o], Sum(W_2[o, i] * relu(Sum(W_1[i, c] * X[row, c], c) + b_1[i]), i) + b_2[o],
    name="y = W_2 relu(W_1 x + b_1) + b_2",
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# A3.

T_q, T_k, d_k, d_v = dims("T_q T_k d_k d_v")
p, q, r = index("p", T_q), index("q", T_k), index("r", T_k)
b, e = index("b", d_k), index("e", d_v)
Q, K, V = tensor("Q", T_q, d_k), tensor("K", T_k, d_k), tensor("V", T_k, d_v)

smoother = Program("kernel_smoother", "attention as a kernel smoother", [Q, K, V])
similarity = smoother.define("similarity", [p, q], exp(Sum(Q[p, b] * K[q, b], b) / sqrt(d_k)))
weight = smoother.define("weight", [p, q], similarity[p, q] / Sum(similarity[p, r], r))
smoothed = smoother.define("smoothed", [p, e], Sum(weight[p, q] * V[q, e], q))
smoother.claim_that("A3", weight[p, q] > 0, name="the weights are positive", over=[p, q])
smoother.claim("A3", Sum(weight[p, q], q), 1, name="the weights of a row sum to 1")
smoother.steps(
    "A3", smoothed[p, e], Sum(similarity[p, q] / Sum(similarity[p, r], r) * V[q, e], q),
    Sum(similarity[p, q] * V[q, e], q) / Sum(similarity[p, q], q),
    because=["by definition", "the normaliser leaves the sum"],
)  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
# A4.

Samples, Words, Theta = dims("Samples Words Theta")
sample = index("sample", Samples)
word = index("word", Words)
theta, theta_1 = indices("theta theta_1", Theta)
seen = tensor("seen", Samples, into=Words)
truth = tensor("P", Words, positive=True)
model = tensor("M", Theta, Words, positive=True)

risk = Program("empirical_risk", "empirical risk minimisation is maximum likelihood", [seen, truth, model])
empirical = risk.define("empirical", [word], Sum(delta(word, seen[sample]), sample) / Samples)
cross_entropy = risk.define("cross_entropy", [theta], -Sum(truth[word] * log(model[theta, word]), word))
entropy = risk.define("entropy", [], -Sum(truth[word] * log(truth[word]), word))
log_likelihood = risk.define("log_likelihood", [theta], Sum(log(model[theta, seen[sample]]), sample))

to_empirical = -Sum(empirical[word] * log(model[theta, word]), word)
risk.claim(
    "A4", to_empirical, -log_likelihood[theta] / Samples,
    name="cross entropy to the empirical distribution is the mean negative log-likelihood",
)  # fmt: skip
risk.steps(
    "A4", to_empirical,
    -Sum(delta(word, seen[sample]) * log(model[theta, word]), word, sample) / Samples,
    -Sum(log(model[theta, seen[sample]]), sample) / Samples,
    because=["the empirical distribution written in", "only the word that was seen is left"],
)  # fmt: skip
risk.claim(
    "A4", argmin(to_empirical, over=theta, among=theta_1), argmax(log_likelihood[theta], over=theta, among=theta_1),
    name="minimising the empirical risk maximises the likelihood",
)  # fmt: skip
kl = divergence(truth[word], model[theta, word], word)
distributions = [Eq(Sum(truth[word], word), 1), Eq(Sum(model[theta, word], word), 1)]
risk.claim("A4", cross_entropy[theta], entropy + kl, name="H(P, Q) = H(P) + KL(P, Q)")
risk.claim_that(
    "A4", kl >= 0, name="KL(P, Q) >= 0", given=distributions, by=Gibbs(truth[word], model[theta, word], word)
)
risk.claim(
    "A4", iverson(Eq(kl, 0)), Product(iverson(Eq(truth[word], model[theta, word])), word),
    name="KL(P, Q) = 0 exactly when P = Q", given=distributions,
    by=GibbsEquality(truth[word], model[theta, word], word),
)  # fmt: skip
risk.claim(
    "A4", argmin(cross_entropy[theta], over=theta, among=theta_1), argmin(kl, over=theta, among=theta_1),
    name="minimising H(P, Q) over Q minimises KL(P, Q)", assuming=["P is fixed"],
)  # fmt: skip

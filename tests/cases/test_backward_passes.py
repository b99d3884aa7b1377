"""Further cases, written with the public names: backward passes as they are written by hand, right and wrong.

Each wrong one is a mistake of a known kind: a factor or a term lost, a sum over the wrong index, a constant that is
none, a formula for another variable. Where values are given they were computed apart from this project, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradproof import (
    And,
    Eq,
    Gibbs,
    Ne,
    Product,
    Program,
    Rational,
    Sum,
    delta,
    dims,
    divergence,
    exp,
    index,
    indices,
    iverson,
    lengths,
    log,
    logsumexp,
    mean,
    scalar,
    scalars,
    sigmoid,
    softmax,
    softplus,
    sqrt,
    tanh,
    tensor,
    tensors,
    variance,
    where,
)

n, m, p, N, C, V, T, K = dims("n m p N C V T K")
i, j, k, l = indices("i j k l", n)
a, b = indices("a b", m)
x, y, z = tensors("x y z", n)


def test_normalised_vector(proved: Any, refuted: Any) -> None:
    """y = x / sqrt(|x|^2 + eps): the projection uses y twice, not y and x."""
    eps = scalar("eps", positive=True)
    program = Program("unit", inputs=[x, eps])
    r = program.define("r", [], sqrt(Sum(x[i] ** 2, i) + eps))
    backward = program.gradient(program.define("u", [i], x[i] / r))
    du, u = backward["du"], program["u"]
    proved(backward.claim("projection", backward["dx"][i], (du[i] - u[i] * Sum(du[j] * u[j], j)) / r))
    refuted(backward.claim("x for y", backward["dx"][i], (du[i] - u[i] * Sum(du[j] * x[j], j)) / r))


def test_group_norm(proved: Any, refuted: Any) -> None:
    """Statistics over the channels of a group and all positions: dividing by the positions alone is wrong."""
    B, G, D, H = dims("B G D H")
    s, g, (c, e), (h, q) = index("s", B), index("g", G), indices("c e", D), indices("h q", H)
    X, eps = tensor("X", B, G, D, H), scalar("eps", positive=True)
    program = Program("group_norm", inputs=[X, eps])
    mu = program.define("mu", [s, g], Sum(X[s, g, c, h], c, h) / (D * H))
    r = program.define("r", [s, g], 1 / sqrt(Sum((X[s, g, c, h] - mu[s, g]) ** 2, c, h) / (D * H) + eps))
    Y = program.define("Y", [s, g, c, h], (X[s, g, c, h] - mu[s, g]) * r[s, g])
    backward = program.gradient(Y)
    dY, dX = backward["dY"], backward["dX"]

    def formula(count: Any) -> Any:
        mixed = Sum(dY[s, g, e, q] * Y[s, g, e, q], e, q) / count
        return r[s, g] * (dY[s, g, c, h] - Sum(dY[s, g, e, q], e, q) / count - Y[s, g, c, h] * mixed)

    proved(backward.claim("group", dX[s, g, c, h], formula(D * H)))
    refuted(backward.claim("positions only", dX[s, g, c, h], formula(H)))


def test_cumulative_sums_and_products(proved: Any, refuted: Any) -> None:
    """The backward pass of a cumulative operation runs the other way; of a product it leaves the factor out."""
    program = Program("cumulative", inputs=[x])
    sums = program.define("sums", [i], Sum(iverson(j <= i) * x[j], j))
    logs = program.define("logs", [i], logsumexp(x[j], over=j, where=j <= i))
    products = program.define("products", [i], Product(where(j <= i, x[j], 1), j))
    first, second, third = (program.gradient(output) for output in (sums, logs, products))
    up = first["dsums"], second["dlogs"], third["dproducts"]
    others = Product(where(And(k <= j, Ne(k, i)), x[k], 1), k)
    proved(
        first.claim("suffix sums", first["dx"][i], Sum(iverson(j >= i) * up[0][j], j)),
        second.claim("logs", second["dx"][i], Sum(iverson(j >= i) * up[1][j] * exp(x[i] - logs[j]), j)),
        third.claim("factor left out", third["dx"][i], Sum(iverson(j >= i) * up[2][j] * others, j)),
    )
    refuted(first.claim("prefix sums", first["dx"][i], Sum(iverson(j <= i) * up[0][j], j)))
    refuted(second.claim("own log", second["dx"][i], Sum(iverson(j >= i) * up[1][j] * exp(x[i] - logs[i]), j)))


def test_gated_recurrent_unit(proved: Any, refuted: Any) -> None:
    """y = (1 - u) h + u tanh(c): the gate's gradient sees the difference of what it mixes."""
    h, c = tensors("h c", n)
    program = Program("gru", inputs=[z, c, h])
    u = program.define("u", [i], sigmoid(z[i]))
    new = program.define("new", [i], tanh(c[i]))
    backward = program.gradient(program.define("out", [i], (1 - u[i]) * h[i] + u[i] * new[i]))
    up = backward["dout"]
    proved(
        backward.claim("gate", backward["dz"][i], up[i] * (new[i] - h[i]) * u[i] * (1 - u[i])),
        backward.claim("candidate", backward["dc"][i], up[i] * u[i] * (1 - new[i] ** 2)),
        backward.claim("state", backward["dh"][i], up[i] * (1 - u[i])),
    )
    refuted(backward.claim("gate, one part", backward["dz"][i], up[i] * new[i] * u[i] * (1 - u[i])))


def test_mish(proved: Any, refuted: Any) -> None:
    """x tanh(softplus(x)), its closed form, and its published derivative; the chain rule's sigmoid is easily lost."""
    program = Program("mish", inputs=[x])
    out = program.define("out", [i], x[i] * tanh(softplus(x[i])))
    slope = program.derivative(out[i], x[i])
    omega = 4 * (x[i] + 1) + 4 * exp(2 * x[i]) + exp(3 * x[i]) + exp(x[i]) * (4 * x[i] + 6)
    delta_ = 2 * exp(x[i]) + exp(2 * x[i]) + 2
    inner = tanh(softplus(x[i]))
    proved(
        program.claim("closed", out[i], x[i] * ((1 + exp(x[i])) ** 2 - 1) / ((1 + exp(x[i])) ** 2 + 1)),
        program.claim("published", slope, exp(x[i]) * omega / delta_**2),
        program.claim("chain rule", slope, inner + x[i] * (1 - inner**2) * sigmoid(x[i])),
    )
    refuted(program.claim("no sigmoid", slope, inner + x[i] * (1 - inner**2)))


def test_weight_and_spectral_normalisation(proved: Any, refuted: Any) -> None:
    """w = g v / |v| per row, and W / (u^T W v) with u and v held fixed."""
    v, g = tensor("v", m, n), tensor("g", m)
    program = Program("weight_norm", inputs=[v, g])
    s = program.define("s", [a], sqrt(Sum(v[a, i] ** 2, i)))
    backward = program.gradient(program.define("w", [a, i], g[a] * v[a, i] / s[a]))
    dw, dg, dv = backward["dw"], backward["dg"], backward["dv"]
    verdict, *_ = proved(
        backward.claim("dv", dv[a, i], g[a] / s[a] * dw[a, i] - g[a] * dg[a] / s[a] ** 2 * v[a, i]),
        backward.claim("dg", dg[a], Sum(dw[a, i] * v[a, i], i) / s[a]),
        backward.claim("orthogonal", Sum(dv[a, i] * v[a, i], i), 0, over=[a]),
    )
    assert "not differentiable where Sum_i(v[a,i]**2) = 0 (the gradient has no value there)" in verdict.hypotheses
    refuted(backward.claim("g lost", dv[a, i], g[a] / s[a] * dw[a, i] - dg[a] / s[a] ** 2 * v[a, i]))

    W, left, right = tensor("W", m, n), tensor("left", m), tensor("right", n)
    spectral = Program("spectral_norm", inputs=[W, left, right])
    size = spectral.define("size", [], Sum(left[a] * W[a, i] * right[i], a, i))
    scaled = spectral.define("scaled", [a, i], W[a, i] / size)
    back = spectral.gradient(scaled, [W])
    up = back["dscaled"]
    mixed = Sum(up[b, j] * scaled[b, j], b, j)
    proved(back.claim("dW", back["dW"][a, i], (up[a, i] - mixed * left[a] * right[i]) / size))
    refuted(back.claim("size held fixed", back["dW"][a, i], up[a, i] / size))


def test_a_weight_that_is_used_twice(proved: Any, refuted: Any) -> None:
    """out = W tanh(W x): both uses count; each alone, and a transpose, is refuted."""
    W = tensor("W", n, n)
    program = Program("twice", inputs=[W, x])
    h = program.define("h", [i], tanh(Sum(W[i, j] * x[j], j)))
    backward = program.gradient(program.define("out", [i], Sum(W[i, j] * h[j], j)))
    up, dh, dW = backward["dout"], backward["dh"], backward["dW"]
    proved(
        backward.claim("both uses", dW[i, j], up[i] * h[j] + dh[i] * (1 - h[i] ** 2) * x[j]),
        backward.claim("dh", dh[j], Sum(W[i, j] * up[i], i)),
    )
    refuted(backward.claim("outer use alone", dW[i, j], up[i] * h[j]))
    verdict = refuted(backward.claim("transposed", dh[j], Sum(W[j, i] * up[i], i)))
    assert "holds if W[j, i] = W[i, j]" in verdict.advice


def test_low_rank_adaptation(proved: Any, refuted: Any) -> None:
    """y = (W + s B A) x: the scale s is in both gradients."""
    rank = dims("rank")[0]
    q, s = index("q", rank), scalar("s")
    W, A, B = tensor("W", m, n), tensor("A", rank, n), tensor("B", m, rank)
    program = Program("adapter", inputs=[W, A, B, x, s])
    out = program.define("out", [a], Sum((W[a, i] + s * Sum(B[a, q] * A[q, i], q)) * x[i], i))
    backward = program.gradient(out, [A, B])
    up = backward["dout"]
    proved(
        backward.claim("dB", backward["dB"][a, q], s * up[a] * Sum(A[q, i] * x[i], i)),
        backward.claim("dA", backward["dA"][q, i], s * Sum(B[a, q] * up[a], a) * x[i]),
    )
    verdict = refuted(backward.claim("no scale", backward["dA"][q, i], Sum(B[a, q] * up[a], a) * x[i]))
    assert "holds if s = 1" in verdict.advice


def test_convolution(proved: Any, refuted: Any, point: Any) -> None:
    """y[t] = Sum_r x[t + r] w[r]: the input's gradient is a convolution with the kernel turned round."""
    O = dims("O")[0]
    t, r, c, o = index("t", T), index("r", K), index("c", C), index("o", O)
    u = index("u", T + K - 1)
    X, w = tensor("X", T + K - 1, C), tensor("w", O, C, K)
    program = Program("convolution", inputs=[X, w])
    out = program.define("out", [t, o], Sum(X[t + r, c] * w[o, c, r], r, c))
    backward = program.gradient(out)
    up, dX, dw = backward["dout"], backward["dX"], backward["dw"]
    turned = Sum(up[t, o] * w[o, c, r] * iverson(Eq(u, t + r)), t, r, o)
    proved(
        backward.claim("dw", dw[o, c, r], Sum(up[t, o] * X[t + r, c], t)),
        backward.claim("dX", dX[u, c], turned),
        backward.claim("dX by a delta", dX[u, c], Sum(up[t, o] * w[o, c, r] * delta(u, t + r), t, r, o)),
    )
    numbers = point(backward, sizes={"K": 2}, X=[[1], [2], [4], [-1]], w=[[[3, 5]]], dout=[[1], [0], [2]])
    np.testing.assert_allclose(numbers(dX)[:, 0], np.convolve([1, 0, 2], [3, 5]))
    refuted(backward.claim("not shifted", dw[o, c, r], Sum(up[t, o] * X[t, c], t), over=[o, c, r]))
    refuted(backward.claim("last tap lost", dX[u, c], Sum(up[t, o] * w[o, c, 0] * iverson(Eq(u, t)), t, o)))


def test_sample_variance(proved: Any, refuted: Any) -> None:
    """With n - 1 in the denominator the gradient has it too; the variance is also a mean over pairs."""
    program = Program("sample_variance", inputs=[x])
    mu = program.define("mu", [], mean(x[i], over=i))
    v = program.define("v", [], Sum((x[i] - mu) ** 2, i) / (n - 1))
    backward = program.gradient(v)
    proved(
        backward.claim("dx", backward["dx"][i], backward["dv"] * 2 * (x[i] - mu) / (n - 1)),
        backward.claim("pairs", v, Sum((x[i] - x[j]) ** 2, i, j) / (2 * n * (n - 1))),
        backward.claim("Bessel", v, n / (n - 1) * variance(x[i], over=i)),
    )
    refuted(backward.claim("n", backward["dx"][i], backward["dv"] * 2 * (x[i] - mu) / n))


def test_tversky_index(proved: Any, refuted: Any) -> None:
    """TP / (TP + alpha FP + beta FN): the prediction is in all three, and 1/2, 1/2 is the Dice score."""
    q, t, alpha, beta = *tensors("q t", n), *scalars("alpha beta", positive=True)
    program = Program("tversky", inputs=[q, t, alpha, beta])
    hit = program.define("hit", [], Sum(q[i] * t[i], i))
    false = program.define("false", [], Sum(q[i] * (1 - t[i]), i))
    missed = program.define("missed", [], Sum((1 - q[i]) * t[i], i))
    score = program.define("score", [], hit / (hit + alpha * false + beta * missed))
    slope, below = program.derivative(score, q[i]), hit + alpha * false + beta * missed
    half = [Eq(alpha, Rational(1, 2)), Eq(beta, Rational(1, 2))]
    proved(
        program.claim("all three", slope, (t[i] * below - hit * (t[i] + alpha * (1 - t[i]) - beta * t[i])) / below**2),
        program.claim("Dice", score, 2 * hit / (2 * hit + false + missed), given=half),
    )
    refuted(program.claim("misses left out", slope, (t[i] * below - hit * (t[i] + alpha * (1 - t[i]))) / below**2))


def test_divergence_of_two_normal_distributions(proved: Any, refuted: Any, point: Any) -> None:
    """KL(N(mu, s^2) || N(0, 1)) by the logarithm of the variance: its slope is (s^2 - 1) / 2, not that for s."""
    mu, v, s = *tensors("mu v", n), tensor("s", n, positive=True)
    program = Program("gaussian_kl", inputs=[mu, v])
    kl = program.define("kl", [], -Sum(1 + v[i] - mu[i] ** 2 - exp(v[i]), i) / 2)
    proved(
        program.claim("mean", program.derivative(kl, mu[i]), mu[i]),
        program.claim("log variance", program.derivative(kl, v[i]), (exp(v[i]) - 1) / 2),
    )
    here = point(program, mu=(0.5, -1), v=(0.2, -0.4))
    np.testing.assert_allclose(here(kl), 0.670861402099, rtol=1e-11)
    refuted(program.claim("another variable", program.derivative(kl, v[i]), (1 - exp(-v[i])) / 2))
    plain = Program("gaussian_kl_s", inputs=[mu, s])
    kl_s = plain.define("kl", [], Sum(-log(s[i]) + (s[i] ** 2 + mu[i] ** 2 - 1) / 2, i))
    proved(plain.claim("deviation", plain.derivative(kl_s, s[i]), s[i] - 1 / s[i]))


def test_policy_gradient(proved: Any, refuted: Any) -> None:
    """The score has mean 0, so a baseline changes nothing; the entropy bonus has a gradient of its own."""
    logits, reward, c = tensor("logits", V), tensor("reward", V), scalar("c")
    (u, v, w) = indices("u v w", V)
    program = Program("policy", inputs=[logits, reward, c])
    q = program.define("q", [v], softmax(logits[v], over=v))
    value = program.define("value", [], Sum(q[v] * reward[v], v))
    H = program.define("H", [], -Sum(q[v] * log(q[v]), v))
    score = program.derivative(log(q[v]), logits[u])
    proved(
        program.claim("mean score", Sum(q[v] * score, v), 0, over=[u]),
        program.claim("gradient", program.derivative(value, logits[u]), Sum(q[v] * reward[v] * score, v)),
        program.claim("baseline", program.derivative(value, logits[u]), Sum(q[v] * (reward[v] - c) * score, v)),
        program.claim(
            "Fisher", Sum(q[v] * score * program.derivative(log(q[v]), logits[w]), v), delta(u, w) * q[u] - q[u] * q[w]
        ),
        program.claim("entropy", program.derivative(H, logits[u]), -q[u] * (log(q[u]) + H)),
    )
    refuted(program.claim("entropy of probabilities", program.derivative(H, logits[u]), -q[u] * (log(q[u]) + 1)))


def test_reverse_divergence(proved: Any, refuted: Any) -> None:
    """KL(p || q) for the logits of p is not p - q, which belongs to KL(q || p)."""
    s, t, (u, v) = tensor("s", V), tensor("t", V), indices("u v", V)
    program = Program("reverse", inputs=[s, t])
    q, r = (program.define(name, [v], softmax(z_[v], over=v)) for name, z_ in (("q", s), ("r", t)))
    kl = program.define("kl", [], divergence(q[v], r[v], v))
    other = program.define("other", [], divergence(r[v], q[v], v))
    proved(
        program.claim("reverse", program.derivative(kl, s[u]), q[u] * (log(q[u]) - log(r[u]) - kl)),
        program.claim("forward", program.derivative(other, s[u]), q[u] - r[u]),
        program.claim_that("not negative", kl >= 0, by=Gibbs(q[v], r[v], v)),
    )
    refuted(program.claim("mixed up", program.derivative(kl, s[u]), q[u] - r[u]))


def test_logistic_regression_with_labels_of_both_kinds(proved: Any, refuted: Any) -> None:
    """Labels 0 and 1 or -1 and 1 give two formulas; the sign is what goes wrong."""
    X, w, t, s = tensor("X", N, C), tensor("w", C), tensor("t", N), tensor("s", N)
    a_, (c, e) = index("a", N), indices("c e", C)
    program = Program("regression", inputs=[X, w, t, s])
    q = program.define("q", [a_], sigmoid(Sum(X[a_, c] * w[c], c)))
    L = program.define("L", [], -mean(t[a_] * log(q[a_]) + (1 - t[a_]) * log(1 - q[a_]), over=a_))
    M = program.define("M", [], Sum(log(1 + exp(-s[a_] * Sum(X[a_, c] * w[c], c))), a_))
    margin = s[a_] * Sum(X[a_, e] * w[e], e)
    proved(
        program.claim("0 and 1", program.derivative(L, w[c]), Sum(X[a_, c] * (q[a_] - t[a_]), a_) / N),
        program.claim("-1 and 1", program.derivative(M, w[c]), -Sum(s[a_] * X[a_, c] * sigmoid(-margin), a_)),
    )
    verdict = refuted(program.claim("sign", program.derivative(L, w[c]), Sum(X[a_, c] * (t[a_] - q[a_]), a_) / N))
    assert "holds with the opposite sign on the right side" in verdict.advice


def test_masked_pooling_of_sequences(proved: Any, refuted: Any) -> None:
    """A mean over the kept positions divides by their number; token mean and sequence mean are two losses."""
    X, keep = tensor("X", N, T, C), tensor("keep", N, T, into=2)
    a_, (t, u), c = index("a", N), indices("t u", T), index("c", C)
    program = Program("pooling", inputs=[X, keep])
    pooled = program.define("pooled", [a_, c], mean(X[a_, t, c], over=t, where=keep[a_, t] > 0))
    backward = program.gradient(pooled)
    up, kept = backward["dpooled"], iverson(keep[a_, t] > 0)
    right = kept * up[a_, c] / Sum(iverson(keep[a_, u] > 0), u)
    (verdict,) = proved(backward.claim("kept", backward["dX"][a_, t, c], right))
    assert "no empty index set: some t with keep[a,t] > 0; without any, mean is 0/0" in verdict.hypotheses
    refuted(backward.claim("all", backward["dX"][a_, t, c], kept * up[a_, c] / T))

    L = lengths("L", N)
    q = index("q", L[a_])
    Y = tensor("Y", N, L)
    ragged = Program("ragged", inputs=[Y])
    tokens = ragged.define("tokens", [], Sum(Y[a_, q], a_, q) / Sum(L[a_], a_))
    sequences = ragged.define("sequences", [], mean(Sum(Y[a_, q], q) / L[a_], over=a_))
    verdict = refuted(ragged.claim("the same", tokens, sequences))
    assert isinstance(verdict.advice, tuple)

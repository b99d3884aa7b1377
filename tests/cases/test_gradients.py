"""Cases of a wrong gradient or backward pass: refuted as it was claimed, with the right one derived and proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sympy import Rational, exp, log, sqrt

from derive.binders import substitute
from derive.errors import StatementError
from derive.functions import log_softmax, logsumexp, mean, softmax, variance
from derive.language import (
    Product,
    Sum,
    delta,
    dims,
    index,
    indices,
    leading_index,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.program import Program

m, n = dims("m n")
i, j, k = indices("i j k", n)
b = index("b", m)
eps = scalar("eps", positive=True)


# ---------------------------------------------------------------------------------------------------------------------
# Statements that several cases share.


def normalisation() -> tuple[Program, Any]:
    """Batch or layer normalisation of one vector: y = (x - mean) / sqrt(variance + eps)."""
    (x,) = tensors("x", n)
    program = Program("normalisation", "normalisation of a vector", [x, eps])
    mu = program.define("mu", [], mean(x[i], over=i))
    v = program.define("v", [], variance(x[i], over=i))
    r = program.define("r", [], 1 / sqrt(v + eps))
    y = program.define("y", [i], (x[i] - mu) * r)
    return program, y


NORMALISED = {"x": (1, 2, 4, 7), "dy": (0.3, -1, 0.5, 2), "eps": "1e-5"}


def test_c01_dice_loss(proved: Any, refuted: Any, point: Any) -> None:
    """D = 2I/U with I = p.t and U = sum p + sum t: a plus sign for the minus, and /U*U where /U^2 was meant."""
    p, t = tensors("p t", n)
    dice = Program("dice", inputs=[p, t])
    overlap = dice.define("overlap", [], Sum(p[i] * t[i], i))
    U = dice.define("U", [], Sum(p[i], i) + Sum(t[i], i))
    D = dice.define("D", [], 2 * overlap / U)
    slope = dice.derivative(D, p[i])
    right = (0.440771349862, 0.440771349862, -0.165289256198)
    here = point(dice, p=(0.2, 0.7, 0.4), t=(1, 1, 0))
    assert here(D) == pytest.approx(0.545454545455)
    proved(dice.claim("right", slope, 2 * (t[i] * U - overlap) / U**2))
    for name, claimed, value in (
        ("as written", 2 * (t[i] * U + overlap) / U * U, None),
        ("plus sign", 2 * (t[i] * U + overlap) / U**2, (0.771349862259, 0.771349862259, 0.165289256198)),
        ("sign corrected, precedence not", 2 * (t[i] * U - overlap) / U * U, (4.8, 4.8, -1.8)),
    ):
        refuted(dice.claim(name, slope, claimed), here, [i], left=right, right=value)


def test_c01_dice_loss_kernel(compiled: Any, agrees: Any) -> None:
    """The generated backward pass has the right values."""
    p, t = tensors("p t", n)
    dice = Program("dice", inputs=[p, t])
    dice.kernel(dice.define("D", [], 2 * Sum(p[i] * t[i], i) / (Sum(p[i], i) + Sum(t[i], i))), wrt=[p])
    kernel = compiled(dice)
    D, saved = kernel.forward(np.array([0.2, 0.7, 0.4]), np.array([1.0, 1.0, 0.0]))
    assert agrees(D, 0.545454545455)
    (dp,) = kernel.backward(np.ones(()), saved)
    assert agrees(dp, (0.440771349862, 0.440771349862, -0.165289256198))


def test_c03_batch_norm_terms_that_are_zero(proved: Any, point: Any, agrees: Any) -> None:
    """The three-term backward pass misses nothing: what people add to it is 0 for every size, and proved to be."""
    program, y = normalisation()
    x, mu, r = program["x"], program["mu"], program["r"]
    backward = program.gradient(y)
    dy, dx = backward["dy"], backward["dx"]
    three = r * (dy[i] - mean(dy[j], over=j) - mean(dy[j] * y[j], over=j) * y[i])
    proved(
        backward.claim("three terms", dx[i], three),
        backward.claim("with mean(g) mean(y)", dx[i], three + r * mean(dy[j], over=j) * mean(y[j], over=j)),
        backward.claim("with mean(g y) mean(y)", dx[i], three + r * mean(dy[j] * y[j], over=j) * mean(y[j], over=j)),
        backward.claim("d var / d mu", -2 * mean(x[j] - mu, over=j), 0),
        backward.claim("mean of y", mean(y[j], over=j), 0),
    )
    here = point(backward, **NORMALISED)
    assert agrees(here(dx), (0.350186631959, -0.383440116979, -0.061308619095, 0.094562104116))


def test_c04_gamma_lost(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """y = gamma xhat + beta: a dx without gamma passes where gamma is 1, so the counterexample has another gamma."""
    x, gamma, beta = *tensors("x", n), *scalars("gamma beta")
    program = Program("scaled", inputs=[x, gamma, beta, eps])
    r = program.define("r", [], 1 / sqrt(variance(x[i], over=i) + eps))
    xhat = program.define("xhat", [i], (x[i] - mean(x[j], over=j)) * r)
    y = program.define("y", [i], gamma * xhat[i] + beta)
    backward = program.gradient(y)
    dy, dx = backward["dy"], backward["dx"]
    buggy = r * (dy[i] - mean(dy[j], over=j) - mean(dy[j] * xhat[j], over=j) * xhat[i])
    proved(
        backward.claim("dx", dx[i], gamma * buggy),
        backward.claim("dgamma", backward["dgamma"], Sum(dy[i] * xhat[i], i)),
        backward.claim("dbeta", backward["dbeta"], Sum(dy[i], i)),
    )
    here = point(backward, **NORMALISED, gamma=3, beta=0)
    without = np.array((0.350186631959, -0.383440116979, -0.061308619095, 0.094562104116))
    verdict = refuted(backward.claim("gamma lost", dx[i], buggy), here, [i], left=3 * without, right=without)
    assert verdict.counterexample.inputs["gamma"] != 1
    assert agrees(here(backward["dgamma"]), np.dot(here(xhat), NORMALISED["dy"]))


def test_c05_log_softmax_backward(proved: Any, refuted: Any, point: Any) -> None:
    """y = z - logsumexp(z): the sum in the backward pass is of g, not of g y, and is not left out."""
    (z,) = tensors("z", n)
    program = Program("log_probabilities", inputs=[z])
    y = program.define("y", [i], log_softmax(z[i], over=i))
    backward = program.gradient(y)
    dy, dz = backward["dy"], backward["dz"]
    p = softmax(z[i], over=i)
    proved(backward.claim("right", dz[i], dy[i] - p * Sum(dy[j], j)))
    reduced = backward.claim("sum of g y", dz[i], dy[i] - Sum(dy[j] * y[j], j))
    added = backward.claim("g + p", dz[i], dy[i] + p)
    ones, other = (point(backward, z=(0.1, 0.9), dy=g) for g in ((1, 1), (1, -2)))
    np.testing.assert_allclose(ones(y), (-1.171100665948, -0.371100665948), rtol=1e-11)
    refuted(reduced, ones, [i], left=(0.379948962255, -0.379948962255), right=(2.542201331896, 2.542201331896))
    refuted(added, ones, [i], right=(1.310025518872, 1.689974481128))
    refuted(reduced, other, [i], left=(1.310025518872, -1.310025518872), right=(1.428899334052, -1.571100665948))


def test_c06_softmax_backward_by_the_diagonal(proved: Any, refuted: Any, point: Any) -> None:
    """p (1 - p) is the diagonal of softmax's Jacobian only; the true gradient sums to 0, this one does not."""
    (z,) = tensors("z", n)
    program = Program("probabilities", inputs=[z])
    p = program.define("p", [i], softmax(z[i], over=i))
    backward = program.gradient(p)
    dp, dz = backward["dp"], backward["dz"]
    proved(
        backward.claim("right", dz[i], p[i] * (dp[i] - Sum(dp[j] * p[j], j))),
        backward.claim("sums to 0", Sum(dz[i], i), 0),
        program.claim("Jacobian", program.derivative(p[i], z[j]), p[i] * (delta(i, j) - p[j])),
    )
    here = point(backward, z=(1, 2, 3), dp=(1, 0, -1))
    diagonal = dp[i] * p[i] * (1 - p[i])
    refuted(
        backward.claim("diagonal", dz[i], diagonal), here, [i],
        left=(0.141817093610, 0.140770357470, -0.282587451079), right=(0.081925069065, 0, -0.222695426535),
    )  # fmt: skip
    refuted(backward.claim("diagonal sums to 0", Sum(diagonal, i), 0))


def test_c07_rms_norm_rowwise_scalar_on_the_wrong_axis(proved: Any, refuted: Any, point: Any) -> None:
    """A number per row that is applied per column: an error that names the axis, unless the block is square."""
    M, N = dims("M N")

    def rms_norm(rows: Any, columns: Any) -> tuple[Program, Any, Any]:
        a, c = index("a", rows), index("c", columns)
        X, w = tensor("X", rows, columns), tensor("w", columns)
        program = Program("rms_norm", inputs=[X, w])
        r = program.define("r", [a], 1 / sqrt(mean(X[a, c] ** 2, over=c)))
        Y = program.define("Y", [a, c], X[a, c] * r[a] * w[c])
        backward = program.gradient(Y)
        return backward, a, c

    backward, a, c = rms_norm(M, N)
    e = index("e", N)
    X, w, r, dY, dX = (backward[name] for name in ("X", "w", "r", "dY", "dX"))
    mixed = backward.define("mixed", [a], Sum(dY[a, e] * w[e] * X[a, e], e) / N)
    proved(backward.claim("right", dX[a, c], r[a] * w[c] * dY[a, c] - r[a] ** 3 * mixed[a] * X[a, c]))
    with pytest.raises(
        StatementError, match=r"mixed\[c\]: size mismatch on axis 0: mixed has extent M .* c runs over N"
    ):
        mixed[c]

    backward, a, c = rms_norm(N, N)
    X, w, r, dY, dX = (backward[name] for name in ("X", "w", "r", "dY", "dX"))
    mixed = backward.define("mixed", [a], Sum(dY[a, e] * w[e] * X[a, e], e) / N)
    proved(backward.claim("right", dX[a, c], r[a] * w[c] * dY[a, c] - r[a] ** 3 * mixed[a] * X[a, c]))
    wrong = backward.claim("wrong", dX[a, c], r[a] * w[c] * dY[a, c] - r[c] ** 3 * mixed[c] * X[a, c])
    verdict = refuted(
        wrong, point(backward, X=[[1, 2], [3, -1]], dY=[[1, 0], [0.5, 2]], w=(1, 2)), [a, c],
        left=[[0.505964425627, -0.252982212813], [0.559016994375, 1.677050983125]],
        right=[[0.505964425627, 0.223606797750], [-0.155866521470, 1.677050983125]],
    )  # fmt: skip
    assert "holds if a = c" in verdict.advice


def test_c10_layer_norm_second_derivative(proved: Any, refuted: Any, point: Any) -> None:
    """Layer norm of (t, 0) with weights (1, 2) and eps = 1/4 sums to -t/sqrt(1 + t^2); its curvature is positive."""
    t = scalar("t")
    e = index("e", 2)
    program = Program("two", inputs=[t])
    x = program.define("x", [e], t * delta(e, 0))
    mu = program.define("mu", [], mean(x[e], over=e))
    r = program.define("r", [], 1 / sqrt(variance(x[e], over=e) + Rational(1, 4)))
    f = program.define("f", [], Sum((1 + delta(e, 1)) * (x[e] - mu) * r, e))
    first = program.derivative(f, t)
    slope = Program("slope", inputs=[t])
    f1 = slope.define("f1", [], substitute_definitions(program, first))
    second = slope.derivative(f1, t)
    proved(
        program.claim("closed form", f, -t / sqrt(1 + t**2)),
        slope.claim("slope", f1, -((1 + t**2) ** Rational(-3, 2))),
        slope.claim("curvature", second, 3 * t / (1 + t**2) ** Rational(5, 2)),
    )
    here = point(slope, t=0.7)
    assert point(program, t=0.7)(f) == pytest.approx(-0.573462344363328, rel=1e-14)
    assert here(f1) == pytest.approx(-0.549820080885262, rel=1e-14)
    at = slope.claim("forward over forward", substitute(second, {t: Rational(7, 10)}), Rational("-0.38487405661968344"))
    refuted(at, here, left=0.774914207959094176, right=-0.38487405661968344)


def substitute_definitions(program: Program, expression: Any) -> Any:
    """The expression with all of the program's names written out."""
    from derive.gradient import inline

    return inline(expression, program)


def test_c10_second_derivative_of_cumulative_products(point: Any, proved: Any, agrees: Any) -> None:
    """The same family: products with a factor that is 0 keep their second derivatives, nothing is divided by 0."""
    (x,) = tensors("x", n)
    program = Program("cumulative", inputs=[x])
    total = program.define("total", [], Sum(Product(where(j <= i, x[j], 1), j), i))
    (v,) = tensors("v", n)
    gradient = program.gradient(total, upstream="u")
    along = gradient.define("along", [], Sum(gradient["dx"][i] * v[i], i))
    second = gradient.gradient(along, [x], prefix="h")
    here = point(second, x=(2, 0, 3), u=1, v=(1, 10, 100), halong=1)
    # total = x0 + x0 x1 + x0 x1 x2: the Hessian has 1 + x2 at (0,1), x1 at (0,2), x0 at (1,2), each twice.
    hessian = np.array([[0, 4, 0], [4, 0, 2], [0, 2, 0]])
    assert agrees(here(second["hx"]), hessian @ (1, 10, 100))


def test_c14_jensen_shannon(proved: Any, refuted: Any, point: Any) -> None:
    """Two logarithms swapped in the forward formula, a right gradient for log Q as the variable, and not for logits."""
    P, X = tensor("P", n, positive=True), tensor("X", n)
    beta = scalar("beta", positive=True)
    program = Program("divergence", inputs=[P, X, beta])
    Q = program.define("Q", [i], exp(X[i]))
    M = program.define("M", [i], beta * P[i] + (1 - beta) * Q[i])
    value = Sum(beta * P[i] * (log(P[i]) - log(M[i])) + (1 - beta) * Q[i] * (X[i] - log(M[i])), i)
    J = program.define("J", [], value)
    G = (1 - beta) * Q[i] * (X[i] - log(M[i]))
    given = {"P": (0.5, 0.3, 0.2)}
    Y = log(P[i])
    half = {beta: Rational(1, 2)}
    middle = (P[i] + exp(X[i])) / 2
    plain = Program("plain", inputs=[P, X])
    symmetric = plain.define("symmetric", [], substitute(substitute_definitions(program, value), half))
    straight = Sum(P[i] * Y + exp(X[i]) * X[i] - 2 * middle * log(middle), i) / 2
    swapped = Sum(P[i] * X[i] + exp(X[i]) * Y - 2 * middle * log(middle), i) / 2
    proved(
        plain.claim("forward", symmetric, straight),
        # sum P = sum Q is not needed: the derivative of the logarithm's argument cancels term by term.
        program.claim("gradient", program.derivative(J, X[i]), G),
    )
    logs = tuple(np.log((0.1, 0.6, 0.3)))
    refuted(
        plain.claim("swapped", symmetric, swapped), point(plain, **given, X=logs), left=0.103294525415,
        right=-0.342838389561,
    )  # fmt: skip
    here = point(program, **given, X=logs, beta=0.3)
    assert here(J) == pytest.approx(0.092575908120, rel=1e-10)
    np.testing.assert_allclose(here(G, i), (-0.055192015225, 0.068257950389, 0.022125708288), rtol=1e-9)


def test_c14_jensen_shannon_for_logits(proved: Any, refuted: Any, point: Any) -> None:
    """With Q = softmax(z) the gradient is projected: what holds for log Q is refused as the gradient for z."""
    P, z, beta = tensor("P", n, positive=True), tensor("z", n), scalar("beta", positive=True)
    program = Program("logits", inputs=[P, z, beta])
    X = program.define("X", [i], log_softmax(z[i], over=i))
    Q = program.define("Q", [i], exp(X[i]))
    M = program.define("M", [i], beta * P[i] + (1 - beta) * Q[i])
    value = Sum(beta * P[i] * (log(P[i]) - log(M[i])) + (1 - beta) * Q[i] * (X[i] - log(M[i])), i)
    J = program.define("J", [], value)
    G = program.define("G", [i], (1 - beta) * Q[i] * (X[i] - log(M[i])))
    backward = program.gradient(J)
    dJ, dX, dz = backward["dJ"], backward["dX"], backward["dz"]
    proved(
        backward.claim("for log Q", dX[i], dJ * G[i]),
        backward.claim("projected", dz[i], dJ * (G[i] - Q[i] * Sum(G[j], j))),
    )
    here = point(backward, P=(0.5, 0.3, 0.2), z=(0.1, 0.6, 0.3), beta=0.3, dJ=1)
    refuted(
        backward.claim("not projected", dz[i], dJ * G[i]), here, [i],
        left=(-0.046972424862, 0.024003393606, 0.022969031255),
    )  # fmt: skip


def test_c15_z_loss_one_wrong_line(proved: Any, refuted: Any, point: Any) -> None:
    """log(e^m sum e^(x-m)) = m + log d: the line without the logarithm is the one that is wrong."""
    x, y = tensors("x y", n)
    s, shift = scalars("s shift")
    program = Program("z_loss", inputs=[x, y, s, shift])
    d = program.define("d", [], Sum(exp(x[i] - shift), i))
    lse = program.define("lse", [], logsumexp(x[i], over=i))
    loss = program.define("loss", [], s * lse**2)
    combined = program.define("combined", [], s * lse**2 + lse - Sum(y[i] * x[i], i))
    p = softmax(x[i], over=i)
    steps = program.steps(
        "C15", lse, log(Sum(exp(x[i]), i)), log(exp(shift) * d), shift + d,
        because=["what lse is", "the shift is taken out", "the logarithm is applied"],
    )  # fmt: skip
    *right, wrong = steps
    assert wrong.id == "C15.3"
    proved(
        *right,
        program.claim("corrected", log(exp(shift) * d), shift + log(d)),
        program.claim("z-loss", program.derivative(loss, x[i]), 2 * s * lse * p),
        program.claim("with cross entropy", program.derivative(combined, x[i]), (1 + 2 * s * lse) * p - y[i]),
    )
    here = point(program, x=(2, 1, 0), y=(1, 0, 0), s=0.1, shift=2)
    refuted(wrong, here, left=2.407605964444, right=3.503214724408)
    np.testing.assert_allclose(here(2 * s * lse * p, i), (0.320327618583, 0.117841945316, 0.043351628989), rtol=1e-9)
    np.testing.assert_allclose(
        here((1 + 2 * s * lse) * p - y[i], i), (-0.014431425642, 0.362570416371, 0.133382202160), rtol=1e-9
    )


def test_c18_contrastive_loss_with_constant_keys(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """The keys are the same rows as the queries, permuted: holding them constant loses half of the gradient."""
    N, D = dims("N D")
    q, r, s = indices("q r s", N)
    a = index("a", D)
    Z, tau, order = tensor("Z", N, D), scalar("tau", positive=True), tensor("order", N, into=N)
    program = Program("contrastive", inputs=[Z, order, tau])
    B = program.define("B", [r, a], Z[order[r], a])
    S = program.define("S", [q, r], Sum(Z[q, a] * B[r, a], a) / tau)
    L = program.define("L", [], mean(logsumexp(S[q, r], over=r) - S[q, q], over=q))
    Gam = program.define("Gam", [q, r], (softmax(S[q, r], over=r) - delta(q, r)) / N)
    dA = Sum(Gam[q, r] * B[r, a], r) / tau
    dB = Sum(Gam[r, s] * Z[r, a], r) / tau
    slope = program.derivative(L, Z[q, a])
    proved(
        program.claim("both parts", slope, dA + Sum(delta(order[s], q) * dB, s)),
        program.claim("tau", program.derivative(L, tau), -Sum(Gam[q, r] * S[q, r], q, r) / tau),
    )
    here = point(program, Z=[[1, 0], [0.6, 0.8], [0, 1]], order=(1, 2, 0), tau=0.5)
    assert here(L) == pytest.approx(1.667515552166, rel=1e-11)
    refuted(
        program.claim("keys held constant", slope, dA), here, [q, a],
        left=[[0.639610439344, -0.828814143580], [0.041108370568, 0.294877784778], [-0.684774169168, 0.571740586368]],
        right=[[0.134118349503, -0.325172117540], [0.330032302232, -0.204225309947], [-0.468206010991, 0.567201655053]],
    )  # fmt: skip
    assert agrees(here(program.derivative(L, tau)), -1.471918275876)


def test_c19_layer_norm_of_three_axes(proved: Any, refuted: Any, point: Any, compiled: Any, agrees: Any) -> None:
    """Statistics over the last axis only, whatever the rank: one row per batch entry is another function."""
    B, T, H = dims("B T H")
    u, t = index("u", B), index("t", T)
    h, l = indices("h l", H)
    x, g, gamma, beta = tensor("x", B, T, H), tensor("g", B, T, H), tensor("gamma", H), tensor("beta", H)
    program = Program("rows", inputs=[x, gamma, beta, eps])
    r = program.define("r", [u, t], 1 / sqrt(variance(x[u, t, h], over=h) + eps))
    xhat = program.define("xhat", [u, t, h], (x[u, t, h] - mean(x[u, t, l], over=l)) * r[u, t])
    y = program.define("y", [u, t, h], xhat[u, t, h] * gamma[h] + beta[h])
    backward = program.gradient(y, upstream="g")
    scaled = backward.define("scaled", [u, t, h], g[u, t, h] * gamma[h])
    proved(
        backward.claim(
            "dx", backward["dx"][u, t, h],
            r[u, t] * (scaled[u, t, h] - mean(scaled[u, t, l], over=l)
                       - xhat[u, t, h] * mean(scaled[u, t, l] * xhat[u, t, l], over=l)),
        ),
        backward.claim("dgamma", backward["dgamma"][h], Sum(g[u, t, h] * xhat[u, t, h], u, t)),
        backward.claim("dbeta", backward["dbeta"][h], Sum(g[u, t, h], u, t)),
    )  # fmt: skip

    t2, h2 = index("t2", T), index("h2", H)

    def over_the_row(entry: Any) -> Any:
        return Sum(entry, t2, h2) / (T * H)

    middle = backward.define("middle", [u], over_the_row(x[u, t2, h2]))
    s = backward.define("s", [u], 1 / sqrt(over_the_row((x[u, t2, h2] - middle[u]) ** 2) + eps))
    z = backward.define("z", [u, t, h], (x[u, t, h] - middle[u]) * s[u])
    flattened = s[u] * (
        scaled[u, t, h] - over_the_row(scaled[u, t2, h2])
        - z[u, t, h] * over_the_row(scaled[u, t2, h2] * z[u, t2, h2])
    )  # fmt: skip
    values = {"x": [[[1, 2, 4], [0, 3, -1]]], "g": [[[1, 0, -1], [0.5, -2, 0]]], "gamma": (1, 1, 1), "beta": (0, 0, 0)}
    here = point(backward, **values, eps="1e-5")
    dx = [[0.114544582033, -0.171809141639, 0.057264559605], [0.362060713837, -0.090517724184, -0.271542989652]]
    refuted(backward.claim("one row of T H", backward["dx"][u, t, h], flattened), here, [u, t, h], left=[dx])
    assert here(flattened, u, t, h)[0, 0, 0] == pytest.approx(0.618998800874, rel=1e-9)

    # The same as a kernel: a leading index stands for any number of dimensions.
    N, c = dims("N")[0], index("c", H)
    row = leading_index("n", N)
    X = tensor("X", N, H)
    layer = Program("layer", inputs=[X, gamma, beta, eps])
    out = layer.define(
        "out", [row, c],
        (X[row, c] - mean(X[row, l], over=l)) / sqrt(variance(X[row, l], over=l) + eps) * gamma[c] + beta[c],
    )  # fmt: skip
    layer.kernel(out, wrt=[X, gamma, beta], defaults={eps: 1e-5})
    kernel = compiled(layer)
    arrays = {name: np.array(table, dtype=float) for name, table in values.items()}
    for rank in range(3):
        shape = (*(1,) * rank, 2, 3)
        _, saved = kernel.forward(arrays["x"].reshape(shape), arrays["gamma"], arrays["beta"])
        dX, dgamma, dbeta = kernel.backward(arrays["g"].reshape(shape), saved)
        assert agrees(dX, np.reshape(dx, shape))
        assert agrees(dgamma, (-1.265157327158, -2.745621139902, -1.336301914313))
        assert agrees(dbeta, (1.5, -2, -1))

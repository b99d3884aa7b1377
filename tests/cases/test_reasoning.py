"""Further cases, written with the public names: identities, statistics, optimisers, second derivatives, rules.

What people argue with rather than what they code: that two forms are one, that a bias is corrected, that a Hessian is
this and positive, that a baseline or a constant does not matter. With the claims that look as good and are wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from gradproof import (
    Convention,
    Eq,
    Gibbs,
    Moments,
    Ne,
    Program,
    Squares,
    StatementError,
    StrictlyMonotone,
    Sum,
    argmax,
    argmin,
    delta,
    dims,
    divergence,
    expectation,
    index,
    indices,
    iverson,
    log,
    log_softmax,
    matrices,
    mean,
    scalar,
    scalars,
    sigmoid,
    softmax,
    sqrt,
    structured_gradient,
    tensor,
    tensors,
    variance,
    variance_over,
)

n, m, N, C, V, T, d = dims("n m N C V T d")
i, j, k, l = indices("i j k l", n)
a, b = indices("a b", m)
s, t, u = indices("s t u", T)
x, y, z = tensors("x y z", n)


def test_sums_of_squares(proved: Any, refuted: Any) -> None:
    """Lagrange's identity, Cauchy and Schwarz from it, polarisation, distances from inner products."""
    program = Program("inner_products", inputs=[x, y])
    xx, yy, xy = Sum(x[i] ** 2, i), Sum(y[i] ** 2, i), Sum(x[i] * y[i], i)
    crossed = Sum((x[i] * y[j] - x[j] * y[i]) ** 2, i, j) / 2
    proved(
        program.claim("Lagrange", xx * yy - xy**2, crossed),
        program.claim_that("Cauchy and Schwarz", xx * yy >= xy**2, by=Squares(crossed)),
        program.claim("polarisation", xy, (Sum((x[i] + y[i]) ** 2, i) - Sum((x[i] - y[i]) ** 2, i)) / 4),
        program.claim("distance", Sum((x[i] - y[i]) ** 2, i), xx + yy - 2 * xy),
    )
    refuted(program.claim("distance, 2 lost", Sum((x[i] - y[i]) ** 2, i), xx + yy - xy))


def test_corrected_bias_of_running_means(proved: Any, refuted: Any) -> None:
    """(1 - b) Sum b^(T-1-t) = 1 - b^T is what Adam divides by; after T steps, not T - 1."""
    g, b_ = tensor("g", T), scalar("b", positive=True)
    program = Program("running_mean", inputs=[g, b_])
    weights = (1 - b_) * Sum(b_ ** (T - 1 - t), t)
    constant = [Eq(g[t], g[0])]
    proved(
        program.claim("weights", weights, 1 - b_**T),
        program.claim(
            "constant gradient", (1 - b_) * Sum(b_ ** (T - 1 - t) * g[t], t) / (1 - b_**T), g[0], given=constant
        ),
    )
    verdict = refuted(program.claim("one step less", weights, 1 - b_ ** (T - 1)))
    assert "holds if b = 1" in verdict.advice
    refuted(program.claim("not corrected", (1 - b_) * Sum(b_ ** (T - 1 - t) * g[t], t), g[0], given=constant))


def test_momentum_in_three_ways(proved: Any, refuted: Any) -> None:
    """Heavy ball, Nesterov as PyTorch has it, and a running mean are three updates."""
    theta, g, v, mu, lr = *tensors("theta g v", n), *scalars("mu lr", positive=True)
    program = Program("momentum_forms", inputs=[theta, g, v, mu, lr])
    w = program.define("w", [i], mu * v[i] + g[i])
    nesterov = program.define("nesterov", [i], theta[i] - lr * (g[i] + mu * w[i]))
    average = program.define("average", [i], mu * v[i] + (1 - mu) * g[i])
    proved(
        program.claim("Nesterov", nesterov[i], theta[i] - lr * ((1 + mu) * g[i] + mu**2 * v[i])),
        program.claim("running mean", average[i], v[i] + (1 - mu) * (g[i] - v[i])),
        program.claim("rescaled", average[i], (1 - mu) * (mu * v[i] / (1 - mu) + g[i])),
    )
    refuted(program.claim("Nesterov is heavy ball", nesterov[i], theta[i] - lr * w[i]))
    refuted(program.claim("running mean is heavy ball", average[i], w[i]))


def test_order_of_summation(proved: Any, refuted: Any) -> None:
    """Rewards to go: a double sum over s >= t either way round; with <= it is another one."""
    w, r = tensors("w r", T)
    program = Program("to_go", inputs=[w, r])
    forward = Sum(w[t] * Sum(iverson(u >= t) * r[u], u), t)
    proved(
        program.claim("exchanged", forward, Sum(r[u] * Sum(iverson(t <= u) * w[t], t), u)),
        program.claim("whole", forward + Sum(w[t] * Sum(iverson(u < t) * r[u], u), t), Sum(w[t], t) * Sum(r[u], u)),
        program.claim("pairs", Sum(iverson(u <= t), t, u), T * (T + 1) / 2),
        program.claim("positions", Sum(t, t), T * (T - 1) / 2),
    )
    refuted(program.claim("wrong way", forward, Sum(w[t] * Sum(iverson(u <= t) * r[u], u), t)))


def test_linear_recurrence(proved: Any, refuted: Any) -> None:
    """h[t + 1] = c h[t] + x[t] unrolled: the sum of c^(t - 1 - s) x[s], and its gradient, which runs back."""
    X, c, q = tensor("X", T), scalar("c", positive=True), index("q", T + 1)
    program = Program("recurrence", inputs=[X, c])
    h = program.define("h", [q], Sum(iverson(u < q) * c ** (q - 1 - u) * X[u], u))
    backward = program.gradient(h, [X])
    proved(
        program.claim("step", h[t + 1], c * h[t] + X[t]),
        program.claim("start", h[0], 0),
        backward.claim("dX", backward["dX"][u], Sum(iverson(u < q) * c ** (q - 1 - u) * backward["dh"][q], q)),
    )
    refuted(program.claim("one factor more", h[t + 1], c * h[t] + c * X[t]))


def test_hessian_of_cross_entropy(proved: Any, refuted: Any) -> None:
    """p (delta - p) needs labels that sum to 1; forwards over backwards and backwards twice give one product."""
    program = Program("curvature", inputs=[z, y])
    p = program.define("p", [i], softmax(z[i], over=i))
    L = program.define("L", [], -Sum(y[i] * log(p[i]), i))
    H = program.derivative(program.derivative(L, z[i]), z[j])
    plain = p[i] * (delta(i, j) - p[j])
    proved(
        program.claim("any labels", H, Sum(y[k], k) * plain),
        program.claim("distribution", H, plain, given=[Eq(Sum(y[i], i), 1)]),
        program.claim("null direction", Sum(H, j), 0, over=[i]),
    )
    verdict = refuted(program.claim("labels that do not sum to 1", H, plain))
    assert "holds if Sum(y[i], (i, 0, n - 1)) = 1" in verdict.advice

    first = program.gradient(L, [z])
    twice, mixed = first.gradient(first["dz"], [z], prefix="h"), first.tangent(first["dz"], [z])
    for second, direction, product in (
        (twice, twice["hdz"], twice["hz"]),
        (mixed, mixed["tz"], mixed["tdz"]),
    ):
        along = first["dL"] * Sum(y[k], k) * p[i] * (direction[i] - Sum(p[j] * direction[j], j))
        proved(second.claim("Hessian times direction", product[i], along))
        refuted(
            second.claim("diagonal only", product[i], first["dL"] * Sum(y[k], k) * p[i] * (1 - p[i]) * direction[i])
        )


def test_quadratic_form_and_its_symmetry(proved: Any, refuted: Any) -> None:
    """2 A x, and 2 A for the Hessian, where A is symmetric; Rayleigh's quotient differentiates its denominator."""
    A = tensor("A", n, n)
    program = Program("quadratic", inputs=[A, x])
    f = program.define("f", [], Sum(x[i] * A[i, j] * x[j], i, j))
    R = program.define("R", [], f / Sum(x[i] ** 2, i))
    slope = program.derivative(f, x[i])
    ax = Sum((A[i, j] + A[j, i]) * x[j], j)
    symmetric = [Eq(A[i, j], A[j, i])]
    proved(
        program.claim("both parts", slope, ax),
        program.claim("symmetric", slope, 2 * Sum(A[i, j] * x[j], j), given=symmetric),
        program.claim("Hessian", program.derivative(slope, x[j]), A[i, j] + A[j, i]),
        program.claim("Rayleigh", program.derivative(R, x[i]), (ax - 2 * R * x[i]) / Sum(x[k] ** 2, k)),
    )
    for name, left, right in (
        ("2 A x", slope, 2 * Sum(A[i, j] * x[j], j)),
        ("2 A", program.derivative(slope, x[j]), 2 * A[i, j]),
    ):
        assert "holds if A[i, j] = A[j, i]" in refuted(program.claim(name, left, right)).advice


def test_jacobian_of_normalisation(proved: Any, refuted: Any) -> None:
    """(I - (1 + h h^T) / n) / s: shifts and scalings are null directions, and the output does not see them."""
    program = Program("normalised", inputs=[x])
    r = program.define("r", [], 1 / sqrt(variance(x[i], over=i)))
    h = program.define("h", [i], (x[i] - mean(x[j], over=j)) * r)
    J = program.derivative(h[i], x[j])
    moved = 3 * x[j] + 2
    proved(
        program.claim("Jacobian", J, r * (delta(i, j) - (1 + h[i] * h[j]) / n)),
        program.claim("shift", Sum(J, j), 0, over=[i]),
        program.claim("scale", Sum(J * h[j], j), 0, over=[i]),
        program.claim(
            "affine",
            h[i],
            (3 * x[i] + 2 - mean(moved, over=j)) / sqrt(variance(moved, over=j)),
        ),
    )
    refuted(program.claim("mean held fixed", J, r * (delta(i, j) - h[i] * h[j] / n)))


def test_total_and_partial_derivative(proved: Any, refuted: Any) -> None:
    """With the mean held fixed (detached) the derivative of x - mean(x) is another one."""
    program = Program("centred", inputs=[x])
    mu = program.define("mu", [], mean(x[i], over=i))
    c = program.define("c", [i], x[i] - mu)
    proved(
        program.claim("total", program.derivative(c[i], x[j]), delta(i, j) - 1 / n),
        program.claim("partial", program.partial(c[i], x[j]), delta(i, j)),
    )
    refuted(program.claim("detached", program.derivative(c[i], x[j]), program.partial(c[i], x[j])))


def test_temperature(proved: Any, refuted: Any) -> None:
    """The derivative for the temperature has 1/tau^2; halving it squares the ratios of probabilities."""
    tau = scalar("tau", positive=True)
    program = Program("tempered", inputs=[z, tau])
    p = program.define("p", [i], softmax(z[i] / tau, over=i))
    slope = program.derivative(p[i], tau)
    centred = z[i] - Sum(p[j] * z[j], j)
    proved(
        program.claim("squared", slope, -p[i] * centred / tau**2),
        program.claim("logits", program.derivative(p[i], z[j]), p[i] * (delta(i, j) - p[j]) / tau),
        program.claim("half", softmax(2 * z[i] / tau, over=i), p[i] ** 2 / Sum(p[j] ** 2, j)),
    )
    verdict = refuted(program.claim("not squared", slope, -p[i] * centred / tau))
    assert "holds if tau = 1" in verdict.advice


def test_smoothed_labels(proved: Any, refuted: Any) -> None:
    """eps / V on every class, or eps / (V - 1) on the others: two conventions, not one."""
    eps, target, logits = scalar("eps", positive=True), tensor("target", N, into=V), tensor("logits", N, V)
    r, (v, w) = index("r", N), indices("v w", V)
    program = Program("smoothed", inputs=[logits, target, eps])
    q = program.define("q", [r, v], (1 - eps) * delta(v, target[r]) + eps / V)
    L = program.define("L", [], -Sum(q[r, v] * log_softmax(logits[r, v], over=v), r, v) / N)
    slope, p = program.derivative(L, logits[r, w]), softmax(logits[r, w], over=w)
    others = (1 - eps) * delta(w, target[r]) + (1 - delta(w, target[r])) * eps / (V - 1)
    proved(program.claim("p - q", slope, (p - q[r, w]) / N), program.claim("sums to 1", Sum(q[r, v], v), 1))
    refuted(program.claim("the others only", slope, (p - others) / N))


def test_moments_of_random_entries(proved: Any, refuted: Any) -> None:
    """Variances of sums of independent entries, as they are used to choose a scale."""
    q, w, sigma = *tensors("q w", d), scalar("sigma", positive=True)
    c, e = indices("c e", d)
    program = Program("moments", inputs=[q, w, sigma])
    proved(
        program.claim("sum", variance_over(Sum(q[c], c), over=[q]), d, by=Moments()),
        program.claim("fan in", variance_over(Sum(q[c] * w[c], c) / sqrt(d), over=[q, w]), 1, by=Moments()),
        program.claim(
            "given weights",
            variance_over(Sum(sigma * q[c] * w[c], c), over=[q]),
            sigma**2 * Sum(w[c] ** 2, c),
            by=Moments(),
        ),
        program.claim("covariance", expectation(q[c] * q[e], over=[q]), delta(c, e), by=Moments()),
    )
    refuted(program.claim("deviation", variance_over(Sum(q[c] * w[c], c), over=[q, w]), sqrt(d), by=Moments()))


def test_inequalities_of_information(proved: Any, refuted: Any) -> None:
    """Entropy is at most log V, cross entropy at least the entropy; divergence is not symmetric."""
    P, Q, v = *tensors("P Q", V, positive=True), index("v", V)
    program = Program("information", inputs=[P, Q])
    one_p, one_q = Eq(Sum(P[v], v), 1), Eq(Sum(Q[v], v), 1)
    H, cross = -Sum(P[v] * log(P[v]), v), -Sum(P[v] * log(Q[v]), v)
    uniform = P[v] * 0 + 1 / V
    proved(
        program.claim_that("at most log V", log(V) >= H, given=[one_p], by=Gibbs(P[v], uniform, v)),
        program.claim_that("cross entropy", cross >= H, given=[one_p, one_q], by=Gibbs(P[v], Q[v], v)),
    )
    refuted(program.claim_that("without a sum of 1", cross >= H, by=Gibbs(P[v], Q[v], v)))
    both = [one_p, one_q]
    refuted(program.claim("symmetric", divergence(P[v], Q[v], v), divergence(Q[v], P[v], v), given=both))


def test_where_a_maximum_is(proved: Any, refuted: Any) -> None:
    """Increasing maps keep the maximisers, softmax and a positive scale among them; a square need not."""
    f, g, h = tensor("f", N), tensor("g", N, positive=True), scalar("h")
    p, q = indices("p q", N)
    program = Program("maximisers", inputs=[f, g])

    def best(values: Any, of: Any = argmax) -> Any:
        return of(values, over=p, among=q)

    proved(
        program.claim("softmax", best(softmax(f[p], over=p)), best(f[p])),
        program.claim("scale and shift", best(3 * f[p] + 2), best(f[p])),
        program.claim("negated", best(-f[p]), best(f[p], argmin)),
        program.claim("reciprocal", best(1 / g[p]), best(g[p], argmin)),
        program.claim("square of positive", best(g[p] ** 2), best(g[p])),
        program.claim("sigmoid", best(sigmoid(f[p])), best(f[p]), by=StrictlyMonotone(sigmoid(h), h, f[p], p, q)),
    )
    refuted(program.claim("square", best(f[p] ** 2), best(f[p])))


def test_inverse_by_its_equations(proved: Any) -> None:
    """Identities of an inverse follow from A B = B A = I alone, for every size."""
    A, B = tensors("A B", n, n)
    program = Program("inverse_identities", inputs=[A, B, x])
    equations = [Eq(Sum(A[i, k] * B[k, j], k), delta(i, j)), Eq(Sum(B[i, k] * A[k, j], k), delta(i, j))]
    proved(
        program.claim("B A x = x", Sum(B[i, k] * A[k, j] * x[j], k, j), x[i], given=equations),
        program.claim(
            "resolvent", B[i, j] - Sum(B[i, k] * B[k, j], k),
            Sum(B[i, k] * (A[k, l] - delta(k, l)) * B[l, j], k, l), given=equations,
        ),
    )  # fmt: skip


def test_matrix_notation_refuses_what_does_not_fit(proved: Any) -> None:
    """(A B)^T is B^T A^T; the other order does not have the sizes, and the error names them."""
    A, B = tensor("A", n, m), tensor("B", m, V)
    program = Program("products", inputs=[A, B])
    mA, mB = matrices(A, B)
    proved(program.claim("transpose", (mA @ mB).T, mB.T @ mA.T))
    with pytest.raises(StatementError, match=r"A\.T @ B\.T: size mismatch: A\.T has n columns but B\.T has V rows"):
        program.claim("other order", (mA @ mB).T, mA.T @ mB.T)
    slope = Sum(A[i, a] * x[i], i)
    with pytest.raises(
        StatementError, match=r"index i is free on the right side only.*name the claim's indices with over="
    ):
        program.claim("free index", slope, A[i, a] * x[i])


def test_structured_variables_name_their_convention(proved: Any, refuted: Any) -> None:
    """The two gradients of a symmetric matrix differ by a factor 2 off the diagonal; neither is the default."""
    G = tensor("G", n, n)
    program = Program("symmetric_gradients", inputs=[G])
    free, within = (
        structured_gradient("symmetric", G, i, j, convention=choice)
        for choice in (Convention.FREE_ENTRIES, Convention.WITHIN_SPACE)
    )
    proved(program.claim("off the diagonal", free, 2 * within, given=[Ne(i, j)]))
    assert "holds if i = j" in refuted(program.claim("the same", free, within)).advice
    with pytest.raises(StatementError, match=r"expected convention=.*FREE_ENTRIES.* or .*WITHIN_SPACE"):
        structured_gradient("symmetric", G, i, j)

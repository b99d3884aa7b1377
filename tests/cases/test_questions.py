"""Cases from questions about derivations: the claim that was made, refuted, and the formula that is right, proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sympy import Abs, Eq, Ne, cos, exp, log, sign, sin, sqrt

from derive.errors import StatementError
from derive.functions import logsumexp, mean, sigmoid, softmax, variance
from derive.language import Sum, delta, dims, index, indices, scalar, scalars, tensor, tensors
from derive.matrices import matrix, row_softmax, row_sum
from derive.program import Program

n, m, p = dims("n m p")
i, j, k, l = indices("i j k l", n)


def sigma(x: Any) -> Any:
    """The logistic function."""
    return sigmoid(x)


def test_c48_derivative_of_cosine_similarity(proved: Any, refuted: Any, point: Any) -> None:
    """d cos/dv = w/(|v||w|) - cos v/|v|^2: not with a plus, and not with one term of the dot product."""
    v, w = tensors("v w", n)
    kappa = scalar("kappa")
    program = Program("angles", inputs=[v, w, kappa])
    size_v = program.define("size_v", [], sqrt(Sum(v[i] ** 2, i)))
    size_w = program.define("size_w", [], sqrt(Sum(w[i] ** 2, i)))
    c = program.define("c", [], Sum(v[i] * w[i], i) / (size_v * size_w))
    slope = program.derivative(c, v[i])
    right = w[i] / (size_v * size_w) - c * v[i] / size_v**2
    proved(
        program.claim("right", slope, right),
        program.claim("orthogonal to v", Sum(v[i] * slope, i), 0),
    )
    here = point(program, v=(1, 2), w=(3, 1), kappa=0)
    assert here(c) == pytest.approx(0.707106781187)
    refuted(
        program.claim("(a)", slope, w[i] / (size_v * size_w) + c * v[i] / size_v**2), here, [i],
        left=(0.282842712475, -0.141421356237), right=(0.565685424949, 0.424264068712),
    )  # fmt: skip
    one_term = w[i] / (size_v * size_w) - v[i] * w[i] * v[i] / (size_v**3 * size_w)
    refuted(program.claim("(b)", slope, one_term), here, [i], right=(0.339411254970, 0.028284271247))


def test_c48_where_the_derivative_does_not_exist(proved: Any) -> None:
    """|kappa - cos| has no derivative where the two meet, and cosine none at a zero vector: the verdict says so."""
    v, w = tensors("v w", n)
    kappa = scalar("kappa")
    program = Program("angles", inputs=[v, w, kappa])
    size_v = program.define("size_v", [], sqrt(Sum(v[i] ** 2, i)))
    size_w = program.define("size_w", [], sqrt(Sum(w[i] ** 2, i)))
    c = program.define("c", [], Sum(v[i] * w[i], i) / (size_v * size_w))
    away = program.define("away", [], Abs(kappa - c))
    backward = program.gradient(away)
    dc, up = backward["dc"], backward["daway"]
    right = w[i] / (size_v * size_w) - c * v[i] / size_v**2
    verdict, *_ = proved(
        backward.claim("dc", dc, -up * sign(kappa - c), given=[Ne(kappa, c)]),
        backward.claim("dv", backward["dv"][i], dc * right),
    )
    assert {
        "Ne(kappa, c)",
        "almost everywhere: not where c - kappa >= 0 switches (by convention the gradient of the case that holds)",
        "not differentiable where Sum_i(v[i]**2) = 0 (the gradient has no value there)",
        "not differentiable where Sum_i(w[i]**2) = 0 (the gradient has no value there)",
    } <= set(verdict.hypotheses)


def test_c49_gradient_of_a_trace_of_three_factors(proved: Any, refuted: Any, point: Any) -> None:
    """d tr(A X B)/dX is A^T B^T; B A has the transposed shape, and for square matrices the transposed entries."""
    A, X, B = tensor("A", p, m), tensor("X", m, n), tensor("B", n, p)
    r, s = index("r", m), index("s", p)
    program = Program("trace", inputs=[A, X, B])
    tr = program.define("tr", [], Sum(A[s, r] * X[r, i] * B[i, s], s, r, i))
    backward = program.gradient(tr, [X])
    dX, up = matrix(backward["dX"]), backward["dtr"]
    mA, mB = matrix(A), matrix(B)
    proved(backward.claim("A^T B^T", dX, (mA.T @ mB.T) * up), backward.claim("(B A)^T", dX, (mB @ mA).T * up))
    with pytest.raises(StatementError, match=r"size mismatch: dX is m x n but .*B @ A.* is n x m"):
        backward.claim("B A", dX, (mB @ mA) * up)

    A, X, B = tensors("A X B", n, n)
    square = Program("square", inputs=[A, X, B])
    tr = square.define("tr", [], Sum(A[k, i] * X[i, j] * B[j, k], i, j, k))
    slope = square.derivative(tr, X[i, j])
    verdict = refuted(
        square.claim("B A", slope, Sum(B[i, k] * A[k, j], k)),
        point(square, A=[[1, 2], [3, 4]], B=[[0, 1], [5, -1]]), [i, j], left=[[3, 2], [4, 6]], right=[[3, 4], [2, 6]],
    )  # fmt: skip
    assert "holds with i and j exchanged on the right side, which is the transpose" in verdict.advice
    numbers = (np.arange(6.0).reshape(2, 3), np.arange(8.0).reshape(4, 2))
    gradient = point(backward, sizes={"n": 4, "m": 3, "p": 2}, A=numbers[0].tolist(), B=numbers[1].tolist(), dtr=1)
    np.testing.assert_allclose(gradient(backward["dX"]), numbers[0].T @ numbers[1].T)


def test_c50_quadratic_forms_in_a_matrix(proved: Any, refuted: Any, point: Any) -> None:
    """(A + A^T) X B is the gradient of tr(X^T A X B) only where B is symmetric, which is proved as a condition."""
    A, B, C, D, X = tensors("A B C D X", n, n)
    program = Program("forms", inputs=[A, B, C, D, X])
    E = program.define("E", [i, j], Sum(A[k, i] * C[k, j], k))
    f1 = program.define("f1", [], Sum(X[j, i] * A[j, k] * X[k, l] * B[l, i], i, j, k, l))
    f2 = program.define("f2", [], Sum(B[j, i] * X[k, j] * E[k, l] * X[l, index("q", n)] * D[index("q", n), i],
                                      i, j, k, l, index("q", n)))  # fmt: skip
    f3 = program.define("f3", [], Sum(X[i, j] * B[j, k] * X[l, k] * C[l, i], i, j, k, l))
    mA, mB, mC, mD, mE, mX = map(matrix, (A, B, C, D, E, X))
    right = [
        mA @ mX @ mB + mA.T @ mX @ mB.T,
        mE @ mX @ mD @ mB.T + mE.T @ mX @ mB @ mD.T,
        mC @ mX @ mB + mC.T @ mX @ mB.T,
    ]
    slopes = [program.derivative(f, X[i, j]) for f in (f1, f2, f3)]
    proved(*(program.claim("right", slope, M[i, j]) for slope, M in zip(slopes, right, strict=True)))
    here = point(
        program, A=[[1, 2], [3, 4]], B=[[0, 1], [5, -1]], X=[[0.3, -0.2], [1.1, 0.7]], C=[[1, -1], [2, 0]],
        D=[[0.5, 1], [0, 2]],
    )  # fmt: skip
    verdict = refuted(
        program.claim("(A + A^T) X B", slopes[0], ((mA + mA.T) @ mX @ mB)[i, j]), here, [i, j],
        left=[[7.9, 17.4], [13.4, 25.7]], right=[[15.5, 3], [23, 5.7]],
    )  # fmt: skip
    assert "holds if B[i, j] = B[j, i]" in verdict.advice
    np.testing.assert_allclose(here(slopes[1], i, j), [[18.3, 20.7], [-10.3, 5.4]])
    np.testing.assert_allclose(here(slopes[2], i, j), [[-3.3, 11.4], [-1.8, -0.7]])
    refuted(program.claim("C^T X B^T", slopes[2], (mC.T @ mX @ mB.T)[i, j]))


def test_c53_attention(proved: Any, refuted: Any, point: Any) -> None:
    """The whole backward pass for four sizes, one D per query row, and the scale on q or on q k^T."""
    T_q, T_k, d, d_v = dims("T_q T_k d d_v")
    t, u, a, c = index("t", T_q), index("u", T_k), index("a", d), index("c", d_v)
    Q, K, V = tensor("Q", T_q, d), tensor("K", T_k, d), tensor("V", T_k, d_v)
    program = Program("attention", inputs=[Q, K, V])
    S = program.define("S", [t, u], Sum(Q[t, a] * K[u, a], a) / sqrt(d))
    P = program.define("P", [t, u], softmax(S[t, u], over=u))
    O = program.define("O", [t, c], Sum(P[t, u] * V[u, c], u))
    backward = program.gradient(O)
    dO, dP, dS, dQ, dK, dV = (backward[name] for name in ("dO", "dP", "dS", "dQ", "dK", "dV"))
    D = backward.define("D", [t], Sum(P[t, u] * dP[t, u], u))
    mQ, mK, mV, mP, mdO, mdP, mdS = map(matrix, (Q, K, V, P, dO, dP, dS))
    proved(
        backward.claim("dV", matrix(dV), mP.T @ mdO),
        backward.claim("dP", mdP, mdO @ mV.T),
        backward.claim("dS", mdS, mP * (mdP - row_sum(mP * mdP))),
        backward.claim("dQ", matrix(dQ), mdS @ mK / sqrt(d)),
        backward.claim("dK", matrix(dK), mdS.T @ mQ / sqrt(d)),
        backward.claim("D by the output", D[t], Sum(dO[t, c] * O[t, c], c)),
        program.claim("scale on q", matrix(S), (mQ / sqrt(d)) @ mK.T),
        program.claim("softmax of the scaled", mP, row_softmax(mQ @ mK.T / sqrt(d))),
    )
    with pytest.raises(
        StatementError, match=r"D\[a\]: size mismatch on axis 0: D has extent T_q there.* a runs over d"
    ):
        D[a]
    here = point(
        backward, Q=[[1, 0], [0.5, -1]], K=[[0.2, 1], [1, -0.5], [0, 0.3]], V=[[1], [2], [-1]], dO=[[1], [-0.5]],
    )  # fmt: skip
    for name, expected in (
        ("dQ", [[0.340512898863, -0.273537469924], [-0.185689804187, 0.154379645514]]),
        ("dK", [[0.002077616569, -0.006776514145], [0.247252473456, 0.187045107016],
                [-0.249330090025, -0.180268592871]]),
        ("dV", [[0.196969784659], [0.183942358952], [0.119087856389]]),
        ("D", (1.006726032111, -0.560959385937)),
    ):  # fmt: skip
        np.testing.assert_allclose(here(backward[name]), expected, rtol=1e-9)
    unscaled = backward.claim("no scale", matrix(dQ), mdS @ mK)
    assert here(unscaled.right, *sorted(unscaled.left.indices, key=str))[0, 0] == pytest.approx(0.481557959736)
    refuted(unscaled)


def test_c54_cross_entropy_for_every_logit(proved: Any, refuted: Any, point: Any) -> None:
    """dE/dz_k = O_k - y_k, which is O_0 - 1 for the true class only; for two classes the other is its negative."""
    z, y = tensors("z y", n)
    program = Program("entropy", inputs=[z, y])
    O = program.define("O", [k], softmax(z[k], over=k))
    E = program.define("E", [], -Sum(y[k] * log(O[k]), k))
    slope = program.derivative(E, z[k])
    one_hot = [Eq(y[k], delta(k, 0))]
    proved(
        program.claim("right", slope, O[k] - delta(k, 0), given=one_hot),
        program.claim("sums to 0", Sum(slope, k), 0, given=one_hot),
    )
    refuted(
        program.claim("O_0 - 1 for all", slope, O[0] - 1, given=one_hot, over=[k]),
        point(program, z=(0.3, -0.4), y=(1, 0)), [k],
        left=(-0.331812227832, 0.331812227832), right=(-0.331812227832, -0.331812227832),
    )  # fmt: skip
    a, b = scalars("a b")
    two = Program("two", inputs=[a, b])
    first, second = exp(a) / (exp(a) + exp(b)), exp(b) / (exp(a) + exp(b))
    proved(two.claim("opposite", second, -(first - 1)))


def test_c55_hessian_of_softmax_regression(proved: Any, refuted: Any, point: Any) -> None:
    """The gradient is sum (mu - y) x and the Hessian +sum mu (delta - mu) x x^T, which is semi-definite only."""
    N, F, C = dims("N F C")
    r = index("r", N)
    a, b = indices("a b", F)
    c, e = indices("c e", C)
    X, W, label = tensor("X", N, F), tensor("W", C, F), tensor("label", N, into=C)
    program = Program("regression", inputs=[X, W, label])
    s = program.define("s", [r, c], Sum(X[r, a] * W[c, a], a))
    mu = program.define("mu", [r, c], softmax(s[r, c], over=c))
    L = program.define("L", [], Sum(logsumexp(s[r, c], over=c) - s[r, label[r]], r))
    gradient = program.derivative(L, W[c, a])
    hessian_of = Program("gradient_entries", inputs=[X, W, label])
    from derive.gradient import inline

    g = hessian_of.define("g", [c, a], inline(gradient, program))
    hessian = hessian_of.derivative(g[c, a], W[e, b])
    mu_ = inline(mu[r, c], program), inline(mu[r, e], program)
    right = Sum(mu_[0] * (delta(c, e) - mu_[1]) * X[r, a] * X[r, b], r)
    proved(
        program.claim("gradient", gradient, Sum((mu[r, c] - delta(label[r], c)) * X[r, a], r)),
        hessian_of.claim("Hessian", hessian, right),
    )
    here = point(program, X=[[1, 2], [0, 1], [-1, 0.5]], label=(0, 1, 2), W=[[0.1, -0.2], [0.3, 0], [-0.1, 0.2]])
    expected = [[-1.079086080883, -1.152847974776], [0.125949527106, 0.246807415934], [0.953136553777, 0.906040558843]]
    refuted(
        program.claim("gradient with the other sign", gradient, Sum((delta(label[r], c) - mu[r, c]) * X[r, a], r)),
        here, [c, a], left=expected, right=-np.array(expected),
    )  # fmt: skip
    there = point(hessian_of, X=[[1, 2], [0, 1], [-1, 0.5]], label=(0, 1, 2), W=[[0.1, -0.2], [0.3, 0], [-0.1, 0.2]])
    refuted(hessian_of.claim("Hessian with the other sign", hessian, -right))
    H = there(right, c, e, a, b)
    np.testing.assert_allclose(H[0, 0], [[0.376689020704, 0.234049579491], [0.234049579491, 0.924544360005]], rtol=1e-9)
    np.testing.assert_allclose(
        H[0, 1], [[-0.162905863904, -0.129744112969], [-0.129744112969, -0.446106136057]], rtol=1e-9
    )
    eigenvalues = np.linalg.eigvalsh(H.transpose(0, 2, 1, 3).reshape(6, 6))
    np.testing.assert_allclose(eigenvalues, (0, 0, 0.39763, 0.52063, 1.51620, 2.26412), atol=1e-5)

    # v^T H v is a sum of variances, so it is not negative; one vector for every class makes it 0, so H is not definite.
    v, w, M = tensor("v", C, F), tensor("w", F), tensor("M", N, C)
    form = Program("form", inputs=[X, M, v, w])
    sums = [Eq(Sum(M[r, c], c), 1)]
    q = form.define("q", [r, c], Sum(X[r, a] * v[c, a], a))
    middle = form.define("middle", [r], Sum(M[r, c] * q[r, c], c))
    quadratic = Sum(M[r, c] * (delta(c, e) - M[r, e]) * q[r, c] * q[r, e], r, c, e)
    constant = form.define("constant", [r], Sum(X[r, a] * w[a], a))
    null = Sum(M[r, c] * (delta(c, e) - M[r, e]) * constant[r] * constant[r], r, c, e)
    proved(
        form.claim("a sum of variances", quadratic, Sum(M[r, c] * (q[r, c] - middle[r]) ** 2, r, c), given=sums),
        form.claim("a null vector", null, 0, given=sums),
    )


def test_c56_hessian_of_logistic_regression(proved: Any, refuted: Any, point: Any) -> None:
    """X^T diag(s(1-s)) X for all entries: no label on the diagonal."""
    N, F = dims("N F")
    r = index("r", N)
    a, b = indices("a b", F)
    X, y, theta = tensor("X", N, F), tensor("y", N), tensor("theta", F)
    program = Program("logistic", inputs=[X, y, theta])
    s = program.define("s", [r], sigma(Sum(X[r, a] * theta[a], a)))
    L = program.define("L", [], -Sum(y[r] * log(s[r]) + (1 - y[r]) * log(1 - s[r]), r))
    slope = program.define("slope", [a], Sum((s[r] - y[r]) * X[r, a], r))
    hessian = program.derivative(slope[a], theta[b])
    right = Sum(s[r] * (1 - s[r]) * X[r, a] * X[r, b], r)
    claimed = Sum(s[r] * (1 - s[r]) * (1 + delta(a, b) * (y[r] - 1)) * X[r, a] * X[r, b], r)
    proved(
        program.claim("gradient", program.derivative(L, theta[a]), slope[a]),
        program.claim("Hessian", hessian, right),
    )
    refuted(
        program.claim("label on the diagonal", hessian, claimed),
        point(program, X=[[1, 2], [1, -1]], y=(1, 0), theta=(0.2, 0.5)), [a, b],
        left=[[0.422352752338, 0.111330569603], [0.111330569603, 0.956036074278]],
        right=[[0.177894440647, 0.111330569603], [0.111330569603, 0.711577762587]],
    )  # fmt: skip


def test_c59_swish_identity_on_two_lines(proved: Any, refuted: Any, point: Any) -> None:
    """swish' = swish + sigma (b - b swish) holds for b = 1 and for x = 1 only, where its own tests were made."""
    x, b = scalars("x b")
    program = Program("swish", inputs=[x, b])
    y = program.define("y", [], x * sigma(b * x))
    slope = program.derivative(y, x)
    claimed = y + sigma(b * x) * (b - b * y)
    proved(
        program.claim("first", slope, sigma(b * x) + b * x * sigma(b * x) * (1 - sigma(b * x))),
        program.claim("second", slope, b * y + sigma(b * x) * (1 - b * y)),
        program.claim("difference", slope - claimed, sigma(b * x) * (1 - b) * (1 - x)),
    )
    claim = program.claim("claimed", slope, claimed)
    verdict = refuted(claim, point(program, b=2, x=2), left=1.052664614891, right=0.070650824853)
    refuted(claim, point(program, b=2, x=0.5), left=0.927670511871, right=1.293199801186)
    refuted(claim, point(program, b=2, x=1), left=1.090784248785, right=1.090784248785)
    assert 1 not in (verdict.counterexample.inputs["x"], verdict.counterexample.inputs["b"])
    assert {"holds if b = 1", "holds if x = 1"} <= set(verdict.advice)


def test_c60_preference_loss(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """The weight is sigma(r_l - r_w), not sigma(r_w - r_l); a log-softmax over the pair is the same loss."""
    lw, ll, fw, fl = scalars("lw ll fw fl")
    beta = scalar("beta", positive=True)
    program = Program("preference", inputs=[lw, ll, fw, fl, beta])
    r_w = program.define("r_w", [], beta * (lw - fw))
    r_l = program.define("r_l", [], beta * (ll - fl))
    L = program.define("L", [], -log(sigma(r_w - r_l)))
    slope_w, slope_l = program.derivative(L, lw), program.derivative(L, ll)
    pair = -(r_w - log(exp(r_w) + exp(r_l)))
    proved(
        program.claim("chosen", slope_w, -beta * sigma(r_l - r_w)),
        program.claim("rejected", slope_l, beta * sigma(r_l - r_w)),
        program.claim("pair", pair, L),
    )
    here = point(program, lw=-12, ll=-10, fw=-11, fl=-10.5, beta=0.1)
    assert agrees(here(L), 0.770957047790)
    refuted(
        program.claim("weight swapped", slope_w, -beta * sigma(r_w - r_l)), here, left=-0.053742984534,
        right=-0.046257015466,
    )  # fmt: skip
    assert agrees(here(slope_l), 0.053742984534)


def test_c61_distillation_at_a_temperature(proved: Any, refuted: Any, point: Any) -> None:
    """(p - q)/T is the gradient for every temperature; 1/T^2 is a limit, which no finite temperature has."""
    z, t, y = tensors("z t y", n)
    T = scalar("T", positive=True)
    program = Program("distillation", inputs=[z, t, y, T])
    P = program.define("P", [k], softmax(z[k] / T, over=k))
    Q = program.define("Q", [k], softmax(t[k] / T, over=k))
    KL = program.define("KL", [], Sum(Q[k] * (log(Q[k]) - log(P[k])), k))
    CE = program.define("CE", [], -Sum(y[k] * log(P[k]), k))
    slope = program.derivative(KL, z[k])
    proved(
        program.claim("KL", slope, (P[k] - Q[k]) / T),
        program.claim("cross entropy", program.derivative(CE, z[k]), (P[k] - y[k]) / T, given=[Eq(Sum(y[k], k), 1)]),
    )
    here = point(program, z=(1, 2, 0.5), t=(2, 1, 0), y=(0, 1, 0), T=2)
    assert here(KL) == pytest.approx(0.104629218015, rel=1e-10)
    refuted(
        program.claim("without 1/T", slope, P[k] - Q[k]), here, [k],
        left=(-0.107362213663, 0.086914188767, 0.020448024896),
    )  # fmt: skip
    limit = ((z[k] - mean(z[j], over=j)) - (t[k] - mean(t[j], over=j))) / (n * T**2)
    refuted(program.claim("1/T^2 for every T", slope, limit))
    hot = point(program, z=(1, 2, 0.5), t=(2, 1, 0), y=(0, 1, 0), T=1000)
    np.testing.assert_allclose(hot(T * (P[k] - Q[k]), k), (-0.389004568650, 0.277939787790, 0.111064780879), rtol=1e-9)
    np.testing.assert_allclose(hot(T**2 * limit, k), (-7 / 18, 5 / 18, 1 / 9), rtol=1e-9)
    np.testing.assert_allclose(here((P[k] - y[k]) / T, k), (0.145877981864, -0.259487868373, 0.113609886509), rtol=1e-9)


def test_c63_rotary_embedding_transposed(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """Rotating by the transpose is the same up to the sign of the second channel only; its gradient is R^T g."""
    q1, q2, k1, k2, g1, g2, x, y = scalars("q1 q2 k1 k2 g1 g2 x y")
    program = Program("rotation", inputs=[q1, q2, k1, k2, g1, g2, x, y])

    def turned(angle: Any, a: Any, b: Any) -> tuple[Any, Any]:
        return cos(angle) * a - sin(angle) * b, sin(angle) * a + cos(angle) * b

    def dot(a: Any, b: Any) -> Any:
        return a[0] * b[0] + a[1] * b[1]

    standard = dot(turned(x, q1, q2), turned(y, k1, k2))
    transposed = dot(turned(-x, q1, q2), turned(-y, k1, k2))
    flipped = dot(turned(-x, q1, -q2), turned(-y, k1, -k2))
    # Angles are added by the two addition formulas, which are the hypotheses here.
    adds = [Eq(cos(y - x), cos(x) * cos(y) + sin(x) * sin(y)), Eq(sin(y - x), cos(x) * sin(y) - sin(x) * cos(y))]
    proved(
        program.claim("relative position", standard, dot((q1, q2), turned(y - x, k1, k2)), given=adds),
        program.claim("transposed, relative", transposed, dot((q1, q2), turned(x - y, k1, k2)), given=adds),
        program.claim("up to the flip", flipped, standard),
    )
    here = point(program, q1=1, q2=2, k1=-0.5, k2=1.5, x=2.1, y=0.7, g1=1, g2=0)
    refuted(program.claim("equal", transposed, standard), here, left=-2.038706467721, right=2.888542182222)
    assert agrees(here(flipped), 2.888542182222)
    first = program.define("first", [], turned(x, q1, q2)[0])
    second = program.define("second", [], turned(x, q1, q2)[1])
    loss = program.define("loss", [], g1 * first + g2 * second)
    back = turned(-x, g1, g2)
    slopes = [program.derivative(loss, q) for q in (q1, q2)]
    proved(*(program.claim("backward", slope, part) for slope, part in zip(slopes, back, strict=True)))
    assert agrees([here(first), here(second)], (-2.231264837898, -0.146482842551))
    assert agrees([here(slope) for slope in slopes], (-0.504846104600, -0.863209366649))


def test_c66_weight_decay_in_three_ways(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """L2 in the gradient, decay times the rate, decay by a schedule: three updates, the same for plain descent only."""
    th, g, lr, wd, eta = scalars("th g lr wd eta")
    m0, v0, b1, b2, eps = scalars("m0 v0 b1 b2 eps")
    step = scalar("step", positive=True, integer=True)
    program = Program("decay", inputs=[th, g, lr, wd, eta, m0, v0, b1, b2, eps, step])

    def adam(gradient: Any) -> tuple[Any, Any, Any]:
        first = b1 * m0 + (1 - b1) * gradient
        second = b2 * v0 + (1 - b2) * gradient**2
        return lr * (first / (1 - b1**step)) / (sqrt(second / (1 - b2**step)) + eps), first, second

    decoupled = th - adam(g)[0] - lr * wd * th
    regularised = th - adam(g + wd * th)[0]
    scheduled = th - adam(g)[0] - eta * wd * th
    proved(program.claim("plain descent", th - lr * (g + wd * th), th - lr * g - lr * wd * th))
    common = {"lr": 0.1, "wd": 0.01, "b1": 0.9, "b2": 0.999, "eps": "1e-8", "eta": 1}
    forms = {
        "decoupled": (decoupled, 1.898000002, 1.932712354239),
        "regularised": (regularised, 1.900000001923, 1.934385739770),
        "scheduled": (scheduled, 1.880000002, 1.897810354221),
    }  # fmt: skip
    for name, (form, after_one, after_two) in forms.items():
        here = point(program, **common, th=2, g=0.5, m0=0, v0=0, step=1)
        assert agrees(here(form), after_one)
        used = g + wd * th if name == "regularised" else g
        _, first, second = adam(used)
        state = {"m0": here(first), "v0": here(second), "th": here(form)}
        assert agrees(point(program, **common, **state, g=-1, step=2)(form), after_two)
    here = point(program, **common, th=2, g=0.5, m0=0, v0=0, step=1)
    refuted(program.claim("L2 = decoupled", regularised, decoupled), here, left=1.900000001923, right=1.898000002)
    verdict = refuted(program.claim("decoupled = scheduled", decoupled, scheduled), here, right=1.880000002)
    assert verdict.status == "Refuted"


def test_c68_eps_inside_and_outside_the_root(proved: Any, refuted: Any, point: Any) -> None:
    """(std + eps) and sqrt(var + eps) have different backward passes, and the first one needs a row that varies."""
    x = tensor("x", n)
    eps = scalar("eps", positive=True)
    program = Program("deviation", inputs=[x, eps])
    zc = program.define("zc", [i], x[i] - mean(x[j], over=j))
    s = program.define("s", [], sqrt(variance(x[i], over=i)))
    outside = program.define("outside", [i], zc[i] / (s + eps))
    inside = program.define("inside", [i], zc[i] / sqrt(variance(x[j], over=j) + eps))
    first, second = program.gradient(outside, upstream="g"), program.gradient(inside, upstream="g")
    g = first["g"]
    formula = (g[i] - mean(g[j], over=j)) / (s + eps) - zc[i] * Sum(g[j] * zc[j], j) / (n * s * (s + eps) ** 2)
    (verdict,) = proved(first.claim("outside", first["dx"][i], formula))
    stated = "not differentiable where variance(x[i], over=i) = 0 (the gradient has no value there)"
    assert stated in verdict.hypotheses
    r = 1 / sqrt(variance(x[j], over=j) + eps)
    usual = r * (g[i] - mean(g[j], over=j) - mean(g[j] * inside[j], over=j) * inside[i])
    (plain,) = proved(second.claim("inside", second["dx"][i], usual))
    assert not any("not differentiable" in text for text in plain.hypotheses)
    refuted(
        first.claim("interchanged", first["dx"][i], usual), point(first, x=(1, 2, 4), g=(1, -1, 2), eps=0.1), [i],
        left=(0.705538787188, -1.122587357880, 0.417048570692), right=(0.745895332566, -1.173611537254, 0.427716204688),
    )  # fmt: skip

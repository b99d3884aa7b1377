"""Identities of the field that must be proved for symbolic sizes, each stated as a user would state it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sympy import Abs, Eq, Max, Min, Ne, Rational, erf, exp, log, pi, sqrt, tanh

from derive.functions import (
    argmax,
    gelu,
    log_softmax,
    logsumexp,
    mean,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    variance,
)
from derive.language import (
    Product,
    Sum,
    delta,
    dims,
    indices,
    iverson,
    lengths,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.matrices import matrices, matrix, row_sum
from derive.program import Program
from derive.prove import PROVED, prove
from derive.statements import Claim

IDENTITIES: dict[str, Callable[[], Claim]] = {}

N, T, d, V = dims("N T d V")
n, m = indices("n m", N)
i, j, k, l = indices("i j k l", T)
a, b, c = indices("a b c", d)
v, w = indices("v w", V)
eps, tau, beta, gamma = scalars("eps tau beta gamma", positive=True)
s, r, u, mu = scalars("s r u mu")
x, y = tensors("x y", T)
p, q = tensors("p q", T, positive=True)
z, target = tensors("z target", V)
S = tensor("S", T, T)
W = tensor("W", T, d)


def identity(statement: Callable[[], Claim]) -> Callable[[], Claim]:
    """Add a statement to the table, under its function's name."""
    IDENTITIES[statement.__name__] = statement
    return statement


def of_expressions(left: Any, right: Any, **options: Any) -> Claim:
    """The claim that two expressions without definitions are equal."""
    return Program("statement").claim("identity", left, right, **options)


def derivative_is(value: Any, variable: Any, expected: Any, **options: Any) -> Claim:
    """The claim that the derivative of an expression is the expected one."""
    program = Program("statement")
    return program.claim("identity", program.derivative(value, variable), expected, **options)


def adjoint_is(value: Any, name: str, expected: Callable[[Any], tuple[Any, Any]], over: tuple[Any, ...] = ()) -> Claim:
    """The claim about the gradient of one definition `o`; `expected` gives both sides from the gradient program."""
    program = Program("statement")
    gradient = program.gradient(program.define("o", over, value))
    return gradient.claim(name, *expected(gradient))


# ---------------------------------------------------------------------------------------------------------------------
# Normalisation layers.


def batch_norm() -> tuple[Any, Any, Any, Any]:
    """Batch norm over the samples: (gradient program, r, xhat, dy)."""
    X, weight = tensor("X", N, d), tensor("weight", d)
    program = Program("batch_norm")
    middle = program.define("middle", [a], mean(X[n, a], over=n))
    inverse = program.define("inverse", [a], (variance(X[n, a], over=n) + eps) ** Rational(-1, 2))
    hat = program.define("hat", [n, a], (X[n, a] - middle[a]) * inverse[a])
    out = program.define("out", [n, a], weight[a] * hat[n, a])
    gradient = program.gradient(out)
    return gradient, inverse, hat, gradient["dout"]


@identity
def batch_norm_backward_with_sums() -> Claim:
    gradient, inverse, hat, dy = batch_norm()
    weight = gradient["weight"]
    sums = N * dy[n, a] - Sum(dy[m, a], m) - hat[n, a] * Sum(dy[m, a] * hat[m, a], m)
    return gradient.claim("dX", gradient["dX"][n, a], weight[a] * inverse[a] / N * sums)


@identity
def batch_norm_backward_with_means() -> Claim:
    gradient, inverse, hat, dy = batch_norm()
    g = gradient["weight"][a] * dy[n, a]
    means = g - mean(g, over=n) - hat[n, a] * mean(g * hat[n, a], over=n)
    return gradient.claim("dX", gradient["dX"][n, a], inverse[a] * means)


@identity
def batch_norm_backward_through_mean_and_variance() -> Claim:
    gradient, inverse, _, dy = batch_norm()
    X, weight = gradient["X"], gradient["weight"]
    centred = X[n, a] - mean(X[m, a], over=m)
    g = weight[a] * dy[n, a]
    d_variance = Sum(weight[a] * dy[m, a] * (X[m, a] - mean(X[n, a], over=n)), m) * inverse[a] ** 3 * Rational(-1, 2)
    d_mean = -inverse[a] * Sum(weight[a] * dy[m, a], m)
    return gradient.claim("dX", gradient["dX"][n, a], g * inverse[a] + d_variance * 2 * centred / N + d_mean / N)


@identity
def batch_norm_weight_gradient() -> Claim:
    gradient, _, hat, dy = batch_norm()
    return gradient.claim("dweight", gradient["dweight"][a], Sum(dy[n, a] * hat[n, a], n))


@identity
def batch_norm_input_gradient_sums_to_zero() -> Claim:
    gradient, *_ = batch_norm()
    return gradient.claim("dX", Sum(gradient["dX"][n, a], n), 0, over=[a])


def rms_norm() -> tuple[Any, Any, Any]:
    X, weight = tensor("X", N, d), tensor("weight", d)
    program = Program("rms_norm")
    inverse = program.define("inverse", [n], (mean(X[n, a] ** 2, over=a) + eps) ** Rational(-1, 2))
    out = program.define("out", [n, a], X[n, a] * inverse[n] * weight[a])
    return program.gradient(out), inverse, X


@identity
def rms_norm_backward() -> Claim:
    gradient, inverse, X = rms_norm()
    g = gradient["dout"][n, a] * gradient["weight"][a]
    expected = inverse[n] * g - inverse[n] ** 3 * X[n, a] * mean(g * X[n, a], over=a)
    return gradient.claim("dX", gradient["dX"][n, a], expected)


@identity
def rms_norm_weight_gradient() -> Claim:
    gradient, inverse, X = rms_norm()
    return gradient.claim("dweight", gradient["dweight"][a], Sum(gradient["dout"][n, a] * X[n, a] * inverse[n], n))


@identity
def layer_norm_does_not_see_a_shift() -> Claim:
    def layer_norm(values: Any) -> Any:
        return (values - mean(values, over=i)) / sqrt(variance(values, over=i) + eps)

    return of_expressions(layer_norm(x[i] + s), layer_norm(x[i]))


@identity
def unit_vector_backward() -> Claim:
    X = tensor("X", N, d)
    length = sqrt(Sum(X[n, a] ** 2, a))
    return adjoint_is(
        X[n, a] / length,
        "dX",
        lambda g: (
            g["dX"][n, a],
            (g["do"][n, a] - g["o"][n, a] * Sum(g["o"][n, b] * g["do"][n, b], b)) / sqrt(Sum(X[n, b] ** 2, b)),
        ),
        over=(n, a),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Softmax and its relatives.


@identity
def log_softmax_backward() -> Claim:
    X = tensor("X", N, V)
    return adjoint_is(
        log_softmax(X[n, v], over=v),
        "dX",
        lambda g: (g["dX"][n, v], g["do"][n, v] - softmax(X[n, v], over=v) * Sum(g["do"][n, w], w)),
        over=(n, v),
    )


@identity
def gradient_of_logsumexp_is_softmax() -> Claim:
    return derivative_is(logsumexp(x[i], over=i), x[j], softmax(x[j], over=j))


@identity
def hessian_of_logsumexp() -> Claim:
    soft = softmax(x[i], over=i)
    program = Program("statement")
    second = program.derivative(program.derivative(logsumexp(x[k], over=k), x[i]), x[j])
    return program.claim("hessian", second, delta(i, j) * soft - soft * softmax(x[j], over=j))


@identity
def rows_of_the_softmax_hessian_sum_to_zero() -> Claim:
    program = Program("statement")
    second = program.derivative(program.derivative(softmax(x[i], over=i), x[j]), x[k])
    return program.claim("hessian", Sum(second, k), 0, over=[i, j])


@identity
def softmax_hessian_in_closed_form() -> Claim:
    program = Program("statement")
    P = program.define("P", [i], softmax(x[i], over=i))
    second = program.derivative(program.derivative(softmax(x[i], over=i), x[j]), x[k])
    expected = P[i] * ((delta(i, j) - P[j]) * (delta(i, k) - P[k]) - P[j] * (delta(j, k) - P[k]))
    return program.claim("hessian", second, expected)


@identity
def softmax_with_temperature() -> Claim:
    soft = softmax(x[i] / tau, over=i)
    return derivative_is(soft, x[j], soft * (delta(i, j) - softmax(x[j] / tau, over=j)) / tau)


@identity
def online_softmax_merges_two_blocks() -> Claim:
    # Keys in two blocks of sizes T and d, each accumulated relative to a maximum of its own.
    first, second = tensors("first value_first", T), tensors("second value_second", d)
    scale = Max(s, r)
    kept = exp(s - scale) * Sum(exp(first[0][i] - s), i), exp(r - scale) * Sum(exp(second[0][a] - r), a)
    held = (
        exp(s - scale) * Sum(exp(first[0][i] - s) * first[1][i], i),
        exp(r - scale) * Sum(exp(second[0][a] - r) * second[1][a], a),
    )
    whole = Sum(exp(first[0][i]) * first[1][i], i) + Sum(exp(second[0][a]) * second[1][a], a)
    return of_expressions(sum(held) / sum(kept), whole / (Sum(exp(first[0][i]), i) + Sum(exp(second[0][a]), a)))


@identity
def logsumexp_of_two_blocks() -> Claim:
    A = tensor("A", d)
    first, second = logsumexp(x[i], over=i), logsumexp(A[a], over=a)
    return of_expressions(log(exp(first) + exp(second)), log(Sum(exp(x[i]), i) + Sum(exp(A[a]), a)))


@identity
def masked_softmax_is_zero_outside() -> Claim:
    return of_expressions(iverson(j > i) * softmax(S[i, j], over=j, where=j <= i), 0)


@identity
def masked_softmax_sums_to_one() -> Claim:
    return of_expressions(Sum(softmax(S[i, j], over=j, where=j <= i), j), 1)


@identity
def masked_softmax_backward() -> Claim:
    return adjoint_is(
        softmax(S[i, j], over=j, where=j <= i),
        "dS",
        lambda g: (g["dS"][i, j], g["o"][i, j] * (g["do"][i, j] - Sum(g["do"][i, k] * g["o"][i, k], k))),
        over=(i, j),
    )


@identity
def attention_row_sums() -> Claim:
    X = tensor("X", T, d)
    program = Program("statement")
    A = program.define("A", [i, j], softmax(S[i, j], over=j))
    O = program.define("O", [i, a], Sum(A[i, j] * X[j, a], j))
    g = program.gradient(O)
    return g.claim("rows", row_sum(matrix(g["dA"]) * matrix(A)).at(i, j), Sum(g["dO"][i, a] * O[i, a], a))


@identity
def score_function_has_mean_zero() -> Claim:
    program = Program("statement")
    P = program.define("P", [i], softmax(x[i], over=i))
    scores = program.jacobian(program.define("score", [i], log_softmax(x[i], over=i)), x)
    return scores.claim("mean", Sum(P[i] * scores["dscore_dx"][i, j], i), 0, over=[j])


@identity
def entropy_gradient() -> Claim:
    program = Program("statement")
    P = program.define("P", [i], softmax(x[i], over=i))
    H = program.define("H", [], -Sum(P[i] * log(P[i]), i))
    return program.claim("entropy", program.derivative(H, x[j]), -P[j] * (log(P[j]) + H))


@identity
def argmax_of_softmax() -> Claim:
    soft = softmax(x[i], over=i)
    return of_expressions(argmax(soft, over=i, among=j), argmax(x[i], over=i, among=j))


# ---------------------------------------------------------------------------------------------------------------------
# Losses.


@identity
def kl_divergence_gradient() -> Claim:
    value = Sum(softmax(target[v], over=v) * (log_softmax(target[v], over=v) - log_softmax(z[v], over=v)), v)
    return derivative_is(value, z[w], softmax(z[w], over=w) - softmax(target[w], over=w))


@identity
def distillation_gradient_with_temperature() -> Claim:
    soft = softmax(target[v] / tau, over=v)
    value = -(tau**2) * Sum(soft * log_softmax(z[v] / tau, over=v), v)
    return derivative_is(value, z[w], tau * (softmax(z[w] / tau, over=w) - softmax(target[w] / tau, over=w)))


@identity
def label_smoothing_gradient() -> Claim:
    truth = tensor("truth", N, into=V)
    X = tensor("X", N, V)
    smooth = (1 - s) * delta(v, truth[n]) + s / V
    value = -mean(Sum(smooth * log_softmax(X[n, v], over=v), v), over=n)
    expected = (softmax(X[m, w], over=w) - (1 - s) * delta(w, truth[m]) - s / V) / N
    return derivative_is(value, X[m, w], expected)


@identity
def z_loss_gradient() -> Claim:
    total = logsumexp(z[v], over=v)
    return derivative_is(s * total**2, z[w], 2 * s * total * softmax(z[w], over=w))


@identity
def info_nce_gradient() -> Claim:
    # The embeddings are used twice, as queries and as keys.
    Z = tensor("Z", T, d)
    program = Program("info_nce")
    scores = program.define("scores", [i, j], Sum(Z[i, a] * Z[j, a], a) / tau)
    loss = program.define("loss", [], Sum(logsumexp(scores[i, j], over=j) - scores[i, i], i))
    g = program.gradient(loss)
    D = softmax(scores[i, j], over=j) - delta(i, j)
    E = softmax(scores[j, i], over=i) - delta(i, j)
    return g.claim("dZ", g["dZ"][i, a], g["dloss"] * Sum((D + E) * Z[j, a], j) / tau)


@identity
def jensen_shannon_gradient() -> Claim:
    middle = (p[i] + q[i]) / 2
    value = Sum(p[i] * log(p[i] / middle) + q[i] * log(q[i] / middle), i) / 2
    return derivative_is(value, p[j], log(2 * p[j] / (p[j] + q[j])) / 2)


@identity
def binary_cross_entropy_with_logits() -> Claim:
    value = -s * log(sigmoid(r)) - (1 - s) * log(1 - sigmoid(r))
    return of_expressions(value, softplus(r) - s * r)


@identity
def binary_cross_entropy_gradient() -> Claim:
    return derivative_is(-s * log(sigmoid(r)) - (1 - s) * log(1 - sigmoid(r)), r, sigmoid(r) - s)


@identity
def logistic_regression_hessian() -> Claim:
    X, theta = tensor("X", N, d), tensor("theta", d)
    program = Program("logistic")
    P = program.define("P", [n], sigmoid(Sum(X[n, a] * theta[a], a)))
    loss = Sum(softplus(Sum(X[n, a] * theta[a], a)), n)
    second = program.derivative(program.derivative(loss, theta[b]), theta[c])
    return program.claim("hessian", second, Sum(P[n] * (1 - P[n]) * X[n, b] * X[n, c], n))


@identity
def focal_loss_gradient() -> Claim:
    value = -((1 - s) ** gamma) * log(s)
    return derivative_is(value, s, gamma * (1 - s) ** (gamma - 1) * log(s) - (1 - s) ** gamma / s)


@identity
def dpo_gradient() -> Claim:
    margin = beta * (s - r)
    return derivative_is(-log(sigmoid(margin)), s, -beta * sigmoid(-margin))


@identity
def mean_squared_error_gradient() -> Claim:
    X, Y = tensors("X Y", N, d)
    value = mean(Sum((X[n, a] - Y[n, a]) ** 2, a), over=n)
    return derivative_is(value, X[m, b], 2 * (X[m, b] - Y[m, b]) / N)


@identity
def huber_gradient() -> Claim:
    value = where(Abs(s) <= tau, s**2 / 2, tau * (Abs(s) - tau / 2))
    return derivative_is(value, s, where(Abs(s) <= tau, s, tau * where(s >= 0, 1, -1)))


@identity
def hinge_gradient() -> Claim:
    return derivative_is(Sum(Max(0, 1 - s * x[i]), i), s, -Sum(x[i] * iverson(s * x[i] < 1), i))


@identity
def gaussian_likelihood_gradients() -> Claim:
    value = Sum((x[i] - s) ** 2 * exp(-r) / 2 + r / 2, i)
    return derivative_is(value, r, (T - exp(-r) * Sum((x[i] - s) ** 2, i)) / 2)


@identity
def variational_kl_gradient() -> Claim:
    value = -Sum(1 + y[i] - x[i] ** 2 - exp(y[i]), i) / 2
    return derivative_is(value, y[j], (exp(y[j]) - 1) / 2)


@identity
def poisson_likelihood_gradient() -> Claim:
    return derivative_is(Sum(exp(x[i]) - y[i] * x[i], i), x[j], exp(x[j]) - y[j])


@identity
def perplexity_gradient() -> Claim:
    truth = tensor("truth", N, into=V)
    X = tensor("X", N, V)
    nll = mean(logsumexp(X[n, v], over=v) - X[n, truth[n]], over=n)
    program = Program("perplexity")
    value = program.define("value", [], exp(nll))
    step = program.derivative(value, X[m, w])
    return program.claim("gradient", step, value * (softmax(X[m, w], over=w) - delta(w, truth[m])) / N)


# ---------------------------------------------------------------------------------------------------------------------
# Activations.


@identity
def sigmoid_derivative() -> Claim:
    return derivative_is(sigmoid(s), s, sigmoid(s) * (1 - sigmoid(s)))


@identity
def softplus_derivative() -> Claim:
    return derivative_is(softplus(s), s, sigmoid(s))


@identity
def log_sigmoid_derivative() -> Claim:
    return derivative_is(log(sigmoid(s)), s, 1 - sigmoid(s))


@identity
def tanh_derivative() -> Claim:
    return derivative_is(tanh(s), s, 1 - tanh(s) ** 2)


@identity
def tanh_is_a_sigmoid() -> Claim:
    return of_expressions(tanh(s), 2 * sigmoid(2 * s) - 1)


@identity
def gelu_derivative() -> Claim:
    return derivative_is(gelu(s), s, (1 + erf(s / sqrt(2))) / 2 + s * exp(-(s**2) / 2) / sqrt(2 * pi))


@identity
def silu_derivative() -> Claim:
    return derivative_is(silu(s), s, sigmoid(s) * (1 + s * (1 - sigmoid(s))))


@identity
def silu_derivative_from_its_value() -> Claim:
    return derivative_is(silu(s), s, silu(s) + sigmoid(s) * (1 - silu(s)))


@identity
def swish_derivative() -> Claim:
    swish = s * sigmoid(beta * s)
    return derivative_is(swish, s, beta * swish + sigmoid(beta * s) * (1 - beta * swish))


@identity
def relu_backward() -> Claim:
    return adjoint_is(relu(x[i]), "dx", lambda g: (g["dx"][i], g["do"][i] * iverson(x[i] > 0)), over=(i,))


@identity
def relu_twice() -> Claim:
    return of_expressions(relu(s) - relu(-s), s)


@identity
def swiglu_backward() -> Claim:
    return adjoint_is(
        silu(x[i]) * y[i],
        "dx",
        lambda g: (g["dx"][i], g["do"][i] * y[i] * sigmoid(x[i]) * (1 + x[i] * (1 - sigmoid(x[i])))),
        over=(i,),
    )


@identity
def maximum_and_minimum() -> Claim:
    return of_expressions(Max(s, r) + Min(s, r), s + r)


@identity
def maximum_as_half_a_sum() -> Claim:
    return of_expressions(Max(s, r), (s + r + Abs(s - r)) / 2)


# ---------------------------------------------------------------------------------------------------------------------
# Linear algebra. Different letters for all sizes.


@identity
def derivative_of_a_trace() -> Claim:
    A, B, X = tensor("A", T, N), tensor("B", d, T), tensor("X", N, d)
    g = matrices(A, B)
    value = Sum(A[i, n] * X[n, a] * B[a, i], i, n, a)
    return adjoint_is(value, "dX", lambda at: (matrix(at["dX"]), g[0].T @ g[1].T * at["do"]))


@identity
def derivative_of_a_quadratic_trace() -> Claim:
    A, X = tensor("A", T, T), tensor("X", T, d)
    value = Sum(X[i, a] * A[i, j] * X[j, a], i, j, a)
    mA, mX = matrices(A, X)
    return adjoint_is(value, "dX", lambda at: (matrix(at["dX"]), (mA + mA.T) @ mX * at["do"]))


@identity
def derivative_of_a_quadratic_form_in_its_matrix() -> Claim:
    return derivative_is(Sum(x[i] * S[i, j] * y[j], i, j), S[k, l], x[k] * y[l])


@identity
def derivative_of_the_trace_of_a_square() -> Claim:
    return derivative_is(Sum(S[i, j] * S[j, i], i, j), S[k, l], 2 * S[l, k])


@identity
def derivative_of_the_trace_of_a_cube() -> Claim:
    value = Sum(S[i, j] * S[j, k] * S[k, i], i, j, k)
    return adjoint_is(value, "dS", lambda g: (matrix(g["dS"]), matrix(S).T @ matrix(S).T * (3 * g["do"])))


@identity
def least_squares_backward() -> Claim:
    A, B, Y = tensor("A", N, d), tensor("B", d, V), tensor("Y", N, V)
    mA, mB, mY = matrices(A, B, Y)
    value = Sum((Sum(A[n, a] * B[a, v], a) - Y[n, v]) ** 2, n, v)
    return adjoint_is(value, "dB", lambda g: (matrix(g["dB"]), mA.T @ (mA @ mB - mY) * (2 * g["do"])))


@identity
def low_rank_update_backward() -> Claim:
    X, A, B = tensor("X", N, d), tensor("A", d, T), tensor("B", T, V)
    value = Sum(X[n, a] * A[a, i] * B[i, v], a, i)
    mX, mB = matrices(X, B)
    return adjoint_is(value, "dA", lambda g: (matrix(g["dA"]), mX.T @ matrix(g["do"]) @ mB.T), over=(n, v))


@identity
def tied_embeddings_backward() -> Claim:
    # The table is read at the tokens and again as the output layer.
    E, token = tensor("E", V, d), tensor("token", N, into=V)
    value = Sum(E[token[n], a] * E[v, a], a)
    return adjoint_is(
        value,
        "dE",
        lambda g: (
            g["dE"][w, b],
            Sum(g["do"][n, w] * E[token[n], b], n) + Sum(delta(w, token[n]) * g["do"][n, v] * E[v, b], n, v),
        ),
        over=(n, v),
    )


@identity
def cosine_gradient_is_orthogonal() -> Claim:
    program = Program("statement")
    cosine = Sum(x[i] * y[i], i) / (sqrt(Sum(x[i] ** 2, i)) * sqrt(Sum(y[i] ** 2, i)))
    return program.claim("orthogonal", Sum(x[j] * program.derivative(cosine, x[j]), j), 0)


@identity
def cosine_gradient() -> Claim:
    program = Program("statement")
    length, other = sqrt(Sum(x[i] ** 2, i)), sqrt(Sum(y[i] ** 2, i))
    cosine = program.define("cosine", [], Sum(x[i] * y[i], i) / (length * other))
    expected = y[j] / (length * other) - cosine * x[j] / length**2
    return program.claim("gradient", program.derivative(cosine, x[j]), expected)


@identity
def gaussian_kernel_gradient() -> Claim:
    program = Program("statement")
    kernel = program.define("kernel", [], exp(-Sum((x[i] - y[i]) ** 2, i) / (2 * tau**2)))
    return program.claim("gradient", program.derivative(kernel, x[j]), -kernel * (x[j] - y[j]) / tau**2)


@identity
def squared_distances_expand() -> Claim:
    gram = Sum(W[i, a] * W[j, a], a)
    return of_expressions(Sum((W[i, a] - W[j, a]) ** 2, a), Sum(W[i, a] ** 2, a) + Sum(W[j, a] ** 2, a) - 2 * gram)


# ---------------------------------------------------------------------------------------------------------------------
# Sums, means and products.


@identity
def variance_as_mean_of_squares() -> Claim:
    return of_expressions(variance(x[i], over=i), mean(x[i] ** 2, over=i) - mean(x[i], over=i) ** 2)


@identity
def variance_from_pairs() -> Claim:
    return of_expressions(Sum((x[i] - x[j]) ** 2, i, j) / (2 * T**2), variance(x[i], over=i))


@identity
def variance_of_a_scaled_and_shifted_vector() -> Claim:
    return of_expressions(variance(s * x[i] + r, over=i), s**2 * variance(x[i], over=i))


@identity
def welford_merges_two_blocks() -> Claim:
    B = tensor("B", d)
    whole_mean = (Sum(x[j], j) + Sum(B[b], b)) / (T + d)
    whole = Sum((x[i] - whole_mean) ** 2, i) + Sum((B[a] - whole_mean) ** 2, a)
    gap = mean(B[a], over=a) - mean(x[i], over=i)
    return of_expressions(whole, T * variance(x[i], over=i) + d * variance(B[a], over=a) + gap**2 * T * d / (T + d))


@identity
def welford_adds_one_value() -> Claim:
    old = mean(x[j], over=j)
    new = old + (s - old) / (T + 1)
    whole = Sum((x[i] - new) ** 2, i) + (s - new) ** 2
    return of_expressions(whole, T * variance(x[i], over=i) + (s - old) * (s - new))


@identity
def gradient_of_the_variance() -> Claim:
    return derivative_is(variance(x[i], over=i), x[j], 2 * (x[j] - mean(x[i], over=i)) / T)


@identity
def lagrange_identity() -> Claim:
    gram = Sum(x[i] ** 2, i) * Sum(y[i] ** 2, i) - Sum(x[i] * y[i], i) ** 2
    return of_expressions(gram, Sum((x[i] * y[j] - x[j] * y[i]) ** 2, i, j) / 2)


@identity
def logarithmic_derivative_of_a_product() -> Claim:
    return derivative_is(Product(p[i], i), p[j], Product(p[i], i) / p[j])


@identity
def power_mean_derivative() -> Claim:
    value = Sum(p[i] ** gamma, i) ** (1 / gamma)
    return derivative_is(value, p[j], Sum(p[i] ** gamma, i) ** (1 / gamma - 1) * p[j] ** (gamma - 1))


@identity
def ragged_mean_of_means() -> Claim:
    L = lengths("L", N)
    t, t_1 = indices("t t_1", L[n])
    R = tensor("R", N, L)
    return derivative_is(mean(R[n, t] ** 2, over=t), R[n, t_1], 2 * R[n, t_1] / L[n])


@identity
def triangular_sums_split() -> Claim:
    below, above = Sum(S[i, j] * iverson(j < i), i, j), Sum(S[i, j] * iverson(j > i), i, j)
    return of_expressions(below + above + Sum(S[i, i], i), Sum(S[i, j], i, j))


@identity
def off_diagonal_of_an_outer_product() -> Claim:
    return of_expressions(Sum(x[i] * x[j] * iverson(Ne(i, j)), i, j), Sum(x[i], i) ** 2 - Sum(x[i] ** 2, i))


@identity
def selection_by_a_one_hot_vector() -> Claim:
    truth = tensor("truth", N, into=V)
    X = tensor("X", N, V)
    return of_expressions(Sum(iverson(Eq(v, truth[n])) * X[n, v], v), X[n, truth[n]])


@identity
def square_of_the_magnitude() -> Claim:
    return of_expressions(Abs(s) ** 2, s**2)


@pytest.mark.parametrize("name", IDENTITIES)
def test_a_true_identity_is_proved(name: str) -> None:
    verdict = prove(IDENTITIES[name]())
    assert verdict.status == PROVED, verdict.counterexample or verdict.reason


def test_there_are_enough() -> None:
    assert len(IDENTITIES) >= 40

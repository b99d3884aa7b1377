"""Claims that look right and are wrong. None may be proved, and each must be refuted by numbers.

Most are slips that a person makes in a backward pass: a factor, a transpose, a sign, an axis, a term left out, an
identity that holds for square matrices or for one value of a parameter only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sympy import Abs, Eq, Max, Ne, Rational, exp, log, pi, sign, sqrt, tanh

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
    index,
    indices,
    iverson,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.matrices import matrices, matrix, row_sum
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove
from derive.statements import Claim

CLAIMS: dict[str, Callable[[], Claim]] = {}

N, T, d, V = dims("N T d V")
n, m = indices("n m", N)
i, j, k, l = indices("i j k l", T)
a, b = indices("a b", d)
v, w = indices("v w", V)
eps, tau, beta, gamma = scalars("eps tau beta gamma", positive=True)
s, r, u = scalars("s r u")
x, y = tensors("x y", T)
p, q = tensors("p q", T, positive=True)
z, target = tensors("z target", V)
S = tensor("S", T, T)
W = tensor("W", T, d)


def claim(statement: Callable[[], Claim]) -> Callable[[], Claim]:
    """Add a statement to the table, under its function's name."""
    CLAIMS[statement.__name__] = statement
    return statement


def equality(left: Any, right: Any, **options: Any) -> Claim:
    return Program("statement").claim("false", left, right, **options)


def derivative_is(value: Any, variable: Any, wrong: Any, **options: Any) -> Claim:
    program = Program("statement")
    return program.claim("false", program.derivative(value, variable), wrong, **options)


def adjoint_is(value: Any, wrong: Callable[[Any], tuple[Any, Any]], over: tuple[Any, ...] = ()) -> Claim:
    program = Program("statement")
    gradient = program.gradient(program.define("o", over, value))
    return gradient.claim("false", *wrong(gradient))


# ---------------------------------------------------------------------------------------------------------------------
# Attention.


def attention() -> tuple[Any, ...]:
    """The gradient program of attention, and its matrices Q, K, U, A, dO, dA, dS."""
    query, key = dims("T_q T_k")
    i_, j_ = index("i", query), index("j", key)
    Q, K, value = tensor("Q", query, d), tensor("K", key, d), tensor("U", key, V)
    program = Program("attention")
    scores = program.define("S", [i_, j_], Sum(Q[i_, a] * K[j_, a], a) / sqrt(d))
    A = program.define("A", [i_, j_], softmax(scores[i_, j_], over=j_))
    O = program.define("O", [i_, v], Sum(A[i_, j_] * value[j_, v], j_))
    g = program.gradient(O)
    return g, *matrices(Q, K, value, A, g["dO"], g["dA"], g["dS"])


@claim
def scale_left_out_of_dQ() -> Claim:
    g, _, K, _, _, _, _, dS = attention()
    return g.claim("false", matrix(g["dQ"]), dS @ K)


@claim
def scale_squared_in_dK() -> Claim:
    g, Q, *_, dS = attention()
    return g.claim("false", matrix(g["dK"]), dS.T @ Q / d)


@claim
def softmax_backward_with_the_diagonal_alone() -> Claim:
    g, _, _, _, A, _, dA, dS = attention()
    return g.claim("false", dS, A * dA - A * A * dA)


@claim
def row_sum_left_out_of_dS() -> Claim:
    g, _, _, _, A, _, dA, dS = attention()
    return g.claim("false", dS, A * dA)


@claim
def row_sum_without_the_weights() -> Claim:
    g, _, _, _, A, _, dA, dS = attention()
    return g.claim("false", dS, A * (dA - row_sum(dA)))


@claim
def column_sum_for_row_sum_in_dS() -> Claim:
    # One size for queries and keys, so that nothing but the numbers can tell.
    program = Program("statement")
    A = program.define("A", [i, j], softmax(S[i, j], over=j))
    g = program.gradient(A)
    dA = g["dA"]
    return g.claim("false", g["dS"][i, j], A[i, j] * (dA[i, j] - Sum(dA[k, j] * A[k, j], k)))


@claim
def transposed_dS_in_self_attention() -> Claim:
    X = tensor("X", T, d)
    program = Program("statement")
    scores = program.define("scores", [i, j], Sum(W[i, a] * X[j, a], a))
    g = program.gradient(program.define("A", [i, j], softmax(scores[i, j], over=j)))
    return g.claim("false", matrix(g["dX"]), matrix(g["dscores"]) @ matrix(W))


@claim
def softmax_over_the_queries() -> Claim:
    return equality(Sum(softmax(S[i, j], over=i), j), 1, over=[i, j])


@claim
def dV_with_the_scores_for_the_weights() -> Claim:
    X = tensor("X", T, d)
    value = Sum(softmax(S[i, j], over=j) * X[j, a], j)
    return adjoint_is(value, lambda g: (matrix(g["dX"]), matrix(S).T @ matrix(g["do"])), over=(i, a))


@claim
def keys_used_twice_counted_once() -> Claim:
    Z = tensor("Z", T, d)
    value = Sum(Z[i, a] * Z[j, a], a)
    return adjoint_is(value, lambda g: (matrix(g["dZ"]), matrix(g["do"]) @ matrix(Z)), over=(i, j))


@claim
def keys_used_twice_taken_for_symmetric() -> Claim:
    Z = tensor("Z", T, d)
    value = Sum(Z[i, a] * Z[j, a], a)
    return adjoint_is(value, lambda g: (matrix(g["dZ"]), matrix(g["do"]) @ matrix(Z) * 2), over=(i, j))


@claim
def delta_of_another_contraction() -> Claim:
    # D_i = sum_j A_ij dA_ij = sum_c dO_ic O_ic, not sum_c dO_ic V_ic.
    X = tensor("X", T, d)
    program = Program("statement")
    A = program.define("A", [i, j], softmax(S[i, j], over=j))
    g = program.gradient(program.define("O", [i, a], Sum(A[i, j] * X[j, a], j)))
    return g.claim("false", Sum(g["dA"][i, j] * A[i, j], j), Sum(g["dO"][i, a] * X[i, a], a))


@claim
def masked_softmax_normalised_by_everything() -> Claim:
    masked = softmax(S[i, j], over=j, where=j <= i)
    return equality(masked, iverson(j <= i) * softmax(S[i, j], over=j))


@claim
def mask_by_multiplying_the_scores() -> Claim:
    return equality(softmax(S[i, j], over=j, where=j <= i), softmax(S[i, j] * iverson(j <= i), over=j))


@claim
def masked_backward_leaks_over_the_diagonal() -> Claim:
    return adjoint_is(
        softmax(S[i, j], over=j, where=j <= i),
        lambda g: (g["dS"][i, j], g["o"][i, j] * g["do"][i, j] - g["o"][i, j] * Sum(g["do"][i, k], k)),
        over=(i, j),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Softmax and its relatives.


@claim
def softmax_jacobian_without_delta() -> Claim:
    soft = softmax(x[i], over=i)
    return derivative_is(soft, x[j], soft * (1 - softmax(x[j], over=j)))


@claim
def softmax_jacobian_off_the_diagonal_with_the_wrong_sign() -> Claim:
    soft = softmax(x[i], over=i)
    return derivative_is(soft, x[j], soft * softmax(x[j], over=j), given=[Ne(i, j)])


@claim
def log_softmax_backward_with_a_mean() -> Claim:
    X = tensor("X", N, V)
    return adjoint_is(
        log_softmax(X[n, v], over=v),
        lambda g: (g["dX"][n, v], g["do"][n, v] - softmax(X[n, v], over=v) * mean(g["do"][n, w], over=w)),
        over=(n, v),
    )


@claim
def log_softmax_backward_with_a_weighted_sum() -> Claim:
    X = tensor("X", N, V)
    return adjoint_is(
        log_softmax(X[n, v], over=v),
        lambda g: (
            g["dX"][n, v],
            g["do"][n, v] - softmax(X[n, v], over=v) * Sum(g["do"][n, w] * softmax(X[n, w], over=w), w),
        ),
        over=(n, v),
    )


@claim
def temperature_left_out_of_the_gradient() -> Claim:
    value = -Sum(softmax(target[v], over=v) * log_softmax(z[v] / tau, over=v), v)
    return derivative_is(value, z[w], softmax(z[w] / tau, over=w) - softmax(target[w], over=w))


@claim
def softmax_scales() -> Claim:
    return equality(softmax(2 * x[i], over=i), softmax(x[i], over=i))


@claim
def softmax_of_a_scaled_row_is_the_same() -> Claim:
    return equality(softmax(s * x[i], over=i), softmax(x[i], over=i))


@claim
def softmax_does_not_see_a_row_that_varies() -> Claim:
    return equality(softmax(S[i, j] + y[j], over=j), softmax(S[i, j], over=j))


@claim
def online_softmax_without_rescaling() -> Claim:
    B = tensor("B", d)
    merged = Sum(exp(x[i] - s), i) + Sum(exp(B[a] - r), a)
    return equality(exp(Max(s, r)) * merged, Sum(exp(x[i]), i) + Sum(exp(B[a]), a))


@claim
def logsumexp_of_a_sum() -> Claim:
    return equality(logsumexp(x[i] + y[i], over=i), logsumexp(x[i], over=i) + logsumexp(y[i], over=i))


@claim
def hessian_of_logsumexp_without_the_outer_product() -> Claim:
    program = Program("statement")
    second = program.derivative(program.derivative(logsumexp(x[k], over=k), x[i]), x[j])
    return program.claim("false", second, delta(i, j) * softmax(x[i], over=i))


@claim
def argmax_of_the_negative() -> Claim:
    return equality(argmax(-x[i], over=i, among=j), argmax(x[i], over=i, among=j))


@claim
def argmax_of_squares() -> Claim:
    return equality(argmax(x[i] ** 2, over=i, among=j), argmax(x[i], over=i, among=j))


@claim
def argmax_is_where_nothing_is_as_great() -> Claim:
    # With ties there are several maximisers.
    return equality(Sum(argmax(iverson(x[i] > 0), over=i, among=j), i), 1)


# ---------------------------------------------------------------------------------------------------------------------
# Normalisation layers.


def layer_norm() -> tuple[Any, Any, Any, Any]:
    """The gradient program, and at [n, a]: 1/std, the normalised value, dy times the weight."""
    X, weight = tensor("X", N, d), tensor("weight", d)
    program = Program("layer_norm")
    middle = program.define("middle", [n], mean(X[n, a], over=a))
    inverse = program.define("inverse", [n], (variance(X[n, a], over=a) + eps) ** Rational(-1, 2))
    hat = program.define("hat", [n, a], (X[n, a] - middle[n]) * inverse[n])
    gradient = program.gradient(program.define("out", [n, a], weight[a] * hat[n, a]))
    return gradient, inverse[n], hat, gradient["dout"][n, a] * weight[a]


@claim
def layer_norm_backward_without_the_mean() -> Claim:
    g, inverse, hat, dy = layer_norm()
    return g.claim("false", g["dX"][n, a], inverse * (dy - hat[n, a] * mean(dy * hat[n, a], over=a)))


@claim
def layer_norm_backward_without_the_projection() -> Claim:
    g, inverse, _, dy = layer_norm()
    return g.claim("false", g["dX"][n, a], inverse * (dy - mean(dy, over=a)))


@claim
def layer_norm_backward_with_sums_for_means() -> Claim:
    g, inverse, hat, dy = layer_norm()
    terms = Sum(dy, a) + hat[n, b] * Sum(dy * hat[n, a], a)
    out = g["dout"][n, b] * g["weight"][b]
    return g.claim("false", g["dX"][n, b], inverse * (out - terms))


@claim
def layer_norm_backward_with_the_weight_outside() -> Claim:
    g, inverse, hat, _ = layer_norm()
    dy = g["dout"][n, a]
    inner = dy - mean(dy, over=a) - hat[n, a] * mean(dy * hat[n, a], over=a)
    return g.claim("false", g["dX"][n, a], inverse * g["weight"][a] * inner)


@claim
def layer_norm_weight_gradient_averaged() -> Claim:
    g, _, hat, _ = layer_norm()
    return g.claim("false", g["dweight"][a], mean(g["dout"][n, a] * hat[n, a], over=n))


@claim
def batch_norm_backward_over_the_features() -> Claim:
    X = tensor("X", N, d)
    program = Program("batch_norm")
    inverse = program.define("inverse", [a], (variance(X[n, a], over=n) + eps) ** Rational(-1, 2))
    hat = program.define("hat", [n, a], (X[n, a] - mean(X[n, a], over=n)) * inverse[a])
    g = program.gradient(hat)
    dy = g["dhat"]
    inner = dy[n, a] - mean(dy[n, a], over=a) - hat[n, a] * mean(dy[n, a] * hat[n, a], over=a)
    return g.claim("false", g["dX"][n, a], inverse[a] * inner)


@claim
def rms_norm_backward_with_a_mean_taken_off() -> Claim:
    X = tensor("X", N, d)
    program = Program("rms_norm")
    inverse = program.define("inverse", [n], (mean(X[n, a] ** 2, over=a) + eps) ** Rational(-1, 2))
    g = program.gradient(program.define("out", [n, a], X[n, a] * inverse[n]))
    dy = g["dout"][n, a]
    inner = dy - mean(dy, over=a) - inverse[n] ** 2 * X[n, a] * mean(dy * X[n, a], over=a)
    return g.claim("false", g["dX"][n, a], inverse[n] * inner)


@claim
def layer_norm_does_not_see_a_scale() -> Claim:
    def layer_norm_of(values: Any) -> Any:
        return (values - mean(values, over=i)) / sqrt(variance(values, over=i) + eps)

    return equality(layer_norm_of(s * x[i]), layer_norm_of(x[i]))


@claim
def unbiased_variance_for_the_population_variance() -> Claim:
    # With one value there is no unbiased variance at all, so the claim is multiplied out.
    return equality((T - 1) * variance(x[i], over=i), Sum((x[i] - mean(x[j], over=j)) ** 2, i))


# ---------------------------------------------------------------------------------------------------------------------
# Losses.


@claim
def cross_entropy_gradient_summed_for_averaged() -> Claim:
    X, truth = tensor("X", N, V), tensor("truth", N, into=V)
    value = mean(logsumexp(X[n, v], over=v) - X[n, truth[n]], over=n)
    return derivative_is(value, X[m, w], softmax(X[m, w], over=w) - delta(w, truth[m]))


@claim
def cross_entropy_gradient_with_the_wrong_sign() -> Claim:
    value = logsumexp(z[v], over=v) - Sum(target[v] * z[v], v)
    return derivative_is(value, z[w], target[w] - softmax(z[w], over=w))


@claim
def cross_entropy_with_weights_that_do_not_sum_to_one() -> Claim:
    value = -Sum(target[v] * log_softmax(z[v], over=v), v)
    return derivative_is(value, z[w], softmax(z[w], over=w) - target[w])


@claim
def kl_divergence_is_symmetric() -> Claim:
    return equality(Sum(p[i] * log(p[i] / q[i]), i), Sum(q[i] * log(q[i] / p[i]), i))


@claim
def kl_gradient_in_the_second_distribution_with_the_wrong_sign() -> Claim:
    return derivative_is(Sum(p[i] * log(p[i] / q[i]), i), q[j], p[j] / q[j])


@claim
def dpo_weight_of_the_wrong_answer() -> Claim:
    margin = beta * (s - r)
    return derivative_is(-log(sigmoid(margin)), s, -beta * sigmoid(margin))


@claim
def dpo_gradient_without_beta() -> Claim:
    margin = beta * (s - r)
    return derivative_is(-log(sigmoid(margin)), s, -sigmoid(-margin))


@claim
def z_loss_gradient_without_the_factor_two() -> Claim:
    total = logsumexp(z[v], over=v)
    return derivative_is(total**2, z[w], total * softmax(z[w], over=w))


@claim
def focal_loss_gradient_without_its_first_term() -> Claim:
    value = -((1 - s) ** 2) * log(s)
    return derivative_is(value, s, -((1 - s) ** 2) / s)


@claim
def binary_cross_entropy_with_the_label_swapped() -> Claim:
    return derivative_is(softplus(r) - s * r, r, sigmoid(r) - (1 - s))


@claim
def huber_gradient_not_clipped() -> Claim:
    value = where(Abs(s) <= tau, s**2 / 2, tau * (Abs(s) - tau / 2))
    return derivative_is(value, s, s)


@claim
def info_nce_gradient_of_the_queries_alone() -> Claim:
    Z = tensor("Z", T, d)
    program = Program("info_nce")
    scores = program.define("scores", [i, j], Sum(Z[i, a] * Z[j, a], a) / tau)
    g = program.gradient(program.define("loss", [], Sum(logsumexp(scores[i, j], over=j) - scores[i, i], i)))
    D = softmax(scores[i, j], over=j) - delta(i, j)
    return g.claim("false", g["dZ"][i, a], g["dloss"] * Sum(D * Z[j, a], j) / tau)


@claim
def jensen_shannon_gradient_without_the_half() -> Claim:
    middle = (p[i] + q[i]) / 2
    value = Sum(p[i] * log(p[i] / middle) + q[i] * log(q[i] / middle), i) / 2
    return derivative_is(value, p[j], log(2 * p[j] / (p[j] + q[j])))


@claim
def entropy_gradient_without_the_entropy() -> Claim:
    program = Program("statement")
    P = program.define("P", [i], softmax(x[i], over=i))
    H = program.define("H", [], -Sum(P[i] * log(P[i]), i))
    return program.claim("false", program.derivative(H, x[j]), -P[j] * log(P[j]))


# ---------------------------------------------------------------------------------------------------------------------
# Activations.


@claim
def swish_identity_that_needs_beta_one() -> Claim:
    swish = s * sigmoid(beta * s)
    return derivative_is(swish, s, swish + sigmoid(beta * s) * (1 - swish))


@claim
def gelu_derivative_without_the_density() -> Claim:
    return derivative_is(gelu(s), s, gelu(s) / s)


@claim
def gelu_density_without_its_constant() -> Claim:
    return derivative_is(gelu(s), s, gelu(s) / s + s * exp(-(s**2) / 2))


@claim
def gelu_density_with_the_wrong_constant() -> Claim:
    return derivative_is(gelu(s), s, gelu(s) / s + s * exp(-(s**2) / 2) / sqrt(pi))


@claim
def silu_derivative_is_its_gate() -> Claim:
    return derivative_is(silu(s), s, sigmoid(s))


@claim
def tanh_derivative_without_the_square() -> Claim:
    return derivative_is(tanh(s), s, 1 - tanh(s))


@claim
def tanh_is_a_sigmoid_of_the_same_argument() -> Claim:
    return equality(tanh(s), 2 * sigmoid(s) - 1)


@claim
def relu_of_a_negative_multiple() -> Claim:
    return equality(relu(s * r), s * relu(r))


@claim
def relu_is_odd() -> Claim:
    return equality(relu(-s), -relu(s))


@claim
def swiglu_gradient_without_the_gate_derivative() -> Claim:
    return adjoint_is(silu(x[i]) * y[i], lambda g: (g["dx"][i], g["do"][i] * y[i] * sigmoid(x[i])), over=(i,))


# ---------------------------------------------------------------------------------------------------------------------
# Linear algebra.


@claim
def trace_gradient_for_square_matrices() -> Claim:
    # d tr(A X B) / dX = A^T B^T; B A has the right shape when all sizes are equal, and is its transpose.
    A, B, X = tensors("A B X", T, T)
    value = Sum(A[i, j] * X[j, k] * B[k, i], i, j, k)
    mA, mB = matrices(A, B)
    return adjoint_is(value, lambda g: (matrix(g["dX"]), mB @ mA * g["do"]))


@claim
def quadratic_trace_with_the_matrix_on_the_right() -> Claim:
    A, B, X = tensors("A B X", T, T)
    value = Sum(X[j, i] * A[j, k] * X[k, l] * B[l, i], i, j, k, l)
    mA, mB, mX = matrices(A, B, X)
    return adjoint_is(value, lambda g: (matrix(g["dX"]), (mA + mA.T) @ mX @ mB * g["do"]))


@claim
def quadratic_form_taken_for_symmetric() -> Claim:
    return derivative_is(Sum(x[i] * S[i, j] * x[j], i, j), x[k], 2 * Sum(S[k, j] * x[j], j))


@claim
def derivative_of_a_squared_trace() -> Claim:
    return derivative_is(Sum(S[i, j] * S[j, i], i, j), S[k, l], 2 * S[k, l])


@claim
def trace_of_a_product_of_transposes() -> Claim:
    B = tensor("B", T, T)
    return equality(Sum(S[i, j] * B[j, i], i, j), Sum(S[i, j] * B[i, j], i, j))


@claim
def matrices_commute() -> Claim:
    B = tensor("B", T, T)
    mS, mB = matrices(S, B)
    return Program("statement").claim("false", mS @ mB, mB @ mS)


@claim
def cosine_gradient_with_the_wrong_sign() -> Claim:
    program = Program("statement")
    length, other = sqrt(Sum(x[i] ** 2, i)), sqrt(Sum(y[i] ** 2, i))
    cosine = program.define("cosine", [], Sum(x[i] * y[i], i) / (length * other))
    wrong = y[j] / (length * other) + cosine * x[j] / length**2
    return program.claim("false", program.derivative(cosine, x[j]), wrong)


@claim
def bias_gradient_averaged() -> Claim:
    X, weight, bias = tensor("X", N, d), tensor("weight", V, d), tensor("bias", V)
    value = Sum(X[n, a] * weight[v, a], a) + bias[v]
    return adjoint_is(value, lambda g: (g["dbias"][v], mean(g["do"][n, v], over=n)), over=(n, v))


@claim
def embedding_gradient_of_one_occurrence() -> Claim:
    E, token = tensor("E", V, d), tensor("token", N, into=V)
    return adjoint_is(
        E[token[n], a],
        lambda g: (Sum(g["dE"][v, a] * iverson(Eq(v, token[m])), v), g["do"][m, a]),
        over=(n, a),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Scalars and sums.


@claim
def root_of_a_square() -> Claim:
    return equality(sqrt(s**2), s)


@claim
def root_of_a_sum_of_squares() -> Claim:
    return equality(sqrt(s**2 + r**2), s + r)


@claim
def log_of_a_sum() -> Claim:
    return equality(log(p[i] + q[i]), log(p[i]) + log(q[i]))


@claim
def log_of_the_mean() -> Claim:
    return equality(log(mean(p[i], over=i)), mean(log(p[i]), over=i))


@claim
def absolute_value_is_the_number() -> Claim:
    return equality(Abs(s), s)


@claim
def a_constant_that_is_named_pi() -> Claim:
    return equality(scalar("pi"), pi)


@claim
def square_of_a_sum() -> Claim:
    return equality(Sum(x[i], i) ** 2, Sum(x[i] ** 2, i))


@claim
def mean_of_a_product() -> Claim:
    return equality(mean(x[i] * y[i], over=i), mean(x[i], over=i) * mean(y[i], over=i))


@claim
def sum_of_indices_counted_from_one() -> Claim:
    return equality(Sum(i, i), T * (T + 1) / 2)


@claim
def diagonal_for_the_whole_matrix() -> Claim:
    return equality(Sum(S[i, i], i), Sum(S[i, j], i, j))


@claim
def an_entry_that_is_not_always_there() -> Claim:
    return equality(Sum(delta(i, 1), i), 1)


@claim
def product_of_a_sum() -> Claim:
    return equality(Product(x[i] + y[i], i), Product(x[i], i) + Product(y[i], i))


@claim
def derivative_of_a_product_with_the_factor_left_in() -> Claim:
    return derivative_is(Product(p[i], i), p[j], Product(p[i], i))


@claim
def derivative_at_a_fixed_position() -> Claim:
    return derivative_is(x[0] * Sum(x[i], i), x[j], x[0])


@pytest.mark.parametrize("name", CLAIMS)
def test_a_false_claim_is_refuted(name: str) -> None:
    statement = CLAIMS[name]()
    verdict = prove(statement)
    assert verdict.status == REFUTED, verdict
    assert verdict.counterexample is not None
    assert verdict.counterexample.left != verdict.counterexample.right


def test_there_are_enough() -> None:
    assert len(CLAIMS) >= 40


# ---------------------------------------------------------------------------------------------------------------------
# False where a number is exactly 0, which a search among generic numbers need not find.


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (iverson(sqrt(s) > 0), 1),
        (iverson(s**2 > 0), 1),
        (iverson(s > 0) + iverson(s < 0), 1),
        (sign(s) ** 2, 1),
        (iverson(s >= 0), iverson(s > 0)),
        (iverson(Abs(s) > 0), 1),
        (Abs(sign(s)), 1),
    ],
    ids=str,
)
def test_what_fails_at_zero_alone_is_not_proved(left: Any, right: Any) -> None:
    assert prove(equality(left, right)).status != PROVED


# ---------------------------------------------------------------------------------------------------------------------
# False at numbers and sizes that are not met by chance: where the two sides of a comparison are equal, and about a
# number that the claim mentions.


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (where(Eq(s, r + 3), 5, 1), 1),
        (where(Eq(s * r, 6), 5, 1), 1),
        (where(Eq(s**2 + r**2, 1), 5, 1), 1),
        (iverson(s >= r + 7), iverson(s > r + 7)),
        (Max(s, 3), where(s > 3, s, where(s >= 3, 4, 3))),
        (iverson(Ne(Sum(x[i], i), 11)), 1),
        (iverson(T > 8), 0),
        (iverson(T * d > 30), 0),
        (iverson(Eq(T, 12)), 0),
        ((T - 1) * (T - 2) * (T - 3) * (T - 4) * (T - 5) * (T - 6) * (T - 7), 0),
    ],
    ids=str,
)
def test_what_is_false_at_special_values_is_refuted(left: Any, right: Any) -> None:
    assert prove(equality(left, right)).status == REFUTED


# ---------------------------------------------------------------------------------------------------------------------
# True under conditions only: refused, or accepted with the conditions listed.


@pytest.mark.parametrize(
    ("left", "right", "needed"),
    [
        (log(s * r), log(s) + log(r), {"r > 0", "s > 0"}),
        (log(s**2), 2 * log(s), {"s > 0"}),
        (sqrt(s * r), sqrt(s) * sqrt(r), {"r >= 0", "s >= 0"}),
    ],
    ids=["log of a product", "log of a square", "root of a product"],
)
def test_what_needs_a_sign_is_not_proved_without_it(left: Any, right: Any, needed: set[str]) -> None:
    verdict = prove(equality(left, right))
    assert verdict.status != PROVED or needed <= set(verdict.hypotheses)


@pytest.mark.parametrize("place", [s, s + 1, x[j] + 1, i / 2 + 1], ids=str)
def test_no_index_is_between_two_positions(place: Any) -> None:
    """A delta of a value that is no position: an index may be equal to it, and need not be where it is in the range."""
    inside = iverson(place > -1) * iverson(place < T)
    assert prove(equality(Sum(delta(k, place), k), inside)).status == REFUTED
    assert prove(equality(delta(k, place), iverson(Eq(k, place)))).status == PROVED
    assert prove(equality(delta(k, 2 * i), delta(k, i))).status == REFUTED


@pytest.mark.parametrize(
    ("left", "right", "hypothesis"),
    [
        ((s**2 - r**2) / (s - r), s + r, "!= 0"),
        (s * (1 / s + 1 / r), 1 + s / r, "r != 0"),
        ((s + r) / (s + r) ** 2, 1 / (s + r), "!= 0"),
        (exp(log(s + r)), s + r, ""),
        (s**r * s, s ** (r + 1), "s > 0"),
        (log(softmax(x[i], over=i)), x[i] - logsumexp(x[i], over=i), "T >= 1"),
        (beta**2 / beta**r, beta ** (2 - r), "beta > 0"),
    ],
    ids=str,
)
def test_conditions_of_a_proof_are_listed(left: Any, right: Any, hypothesis: str) -> None:
    verdict = prove(equality(left, right))
    assert verdict.status == PROVED
    assert any(hypothesis in listed for listed in verdict.hypotheses) or not hypothesis

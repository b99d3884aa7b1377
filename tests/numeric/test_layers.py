"""Generated kernels of the library's layers, and its gradient formulas, at points worked out by hand."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sympy import log

from codegen.checking.array_library import array_library
from codegen.checking.reference import run_program
from derive.errors import StatementError
from derive.language import Sum, dims, index, indices, tensor, tensors
from derive.library import load
from derive.program import Program
from derive.prove import prove
from derive.structured import Convention, is_free_entry, structured, structured_gradient

CLOSE = 1e-10
torch = pytest.importorskip("torch")


class Kernels:
    """The generated functions of one target, on NumPy arrays."""

    def __init__(self, target: str) -> None:
        self.target = target

    def array(self, value: Any) -> Any:
        if not isinstance(value, (list, np.ndarray)):
            return value
        plain = np.asarray(value)
        return torch.tensor(plain) if self.target == "torch" else plain

    def function(self, program: str, part: str = "") -> Callable[..., Any]:
        module = importlib.import_module(f"generated.{self.target}.{program}")
        made = getattr(module, f"{program}{part}")

        def run(*arguments: Any, **options: Any) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return made(*map(self.array, arguments), **options)

        return run

    def value(self, program: str, *arguments: Any, **options: Any) -> Any:
        """What a kernel without a backward pass returns."""
        return plain(self.function(program)(*arguments, **options))

    def both(self, program: str, *arguments: Any, upstream: Any, **options: Any) -> tuple[Any, Any]:
        """The output and the gradients."""
        output, saved = self.function(program, "_forward")(*arguments, **options)
        return plain(output), plain(self.function(program, "_backward")(self.array(upstream), saved))


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, tuple) else np.asarray(value)


@pytest.fixture(params=["numpy", "torch"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return Kernels(request.param)


def close(found: Any, expected: Any, tolerance: float = CLOSE) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------------------------------------------------
# Norms.

COLUMN = [[1.0], [2.0], [4.0], [7.0]]
UPSTREAM = [[0.3], [-1.0], [0.5], [2.0]]


def test_batch_norm_has_three_terms(kernels: Kernels) -> None:
    _, (dx, _, dbeta) = kernels.both("batch_norm", COLUMN, [1.0], [0.0], upstream=UPSTREAM, eps=1e-5)
    close(dx[:, 0], [0.350186631959, -0.383440116979, -0.061308619095, 0.094562104116], 1e-11)
    close(dbeta, [1.8])


def test_batch_norm_keeps_gamma(kernels: Kernels) -> None:
    _, (dx, _, _) = kernels.both("batch_norm", COLUMN, [3.0], [0.0], upstream=UPSTREAM, eps=1e-5)
    close(dx[:, 0], [1.050559895876, -1.150320350938, -0.183925857286, 0.283686312348], 1e-11)


def test_batch_norm_takes_all_leading_dimensions_for_the_batch(kernels: Kernels) -> None:
    _, (dx, _, _) = kernels.both(
        "batch_norm", np.reshape(COLUMN, (2, 2, 1)), [3.0], [0.0], upstream=np.reshape(UPSTREAM, (2, 2, 1)), eps=1e-5
    )
    assert dx.shape == (2, 2, 1)
    close(dx.reshape(-1), [1.050559895876, -1.150320350938, -0.183925857286, 0.283686312348], 1e-11)


def test_a_batch_norm_check_with_ones_or_squares_is_blind(kernels: Kernels) -> None:
    _, (ones, _, _) = kernels.both("batch_norm", COLUMN, [2.0], [0.5], upstream=np.ones((4, 1)), eps=1e-5)
    assert np.abs(ones).max() < 1e-14
    y, _ = kernels.both("batch_norm", COLUMN, [2.0], [0.5], upstream=np.ones((4, 1)), eps=1e-5)
    _, (squares, _, _) = kernels.both("batch_norm", COLUMN, [2.0], [0.5], upstream=2 * y, eps=1e-5)
    close(squares[:, 0], [-7.25620818494e-6, -4.35372491096e-6, 1.45124163699e-6, 1.01586914589e-5], 1e-13)


@pytest.mark.parametrize("offset", [1e4, 4096.0])
def test_the_variance_is_taken_of_centred_values(kernels: Kernels, offset: float) -> None:
    column = (np.arange(4)[:, None] + offset).astype(np.float32)
    y, _ = kernels.both(
        "batch_norm", column, np.ones(1, np.float32), np.zeros(1, np.float32),
        upstream=np.ones((4, 1), np.float32), eps=0.0,
    )  # fmt: skip
    assert y.dtype == np.float32
    close(y[:, 0], (np.arange(4) - 1.5) / np.sqrt(1.25), 1e-6)


def test_rms_norm_averages_within_a_row(kernels: Kernels) -> None:
    _, (dx, _) = kernels.both(
        "rms_norm", [[1.0, 2.0], [3.0, -1.0]], [1.0, 2.0], upstream=[[1.0, 0.0], [0.5, 2.0]], eps=0.0
    )
    close(dx, [[0.505964425627, -0.252982212813], [0.559016994375, 1.677050983125]], 1e-11)


def test_layer_norm_of_three_axes_averages_over_the_last(kernels: Kernels) -> None:
    _, (dx, dgamma, dbeta) = kernels.both(
        "layer_norm", [[[1.0, 2.0, 4.0], [0.0, 3.0, -1.0]]], np.ones(3), np.zeros(3),
        upstream=[[[1.0, 0.0, -1.0], [0.5, -2.0, 0.0]]], eps=1e-5,
    )  # fmt: skip
    expected = [[[0.114544582033, -0.171809141639, 0.057264559605], [0.362060713837, -0.090517724184, -0.271542989652]]]
    close(dx, expected, 1e-11)
    close(dgamma, [-1.265157327158, -2.745621139902, -1.336301914313], 1e-11)
    close(dbeta, [1.5, -2.0, -1.0])


def test_layer_norm_by_the_standard_deviation_is_another_function(kernels: Kernels) -> None:
    row, upstream = [[1.0, 2.0, 4.0]], [[1.0, -1.0, 2.0]]
    _, (by_deviation,) = kernels.both("layer_norm_std", row, upstream=upstream, eps=0.1)
    close(by_deviation[0], [0.705538787188, -1.122587357880, 0.417048570692], 1e-11)
    _, (by_variance, _, _) = kernels.both("layer_norm", row, np.ones(3), np.zeros(3), upstream=upstream, eps=0.1)
    close(by_variance[0], [0.745895332566, -1.173611537254, 0.427716204688], 1e-11)


# ---------------------------------------------------------------------------------------------------------------------
# Activations and rotations.


@pytest.mark.parametrize("x", [-1000.0, -30.0, 0.0, 30.0, 1000.0])
@pytest.mark.parametrize("name", ["silu", "gelu_tanh"])
def test_activations_are_finite_far_out(kernels: Kernels, name: str, x: float) -> None:
    y, (dx,) = kernels.both(name, [x], upstream=[1.0])
    close(y, [max(x, 0.0)], 1e-9)
    close(dx, [0.5 if x == 0 else float(x > 0)], 1e-9)


def test_swiglu_is_finite_far_out(kernels: Kernels) -> None:
    arguments = [[1000.0], [-1000.0]], [[1.0]], [[1.0]], [[1.0]]
    y, gradients = kernels.both("swiglu", *arguments, upstream=[[1.0], [1.0]])
    assert np.isfinite(y).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_rotary_turns_and_turns_back(kernels: Kernels) -> None:
    turned, (back,) = kernels.both(
        "rotary", [[[1.0, 2.0]]], upstream=np.array([[[1.0, 0.0]]]), start=2.1
    )  # one pair at position 0, so that the angle is start = 3 * 0.7
    close(turned[0, 0], [-2.231264837898, -0.146482842551], 1e-11)
    close(back[0, 0], [-0.504846104600, -0.863209366649], 1e-11)


def test_rotary_scores(kernels: Kernels) -> None:
    q, k = np.array([[[1.0, 2.0]]]), np.array([[[-0.5, 1.5]]])
    flip = np.array([1.0, -1.0])

    def turned(vector: Any, angle: float) -> Any:
        return kernels.both("rotary", vector, upstream=np.ones_like(vector), start=angle)[0]

    close((turned(q, 2.1) * turned(k, 0.7)).sum(), 2.888542182222, 1e-11)
    close((turned(q, -2.1) * turned(k, -0.7)).sum(), -2.038706467721, 1e-11)
    close((turned(q * flip, -2.1) * turned(k * flip, -0.7)).sum(), 2.888542182222, 1e-11)


def test_rotary_angles_fall_with_the_pair_and_grow_with_the_position(kernels: Kernels) -> None:
    x = np.zeros((5, 4, 2))
    x[..., 0] = 1.0
    y, _ = kernels.both("rotary", x, upstream=np.ones_like(x), base=100.0)
    angles = np.arange(5)[:, None] * 100.0 ** (-np.arange(4) / 4)
    close(y, np.stack([np.cos(angles), np.sin(angles)], axis=-1), 1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Attention.


def test_attention_gradients(kernels: Kernels) -> None:
    Q, K, V = [[1.0, 0.0], [0.5, -1.0]], [[0.2, 1.0], [1.0, -0.5], [0.0, 0.3]], [[1.0], [2.0], [-1.0]]
    O, (dQ, dK, dV) = kernels.both("attention", Q, K, V, upstream=[[1.0], [-0.5]])
    close(dQ, [[0.340512898863, -0.273537469924], [-0.185689804187, 0.154379645514]], 1e-11)
    expected = [
        [0.002077616569, -0.006776514145], [0.247252473456, 0.187045107016], [-0.249330090025, -0.180268592871],
    ]  # fmt: skip
    close(dK, expected, 1e-11)
    close(dV[:, 0], [0.196969784659, 0.183942358952, 0.119087856389], 1e-11)
    close(O[:, 0] * [1.0, -0.5], [1.006726032111, -0.560959385937], 1e-11)


def test_rows_without_a_key_are_zero(kernels: Kernels) -> None:
    Q, K, V = np.full((1, 2, 1), 0.5), np.full((1, 2, 1), 2.0), np.array([[[2.0], [5.0]]])
    O, (dQ, dK, dV) = kernels.both("attention_masked", Q, K, V, np.array([[1, 0], [0, 0]]), upstream=np.ones((1, 2, 1)))
    close(O[0, :, 0], [2.0, 0.0])
    close(dV[0, :, 0], [1.0, 0.0])
    close(dQ, np.zeros_like(Q))
    close(dK, np.zeros_like(K))


def test_padding_of_whole_entries(kernels: Kernels) -> None:
    generator = np.random.default_rng(0)
    Q, K, V = (generator.standard_normal((3, 2, size, 4)) * 100 for size in (3, 5, 5))
    keep = (np.arange(5) < np.array([5, 2, 0])[:, None]).astype(np.int64)
    O, (dQ, dK, dV) = kernels.both("attention_padding", Q, K, V, keep, upstream=np.ones((3, 2, 3, 4)))
    assert all(np.isfinite(result).all() for result in (O, dQ, dK, dV))
    for result in (O, dQ, dK, dV):
        assert not result[2].any()
    assert not dK[1, :, 2:].any()
    assert not dV[1, :, 2:].any()
    short, _ = kernels.both(
        "attention_padding", Q[1:2], K[1:2, :, :2], V[1:2, :, :2], np.ones((1, 2), np.int64),
        upstream=np.ones((1, 2, 3, 4)),
    )  # fmt: skip
    close(O[1], short[0])


def test_one_key_passes_the_gradient_to_its_value_alone(kernels: Kernels) -> None:
    one = [[0.7]]
    _, (dQ, dK, dV) = kernels.both("attention", one, one, [[3.0]], upstream=[[1.0]])
    close([dQ[0, 0], dK[0, 0], dV[0, 0]], [0.0, 0.0, 1.0])


@pytest.mark.parametrize("window", [1, 2, 7])
def test_the_window_is_a_mask(kernels: Kernels, window: int) -> None:
    generator = np.random.default_rng(1)
    Q, K, V, dO = (generator.standard_normal((1, 6, 3)) for _ in range(4))
    distance = np.arange(6)[:, None] - np.arange(6)
    mask = ((distance >= 0) & (distance < window)).astype(np.int64)
    found = kernels.both("attention_window", Q, K, V, upstream=dO, window=window)
    expected = kernels.both("attention_masked", Q, K, V, mask, upstream=dO)
    for one, other in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        close(one, other, 1e-12)


def test_an_empty_window_is_zero(kernels: Kernels) -> None:
    rows = np.ones((2, 3))
    O, gradients = kernels.both("attention_window", rows, rows, rows, upstream=rows, window=0)
    assert not any(np.asarray(result).any() for result in (O, *gradients))


def test_shared_keys_receive_the_sum_of_their_copies(kernels: Kernels) -> None:
    generator = np.random.default_rng(2)
    Q, dO = (generator.standard_normal((2, 3, 4, 5)) for _ in range(2))  # groups, heads of a group
    K, V = (generator.standard_normal((2, 6, 5)) for _ in range(2))
    O, (dQ, dK, dV) = kernels.both("attention_grouped", Q, K, V, upstream=dO)
    copies = [np.repeat(part[:, None], 3, axis=1) for part in (K, V)]
    whole, (dQ_copies, dK_copies, dV_copies) = kernels.both("attention", Q, *copies, upstream=dO)
    for one, other in ((O, whole), (dQ, dQ_copies), (dK, dK_copies.sum(1)), (dV, dV_copies.sum(1))):
        close(one, other, 1e-12)


def test_a_high_cap_changes_little_and_a_low_one_bounds_the_scores(kernels: Kernels) -> None:
    generator = np.random.default_rng(3)
    Q, K, V, dO = (generator.standard_normal((4, 3)) for _ in range(4))
    found = kernels.both("attention_softcap", Q, K, V, upstream=dO, cap=1e6)
    expected = kernels.both("attention", Q, K, V, upstream=dO)
    for one, other in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        close(one, other, 1e-9)
    far, _ = kernels.both("attention_softcap", 1e6 * Q, K, V, upstream=dO, cap=1e-9)
    close(far, np.broadcast_to(V.mean(0), V.shape), 1e-8)


def test_linear_biases_favour_near_keys(kernels: Kernels) -> None:
    zeros, values = np.zeros((1, 3, 1)), np.array([[[1.0], [10.0], [100.0]]])
    O, _ = kernels.both("attention_alibi", zeros, zeros, values, np.array([np.log(2.0)]), upstream=np.ones((1, 3, 1)))
    close(O[0, :, 0], [1.0, (0.5 * 1 + 10) / 1.5, (0.25 * 1 + 0.5 * 10 + 100) / 1.75], 1e-12)


def test_linear_attention_is_its_quadratic_form(kernels: Kernels) -> None:
    generator = np.random.default_rng(4)
    Q, K, V = (generator.standard_normal((size, 3)) for size in (4, 6, 6))
    features = [np.where(part > 0, part + 1, np.exp(part)) for part in (Q, K)]
    weights = features[0] @ features[1].T
    O, _ = kernels.both("linear_attention", Q, K, V, upstream=np.ones((4, 3)))
    close(O, weights / weights.sum(1, keepdims=True) @ V, 1e-12)


def test_blocks_of_keys_are_merged(kernels: Kernels) -> None:
    generator = np.random.default_rng(5)
    scores, values = generator.standard_normal((4, 9)) * 50, generator.standard_normal((9, 2))

    def attended(part: slice) -> tuple[Any, Any]:
        top = scores[:, part].max(1, keepdims=True)
        weights = np.exp(scores[:, part] - top)
        return weights / weights.sum(1, keepdims=True) @ values[part], np.log(weights.sum(1)) + top[:, 0]

    parts = [attended(slice(0, 2)), attended(slice(2, 3)), attended(slice(3, 9)), (np.zeros((4, 2)), np.zeros(4))]
    outputs, scales = (np.stack([part[place] for part in parts], axis=1) for place in (0, 1))
    allowed = np.broadcast_to(np.array([1, 1, 1, 0]), (4, 4)).copy()
    O, L = kernels.value("attention_merge", outputs, scales, allowed)
    for found, expected in zip((O, L), attended(slice(0, 9)), strict=True):
        close(found, expected, 1e-12)
    O, _ = kernels.value("attention_merge", outputs, scales, np.zeros((4, 4), np.int64))
    assert not O.any()


# ---------------------------------------------------------------------------------------------------------------------
# Parameters and their updates.


def test_tied_weights_receive_both_gradients(kernels: Kernels) -> None:
    generator = np.random.default_rng(6)
    E, W = generator.standard_normal((5, 3)), generator.standard_normal((3, 3))
    token, target = np.array([1, 4, 1, 0]), np.array([2, 2, 0, 3])

    def loss(embedding: Any, readout: Any) -> float:
        z = embedding[token] @ W @ readout.T
        return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(4), target]))

    value, (dE, _) = kernels.both("weight_tying", token, target, E, W, upstream=np.array(1.0))
    close(value, loss(E, E), 1e-12)
    for place in np.ndindex(E.shape):
        step = np.zeros_like(E)
        step[place] = 1e-6
        close(dE[place], (loss(E + step, E + step) - loss(E - step, E - step)) / 2e-6, 1e-8)


def test_dropout_keeps_the_mean_of_what_is_kept(kernels: Kernels) -> None:
    y, (dx,) = kernels.both("dropout", [2.0, 3.0], np.array([1, 0]), upstream=[1.0, 1.0], p=0.5)
    close(y, [4.0, 0.0])
    close(dx, [2.0, 0.0])


def two_steps(kernels: Kernels, name: str, decay: float) -> list[float]:
    theta, first, second = np.array([2.0]), np.zeros(1), np.zeros(1)
    seen = []
    for number, slope in enumerate((0.5, -1.0), 1):
        options = {"lr": 0.1, "beta_1": 0.9, "beta_2": 0.999, "eps": 1e-8}
        key = "weight_decay" if name == "adamw" else "decay"
        step = "t" if name == "adamw" else "count"
        theta, first, second = kernels.value(
            name, theta, [slope], first, second, **options, **{key: decay, step: number}
        )
        seen.append(float(theta[0]))
    return seen


def test_decay_of_adam_and_where_it_goes(kernels: Kernels) -> None:
    close(two_steps(kernels, "adamw", 0.01), [1.898000002, 1.932712354239])
    close(two_steps(kernels, "adam_l2", 0.01), [1.900000001923, 1.934385739770])
    close(two_steps(kernels, "adamw", 0.01 / 0.1), [1.880000002, 1.897810354221])  # decay not times lr, as in the paper


def test_decay_of_plain_descent_is_the_penalty(kernels: Kernels) -> None:
    options = {"lr": 0.1, "mu": 0.0, "decay": 0.01}
    theta, _ = kernels.value("sgd", [2.0], [0.5], [0.0], **options)
    close(theta, [(1 - 0.1 * 0.01) * 2.0 - 0.1 * 0.5])


def test_the_claim_that_adam_with_a_penalty_is_adamw_is_refuted() -> None:
    (statement,) = load(["adam_first"])
    decayed = next(claim for claim in statement.claims if claim.id == "adam-l2").left
    plain_step = next(claim for claim in statement.claims if claim.id == "adam-first").left
    w, lr, decay = (statement[name] for name in ("w", "lr", "decay"))
    trial = Program("trial", inputs=statement.inputs)
    verdict = prove(trial.claim("same", decayed, w - plain_step - lr * decay * w))
    assert verdict.status == "Refuted"


# ---------------------------------------------------------------------------------------------------------------------
# Matrix calculus, at numbers.


def gradient_at(name: str, wanted: str, sizes: dict[str, int], **inputs: Any) -> Any:
    """The value of an adjoint of a library program, with 1 for the gradient of its output."""
    (statement,) = load([name])
    given = {key: np.asarray(value, dtype=float) for key, value in inputs.items()}
    values = run_program(statement, {**given, "df": np.array(1.0)}, sizes, array_library("numpy"))
    return values[wanted]


A, B, X = [[1, 2], [3, 4]], [[0, 1], [5, -1]], [[0.3, -0.2], [1.1, 0.7]]
TWO = {"m": 2, "n": 2, "p": 2, "q": 2}


@pytest.mark.parametrize(
    ("name", "wanted", "inputs", "expected"),
    [
        ("trace_axb_backward", "dX", {"A": A, "B": B, "X": X}, [[3, 2], [4, 6]]),
        ("trace_xpxd_backward", "dX", {"P": A, "D": B, "X": X}, [[7.9, 17.4], [13.4, 25.7]]),
        (
            "trace_products_backward", "dX",
            {"F": A, "M": B, "G": [[1, -1], [2, 0]], "R": [[0.5, 1], [0, 2]], "X": X}, [[18.3, 20.7], [-10.3, 5.4]],
        ),
        ("trace_sqsw_backward", "dS", {"S": X, "Q": B, "W": [[1, -1], [2, 0]]}, [[-3.3, 11.4], [-1.8, -0.7]]),
        ("trace_xpx_backward", "dX", {"X": A, "P": [[0, 1], [2, 0]]}, [[9, 12], [3, 6]]),
        ("trace_square_backward", "dS", {"S": A, "Q": [[1, -1], [2, 0]]}, [[3, 13], [-3, 1]]),
        ("trace_sums_backward", "dS", {"S": A, "Q": B, "offset": 3.0}, [[2, 4], [6, 8]]),
        ("trace_power_backward", "dS", {"S": A}, [[6, 0], [0, 6]]),
    ],
)  # fmt: skip
def test_gradients_of_traces(name: str, wanted: str, inputs: dict[str, Any], expected: Any) -> None:
    close(gradient_at(name, wanted, TWO, **inputs), expected, 1e-12)


def test_a_rectangular_trace_has_the_shape_of_its_variable() -> None:
    generator = np.random.default_rng(7)
    left, middle, right = (generator.standard_normal(shape) for shape in ((2, 3), (3, 4), (4, 2)))
    found = gradient_at("trace_axb_backward", "dX", {"p": 2, "m": 3, "n": 4}, A=left, X=middle, B=right)
    close(found, (right @ left).T, 1e-12)


def test_the_denominator_is_differentiated() -> None:
    (statement,) = load(["vector_inversion_jacobian"])
    values = run_program(statement, {"x": np.array([1.0, 2.0])}, {"n": 2}, array_library("numpy"))
    close(values["dinverted_dx"], [[0.12, -0.16], [-0.16, -0.12]], 1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Structured variables.

n = dims("n")[0]
i, j = indices("i j", n)
G, F = tensors("G F", n, n)


def structured_values(convention: Convention, gradient: Any) -> Any:
    program = Program("arrays", inputs=[G])
    program.define("H", [i, j], structured_gradient("symmetric", G, i, j, convention=convention))
    size = len(gradient)
    return run_program(program, {"G": np.asarray(gradient, dtype=float)}, {"n": size}, array_library("numpy"))["H"]


def test_both_conventions_for_the_log_determinant() -> None:
    inverse = np.linalg.inv([[2.0, 0.5], [0.5, 1.0]])
    free = structured_values(Convention.FREE_ENTRIES, inverse)
    close([free[0, 0], free[0, 1], free[1, 1]], [0.571428571429, -0.571428571429, 1.142857142857], 1e-11)
    within = structured_values(Convention.WITHIN_SPACE, inverse)
    close(within, inverse, 1e-12)
    close(within[0, 1], -0.285714285714, 1e-11)


def test_the_free_entries_of_a_trace() -> None:
    free = structured_values(Convention.FREE_ENTRIES, np.array([[1.0, 2.0], [5.0, 3.0]]).T)
    close([free[0, 0], free[0, 1], free[1, 1]], [1, 7, 3])


def test_the_conventions_are_told_apart() -> None:
    program = Program("apart", inputs=[G])
    sides = [structured_gradient("symmetric", G, i, j, convention=convention) for convention in Convention]
    assert prove(program.claim("apart", *sides)).status == "Refuted"


def test_a_convention_has_to_be_named() -> None:
    with pytest.raises(StatementError, match=r"FREE_ENTRIES .* or Convention\.WITHIN_SPACE .*one has to be named"):
        structured_gradient("symmetric", G, i, j)


@pytest.mark.parametrize(
    ("kind", "place", "message"),
    [
        ("hermitian", (i, j), "expected one of symmetric, lower triangular, simplex"),
        ("symmetric", (i,), "expected 2 indices"),
        ("symmetric", (i, index("a", dims("d")[0])), "square"),
        ("simplex", (0,), "expected 1 indices"),
    ],
)
def test_a_structure_has_to_fit(kind: str, place: Any, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        structured(kind, F, *place)
    with pytest.raises(StatementError, match=message):
        is_free_entry(kind, *place)


def test_the_log_likelihood_of_a_simplex_has_its_maximum_where_the_gradient_within_it_vanishes() -> None:
    p, y = tensor("p", n, positive=True), tensor("y", n)
    program = Program("likelihood_within", inputs=[y, p])
    value = program.define("value", [], Sum(y[i] * log(p[i]), i))
    gradient = program.gradient(value, [p])
    gradient.define("H", [i], structured_gradient("simplex", gradient["dp"], i, convention=Convention.WITHIN_SPACE))
    shares = np.array([0.2, 0.3, 0.5])
    inputs = {"y": shares, "p": shares, "dvalue": np.array(1.0)}
    close(run_program(gradient, inputs, {"n": 3}, array_library("numpy"))["H"], np.zeros(3), 1e-12)

"""The generated loss kernels: known values to 1e-10, and their behaviour at the edges of floating point.

The values were worked out by hand or with many digits elsewhere. At the edges (logits of +-1e4, offsets of 1e8, -inf
where the weight is 0, nothing kept, vectors of zeros) a kernel has to be finite, right, and silent.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]
EXACT = {"rtol": 1e-10, "atol": 2e-12}  # the values are given with twelve decimals
Run = Callable[..., tuple[Array, tuple[Array, ...]]]


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Overflow, invalid values and division by zero are errors in this module."""
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        yield


@pytest.fixture(params=["numpy", "torch"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a kernel of either target by name: its output, and its gradients for the given upstream gradient."""
    torch: Any = pytest.importorskip("torch") if request.param == "torch" else None

    def there(value: Any) -> Any:
        array = np.array(value)
        return array if torch is None else torch.from_numpy(array)

    def call(name: str, *arrays: Any, upstream: Any = 1.0, **options: Any) -> tuple[Array, tuple[Array, ...]]:
        module = importlib.import_module(f"generated.{request.param}.{name}")
        given = [there(array) for array in arrays]
        output, saved = getattr(module, f"{name}_forward")(*given, **options)
        kind = next(a.dtype for a in map(np.asarray, arrays) if a.dtype.kind == "f")
        gradients = getattr(module, f"{name}_backward")(there(np.asarray(upstream, dtype=kind)), saved)
        return np.asarray(output), tuple(np.asarray(gradient) for gradient in gradients)

    return call


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, **EXACT)


# ---------------------------------------------------------------------------------------------------------------------
# Values.


def test_dice(run: Run) -> None:
    D, (dp,) = run("dice", np.array([0.2, 0.7, 0.4]), np.array([1.0, 1.0, 0.0]), eps=0.0)
    close(D, 0.545454545455)
    close(dp, [0.440771349862, 0.440771349862, -0.165289256198])


def test_log_softmax(run: Run) -> None:
    z = np.array([0.1, 0.9])
    y, (dz,) = run("log_softmax", z, upstream=[1.0, 1.0])
    close(y, [-1.171100665948, -0.371100665948])
    close(dz, [0.379948962255, -0.379948962255])
    close(run("log_softmax", z, upstream=[1.0, -2.0])[1][0], [1.310025518872, -1.310025518872])


def test_softmax(run: Run) -> None:
    p, (dz,) = run("softmax", np.array([1.0, 2.0, 3.0]), upstream=[1.0, 0.0, -1.0])
    close(p, [0.090030573170, 0.244728471055, 0.665240955775])
    close(dz, [0.141817093610, 0.140770357470, -0.282587451079])


def test_jensen_shannon(run: Run) -> None:
    P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.6, 0.3])
    close(run("jensen_shannon", np.log(Q), np.log(P))[0], 0.103294525415)
    D, (dX,) = run("jensen_shannon", np.log(Q), np.log(P), b=0.3)
    close(D, 0.092575908120)
    close(dX, [-0.055192015225, 0.068257950389, 0.022125708288])
    dz = run("jensen_shannon_logits", Q, np.log(P), b=0.3)[1][0]  # here Q are logits, not probabilities
    close(dz, [-0.046972424862, 0.024003393606, 0.022969031255])


def test_z_loss(run: Run) -> None:
    z = np.array([2.0, 1.0, 0.0])
    close(run("logsumexp", z)[0], 2.407605964444)
    _, (with_penalty,) = run("z_loss", z, np.array(0), scale=0.1)
    _, (without,) = run("z_loss", z, np.array(0), scale=0.0)
    close(with_penalty, [-0.014431425642, 0.362570416371, 0.133382202160])
    close(with_penalty - without, [0.320327618583, 0.117841945316, 0.043351628989])


def test_one_set_of_embeddings_on_both_sides(run: Run) -> None:
    Z, partner = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.array([1, 2, 0])
    L, (dZ, dtau) = run("info_nce_paired", Z, partner, tau=0.5)
    close(L, 1.667515552166)
    close(dZ, [[0.639610439344, -0.828814143580], [0.041108370568, 0.294877784778], [-0.684774169168, 0.571740586368]])
    close(dtau, -1.471918275876)
    L, (dA, dB, dtau) = run("info_nce", Z, Z[partner], tau=0.5)
    close(L, 1.667515552166)
    close(dtau, -1.471918275876)
    close(dA, [[0.134118349503, -0.325172117540], [0.330032302232, -0.204225309947], [-0.468206010991, 0.567201655053]])
    carried = dA.copy()
    np.add.at(carried, partner, dB)
    close(carried, dZ)


def test_soft_targets(run: Run) -> None:
    _, (dz, _) = run("cross_entropy_soft", np.array([0.3, -0.4]), np.array([1.0, 0.0]))
    close(dz, [-0.331812227832, 0.331812227832])


def test_cosine_similarity(run: Run) -> None:
    y, (dv, _) = run("cosine_similarity", np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    close(y, 0.707106781187)
    close(dv, [0.282842712475, -0.141421356237])


def test_cosine_similarity_below_eps_is_linear(run: Run) -> None:
    y, (dv, _) = run("cosine_similarity", np.array([3e-3, 4e-3]), np.array([0.6, 0.8]), eps=0.01)
    close(y, 0.5)
    close(dv, [60.0, 80.0])


def test_softmax_regression(run: Run) -> None:
    X = np.array([[1.0, 2.0], [0.0, 1.0], [-1.0, 0.5]])
    W = np.array([[0.1, -0.2], [0.3, 0.0], [-0.1, 0.2]])
    _, (dW,) = run("softmax_regression", X, np.array([0, 1, 2]), W)
    close(
        dW,
        [[-1.079086080883, -1.152847974776], [0.125949527106, 0.246807415934], [0.953136553777, 0.906040558843]],
    )
    H = importlib.import_module("generated.numpy.softmax_regression_hessian").softmax_regression_hessian(X, W)
    close(H[0, :, 0], [[0.376689020704, 0.234049579491], [0.234049579491, 0.924544360005]])
    close(H[0, :, 1], [[-0.162905863904, -0.129744112969], [-0.129744112969, -0.446106136057]])
    values = np.linalg.eigvalsh(H.reshape(6, 6))
    np.testing.assert_allclose(values, [0, 0, 0.39763, 0.52063, 1.51620, 2.26412], atol=1e-5)


def test_logistic_regression() -> None:
    X, theta = np.array([[1.0, 2.0], [1.0, -1.0]]), np.array([0.2, 0.5])
    H = importlib.import_module("generated.numpy.logistic_hessian").logistic_hessian(X, theta)
    close(H, [[0.422352752338, 0.111330569603], [0.111330569603, 0.956036074278]])


def test_dpo(run: Run) -> None:
    values = (np.array(value) for value in (-12.0, -10.0, -11.0, -10.5))
    loss, (dchosen, drejected) = run("dpo", *values, beta=0.1)
    close(loss, 0.770957047790)
    close([dchosen, drejected], [-0.053742984534, 0.053742984534])


def test_distillation(run: Run) -> None:
    z, t = np.array([1.0, 2.0, 0.5]), np.array([2.0, 1.0, 0.0])
    loss, (dz,) = run("distillation", z, t, temperature=2.0)
    close(loss / 4, 0.104629218015)
    close(dz / 4, [-0.107362213663, 0.086914188767, 0.020448024896])
    _, (dz,) = run("distillation", z, t, temperature=1000.0)
    close(dz, [-0.389004568650, 0.277939787790, 0.111064780879])
    np.testing.assert_allclose(dz, [-7 / 18, 5 / 18, 1 / 9], rtol=1e-3)
    _, (dz, _) = run("cross_entropy_soft", z / 2, np.array([0.0, 1.0, 0.0]))
    close(dz / 2, [0.145877981864, -0.259487868373, 0.113609886509])


def test_ranking_leaves_padding_out_of_the_temperature(run: Run) -> None:
    for padding in (0.0, 1e30, np.inf, -np.inf, np.nan):
        s, valid = np.array([0.8, 0.3, padding]), np.array([1, 1, 0])
        L, (ds, dtau) = run("ranking_loss", s, np.array(0), valid, tau=0.5)
        close(dtau, 0.537882842740)
        close(L, np.log1p(np.exp(-1.0)))
        assert ds[2] == 0


# ---------------------------------------------------------------------------------------------------------------------
# Edges.

LARGE = np.array([[1e4, -1e4, 1e4], [-1e4, -1e4, 1e4], [0.0, 1e4, 1e4 + 1]])
KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])
TARGET, KEPT = np.array([1, 2, 0]), np.array([1, 0, 1])


def large_cases(kind: type) -> Iterator[tuple[str, tuple[Array, ...], dict[str, float]]]:
    """The kernels on logits of +-1e4."""
    z = LARGE.astype(kind)
    y = np.array([[0, 0.5, 0.5], [1, 0, 0], [0, 0, 1]], dtype=kind)
    x, sign = z.reshape(-1), np.where(np.arange(9) % 2 == 0, 1.0, -1.0).astype(kind)
    yield "logsumexp", (z,), {}
    yield "log_softmax", (z,), {}
    yield "cross_entropy_soft", (z, y), {}
    yield "label_smoothing", (z, TARGET), {}
    yield "cross_entropy_masked", (z, TARGET, KEPT), {}
    yield "cross_entropy_weighted", (z, TARGET, np.array([1, 2, 3], dtype=kind)), {}
    yield "z_loss", (z, TARGET), {}
    yield "distillation", (z, z[::-1].copy()), {}
    yield "focal", (x, sign), {}
    yield "focal", (x, sign), {"gamma": 0.5}
    yield "softplus", (x,), {}
    yield "log_sigmoid", (x,), {}
    yield "jensen_shannon_logits", (z, z[::-1] - 1e4), {}
    yield "jensen_shannon", (z - kind(1e4), z[::-1] - kind(1e4)), {}
    yield "info_nce", (z / 100, z / 100), {"tau": 1.0}
    yield "clip_loss", (z / 100, z / 100), {"tau": 1.0}
    yield "info_nce_paired", (z / 100, np.array([1, 2, 0])), {"tau": 1.0}
    yield "ranking_loss", (z, TARGET, np.ones((3, 3), dtype=int)), {"tau": 1.0}
    yield "dpo", (x, x[::-1].copy(), 0 * x, 0 * x), {"beta": 1.0}
    yield "logistic", (z, np.array([0, 1, 1], dtype=kind), np.ones(3, dtype=kind)), {}
    yield "softmax_regression", (z, TARGET, np.eye(3, dtype=kind)), {}
    yield "cosine_similarity", (z, z[::-1].copy()), {}


@KINDS
@pytest.mark.parametrize("place", range(22), ids=[case[0] for case in large_cases(np.float64)])
def test_large_logits_are_finite_and_silent(run: Run, kind: type, place: int) -> None:
    name, arrays, options = list(large_cases(kind))[place]
    shape = run_shape(run, name, arrays, options)
    output, gradients = run(name, *arrays, upstream=np.ones(shape), **options)
    for value in (output, *gradients):
        assert value.dtype == kind
        assert np.isfinite(value).all()


def run_shape(run: Run, name: str, arrays: tuple[Array, ...], options: dict[str, float]) -> tuple[int, ...]:
    """The shape of a kernel's output."""
    module = importlib.import_module(f"generated.numpy.{name}")
    return np.shape(getattr(module, f"{name}_forward")(*arrays, **options)[0])


@KINDS
def test_large_logits_have_the_right_loss(run: Run, kind: type) -> None:
    z = LARGE.astype(kind)
    rows = np.array([2e4 + np.log(2), 0, 1e4 + 1 + np.log1p(np.exp(-1))])
    smoothed = [3 * np.log(2) + 2e4, 4e4, 1e4 + 2 + 3 * np.log1p(np.exp(-1))]
    expected = np.mean(0.9 * rows + 0.1 * np.array(smoothed) / 3)
    tolerance = {"rtol": 1e-6 if kind is np.float32 else 1e-12}
    np.testing.assert_allclose(run("label_smoothing", z, TARGET)[0], expected, **tolerance)
    np.testing.assert_allclose(run("cross_entropy_masked", z, TARGET, KEPT)[0], rows[[0, 2]].mean(), **tolerance)
    w = np.array([1, 2, 3], dtype=kind)
    np.testing.assert_allclose(
        run("cross_entropy_weighted", z, TARGET, w)[0], (rows * [2, 3, 1]).sum() / 6, **tolerance
    )
    u = np.array([1e4, -1e4], dtype=kind)
    FL, (dx,) = run("focal", u, np.ones(2, dtype=kind), upstream=[1.0, 1.0])
    np.testing.assert_allclose(FL, [0, 1e4], **tolerance)
    np.testing.assert_allclose(dx, [0, -1], **tolerance)
    np.testing.assert_allclose(run("log_sigmoid", u, upstream=[1.0, 1.0])[0], [0, -1e4], **tolerance)


def test_a_common_offset_of_1e8_in_float32_keeps_the_logarithm(run: Run) -> None:
    z = np.array([[1e8, 1e8], [1e8, 1e8 - 16]], dtype=np.float32)
    target = np.array([0, 1])
    rows = np.array([0.693147180560, 16.000000112535])
    y = np.eye(2, dtype=np.float32)[target]
    near = {"rtol": 3e-7}
    loss, (dz,) = run("cross_entropy", z, target)
    p = np.array([[0.5, 0.5], [1 / (1 + np.exp(-16)), 1 / (1 + np.exp(16))]])
    np.testing.assert_allclose(loss, rows.mean(), **near)
    np.testing.assert_allclose(dz, (p - y) / 2, atol=1e-7)
    loss, (dz, _) = run("cross_entropy_soft", z, y)
    np.testing.assert_allclose(loss, rows.mean(), **near)
    np.testing.assert_allclose(dz, (p - y) / 2, atol=1e-7)
    np.testing.assert_allclose(run("label_smoothing", z, target, eps=0.0)[0], rows.mean(), **near)
    smoothed = np.mean(0.5 * rows + 0.25 * np.array([2 * np.log(2), 16 + 2 * np.log1p(np.exp(-16))]))
    np.testing.assert_allclose(run("label_smoothing", z, target, eps=0.5)[0], smoothed, **near)
    np.testing.assert_allclose(run("cross_entropy_masked", z, target, np.ones(2, int))[0], rows.mean(), **near)
    np.testing.assert_allclose(run("cross_entropy_weighted", z, target, np.ones(2, np.float32))[0], rows.mean(), **near)
    np.testing.assert_allclose(run("log_softmax", z, upstream=y)[0][[0, 1], target], -rows, **near)
    np.testing.assert_allclose(run("logsumexp", z, upstream=[1.0, 1.0])[1][0], p, atol=1e-7)


@KINDS
def test_a_logit_of_minus_infinity_where_the_target_is_zero(run: Run, kind: type) -> None:
    z, y = np.array([-np.inf, 0, 0], dtype=kind), np.array([0, 1, 0], dtype=kind)
    loss, (dz, dy) = run("cross_entropy_soft", z, y)
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-6 if kind is np.float32 else 1e-14)
    np.testing.assert_allclose(dz, [0, -0.5, 0.5])
    assert dy[0] == np.inf
    assert np.isfinite(dy[1:]).all()
    loss, (dz, _) = run("cross_entropy_soft", z, 0 * y)
    assert loss == 0
    assert not dz.any()
    loss, (dz,) = run("distillation", z, z)
    assert loss == 0
    assert not dz.any()
    loss, _ = run("cross_entropy_weighted", z[None, :].repeat(2, 0), np.array([0, 1]), np.array([0, 1, 1], dtype=kind))
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-6)


def test_zero_times_the_logarithm_of_zero(run: Run) -> None:
    P, Q = np.array([0.0, 0.5, 0.5]), np.array([0.0, 0.25, 0.75])
    D, _ = run("kullback_leibler", P, np.array([0.2, 0.2, 0.6]))
    close(D, 0.5 * np.log(2.5) + 0.5 * np.log(0.5 / 0.6))
    with np.errstate(divide="ignore", invalid="ignore"):
        D = run("kullback_leibler", P, Q)[0]
    close(D, 0.5 * np.log(2.0) + 0.5 * np.log(0.5 / 0.75))
    D, (dX,) = run("jensen_shannon", np.array([-np.inf, 0.0]), np.array([0.0, -np.inf]))
    close(D, np.log(2.0))
    close(dX, [0.0, 0.5 * np.log(2.0)])


@KINDS
def test_ignored_rows_may_hold_anything(run: Run, kind: type) -> None:
    z = np.array([[1.0, 2.0, 3.0], [np.nan, np.nan, np.nan], [0.5, 0.0, 0.0]], dtype=kind)
    loss, (dz,) = run("cross_entropy_masked", z, TARGET, KEPT)
    alone, (dalone, *_) = run("cross_entropy", z[[0, 2]], TARGET[[0, 2]])
    np.testing.assert_allclose(loss, alone, rtol=1e-6)
    np.testing.assert_allclose(dz[[0, 2]], dalone, rtol=1e-5, atol=1e-8)
    assert not dz[1].any()
    loss, (dz,) = run("cross_entropy_masked", z, TARGET, 0 * KEPT)
    assert loss == 0
    assert not dz.any()


@KINDS
def test_zero_vectors_have_cosine_zero(run: Run, kind: type) -> None:
    smallest = float(np.finfo(np.float32).tiny)
    for eps in (smallest, 1e-8):
        y, gradients = run("cosine_similarity", np.zeros(2, dtype=kind), np.zeros(2, dtype=kind), eps=eps)
        assert y == 0
        assert all(not gradient.any() for gradient in gradients)


def test_masking_is_selection_not_addition(run: Run) -> None:
    s = np.array([3.0, -1.0])
    p = run("softmax", s, upstream=s)[0]
    close(run("softmax", s - 65504, upstream=s)[0], p)  # the same sentinel on every key masks nothing
    close(p, [0.982013790038, 0.017986209962])
    s = np.array([2.0, -1.0])
    close(run("softmax", s + np.array([-1e-9, 0]), upstream=s)[0], [0.952574126777, 0.047425873223])
    close(run("softmax", s + np.array([-1e9, 0]), upstream=s)[0], [0, 1])


def test_each_row_has_a_maximum_of_its_own(run: Run) -> None:
    z = np.array([[0.0, 1.0], [1000.0, 1001.0]])
    expected = [[0.268941421370, 0.731058578630]] * 2
    close(run("softmax", z, upstream=z)[0], expected)
    close(np.exp(run("log_softmax", z, upstream=z)[0]), expected)

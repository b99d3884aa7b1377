"""Exponentials as a user may write them, at logits of 1e4 and of -inf: sums that have a name, sums beside other terms.

None of these statements is in the library. Values and slopes are compared with formulas in log space, in float64, on
the numbers that the kernel was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sympy import Max, cosh, exp, log, sqrt, tanh

from derive.functions import log_softmax, mean, sigmoid, softmax
from derive.language import Sum, Tensor, dims, indices, leading_index, scalar, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

N, C, V = dims("N C V")
n = leading_index("n", N)
c, e = indices("c e", C)
v = indices("v", V)[0]
x, y, w = tensor("x", N, C), tensor("y", N, C), tensor("w", N, C, V)
s, k = tensor("s", N), tensor("k", N, into=C)
a, b = tensor("a", N, C), tensor("b", N, C)

EPS = {np.float32: 2.0**-23, np.float64: 2.0**-52}


def lse(values: Array) -> Array:
    """Logsumexp along the last axis; of nothing but -inf it is -inf."""
    top = np.maximum(values.max(axis=-1, keepdims=True), np.finfo(np.float64).min)
    with np.errstate(divide="ignore"):
        result: Array = (top + np.log(np.exp(values - top).sum(axis=-1, keepdims=True)))[..., 0]
    return result


def log_shares(values: Array) -> Array:
    """The logarithm of softmax along the last axis."""
    below = values - np.maximum(values.max(axis=-1, keepdims=True), np.finfo(np.float64).min)
    result: Array = below - np.log(np.exp(below).sum(axis=-1, keepdims=True))
    return result


def shares(values: Array) -> Array:
    """Softmax along the last axis."""
    terms = np.exp(values - np.maximum(values.max(axis=-1, keepdims=True), np.finfo(np.float64).min))
    result: Array = terms / terms.sum(axis=-1, keepdims=True)
    return result


def logistic(u: Array) -> Array:
    """1 / (1 + exp(-u))."""
    return np.exp(-np.logaddexp(0, -u))


# ---------------------------------------------------------------------------------------------------------------------
# Statements, and what they and their slopes are for an upstream gradient of ones.


def named_total() -> Program:
    """A softmax whose sum of exponentials has a name, and its product with something."""
    program = Program("named_total", "a named sum of exponentials", [x, y])
    total = program.define("Z", [n], Sum(exp(x[n, c]), c))
    share = program.define("p", [n, c], exp(x[n, c]) / total[n])
    program.kernel(program.define("o", [n], Sum(share[n, c] * y[n, c], c)), wrt=[x])
    return program


def named_total_expected(x: Array, y: Array) -> tuple[Array, Array]:
    p = shares(x)
    mean = (p * y).sum(axis=-1)
    return mean, p * (y - mean[..., None])


def sink() -> Program:
    """A weighted mean with a term more in the sum that divides, which has a name."""
    program = Program("sink", "a sink beside a sum", [x, y, s])
    total = program.define("Z", [n], exp(s[n]) + Sum(exp(x[n, c]), c))
    program.kernel(program.define("o", [n], Sum(exp(x[n, c]) * y[n, c], c) / total[n]), wrt=[x, s])
    return program


def sink_expected(x: Array, y: Array, s: Array) -> tuple[Array, Array, Array]:
    p = shares(np.concatenate([x, s[..., None]], axis=-1))
    mean = (p[..., :-1] * y).sum(axis=-1)
    return mean, p[..., :-1] * (y - mean[..., None]), -p[..., -1] * mean


def one_more() -> Program:
    """The logarithm of 1 and a sum."""
    program = Program("one_more", "log of one more", [x])
    program.kernel(program.define("o", [n], log(1 + Sum(exp(x[n, c]), c))), wrt=[x])
    return program


def one_more_expected(x: Array) -> tuple[Array, Array]:
    larger = np.concatenate([x, np.zeros_like(x[..., :1])], axis=-1)
    return lse(larger), shares(larger)[..., :-1]


def named_terms() -> Program:
    """A weighted mean; the exponentials, their sum and their weighted sum have names."""
    program = Program("named_terms", "named exponentials", [x, y])
    term = program.define("E", [n, c], exp(x[n, c]))
    total = program.define("Z", [n], Sum(term[n, c], c))
    weighted = program.define("W", [n], Sum(term[n, c] * y[n, c], c))
    program.kernel(program.define("o", [n], weighted[n] / total[n]), wrt=[x])
    return program


def table() -> Program:
    """Shares of a table; the sum over both of its indices has a name."""
    program = Program("table", "shares of a table", [w])
    total = program.define("Z", [n], Sum(exp(w[n, c, v]), c, v))
    program.kernel(program.define("o", [n, c, v], exp(w[n, c, v]) / total[n]), wrt=[w])
    return program


def table_expected(w: Array) -> tuple[Array, Array]:
    p = shares(w.reshape(*w.shape[:-2], -1)).reshape(w.shape)
    return p, np.zeros_like(w)


def entropy() -> Program:
    """The policy gradient's loss with the entropy of its shares, which have a name."""
    program = Program("entropy", "log of named shares", [x, k, s])
    share = program.define("p", [n, c], softmax(x[n, c], over=c))
    penalty = Sum(share[n, c] * log(share[n, c]), c)
    program.kernel(program.define("o", [n], penalty - s[n] * log(share[n, k[n]])), wrt=[x, s])
    return program


def entropy_expected(x: Array, k: Array, s: Array) -> tuple[Array, Array, Array]:
    p = shares(x)
    logarithm = np.where(p == 0, 0, log_shares(x))
    chosen = np.take_along_axis(log_shares(x), k[..., None], -1)[..., 0]
    mean = (p * logarithm).sum(axis=-1)
    one = np.zeros_like(x)
    np.put_along_axis(one, k[..., None], 1, -1)
    return mean - s * chosen, p * (logarithm - mean[..., None]) - s[..., None] * (one - p), -chosen


def binary() -> Program:
    """Binary cross entropy of a sigmoid that has a name."""
    program = Program("binary", "log of a named sigmoid", [x, y])
    share = program.define("p", [n, c], sigmoid(x[n, c]))
    loss = -y[n, c] * log(share[n, c]) - (1 - y[n, c]) * log(1 - share[n, c])
    program.kernel(program.define("o", [n, c], loss), wrt=[x])
    return program


def binary_expected(x: Array, y: Array) -> tuple[Array, Array]:
    return y * np.logaddexp(0, -x) + (1 - y) * np.logaddexp(0, x), logistic(x) - y


def smooth() -> Program:
    """The logarithm of a hyperbolic cosine of a difference."""
    program = Program("smooth", "log cosh", [x, y])
    program.kernel(program.define("o", [n, c], log(cosh(x[n, c] - y[n, c]))), wrt=[x])
    return program


def smooth_expected(x: Array, y: Array) -> tuple[Array, Array]:
    return np.logaddexp(x - y, y - x) - np.log(2), np.tanh(x - y)


def quotient() -> Program:
    """A hyperbolic tangent by its definition."""
    program = Program("quotient", "tanh by exponentials", [x])
    body = (exp(x[n, c]) - exp(-x[n, c])) / (exp(x[n, c]) + exp(-x[n, c]))
    program.kernel(program.define("o", [n, c], body), wrt=[x])
    return program


def quotient_expected(x: Array) -> tuple[Array, Array]:
    return np.tanh(x), 4 * logistic(2 * x) * logistic(-2 * x)


def bag() -> Program:
    """Rows of a table, weighted by a softmax without a name."""
    rows = tensor("rows", V, C)
    program = Program("bag", "weighted rows", [w, rows])
    program.kernel(program.define("o", [n, c], Sum(softmax(w[n, e, v], over=v) * rows[v, c], e, v)), wrt=[w])
    return program


def bag_expected(w: Array, rows: Array) -> tuple[Array, Array]:
    p = shares(w)
    value = (p @ rows).sum(axis=-2)
    received = rows.sum(axis=-1)
    return value, p * (received - (p @ received)[..., None])


def divergence() -> Program:
    """The divergence of two softmax functions, logarithms written out where they stand."""
    logits = tensor("w", N, C)
    program = Program("divergence", "divergence of softmax functions", [x, logits])
    difference = log_softmax(x[n, c], over=c) - log_softmax(logits[n, c], over=c)
    program.kernel(program.define("o", [n], Sum(softmax(x[n, c], over=c) * difference, c)), wrt=[x, logits])
    return program


def divergence_expected(x: Array, w: Array) -> tuple[Array, Array, Array]:
    p, difference = shares(x), log_shares(x) - log_shares(w)
    value = (p * difference).sum(axis=-1)
    return value, p * (difference - value[..., None]), shares(w) - p


CASES: dict[str, tuple[Callable[[], Program], Callable[..., tuple[Array, ...]]]] = {
    "named_total": (named_total, named_total_expected),
    "named_terms": (named_terms, named_total_expected),
    "sink": (sink, sink_expected),
    "one_more": (one_more, one_more_expected),
    "table": (table, table_expected),
    "entropy": (entropy, entropy_expected),
    "binary": (binary, binary_expected),
    "smooth": (smooth, smooth_expected),
    "quotient": (quotient, quotient_expected),
    "divergence": (divergence, divergence_expected),
    "bag": (bag, bag_expected),
}
LOGITS = ("x", "w", "s")  # what is made large
KINDS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda z: z,
    "+-1e4": lambda z: np.where(z > 0, 1e4, -1e4),
    "times 1e4": lambda z: 1e4 * z,
    "around 300": lambda z: z + 300,
    "around -1e4": lambda z: z - 1e4,
    "all 1e4": lambda z: np.full_like(z, 1e4),
}


def arrays(program: Program, kind: Callable[[Array], Array], dtype: type) -> list[Array]:
    """Inputs of the program, its logits of the kind."""
    rng, sizes, made = np.random.default_rng(5), {"N": 4, "C": 5, "V": 3}, []
    for known in program.all_inputs():
        assert isinstance(known, Tensor)
        shape = tuple(sizes[str(size)] for size in known.shape)
        if known.into is not None:
            made.append(rng.integers(0, sizes[str(known.into)], shape))
            continue
        values = rng.standard_normal(shape)
        made.append((kind(values) if str(known.name) in LOGITS else values).astype(dtype))
    return made


def by_name(program: Program, given: list[Array]) -> dict[str, Array]:
    """The arrays under the names of the program's tensors, in the order of its inputs."""
    return dict(zip((str(k.name) for k in program.all_inputs() if isinstance(k, Tensor)), given, strict=True))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_at_large_logits(name: str, target: str, dtype: type, returned: Any) -> None:
    statement, expected = CASES[name]
    program = statement()
    for kind in KINDS.values():
        given = arrays(program, kind, dtype)
        wanted = expected(*(array.astype(np.float64) if array.dtype == dtype else array for array in given))
        for found, right in zip(returned(program, target, by_name(program, given)), wanted, strict=True):
            assert found.dtype == dtype
            scale = max(1.0, float(np.abs(right).max()))
            np.testing.assert_allclose(found, right, rtol=0, atol=16 * EPS[dtype] * scale)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["named_total", "sink", "one_more", "entropy"])
def test_at_logits_of_minus_infinity(name: str, target: str, returned: Any) -> None:
    statement, expected = CASES[name]
    program = statement()
    given = arrays(program, KINDS["plain"], np.float64)
    (place,) = (n for n, known in enumerate(program.all_inputs()) if str(known.name) == "x")
    given[place][0, 1:3] = -np.inf
    if name in ("sink", "one_more"):
        given[place][1] = -np.inf  # there is one more term, so that the sum is not 0
    if name == "entropy":
        given[1][0] = 0  # the entry that is taken has a finite logarithm
    for found, right in zip(returned(program, target, by_name(program, given)), expected(*given), strict=True):
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_root_without_a_name_in_a_hinge_has_slope_zero_at_zero(target: str, returned: Any) -> None:
    program = Program("hinge", "distances in a hinge", [x, a, b])
    near, far = sqrt(Sum((x[n, c] - a[n, c]) ** 2, c)), sqrt(Sum((x[n, c] - b[n, c]) ** 2, c))
    program.kernel(program.define("L", [n], Max(near - far + tanh(1), 0)), wrt=[x, a, b])
    anchor, other = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[1.0, 2.0], [1.5, 2.0]])
    _, *slopes = returned(program, target, by_name(program, [anchor, other, anchor]))
    np.testing.assert_allclose(slopes, [[[0, 0], [-1, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 0]]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_mean_of_logarithms_without_a_name_may_be_switched_off(target: str, returned: Any) -> None:
    share = scalar("share")
    program = Program("smoothed", "cross entropy with smoothing", [x, k, share])
    logarithm = program.define("lp", [n, c], log_softmax(x[n, c], over=c))
    loss = -(1 - share) * logarithm[n, k[n]] - share * mean(logarithm[n, c], over=c)
    program.kernel(program.define("o", [n], loss), wrt=[x])
    logits = np.array([[0.5, -np.inf, 1.0]])
    value, slope = returned(program, target, by_name(program, [logits, np.array([2])]), share=0.0)
    np.testing.assert_allclose(value, -log_shares(logits)[:, 2])
    np.testing.assert_allclose(slope, shares(logits) - [[0, 0, 1]])

"""Textbook formulas for values and gradients, evaluated with 40 digits: what `benchmarks.errors` holds kernels against.

Each function takes the arguments of a forward kernel and the gradient from above, and returns the value and all
gradients, in the kernels' order. They are written as in a book, for arrays of mpmath numbers, and share nothing with
the compiler: no stable form and no plan, for with 40 digits none is needed.

A result that is a difference of larger terms, such as the gradient of a softmax that has settled on one class, may be
almost 0 in a whole row. It comes as `Exact(value, size)` with the size of the terms, and that is what its errors are
measured by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np

Array = np.ndarray[Any, Any]
Results = tuple[Any, ...]


class Exact(NamedTuple):
    """A result, and for each entry the size of the terms that it is the sum of."""

    value: Any
    size: Any


DIGITS = 40
exp, log, sqrt, erf, tanh = (
    np.frompyfunc(function, 1, 1) for function in (mpmath.exp, mpmath.log, mpmath.sqrt, mpmath.erf, mpmath.tanh)
)


def exactly(value: Any) -> Any:
    """The same numbers for mpmath, or the value itself if it is no array of floating point."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return np.frompyfunc(mpmath.mpf, 1, 1)(value.astype(np.float64))
    return value


def reference(
    function: Callable[..., Results], arguments: list[Any], upstream: Any, **options: Any
) -> tuple[Exact, ...]:
    """The results of one of the functions below for these very floating-point numbers."""
    with mpmath.mp.workdps(DIGITS):
        given = [exactly(argument) for argument in arguments]
        results = function(*given, exactly(upstream), **options)
        pairs = [result if isinstance(result, Exact) else Exact(result, result) for result in results]
        return tuple(Exact(*(np.atleast_1d(np.asarray(part, dtype=object)) for part in pair)) for pair in pairs)


def _sum(value: Any, axis: int = -1) -> Any:
    return value.sum(axis=axis, keepdims=True)


def _mean(value: Any, axis: int = -1) -> Any:
    return _sum(value, axis) / value.shape[axis]


def softmax(z: Any, dp: Any) -> Results:
    """The softmax p = exp(z) / Sum exp(z); dz = p (dp - Sum p dp)."""
    e = exp(z - z.max(axis=-1, keepdims=True))
    p = e / _sum(e)
    return p, Exact(p * (dp - _sum(p * dp)), p * abs(dp))


def log_softmax(z: Any, dy: Any) -> Results:
    """The values y = z - log Sum exp(z); dz = dy - p Sum dy."""
    top = z.max(axis=-1, keepdims=True)
    y = z - top - log(_sum(exp(z - top)))
    p = exp(y)
    return y, Exact(dy - p * _sum(dy), abs(dy) + p * _sum(abs(dy)))


def logsumexp(z: Any, dL: Any) -> Results:
    """The values L = log Sum exp(z); dz = p dL."""
    top = z.max(axis=-1, keepdims=True)
    L = (top + log(_sum(exp(z - top))))[..., 0]
    return L, exp(z - L[..., None]) * dL[..., None]


def cross_entropy(z: Any, target: Array, dloss: Any) -> Results:
    """The mean of L - z[target]; dz = (p - onehot) dloss / N."""
    rows = np.arange(len(z))
    L = logsumexp(z, np.ones(len(z), object))[0]
    p = exp(z - L[:, None])
    hit = (np.arange(z.shape[1]) == target[:, None]).astype(int)
    return (L - z[rows, target]).sum() / len(z), Exact((p - hit) * dloss / len(z), (p + hit) * dloss / len(z))


def layer_norm(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, axis: int = -1) -> Results:
    """The values y = gamma xhat + beta, with xhat of mean 0 and variance almost 1."""
    centred = x - _mean(x, axis)
    r = 1 / sqrt(_mean(centred**2, axis) + mpmath.mpf(eps))
    xhat = centred * r
    g = dy * gamma
    dx = r * (g - _mean(g, axis) - xhat * _mean(g * xhat, axis))
    return gamma * xhat + beta, dx, _over_rows(dy * xhat), _over_rows(dy)


def _over_rows(terms: Any) -> Exact:
    """The sum over the rows; its size is that of the largest term, for all of the largest entry may cancel."""
    return Exact(terms.sum(axis=0), abs(terms).max(axis=0))


def batch_norm(x: Any, gamma: Any, beta: Any, dy: Any, eps: float) -> Results:
    """Layer norm's formulas with means over the rows."""
    return layer_norm(x, gamma, beta, dy, eps, axis=0)


def rms_norm(x: Any, gamma: Any, dy: Any, eps: float) -> Results:
    """The values y = gamma x r with r = 1 / sqrt(mean x^2 + eps)."""
    r = 1 / sqrt(_mean(x**2) + mpmath.mpf(eps))
    xhat, g = x * r, dy * gamma
    return gamma * xhat, r * (g - xhat * _mean(g * xhat)), _over_rows(dy * xhat)


def gelu(x: Any, dy: Any) -> Results:
    """The values y = x Phi(x); dx = dy (Phi(x) + x phi(x))."""
    # The sum of 1 and erf loses all digits far out; erfc keeps them.
    Phi = np.frompyfunc(lambda t: mpmath.erfc(-t / mpmath.sqrt(2)) / 2, 1, 1)(x)
    return x * Phi, dy * (Phi + x * exp(-(x**2) / 2) / mpmath.sqrt(2 * mpmath.pi))


def gelu_tanh(x: Any, dy: Any) -> Results:
    """The values y = x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    # 1 + tanh u = 2 / (1 + exp(-2u)), which keeps its digits far out.
    root, c = mpmath.sqrt(2 / mpmath.pi), mpmath.mpf(44715) / 1_000_000
    u = root * (x + c * x**3)
    s = 1 / (1 + exp(-2 * u))
    return x * s, dy * (s + 2 * x * s * (1 - s) * root * (1 + 3 * c * x**2))


def silu(x: Any, dy: Any) -> Results:
    """The values y = x s with s = 1 / (1 + exp(-x)); dx = dy (s + x s (1 - s))."""
    s = 1 / (1 + exp(-x))
    return x * s, dy * (s + x * s * (1 - s))


def attention(Q: Any, K: Any, V: Any, dO: Any, causal: bool) -> Results:
    """The values O = softmax(Q K' / sqrt(d)) V over the keys that are seen, and its gradients."""
    root = mpmath.sqrt(Q.shape[-1])
    Qs = Q / root
    seen = np.tril(np.ones((Q.shape[-2], K.shape[-2]), int)) if causal else 1
    S = Qs @ K.swapaxes(-1, -2)
    E = exp(S - S.max(axis=-1, keepdims=True)) * seen
    A = E / _sum(E)
    dA = dO @ V.swapaxes(-1, -2)
    D = _sum(A * dA)
    dS, size = A * (dA - D), A * (abs(dA) + abs(D))
    return (
        Exact(A @ V, A @ abs(V)),
        Exact(dS @ K / root, size @ abs(K) / root),
        Exact(dS.swapaxes(-1, -2) @ Qs, size.swapaxes(-1, -2) @ abs(Qs)),
        Exact(A.swapaxes(-1, -2) @ dO, A.swapaxes(-1, -2) @ abs(dO)),
    )


def units(computed: Array, exact: Exact) -> float:
    """The largest error in units in the last place of the exact value, in the type that was computed in."""
    with mpmath.mp.workdps(DIGITS):
        error = abs(exactly(np.atleast_1d(computed)) - exact.value)
        with np.errstate(over="ignore"):
            place = np.spacing(abs(exact.value).astype(np.float64).astype(computed.dtype))
        return _largest(error / exactly(place))


def of_the_row(computed: Array, exact: Exact) -> float:
    """The largest error in rounding units (eps) of the largest exact entry or term of the row; a vector is one row."""
    with mpmath.mp.workdps(DIGITS):
        error = abs(exactly(np.atleast_1d(computed)) - exact.value).max(axis=-1)
        scale = np.maximum(abs(exact.value).max(axis=-1), abs(exact.size).max(axis=-1))
        kind = np.finfo(computed.dtype)
        return _largest(error / (mpmath.mpf(float(kind.eps)) * np.maximum(scale, mpmath.mpf(float(kind.tiny)))))


def _largest(errors: Any) -> float:
    """The largest of the numbers; infinite if one is not a number."""
    values = np.asarray(errors, dtype=object).reshape(-1)
    return max((math.inf if mpmath.isnan(value) else float(value) for value in values), default=0.0)

"""Positions that are read backwards, x[T - 1 - i], and sums in which indices may be exchanged or turned round."""

from __future__ import annotations

import pytest
from sympy import Eq, Max, exp

from derive.errors import StatementError
from derive.functions import logsumexp, softmax
from derive.language import Sum, delta, dims, index, indices, iverson, lengths, tensor, tensors, where
from derive.program import Program
from derive.prove import prove
from derive.symbols import extent_of

T, K, N = dims("T K N")
i, j, k, m = indices("i j k m", T)
r = index("r", K)
n = index("n", N)
x, y, z = tensors("x y z", T)
positive = tensor("p", T, positive=True)
X = tensor("X", T + K - 1)
w = tensor("w", K)
L = lengths("L", N)
t = index("t", L[n])
R = tensor("R", N, L)

HELD = {
    "twice is once": (x[T - 1 - (T - 1 - i)], x[i]),
    "a sum": (Sum(x[T - 1 - i], i), Sum(x[i], i)),
    "a sum of a function": (Sum(exp(x[T - 1 - i]) * i, i), Sum(exp(x[i]) * (T - 1 - i), i)),
    "a product of sums": (Sum(x[T - 1 - i], i) ** 2, Sum(x[i] * x[j], i, j)),
    "a dot product": (Sum(x[T - 1 - i] * y[i], i), Sum(x[i] * y[T - 1 - i], i)),
    "a dot product of three": (Sum(x[T - 1 - i] * y[T - 1 - i] * z[i], i), Sum(x[i] * y[i] * z[T - 1 - i], i)),
    "a logsumexp": (logsumexp(x[T - 1 - i], over=i), logsumexp(x[i], over=i)),
    "a softmax": (softmax(x[T - 1 - j], over=j), exp(x[T - 1 - j]) / Sum(exp(x[k]), k)),
    "a cumulative sum from the end": (
        Sum(where(j <= i, x[T - 1 - j], 0), j),
        Sum(where(T - 1 - i <= j, x[j], 0), j),
    ),
    "a cumulative sum turned round": (Sum(where(j <= T - 1 - i, x[T - 1 - j], 0), j), Sum(where(i <= j, x[j], 0), j)),
    "as an equation of positions": (Sum(where(Eq(i + j + 1, T), x[j], 0), j), x[T - 1 - i]),
    "as an equation solved": (Sum(where(Eq(j, T - 1 - i), x[j], 0), j), x[T - 1 - i]),
    "as a delta": (Sum(delta(j, T - 1 - i) * x[j], j), x[T - 1 - i]),
    "a sum over both": (Sum(delta(j, T - 1 - i) * x[j], i, j), Sum(x[i], i)),
    "the last": (Sum(where(Eq(j + 1, T), x[j], 0), j), x[T - 1]),
    "a ragged range": (Sum(R[n, L[n] - 1 - t], t), Sum(R[n, t], t)),
    "a convolution and its kernel turned round": (Sum(X[i + r] * w[r], r), Sum(X[i + K - 1 - r] * w[K - 1 - r], r)),
    "a convolution commutes": (
        Sum(iverson(Eq(i, j + k)) * x[j] * y[k], j, k),
        Sum(iverson(Eq(i, j + k)) * y[j] * x[k], j, k),
    ),
    "a convolution with a bounded index": (
        Sum(where(j <= i, x[j] * Sum(where(Eq(i, j + k), y[k], 0), k), 0), j),
        Sum(iverson(Eq(i, j + k)) * y[j] * x[k], j, k),
    ),
    "a convolution of three": (
        Sum(iverson(Eq(i, j + k + m)) * x[j] * y[k] * z[m], j, k, m),
        Sum(iverson(Eq(i, j + k + m)) * z[j] * x[k] * y[m], j, k, m),
    ),
}

FAILS = {
    "an entry": (x[T - 1 - i], x[i]),
    "a dot product": (Sum(x[T - 1 - i] * y[i], i), Sum(x[i] * y[i], i)),
    "weights by place": (Sum(x[T - 1 - i] * i, i), Sum(x[i] * i, i)),
    "a cumulative sum": (Sum(where(j <= i, x[T - 1 - j], 0), j), Sum(where(j <= i, x[j], 0), j)),
    "one too few": (Sum(where(Eq(i + j + 2, T), x[j], 0), j), x[T - 1 - i]),
    "the first and the last": (x[T - 1], x[0]),
    "a largest": (Sum(Max(x[T - 1 - i], y[i]), i), Sum(Max(x[i], y[i]), i)),
    "a convolution and a correlation": (
        Sum(iverson(Eq(i, j + k)) * x[j] * y[k], j, k),
        Sum(iverson(Eq(j, i + k)) * x[j] * y[k], j, k),
    ),
    "a convolution with itself": (
        Sum(iverson(Eq(i, j + k)) * x[j] * y[k], j, k),
        Sum(iverson(Eq(i, j + k)) * x[j] * x[k], j, k),
    ),
    "a kernel turned round alone": (Sum(X[i + r] * w[r], r), Sum(X[i + r] * w[K - 1 - r], r)),
}


@pytest.mark.parametrize("name", HELD)
def test_it_holds(name: str) -> None:
    left, right = HELD[name]
    over = [n] if name == "a ragged range" else []
    verdict = prove(Program("law").claim("c", left, right, over=over))
    assert verdict.status == "Proved", verdict


@pytest.mark.parametrize("name", FAILS)
def test_near_misses_are_refuted(name: str) -> None:
    left, right = FAILS[name]
    assert prove(Program("miss").claim("c", left, right, over=[i] if name == "an entry" else [])).status == "Refuted"


def test_hypotheses_about_places_read_backwards() -> None:
    said = Eq(x[T - 1 - i], y[i])
    assert prove(Program("p").claim("c", x[i], x[T - 1 - i], given=[Eq(x[i], x[T - 1 - i])])).status == "Proved"
    assert prove(Program("p").claim("c", Sum(x[i], i), Sum(y[i], i), given=[said])).status != "Refuted"
    assert prove(Program("p").claim("c", x[i], y[i], given=[said])).status == "Refuted"


def test_the_gradient_is_the_gradient_read_backwards() -> None:
    program = Program("p", inputs=[x, y])
    turned = program.define("turned", [i], x[T - 1 - i] ** 2 * y[i])
    back = program.define("back", [i], turned[T - 1 - i])
    program.claim("twice", back[i], x[i] ** 2 * y[T - 1 - i])
    gradient = program.gradient(back)
    gradient.claim("dx", gradient["dx"][i], 2 * x[i] * y[T - 1 - i] * gradient["dback"][i])
    gradient.claim("dy", gradient["dy"][i], x[T - 1 - i] ** 2 * gradient["dback"][T - 1 - i])
    assert [prove(claim).status for claim in (*program.claims, *gradient.claims)] == ["Proved"] * 3
    assert not any(definition.body.has(Sum(1, i).func) for definition in gradient if definition.name != "back")


@pytest.mark.parametrize(
    ("place", "extent"),
    [
        (T - 1 - i, T), (T - 1, T), (T - i, T + 1), (i + K - 1 - r, T + K - 1), (L[n] - 1 - t, L[n]), (i + 1, T + 1),
        (T - 2, None), (T - 2 - i, None), (i - 1, None), (i - j, None), (T - 1 - 2 * i, None), (K - 1 - i, None),
        (2 * i, None), (i / 2, None),
    ],
)  # fmt: skip
def test_what_a_computed_position_runs_over(place: object, extent: object) -> None:
    assert extent_of(place) == extent  # type: ignore[arg-type]


def test_places_that_may_lie_outside_are_refused() -> None:
    for place in (T - 2 - i, T - i, K - 1 - i, i - 1):
        with pytest.raises(StatementError, match="axis 0"):
            x[place]

"""Further cases, written with the public names: functions in pieces, and what is claimed where two pieces meet.

Losses and activations with corners are where hand-written gradients disagree by convention. A claim about a derivative
is proved away from the corners, whichever convention it follows there, and the verdict names them.
"""

from __future__ import annotations

from typing import Any

import pytest

from gradproof import (
    Abs,
    And,
    Eq,
    Max,
    Min,
    Ne,
    Or,
    Piecewise,
    Program,
    Rational,
    Sum,
    delta,
    dims,
    exp,
    index,
    indices,
    iverson,
    log,
    mean,
    relu,
    scalar,
    sign,
    softplus,
    tensor,
    tensors,
    where,
)  # fmt: skip

n, N, C, d = dims("n N C d")
i, j = indices("i j", n)
x, t = tensors("x t", n)
lam = scalar("lam", positive=True)


def ties(verdict: Any) -> list[str]:
    """What a verdict says of points that are left out."""
    return [text for text in verdict.hypotheses if text.startswith("almost everywhere") or text.endswith("!= 0")]


@pytest.mark.parametrize(
    "slope",
    [iverson(x[i] > 0), iverson(x[i] >= 0), (1 + sign(x[i])) / 2, where(x[i] < 0, 0, 1), relu(x[i]) / x[i]],
    ids=["[x > 0]", "[x >= 0]", "half at 0", "[not x < 0]", "relu / x"],
)
def test_slope_of_relu_by_every_convention(slope: Any, proved: Any) -> None:
    """0, 1 and 1/2 at 0 are all in use; each is right away from 0, and the verdict says that 0 is left out."""
    program = Program("rectified", inputs=[x])
    backward = program.gradient(program.define("y", [i], relu(x[i])))
    (verdict,) = proved(backward.claim("slope", backward["dx"][i], backward["dy"][i] * slope))
    assert ties(verdict)


def test_slope_of_relu_that_is_wrong(proved: Any, refuted: Any) -> None:
    """Conventions differ at 0 only: a wrong slope elsewhere is refuted, and so is a statement about values at 0."""
    program = Program("rectified", inputs=[x])
    y = program.define("y", [i], relu(x[i]))
    backward = program.gradient(y)
    refuted(backward.claim("other side", backward["dx"][i], backward["dy"][i] * iverson(x[i] < 0)))
    refuted(backward.claim("leaky", backward["dx"][i], backward["dy"][i] * where(x[i] > 0, 1, Rational(1, 100))))
    proved(backward.claim("by its output", backward["dx"][i], backward["dy"][i] * iverson(y[i] > 0)))
    # Without a derivative in the program nothing is left out.
    plain = Program("values", inputs=[x])
    (verdict,) = proved(plain.claim("relu", relu(x[i]), x[i] * iverson(x[i] >= 0)))
    assert ties(verdict) == []


def test_derivative_of_one_entry_names_the_corner_too(proved: Any) -> None:
    """`Program.derivative` leaves the same points out as a backward pass."""
    program = Program("absolute", inputs=[x])
    y = program.define("y", [], Sum(Abs(x[i]), i))
    (verdict, *_) = proved(
        program.claim("sign", program.derivative(y, x[i]), sign(x[i])),
        program.claim("x / |x|", program.derivative(y, x[i]), x[i] / Abs(x[i])),
    )
    assert "almost everywhere: not where x[i] >= 0 switches (by convention the gradient of the case that holds)" in (
        verdict.hypotheses
    )
    assert "x[i] != 0" in verdict.hypotheses


def test_cases_that_other_values_take_have_no_corner(proved: Any, refuted: Any) -> None:
    """Which pairs count goes by their labels, which stay where they are: nothing is left out, and their ties count."""
    program = Program("ranked", inputs=[x, t])
    loss = program.define("loss", [], Sum(where(t[i] > t[j], softplus(x[j] - x[i]), 0), i, j))
    backward = program.gradient(loss, wrt=[x])
    above, below = exp(x[j]) / (exp(x[i]) + exp(x[j])), exp(x[i]) / (exp(x[i]) + exp(x[j]))
    right = Sum(where(t[j] > t[i], below, 0) - where(t[i] > t[j], above, 0), j)
    at_ties = Sum(where(t[j] >= t[i], below, 0) - where(t[i] > t[j], above, 0), j)
    verdicts = proved(
        backward.claim("backward", backward["dx"][i], backward["dloss"] * right),
        program.claim("derivative", program.derivative(loss, x[i]), right),
    )
    assert not any(ties(verdict) for verdict in verdicts)
    proved(backward.claim("sum", Sum(backward["dx"][i], i), 0))
    refuted(backward.claim("ties", backward["dx"][i], backward["dloss"] * at_ties))


def test_maximum_of_two_at_a_tie(proved: Any, refuted: Any) -> None:
    """To one of the two, or half to each: conventions for a tie. Half everywhere is wrong."""
    (a, b) = tensors("a b", n)
    program = Program("larger", inputs=[a, b])
    y = program.define("y", [i], Max(a[i], b[i]))
    slope = program.derivative(y[i], a[i])
    proved(
        program.claim("one", slope, iverson(a[i] > b[i])),
        program.claim("half", slope, iverson(a[i] > b[i]) + iverson(Eq(a[i], b[i])) / 2),
    )
    refuted(program.claim("half everywhere", slope, Rational(1, 2), over=[i]))


def test_huber_loss(proved: Any, refuted: Any, point: Any) -> None:
    """The gradient is the error clipped to delta; one that forgets the factor delta is right for delta = 1 only."""
    bound = scalar("bound", positive=True)
    program = Program("huber", inputs=[x, t, bound])
    e = program.define("e", [i], x[i] - t[i])
    L = program.define("L", [], Sum(where(Abs(e[i]) <= bound, e[i] ** 2 / 2, bound * (Abs(e[i]) - bound / 2)), i))
    slope = program.derivative(L, x[i])
    proved(
        program.claim("clipped", slope, Max(-bound, Min(bound, e[i]))),
        program.claim("in pieces", slope, where(Abs(e[i]) <= bound, e[i], bound * sign(e[i]))),
        program.claim("as Piecewise", slope, Piecewise((bound, e[i] > bound), (-bound, e[i] < -bound), (e[i], True))),
        program.claim("pseudo", L, Sum(Min(Abs(e[i]), bound) * (Abs(e[i]) - Min(Abs(e[i]), bound) / 2), i)),
    )
    here = point(program, x=(1, 3, -2), t=(0.5, 0, 0), bound=0.75)
    verdict = refuted(
        program.claim("no delta", slope, where(Abs(e[i]) <= bound, e[i], sign(e[i]))), here, [i],
        left=(0.5, 0.75, -0.75), right=(0.5, 1, -1),
    )  # fmt: skip
    assert "holds if bound = 1" in verdict.advice


def test_soft_threshold(proved: Any, refuted: Any) -> None:
    """sign(x) max(|x| - lam, 0) is a difference of two rectifiers, and no plain shift."""
    program = Program("shrinkage", inputs=[x, lam])
    s = program.define("s", [i], sign(x[i]) * Max(Abs(x[i]) - lam, 0))
    proved(
        program.claim("two rectifiers", s[i], relu(x[i] - lam) - relu(-x[i] - lam)),
        program.claim("three pieces", s[i], where(x[i] > lam, x[i] - lam, where(x[i] < -lam, x[i] + lam, 0))),
        program.claim("what is taken off", x[i] - s[i], Max(-lam, Min(lam, x[i]))),
        program.claim("summed", Sum(s[i], i), Sum(relu(x[i] - lam), i) - Sum(relu(-x[i] - lam), i)),
    )
    refuted(program.claim("shift", s[i], x[i] - lam * sign(x[i])))


def test_hard_swish(proved: Any, refuted: Any) -> None:
    """x min(max(x + 3, 0), 6) / 6: the slope between the corners is (2x + 3) / 6."""
    program = Program("hard_swish", inputs=[x])
    backward = program.gradient(program.define("h", [i], x[i] * Min(relu(x[i] + 3), 6) / 6))
    dh, dx = backward["dh"], backward["dx"]
    middle = where(x[i] <= -3, 0, where(x[i] >= 3, 1, (2 * x[i] + 3) / 6))
    proved(
        backward.claim("pieces", dx[i], dh[i] * middle),
        backward.claim("six", Min(relu(x[i]), 6), relu(x[i]) - relu(x[i] - 6)),
        backward.claim("clip", Min(Max(x[i], -1), 1), (Abs(x[i] + 1) - Abs(x[i] - 1)) / 2),
        backward.claim("either order", Min(Max(x[i], -1), 1), Max(Min(x[i], 1), -1)),
    )
    refuted(backward.claim("gate only", dx[i], dh[i] * where(x[i] <= -3, 0, where(x[i] >= 3, 1, (x[i] + 3) / 6))))


def test_exponential_linear_unit(proved: Any, refuted: Any) -> None:
    """The slope from the output is y + alpha below 0; without alpha it is right for alpha = 1 only."""
    alpha = scalar("alpha", positive=True)
    program = Program("elu", inputs=[x, alpha])
    y = program.define("y", [i], where(x[i] > 0, x[i], alpha * (exp(x[i]) - 1)))
    slope = program.derivative(y[i], x[i])
    proved(
        program.claim("by the output", slope, where(x[i] > 0, 1, y[i] + alpha)),
        program.claim("tested by the output", slope, where(y[i] > 0, 1, y[i] + alpha)),
        program.claim("for alpha", program.derivative(y[i], alpha), Min(exp(x[i]) - 1, 0)),
    )
    verdict = refuted(program.claim("no alpha", slope, where(x[i] > 0, 1, exp(x[i]))))
    assert "holds if alpha = 1" in verdict.advice


def test_clipped_ratio_of_policies(proved: Any, refuted: Any) -> None:
    """min(r A, clip(r) A): the gradient is cut on one side only, which one goes by the sign of A."""
    r, A, eps = *tensors("r A", n), scalar("eps", positive=True)
    program = Program("clipped_policy", inputs=[r, A, eps])
    clipped = Max(1 - eps, Min(1 + eps, r[i]))
    L = program.define("L", [], -mean(Min(r[i] * A[i], clipped * A[i]), over=i))
    slope = program.derivative(L, r[i])
    proved(
        program.claim("by sign", slope, -A[i] / n * where(A[i] > 0, iverson(r[i] < 1 + eps), iverson(r[i] > 1 - eps)))
    )
    inside = And(r[i] < 1 + eps, r[i] > 1 - eps)
    refuted(program.claim("cut on both sides", slope, -A[i] / n * iverson(inside)))


def test_multi_class_hinge(proved: Any, refuted: Any) -> None:
    """The target's own entry collects minus the number of margins that are violated."""
    z, y = tensor("z", N, C), tensor("y", N, into=C)
    a, (c, e) = index("a", N), indices("c e", C)
    program = Program("hinge", inputs=[z, y])
    margin = where(Ne(c, y[a]), Max(0, z[a, c] - z[a, y[a]] + 1), 0)
    L = program.define("L", [], Sum(margin, a, c) / N)
    slope = program.derivative(L, z[a, c])

    def active(at: Any) -> Any:
        return iverson(z[a, at] - z[a, y[a]] + 1 > 0) * (1 - delta(at, y[a]))

    proved(program.claim("both", slope, (active(c) - delta(c, y[a]) * Sum(active(e), e)) / N))
    refuted(program.claim("target left out", slope, active(c) / N))


def test_triplet_loss(proved: Any, refuted: Any) -> None:
    """The anchor's gradient is the difference of the other two; the negative's has the opposite sign."""
    p, q, r = tensors("p q r", N, d)
    a, c, margin = index("a", N), index("c", d), scalar("margin", positive=True)
    program = Program("triplet", inputs=[p, q, r, margin])
    D = program.define("D", [a], Sum((p[a, c] - q[a, c]) ** 2, c) - Sum((p[a, c] - r[a, c]) ** 2, c) + margin)
    backward = program.gradient(program.define("L", [], Sum(relu(D[a]), a)))
    on = 2 * backward["dL"] * iverson(D[a] > 0)
    proved(
        backward.claim("anchor", backward["dp"][a, c], on * (r[a, c] - q[a, c])),
        backward.claim("positive", backward["dq"][a, c], -on * (p[a, c] - q[a, c])),
        backward.claim("negative", backward["dr"][a, c], on * (p[a, c] - r[a, c])),
    )
    verdict = refuted(backward.claim("sign", backward["dr"][a, c], -on * (p[a, c] - r[a, c])))
    assert "holds with the opposite sign on the right side" in verdict.advice


def test_binary_cross_entropy_from_logits(proved: Any, refuted: Any) -> None:
    """max(z, 0) - z y + log(1 + e^-|z|) is the loss; a weight of the positive class changes the gradient."""
    z, y, w = *tensors("z y", n), scalar("w", positive=True)
    program = Program("logits", inputs=[z, y, w])
    q = program.define("q", [i], 1 / (1 + exp(-z[i])))
    L = program.define("L", [], -mean(w * y[i] * log(q[i]) + (1 - y[i]) * log(1 - q[i]), over=i))
    plain = -y[i] * log(q[i]) - (1 - y[i]) * log(1 - q[i])
    stable = Sum((1 - y[i]) * z[i] + (1 + (w - 1) * y[i]) * softplus(-z[i]), i) / n
    slope = program.derivative(L, z[i])
    proved(
        program.claim("stable", Max(z[i], 0) - z[i] * y[i] + log(1 + exp(-Abs(z[i]))), plain),
        program.claim("stable and weighted", L, stable),
        program.claim("gradient", slope, ((1 - y[i]) * q[i] - w * y[i] * (1 - q[i])) / n),
    )
    verdict = refuted(program.claim("q - y", slope, (q[i] - y[i]) / n))
    assert "holds if w = 1" in verdict.advice


def test_overlap_of_two_boxes(proved: Any, refuted: Any) -> None:
    """Intersection over union: its gradient goes through both, and only where the boxes overlap, which they rarely do.

    Hand-written versions forget that the union has the intersection in it, or have the sign of one part wrong.
    """
    a, b, c, d = (tensor(name, 2) for name in "abcd")  # the lower and upper corners of a box, and of another
    program = Program("boxes", inputs=[a, b, c, d])
    side = [program.define(f"side{k}", [], Max(0, Min(b[k], d[k]) - Max(a[k], c[k]))) for k in (0, 1)]
    inner = program.define("inner", [], side[0] * side[1])
    outer = program.define("outer", [], (b[0] - a[0]) * (b[1] - a[1]) + (d[0] - c[0]) * (d[1] - c[1]) - inner)
    overlap = program.define("overlap", [], inner / outer)
    moved = iverson(side[0] > 0) * iverson(b[0] < d[0]) * side[1]
    height = b[1] - a[1]
    proved(program.claim("the intersection", program.derivative(inner, b[0]), moved))
    backward = program.gradient(overlap)
    slope, upstream = backward["db"][0], backward["doverlap"]
    proved(backward.claim("both", slope, upstream * (moved * outer - inner * (height - moved)) / outer**2))
    refuted(backward.claim("the union's part", slope, upstream * (moved * outer - inner * height) / outer**2))
    refuted(backward.claim("a sign", slope, upstream * (moved * outer + inner * (height - moved)) / outer**2))
    refuted(
        program.claim(
            "written out", program.derivative(overlap, b[0]), (moved * outer - inner * height) / outer**2,
        )
    )  # fmt: skip


def test_logarithms_without_overflow(proved: Any, refuted: Any) -> None:
    """The forms that are used because nothing overflows in them are the same functions."""
    a, b = tensors("a b", n)
    program = Program("log_domain", inputs=[a, b])
    larger = Max(a[i], b[i])
    q = 1 / (1 + exp(-a[i]))
    proved(
        program.claim("log add exp", log(exp(a[i]) + exp(b[i])), larger + log(1 + exp(-Abs(a[i] - b[i])))),
        program.claim("log sub exp", log(exp(a[i]) - exp(b[i])), a[i] + log(1 - exp(b[i] - a[i])), given=[a[i] > b[i]]),
        program.claim("log sigmoid", log(q), Min(a[i], 0) - log(1 + exp(-Abs(a[i])))),
        program.claim("sigmoid", q, where(a[i] >= 0, q, exp(a[i]) / (1 + exp(a[i])))),
        program.claim("complement", log(1 - q), -softplus(a[i])),
    )
    refuted(program.claim("larger alone", log(exp(a[i]) + exp(b[i])), larger))
    refuted(program.claim("wrong way", log(exp(a[i]) + exp(b[i])), a[i] + log(1 + exp(a[i] - b[i]))))


def test_conditions_written_in_different_ways(proved: Any, refuted: Any) -> None:
    """A window of width w by its two ends, by its complement, and one that is one position too wide."""
    T = dims("T")[0]
    (p, q), w = indices("p q", T), scalar("w", positive=True, integer=True)
    S = tensor("S", T, T)
    program = Program("window", inputs=[S, w])
    inside, outside = And(q <= p, p - q < w), Or(q > p, q <= p - w)
    proved(
        program.claim("complement", iverson(inside), 1 - iverson(outside)),
        program.claim("transitive", iverson(q <= p) * iverson(p - q < w) * iverson(p - q < w + 1), iverson(inside)),
        program.claim("future", iverson(inside), 0, given=[q > p]),
        program.claim("past", iverson(inside), 0, given=[p - q >= w]),
        program.claim("keys that a query sees", Sum(iverson(q <= p), q), p + 1),
    )
    refuted(program.claim("too wide", iverson(inside), iverson(And(q <= p, p - q <= w))))

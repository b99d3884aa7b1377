"""Rotary position embedding: queries and keys are rotated by an angle in proportion to their position. Su et al. 2021.

Channels come in pairs; pair a of position t is turned by the angle (start + t) base^(-a / A), with A pairs in all:

    y[0] = x[0] cos - x[1] sin,   y[1] = x[0] sin + x[1] cos

The pairs are an axis of their own, of size 2. For neighbouring channels reshape (..., T, C) to (..., T, C/2, 2); for
halves reshape to (..., T, 2, C/2) and swap the last two axes.

What is proved: (R_m q).(R_n k) = q.(R_{n-m} k), so only the distance counts; the backward pass is the rotation by the
negative angle; lengths stay; and the transposed rotation, which some programs use, gives the same scores once the
second channel of both q and k is flipped in sign, which a projection learns as well, but not for the same q and k.
"""

from collections.abc import Callable

import sympy
from sympy import Eq, Expr, cos, sin

from derive.language import Sum, Tensor, dims, index, indices, leading_index, scalar, scalars, tensor, where
from derive.program import Program

N, T, A = dims("N T A")
n = leading_index("n", N)
t = index("t", T)
a = index("a", A)
e, f = indices("e f", 2)
x = tensor("x", N, T, A, 2)
base, start = scalar("base", positive=True), scalar("start")


def rotated(vector: Callable[[int], Expr], angle: Expr, channel: Expr) -> Expr:
    """One channel of a pair turned by an angle: R (v_0, v_1)."""
    first = vector(0) * cos(angle) - vector(1) * sin(angle)
    second = vector(0) * sin(angle) + vector(1) * cos(angle)
    return where(Eq(channel, 0), first, second)


rotary = Program("rotary", "rotary position embedding", [x, base, start])
angle = rotary.define("angle", [t, a], (start + t) * base ** (-a / A))
R = rotary.define(
    "R", [t, a, e, f], where(Eq(e, f), cos(angle[t, a]), where(Eq(e, 0), -sin(angle[t, a]), sin(angle[t, a])))
)
y = rotary.define("y", [n, t, a, e], Sum(R[t, a, e, f] * x[n, t, a, f], f))
rotary.kernel(y, wrt=[x], defaults={base: 10000.0, start: 0.0})
rotary.claim(
    "rotary-forward", y[n, t, a, e], rotated(lambda channel: x[n, t, a, channel], angle[t, a], e),
    name="the two channels, one by one",
)  # fmt: skip
rotary.claim("rotary-length", Sum(y[n, t, a, e] ** 2, e), Sum(x[n, t, a, e] ** 2, e), name="rotation keeps lengths")

backward = rotary.gradient(y)
dy, dx = backward["dy"], backward["dx"]
backward.claim("rotary-transpose", dx[n, t, a, f], Sum(R[t, a, e, f] * dy[n, t, a, e], e), name="dx = R^T dy")
backward.claim(
    "rotary-backward", dx[n, t, a, e], rotated(lambda channel: dy[n, t, a, channel], -angle[t, a], e),
    name="the backward pass turns by the negative angle",
)  # fmt: skip

# Scores of a query and a key at any two positions, real numbers here, with a frequency for each pair.
q, k, theta = tensor("q", A, 2), tensor("k", A, 2), tensor("theta", A)
m, p, shift = scalars("m p shift")


def turned(pairs: Tensor, position: Expr, channel: Expr, *, mirrored: bool = False) -> Expr:
    """R_position of all pairs; `mirrored` flips the sign of the second channel first."""
    return rotated(lambda c: pairs[a, c] * (-1 if mirrored and c else 1), position * theta[a], channel)


def score(at_q: Expr, at_k: Expr, *, mirrored: bool = False) -> Expr:
    """(R_q q) . (R_k k), each channel's sign flipped first where `mirrored`."""
    return Sum(turned(q, at_q, e, mirrored=mirrored) * turned(k, at_k, e, mirrored=mirrored), a, e)


scores = Program("rotary_scores", "scores of rotated queries and keys", [q, k, theta])
distance = (p - m) * theta[a]
scores.claim("rotary-shift", score(m + shift, p + shift), score(m, p), name="a common shift changes no score")
scores.claim("rotary-flip", score(-m, -p), score(m, p, mirrored=True), name="R^T is R after flipping a channel's sign")
scores.claim(
    "rotary-compose", rotated(lambda c: turned(q, m, sympy.Integer(c)), p * theta[a], e), turned(q, m + p, e),
    name="two rotations are one",
)  # fmt: skip
straight, crossed = q[a, 0] * k[a, 0] + q[a, 1] * k[a, 1], q[a, 1] * k[a, 0] - q[a, 0] * k[a, 1]
scores.steps(
    "rotary",
    score(m, p),
    Sum(
        straight * (cos(m * theta[a]) * cos(p * theta[a]) + sin(m * theta[a]) * sin(p * theta[a]))
        + crossed * (sin(p * theta[a]) * cos(m * theta[a]) - cos(p * theta[a]) * sin(m * theta[a])),
        a,
    ),
    Sum(straight * cos(distance) + crossed * sin(distance), a),
    Sum(q[a, e] * turned(k, p - m, e), a, e),
    because=[
        "both products multiplied out, the two channels added",
        "cosine and sine of a difference",
        "read backwards: the rotation of k by the distance alone",
    ],
)

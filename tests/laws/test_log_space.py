"""Names of exponentials that are written in: each rewrite is decided by the prover, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import exp, log, pi, sqrt, tanh

from codegen.algebra.logspace import held, log_space_rewrites
from codegen.algebra.trace import claims_of, traced
from derive.functions import log_softmax, sigmoid, silu, softmax, softplus
from derive.language import Product, Sum, dims, indices, iverson, leading_index, scalar, tensor, where
from derive.program import Program
from derive.prove import PROVED, prove

N, C, V = dims("N C V")
n = leading_index("n", N)
c, e = indices("c e", C)
v = indices("v", V)[0]
x, y = tensor("x", N, C), tensor("y", N, C)
alpha = scalar("alpha", positive=True)
w, k, q = tensor("w", N, C, V), tensor("k", N, into=C), tensor("q", N, C, positive=True)


def program(**bodies: Any) -> Program:
    """A program of definitions over n and the indices that are free in them; the last is asked for."""
    made = Program("named", "names of exponentials", [x, y, w, k, q, alpha])
    known: dict[str, Any] = {}
    for name, body in bodies.items():
        over, stated = body(known)
        known[name] = made.define(name, over, stated)
    made.kernel(known[name], wrt=[w] if "w" in name else [q] if "q" in name else [x])
    return made


STATEMENTS = {
    "a sum of exponentials divides": program(
        Z=lambda _: ([n], Sum(exp(x[n, c]), c)), p=lambda d: ([n, c], exp(x[n, c]) / d["Z"][n])
    ),
    "a sum over two indices divides": program(
        Z=lambda _: ([n], Sum(exp(w[n, c, v]), c, v)), pw=lambda d: ([n, c, v], exp(w[n, c, v]) / d["Z"][n])
    ),
    "a sum divides under a sum over the same index": program(
        Z=lambda _: ([n], 1 + Sum(exp(x[n, c]), c)), o=lambda d: ([n], Sum(exp(x[n, c]) * y[n, c] / d["Z"][n], c))
    ),
    "the log of a share": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)), L=lambda d: ([n], -log(d["p"][n, k[n]]))
    ),
    "the log of the share of the others": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)), L=lambda d: ([n], -log(1 - d["p"][n, k[n]]))
    ),
    "the log of the share of the others, each in turn": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)), L=lambda d: ([n], Sum(y[n, c] * log(1 - d["p"][n, c]), c))
    ),
    "the log of a sigmoid and of its complement": program(
        p=lambda _: ([n, c], sigmoid(x[n, c])),
        L=lambda d: ([n, c], y[n, c] * log(d["p"][n, c]) + (1 - y[n, c]) * log(1 - d["p"][n, c])),
    ),
    "the log of a difference of sigmoids": program(
        p=lambda _: ([n, c], sigmoid(x[n, c])), L=lambda d: ([n, c], log(2 * d["p"][n, c] - 2 * sigmoid(y[n, c])))
    ),
    "the log of a difference of sigmoids without names": program(
        L=lambda _: ([n, c], log(sigmoid(x[n, c] + 1) - sigmoid(x[n, c])))
    ),
    "a power of a share": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)), L=lambda d: ([n], Sum(d["p"][n, c] ** (1 + alpha), c))
    ),
    "the log of a share that is looked up under a name": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)),
        r=lambda d: ([n], d["p"][n, k[n]]),
        L=lambda d: ([n], -log(d["r"][n])),
    ),
    "the log of a product of shares under a name": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)),
        r=lambda d: ([n], d["p"][n, k[n]] * d["p"][n, 0] ** 2 / 2),
        L=lambda d: ([n], log(d["r"][n])),
    ),
    "the log of the odds of a share, under a name": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)),
        r=lambda d: ([n], d["p"][n, k[n]] / (1 - d["p"][n, k[n]])),
        L=lambda d: ([n], log(d["r"][n])),
    ),
    "the log of the shares that a condition selects, under a name": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)),
        r=lambda d: ([n], Sum(where(y[n, c] > 0, d["p"][n, c], 0), c)),
        L=lambda d: ([n], -log(d["r"][n])),
    ),
    "the log of what outlasts every hazard so far": program(
        h=lambda _: ([n, c], sigmoid(x[n, c])),
        S=lambda d: ([n, c], Product(where(e < c, 1 - d["h"][n, e], 1), e)),
        f=lambda d: ([n, c], d["h"][n, c] * d["S"][n, c]),
        L=lambda d: ([n], -log(d["f"][n, k[n]])),
    ),
    "the log of at least one": program(
        p=lambda _: ([n, c], sigmoid(x[n, c])),
        r=lambda d: ([n], 1 - Product(1 - d["p"][n, c], c)),
        L=lambda d: ([n], -log(d["r"][n])),
    ),
    "the log of a mixture with shares as weights, and of a part of it": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)),
        E=lambda _: ([n, c], exp(-(y[n, c] ** 2) / 2)),
        r=lambda d: ([n, c], d["p"][n, c] * d["E"][n, c]),
        s=lambda d: ([n], Sum(d["r"][n, c], c)),
        L=lambda d: ([n], log(d["r"][n, k[n]] / d["s"][n])),
    ),
    "a power of the share of the others": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)), L=lambda d: ([n], (1 - d["p"][n, k[n]]) ** alpha)
    ),
    "the root of the share of the others, by names of all its parts": program(
        E=lambda _: ([n, c], exp(x[n, c])),
        Z=lambda d: ([n], Sum(d["E"][n, c], c)),
        p=lambda d: ([n, c], d["E"][n, c] / d["Z"][n]),
        r=lambda d: ([n], d["p"][n, k[n]]),
        L=lambda d: ([n], sqrt(1 - d["r"][n]) - log(1 - d["r"][n])),
    ),
    "what the exponential of a named log-likelihood leaves": program(
        l=lambda _: ([n, c], log_softmax(x[n, c], over=c)), L=lambda d: ([n], log(1 - exp(d["l"][n, k[n]])))
    ),
    "the odds of a named log-likelihood": program(
        l=lambda _: ([n, c], -softplus(x[n, c])), L=lambda d: ([n, c], d["l"][n, c] - log(1 - exp(d["l"][n, c])))
    ),
    "exponentials that have a name, and their sum": program(
        E=lambda _: ([n, c], exp(x[n, c])),
        Z=lambda d: ([n], Sum(d["E"][n, c], c)),
        o=lambda d: ([n], Sum(d["E"][n, c] * y[n, c], c) / d["Z"][n]),
    ),
    "the log of a sum with shares": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)), L=lambda d: ([n], log(Sum(d["p"][n, c] * exp(y[n, c]), c)))
    ),
    "a generalised mean of values that are positive": program(
        m=lambda _: ([n], Sum(q[n, c] ** alpha, c) / C), Lq=lambda d: ([n], d["m"][n] ** (1 / alpha))
    ),
    "shares of powers, and the log of their sum": program(
        r=lambda _: ([n, c], q[n, c] ** alpha),
        Z=lambda d: ([n], Sum(d["r"][n, c], c)),
        Lq=lambda d: ([n, c], log(d["Z"][n]) * d["r"][n, c] / d["Z"][n]),
    ),
    "the root of a share, and of its product with another": program(
        p=lambda _: ([n, c], softmax(x[n, c], over=c)),
        L=lambda d: ([n], Sum(sqrt(d["p"][n, c]) * y[n, c] + sqrt(d["p"][n, c] * exp(y[n, c])), c)),
    ),
    "the log of what a tangent leaves": program(
        t=lambda _: ([n, c], tanh(x[n, c])), L=lambda d: ([n, c], y[n, c] * log(1 - d["t"][n, c] ** 2))
    ),
    "the log of a product of exponentials": program(
        E=lambda _: ([n, c], Product(exp(-(w[n, c, v] ** 2) / 2) / sqrt(2 * pi), v)),
        Lw=lambda d: ([n], -log(Sum(d["E"][n, c], c))),
    ),
    "what a condition selects, and its sum": program(
        Z=lambda _: ([n], Sum(where(y[n, c] > 0, exp(x[n, c]), 0), c) + 1),
        p=lambda d: ([n, c], where(y[n, c] > 0, exp(x[n, c]) / d["Z"][n], 0)),
    ),
    "the log of what a condition selects, under that condition": program(
        p=lambda _: ([n, c], where(y[n, c] > 0, exp(x[n, c]), 0) / Sum(where(y[n, c] > 0, exp(x[n, c]), 0), c)),
        H=lambda d: ([n], Sum(where(y[n, c] > 0, d["p"][n, c] * log(d["p"][n, c]), 0), c)),
    ),
    "the log of a sum of one exponential or another": program(
        L=lambda _: ([n], log(Sum(where(y[n, c] > 0, exp(x[n, c]), 1) * where(y[n, c] < 0, 0, exp(-x[n, c])), c)))
    ),
    "a name that rests on another": program(
        Z=lambda _: ([n], Sum(exp(x[n, c]), c)),
        p=lambda d: ([n, c], exp(x[n, c]) / d["Z"][n]),
        H=lambda d: ([n], Sum(d["p"][n, c] * log(d["p"][n, c]), c)),
    ),
}


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_each_rewrite_is_an_identity(name: str) -> None:
    trace = traced(STATEMENTS[name])
    rewrites = log_space_rewrites(STATEMENTS[name].definitions)
    assert rewrites
    for rewrite in rewrites:
        assert any(prove(claim).status == PROVED for claim in claims_of(rewrite, STATEMENTS[name])), rewrite
    for stage in trace.backward:
        for rewrite in stage.rewrites:
            assert trace.gradient is not None
            assert any(prove(claim).status == PROVED for claim in claims_of(rewrite, trace.gradient)), rewrite


def test_what_is_no_exponential_keeps_its_name() -> None:
    stated = program(
        r=lambda _: ([n], sqrt(Sum(x[n, c] ** 2, c))), t=lambda _: ([n], Sum(q[n, c], c)),
        o=lambda d: ([n, c], x[n, c] / d["r"][n] + log(d["t"][n])),
    )  # fmt: skip
    assert not log_space_rewrites(stated.definitions)


def test_what_cannot_overflow_divides_by_its_name() -> None:
    stated = program(
        u=lambda _: ([n, c], silu(x[n, c])), r=lambda d: ([n], sqrt(Sum(d["u"][n, c] ** 2, c) + 1)),
        o=lambda d: ([n, c], d["u"][n, c] / d["r"][n]),
    )  # fmt: skip
    assert not log_space_rewrites(stated.definitions)


@pytest.mark.parametrize("share", [sigmoid(x[n, c]), softmax(x[n, c], over=c), tanh(x[n, c])], ids=str)
def test_a_mean_by_shares_keeps_its_name_under_a_root(share: Any) -> None:
    stated = program(
        p=lambda _: ([n, c], share),
        o=lambda d: ([n, v], Sum(d["p"][n, c] * w[n, c, v], c)),
        h=lambda d: ([n, c], d["p"][n, c] * y[n, c]),
        r=lambda d: ([n], sqrt(Sum(d["o"][n, v] ** 2, v)) + sqrt(Sum(d["h"][n, c] ** 2, c))),
    )
    assert not log_space_rewrites(stated.definitions)


def test_an_exponential_that_does_not_divide_keeps_its_name() -> None:
    stated = program(p=lambda _: ([n, c], softmax(x[n, c], over=c)), o=lambda d: ([n], Sum(d["p"][n, e] * y[n, e], e)))
    assert not log_space_rewrites(stated.definitions)


def test_a_bracket_is_one_where_its_condition_holds_and_nowhere_else() -> None:
    kept = iverson(y[n, c] > 0)
    assert held(kept * x[n, c] + iverson(y[n, e] > 0), y[n, c] > 0) == x[n, c] + iverson(y[n, e] > 0)
    assert held(Sum(kept * x[n, c], c), y[n, c] > 0) == Sum(kept * x[n, c], c)

"""Hypotheses are complete: without one that a proof needed, the claim is not proved, or says what it needs.

Some small statements first, then the whole library: every declaration (`positive=True`) that a verdict lists is taken
back, and every condition of a claim dropped, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from sympy import Abs, Eq, Max, Ne, Rational, log, sqrt

from derive import library
from derive.functions import log_softmax, logsumexp, softmax, variance
from derive.language import (
    Index,
    Product,
    Scalar,
    Sum,
    Tensor,
    delta,
    dims,
    flag,
    indices,
    iverson,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.matrices import matrices
from derive.program import Program
from derive.prove import PROVED, REFUTED, proof_of, prove
from derive.statements import Claim, Definition
from derive.verdicts import hypotheses_of

T, V, d = dims("T V d")
i, j, k = indices("i j k", T)
v = indices("v", V)[0]
y, z = tensor("y", V), tensor("z", V)
A, B = tensor("A", T, T), tensor("B", T, T)
x, u = tensor("x", T), tensor("u", T)
p, q = tensor("p", T, positive=True), tensor("q", T, positive=True)
a, b, c = indices("a b c", d)
Q, W = tensor("Q", T, d), tensor("W", T, d)
C, D, M = tensors("C D M", d, d)
mA, mB, mC, mM, mQ, mW = matrices(A, B, C, M, Q, W)
token = tensor("token", T, into=V)
s, r, w_ = scalars("s r w_")
w = scalar("w", positive=True)
causal = flag("causal")


def claimed(left: Any, right: Any, *given: Any, over: Sequence[Index] = ()) -> Claim:
    """The claim in a program of its own."""
    return Program("hypotheses").claim("c", left, right, given=given, over=over)


GIVEN = {
    "targets sum to 1": claimed(
        -Sum(y[v] * log_softmax(z[v], over=v), v), logsumexp(z[v], over=v) - Sum(y[v] * z[v], v), Eq(Sum(y[v], v), 1)
    ),
    "a symmetric matrix": claimed(Sum(B[i, j] * x[j], j), Sum(B[j, i] * x[j], j), Eq(B[i, j], B[j, i])),
    "an antisymmetric matrix": claimed(Sum(x[i] * A[i, j] * x[j], i, j), 0, Eq(A[i, j], -A[j, i])),
    "an inverse": claimed(Sum(A[i, j] * B[j, k] * x[k], j, k), x[i], Eq(Sum(A[i, j] * B[j, k], j), delta(i, k))),
    "the diagonal of an antisymmetric matrix": claimed(A[i, i], 0, Eq(A[i, j], -A[j, i]), over=[i]),
    "columns of length 1": claimed(Sum(Q[i, a] ** 2, i), 1, Eq(Sum(Q[i, a] * Q[i, b], i), delta(a, b)), over=[a]),
    "the norm of an orthogonal matrix": claimed(Sum(A[i, j] ** 2, i, j), T, Eq(Sum(A[k, i] * A[k, j], k), delta(i, j))),
    "orthonormal columns": claimed(
        Sum(Q[i, a] * Q[i, b] * W[j, a] * W[j, b], i, j, a, b),
        Sum(W[j, a] ** 2, j, a),
        Eq(Sum(Q[i, a] * Q[i, b], i), delta(a, b)),
    ),
    "rows that sum to 1": claimed(Sum(A[i, j] * (s + x[j]), j), s + Sum(A[i, j] * x[j], j), Eq(Sum(A[i, j], j), 1)),
    "a projection": claimed(
        Sum(Sum(A[i, j] * x[j], j) ** 2, i),
        Sum(x[i] * A[i, j] * x[j], i, j),
        Eq(A[i, j], A[j, i]),
        Eq(Sum(A[i, j] * A[j, k], j), A[i, k]),
    ),
    "an eigenvector": claimed(Sum(A[i, j] * A[j, k] * x[k], j, k), s**2 * x[i], Eq(Sum(A[i, j] * x[j], j), s * x[i])),
    "a mean of 0": claimed(variance(x[i], over=i), Sum(x[i] ** 2, i) / T, Eq(Sum(x[i], i), 0)),
    "two unit vectors": claimed(
        Sum((x[i] - u[i]) ** 2, i), 2 - 2 * Sum(x[i] * u[i], i), Eq(Sum(x[i] ** 2, i), 1), Eq(Sum(u[i] ** 2, i), 1)
    ),
    "two distributions": claimed(
        Sum(p[i] * log(p[i] / q[i]) + p[i] - q[i], i),
        Sum(p[i] * log(p[i] / q[i]), i),
        Eq(Sum(p[i], i), 1),
        Eq(Sum(q[i], i), 1),
    ),
    "a residual that is orthogonal": claimed(
        Sum(x[i] * (A[i, j] + s), i), s * Sum(x[i], i), Eq(Sum(x[i] * A[i, j], i), 0)
    ),
    "a constant vector": claimed(Sum(x[i] * u[i], i), u[0] * Sum(x[i], i), Eq(u[i], u[0])),
    "a lower triangular matrix": claimed(
        Sum(A[i, j] * x[j], j), Sum(A[i, j] * x[j] * iverson(j <= i), j), Eq(A[i, j] * iverson(j > i), 0)
    ),
    "a matrix that is its own lower triangle": claimed(
        Sum(A[i, j] * iverson(j >= i), j), A[i, i], Eq(A[i, j], A[i, j] * iverson(j <= i))
    ),
    "the product of two lower triangular matrices": claimed(
        Sum(A[i, j] * B[j, k], j) * iverson(k > i),
        0,
        Eq(where(i < j, A[i, j], 0), 0),
        Eq(3 * B[i, j] * iverson(j > i), 0),
        over=[i, k],
    ),
    "two diagonal matrices": claimed(
        Sum(A[i, j] * B[j, k], j),
        delta(i, k) * A[i, i] * B[i, i],
        Eq(A[i, j] * (1 - delta(i, j)), 0),
        Eq(B[i, j] * iverson(Ne(i, j)), 0),
    ),
    "a band": claimed(Sum(A[i, j], j), Sum(A[i, j] * iverson(i <= j + 1), j), Eq(A[i, j] * iverson(i > j + 1), 0)),
    "causal weights": claimed(
        Sum(A[i, j] * iverson(j <= i), j), 1, Eq(Sum(A[i, j], j), 1), Eq(A[i, j] * iverson(j > i), 0), over=[i]
    ),
    "a vector with no positive entry": claimed(Max(x[i], 0), 0, Eq(x[i] * iverson(x[i] > 0), 0), over=[i]),
    "a positive number": claimed(sqrt(s**2), s, s > 0),
    "numbers in order": claimed(Max(s, r, w_), s, s >= r, r >= w_),
    "an earlier position": claimed(iverson(j <= i) * A[i, j], A[i, j], j < i),
    "different positions": claimed(delta(i, j) * x[i], 0 * x[i] * x[j], Ne(i, j)),
    "a look-up": claimed(z[token[i]] * x[i], z[v] * x[i], Eq(token[i], v), over=[i, v]),
    "a flag": claimed(where(causal, s, r), s, causal),
    "two equations for two numbers": claimed(s, 0, Eq(s + r, 0), Eq(s - r, 0)),
    "two equations for two vectors": claimed(x[i] * u[j], -2, Eq(x[i] + u[i], 1), Eq(x[j] - u[j], 3)),
    "three equations": claimed(s * r * w_, 6, Eq(s + r + w_, 6), Eq(s - r, -1), Eq(s + 2 * r - w_, 2)),
    "a product that is 0, one factor not": claimed(s, 0, Eq(s * r, 0), Ne(r, 0)),
    "a product that is 0, one factor positive": claimed(s, 0, Eq(s * r, 0), r > 0),
    "a product that is 0, one factor declared": claimed(s, 0, Eq(s * w, 0)),
    "a common factor of both sides": claimed(x[i], u[i], Eq(x[i] * s, u[i] * s), s < 0),
    "complementary vectors": claimed(Sum(x[i] * u[i], i), 0, Eq(x[i] * u[i], 0)),
    "complementary vectors, in a larger sum": claimed(
        Sum(x[i] ** 2 * u[i] * A[i, j] + x[j] * u[j] * B[i, j], i, j), 0, Eq(x[i] * u[i], 0)
    ),
    "complementary slackness": claimed(
        Sum(x[i] * (u[i] + p[i]), i), Sum(x[i] * p[i], i) + s * Sum(x[i], i), Eq(x[i] * u[i], s * x[i])
    ),
    "points of a circle, added up": claimed(
        Sum(p[i] * (x[i] ** 2 + u[i] ** 2), i), Sum(p[i], i), Eq(x[i] ** 2 + u[i] ** 2, 1)
    ),
    "rotations keep lengths": claimed(
        Sum((x[i] * p[i] + u[i] * q[i]) ** 2 + (x[i] * q[i] - u[i] * p[i]) ** 2, i),
        Sum(p[i] ** 2 + q[i] ** 2, i),
        Eq(x[i] ** 2 + u[i] ** 2, 1),
    ),
    "the inverse of a sum": claimed(
        ((mA + mQ @ mC @ mW.T) @ (mB - mB @ mQ @ mM @ mW.T @ mB))[i, k],
        delta(i, k),
        Eq(Sum(A[i, j] * B[j, k], j), delta(i, k)),
        Eq(Sum(C[a, b] * D[b, c], b), delta(a, c)),
        Eq(Sum((D[a, b] + Sum(W[i, a] * B[i, j] * Q[j, b], i, j)) * M[b, c], b), delta(a, c)),
    ),
    "a circle and a line": claimed(x[j] * u[j], 0, Eq(x[i] ** 2 + u[i] ** 2, 1), Eq(x[i] + u[i], 1)),
}


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_a_condition_that_is_dropped_is_missed(name: str) -> None:
    given = GIVEN[name].given
    assert prove(GIVEN[name]).status == PROVED
    for place in range(len(given)):
        assert prove(replace(GIVEN[name], given=(*given[:place], *given[place + 1 :]))).status == REFUTED


LOWER = Eq(A[i, j] * iverson(j > i), 0)
BESIDE_BRACKETS = {
    "the diagonal is left": claimed(Sum(A[i, j] * iverson(j >= i), j), 0, LOWER, over=[i]),
    "the lower triangle is left": claimed(Sum(A[i, j] * B[j, k], j) * iverson(k < i), 0, LOWER, over=[i, k]),
    "transposed": claimed(Sum(A[j, i] * x[j], j), Sum(A[j, i] * x[j] * iverson(j <= i), j), LOWER),
    "off the diagonal": claimed(Sum(A[i, j], i, j), 0, Eq(A[i, j] * delta(i, j), 0)),
    "a bracket of another number": claimed(x[i] * s, 0, Eq(x[i] * iverson(s > 0), 0)),
    "negative entries": claimed(x[i], 0, Eq(x[i] * iverson(x[i] > 0), 0)),
}


@pytest.mark.parametrize("name", BESIDE_BRACKETS)
def test_what_is_zero_beside_brackets_is_not_zero_elsewhere(name: str) -> None:
    assert prove(BESIDE_BRACKETS[name]).status == REFUTED


BESIDE_OTHERS = {
    "at another place": claimed(Sum(x[i] * u[j], i, j), 0, Eq(x[i] * u[i], 0)),
    "at a fixed place": claimed(Sum(x[i] * u[0], i), 0, Eq(x[i] * u[i], 0)),
    "of another row": claimed(Sum(A[i, k] * B[j, k], i, j, k), 0, Eq(A[i, j] * B[i, j], 0)),
    "a difference for a sum": claimed(Sum(x[i] ** 2 - u[i] ** 2, i), T, Eq(x[i] ** 2 + u[i] ** 2, 1)),
    "a factor that may be 0": claimed(s, 0, Eq(s * r, 0), r >= 0),
    "another factor that is not 0": claimed(s, 0, Eq(s * r, 0), Ne(w_, 0)),
    "a common factor that may be 0": claimed(s, r, Eq(s * w_, r * w_)),
    "the inverse of a difference": claimed(
        ((mA + mQ @ mC @ mW.T) @ (mB + mB @ mQ @ mM @ mW.T @ mB))[i, k],
        delta(i, k),
        *GIVEN["the inverse of a sum"].given,
    ),
}


@pytest.mark.parametrize("name", BESIDE_OTHERS)
def test_what_is_zero_in_one_place_is_not_in_another(name: str) -> None:
    assert prove(BESIDE_OTHERS[name]).status == REFUTED


TOGETHER: list[tuple[Any, ...]] = [
    (Eq(s + r, 0), Eq(s - r, 0)),
    (Eq(x[i] + u[i], 1), Eq(x[i] - u[i], 3)),
    (Eq(x[i] ** 2 + u[i] ** 2, 1), Eq(x[i] + u[i], 1)),
    (Eq(s**2 + r**2, 1), Eq(s**2 + w_**2, 1)),
    (Eq(Sum(x[i] ** 2, i) + s**2, 1), Eq(s + r, 2)),
    (Eq(s + r, 1), Eq((2 * r - s) * Sum(x[i] * u[i], i), 8)),
]


@pytest.mark.parametrize("given", TOGETHER, ids=str)
def test_what_is_among_the_hypotheses_holds(given: tuple[Any, ...]) -> None:
    for equation in given:
        left, right = equation.args
        assert prove(claimed(left, right, *given)).status == PROVED
        assert prove(claimed(3 * s * left, 3 * s * right, *given)).status == PROVED
        assert prove(claimed(left, right + 1, *given)).status == REFUTED


def test_a_declaration_that_is_dropped_is_missed_or_listed() -> None:
    declared, plain = tensor("P", T, positive=True), tensor("P", T)
    assert prove(claimed(log(Product(declared[i], i)), Sum(log(declared[i]), i))).status == PROVED
    verdict = prove(claimed(log(Product(plain[i], i)), Sum(log(plain[i]), i)))
    assert verdict.status != PROVED or any("> 0" in hypothesis for hypothesis in verdict.hypotheses)


def test_a_root_says_what_it_needs() -> None:
    s = scalar("s")
    verdict = prove(claimed(Sum(x[i], i) / sqrt(s + Sum(x[j] ** 2, j)) * sqrt(s + Sum(x[k] ** 2, k)), Sum(x[i], i)))
    assert verdict.status == PROVED
    assert any("> 0" in hypothesis for hypothesis in verdict.hypotheses), verdict.hypotheses


@pytest.mark.parametrize(
    ("side", "needs"),
    [
        (x[i] * where(~causal, -1, 1) ** (T + Rational(1, 2)), "causal"),
        (log(where(causal, 1, -1)), "causal"),
        (x[i] / where(causal, 0, 1), "not causal"),
        (log(where(i < j, -2, 2)), "i = j where i + -1*j <= 0"),
        (where(causal, log(where(causal, 1, -1)), 0), None),
        (where(i < j, log(where(i < j, 3, -2)), 0), None),
    ],
)
def test_a_case_without_a_value_is_said_unless_it_cannot_occur(side: Any, needs: str | None) -> None:
    verdict = prove(claimed(u[i] * (side + x[i]), u[i] * side + u[i] * x[i]))
    assert verdict.status == PROVED
    assert verdict.hypotheses == ((needs,) if needs else ())


def test_a_division_says_what_must_not_be_zero() -> None:
    verdict = prove(claimed(Sum(x[i], i) / (1 + Sum(x[j], j)) + 1 / (1 + Sum(x[k], k)), 1))
    assert verdict.status == PROVED
    assert any("!= 0" in hypothesis for hypothesis in verdict.hypotheses), verdict.hypotheses


# ---------------------------------------------------------------------------------------------------------------------
# The library.

SECONDS = 5.0
ATTEMPTS = 16  # more than any claim of the library takes
# A product of T equal factors is a power, for negative ones as well; a rotation by any angle keeps lengths.
HOLDS_FOR_ANY_SIGN = {"B5-q", "rotary-length-base"}
PROGRAMS = {program.name: program for program in library.load()}


def decided(program: Program) -> list[Claim]:
    """The claims that the normal form decides."""
    return [claim for claim in program.claims if claim.by is None]


def declared_positive(program: Program) -> list[Tensor | Scalar]:
    """The real inputs that are declared positive."""
    inputs = program.all_inputs(*(side for claim in program.claims for side in (claim.left, claim.right)))
    tensors = [known for known in inputs if isinstance(known, Tensor) and known.positive and known.into is None]
    return tensors + [known for known in inputs if isinstance(known, Scalar) and known.is_positive]


def undeclared(claim: Claim, symbol: Any) -> Claim:
    """The claim and its program with an input that is no longer declared positive."""
    if isinstance(symbol, Tensor):
        plain: Any = tensor(str(symbol.name), *symbol.shape)
    else:
        plain = scalar(symbol.name, integer=bool(symbol.is_integer))
    left, right, *given = (part.xreplace({symbol: plain}) for part in (claim.left, claim.right, *claim.given))
    definitions = [
        Definition(known.symbol, known.indices, known.body.xreplace({symbol: plain}))
        for known in claim.program.definitions
    ]
    inputs = [plain if known == symbol else known for known in claim.program.inputs]
    program = replace(claim.program, definitions=definitions, inputs=inputs, claims=[])
    return replace(claim, left=left, right=right, given=tuple(given), program=program)


def with_declarations() -> Iterator[str]:
    for name, program in PROGRAMS.items():
        if declared_positive(program) and decided(program):
            yield name


@pytest.mark.parametrize("name", list(with_declarations()))
def test_a_declaration_of_the_library_that_is_taken_back_is_missed_or_listed(name: str) -> None:
    claims = decided(PROGRAMS[name])

    @cache
    def said_of(number: int) -> tuple[str, ...]:
        """What the proof lists; that the second engine confirms it is tested where the library is proved."""
        ledger = proof_of(claims[number], seconds=SECONDS, attempts=ATTEMPTS)
        assert ledger is not None
        return hypotheses_of(claims[number], ledger)

    for symbol in declared_positive(PROGRAMS[name]):
        listing = (claim for number, claim in enumerate(claims) if f"{symbol.name} > 0" in said_of(number))
        claim = next(listing, None)
        if claim is not None:
            if f"{claim.id}-{symbol.name}" in HOLDS_FOR_ANY_SIGN:
                continue
            verdict = prove(undeclared(claim, symbol), seconds=SECONDS)
            said = any(str(symbol.name) in hypothesis for hypothesis in verdict.hypotheses)
            assert verdict.status != PROVED or said, f"{claim.id}: {symbol.name} > 0 is used and not said"


CONDITIONS = {
    f"{program.name}-{claim.id}-{place}": (claim, place)
    for program in PROGRAMS.values()
    for claim in decided(program)
    for place in range(len(claim.given))
}
# Without these conditions the claims hold as well: their two sides mention what the condition says in the same way, it
# follows from the definitions, or the proof finds it by itself and lists it (W != 0).
HOLDS_ANYWAY = {
    "chain_rule-A1.1-0",
    "chain_rule-A1.2-0",
    "attention_alibi_backward-alibi-slope.3-0",
    "cross_entropy_mean_backward-mean-backward-0",
    "determinant-logdet.2-0",
    "simplex_backward-simplex-free-0",
}


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_a_condition_of_the_library_that_is_dropped_is_missed(name: str) -> None:
    claim, place = CONDITIONS[name]
    verdict = prove(replace(claim, given=(*claim.given[:place], *claim.given[place + 1 :])), seconds=SECONDS)
    assert (verdict.status == PROVED) is (name in HOLDS_ANYWAY)


count = scalar("count", positive=True, integer=True)


def claims_under_hypotheses() -> dict[str, tuple[Claim, str]]:
    """Claims whose hypotheses take a step to be used, or to be met, with the verdict that is right."""
    program = Program("hypotheses", "", [Q, W, p, q, x, u, s, count])
    S = program.define("S", [i, j], Sum(Q[i, a] * Q[j, a], a) / sqrt(d))
    R = program.define("R", [i, j], Sum(Q[i, a] * W[j, a], a) / sqrt(d))
    D = program.define("D", [i, j], softmax(S[i, j], over=j) - s * softmax(R[i, j], over=j))
    same, means = Eq(S[i, j], R[i, j]), Eq(Sum(p[i], i) / T, Sum(y[v], v) / V)
    rows = {
        "a name in a hypothesis": (D[i, j], (1 - s) * softmax(S[i, j], over=j), [same], PROVED),
        "a name in a hypothesis, false": (D[i, j], (1 + s) * softmax(S[i, j], over=j), [same], REFUTED),
        "a sum over a size": (V * Sum(p[i], i), T * Sum(y[v], v), [means], PROVED),
        "a sum over a size, false": (Sum(p[i], i), Sum(y[v], v), [means], REFUTED),
        "a multiple": (p[i] * x[i] ** 2, u[i] ** 2 / p[i], [Eq(p[i] * x[i], u[i])], PROVED),
        "a whole number in an exponent": (half_to(count) * x[i], x[i] / 2, [Eq(count, 1)], PROVED),
        "a whole number, false": (half_to(count) * x[i], x[i] / 3, [Eq(count, 1)], REFUTED),
    }
    return {
        name: (program.claim(f"h{number}", left, right, given=given), status)
        for number, (name, (left, right, given, status)) in enumerate(rows.items())
    }


def half_to(exponent: Scalar) -> Any:
    """One half to a power that is a whole number among the inputs."""
    return Rational(1, 2) ** exponent


UNDER_HYPOTHESES = claims_under_hypotheses()


@pytest.mark.parametrize("name", sorted(UNDER_HYPOTHESES))
def test_a_hypothesis_is_used_and_met(name: str) -> None:
    claim, status = UNDER_HYPOTHESES[name]
    assert prove(claim).status == status


SUPERFLUOUS: dict[str, tuple[Claim, tuple[str, ...]]] = {
    "a hypothesis says that it is positive": (claimed(s * Sum(x[i] / s, i), Sum(x[i], i), s > 0), ()),
    "a branch and a declaration say so": (
        claimed(r / (Abs(s) + w), where(s > 0, r / (s + w), r / (w - s))),
        (),
    ),
    "said without the branch as well": (
        claimed(1 / s + where(x[i] > 0, 1 / s, 0), (1 + iverson(x[i] > 0)) / s),
        ("s != 0",),
    ),
}


@pytest.mark.parametrize("name", SUPERFLUOUS)
def test_conditions_that_others_imply_are_not_listed(name: str) -> None:
    claim, conditions = SUPERFLUOUS[name]
    verdict = prove(claim)
    assert verdict.status == PROVED, verdict.reason
    assert verdict.conditions == conditions

"""Verdicts: the library is proved, and what a verdict says about itself."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sympy import Eq, Max, Min, Ne, atan, exp, log, pi, sign

import derive.attempts
from derive.advice import advice_on
from derive.attempts import SMALL, attempts_at
from derive.binders import node_count
from derive.errors import AlarmError
from derive.functions import logsumexp, mean, relu, softmax
from derive.language import Sum, dims, index, indices, iverson, scalar, scalars, tensor, tensors
from derive.library import load, load_file, programs_of
from derive.program import Program
from derive.prove import PROVED, REFUTED, UNDECIDED, Verdict, prove, readable
from derive.statements import Claim

CLAIMS = [claim for program in load() for claim in program.claims]
DOCUMENT = {
    "B3", "B6", "B7", "B10", "C2", "C4", "C5", "C8", "C9", "E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9",
}  # fmt: skip

T, d = dims("T d")
i, j, k = indices("i j k", T)
a = index("a", d)
x, y = tensors("x y", T)
X = tensor("X", T, T)
s, r = scalars("s r")
c = scalar("c", positive=True)


def claimed(left: Any, right: Any, **options: Any) -> Claim:
    return Program("statement").claim("c", left, right, **options)


# ---------------------------------------------------------------------------------------------------------------------
# The library.


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.program.name}-{claim.id}-{claim.name}")
def test_every_claim_of_the_library_is_proved(claim: Claim) -> None:
    verdict = prove(claim)
    assert verdict.status == PROVED, verdict.counterexample or verdict.reason


def test_every_claim_of_the_document_is_there() -> None:
    assert {claim.id.split(".")[0] for claim in CLAIMS} >= DOCUMENT


def test_claims_say_what_they_are() -> None:
    for claim in CLAIMS:
        assert claim.name, claim
        assert claim.source.split(":")[0].endswith(".py")


def test_the_library_is_found_by_looking() -> None:
    names = [program.name for program in load()]
    assert len(names) == len(set(names))
    assert [program.name for program in load(["softmax"])] == ["softmax"]


def test_a_file_is_a_library_too(tmp_path: Any) -> None:
    path = tmp_path / "statement.py"
    path.write_text(
        "from derive.language import Sum, dims, indices, tensor\n"
        "from derive.program import Program\n"
        "T = dims('T')[0]\n"
        "i, j = indices('i j', T)\n"
        "x = tensor('x', T)\n"
        "square = Program('square', inputs=[x])\n"
        "total = square.define('total', [], Sum(x[i], i) ** 2)\n"
        "square.claim('double sum', total, Sum(x[i] * x[j], i, j))\n"
    )
    (program,) = load_file(path)
    assert [prove(claim).status for claim in program.claims] == [PROVED]
    assert program.claims[0].source == f"{path}:8"
    assert programs_of(derive.prove) == []


# ---------------------------------------------------------------------------------------------------------------------
# Verdicts.


def test_proved() -> None:
    verdict = prove(claimed(Sum(softmax(x[i], over=i), i), 1))
    assert verdict.status == PROVED
    assert verdict.hypotheses == ("T >= 1",)
    assert verdict.laws
    assert verdict.counterexample is None
    assert verdict.reason == ""
    assert verdict.seconds >= 0


def test_refuted() -> None:
    verdict = prove(claimed(Sum(x[i], i) ** 2, Sum(x[i] ** 2, i)))
    assert verdict.status == REFUTED
    assert verdict.counterexample is not None
    assert verdict.counterexample.sizes["T"] >= 2
    assert verdict.counterexample.left != verdict.counterexample.right
    assert verdict.laws == ()


def test_undecided() -> None:
    # True, and outside of what the normal form knows.
    verdict = prove(claimed(atan(c) + atan(1 / c), pi / 2))
    assert verdict.status == UNDECIDED
    assert "no counterexample" in verdict.reason
    assert verdict.counterexample is None


def test_a_proof_past_its_budget_is_undecided_with_the_reason() -> None:
    hard = (Sum(x[i], i) + s + r + 1) ** 40
    verdict = prove(claimed(hard * (s + 1), hard * s + hard), seconds=0.02)
    assert verdict.status == UNDECIDED
    assert "more than" in verdict.reason or "used up" in verdict.reason


def test_the_same_verdict_every_time() -> None:
    def again() -> tuple[Any, ...]:
        verdict = prove(claimed(X[i, j], X[j, i]))
        return verdict.status, verdict.counterexample, verdict.hypotheses, verdict.laws

    assert again() == again()


@pytest.mark.parametrize(
    ("left", "right", "given", "status"),
    [
        (softmax(x[i], over=i) * iverson(Eq(i, j)), 0, [Ne(i, j)], PROVED),
        (iverson(i < j) + iverson(j < i), 1, [Ne(i, j)], PROVED),
        (iverson(i < j) + iverson(j < i), 1, [], REFUTED),
        (relu(s), s, [s > 0], PROVED),
        (relu(s), s, [s < 0], REFUTED),
        (relu(s), 0, [s < 0], PROVED),
        (iverson(i <= k), 1, [i < j, j < k], UNDECIDED),
    ],
    ids=str,
)
def test_conditions(left: Any, right: Any, given: list[Any], status: str) -> None:
    verdict = prove(claimed(left, right, given=given, over=[i, j, k]))
    assert verdict.status in {status, PROVED if status == UNDECIDED else status}
    assert verdict.hypotheses[: len(given)] == tuple(map(str, given))


def test_definitions_are_written_in_as_far_as_needed() -> None:
    program = Program("levels")
    first = program.define("first", [i], exp(x[i]))
    second = program.define("second", [i], first[i] ** 2)
    third = program.define("third", [i], log(second[i]))
    for left, right in ((second[i], first[i] ** 2), (third[i], 2 * x[i]), (third[i], log(first[i] ** 2))):
        assert prove(program.claim("c", left, right)).status == PROVED
    assert prove(program.claim("c", third[i], x[i])).status == REFUTED


def overlap() -> Claim:
    """The slope of the overlap of two boxes over their union in one corner, with names for both and their sides."""
    left, top, right, below = scalars("left top right below")
    other = scalars("left_1 top_1 right_1 below_1")
    program = Program("overlap")
    width = program.define("width", [], relu(Min(right, other[2]) - Max(left, other[0])))
    height = program.define("height", [], relu(Min(below, other[3]) - Max(top, other[1])))
    both = program.define("both", [], width * height)
    areas = (right - left) * (below - top) + (other[2] - other[0]) * (other[3] - other[1])
    union = program.define("union", [], areas - both)
    share = program.define("share", [], both / union)
    moved = height * iverson(right < other[2]) * iverson(width > 0)
    by_hand = moved / union - both * (below - top - moved) / union**2
    return program.claim("c", program.derivative(share, right), by_hand)


def test_large_sides_are_written_out_last_and_once() -> None:
    claim = overlap()
    tried = list(attempts_at(claim, time.thread_time() + 60))
    assert len(set(tried)) == len(tried)
    sizes = [sum(map(node_count, sides)) for sides in tried]
    assert sizes[-1] == max(sizes) > SMALL
    assert sizes.index(max(sizes)) == len(sizes) - 1
    assert prove(claim).status == PROVED


def test_an_identity_about_opaque_names_needs_no_definition() -> None:
    program = Program("opaque")
    h = program.define("h", [i], Sum(X[i, j] * exp(x[j] * x[i]), j))
    verdict = prove(program.claim("c", (h[i] + 1) ** 2, h[i] ** 2 + 2 * h[i] + 1))
    assert verdict.status == PROVED
    assert verdict.hypotheses == ()


def test_a_gradient_names_the_laws_of_differentiation() -> None:
    program = Program("square")
    g = program.gradient(program.define("o", [], Sum(x[i] ** 2, i)))
    verdict = prove(g.claim("c", g["dx"][i], 2 * x[i] * g["do"]))
    assert verdict.laws[:2] == ("dX[i]/dX[j] = delta(i, j)", "chain rule")


def test_hypotheses_are_readable() -> None:
    assert readable("sum[#1.0<T](exp(x[#1.0])) != 0") == "sum_{k<T}(exp(x[k])) != 0"
    verdict = prove(claimed(logsumexp(X[i, j], over=j, where=j <= i) * 2, 2 * logsumexp(X[i, k], over=k, where=k <= i)))
    assert verdict.status == PROVED
    assert not any("#" in hypothesis or "~" in hypothesis for hypothesis in verdict.hypotheses)


def test_disagreement_of_the_engines_is_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derive.attempts, "is_zero", lambda ledger, polynomial: True)
    with pytest.raises(AlarmError, match="internal alarm: claim c of statement"):
        prove(claimed(X[i, j] * c, X[j, i] * c))
    assert AlarmError.exit_code == 70


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (s * Sum(iverson(k >= 1), k) / (T - 1) * iverson(T > 1), s),
        (s * mean(s, over=k, where=k >= 1) * iverson(T > 1), s**2),
    ],
    ids=str,
)
def test_a_factor_that_a_bracket_hides_is_no_alarm(left: Any, right: Any) -> None:
    """Where T = 1 the quotient has no value, which the proof lists, and for numbers the bracket makes it 0."""
    claim = claimed(left, right)
    assert prove(claim).status == REFUTED
    assert "holds if s = 1" not in advice_on(claim)


def test_advice_leaves_nothing_out() -> None:
    """That sign(s^c) is 1 where s > 0 is no reason to say so of all s."""
    program = Program("signs")
    claim = program.claim("c", c * sign(s**r), 1)
    assert prove(claim).status == REFUTED
    assert advice_on(claim) == ()


def test_verdicts_are_values() -> None:
    claim = claimed(s, s)
    assert Verdict(claim, PROVED, (), (), 0.0) == Verdict(claim, PROVED, (), (), 0.0)

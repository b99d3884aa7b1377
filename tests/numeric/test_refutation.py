"""Counterexamples for wrong claims, none for right ones, and the second engine."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Abs, And, Eq, Float, Max, Min, Ne, Piecewise, Rational, exp, log, sqrt, tanh

from derive.evaluation import evaluate
from derive.functions import argmax, gelu, logsumexp, mean, sigmoid, silu, softmax, variance
from derive.language import (
    Product,
    Sum,
    delta,
    dims,
    flag,
    implies,
    index,
    indices,
    iverson,
    lengths,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.matrices import matrix, row_sum
from derive.numeric.reproduction import python_line
from derive.numeric.sampling import Sample, size_plan
from derive.program import Program
from derive.refutation import Counterexample, confirm, find_counterexample
from derive.statements import Claim

ROOT = Path(__file__).resolve().parents[2]

T, d, N, V = dims("T d N V")
i, j, k = indices("i j k", T)
a, b = indices("a b", d)
x, g = tensors("x g", T)
y, z = tensors("y z", T, positive=True)
M = tensor("M", T, T)
s, t = scalars("s t")


def claimed(left: Any, right: Any, **more: Any) -> Claim:
    return Program("claimed").claim("C", left, right, **more)


def run(line: str) -> tuple[float, float]:
    """Both values that a line of Python prints, in a bare interpreter."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", line], capture_output=True, text=True, check=True)
    words = done.stdout.split()
    assert words[::2] == ["left", "right"]
    return float(words[1]), float(words[3])


def refuted(claim: Claim, **more: Any) -> Counterexample:
    """The counterexample, after its line has been run."""
    found = find_counterexample(claim, **more)
    assert found is not None
    left, right = run(found.line)
    assert left == pytest.approx(float(found.left), rel=1e-9, abs=1e-12)
    assert right == pytest.approx(float(found.right), rel=1e-9, abs=1e-12)
    assert left != right
    return found


def stands(claim: Claim) -> bool:
    """Whether neither the search nor the second engine has anything against a claim."""
    seen = confirm(claim)
    return find_counterexample(claim) is None and seen.points > 0 and seen.disagreement is None


# ---------------------------------------------------------------------------------------------------------------------
# Attention, right and wrong.


def attention() -> Any:
    """Self-attention with queries, keys and values of T rows: a transposed T x T matrix has the right shape."""
    c = index("c", V)
    Q, K, values = tensor("Q", T, d), tensor("K", T, d), tensor("values", T, V)
    program = Program("attention", inputs=[Q, K, values])
    S = program.define("S", [i, j], Sum(Q[i, a] * K[j, a], a) / sqrt(d))
    A = program.define("A", [i, j], softmax(S[i, j], over=j))
    output = program.define("O", [i, c], Sum(A[i, j] * values[j, c], j))
    return program.gradient(output), Q, K


def test_attention_gradients_stand() -> None:
    gradient, Q, K = attention()
    mS, mA, mdA = (matrix(gradient[name]) for name in ("dS", "A", "dA"))
    claims = [
        gradient.claim("dS", mS, mA * (mdA - row_sum(mdA * mA))),
        gradient.claim("dQ", matrix(gradient["dQ"]), mS @ matrix(K) / sqrt(d)),
        gradient.claim("dK", matrix(gradient["dK"]), mS.T @ matrix(Q) / sqrt(d)),
    ]
    for claim in claims:
        assert stands(claim)
        assert confirm(claim).arithmetic.startswith("residues")
        started = time.perf_counter()
        confirm(claim)
        assert time.perf_counter() - started < 0.5  # a tenth of this on an idle machine


def test_dropped_scale() -> None:
    gradient, _, K = attention()
    found = refuted(gradient.claim("dQ", matrix(gradient["dQ"]), matrix(gradient["dS"]) @ matrix(K)))
    assert float(found.right) == pytest.approx(float(found.left) * found.sizes["d"] ** 0.5)
    assert sorted(found.sizes.values()) == [2, 3, 4]
    assert not any(value in (0, 1, -1) for row in found.inputs["Q"] for value in row)


def test_transposed_where_both_axes_have_the_same_size() -> None:
    gradient, Q, _ = attention()
    refuted(gradient.claim("dK", matrix(gradient["dK"]), matrix(gradient["dS"]) @ matrix(Q) / sqrt(d)))


def test_softmax_over_the_wrong_axis() -> None:
    program = Program("axis")
    A = program.define("A", [i, j], softmax(M[i, j], over=j))
    assert stands(program.claim("rows", Sum(A[i, j], j), 1))
    refuted(program.claim("columns", Sum(A[i, j], i), 1))
    refuted(program.claim("other", A[i, j], exp(M[i, j]) / Sum(exp(M[k, j]), k)))


def test_transposed_matrix_in_a_claim_about_entries() -> None:
    found = refuted(claimed(M[i, j], M[j, i]))
    assert found.position["i"] != found.position["j"]


# ---------------------------------------------------------------------------------------------------------------------
# Other gradients.


def softmax_gradient() -> Any:
    program = Program("softmax_of_x", inputs=[x])
    p = program.define("p", [i], softmax(x[i], over=i))
    return program.gradient(p), p


def test_softmax_backward_with_the_diagonal_only() -> None:
    gradient, p = softmax_gradient()
    dp, dx = gradient["dp"], gradient["dx"]
    assert stands(gradient.claim("full", dx[i], p[i] * (dp[i] - Sum(dp[j] * p[j], j))))
    assert stands(gradient.claim("sum", Sum(dx[i], i), 0))
    found = refuted(gradient.claim("diagonal", dx[i], dp[i] * p[i] * (1 - p[i])))
    assert found.sizes == {"T": 2}


def test_a_factor_of_one_cannot_hide() -> None:
    program = Program("scaled", inputs=[x])
    gamma = tensor("gamma", T)
    out = program.define("out", [i], gamma[i] * (x[i] - mean(x[i], over=i)))
    gradient = program.gradient(out, wrt=[x])
    dout, dx = gradient["dout"], gradient["dx"]
    assert stands(gradient.claim("dx", dx[i], gamma[i] * dout[i] - Sum(gamma[j] * dout[j], j) / T))
    refuted(gradient.claim("no gamma", dx[i], dout[i] - Sum(dout[j], j) / T))
    refuted(gradient.claim("no upstream", dx[i], gamma[i] - Sum(gamma[j], j) / T))


def test_look_up_with_repeated_indices() -> None:
    w, c = index("w", V), index("c", d)
    table, token = tensor("table", V, d), tensor("token", T, into=V)
    program = Program("embedding")
    out = program.define("out", [i, c], table[token[i], c])
    gradient = program.gradient(out)
    dout, dtable = gradient["dout"], gradient["dtable"]
    assert stands(gradient.claim("scatter", dtable[w, c], Sum(delta(w, token[i]) * dout[i, c], i)))
    found = refuted(gradient.claim("mean", dtable[w, c], Sum(delta(w, token[i]) * dout[i, c], i) / T))
    assert all(0 <= row < found.sizes["V"] for row in found.inputs["token"])


def test_ragged_product() -> None:
    n = index("n", N)
    length = lengths("L", N)
    u = index("u", length[n])
    factors = tensor("P", N, length, positive=True)
    assert stands(claimed(log(Product(factors[n, u], u)), Sum(log(factors[n, u]), u)))
    found = refuted(claimed(log(Product(factors[n, u], u)), Sum(log(factors[n, u]), u) / length[n]))
    assert [len(row) for row in found.inputs["P"]] == list(found.inputs["L"])


def test_flags_are_tried_both_ways() -> None:
    causal = flag("causal")
    masked = Sum(iverson(implies(causal, j <= i)) * M[i, j], j)
    for wrong, value in ((Sum(M[i, j], j), True), (Sum(iverson(j <= i) * M[i, j], j), False)):
        assert refuted(claimed(masked, wrong)).inputs["causal"] is value


# ---------------------------------------------------------------------------------------------------------------------
# True statements stand, wrong ones fall.

TRUE: dict[str, Callable[[], Claim]] = {
    "variance": lambda: claimed(variance(x[i], over=i), mean(x[i] ** 2, over=i) - mean(x[i], over=i) ** 2),
    "shift": lambda: claimed(softmax(x[i] + s, over=i), softmax(x[i], over=i)),
    "logsumexp": lambda: claimed(logsumexp(x[i] + s, over=i), s + logsumexp(x[i], over=i)),
    "silu": lambda: claimed(silu(s) + silu(-s), s * (2 * sigmoid(s) - 1)),
    "gelu": lambda: claimed(gelu(s) - gelu(-s), s),
    "tanh": lambda: claimed(tanh(s), 2 * sigmoid(2 * s) - 1),
    "abs": lambda: claimed(Abs(s), Max(s, -s)),
    "off the diagonal": lambda: claimed(delta(i, j) * M[i, j], 0, given=[Ne(i, j)]),
    "geometric": lambda: claimed(Sum(s**i, i) * (1 - s), 1 - s**T),
    "telescoping": lambda: claimed(Product((i + 2) / (i + 1), i), T + 1),
    "argmax": lambda: claimed(argmax(x[i], over=i, among=j), argmax(exp(x[i]), over=i, among=j)),
    "Gibbs": lambda: claimed(
        iverson(Sum(y[i] * log(y[i] / z[i]), i) >= 0), 1, given=[Eq(Sum(y[k], k), 1), Eq(Sum(z[k], k), 1)]
    ),
    "soft labels": lambda: claimed(
        Sum(y[j], j) * softmax(x[i], over=i) - y[i], softmax(x[i], over=i) - y[i],
        given=[And(Eq(Sum(y[k], k), 1), T > 1)],
    ),
    "saturated": lambda: claimed(
        1 - softmax(100 * x[i], over=i), Sum(iverson(Ne(i, j)) * softmax(100 * x[j], over=j), j)
    ),
    "saturated sign": lambda: claimed(
        iverson(1 - softmax(100 * x[i], over=i) > 0), 1, given=[T > 1]
    ),
    "no value where the logarithm has none": lambda: claimed(
        softmax(log(x[i]), over=i), Abs(x[i]) / Sum(Abs(x[j]), j)
    ),
    "nor its logsumexp": lambda: claimed(logsumexp(2 * log(x[i]), over=i), log(Sum(x[i] * Abs(x[i]), i))),
    "zero by cancellation": lambda: claimed(Sum(x[i] - mean(x[j], over=j), i), 0),
}  # fmt: skip

AT_TIES: dict[str, Callable[[], Claim]] = {  # false where two numbers agree, and there only
    "kink": lambda: claimed(iverson(s - 2 >= 0), iverson(s - 2 > 0)),
    "kink between inputs": lambda: claimed(iverson(s >= t), iverson(s > t)),
    "kink at a positive number": lambda: claimed(iverson(x[i] < y[j]), iverson(x[i] <= y[j])),
    "one maximum only": lambda: claimed(Sum(argmax(x[i], over=i, among=j), i), 1),
    "pairs in order": lambda: claimed(Sum(iverson(x[i] > x[j]), i, j), T * (T - 1) / 2),
}

FALSE: dict[str, Callable[[], Claim]] = {
    "sample variance": lambda: claimed(variance(x[i], over=i), Sum((x[i] - mean(x[j], over=j)) ** 2, i) / (T - 1)),
    "log of a sum": lambda: claimed(logsumexp(x[i] + s, over=i), s * logsumexp(x[i], over=i)),
    "swish": lambda: claimed(
        sigmoid(t * s) + t * s * sigmoid(t * s) * (1 - sigmoid(t * s)),
        s * sigmoid(t * s) + sigmoid(t - t * s * sigmoid(t * s)),
    ),
    "beyond six": lambda: claimed(Max(s, 0), Min(Max(s, 0), 6)),
    "odd": lambda: claimed(Abs(s), s),
    "unsoft labels": lambda: claimed(Sum(y[j], j) * softmax(x[i], over=i), softmax(x[i], over=i)),
    "argmax of squares": lambda: claimed(argmax(x[i], over=i, among=j), argmax(x[i] ** 2, over=i, among=j)),
    "not Gibbs": lambda: claimed(iverson(Sum(y[i] * log(y[i]), i) >= 0), 1),
    "fifth position": lambda: claimed(iverson(i >= 4) * x[i], 0),
    "all sizes but one": lambda: claimed(Sum(x[i], i) / T, Sum(x[i], i) / 3),
    "only of logarithms": lambda: claimed(log(x[0] * x[1]), log(x[0]) * log(x[1])),
    "off by a part in a million": lambda: claimed(s * (1 + Rational(1, 10**6)), s),
    "between zero and one": lambda: claimed(sqrt(1 - s**2), 1 - s),
    "on the diagonal": lambda: claimed(M[i, j], 0, given=[Eq(i, j)]),
    "an orthogonal matrix is no identity": lambda: claimed(
        Sum(Sum(M[i, j] * x[j], j) ** 2, i), Sum(x[j], j) ** 2, given=[Eq(Sum(M[k, i] * M[k, j], k), delta(i, j))]
    ),
    "at a double root": lambda: claimed(s, 2, given=[Eq(s * t, 1), Eq(s + t, 2)]),
    "what a delta excludes": lambda: claimed(Sum(iverson(Ne(i, j)) / (x[i] - x[j]), i, j), 1),
    "what a bracket excludes": lambda: claimed(Sum(iverson(x[i] > 0) * log(x[i]) * x[i], i), Sum(x[i], i)),
    "what two brackets exclude": lambda: claimed(2 * iverson(s > 0) * iverson(i > 0) * log(s) / i, s),
    "where unmasked": lambda: claimed(Piecewise((s, s < t), (t, True)), Max(s, t)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_true(name: str) -> None:
    assert stands(TRUE[name]())


@pytest.mark.parametrize("name", FALSE)
def test_false(name: str) -> None:
    refuted(FALSE[name]())


@pytest.mark.parametrize("name", AT_TIES)
def test_false_at_ties(name: str) -> None:
    refuted(AT_TIES[name]())


def test_conditions_are_met() -> None:
    wrong = claimed(softmax(x[i], over=i) - y[i], y[i], given=[Eq(Sum(y[k], k), 1), Ne(i, 0)])
    found = refuted(wrong)
    assert sum(found.inputs["y"]) == 1
    assert all(value > 0 for value in found.inputs["y"])
    assert found.position["i"] != 0


def test_declarations_are_respected() -> None:
    n = scalar("n", positive=True, integer=True)
    eps = scalar("eps", positive=True)
    found = refuted(claimed((y[i] + eps) ** n, y[i] ** n + eps**n))
    assert isinstance(found.inputs["n"], int)
    assert found.inputs["n"] > 1
    assert found.inputs["eps"] > 0
    assert min(found.inputs["y"]) > 0


def test_a_difference_too_small_for_floats_is_still_found() -> None:
    found = find_counterexample(claimed(1 / (s + Float("1e-20")), 1 / s))
    assert found is not None
    assert found.left != found.right
    assert float(found.left) == float(found.right)


# ---------------------------------------------------------------------------------------------------------------------
# What is reported.


def test_report() -> None:
    found = refuted(claimed(s * x[i], x[i]))
    assert json.loads(json.dumps(found.as_dict())) == found.as_dict()
    assert found.as_dict()["sizes"] == {"T": 2}
    assert found.command.startswith('python -c "from math import *; T=2; s=')
    command = found.command.replace("python", sys.executable, 1)
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("left ")


def test_names_that_python_uses() -> None:
    e, exp_ = index("e", T), tensor("exp", T)
    sum_ = scalar("sum")
    program = Program("names")
    cache = program.define("cache", [e], exp(exp_[e]) + sum_)
    found = refuted(program.claim("C", cache[e], exp_[e] + Sum(exp_[i], i)))
    assert set(found.inputs) == {"exp", "sum"}


def test_same_seed_same_counterexample_whatever_the_hash_seed() -> None:
    script = (
        "from derive.language import *; from derive.functions import softmax; from derive.program import Program\n"
        "from derive.refutation import find_counterexample\n"
        "T, d = dims('T d'); i, j = indices('i j', T); a = index('a', d); Q = tensor('Q', T, d); f = flag('f')\n"
        "p = Program('p'); A = p.define('A', [i, a], softmax(Q[i, a], over=a))\n"
        "print(find_counterexample(p.claim('C', Sum(A[i, a]*Q[j, a], a), Q[i, 0]*Q[j, 1]*iverson(f))))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(printed) == 1
    assert "Counterexample" in printed.pop()


@pytest.mark.parametrize("tower", [exp(exp(exp(exp(s)))), exp(s) ** exp(exp(exp(s))), s ** (s ** (s**s))])
def test_numbers_beyond_all_bounds_are_passed_over(tower: Any) -> None:
    n = scalar("n", integer=True, positive=True)
    for value in (tower, tower.subs(s, n)):
        started = time.monotonic()
        assert find_counterexample(claimed(value + s, s + value), budget_s=0.5) is None
        assert confirm(claimed(value + s, s + value)).disagreement is None
        assert time.monotonic() - started < 3


def test_a_difference_too_large_for_floats() -> None:
    found = find_counterexample(claimed(exp(exp(exp(2 + s**2))), s))
    assert found is not None
    assert "e+" in found.left


def test_budget() -> None:
    started = time.monotonic()
    assert find_counterexample(TRUE["variance"](), budget_s=0.0) is None
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("count", range(1, 10))
def test_no_two_sizes_agree_in_all_assignments(count: int) -> None:
    names = [f"n{number}" for number in range(count)]
    plan = size_plan(names)
    for first in names:
        for second in names[: names.index(first)]:
            assert any(sizes[first] != sizes[second] for sizes in plan[:2])
    assert {1} in [set(sizes.values()) for sizes in plan]
    assert count > 4 or len(set(plan[0].values())) == count


# ---------------------------------------------------------------------------------------------------------------------
# The printed line against the evaluator, on expressions nobody thought of.


def random_expression(generator: random.Random, depth: int, free: list[Any]) -> Any:
    """An expression over s, x, M with the given indices in scope; well defined for positive inputs."""

    def part() -> Any:
        return random_expression(generator, depth - 1, free)

    def condition() -> Any:
        first, second = generator.sample(free, 2)
        return generator.choice([first <= second, Ne(first, second), Eq(first, second), part() > part()])

    leaves = [s, T, Rational(2, 3), Float("0.3"), x[generator.choice(free)], M[generator.choice(free), free[0]], x[1]]
    if depth == 0:
        return generator.choice(leaves)
    bound = index(f"b{depth}", T)
    kind = generator.randrange(12)
    if kind == 0:
        return Sum(random_expression(generator, depth - 1, [*free, bound]), bound)
    if kind == 1:
        return Product(1 + random_expression(generator, depth - 1, [*free, bound]) / 100, bound)
    if kind == 2:
        return iverson(condition()) * part()
    if kind == 3:
        return where(condition(), part(), where(condition(), part(), part()))
    if kind == 4:
        return mean(random_expression(generator, depth - 1, [*free, bound]), over=bound)
    if kind == 5:
        return generator.choice([sympy.sin, sympy.cos, tanh, sympy.atan, sympy.erf, sympy.erfc])(part())
    if kind == 6:
        return generator.choice([sqrt, log])(1 + Abs(part()))
    if kind == 7:
        return generator.choice([Max, Min])(part(), part())
    if kind == 8:
        return part() / (1 + part() ** 2)
    if kind == 9:
        return delta(*generator.sample(free, 2)) - part()
    if kind == 10:
        return exp(-(part() ** 2)) - sympy.sign(part()) / sqrt(3)
    return part() * part() - part()


def test_the_line_says_what_the_evaluator_computes() -> None:
    generator = random.Random(7)
    rows = (Fraction(2), Fraction(3)), (Fraction(1, 3), Fraction(5))
    sample = Sample({"T": 2}, {"s": Fraction(3, 2), "x": (Fraction(2), Fraction(1, 2)), "M": rows})
    lines, wanted = [], []
    for _ in range(60):
        program = Program("random")
        value = program.define("value", [i, j], random_expression(generator, 4, [i, j]) + x[i] * x[j])
        final = value[i, 1] + random_expression(generator, 2, [i, j])
        position = {"i": 1, "j": 0}
        lines.append(python_line(final, s, program.definitions, sample, position))
        wanted.append(evaluate(final, sample.sizes, sample.inputs, position, definitions=program.definitions))
    script = "\n".join(lines)
    done = subprocess.run([sys.executable, "-I", "-"], input=script, capture_output=True, text=True, check=True)
    printed = [float(row.split()[1]) for row in done.stdout.splitlines()]
    assert printed == pytest.approx([float(value) for value in wanted], rel=1e-7, abs=1e-9)


parts = [x[i] * s, exp(x[i]) * t, M[i, j] * x[j], s**2 * t, x[i] / (1 + x[j] ** 2), tanh(x[i] - t), s + x[j]]
terms = st.lists(st.sampled_from(parts), min_size=2, max_size=4)


@settings(max_examples=10, deadline=None)
@given(terms, terms)
def test_multiplied_out_is_the_same_and_a_term_less_is_not(first: list[Any], second: list[Any]) -> None:
    left = Sum(sympy.Add(*first) * sympy.Add(*second), i, j)
    right = sympy.Add(*(Sum(one * other, j, i) for one in first for other in second))
    short = right - Sum(first[0] * second[0], i, j)
    assert find_counterexample(claimed(left, right), budget_s=0.3) is None
    assert confirm(claimed(left, right)).disagreement is None
    assert find_counterexample(claimed(left, short)) is not None
    assert confirm(claimed(left, short)).disagreement is not None


# ---------------------------------------------------------------------------------------------------------------------
# The second engine.


def test_confirmation_counts_and_names_its_arithmetic() -> None:
    seen = confirm(TRUE["shift"]())
    assert seen.samples == 4
    assert seen.points == 2 + 3 + 4 + 1
    assert seen.arithmetic.startswith("residues modulo")
    assert confirm(TRUE["logsumexp"]()).arithmetic == "reals to 40 digits"
    assert seen == confirm(TRUE["shift"]())


@pytest.mark.parametrize("name", sorted(FALSE.keys() - {"fifth position", "beyond six"}))
def test_the_second_engine_contradicts_what_is_false(name: str) -> None:
    disagreement = confirm(FALSE[name]()).disagreement
    assert disagreement is not None
    assert disagreement.left != disagreement.right
    run(disagreement.line)


def test_a_condition_in_the_field() -> None:
    seen = confirm(TRUE["soft labels"]())
    assert seen.arithmetic.startswith("residues")
    assert seen.points > 0
    assert seen.disagreement is None


def test_nothing_to_see_is_said() -> None:
    assert confirm(claimed(s, t, given=[s > t, s < t])).points == 0
    assert find_counterexample(claimed(s, t, given=[s > t, s < t])) is None


def test_the_engines_share_no_code() -> None:
    files = [ROOT / "derive/evaluation.py", ROOT / "derive/refutation.py", *(ROOT / "derive/numeric").glob("*.py")]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith(("derive.normal", "derive.folding")) for name in names), path.name

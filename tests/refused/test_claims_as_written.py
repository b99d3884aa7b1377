"""What a user can get wrong in writing a claim, a rule or a derivative: an error that says what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sympy import Abs, Ne

from derive.errors import StatementError
from derive.functions import argmax, argmin, relu, softmax
from derive.language import Sum, dims, index, indices, tensor, tensors
from derive.matrices import row_sum
from derive.operators import expectation
from derive.program import Program
from derive.prove import prove
from derive.rules.cases import Cases
from derive.rules.chain import Chain
from derive.rules.expectation import Moments
from derive.rules.lemma import Lemmas
from derive.rules.order import Absolute, Bound, Combination
from derive.structured import structured

n, m = dims("n m")
i, j = indices("i j", n)
k = index("k", m)
x, y = tensors("x y", n)
S = tensor("S", n, n)
program = Program("written", inputs=[x, y])
total = program.define("total", [], Sum(x[i], i))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: program.claim("c", expectation(x[i], over=[x]), 0, over=[i], by=Moments),
            "expected by= an inference rule",
        ),
        (lambda: program.claim("c", x[i], y[i], by="gibbs"), "expected by= an inference rule, .* found 'gibbs'"),
        (lambda: program.claim("c", x[i], y[i], given=["i != j"]), "given=: expected a condition, .* found 'i != j'"),
        (lambda: program.claim("c", x[i], y[i], given=[x[i]]), r"given=: expected a condition, .* found x\[i\]"),
        (lambda: program.claim("c", x[i], y[i], given=Ne(i, j)), "expected given= a list of conditions"),
        (lambda: program.claim("c", x[i] > 0, 1), r"x\[i\] > 0 is a condition, not a value; .* claim_that"),
        (lambda: program.claim(3, x[i], y[i]), "expected a text as the claim's id, found 3"),
        (lambda: program.claim_that("c", x[i]), "expected a condition"),
        (lambda: program.claim("c", x[i], S[i, j]), r"index j is free on the right side only.* over=\[...\]"),
        (lambda: program.steps("c", x[i]), "at least two expressions, found 1"),
        (lambda: program.steps("c", x[i], y[i], because=["a", "b"]), "2 reasons for 1 steps"),
        (lambda: program.derivative(total, x), r"expected an entry, as x\[j\]"),
        (lambda: program.derivative(x, x[i]), r"expected a value, such as an entry x\[i, ...\]"),
        (lambda: program.derivative("total", x[i]), "found 'total'"),
        (lambda: program.gradient("total"), r"found the text .total.; write program\[.total.\]"),
        (lambda: Cases((x[i] > 0,)), r"Cases: expected parts made by Case\(...\), found x\[i\] > 0"),
        (lambda: Lemmas((1,)), r"Lemmas: expected parts made by Claim\(...\), found 1"),
        (lambda: Lemmas(1), r"Lemmas: expected a list of parts made by Claim\(...\), as in \[...\], found 1"),  # type: ignore[arg-type]
        (lambda: Chain((x[i],)), r"Chain: expected parts made by Claim\(...\)"),
        (lambda: Combination((x[i] >= 0,)), r"Combination: expected parts made by Bound\(...\)"),
        (
            lambda: Absolute(Bound(Abs(x[i]) <= 1), Combination()),
            r"Absolute: expected parts made by Combination\(...\)",
        ),
        (lambda: program.define("z", [i], x + y[i]), r"x: a tensor stands without its indices; write .* x\[i\]"),
        (lambda: program.claim("c", Sum(softmax(x, over=i), i), 1), "x: a tensor stands without its indices"),
        (lambda: S @ S, r"S @ S: .* matrix\(S\) @ matrix"),
        (lambda: row_sum(S), "expected a matrix, as matrix"),
        (lambda: argmax(x[i], over=i, among=i), "expected among= a second index over n, found i over n"),
        (lambda: argmin(x[i], over=i, among=k), "expected among= a second index over n, found k over m"),
        (lambda: argmax(S[i, j], over=i, among=j), "j is in the body already"),
        (lambda: relu("x[i]"), r"relu: expected an expression in index notation, found 'x\[i\]'"),
        (lambda: expectation("x", over=[x]), "expectation: expected an expression in index notation"),
        (lambda: structured("symmetric", 3, i, j), "expected a tensor or a matrix, found 3"),
        (lambda: prove(total), "expected a claim, as program.claim"),
    ],
)
def test_error_says_what_was_expected(wrong: Callable[[], Any], message: str) -> None:
    before = len(program.claims)
    with pytest.raises(StatementError, match=message):
        wrong()
    assert len(program.claims) == before

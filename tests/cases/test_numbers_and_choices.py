"""Numbers among arrays: values that are known before any array is touched, and choices that are made by them.

Each kernel was wrong once, or could not be made or called. `gradproof check` compares it with its statement evaluated
entry by entry, with central differences, and with autograd; where it could not see the fault, numbers stand here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import And, Eq, Expr, Max, Min, Or, Rational, erf, exp, log, sign, sqrt, tanh

from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from gradproof import (
    Ne,
    Program,
    Sum,
    dims,
    flag,
    gelu_tanh,
    implies,
    index,
    indices,
    iverson,
    leading_index,
    logsumexp,
    mean,
    scalar,
    sigmoid,
    silu,
    softmax,
    tensor,
    variance,
    where,
)

N, T = dims("N T")
n = leading_index("n", N)
i, k = indices("i k", T)
x, y = tensor("x", N, T), tensor("y", T)
token = tensor("token", N, T, into=T)
s, e, f = scalar("s"), scalar("e", positive=True), flag("f")
TARGETS = ("numpy", "torch")
DEFAULTS = {s: 0.3, e: 0.7}


def asked(body: Any, over: Any, wrt: Any, number: Any = None, inputs: Any = (x, y, token, s, e, f)) -> Program:
    """A program with one output; with a `number`, of a named one that the body is a function of."""
    program = Program("asked", inputs=inputs)
    if number is not None:
        body = body(program.define("u", [], number))
    program.kernel(
        program.define("o", over, body), wrt=wrt, defaults={k: v for k, v in DEFAULTS.items() if k in inputs}
    )
    return program


@pytest.fixture
def check(tmp_path: Path) -> Callable[[Program, str], None]:
    numbers = itertools.count()

    def check_(program: Program, target: str) -> None:
        if target == "torch":
            pytest.importorskip("torch")
        folder = tmp_path / str(next(numbers))
        write(render_all([program], [target]), folder, [target])
        assert [str(found) for found in check_kernels([program], target=target, folder=folder) if not found.ok] == []

    return check_


CHOICES: dict[str, tuple[Expr, Any, Any]] = {
    "of rows": (where(f, x[n, i], y[i]), [n, i], [x, y]),
    "of sums": (where(f, Sum(x[n, i], i), Sum(y[i], i)), [n], [x, y]),
    "or nothing": (where(f, x[n, i], 0), [n, i], [x]),
    "or a number": (where(s > 0, y[i], e), [i], [y, e]),
    "of numbers": (x[n, i] * where(f, e, 1), [n, i], [x, e]),
    "of numbers, summed": (Sum(where(s > 0, e, 2) * tanh(x[n, i]), n, i), [], [e]),
    "summed": (Sum(where(f, x[n, i], y[i]), i), [n], [x, y]),
    "in a function": (tanh(where(f, y[i], 0)) * exp(where(s > 0, x[n, i], 1)), [n, i], [x, y]),
    "under a flag": (where(implies(f, x[n, i] > 0), y[i], e), [n, i], [y, e]),
    "under a flag and a number": (where(Or(f, s > 0), where(f, y[i], 2), x[n, i]), [n, i], [x, y]),
    "in a loop": (Sum(iverson(And(f, x[n, i] > 0)) * y[i], i), [n], [y]),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", CHOICES)
def test_either_value_of_a_choice_has_the_axes_of_both(which: str, target: str, check: Any) -> None:
    """What was chosen had its own axes, or was a number of Python's."""
    check(asked(*CHOICES[which]), target)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_chosen_is_no_input(target: str, compiled: Any) -> None:
    made = compiled(asked(where(f, y[i], Sum(x[n, i], n)), [i], [y], inputs=[x, y, f]), target)
    given = made.library.array(np.ones(3))
    (result,), _ = made.run({"x": made.library.array(np.ones((2, 3))), "y": given}, {"f": True})
    result += 1
    np.testing.assert_array_equal(made.library.plain(given), np.ones(3))


NAMED: dict[str, tuple[Callable[[Any], Any], Any, Any, Any]] = {
    "selected": (lambda u: x[n, i] * where(x[n, i] > 0, u, u**2), [n, i], [x], exp(s) + 1 / T),
    "selected, a third": (lambda u: Sum(where(token[n, i] > 0, u, Rational(1, 3)), i) * x[n, k], [n, k], [x], erf(s)),
    "in functions": (lambda u: Sum(tanh(x[n, i] * u), n, i) * log(1 + u**2), [], [x, s], sigmoid(s)),
    "in a sign": (lambda u: Sum(tanh(x[n, i] * u), n, i) * sign(u), [], [x], gelu_tanh(s)),
    "in an exponential": (lambda u: Sum(tanh(x[n, i] * u), n, i) * exp(-(u**2) / 2), [], [x, s], silu(s)),
    "in a parabola": (lambda u: Sum(tanh(x[n, i] * u), n, i) * u, [], [x, s], exp(-(s**2) / 2)),
    "under a logarithm": (lambda u: x[n, i] * logsumexp(u * y[k], over=k), [n, i], [x, y, s], s / T),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", NAMED)
def test_a_number_under_a_name_is_a_number(which: str, target: str, check: Any) -> None:
    """It was taken for an array: torch.square and torch.where were called with numbers."""
    check(asked(*NAMED[which]), target)


CONSTANTS: dict[str, tuple[Expr, Any]] = {
    "roots": (where(x[n, i] > 0, sqrt(2), Rational(1, 3)), []),
    "bracket": (iverson(x[n, i] > 0) * sqrt(2), []),
    "of a size": (where(x[n, i] > 0, sqrt(T), 1 / sqrt(T)) * x[n, i], [x]),
    "of an option": (where(x[n, i] > 0, log(e), x[n, i] / sqrt(e)), [x]),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", CONSTANTS)
def test_a_constant_in_a_branch_fills_the_block(which: str, target: str, check: Any) -> None:
    """torch.sqrt was called with a number."""
    body, wrt = CONSTANTS[which]
    check(asked(body, [n, i], wrt), target)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_number_in_a_selection_keeps_its_digits(dtype: str, compiled: Any) -> None:
    """torch.where made single precision of two numbers, one of which had a name."""
    B, d = dims("B d")
    b, c, a = *indices("b c", B), index("a", d)
    z, label = tensor("z", B, d), tensor("label", B, into=B)
    pairs = iverson(And(Ne(b, c), Eq(label[b], label[c])))
    program = Program("pairs", inputs=[z, label])
    S = program.define("S", [b, c], Sum(z[b, a] * z[c, a], a) / 3)
    L = program.define("L", [b], logsumexp(S[b, c], over=c, where=Ne(b, c)))
    count = program.define("count", [b], Sum(pairs, c))
    per = program.define("per", [b], where(count[b] > 0, L[b] - Sum(pairs * S[b, c], c) / count[b], 0))
    program.kernel(program.define("loss", [], mean(per[b], over=b)), wrt=[z])
    made = compiled(program, "torch")
    values = np.random.default_rng(0).standard_normal((7, 4)).astype(dtype)
    labels = np.array([0, 1, 0, 1, 2, 0, 3])
    _, gradient = made.together(made.library.array(values), made.library.array(labels))
    wide = values.astype(float)
    others = ~np.eye(7, dtype=bool)
    same = (labels[:, None] == labels) & others
    counts = same.sum(1, keepdims=True)
    shares = np.exp(wide @ wide.T / 3) * others
    shares /= shares.sum(1, keepdims=True)
    slopes = np.where(counts > 0, shares - same / np.maximum(counts, 1), 0) / 21
    assert abs(made.library.plain(gradient) - (slopes + slopes.T) @ wide).max() < 4 * np.finfo(dtype).eps


@pytest.mark.parametrize("target", TARGETS)
def test_a_number_that_cancels_out_stays_an_input(target: str, check: Any) -> None:
    """It was missing in the signature, and in what autograd asks for."""
    shares = Sum(2 * exp(e * y[i]), i) / Sum(exp(e * y[i]), i)
    check(asked(Sum(x[n, i], i) * shares, [n], [x, e], inputs=[x, y, e]), target)
    check(asked(x[n, i] * softmax(s, over=i), [n, i], [x, s], inputs=[x, s]), target)
    check(asked(2 * y[i], [i], [y]), target)  # s and e are listed, and not used


KEPT = token[n, i] > 0
INSIDE: dict[str, tuple[Expr, Any]] = {
    "a selection": (where(x[n, i] > 0, tanh(where(x[n, i] > 0, x[n, i], y[i])), 0), [n, i]),
    "an exponential": (where(x[n, i] > 0, exp(where(x[n, i] > 0, y[i], x[n, i])), y[i]), [n, i]),
    "a bracket": (Sum(iverson(KEPT) * tanh(where(KEPT, x[n, i], exp(y[i]))), i), [n]),
    "its opposite": (Sum(iverson(KEPT) * where(token[n, i] <= 0, x[n, i], exp(y[i])), i), [n]),
    "a softmax": (Sum(softmax(where(KEPT, x[n, i], y[i]), over=i, where=KEPT) * y[i], i), [n]),
    "a sum": (where(KEPT, Sum(where(KEPT, x[n, k], y[k]) ** 2, k), 0), [n, i]),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", INSIDE)
def test_a_selection_inside_another_one_of_its_condition(which: str, target: str, check: Any) -> None:
    """A condition that excludes itself was no condition any more."""
    body, over = INSIDE[which]
    check(asked(body, over, [x, y], inputs=[x, y, token]), target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_for_a_selection_inside_another_one(target: str, check: Any) -> None:
    program = Program("named", inputs=[x, y, token, e])
    u = program.define("u", [n, i], where(KEPT, e, x[n, i]))
    program.kernel(program.define("o", [n, i], where(KEPT, u[n, i] ** 2, y[i])), wrt=[x, y], defaults={e: 0.7})
    check(program, target)


POSITIONS: dict[str, tuple[Any, Any, Any]] = {
    "counted": (Sum(iverson(Eq(token[n, i], token[n, k])), k) / T, [n, i], []),
    "selected": (where(token[n, i] <= i, i * Rational(1, 3), 1), [n, i], []),
    "as numbers": (Sum(token[n, i] ** 2 * exp(e / T), n, i), [], [e]),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", POSITIONS)
def test_index_tensors_alone_have_the_type_of_the_library(which: str, target: str, check: Any, compiled: Any) -> None:
    """The type was read of an array of numbers, which there was none of."""
    body, over, wrt = POSITIONS[which]
    program = asked(body, over, wrt, inputs=[token, e] if wrt else [token])
    check(program, target)
    made = compiled(program, target)
    (result,), _ = made.run({"token": made.library.array(np.array([[0, 2, 2]]))}, {"e": 0.5} if wrt else {})
    assert str(result.dtype) == {"numpy": "float64", "torch": "torch.float32"}[target]


OVER_NOTHING: dict[str, tuple[Expr, str]] = {
    "centred": (x[n, i] - mean(x[n, k], over=k), "mean over k"),
    "scaled": (x[n, i] / sqrt(variance(x[n, k], over=k) + 1), "variance over k"),
    "spelled out": (x[n, i] - Sum(x[n, k], k) / T, "division by T"),
    "a number": (2 * x[n, i] / T, "division by T"),
    "a logarithm": (x[n, i] * log(T), "logarithm of T"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", OVER_NOTHING)
def test_a_division_by_a_size_that_is_computed_once_refuses_0(which: str, target: str, compiled: Any) -> None:
    """An array without entries was thought to need nothing; 1 / 0 was met all the same."""
    body, why = OVER_NOTHING[which]
    made = compiled(asked(body, [n, i], [x], inputs=[x]), target)
    with pytest.raises(ValueError, match=rf"x: expected T >= 1 \({why}\), found 0 in shape \(2, 0\)"):
        made.run({"x": made.library.array(np.ones((2, 0)))}, {})
    (result,), _ = made.run({"x": made.library.array(np.ones((0, 2)))}, {})
    assert tuple(result.shape) == (0, 2)


LARGEST: dict[str, tuple[Expr, Any, tuple[str, str]]] = {
    "of two": (Max(x[n, i], y[i]), [x, y], ("np.maximum(", "torch.maximum(")),
    "or a number": (Max(x[n, i], 0), [x], ("np.maximum(", "min=0")),
    "or a size": (Min(x[n, i], T), [x], ("np.minimum(", "max=T")),
    "or an option": (Min(x[n, i] * y[i], s), [x, y], ("np.minimum(", "max=s")),
    "of three": (Max(x[n, i], y[i], s * x[n, i]), [x, y], ("np.maximum(", "torch.maximum(")),
    "as a choice": (where(x[n, i] < y[i], x[n, i], y[i]), [x, y], ("np.minimum(", "torch.minimum(")),
    "as a choice of the other": (where(x[n, i] < y[i], y[i], x[n, i]), [x, y], ("np.maximum(", "torch.maximum(")),
    "of places": (Max(i, k) * x[n, i] * y[k], [x, y], ("np.maximum(", "torch.maximum(")),
    "summed": (Sum(Max(x[n, k] - y[k], 0), k) * y[i], [x, y], ("np.maximum(", "min=0")),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", LARGEST)
def test_the_larger_of_two_values_is_one_operation(which: str, target: str, check: Any) -> None:
    """It was a selection, with a mask and a temporary array."""
    body, wrt, names = LARGEST[which]
    program = asked(body, [n, i, k] if which == "of places" else [n, i], wrt)
    (text,) = [text for name, text in render_all([program], [target]).items() if name == f"{target}/asked.py"]
    forward = text[: text.index("def asked_backward")]
    assert names[TARGETS.index(target)] in forward
    assert ".where(" not in forward
    check(program, target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_larger_of_two_values_keeps_what_is_no_number(target: str, compiled: Any) -> None:
    made = compiled(asked(Max(x[n, i], 0), [n, i], [x], inputs=[x]), target)
    given = np.array([[math.nan, -math.inf, math.inf, -1.0, 2.0]])
    (result,), _ = made.run({"x": made.library.array(given)}, {})
    np.testing.assert_array_equal(made.library.plain(result), [[math.nan, 0, math.inf, 0, 2]])

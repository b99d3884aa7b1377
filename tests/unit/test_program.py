"""Programs: what they record, gradients as programs, and what a gradient lists as its exceptional points."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Max, Rational, exp, log, sqrt

from derive.errors import StatementError
from derive.functions import relu, sigmoid, softmax
from derive.gradient import Gradient, depends_on, influenced_by, inline
from derive.language import Sum, delta, dims, flag, index, indices, iverson, lengths, scalar, tensor, tensors, where
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.program import Program
from derive.prove import PROVED, prove

T, d, N, V = dims("T d N V")
i, j, k = indices("i j k", T)
a = index("a", d)
n = index("n", N)
v = index("v", V)
x, y = tensors("x y", T)
X = tensor("X", T, T)
W = tensor("W", T, d)
s, r = scalar("s"), scalar("r")
token = tensor("token", T, into=V)
E = tensor("E", V, d)


def attention() -> tuple[Program, Any, Any, Any]:
    program = Program("attention", "a title", [X])
    S = program.define("S", [i, j], X[i, j] * s)
    A = program.define("A", [i, j], softmax(S[i, j], over=j))
    O = program.define("O", [i, a], Sum(A[i, j] * W[j, a], j))
    return program, S, A, O


# ---------------------------------------------------------------------------------------------------------------------
# Stating.


def test_definitions_are_kept_in_order() -> None:
    program, S, A, O = attention()
    assert program.names() == ["S", "A", "O"]
    assert [definition.symbol for definition in program] == [S, A, O]
    assert program.definition("A").body == softmax(S[i, j], over=j)  # type: ignore[union-attr]
    assert program.definition("X") is None
    assert str(next(iter(program))) == "S[i, j] = s*X[i, j]"


def test_definitions_have_the_shape_of_their_indices() -> None:
    program, S, _, O = attention()
    assert (S.shape, O.shape) == ((T, T), (T, d))
    assert program.define("total", [], Sum(O[i, a], i, a)).is_real
    L = lengths("L", N)
    t = index("t", L[n])
    assert program.define("ragged", [n, t], tensor("R", N, L)[n, t] * 2).shape == (N, L)


def test_listed_inputs_come_first_then_the_rest_by_name() -> None:
    program, *_ = attention()
    assert program.all_inputs() == [X, W, s]
    assert Program("empty", inputs=[y, x]).all_inputs() == [y, x]


def test_names_are_found() -> None:
    program, S, _, _ = attention()
    assert program["S"] == S
    assert program["W"] == W
    assert program["s"] == s


def test_a_claim_remembers_where_it_was_made() -> None:
    program, _, A, _ = attention()
    claim = program.claim(
        "B10", Sum(A[i, j], j), 1, name="weights sum to 1", note="a remark", assuming=["a hypothesis"]
    )
    assert program.claims == [claim]
    assert claim.source.startswith(f"{__file__}:")
    assert (claim.id, claim.name, claim.note) == ("B10", "weights sum to 1", "a remark")
    assert str(claim) == "Sum(A[i, j], (j, 0, T - 1)) = 1"
    assert "given i < j" in str(program.claim("c", A[i, j], A[i, j], given=[i < j]))
    assert prove(claim).hypotheses[0] == "a hypothesis"


def test_a_kernel_request_is_kept() -> None:
    program, _, _, O = attention()
    causal = flag("causal")
    program.inputs = [causal]
    program.kernel(O, wrt=[X], defaults={causal: False, "s": Rational(1, 2)}, typical={T: 12})
    assert program.request is not None
    assert (program.request.outputs, program.request.wrt) == ((O,), (X,))
    assert dict(program.request.defaults) == {"causal": False, "s": 0.5}
    assert dict(program.request.typical) == {"T": 12}


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({s: "a"}, "s: expected a finite number, found 'a'"),
        ({s: True}, "s: expected a finite number, found True"),
        ({s: float("inf")}, "s: expected a finite number, found inf"),
        ({X: 1.0}, "X is an array; expected one of s"),
        ({"zzz": 1.0}, "zzz is no scalar or flag that is an input here; expected one of s"),
    ],
)
def test_a_default_is_a_number_for_a_scalar_that_is_an_input(defaults: Any, message: str) -> None:
    program, _, _, O = attention()
    with pytest.raises(StatementError, match=f"kernel defaults: {message}"):
        program.kernel(O, wrt=[X], defaults=defaults)


def test_the_default_of_a_flag_is_a_truth_value() -> None:
    program, _, _, O = attention()
    program.inputs = [flag("causal")]
    with pytest.raises(StatementError, match="causal: expected True or False, found 1"):
        program.kernel(O, wrt=[X], defaults={"causal": 1})


@pytest.mark.parametrize("typical", [{T: "a"}, {T: 0}, {T: 2.5}, {X: 3}])
def test_a_usual_size_is_a_positive_integer(typical: Any) -> None:
    program, _, _, O = attention()
    with pytest.raises(StatementError, match="kernel typical: "):
        program.kernel(O, wrt=[X], typical=typical)


def test_a_kernel_is_not_differentiated_for_what_it_computes() -> None:
    """The kernel asked for its gradient and had none."""
    program, S, _, O = attention()
    for defined in (S, O):
        with pytest.raises(StatementError, match=f"kernel wrt: expected inputs, found {defined.name}, "):
            program.kernel(O, wrt=[X, defined])


# ---------------------------------------------------------------------------------------------------------------------
# Gradients.


def test_a_gradient_is_a_program_with_named_adjoints() -> None:
    program, _, A, O = attention()
    g = program.gradient(O)
    assert isinstance(g, Gradient)
    assert g.forward is program
    assert g.names() == ["S", "A", "O", "dA", "dS", "dX", "dW", "ds"]
    assert (g.adjoint(A), g.adjoint(X), g.upstream) == (g["dA"], g["dX"], g["dO"])
    assert program.names() == ["S", "A", "O"]
    assert [symbol.name for symbol in g.all_inputs()][:2] == ["X", "dO"]


def test_adjoints_are_written_with_names_at_hand() -> None:
    program, _, A, O = attention()
    g = program.gradient(O)
    dA, dO = g["dA"], g["dO"]
    assert g.definition("dA").body == Sum(W[j, a] * dO[i, a], a)  # type: ignore[union-attr]
    folded = g.definition("dS").body.atoms(type(A))  # type: ignore[union-attr]
    assert {A, dA} == folded


def test_only_the_wanted_adjoints_are_computed() -> None:
    program, _, _, O = attention()
    assert set(program.gradient(O, wrt=[W]).adjoints) == {"O", "W"}
    assert set(program.gradient(O, wrt=[X]).adjoints) == {"O", "A", "S", "X"}


def test_the_upstream_gradient_may_have_another_name() -> None:
    program, _, _, O = attention()
    g = program.gradient(O, upstream="seed")
    assert g.upstream.name == "seed"  # type: ignore[union-attr]
    assert g["seed"].shape == (T, d)


def test_integers_have_no_adjoint() -> None:
    program = Program("embedding")
    g = program.gradient(program.define("o", [i, a], E[token[i], a] * scalar("count", integer=True)))
    assert set(g.adjoints) == {"o", "E"}


def test_an_input_used_twice_has_one_adjoint() -> None:
    program = Program("twice")
    h = program.define("h", [i], x[i] ** 2)
    o = program.define("o", [], Sum(h[i] * x[i], i))
    g = program.gradient(o)
    assert g.names().count("dx") == 1
    assert prove(g.claim("c", g["dx"][i], 3 * x[i] ** 2 * g["do"])).status == PROVED


def test_what_the_output_does_not_need_is_left_out() -> None:
    program = Program("branches")
    h = program.define("h", [i], x[i] ** 2)
    program.define("unused", [i], exp(y[i]))
    g = program.gradient(program.define("o", [], Sum(h[i], i)))
    assert "dy" not in g.names()
    assert "dunused" not in g.names()


def test_the_gradient_of_a_gradient_is_a_hessian_vector_product() -> None:
    program = Program("quadratic")
    o = program.define("o", [], Sum(x[i] * X[i, j] * x[j], i, j))
    first = program.gradient(o, wrt=[x])
    second = first.gradient(first["dx"], wrt=[x], prefix="h")
    seed = second["hdx"]
    expected = first["do"] * Sum((X[i, j] + X[j, i]) * seed[j], j)
    assert prove(second.claim("c", second["hx"][i], expected)).status == PROVED


def test_a_jacobian_is_a_program() -> None:
    program = Program("vector")
    P = program.define("P", [i], softmax(x[i], over=i))
    jacobian = program.jacobian(P, x)
    assert jacobian.names() == ["P", "dP_dx"]
    assert prove(jacobian.claim("c", jacobian["dP_dx"][i, j], P[i] * (delta(i, j) - P[j]))).status == PROVED


def test_a_tangent_is_a_program() -> None:
    program = Program("vector")
    P = program.define("P", [i], softmax(x[i], over=i))
    tangent = program.tangent(P, [x])
    tx = tangent["tx"]
    expected = P[i] * (tx[i] - Sum(P[j] * tx[j], j))
    assert prove(tangent.claim("c", tangent["tP"][i], expected)).status == PROVED


def test_total_and_partial_derivatives() -> None:
    program = Program("chain")
    h = program.define("h", [i], x[i] ** 2)
    value = h[i] * x[i]
    assert program.partial(value, x[j]) == delta(i, j) * h[i]
    total = program.claim("c", program.derivative(value, x[j]), 3 * delta(i, j) * x[i] ** 2)
    assert prove(total).status == PROVED


# ---------------------------------------------------------------------------------------------------------------------
# Exceptional points.


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (relu(x[i]), "switches"),
        (Max(x[i], y[i]), "switches"),
        (where(x[i] > s, x[i], 0), "switches"),
    ],
    ids=str,
)
def test_kinks_are_listed(body: Any, words: str) -> None:
    program = Program("kink")
    g = program.gradient(program.define("o", [i], body))
    assert any(words in hypothesis for hypothesis in g.assumptions)
    verdict = prove(g.claim("c", g["dx"][i], g["dx"][i]))
    assert any(words in hypothesis for hypothesis in verdict.hypotheses)


def test_masks_over_indices_are_no_kinks() -> None:
    program = Program("mask")
    g = program.gradient(program.define("o", [i], Sum(X[i, j] * iverson(j <= i), j)))
    assert g.assumptions == []


# ---------------------------------------------------------------------------------------------------------------------
# Writing definitions in.


def test_inline_writes_definitions_in_without_capture() -> None:
    program = Program("capture")
    h = program.define("h", [i], Sum(X[i, j] * x[j], j))
    outer = Sum(h[j] * y[j] * h[i], j)
    written = inline(outer, program)
    assert h not in written.atoms(type(x))
    rows = Sum(X[k, i] * x[i], i), Sum(X[i, k] * x[k], k)
    ledger = Ledger()
    by_hand = Sum(rows[0] * y[k], k) * rows[1]
    assert is_zero(ledger, normal_form(ledger, written) - normal_form(ledger, by_hand))


def test_inline_keeps_what_it_is_told_to() -> None:
    program, S, A, O = attention()
    assert A in inline(O[i, a], program, frozenset({A})).atoms(type(A))
    assert S not in inline(O[i, a], program).atoms(type(S))


def test_dependencies() -> None:
    program, S, A, O = attention()
    assert {S, A, O, X, W, s} == depends_on(program, O)
    assert {S, X, s} == depends_on(program, S)
    assert {W, O} == influenced_by(program, [W])
    assert {X, S, A, O} == influenced_by(program, [X])


def test_an_upstream_name_that_is_taken_is_refused() -> None:
    # The gradient with respect to an input dy of an output y would otherwise be mixed up with the seed dy.
    program = Program("clash")
    output = program.define("y", [], s * scalar("dy"))
    with pytest.raises(StatementError, match="dy"):
        program.gradient(output)
    assert program.gradient(output, upstream="seed")["ds"] is not None


def test_roots_at_zero() -> None:
    # |x|^2 has a derivative where |x| has none.
    program = Program("length")
    length = program.define("length", [], sqrt(Sum(x[i] ** 2, i)))
    g = program.gradient(program.define("o", [], length**2 / 2))
    assert prove(g.claim("c", g["dx"][i], g["do"] * x[i])).status == PROVED


def test_scaling_by_a_log_of_a_sum() -> None:
    program = Program("scale")
    total = program.define("total", [], log(Sum(exp(x[i]), i)) * Rational(1, 2))
    g = program.gradient(program.define("o", [i], x[i] * sigmoid(total)))
    assert g.names() == ["total", "o", "dtotal", "dx"]

"""What the algebraic passes find in programs of the library, and in ones that spell the same with other letters."""

from __future__ import annotations

from functools import cache

import pytest
import sympy
from sympy import Rational, exp, sqrt

from codegen.algebra import constants
from codegen.algebra.costs import LEADING, LONG, SHORT, entries, typical_sizes
from codegen.algebra.networks import names_in, readings, terms_of
from codegen.algebra.ordering import cheapest, scaled_place
from codegen.algebra.trace import Trace, _traced, asked_of, explained, told, traced
from codegen.printing.emission import kernel_file
from derive.errors import BudgetExceededError
from derive.functions import mean, softmax
from derive.language import Sum, dims, index, indices, leading_index, scalar, tensor
from derive.library import load
from derive.program import Program
from derive.statements import Definition

LIBRARY = {program.name: program for program in load()}


@cache
def trace_of(name: str) -> Trace:
    return traced(LIBRARY[name])


def final(name: str) -> dict[str, Definition]:
    return {definition.name: definition for definition in trace_of(name).backward[-1].definitions}


def inner_sums(definition: Definition) -> list[sympy.Sum]:
    return sorted(definition.body.atoms(sympy.Sum), key=str)


# -- the row sum of dA * A is that of dO * O --------------------------------------------------------------------------

ATTENTION = {
    "attention": "dS", "attention_masked": "dS", "attention_padding": "dS", "attention_window": "dS",
    "attention_alibi": "dS", "attention_grouped": "dS", "attention_softcap": "dU", "attention_block": "dS",
    "self_attention": "dZ",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ATTENTION))
def test_the_row_sum_is_read_from_the_output(name: str) -> None:
    (total,) = inner_sums(final(name)[ATTENTION[name]])
    assert names_in(total) == {"O", "dO"}


def test_a_chain_of_factors_meets_in_one_formula() -> None:
    """The soft cap: dt = dS cap and dU = (1 - t^2) dt / cap become one pass, in which the cap cancels."""
    made = final("attention_softcap")
    assert not {"dS", "dt"} & set(made)
    assert "cap" not in names_in(made["dU"].body)


def renamed_attention() -> Program:
    """The same derivation in other letters, written as one softmax of three factors."""
    X, Y, f, g, w = dims("X Y f g w")
    m = leading_index("m", w)
    p, q = index("p", X), index("q", Y)
    u, v = index("u", f), index("v", g)
    left, right, values = tensor("left", w, X, f), tensor("right", w, Y, f), tensor("values", w, Y, g)
    program = Program("mixture", "a mixture of values", [left, right, values])
    logits = program.define("logits", [m, p, q], Sum(left[m, p, u] * right[m, q, u], u) / sqrt(f))
    shares = program.define("shares", [m, p, q], softmax(logits[m, p, q], over=q))
    mixed = program.define("mixed", [m, p, v], Sum(values[m, q, v] * shares[m, p, q], q))
    program.kernel(mixed, wrt=[left, right, values])
    return program


def test_nothing_goes_by_names() -> None:
    trace = traced(renamed_attention())
    made = {definition.name: definition for definition in trace.backward[-1].definitions}
    (total,) = inner_sums(made["dlogits"])
    assert names_in(total) == {"mixed", "dmixed"}
    assert trace.sizes == {"X": LONG, "Y": LONG, "f": SHORT, "g": SHORT, "w": LEADING}


# -- norms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "left"), [("layer_norm", {"dxhat", "dx", "dgamma", "dbeta"}),
                                            ("batch_norm", {"dx", "dgamma", "dbeta"}),
                                            ("rms_norm", {"dx", "dgamma"}), ("layer_norm_std", {"dx"})])  # fmt: skip
def test_norms_need_no_second_array(name: str, left: set[str]) -> None:
    assert set(final(name)) == left


def test_batch_norm_reads_the_sums_of_its_other_gradients() -> None:
    """Two reductions over the batch in all: dx is made from dgamma and dbeta."""
    dx = final("batch_norm")["dx"]
    assert not inner_sums(dx)
    assert {"dgamma", "dbeta"} <= names_in(dx.body)


def test_a_row_of_layer_norm_has_two_sums() -> None:
    dx = final("layer_norm")["dx"]
    assert [names_in(total) for total in inner_sums(dx)] == [{"dxhat"}, {"dxhat", "xhat"}]
    assert "xc" not in names_in(dx.body)  # not saved either


def test_rms_norm_reads_its_output() -> None:
    (total,) = inner_sums(final("rms_norm")["dx"])
    assert names_in(total) == {"y", "dy"}


def test_the_sum_of_a_softmax_is_one() -> None:
    """Distillation: Sum_v q = 1, and what is left is p - q."""
    assert not any(names_in(total) <= {"q"} for total in inner_sums(final("distillation")["dz"]))


def test_a_question_that_exceeds_its_budget_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise BudgetExceededError("the time is used up")

    monkeypatch.setattr(constants, "proof_of", give_up)
    stages = traced(LIBRARY["distillation"]).backward
    asked = final("distillation")
    assert {definition.name for definition in stages[-1].definitions} >= set(
        asked
    )  # no less is computed, nothing fails


def test_a_sum_that_an_empty_index_set_would_change_is_no_constant() -> None:
    (n,) = dims("n")
    i, j = indices("i j", n)
    x, keep = tensor("x", n, n), tensor("keep", n, n, into=2)
    masked = Program("masked", "a masked softmax, and its sum", [x, keep])
    A = masked.define("A", [i, j], softmax(x[i, j], over=j, where=keep[i, j] > 0))
    B = masked.define("B", [i, j], A[i, j] * 2)
    C = masked.define("C", [i], Sum(B[i, j] ** 2, j))
    masked.kernel(C, wrt=[x])
    dx = traced(masked).backward[-1].definitions[-1]
    assert all(len(names_in(total)) > 1 for total in inner_sums(dx))


# -- scales, look-ups -------------------------------------------------------------------------------------------------


def test_scales_go_into_the_rows() -> None:
    made = {definition.name: definition for definition in trace_of("attention").forward[-1].definitions}
    assert isinstance(made["S"].body, sympy.Sum)  # the scale is inside
    assert isinstance(final("attention")["dK"].body, sympy.Sum)
    assert isinstance(final("attention")["dQ"].body, sympy.Mul)  # the rows are those of the result


def test_scaled_place_prefers_rows_to_what_every_block_would_scale_again() -> None:
    T, d, R = dims("T d R")
    i, j, a, r = index("i", T), index("j", T), index("a", d), index("r", R)
    sizes = {"T": 1000, "d": 10, "R": 4}
    assert scaled_place([(r, i, a), (j, a)], (r, i, j), sizes) == 0
    assert scaled_place([(j, a), (r, i, j)], (r, i, a), sizes) is None


def test_a_look_up_that_occurs_again_is_added_in_place() -> None:
    text = kernel_file(LIBRARY["info_nce_paired"], "numpy")
    backward = text[text.index("def info_nce_paired_backward") :]
    assert "partner" in backward
    assert "== partner" not in backward
    assert "!= partner" not in backward


def test_a_diagonal_is_added_in_place() -> None:
    assert "eye" not in kernel_file(LIBRARY["info_nce"], "numpy")


# -- the parts --------------------------------------------------------------------------------------------------------


def test_exponentials_are_not_taken_apart() -> None:
    """exp(-x)/(1 + exp(-x)) is at most 1; a common factor 1/(1 + exp(-x)) would leave exp(-x) alone."""
    (n,) = dims("n")
    i = index("i", n)
    x, w = tensor("x", n), tensor("w", n)
    gated = Program("gated", "a gate", [x, w])
    s = gated.define("s", [i], 1 / (1 + exp(-x[i])))
    y = gated.define("y", [i], w[i] * x[i] * s[i])
    gated.kernel(y, wrt=[x, w])
    for definition in traced(gated).backward[-1].definitions:
        for factor in sympy.preorder_traversal(definition.body):
            if isinstance(factor, sympy.exp):
                products = [p for p in sympy.preorder_traversal(definition.body) if factor in p.args]
                assert all(isinstance(p, (sympy.Mul, sympy.Add)) for p in products)


def test_a_difference_from_a_mean_is_not_multiplied_out() -> None:
    """Sum((x - mu) * dy) is small where x is large; Sum(x * dy) - mu * Sum(dy) is a difference of large numbers."""
    N, G, C = dims("N G C")
    n = leading_index("n", N)
    g, c = index("g", G), index("c", C)
    x, gain, eps = tensor("x", N, G, C), tensor("gain", G), scalar("eps", positive=True)
    program = Program("grouped_norm", "norm of groups", [x, gain, eps])
    mu = program.define("mu", [n, g], mean(x[n, g, c], over=c))
    var = program.define("var", [n, g], mean((x[n, g, c] - mu[n, g]) ** 2, over=c))
    y = program.define("y", [n, g, c], gain[g] * (x[n, g, c] - mu[n, g]) / sqrt(var[n, g] + eps))
    program.kernel(y, wrt=[x, gain])
    (slope,) = (d for d in traced(program).backward[-1].definitions if d.name == "dgain")
    assert any(
        {names_in(term) for term in total.args} == {frozenset({"x"}), frozenset({"mu"})}
        for total in slope.body.atoms(sympy.Add)
    )


def test_a_part_is_read_only_where_its_sums_are_its_own() -> None:
    T, d = dims("T d")
    i, j = indices("i j", T)
    c = index("c", d)
    A, V, W = tensor("A", T, T), tensor("V", T, d), tensor("W", T)
    program = Program("parts", "", [A, V, W])
    O = program.define("O", [i, c], Sum(A[i, j] * V[j, c], j))
    known = program.definitions[0]
    (form,) = terms_of(known.body)
    (whole,) = terms_of(Sum(A[i, j] * V[j, c] * W[i], j))
    (more,) = terms_of(Sum(A[i, j] * V[j, c] * W[j], j))
    assert [term.expression for term in readings(whole, known, form)] == [O[i, c] * W[i]]
    assert not list(readings(more, known, form))  # j is summed over W, too


def test_the_cheapest_order_of_a_chain() -> None:
    """(A B) v costs far more than A (B v)."""
    (n,) = dims("n")
    i, j, k = indices("i j k", n)
    sizes = {"n": 100}
    order = cheapest([frozenset({i, j}), frozenset({j, k}), frozenset({k})], frozenset({j, k}), sizes)
    assert order.pairs[0] == (1, 2)
    assert not order.cost.products.terms  # matrix times vector, twice
    assert str(entries([i, j])) == "n*n"


def test_declared_sizes_go_first() -> None:
    program = renamed_attention()
    assert typical_sizes(program)["X"] == LONG
    program.kernel(program["mixed"], wrt=[program["left"]], typical={"X": 7})
    assert typical_sizes(program)["X"] == 7


def test_comments_say_by_which_identity() -> None:
    comments = told(trace_of("attention").backward)
    assert "Sum_j_2(A[b,i,j_2]*dA[b,i,j_2])" in comments["dS"].formula
    assert comments["dS"].because == "Sum_j_2(A[b,i,j_2]*dA[b,i,j_2]) = Sum_c(O[b,i,c]*dO[b,i,c])"
    assert "dxc, dmu written in" in told(trace_of("layer_norm").backward)["dx"].because
    text = kernel_file(LIBRARY["attention"], "numpy")
    assert "by Sum_j_2(A[b,i,j_2]*dA[b,i,j_2]) = Sum_c(O[b,i,c]*dO[b,i,c])" in " ".join(text.split())


def test_the_explanation_tells_costs_and_what_is_gone() -> None:
    lines = list(explained(trace_of("layer_norm")))
    assert "    no longer computed: dr, dxc, dmu" in lines
    assert any(line.startswith("      by ") and line.endswith("= 0") for line in lines)
    assert sum("was" in line for line in lines) >= 2


def test_the_whole_is_a_value() -> None:
    asked = asked_of(LIBRARY["layer_norm"])
    assert _traced.__wrapped__(asked) == _traced.__wrapped__(asked)


def test_a_norm_in_other_letters() -> None:
    """A norm over groups, whose statement shares no name with the library's."""
    B, G, k = dims("B G k")
    s = leading_index("s", B)
    g, e = index("g", G), index("e", k)
    data, gain = tensor("data", B, G, k), tensor("gain", G)
    tiny = scalar("tiny", positive=True)
    program = Program("group", "a norm over groups", [data, gain, tiny])
    centre = program.define("centre", [s, g], mean(data[s, g, e], over=e))
    apart = program.define("apart", [s, g, e], data[s, g, e] - centre[s, g])
    inverse = program.define("inverse", [s, g], (mean(apart[s, g, e] ** 2, over=e) + tiny) ** Rational(-1, 2))
    unit = program.define("unit", [s, g, e], apart[s, g, e] * inverse[s, g])
    out = program.define("out", [s, g, e], unit[s, g, e] * gain[g])
    program.kernel(out, wrt=[data, gain], defaults={tiny: 1e-5})
    made = {definition.name for definition in traced(program).backward[-1].definitions}
    assert "dapart" not in made

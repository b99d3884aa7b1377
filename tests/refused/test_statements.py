"""Ill-formed input is refused on the spot, by a message that names the object and says what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import sympy
from sympy import Eq, Function, I, IndexedBase, KroneckerDelta, Piecewise, Symbol, exp, symbols

from derive.errors import StatementError
from derive.functions import Defined, logsumexp, mean, relu, softmax
from derive.language import (
    Dim,
    Flag,
    Index,
    Product,
    Scalar,
    Sum,
    Tensor,
    delta,
    dim,
    dims,
    flag,
    implies,
    index,
    indices,
    iverson,
    leading_index,
    lengths,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.matrices import matrices, matrix
from derive.operators import expectation
from derive.program import Program

T, d, N = dims("T d N")
i, j, k = indices("i j k", T)
a, b = indices("a b", d)
n, m = indices("n m", N)
L = lengths("L", N)
t = index("t", L[n])
x, y = tensors("x y", T)
X = tensor("X", T, T)
W = tensor("W", T, d)
R = tensor("R", N, L)
token = tensor("token", T, into=d)
s = scalar("s")
f = flag("f")


def defined(*definitions: tuple[str, list[Any], Any]) -> Program:
    program = Program("statement")
    for name, over, body in definitions:
        program.define(name, over, body)
    return program


def claimed(left: Any, right: Any, **options: Any) -> Any:
    return Program("statement").claim("c", left, right, **options)


REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    # -- indices that are free on one side only
    "an index that is free in the body": (
        lambda: defined(("o", [i], X[i, j])),
        ("definition o[i]", "index j", "free on the right side only", "[i]"),
    ),
    "an index that the body does not have": (
        lambda: defined(("o", [i, j], x[i])),
        ("definition o[i, j]", "index j", "on the left side only"),
    ),
    "a free index in a number": (lambda: defined(("o", [], x[i])), ("definition o", "index i", "right side only")),
    "a claim with an index on the right": (
        lambda: claimed(x[i], X[i, j]),
        ("claim c", "index j", "free on the right side only"),
    ),
    "a claim with an index on the left": (lambda: claimed(X[i, j], x[i]), ("claim c", "index j", "left side only")),
    "a claim over fewer indices": (lambda: claimed(X[i, j], x[i], over=[i]), ("claim c", "index j")),
    "an index of a range that is not given": (lambda: defined(("o", [t], R[n, t])), ("index n", "right side only")),
    # -- sizes
    "an axis of another size": (lambda: W[a, i], ("W[a, i]", "axis 0", "extent T", "a runs over d")),
    "an index with two sizes": (
        lambda: claimed(x[i], tensor("z", d)[index("i", d)]),
        ("claim c", "index i is used with two extents", "T", "d"),
    ),
    "an index that is leading and is not": (
        lambda: claimed(x[i], x[leading_index("i", T)]),
        ("claim c", "index i is used as a leading index and as one that is not", "rename one"),
    ),
    "an index with two sizes in one body": (
        lambda: defined(("o", [i], x[i] * Sum(tensor("z", d)[index("i", d)], index("i", d)))),
        ("definition o[i]", "index i", "two extents"),
    ),
    "a tensor with two shapes": (
        lambda: claimed(x[i], tensor("x", d)[a] * y[i], over=[i, a]),
        ("claim c", "the name x is used for", "shape (T)", "shape (d)"),
    ),
    "too few indices": (lambda: X[i], ("X[i]", "2 axes", "found 1")),
    "too many indices": (lambda: x[i, j], ("x[i, j]", "1 axes", "found 2")),
    "a negative position": (lambda: x[-1], ("x[-1]", "axis 0")),
    "a position that is a number": (lambda: x[s], ("x[s]", "axis 0", "neither an index nor")),
    "an entry of numbers as a position": (lambda: x[y[i]], ("x[y[i]]", "axis 0")),
    "a look-up into another size": (lambda: x[token[i]], ("x[token[i]]", "extent T", "runs over d")),
    "a ragged range of another row": (lambda: R[m, t], ("R[m, t]", "axis 1", "L[m]", "L[n]")),
    "a delta between two ranges": (
        lambda: delta(i, a),
        ("delta(i, a)", "i runs over T", "a runs over d", "iverson(Eq(i, a))"),
    ),
    "SymPy's delta between two ranges": (
        lambda: defined(("o", [i, a], KroneckerDelta(i, a))),
        ("definition o[i, a]", "size mismatch"),
    ),
    "matrices that do not fit": (
        lambda: matrix(W) @ matrix(X),
        ("W @ X", "W has d columns", "X has T rows"),
    ),
    "matrices of two shapes added": (lambda: matrix(W) + matrix(X), ("W + X", "W is T x d", "X is T x T")),
    "matrices of two shapes compared": (
        lambda: claimed(matrix(W), matrix(W).T),
        ("claim c", "W is T x d", "W.T is d x T"),
    ),
    "a matrix compared with a number": (lambda: claimed(matrix(W), s), ("claim c", "matrix", "found s")),
    "a vector as a matrix": (lambda: matrix(x), ("matrix(x)", "two axes")),
    # -- binding
    "an index bound inside its own sum": (
        lambda: defined(("o", [], Sum(x[i] * Sum(y[i], i), i))),
        ("definition o", "index i is bound twice", "rename"),
    ),
    "an index bound by a sum and a mean": (
        lambda: defined(("o", [], Sum(x[i] * mean(y[i], over=i), i))),
        ("index i is bound twice",),
    ),
    "an index bound twice by one sum": (lambda: defined(("o", [], Sum(x[i], i, i))), ("index i is bound twice",)),
    "a sum over half a range": (
        lambda: defined(("o", [], sympy.Sum(x[i], (i, 0, T / 2)))),
        ("definition o", "index i runs over 0 .. T - 1", "where("),
    ),
    "a sum that starts at one": (
        lambda: defined(("o", [], sympy.Sum(x[i], (i, 1, T - 1)))),
        ("index i runs over", "found 1 .. T - 1"),
    ),
    "a sum up to an index": (lambda: defined(("o", [j], sympy.Sum(x[i], (i, 0, j)))), ("index i runs over",)),
    "a sum over a symbol from outside": (
        lambda: defined(("o", [], sympy.Sum(s, (Symbol("q"), 0, T - 1)))),
        ("expected an index made by index(...)", "found q"),
    ),
    "a sum over nothing": (lambda: Sum(x[i]), ("Sum(x[i])", "at least one index")),
    "a product over nothing": (lambda: Product(x[i]), ("Product(x[i])", "at least one index")),
    "a sum over a size": (lambda: Sum(x[i], T), ("Sum", "expected an index", "T")),
    "a softmax over a size": (lambda: softmax(x[i], over=T), ("softmax(x[i])", "over=", "T")),
    # -- names
    "a size that is no identifier": (lambda: dim("2T"), ("size '2T'", "identifier")),
    "an index that is a keyword": (lambda: index("lambda", T), ("index 'lambda'", "keyword")),
    "a tensor that is a keyword": (lambda: tensor("for", T), ("tensor 'for'",)),
    "a scalar with an underscore": (lambda: scalar("_s"), ("scalar '_s'", "underscore")),
    "a scalar that is not ASCII": (lambda: scalar("ε"), ("scalar 'ε'", "ASCII")),
    "a flag with a blank": (lambda: flag("is causal"), ("flag 'is causal'",)),
    "a name that is code": (lambda: tensor("x; import os", T), ("tensor 'x; import os'",)),
    "a name that is no string": (lambda: scalar(3), ("scalar", "string", "3")),  # type: ignore[arg-type]
    "no name": (lambda: scalars(" "), ("scalar", "at least one name")),
    "a program with a blank": (lambda: Program("my program"), ("program 'my program'",)),
    "a definition that is a keyword": (lambda: defined(("if", [], s)), ("definition 'if'",)),
    "a name defined twice": (
        lambda: defined(("o", [i], x[i]), ("o", [i], y[i])),
        ("definition o[i]", "name o is taken"),
    ),
    "a definition named like an input": (lambda: defined(("x", [i], x[i])), ("definition x[i]", "x is taken")),
    "an index twice on the left": (lambda: defined(("o", [i, i], X[i, i])), ("definition o[i, i]", "stands twice")),
    "a symbol on the left": (
        lambda: Program("statement").define("o", [Symbol("i")], s),  # type: ignore[list-item]
        ("definition o[i]", "expected indices"),
    ),
    "a name of two kinds": (
        lambda: defined(("o", [], s * Sum(tensor("s", T)[i], i))),
        ("the name s is used for a", "scalar", "tensor"),
    ),
    "a size and a scalar of one name": (
        lambda: claimed(Sum(1, i), scalar("T")),
        ("claim c", "the name T is used for", "size", "scalar"),
    ),
    "a size and an index of one name": (
        lambda: claimed(Sum(1, i) * index("T", d), index("T", d)),
        ("claim c", "the name T is used for", "size", "index"),
    ),
    # -- what is not of the language
    "an unknown function": (
        lambda: defined(("o", [i], Function("swish")(x[i]))),
        ("definition o[i]", "unknown function swish", "known are", "softmax", "tanh"),
    ),
    "a function that the language leaves out": (
        lambda: defined(("o", [], sympy.gamma(s))),
        ("unknown function gamma",),
    ),
    "an unknown function with a definition": (
        lambda: defined(("o", [i], x[i] + _unknown())),
        ("sparsemax", "known are"),
    ),
    "a symbol from outside": (
        lambda: defined(("o", [], s * Symbol("q"))),
        ("definition o", "q: unknown symbol", "scalar(...)"),
    ),
    "a tensor from outside": (
        lambda: defined(("o", [i], IndexedBase("Q")[i])),
        ("definition o[i]", "Q", "tensor(...)", "no sizes"),
    ),
    "an index from outside": (lambda: x[symbols("q", integer=True)], ("x[q]", "axis 0", "index(...)")),
    "a complex number": (lambda: defined(("o", [], I * s)), ("definition o", "I", "real")),
    "an infinity": (lambda: defined(("o", [], s + sympy.oo)), ("definition o", "no real number")),
    "a mask that adds an infinity": (
        lambda: defined(("o", [i], softmax(where(x[i] > 0, x[i], -math.inf), over=i))),
        ("definition o[i]", "-oo: no real number", "softmax(x[i, j], over=j, where="),
    ),
    "a transpose of a tensor": (lambda: X.T, ("X.T", "X[j, i]", "matrix(X).T")),
    "a matrix of SymPy's": (lambda: defined(("o", [], sympy.MatrixSymbol("M", 2, 2))), ("definition o", "M")),
    "a derivative that is not carried out": (
        lambda: defined(("o", [], sympy.Derivative(Function("f")(s), s))),
        ("definition o", "Derivative"),
    ),
    "an integral": (lambda: defined(("o", [], sympy.Integral(s, (s, 0, 1)))), ("definition o", "Integral")),
    "cases that leave something out": (
        lambda: defined(("o", [], Piecewise((s, s > 0)))),
        ("definition o", "no branch covers the remaining cases", "(value, True)"),
    ),
    "text for an expression": (lambda: defined(("o", [], "s + 1")), ("s + 1",)),
    # -- sizes and shapes of inputs
    "a tensor without axes": (lambda: tensor("x"), ("tensor 'x'", "scalar(...)")),
    "a size that is zero": (lambda: index("i", 0), ("index 'i'", "positive integer", "found 0")),
    "a size that is a number": (lambda: tensor("x", 1.5), ("tensor 'x'", "found 1.5")),
    "a size that is a truth value": (lambda: index("i", True), ("index 'i'", "found True")),
    "a size that is an expression": (lambda: index("i", 2 * T), ("index 'i'", "found 2*T")),
    "a size that is a scalar": (lambda: index("i", s), ("index 'i'", "found s")),
    "an entry of an index tensor as a range": (lambda: index("t", token[i]), ("index 't'", "found token[i]")),
    "an axis of one row's length": (lambda: tensor("z", L[n]), ("tensor 'z'", "same for all indices", "found L[n]")),
    "look-ups below one row's length": (
        lambda: tensor("z", N, into=L[n]),
        ("tensor 'z'", "same for all indices", "found L[n]"),
    ),
    "a sum of a condition": (lambda: Sum(i < j, i), ("Sum: expected a value", "the condition i < j", "iverson(i < j)")),
    "a sum of a truth value": (lambda: Sum(True, i), ("Sum: expected a value", "the condition True")),
    "a product of a condition": (lambda: Product(i < j, i), ("Product: expected a value", "the condition i < j")),
    "a mean of a condition": (lambda: mean(i < j, over=i), ("mean: expected a value", "iverson(i < j)")),
    "relu of a condition": (lambda: relu(i < j), ("relu: expected a value", "the condition i < j")),
    "a condition as a definition": (
        lambda: defined(("o", [i, j], i < j)),
        ("definition o[i, j]", "i < j is a condition, not a value", "iverson(...)"),
    ),
    "an exponential of a condition": (
        lambda: defined(("o", [i, j], exp(i < j))),
        ("exp(i < j): expected a value", "found the condition i < j", "iverson(i < j)"),
    ),
    "an equality of conditions": (
        lambda: defined(("o", [i, j], where(Eq(i < j, x[i] > 0), 1))),
        ("expected a value, found the condition", "iverson"),
    ),
    "a flag as a factor": (lambda: defined(("o", [i], f * x[i])), ("f*x[i]: expected a value", "the condition f")),
    "a number as a condition": (
        lambda: defined(("o", [i], where(y[i], x[i], 0))),
        ("where(y[i], x[i], 0): expected a condition", "found the value y[i]", "compare it, as in y[i] > 0"),
    ),
    "an index tensor as a bracket": (
        lambda: claimed(iverson(token[i]) * x[i], x[i]),
        ("expected a condition, found the value token[i]",),
    ),
    "a mask of numbers": (
        lambda: defined(("o", [i], softmax(x[i], over=i, where=y[i]))),
        ("where=y[i]): expected a condition", "y[i] > 0"),
    ),
    "a number negated as a condition": (
        lambda: claimed(iverson(sympy.Not(x[i])), 1),
        ("~x[i]: expected a condition",),
    ),
    "a condition as a branch": (lambda: where(i < j, j < i, 1), ("where: expected a value", "the condition")),
    "lengths and a tensor of one name": (
        lambda: claimed(Sum(x[i], i), Sum(tensor("L", N, positive=True)[n] * L[n], n)),
        ("claim c", "the name L is used for", "a tensor of shape (N), positive", "lengths of shape (N)"),
    ),
    "a kernel of an expression": (
        lambda: defined(("o", [i], x[i] ** 2)).kernel(x[i] ** 2),
        ("statement: kernel output", "a tensor or a scalar", "x[i]**2"),
    ),
    "a kernel for an entry": (
        lambda: (p := defined(("o", [i], x[i] ** 2))).kernel(p["o"], wrt=[x[i]]),
        ("statement: kernel wrt", "a tensor or a scalar", "x[i]"),
    ),
    "lengths of another row's length": (lambda: lengths("M", L[n]), ("lengths 'M'", "found L[n]")),
    "an index made by hand over an expression": (lambda: Index("i", T - 1), ("index 'i'", "found T - 1")),
    "an index made by hand with a name of the machinery": (lambda: Index("~000001", T), ("index '~000001'",)),
    "an exponent beyond all bounds": (
        lambda: defined(("o", [], (1 + s) ** 10**9)),
        ("definition o", "exponent of at most 1000000"),
    ),
    "a hypothesis that never holds": (
        lambda: claimed(x[i], y[i], given=[Eq(exp(s), 0)]),
        ("claim c", "hypothesis 1 never holds"),
    ),
    "an entry that is no length": (lambda: index("t", tensor("z", N)[n]), ("index 't'", "found z[n]")),
    # -- lists and truth values
    "a comparison that Python answers": (lambda: where(i == j, x[i], 0), ("where", "Python's False", "Eq(i, j)")),
    "a bracket of what Python answers": (lambda: iverson(i != j), ("Python's True", "Ne(i, j)")),
    "a mask that Python answers": (
        lambda: softmax(x[j], over=j, where=i == j),
        ("softmax(x[j]): where=", "Python's False", "Eq(i, j)"),
    ),
    "an implication that Python answers": (lambda: implies(i == j, x[i] > 0), ("implies", "Python's False")),
    "a hypothesis that Python answers": (
        lambda: claimed(x[i], x[j], given=[i == j]),
        ("claim c: given=", "Python's False", "Eq(i, j)"),
    ),
    "a claim that Python answers": (
        lambda: Program("statement").claim_that("c", x[i] != y[i]),
        ("claim c", "Python's True", "Ne(i, j)"),
    ),
    "a tensor as a list of inputs": (lambda: Program("p", inputs=x), ("p: inputs", "a list of tensors", "found x")),
    "a text among the inputs": (lambda: Program("p", inputs=["x"]), ("p: inputs", "expected tensors", "found 'x'")),
    "an index as a list of indices": (
        lambda: defined(("o", i, x[i])),  # type: ignore[arg-type]
        ("definition o", "a list of indices", "found i"),
    ),
    "a claim over an index": (lambda: claimed(x[i], 0, over=i), ("claim c: over=", "a list of indices", "found i")),
    "a gradient for a tensor that is no list": (
        lambda: defined(("o", [i], x[i])).gradient(tensor("o", T), x),
        ("gradient wrt", "a list of names", "found x"),
    ),
    "a tangent for a tensor that is no list": (
        lambda: (p := defined(("o", [i], x[i]))).tangent(p["o"], x),
        ("tangent wrt", "a list of names", "found x"),
    ),
    "a kernel for a tensor that is no list": (
        lambda: (p := defined(("o", [i], x[i]))).kernel(p["o"], wrt=x),
        ("kernel wrt", "a list of names", "found x"),
    ),
    "an expectation over a tensor that is no list": (
        lambda: expectation(x[i], over=x),
        ("expectation(x[i]): over=", "a list of tensors", "found x"),
    ),
    "a Jacobian for a text": (
        lambda: (p := defined(("o", [i], x[i]))).jacobian(p["o"], "x"),
        ("jacobian", "a tensor or a scalar", "'x'"),
    ),
    "sizes that are no text": (lambda: dims(3), ("size", "names in one string", "found 3")),
    "a delta with a text": (lambda: delta(i, "j"), ("delta", "expected an expression", "found 'j'")),
    "a number of more digits than anybody reads": (lambda: claimed(s, 10**100_000), ("claim c", "bits", "scalar(...)")),
    "a matrix times a tensor": (lambda: matrix(X) @ x, ("X @ x", "expected a matrix")),
    "a matrix at one index": (lambda: matrix(X)[i], ("X[i]", "expected two indices")),
    # -- gradients and kernels
    "the gradient of something undefined": (
        lambda: defined(("o", [i], x[i])).gradient(x),
        ("statement", "gradient of x", "not defined", "o"),
    ),
    "a gradient for something that does not matter": (
        lambda: _gradient_for(y),
        ("statement", "o does not depend on y"),
    ),
    "a name that is not there": (lambda: defined(("o", [i], x[i]))["h"], ("statement", "no name h", "o")),
    "the adjoint of something that does not matter": (
        lambda: _adjoint_of(y),
        ("does not depend on y", "zero"),
    ),
    "the derivative for an expression": (
        lambda: Program("statement").derivative(x[i], x[i] * s),
        ("statement", "derivative with respect to", "expected an entry"),
    ),
    "a kernel of something undefined": (
        lambda: defined(("o", [i], x[i])).kernel(x),
        ("statement", "kernel output x", "not defined"),
    ),
    "an adjoint whose name is taken": (
        lambda: _gradient_over_dx(),
        ("dx", "taken", "rename"),
    ),
}


def _unknown() -> Any:
    return Defined("sparsemax", x[j], j, i, True)


def _gradient_for(symbol: Any) -> Any:
    program = Program("statement")
    return program.gradient(program.define("o", [i], x[i] ** 2), wrt=[symbol])


def _adjoint_of(symbol: Any) -> Any:
    program = Program("statement")
    return program.gradient(program.define("o", [i], x[i] ** 2)).adjoint(symbol)


def _gradient_over_dx() -> Any:
    program = Program("statement")
    return program.gradient(program.define("o", [i], x[i] ** 2 * tensor("dx", T)[i]))


@pytest.mark.parametrize("name", REFUSED)
def test_ill_formed_input_is_refused_by_name(name: str) -> None:
    attempt, words = REFUSED[name]
    with pytest.raises((StatementError, sympy.SympifyError)) as caught:
        attempt()
    message = str(caught.value)
    missing = [word for word in words if word not in message]
    assert not missing, message


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_leaves_no_trace_of_machinery(name: str) -> None:
    # A message is for a reader of mathematics: no object addresses, no assumptions spelled out.
    attempt, _ = REFUSED[name]
    with pytest.raises((StatementError, sympy.SympifyError)) as caught:
        attempt()
    assert "0x" not in str(caught.value)
    assert "object at" not in str(caught.value)


def test_a_refused_definition_changes_nothing() -> None:
    program = defined(("o", [i], x[i]))
    for over, body in (([i], X[i, j]), ([], Symbol("q")), ([i, i], x[i])):
        with pytest.raises(StatementError):
            program.define("h", over, body)
    assert program.names() == ["o"]
    assert program.define("h", [i], y[i]) == tensor("h", T)


def test_a_refused_claim_is_not_kept() -> None:
    program = Program("statement")
    with pytest.raises(StatementError):
        program.claim("c", x[i], X[i, j])
    assert program.claims == []


# ---------------------------------------------------------------------------------------------------------------------
# And what looks odd but is well-formed.

ACCEPTED: dict[str, Callable[[], Any]] = {
    "two sums side by side over one name": lambda: defined(("o", [], Sum(x[i], i) * Sum(y[i], i))),
    "one name over two ranges, side by side": lambda: defined(
        ("o", [], Sum(x[i], i) * Sum(tensor("z", d)[index("i", d)], index("i", d)))
    ),
    "softmax over the index that is summed": lambda: defined(("o", [], Sum(softmax(x[j], over=j) * y[j], j))),
    "softmax read at its own index": lambda: defined(("o", [i, j], softmax(X[i, j], over=j))),
    "a reduction over another index": lambda: defined(("o", [i], logsumexp(X[i, j], over=j))),
    "a diagonal": lambda: defined(("o", [i], X[i, i])),
    "a fixed position": lambda: defined(("o", [i], x[0] * y[i])),
    "an index as a number": lambda: defined(("o", [i], i * x[i])),
    "a claim against a constant": lambda: claimed(X[i, j], 0),
    "a claim with an index that is given": lambda: claimed(x[i], y[i], over=[i, j]),
    "a ragged definition": lambda: defined(("o", [n, t], exp(R[n, t]))),
    "a size of a whole number": lambda: defined(("o", [], Sum(tensor("z", 3)[index("e", 3)], index("e", 3)))),
    "a delta between two rows of a ragged axis": lambda: claimed(delta(t, index("u", L[m])), s),
    "complete cases": lambda: defined(("o", [], Piecewise((s, s > 0), (0, True)))),
    "a matrix times a number": lambda: claimed(matrices(W, W)[0] * 2, matrix(W) + matrix(W)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_well_formed_input_is_accepted(name: str) -> None:
    assert ACCEPTED[name]() is not None


def test_kinds_of_symbols_are_told_apart() -> None:
    assert len({type(made) for made in (dim("u"), scalar("u"), flag("u"), index("u", T), tensor("u", T))}) == 5
    assert {Dim, Scalar, Flag, Index, Tensor} == {
        type(made) for made in (dim("u"), scalar("u"), flag("u"), index("u", T), tensor("u", T))
    }


def test_one_name_means_one_thing_over_the_whole_program() -> None:
    program = Program("meaning")
    size = dims("T")[0]
    k = index("k", size)
    program.define("y", [k], tensor("x", size)[k] ** 2)
    with pytest.raises(StatementError, match=r"name x is used for a tensor of shape \(T\) and .* positive"):
        program.claim("c", tensor("x", size, positive=True)[k], tensor("x", size, positive=True)[k])
    with pytest.raises(StatementError, match=r"name T is (taken|used)"):
        program.define("T", [], Sum(tensor("x", size)[k], k))


def test_a_tensor_is_no_sequence() -> None:
    """Python reads x[0], x[1], ... of what has no other way to be gone through, and a tensor never says stop."""
    with pytest.raises(TypeError, match=r"write Sum\(x\[i\], i\)"):
        list(x)  # type: ignore[call-overload]


def test_text_is_never_read_as_an_expression() -> None:
    with pytest.raises(StatementError, match="expected an expression"):
        Program("text").define("o", [], "s + 1")


def test_an_equation_for_all_indices_is_not_restricted_by_another_condition() -> None:
    size = dims("T")[0]
    k, m = indices("k m", size)
    A = tensor("A", size, size)
    with pytest.raises(StatementError, match="is meant for all k"):
        Program("given").claim("c", Sum(A[k, k], k), 0, given=[sympy.Ne(k, m), sympy.Eq(A[k, m], 0)])

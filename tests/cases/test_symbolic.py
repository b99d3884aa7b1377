"""Cases of symbolic tools and code printers: captured indices, silent zeros, lost factors, branches not taken."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from sympy import Add, And, Ge, Integer, Le, Ne, Rational, cosh, exp, log, sin, sqrt

from derive.binders import substitute
from derive.language import Sum, delta, dims, index, indices, iverson, scalars, tensor, tensors, where
from derive.program import Program

n, m = dims("n m")
i, j, k, l = indices("i j k l", n)
p, q, r, s = indices("p q r s", n)


def trace(entry: Any) -> Any:
    """The sum of entry(i, i)."""
    return Sum(entry(p, p), p)


def test_c34_a_bound_index_is_not_captured(proved: Any, point: Any) -> None:
    """The sum's own i has nothing to do with the i that one differentiates by."""
    c, x = tensors("c x", n)
    program = Program("weighted", inputs=[c, x])
    total = program.define("total", [], Sum(c[i] * x[i], i))
    for free in (i, j):
        slope = program.derivative(total, x[free])
        assert slope == c[free]
        proved(program.claim(f"by {free}", slope, c[free]))
    assert point(program, c=(1, 2, 3), x=(5, 6, 7))(program.derivative(total, x[i]), i)[1] == 2
    # A second sum around the first, and a substitution into it: still no capture.
    nested = program.define("nested", [i], Sum(total * x[j] + Sum(c[i] * x[i], i) * x[i], j))
    proved(program.claim("nested", nested[i], total * (Sum(x[j], j) + n * x[i])))


def test_c39_sums_and_compositions_of_traces(proved: Any, point: Any, agrees: Any) -> None:
    """tr(A^T A) plus anything else, and functions of a trace, keep their gradients."""
    A, B = tensors("A B", n, n)
    x, w, b, c = tensor("x", n), tensor("w", n), *scalars("b c")
    program = Program("traces", inputs=[A, B, x, w, b, c])
    square = Sum(A[k, p] * A[k, p], k, p)
    sums = program.define("sums", [], square + Sum(B[k, p] * B[k, p], k, p) - c)
    composed = program.define("composed", [], trace(lambda u, v: delta(u, v) - A[u, v]) ** 2)
    affine = program.define("affine", [], Sum(x[p] * w[p], p) + b)
    tr = Sum(A[p, p], p)
    proved(
        program.claim("tr(A^T A) + tr(B^T B) - c", program.derivative(sums, A[i, j]), 2 * A[i, j]),
        program.claim("(tr(I - A))^2", program.derivative(composed, A[i, j]), -2 * (n - tr) * delta(i, j)),
        program.claim("x^T w + b", program.derivative(affine, w[i]), x[i]),
        program.claim("by b", program.derivative(affine, b), 1),
    )
    here = point(program, A=[[1, 2], [3, 4]], sizes={"n": 2})
    assert agrees(here(program.derivative(sums, A[i, j]), i, j), [[2, 4], [6, 8]])
    assert agrees(here(program.derivative(composed, A[i, j]), i, j), [[6, 0], [0, 6]])


def test_c40_a_quotient_by_a_scalar_that_depends_on_x(proved: Any, refuted: Any, point: Any) -> None:
    """x / (x^T x) and exp(v) / sum exp(v): the denominator is differentiated as well."""
    x, v = tensors("x v", n)
    program = Program("quotients", inputs=[x, v])
    scale = program.define("scale", [], Sum(x[p] ** 2, p))
    y = program.define("y", [i], x[i] / scale)
    P = program.define("P", [i], exp(v[i]) / Sum(exp(v[p]), p))
    slope, weights = program.derivative(y[i], x[j]), program.derivative(P[i], v[j])
    proved(
        program.claim("quotient", slope, delta(i, j) / scale - 2 * x[i] * x[j] / scale**2),
        program.claim("softmax", weights, delta(i, j) * P[i] - P[i] * P[j]),
    )
    here = point(program, x=(1, 2), v=(0, 1))
    refuted(
        program.claim("one term", slope, delta(i, j) / scale), here, [i, j],
        left=[[0.12, -0.16], [-0.16, -0.12]], right=[[0.2, 0], [0, 0.2]],
    )  # fmt: skip
    refuted(
        program.claim("one term of softmax", weights, delta(i, j) * P[i]), here, [i, j],
        left=[[0.196611933241, -0.196611933241], [-0.196611933241, 0.196611933241]],
        right=[[0.268941421370, 0], [0, 0.731058578630]],
    )  # fmt: skip


def test_c41_quadratic_traces(proved: Any, refuted: Any, point: Any) -> None:
    """Gradients of tr(X^T A X), tr(X^2 B) and of tr(A) A, a matrix, whose derivative has four axes."""
    A, B, X = tensors("A B X", n, n)
    program = Program("quadratics", inputs=[A, B, X])
    first = program.define("first", [], Sum(X[q, p] * A[q, r] * X[r, p], p, q, r))
    second = program.define("second", [], Sum(X[p, q] * X[q, r] * B[r, p], p, q, r))
    third = program.define("third", [i, j], Sum(A[p, p], p) * A[i, j])
    d_first, d_second = program.derivative(first, X[i, j]), program.derivative(second, X[i, j])
    proved(
        program.claim("tr(X^T A X)", d_first, Sum((A[i, p] + A[p, i]) * X[p, j], p)),
        program.claim("tr(X^2 B)", d_second, Sum(X[j, p] * B[p, i] + B[j, p] * X[p, i], p)),
        program.claim(
            "tr(A) A", program.derivative(third[i, j], A[k, l]),
            delta(k, l) * A[i, j] + Sum(A[p, p], p) * delta(i, k) * delta(j, l),
        ),
    )  # fmt: skip
    X_, A_, B_ = [[1, 2], [3, 4]], [[0, 1], [2, 0]], [[1, -1], [2, 0]]
    refuted(
        program.claim("6 A^T X + 12 A X", d_first, Sum((12 * A[i, p] + 6 * A[p, i]) * X[p, j], p)),
        point(program, X=X_, A=A_), [i, j], left=[[9, 12], [3, 6]], right=[[72, 96], [30, 60]],
    )  # fmt: skip
    shifted = Sum((delta(p, i) + X[p, i]) * B[q, p] * (delta(j, q) + X[j, q]), p, q)
    refuted(
        program.claim("(I + X^T) B^T (I + X^T)", d_second, shifted), point(program, X=X_, B=B_), [i, j],
        left=[[3, 13], [-3, 1]], right=[[6, 17], [2, 11]],
    )  # fmt: skip


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_c42_the_identity_has_the_size_of_the_matrix(target: str, compiled: Any, source_of: Any) -> None:
    """A + I adds 1 on the diagonal, with the size that the argument has when the kernel runs."""
    A = tensor("A", n, n)
    program = Program("plus_identity", "A + I", [A])
    program.kernel(program.define("B", [i, j], A[i, j] + delta(i, j)), wrt=[A])
    kernel = compiled(program, target)
    for size in (1, 2, 5):
        matrix = np.arange(1.0, size * size + 1).reshape(size, size)
        if target == "torch":
            import torch

            found, _ = kernel.forward(torch.from_numpy(matrix))
        else:
            found, _ = kernel.forward(matrix)
        np.testing.assert_array_equal(np.asarray(found), matrix + np.eye(size))
    assert re.search(r"\b(eye|arange)\(n\b", source_of(program, target))


def test_c42_an_identity_of_unknown_size_is_an_error() -> None:
    """Where no argument has the size, the kernel cannot know it, and says so."""
    from codegen.errors import KernelError
    from codegen.generate import render_all

    x = tensor("x", m)
    program = Program("unknown_size", inputs=[x])
    program.kernel(program.define("B", [i, j], delta(i, j) + Sum(x[index("b", m)], index("b", m))))
    with pytest.raises(KernelError, match="size n is the size of no input"):
        render_all([program], ["numpy"])


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_c43_branches_that_are_not_taken(target: str, compiled: Any) -> None:
    """1/x and log(x) behind a condition: no warning from the other branch, and no NaN in the gradient."""
    x, y = tensors("x y", n)
    guarded = Program("guarded", "cases with a pole in each", [x, y])
    f = guarded.define("f", [i], where(y[i] < -1, 1 / x[i], where(y[i] <= 1, x[i], 1 / x[i])))
    guarded.kernel(f, wrt=[x])
    logarithm = Program("log_abs", "log |x| by cases", [x])
    g = logarithm.define("g", [i], where(x[i] < 0, log(-x[i]), log(x[i])))
    logarithm.kernel(g, wrt=[x])
    first, second = compiled(guarded, target), compiled(logarithm, target)

    def arrays(*values: Any) -> list[Any]:
        made = [np.array(value, dtype=float) for value in values]
        if target == "numpy":
            return made
        import torch

        return [torch.from_numpy(value) for value in made]

    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        value, saved = first.forward(*arrays([0, 2, 0.5, 4], [1, 1, 3, -2]))
        np.testing.assert_array_equal(np.asarray(value), (0, 2, 2, 0.25))
        (slope,) = first.backward(*arrays(np.ones(4)), saved)
        np.testing.assert_allclose(np.asarray(slope), (1, 1, -4, -1 / 16))
        value, saved = second.forward(*arrays([10, -10]))
        np.testing.assert_allclose(np.asarray(value), (2.302585092994, 2.302585092994), rtol=1e-12)
        (slope,) = second.backward(*arrays(np.ones(2)), saved)
        np.testing.assert_allclose(np.asarray(slope), (0.1, -0.1))


z = scalars("z")[0]
PARTIAL = {
    "logarithm": where(z > 0, log(z), 0),
    "root": where(z > 0, sqrt(z), -z),
    "inverse root": where(z > 1, (z - 1) ** Rational(-1, 2), z),
    "removable": where(Ne(z, 0), sin(z) / z, 1),
    "overflow": where(z < 100, exp(z), z),
    "power": where(z > 0, z ** Rational(7, 3), 0),
    "nested": where(z > 0, where(z < 1, log(1 - z), log(z + 1)), 1 / (1 - z)),
    "bracket": 1 / z * iverson(z > 0) + log(1 + z) * iverson(z > -1),
    "two conditions": where(And(z > 0, z < 1), log(z) * log(1 - z), z),
    "hyperbolic": where(And(z < 50, z > -50), cosh(z), 0),
}


@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_c43_functions_behind_a_condition(name: str, target: str, compiled: Any, point: Any) -> None:
    """A pole, an overflow or a negative argument outside the condition neither warns nor reaches the gradient."""
    x = tensor("x", n)
    program = Program("behind", inputs=[x])
    program.kernel(program.define("f", [i], substitute(PARTIAL[name], {z: x[i]})), wrt=[x])
    kernel = compiled(program, target)
    places = np.array([-1000.0, -2, -0.5, 0.25, 2, 1000] if name != "nested" else [-1000.0, -2, -0.5, 0.25, 2, 3])
    ones: Any = np.ones(len(places))
    arrays: Any = (places, ones)
    if target == "torch":
        import torch

        arrays = tuple(map(torch.from_numpy, arrays))
    with np.errstate(all="raise", under="ignore"):
        value, saved = kernel.forward(arrays[0])
        (slope,) = kernel.backward(arrays[1], saved)
    here = point(program, x=tuple(places))
    np.testing.assert_allclose(np.asarray(value), here(program["f"]), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(slope), here(program.derivative(program["f"][i], x[i]), i), rtol=1e-12)


def test_c43_a_condition_of_another_index(compiled: Any) -> None:
    """A sum whose terms have no value where the condition of an outer index fails."""
    x, keep = tensor("x", n, m), tensor("keep", n, into=2)
    b = index("b", m)
    program = Program("outer", inputs=[x, keep])
    program.kernel(program.define("f", [i], where(keep[i] > 0, Sum(log(x[i, b]), b), 0)), wrt=[x])
    kernel = compiled(program)
    with np.errstate(all="raise"):
        value, saved = kernel.forward(np.array([[1.0, 2.0], [-1.0, 0.0]]), np.array([1, 0]))
        (slope,) = kernel.backward(np.ones(2), saved)
    np.testing.assert_allclose(value, [np.log(2), 0])
    np.testing.assert_allclose(slope, [[1, 0.5], [0, 0]])


def test_c46_two_gradients_of_a_symmetric_variable(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """The derivative in the free entries and the gradient among symmetric matrices are both right and not equal."""
    A, F, Y = tensor("A", n, n), tensor("F", n, n), tensor("Y", n, n)
    program = Program("symmetric", inputs=[A, F, Y])
    # One variable is given by its entries on and above the diagonal, the other as the symmetric part of any matrix.
    free = program.define("S_free", [i, j], where(Le(i, j), F[i, j], F[j, i]))
    part = program.define("S_part", [i, j], (Y[i, j] + Y[j, i]) / 2)
    value_free = program.define("value_free", [], Sum(A[p, q] * free[q, p], p, q))
    value_part = program.define("value_part", [], Sum(A[p, q] * part[q, p], p, q))
    unconstrained = A[j, i]
    by_entries = program.derivative(value_free, F[i, j])
    by_matrices = program.derivative(value_part, Y[i, j])
    proved(
        program.claim("G + G^T - I o G", by_entries, unconstrained + A[i, j] - delta(i, j) * A[i, i], given=[Le(i, j)]),
        program.claim("nothing below the diagonal", by_entries, 0, given=[Ge(i, j + 1)]),
        program.claim("(G + G^T) / 2", by_matrices, (unconstrained + A[i, j]) / 2),
    )
    here = point(program, A=[[1, 2], [5, 3]])
    refuted(program.claim("equal", by_entries, by_matrices, given=[Le(i, j)]))
    assert agrees(here(by_entries, i, j), [[1, 7], [0, 3]])
    assert agrees(here(by_matrices, i, j), [[1, 3.5], [3.5, 3]])


def test_c46_log_determinant_of_two_by_two(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """The same for log det of a 2 x 2 matrix: the off-diagonal entry counts twice among the free entries."""
    a, b, c, e = scalars("a b c e")
    program = Program("log_determinant", inputs=[a, b, c, e])
    full = program.define("full", [], log(a * c - b * e))
    tied = program.define("tied", [], log(a * c - b * b))
    slopes = [program.derivative(tied, variable) for variable in (a, b, c)]
    determinant = a * c - b**2
    for slope, right in zip(slopes, (c, -2 * b, a), strict=True):
        proved(program.claim("entry of the symmetric matrix", slope, right / determinant))
    here = point(program, a=2, b=0.5, c=1, e=0.5)
    assert agrees([here(slope) for slope in slopes], (0.571428571429, -0.571428571429, 1.142857142857))
    assert here(program.derivative(full, b)) == pytest.approx(-0.285714285714)
    refuted(program.claim("half of it", slopes[1], -b / determinant), here, left=-0.571428571429, right=-0.285714285714)


SIZES = (
    n / (2 * n - 1) - 1 / (2 * n - 1),
    (n - 1) / (2 * n - 1),
    1 / (n + m) - n / m,
    -(n**2) / (3 * m) + Rational(2, 7),
    (n + m) / (n * m) ** 2,
    n**-2 * (m - 1) ** -1 * 5,
    n - (m - (n - m)),
    n / (m / (n + 1)),
    (n * m) ** Rational(1, 2) / (1 + n) ** Rational(3, 2),
    Add(Integer(1), -n / m, evaluate=False),
    (-n) ** 3 / m,
    2 ** (n - m),
)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_c47_printed_sizes_have_their_value(size: Any, target: str, compiled: Any, point: Any, agrees: Any) -> None:
    """What is printed for an expression in sizes evaluates to it: no factor, sign or bracket is lost."""
    x = tensor("x", n, m)
    b = index("b", m)
    program = Program("sized", inputs=[x])
    program.kernel(program.define("y", [i, b], size * x[i, b]))
    kernel = compiled(program, target)
    for rows, columns in ((3, 2), (2, 5), (4, 4)):
        ones: Any = np.ones((rows, columns))
        if target == "torch":
            import torch

            ones = torch.from_numpy(ones)
        expected = point(program, sizes={"n": rows, "m": columns})(size)
        assert agrees(np.asarray(kernel.forward(ones)), np.full((rows, columns), expected))


def random_size(generator: np.random.Generator, depth: int) -> Any:
    """An expression in two sizes that is neither 0 nor infinite for sizes of at least 2."""
    if depth == 0:
        return (n, m, Integer(3), Rational(1, 7), n + 1, 2 * m - 1)[generator.integers(6)]
    left, right = random_size(generator, depth - 1), random_size(generator, depth - 1)
    return (left + right, left - right / 11, left * right, left / right, 1 / (left + right), left ** Rational(3, 2))[
        generator.integers(6)
    ]


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_c47_random_size_expressions(target: str, compiled: Any, point: Any) -> None:
    """The same for expressions that nobody chose."""
    generator = np.random.default_rng(47)
    x = tensor("x", n, m)
    program = Program("random_sizes", inputs=[x])
    b = index("b", m)
    total = Sum(x[i, b], i, b)
    made = [program.define(f"y{number}", [], random_size(generator, 3) * total) for number in range(40)]
    program.kernel(*made)
    kernel = compiled(program, target)
    for rows, columns in ((3, 2), (2, 5)):
        ones: Any = np.ones((rows, columns))
        here = point(program, sizes={"n": rows, "m": columns}, x=ones.tolist())
        if target == "torch":
            import torch

            ones = torch.from_numpy(ones)
        found = [float(value) for value in kernel.forward(ones)]
        np.testing.assert_allclose(found, [here(symbol) for symbol in made], rtol=1e-12)


def test_c47_the_reported_value(compiled: Any) -> None:
    """foo/(2 foo - 1) - 1/(2 foo - 1) at foo = 3 is 0.4."""
    x = tensor("x", n)
    program = Program("reported", inputs=[x])
    program.kernel(program.define("y", [i], SIZES[0] * x[i]))
    np.testing.assert_allclose(compiled(program).forward(np.ones(3)), 0.4)

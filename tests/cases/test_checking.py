"""Cases of gradient checking: what a check cannot see, what it must not call wrong, and derivatives of array code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Eq, Rational, log, sqrt

import codegen.checking.examination
from codegen.checking.checks import CheckResult, check_kernels
from codegen.checking.differences import PerturbationError, Slopes, central_difference, slopes, step_at
from codegen.checking.sampling import draw
from codegen.generate import render_all, write
from derive.errors import StatementError
from derive.functions import mean, relu, variance
from derive.language import Sum, delta, dims, index, indices, scalar, scalars, tensor, tensors, where
from derive.program import Program

n, m, C = dims("n m C")
i, j, k = indices("i j k", n)
b, c = index("b", m), index("c", C)


def checked(program: Program, folder: Path, target: str = "numpy") -> dict[tuple[str, str], CheckResult]:
    """The results of the check of a program's generated kernel, by gradient and witness."""
    write(render_all([program], [target]), folder, [target])
    return {(r.gradient, r.witness): r for r in check_kernels([program], target=target, folder=folder)}


def checked_by_hand(program: Program, folder: Path, source: str) -> dict[tuple[str, str], CheckResult]:
    """The results of the check of a kernel that somebody wrote."""
    (folder / "numpy").mkdir(parents=True)
    (folder / "numpy" / f"{program.name}.py").write_text(source, encoding="utf-8")
    return {(r.gradient, r.witness): r for r in check_kernels([program], target="numpy", folder=folder)}


# ---------------------------------------------------------------------------------------------------------------------


def batch_norm() -> tuple[Program, Any, Any]:
    x, gamma, beta, eps = tensor("x", n), *scalars("gamma beta"), scalar("eps", positive=True)
    program = Program("batch_norm_check", inputs=[x, gamma, beta, eps])
    v = program.define("v", [], variance(x[i], over=i))
    xhat = program.define("xhat", [i], (x[i] - mean(x[j], over=j)) / sqrt(v + eps))
    y = program.define("y", [i], gamma * xhat[i] + beta)
    return program, xhat, y


def test_c70_a_sum_of_normalised_values_is_blind(proved: Any, refuted: Any, point: Any, agrees: Any) -> None:
    """The gradient of sum BN(x) is 0 for every x; that of sum BN(x)^2 is not 0, and is of the order of eps."""
    program, xhat, y = batch_norm()
    x, gamma, beta, eps, v = (program[name] for name in ("x", "gamma", "beta", "eps", "v"))
    total = program.define("total", [], Sum(y[i], i))
    squares = program.define("squares", [], Sum(y[i] ** 2, i))
    r = (v + eps) ** Rational(-1, 2)
    slope = program.derivative(squares, x[i])
    proved(
        program.claim("blind", program.derivative(total, x[i]), 0),
        program.claim("squares", squares, n * (gamma**2 * v / (v + eps) + beta**2)),
        program.claim("nearly blind", slope, 2 * gamma**2 * xhat[i] * r * eps / (v + eps)),
    )
    here = point(program, x=(1, 2, 4, 7), gamma=2, beta=0.5, eps="1e-5")
    expected = (-7.25620818494e-6, -4.35372491096e-6, 1.45124163699e-6, 1.01586914589e-5)
    np.testing.assert_allclose(here(slope, i), expected, rtol=1e-9)
    # A gradient that cannot vanish would be needed for a guarantee; where gamma = 0 this one does.
    refuted(program.claim("guarantees a gradient", slope, 2 * gamma**2 * xhat[i] * r))

    backward = program.gradient(y)
    dy, dx = backward["dy"], backward["dx"]
    short = gamma * r * (dy[i] - mean(dy[j], over=j))
    ones, generic = (
        point(backward, x=(1, 2, 4, 7), gamma=1, beta=0, eps="1e-5", dy=g) for g in ((1, 1, 1, 1), (1, -2, 0.5, 3))
    )
    assert agrees(ones(dx), ones(short, i))
    refuted(
        backward.claim("without the xhat term", dx[i], short), generic, [i],
        left=(0.748173797766, -0.794936511076, -0.171456527794, 0.218219241104),
        right=(0.163663261807, -1.145642832651, -0.054554420602, 1.036533991446),
    )  # fmt: skip


def test_c70_the_check_says_that_a_gradient_is_identically_0(tmp_path: Path) -> None:
    """A row whose gradient is 0 for every input shows nothing, and says so; the one of y has a generic upstream."""
    program, _, y = batch_norm()
    blind = Program("blind", inputs=list(program.inputs), definitions=list(program.definitions))
    blind.kernel(blind.define("total", [], Sum(y[i], i)), wrt=[program["x"], program["beta"]])
    results = checked(blind, tmp_path / "blind")
    row = results["dx", "finite differences"]
    assert row.ok
    assert row.note.startswith("dx is identically 0 (proved): total does not change with x")
    assert results["dbeta", "finite differences"].note == ""

    program.kernel(y, wrt=[program["x"]])
    row = checked(program, tmp_path / "seen")["dx", "finite differences"]
    assert row.ok
    assert row.note == ""
    wrong = checked_by_hand(program, tmp_path / "wrong", WITHOUT_XHAT)["dx", "finite differences"]
    assert not wrong.ok


WITHOUT_XHAT = """
import numpy
def batch_norm_check_forward(x, *, gamma, beta, eps):
    r = 1 / numpy.sqrt(x.var() + eps)
    return (gamma * (x - x.mean()) * r + beta).astype(x.dtype), (gamma * r,)
def batch_norm_check_backward(dy, saved):
    (scale,) = saved
    return ((scale * (dy - dy.mean())).astype(dy.dtype),)
"""


def cube(x: Any) -> np.ndarray[Any, Any]:
    """x^3, computed in the precision of x, as float64."""
    return np.asarray((x**3).tolist(), dtype=np.float64)


def test_c72_a_step_below_the_precision(agrees: Callable[[Any, Any], bool]) -> None:
    """1 + 1e-4 is 1 in half precision: that is said, and a step from the theory is used instead of 0 for an answer."""
    torch = pytest.importorskip("torch")
    one = np.ones(1)
    for at, name in (
        (np.ones(1, dtype=np.float16), "float16"),
        (torch.ones(1, dtype=torch.bfloat16), "bfloat16"),
        (torch.ones(1, dtype=torch.float16), "float16"),
    ):
        with pytest.raises(PerturbationError, match=rf"the step 0.0001 is lost at 1: x \+ h == x in (torch\.)?{name}"):
            central_difference(cube, at, one, (0,), step=1e-4)
        assert float(at[0]) == 1
    wide = torch.ones(1, dtype=torch.bfloat16)
    assert central_difference(cube, wide, one, (0,), step=0.125) == 3
    assert central_difference(cube, np.ones(1), one, (0,), step=0.125) == 3.015625
    for at, epsilon in ((wide, 2.0**-7), (np.ones(1, dtype=np.float16), 2.0**-10)):
        assert central_difference(cube, at, one, (0,), epsilon=epsilon) == pytest.approx(3, rel=0.05)
        assert step_at(1.0, epsilon=epsilon) > 8 * epsilon


def rectified(value: Any) -> np.ndarray[Any, Any]:
    """The positive part of a value."""
    return np.maximum(value, 0)


@pytest.mark.parametrize(("x", "found", "true"), [(0.0, 0.5, 0), (1e-9, 0.5005, 1), (-1e-9, 0.4995, 0)])
def test_c73_a_corner_within_the_step(x: float, found: float, true: float) -> None:
    """Near 0 a central difference of relu is neither 0 nor 1; the slopes on the two sides show the corner."""
    at, one = np.array([x]), np.ones(1)
    assert central_difference(rectified, at, one, (0,), step=1e-6) == pytest.approx(found)
    sides = slopes(rectified, at, one, (0,))
    assert isinstance(sides, Slopes)
    assert sides.gap > 0.99
    assert sides.between(true, 1e-6)
    assert not sides.between(1.5, 1e-6)
    assert not sides.between(-0.5, 1e-6)


def test_c73_away_from_the_corner() -> None:
    """A smaller step leaves the corner out, and at 1e-5 the usual one does; x^2 and exp have no corner anywhere."""
    one = np.ones(1)
    assert central_difference(rectified, np.array([5e-7]), one, (0,), step=1e-6) == pytest.approx(0.75)
    assert central_difference(rectified, np.array([5e-7]), one, (0,), part=1 / 16) == pytest.approx(1)
    assert central_difference(rectified, np.array([1e-5]), one, (0,), step=1e-6) == pytest.approx(1)
    for x in (0.0, 1.0, -3.0):
        assert slopes(lambda x: x**2, np.array([x]), one, (0,)) is None
        assert slopes(np.exp, np.array([x]), one, (0,)) is None


RELU = """
import numpy
def rectifier_check_forward(x):
    return numpy.maximum(x, 0).astype(x.dtype), x
def rectifier_check_backward(dy, x):
    return ((dy * VALUE).astype(x.dtype),)
"""


@pytest.mark.parametrize(
    ("slope", "ok", "noted"),
    [("(x > 0)", True, True), ("(x >= 0)", True, True), ("((x > 0) + 0.25 * (x == 0))", True, True),
     ("((x > 0) + 5.0 * (x == 0))", False, False), ("(x > -0.5)", False, True)],
)  # fmt: skip
def test_c73_the_check_at_a_corner(
    slope: str, ok: bool, noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any slope between 0 and 1 is a convention at 0: noted, and compared at a moved point. 5 is wrong."""
    x = tensor("x", m, C)
    program = Program("rectifier_check", inputs=[x])
    program.kernel(program.define("y", [b, c], relu(x[b, c])), wrt=[x])

    def at_zero(*arguments: Any) -> tuple[dict[str, Any], Any]:
        values, generator = draw(*arguments)
        values["x"].flat[0] = 0.0
        return values, generator

    monkeypatch.setattr(codegen.checking.examination, "draw", at_zero)
    row = checked_by_hand(program, tmp_path, RELU.replace("VALUE", slope))["dx", "finite differences"]
    assert row.ok == ok
    assert ("no derivative at x[0, 0] = 0: slopes" in row.note and "is a convention" in row.note) == noted


def test_c73_the_statement_names_the_corner(proved: Any) -> None:
    """A verdict about the gradient of relu says where it does not hold."""
    x = tensor("x", n)
    program = Program("rectified", inputs=[x])
    y = program.define("y", [i], relu(x[i]))
    backward = program.gradient(y)
    (verdict,) = proved(
        backward.claim("dx", backward["dx"][i], where(x[i] > 0, backward["dy"][i], 0), given=[x[i] > 0])
    )
    assert any(text.startswith("almost everywhere: not where") for text in verdict.hypotheses)


def test_c74_an_array_whose_entries_share_memory(proved: Any, point: Any, agrees: Any, compiled: Any) -> None:
    """Moving one entry of a broadcast array moves all: refused. The derivatives by v and by its one number differ."""
    shared = np.broadcast_to(np.array(2.0), (2,))
    writable = np.lib.stride_tricks.as_strided(np.array([2.0, 0.0]), shape=(2,), strides=(0,))
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 2, writeable=True)
    for array in (shared, writable, windows):
        with pytest.raises(PerturbationError, match="share memory"):
            central_difference(lambda x: np.asarray(x.sum()), array, np.ones(()), (0,) * array.ndim)
    assert central_difference(lambda x: np.asarray(x.sum()), windows.copy(), np.ones(()), (0, 0)) == pytest.approx(1)

    M, v, s = tensor("M", m, n), tensor("v", n), scalar("s")
    program = Program("expanded", inputs=[M, v, s])
    y = program.define("y", [], Sum(M[b, i] * v[i], b, i))
    z = program.define("z", [], Sum(M[b, i] * s, b, i))
    proved(
        program.claim("by v", program.derivative(y, v[i]), Sum(M[b, i], b)),
        program.claim("by its one number", program.derivative(z, s), Sum(M[b, i], b, i)),
    )
    here = point(program, M=[[1, 2], [3, 4]], v=(2, 2), s=2)
    assert agrees(here(program.derivative(y, v[i]), i), (4, 6))
    assert agrees(here(program.derivative(z, s)), 10)
    program.kernel(y, wrt=[v])
    kernel = compiled(program)
    value, saved = kernel.forward(np.array([[1.0, 2.0], [3.0, 4.0]]), shared, s=2.0)
    assert value == 20
    assert agrees(kernel.backward(np.ones(()), saved)[0], (4, 6))


INVERSE_ROOT = """
import numpy
def isrlu_forward(x, *, a):
    y = numpy.where(x < 0, x / numpy.sqrt(1 + a * x**2), x).astype(x.dtype)
    return y, (x, a)
def isrlu_backward(dy, saved):
    x, a = saved
    s = numpy.where(x < 0, (1 + a * x**2) ** -1.5, 1)
    dx = (SLOPE).astype(x.dtype)
    da = (dy * numpy.where(x < 0, -(x**3) / 2 * s, 0)).sum().astype(x.dtype)
    return RETURNED
"""


def isrlu() -> tuple[Program, Any, Any, Any]:
    x, a = tensor("x", n), scalar("a", positive=True)
    program = Program("isrlu", inputs=[x, a])
    y = program.define("y", [i], where(x[i] < 0, x[i] / sqrt(1 + a * x[i] ** 2), x[i]))
    program.kernel(y, wrt=[x, a])
    return program, x, a, y


def test_c75_both_derivatives(proved: Any, point: Any, agrees: Any, compiled: Any) -> None:
    """u (1 + a x^2)^(-3/2) for x, and -x^3/2 of that for a, below 0."""
    program, x, a, y = isrlu()
    backward = program.gradient(y)
    power = (1 + a * x[i] ** 2) ** Rational(-3, 2)
    proved(
        backward.claim("dx", backward["dx"][i], backward["dy"][i] * where(x[i] < 0, power, 1)),
        backward.claim("da", backward["da"], Sum(backward["dy"][i] * where(x[i] < 0, -(x[i] ** 3) / 2 * power, 0), i)),
    )
    kernel = compiled(program)
    _, saved = kernel.forward(np.array([-0.5]), a=1.0)
    dx, da = kernel.backward(np.array([3.0]), saved)
    assert agrees(dx, [2.146625258400])
    assert agrees(da, 3 * 0.044721359550)
    assert agrees(point(backward, x=(-0.5,), a=1, dy=(3,))(backward["dx"]), [2.146625258400])


@pytest.mark.parametrize(
    ("slope", "returned", "row", "said"),
    [
        ("dy * s", "dx, da", "", ""),
        ("s + 0 * dy", "dx, da", "dx", "ignores the upstream gradient"),
        ("dy * s + 1", "dx, da", "dx", "is not linear in the upstream gradient"),
        ("dy * s", "dx, da * 0", "da", "by finite differences"),
        ("dy * s", "(dx,)", "da", "expected a tuple of 2 gradients"),
    ],
)
def test_c75_a_backward_pass_that_ignores_what_comes_from_above(
    slope: str, returned: str, row: str, said: str, tmp_path: Path
) -> None:
    """The check multiplies the upstream gradient and looks at every variable, not only at the first."""
    program, *_ = isrlu()
    results = checked_by_hand(program, tmp_path, INVERSE_ROOT.replace("SLOPE", slope).replace("RETURNED", returned))
    failed = {name: result for (name, _), result in results.items() if not result.ok}
    assert (row in failed) if row else not failed
    assert not row or said in failed[row].detail


def test_c79_a_sum_over_several_axes(proved: Any, compiled: Any) -> None:
    """The gradient of a sum is spread along the axes that were summed; in NumPy, negative axes count in the result."""
    p, q, s = index("p", n), index("q", m), index("s", C)
    x = tensor("x", n, m, C)
    for kept, summed in (((p,), (q, s)), ((q,), (p, s)), ((s,), (p, q)), ((), (p, q, s))):
        program = Program("summed", inputs=[x])
        y = program.define("y", kept, Sum(x[p, q, s], *summed))
        backward = program.gradient(y)
        up = backward["dy"][kept] if kept else backward["dy"]
        proved(backward.claim("dx", backward["dx"][p, q, s], up, over=[p, q, s]))
    last_two = Program("summed", inputs=[x])
    last_two.kernel(last_two.define("y", [p], Sum(x[p, q, s], q, s)), wrt=[x])
    kernel = compiled(last_two)
    _, saved = kernel.forward(np.ones((2, 2, 2)))
    (dx,) = kernel.backward(np.array([1.0, 2.0]), saved)
    np.testing.assert_array_equal(dx, [[[1, 1], [1, 1]], [[2, 2], [2, 2]]])
    with pytest.raises(ValueError, match=r"dy: expected shape \(2,\), found \(1, 2, 1\)"):
        kernel.backward(np.ones((1, 2, 1)), saved)

    # The claim about NumPy, by running it: a tuple of axes is relative to the result, one after the other is not.
    g = np.array([1.0, 2.0])
    assert np.expand_dims(g, (-2, -1)).shape == (2, 1, 1)
    assert np.expand_dims(g, (1, 2)).shape == (2, 1, 1)
    one_by_one = g
    for axis in sorted((-2, -1)):
        one_by_one = np.expand_dims(one_by_one, axis)
    assert one_by_one.shape == (1, 2, 1)
    np.testing.assert_array_equal(np.broadcast_to(one_by_one, (2, 2, 2))[1], [[1, 1], [2, 2]])
    with pytest.raises(np.exceptions.AxisError):
        np.expand_dims(np.ones((2, 2)), -4)


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_c80_a_row_that_is_looked_up_twice(target: str, compiled: Any, proved: Any, tmp_path: Path) -> None:
    """Rows add up as often as they are looked up: what is written last does not win."""
    W, idx = tensor("W", m, C), tensor("idx", n, into=m)
    program = Program("looked_up", inputs=[W, idx])
    y = program.define("y", [i, c], W[idx[i], c])
    program.kernel(y, wrt=[W])
    backward = program.gradient(y)
    dW, dy = backward["dW"], backward["dy"]
    v = index("v", m)
    proved(backward.claim("a contraction with a delta", dW[v, c], Sum(delta(idx[i], v) * dy[i, c], i)))
    kernel = compiled(program, target)
    rows, where_, up = np.zeros((3, 1)), np.array([0, 2, 0]), np.array([[1.0], [10.0], [100.0]])
    overwritten = np.zeros((3, 1))
    overwritten[where_] += up
    np.testing.assert_array_equal(overwritten[:, 0], (100, 0, 10))
    if target == "torch":
        import torch

        rows, where_, up = (torch.from_numpy(array) for array in (rows, where_, up))
    _, saved = kernel.forward(rows, where_)
    np.testing.assert_array_equal(np.asarray(kernel.backward(up, saved)[0])[:, 0], (101, 0, 10))
    results = checked(program, tmp_path / "checked", target)
    assert all(result.ok for result in results.values())


def test_c80_generated_look_ups_with_random_repeats(compiled: Any) -> None:
    """The same against a loop, for tables with many repeats."""
    W, idx = tensor("W", m, C), tensor("idx", n, into=m)
    program = Program("looked_up", inputs=[W, idx])
    program.kernel(program.define("y", [i, c], W[idx[i], c]), wrt=[W])
    kernel = compiled(program)
    generator = np.random.default_rng(0)
    for rows, looked_up in ((1, 5), (3, 20), (10, 4)):
        table = generator.integers(0, rows, looked_up)
        up = generator.normal(size=(looked_up, 2))
        _, saved = kernel.forward(generator.normal(size=(rows, 2)), table)
        expected = np.zeros((rows, 2))
        for place, row in enumerate(table):
            expected[row] += up[place]
        np.testing.assert_allclose(kernel.backward(up, saved)[0], expected)


def test_c81_an_operand_that_is_broadcast(proved: Any, refuted: Any, point: Any, compiled: Any, agrees: Any) -> None:
    """A row that is added to every row of a matrix receives the sum over the rows: not the whole, and not the mean."""
    A, bias, labels, G = tensor("A", m, n), tensor("bias", 1, n), tensor("labels", m, n), tensor("G", m, n)
    program = Program("broadcast", inputs=[A, bias, labels])
    Y = program.define("Y", [b, i], A[b, i] + bias[0, i])
    loss = program.define("loss", [], Sum((Y[b, i] - labels[b, i]) ** 2, b, i))
    backward = program.gradient(Y, upstream="G")
    proved(backward.claim("sum", backward["dbias"][0, i], Sum(G[b, i], b)))
    refuted(backward.claim("mean", backward["dbias"][0, i], mean(G[b, i], over=b)))
    with pytest.raises(
        StatementError, match=r"G\[i, i\]: size mismatch on axis 0|index b is free on the right side only"
    ):
        backward.claim("left as it is", backward["dbias"][0, i], G[b, i])
    program.kernel(loss, wrt=[bias])
    kernel = compiled(program)
    matrix = np.arange(1.0, 13).reshape(3, 4)
    _, saved = kernel.forward(matrix, np.arange(1.0, 5)[None], np.linspace(100, 112, 12).reshape(3, 4))
    (dbias,) = kernel.backward(np.ones(()), saved)
    assert dbias.shape == (1, 4)
    np.testing.assert_allclose(dbias[0], (-590.181818182, -584.727272727, -579.272727273, -573.818181818))


def test_c81_a_product_with_a_vector_of_length_one(proved: Any, compiled: Any) -> None:
    """einsum(i, i) with sizes 2 and 1: the one number receives the sum, in the shape that it has."""
    x, y = tensor("x", n), tensor("y", 1)
    program = Program("stretched", inputs=[x, y])
    total = program.define("total", [], Sum(x[i] * y[0], i))
    program.kernel(total, wrt=[x, y])
    proved(
        program.claim("by x", program.derivative(total, x[i]), y[0]),
        program.claim("by y", program.derivative(total, y[0]), Sum(x[i], i)),
    )
    with pytest.raises(StatementError, match="size mismatch on axis 0: y has extent 1 there, but index i runs over n"):
        y[i]
    kernel = compiled(program)
    _, saved = kernel.forward(np.array([2.0, 2.0]), np.array([3.0]))
    dx, dy = kernel.backward(np.ones(()), saved)
    np.testing.assert_array_equal(dx, (3, 3))
    np.testing.assert_array_equal(dy, (4,))


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_c83_the_square_of_a_norm(target: str, compiled: Any, proved: Any) -> None:
    """|x|^2 through a named norm has the gradient 2x, at 0 as well: the root is squared away before differentiating."""
    x = tensor("x", n)
    program = Program("squared_norm", inputs=[x])
    norm = program.define("norm", [], sqrt(Sum(x[i] ** 2, i)))
    square = program.define("square", [], norm**2)
    program.kernel(square, wrt=[x])
    backward = program.gradient(square)
    verdict, _ = proved(
        backward.claim("dx", backward["dx"][i], 2 * backward["dsquare"] * x[i]),
        program.claim("no root", square, Sum(x[i] ** 2, i)),
    )
    assert not any("not differentiable" in text for text in verdict.hypotheses)
    kernel = compiled(program, target)
    zero, one = np.zeros(3), np.ones(())
    if target == "torch":
        import torch

        zero, one = torch.from_numpy(zero), torch.from_numpy(one)
    with np.errstate(all="raise"):
        _, saved = kernel.forward(zero)
        np.testing.assert_array_equal(np.asarray(kernel.backward(one, saved)[0]), (0, 0, 0))


def test_c83_the_deviation_of_a_constant_vector(proved: Any, agrees: Any) -> None:
    """The standard deviation has no derivative at a constant vector, and the verdict names that set."""
    x = tensor("x", n)
    program = Program("deviation", inputs=[x])
    s = program.define("s", [], sqrt(Sum((x[i] - mean(x[j], over=j)) ** 2, i) / (n - 1)))
    backward = program.gradient(s)
    right = backward["ds"] * (x[i] - mean(x[j], over=j)) / ((n - 1) * s)
    (verdict,) = proved(backward.claim("dx", backward["dx"][i], right))
    assert any(
        text.startswith("not differentiable where") and "mean(x[j], over=j)" in text for text in verdict.hypotheses
    )

    def deviation(value: Any) -> np.ndarray[Any, Any]:
        return np.asarray(np.std(value, ddof=1))

    sides = slopes(deviation, np.zeros(3), np.ones(()), (0,))
    assert sides is not None
    assert agrees((sides.left, sides.right), (-0.577350269190, 0.577350269190))
    assert sides.between(0.0, 0.0)


def test_the_cases_use_hypotheses_that_they_need(proved: Any, refuted: Any) -> None:
    """A claim that is proved under a condition is refuted without it."""
    y, z = tensors("y z", n)
    program = Program("needed", inputs=[y, z])
    left, right = Sum(y[i] * (z[j] + log(2)), i), z[j] + log(2)
    proved(program.claim("given", left, right, given=[Eq(Sum(y[k], k), 1)]))
    verdict = refuted(program.claim("not given", left, right))
    assert (
        "holds if Sum(y[j], (j, 0, n - 1)) = 1" in verdict.advice
        or "holds if Sum(y[i], (i, 0, n - 1)) = 1" in verdict.advice
    )


# ---------------------------------------------------------------------------------------------------------------------

SQUARES = """
def squares_forward(x): return (x * x).sum(), x
def squares_backward(dy, saved): return (2 * saved * dy,)
"""
OTHER_SCHEDULES = {
    "right": ("def squares_value_and_gradient(x): return (x * x).sum(), 2 * x", "", ""),
    "another value": (
        "def squares_value_and_gradient(x): return (x * x).sum() + 1, 2 * x",
        "value and gradient in one gives something else", "",
    ),
    "another gradient": (
        "def squares_value_and_gradient(x): return (x * x).sum(), x",
        "", "value and gradient in one gives something else",
    ),
    "another lean gradient": (
        "def squares_lean_forward(x): return (x * x).sum(), x\n"
        "def squares_lean_backward(dy, saved): return (saved * dy,)",
        "", "the lean schedule gives something else",
    ),
    "a lean schedule that raises": (
        "def squares_lean_forward(x): return (x * x).sum(), x\ndef squares_lean_backward(dy, saved): return 1 / 0",
        "raises ZeroDivisionError", "raises ZeroDivisionError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", OTHER_SCHEDULES)
def test_other_schedules_of_a_kernel_are_checked_with_it(which: str, tmp_path: Path) -> None:
    """A value and gradient in one function was wrong for a whole family of losses, and no check ran it."""
    source, value, gradient = OTHER_SCHEDULES[which]
    x = tensor("x", n)
    program = Program("squares", inputs=[x])
    program.kernel(program.define("y", [], Sum(x[i] ** 2, i)), wrt=[x])
    results = checked_by_hand(program, tmp_path, f"{SQUARES}{source}\n")
    for row, said in ((("y", "statement"), value), (("dx", "finite differences"), gradient)):
        assert results[row].ok == (not said)
        assert said in results[row].detail

"""The special functions of the generated runtimes against 40 digits: units in the last place, limits, memory given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from generated.numpy import runtime

MP = mpmath.mp.clone()
MP.dps = 40
EXACT: dict[str, Callable[[Any], Any]] = {
    "erf": MP.erf,
    "erfc": MP.erfc,
    "normal_cdf": lambda x: MP.erfc(-x / MP.sqrt(2)) / 2,
    "expit": lambda x: 1 / (1 + MP.exp(-x)),
    "softplus": lambda x: MP.log1p(MP.exp(x)) if x < 50 else x + MP.exp(-x),
}
ENDS = {  # the ranges on which the value is a normal number
    "erf": {"float32": (-8, 8), "float64": (-8, 8)},
    "erfc": {"float32": (-4, 9.1), "float64": (-6, 26)},
    "normal_cdf": {"float32": (-12.9, 6), "float64": (-37, 9)},
    "expit": {"float32": (-87, 40), "float64": (-700, 60)},
    "softplus": {"float32": (-87, 100), "float64": (-700, 900)},
}
LIMITS = {"erf": 4, "erfc": 6, "normal_cdf": 5, "expit": 3, "softplus": 3}
AT_THE_ENDS = {"erf": (-1, 1), "erfc": (2, 0), "normal_cdf": (0, 1), "expit": (0, 1), "softplus": (0, np.inf)}


def units(name: str, x: Any, y: Any) -> float:
    """The largest error in units in the last place of the exact value, for erf of 1."""
    worst = 0.0
    for point, value in zip(x, y, strict=True):
        exact = EXACT[name](MP.mpf(float(point)))
        unit = np.spacing(x.dtype.type(1 if name == "erf" else abs(exact)))
        worst = max(worst, float(abs(MP.mpf(float(value)) - exact) / MP.mpf(float(unit))))
    return worst


def points(name: str, kind: str) -> Any:
    small = np.geomspace(1e-30, 0.5, 60)
    return np.concatenate([np.linspace(*ENDS[name][kind], 500), -small, small]).astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(EXACT))
def test_function_is_exact_to_a_few_units(name: str, kind: str) -> None:
    x = points(name, kind)
    assert units(name, x, getattr(runtime, name)(x)) <= LIMITS[name]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(EXACT))
def test_limits_are_met_without_a_warning(name: str, kind: str) -> None:
    low, high = AT_THE_ENDS[name]
    huge = np.array([-np.inf, -1e30, 1e30, np.inf, np.nan], kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = getattr(runtime, name)(huge)
    np.testing.assert_array_equal(found[[0, 3, 4]], np.array([low, high, np.nan], kind))
    np.testing.assert_array_equal(found[1:3], np.array([low, min(high, huge[2])], kind))
    assert found.dtype == kind


@pytest.mark.parametrize("name", sorted(EXACT))
def test_function_writes_to_the_memory_that_it_is_given(name: str) -> None:
    function = getattr(runtime, name)
    x = np.random.default_rng(0).standard_normal((3, runtime.BLOCK // 2), dtype=np.float32)  # more than one block
    before, expected = x.copy(), function(x)
    out = np.empty_like(x)
    assert function(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, before)
    with_gaps = np.zeros((3, runtime.BLOCK), np.float32)
    function(x, out=with_gaps[:, ::2])
    np.testing.assert_array_equal(with_gaps[:, ::2], expected)
    assert not with_gaps[:, 1::2].any()
    np.testing.assert_array_equal(function(np.asfortranarray(x)), expected)
    function(x, out=x)
    np.testing.assert_array_equal(x, expected)
    function(before[0], out=out)
    np.testing.assert_array_equal(out, np.broadcast_to(expected[0], out.shape))
    assert function(np.empty((0, 3), np.float32)).shape == (0, 3)
    assert function(np.float32(0.5)).shape == ()


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_bell_curve_comes_with_the_normal_distribution(kind: str) -> None:
    x = points("normal_cdf", kind)
    bell, along = np.empty_like(x), np.full((2, len(x)), np.nan, kind)
    np.testing.assert_allclose(runtime.normal_cdf(x, bell=bell), runtime.normal_cdf(x), rtol=4 * np.finfo(kind).eps)
    exact = [float(MP.exp(-(MP.mpf(float(point)) ** 2) / 2)) for point in x]
    eps = float(np.finfo(kind).eps)
    np.testing.assert_allclose(bell, exact, rtol=4 * eps if kind == "float32" else 700 * eps)  # x^2/2 is rounded once
    runtime.normal_cdf(x, out=along[0], bell=along[1, ::1])
    np.testing.assert_array_equal(along, [runtime.normal_cdf(x, bell=bell), bell])


def test_the_bell_curve_vanishes_far_out_and_may_lie_anywhere() -> None:
    x = np.array([-np.inf, -1e30, -20, 0, 20, 1e30, np.inf, np.nan], np.float32)
    spaced, own = np.ones((8, 2), np.float32), x.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = runtime.normal_cdf(x, bell=spaced[:, 0])
        np.testing.assert_array_equal(runtime.normal_cdf(own, bell=own), expected)
    np.testing.assert_array_equal(spaced, np.stack([[0, 0, 0, 1, 0, 0, 0, np.nan], np.ones(8)], axis=1))
    np.testing.assert_array_equal(own, spaced[:, 0])


def test_the_normal_distribution_keeps_its_digits_in_torch() -> None:
    torch = pytest.importorskip("torch")
    from generated.torch.runtime import normal_cdf

    x = points("normal_cdf", "float32")
    value = torch.from_numpy(x.copy())
    assert units("normal_cdf", x, normal_cdf(value).numpy()) <= 4
    out = torch.empty_like(value)
    assert normal_cdf(value, out=out) is out
    assert torch.equal(out, normal_cdf(value))
    assert torch.equal(normal_cdf(value, out=value), out)
    ends = normal_cdf(torch.tensor([-torch.inf, -1e30, 0.0, 1e30, torch.inf]))
    assert ends.tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert bool(normal_cdf(torch.tensor([torch.nan])).isnan().all())


# ---------------------------------------------------------------------------------------------------------------------
# Tails: functions of a polynomial, and products with what is below the normal numbers. Both runtimes.

CUBIC = (0.25, 1.5, 0.0, 0.07)
QUADRATIC = (0.0, 0.0, -0.5, 0.0)
PARABOLA = (0.25, -0.75, -1.5, 0.0)
NARROW = (0.0, 0.0, -4096.0, 0.0)  # too narrow for a grid that a table of it could have


def polynomial(terms: tuple[float, ...], x: Any) -> Any:
    return sum(MP.mpf(term) * x**power for power, term in enumerate(terms))


TAILS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any], tuple[float, float]]] = {
    "exp_at": (lambda lib, x: lib.exp_at(x, QUADRATIC), lambda x: MP.exp(-(x**2) / 2), (-13, 13)),
    "exp_at, a parabola": (
        lambda lib, x: lib.exp_at(x, PARABOLA), lambda x: MP.exp(polynomial(PARABOLA, x)), (-7.6, 7.1),
    ),
    "exp_at, a narrow one": (
        lambda lib, x: lib.exp_at(x, NARROW), lambda x: MP.exp(polynomial(NARROW, x)), (-0.14, 0.14),
    ),
    "exp_at, growing on one side": (
        lambda lib, x: lib.exp_at(x, CUBIC), lambda x: MP.exp(polynomial(CUBIC, x)), (-8, 7),
    ),
    "logistic_at": (
        lambda lib, x: lib.logistic_at(x, CUBIC), lambda x: EXACT["expit"](polynomial(CUBIC, x)), (-9, 9),
    ),
    "logistic_at, times x": (
        lambda lib, x: lib.logistic_at(x, CUBIC, times=x), lambda x: x * EXACT["expit"](polynomial(CUBIC, x)), (-10, 9),
    ),
    "logistic_slope": (
        lambda lib, x: lib.logistic_slope(x), lambda x: EXACT["expit"](x) * EXACT["expit"](-x), (-80, 80),
    ),
    "logistic_slope_at": (
        lambda lib, x: lib.logistic_slope_at(x, CUBIC),
        lambda x: EXACT["expit"](polynomial(CUBIC, x)) * EXACT["expit"](-polynomial(CUBIC, x)),
        (-9, 9),
    ),
    "expit, times x": (lambda lib, x: lib.expit(x, times=x), lambda x: x * EXACT["expit"](x), (-103, 20)),
    "expit": (lambda lib, x: lib.expit(x), EXACT["expit"], (-103, 20)),
    "scaled_normal_cdf": (
        lambda lib, x: lib.scaled_normal_cdf(x, lib.normal_cdf(x)), lambda x: x * EXACT["normal_cdf"](x), (-14.2, 6),
    ),
    "exp_difference": (
        lambda lib, x: lib.exp_difference(x, (x[:1] * 0 + 30.1)), lambda x: MP.exp(x - MP.mpf(float(np.float32(30.1)))),
        (-50, 30),
    ),
}  # fmt: skip


def runtimes() -> list[Any]:
    return [("numpy", runtime, np.asarray), *torch_runtime()]


def torch_runtime() -> list[Any]:
    try:
        import torch

        from generated.torch import runtime as other
    except ImportError:
        return []
    return [("torch", other, torch.from_numpy)]


@pytest.mark.parametrize("name", sorted(TAILS))
def test_tails_are_exact_to_a_few_units_in_single_precision(name: str) -> None:
    function, exact, (low, high) = TAILS[name]
    x = np.linspace(low, high, 701).astype(np.float32)
    wanted = [exact(MP.mpf(float(point))) for point in x]
    for label, library, array in runtimes():
        given = array(x.copy())
        made = np.asarray(function(library, given))
        assert made.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(given), x, err_msg=label)
        worst = max(
            float(abs(MP.mpf(float(one)) - other) / MP.mpf(float(np.spacing(np.float32(abs(other))))))
            for one, other in zip(made, wanted, strict=True)
        )
        assert worst <= 4, label


@pytest.mark.parametrize("x", [np.linspace(-3, 3, 9), np.linspace(-103, 20, 9)], ids=["near", "far"])
def test_a_product_may_be_written_over_either_factor(x: Any) -> None:
    for kind in (np.float32, np.float64):
        for _, library, array in runtimes():
            given, times = x.astype(kind), np.linspace(1, 2, 9).astype(kind)
            wanted = np.asarray(library.expit(array(given.copy()), times=array(times.copy())))
            for place in (0, 1):
                both = [array(given.copy()), array(times.copy())]
                library.expit(both[0], times=both[1], out=both[place])
                np.testing.assert_array_equal(np.asarray(both[place]), wanted)
            known = library.normal_cdf(array(given.copy()))
            wanted = np.asarray(library.scaled_normal_cdf(array(given.copy()), known))
            for place in (0, 1):
                both = [array(given.copy()), library.normal_cdf(array(given.copy()))]
                library.scaled_normal_cdf(*both, out=both[place])
                np.testing.assert_array_equal(np.asarray(both[place]), wanted)


@pytest.mark.parametrize("name", ["normal_cdf", "exp_at"])
def test_an_entry_beyond_the_table_changes_no_other(name: str) -> None:
    function = {"normal_cdf": runtime.normal_cdf, "exp_at": lambda x: runtime.exp_at(x, QUADRATIC)}[name]
    x = np.random.default_rng(0).standard_normal(1000, dtype=np.float32)
    huge = np.array([-np.inf, -1e30, -17, 17, 1e30, np.inf, np.nan], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = function(np.concatenate([huge, x]))
    np.testing.assert_array_equal(found[7:], function(x))
    above = 1 if name == "normal_cdf" else 0
    np.testing.assert_array_equal(found[:7], np.array([0, 0, 0, above, above, above, np.nan], np.float32))


def test_points_of_a_table_are_where_its_last_digits_say() -> None:
    x = np.arange(-16 * 256, 16 * 256 + 1, dtype=np.float32) / 256  # every point, and no rest
    exact = np.array([float(EXACT["normal_cdf"](MP.mpf(float(point)))) for point in x]).astype(np.float32)
    np.testing.assert_array_equal(runtime.normal_cdf(x), exact)


def test_sums_of_shares_are_added_up_with_twice_the_digits() -> None:
    x = np.random.default_rng(0).uniform(0, 1, (3, 5000)).astype(np.float32)
    for _, library, array in runtimes():
        made = np.asarray(library.wide_sum(array(x), -1))
        np.testing.assert_array_equal(made, x.astype(np.float64).sum(axis=-1).astype(np.float32))

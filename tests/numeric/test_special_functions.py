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
    "logistic": lambda x: 1 / (1 + MP.exp(-x)),
    "softplus": lambda x: MP.log1p(MP.exp(x)) if x < 50 else x + MP.exp(-x),
}
ENDS = {  # the ranges on which the value is a normal number
    "erf": {"float32": (-8, 8), "float64": (-8, 8)},
    "erfc": {"float32": (-4, 9.1), "float64": (-6, 26)},
    "normal_cdf": {"float32": (-12.9, 6), "float64": (-37, 9)},
    "logistic": {"float32": (-87, 40), "float64": (-700, 60)},
    "softplus": {"float32": (-87, 100), "float64": (-700, 900)},
}
LIMITS = {"erf": 4, "erfc": 6, "normal_cdf": 5, "logistic": 3, "softplus": 3}
AT_THE_ENDS = {"erf": (-1, 1), "erfc": (2, 0), "normal_cdf": (0, 1), "logistic": (0, 1), "softplus": (0, np.inf)}


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
    x = np.random.default_rng(0).standard_normal((3, 8000), dtype=np.float32)  # more than one block
    before, expected = x.copy(), function(x)
    out = np.empty_like(x)
    assert function(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, before)
    with_gaps = np.zeros((3, 16000), np.float32)
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

"""Rounding errors of the float32 kernels on ordinary and extreme inputs, against a reference of 40 digits."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import references
from benchmarks.errors import LIMIT, Error, errors_of
from benchmarks.extremes import KERNELS, Kernel

# What misses its limit, by kernel and inputs, and the operation at fault.
MISSES: dict[tuple[str, str], str] = {}


def cases() -> list[object]:
    return [
        pytest.param(
            kernel,
            label,
            id=f"{kernel.title}: {label}",
            marks=[pytest.mark.xfail(strict=True, reason=MISSES[kernel.title, label])]
            if (kernel.title, label) in MISSES
            else [],
        )
        for kernel in KERNELS
        for label, _, _ in kernel.inputs(np.random.default_rng(7), True)
    ]


@pytest.fixture(scope="module")
def errors() -> dict[str, list[Error]]:
    """What was measured so far, by kernel."""
    return {}


@pytest.mark.parametrize(("kernel", "label"), cases())
def test_error_is_within_its_limit(kernel: Kernel, label: str, errors: dict[str, list[Error]]) -> None:
    pytest.importorskip("torch")
    if kernel.title not in errors:
        errors[kernel.title] = list(errors_of(kernel, ["numpy", "torch"], quick=True, types=["float32"]))
    measured = [row for row in errors[kernel.title] if row.inputs == label]
    assert {row.result for row in measured} == set(kernel.results)
    assert [row for row in measured if row.limit is not None and not row.error <= row.limit] == []


def test_every_miss_is_a_case() -> None:
    titles = {
        (kernel.title, label) for kernel in KERNELS for label, _, _ in kernel.inputs(np.random.default_rng(7), True)
    }
    assert set(MISSES) <= titles


def exact(*values: float) -> references.Exact:
    array = np.array(values, dtype=object)
    return references.Exact(array, array)


def test_units_count_floating_point_numbers() -> None:
    one = np.float32(1)
    following = np.nextafter(one, np.float32(2))
    assert references.units(np.array([following]), exact(1.0)) == pytest.approx(1)
    assert references.units(np.array([1e4 + 8 * np.spacing(np.float32(1e4))], np.float32), exact(1e4)) == 8
    assert references.units(np.array([np.nan], np.float32), exact(1.0)) == np.inf
    assert references.units(np.array([1e-45], np.float32), exact(0.0)) == 1  # the smallest number, where 0 is right


def test_rows_are_measured_by_their_largest_entry() -> None:
    eps = float(np.finfo(np.float32).eps)
    assert references.of_the_row(np.array([[100, 1 + 50 * eps]], np.float32), exact(100.0, 1.0)) == pytest.approx(0.5)
    assert references.of_the_row(np.array([2 * eps], np.float32), references.Exact(np.zeros(1), np.full(1, 4.0))) == 0.5
    assert references.of_the_row(np.array([np.inf], np.float32), exact(1.0)) > LIMIT

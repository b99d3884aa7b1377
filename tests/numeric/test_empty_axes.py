"""Sizes 0 and 1: every kernel, every size. What has no value over nothing is refused by its hypothesis.

An axis of length 0 is legal wherever the statement still has a value: a sum over nothing is 0, an array with an empty
axis has no entries. The kernels are compared with the reference evaluation, and neither warn nor return a NaN.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from codegen.checking.array_library import array_library
from codegen.checking.examination import Run
from codegen.checking.kernel_files import Kernel
from codegen.checking.sampling import Case, Shape, draw, sizes_of
from codegen.checking.witnesses import statement_values
from derive.language import Flag, Tensor
from derive.library import load
from derive.program import Program

torch = pytest.importorskip("torch")
LIBRARY = {program.name: program for program in load() if program.request is not None}
TARGETS = ("numpy", "torch")


def kernel_of(program: Program, target: str) -> Kernel:
    module = importlib.import_module(f"generated.{target}.{program.name}")
    request = program.request
    assert request is not None
    if not request.wrt:
        return Kernel(program, request, array_library(target), getattr(module, program.name), None)
    names = f"{program.name}_forward", f"{program.name}_backward"
    return Kernel(program, request, array_library(target), *(getattr(module, name) for name in names))


def needs_of(name: str, target: str) -> dict[str, str]:
    """Why a size cannot be 0, for each that cannot, as the kernel's module says it."""
    text = importlib.import_module(f"generated.{target}.{name}").__doc__
    assert text is not None
    return dict(re.findall(r"^ +(\w+) >= \d+: (.+)$", text, flags=re.MULTILINE))


def cases(program: Program, number: int) -> Iterator[tuple[str, Case]]:
    """A case for each size: that size is the number, the others are distinct."""
    plain, leading, least = sizes_of(program)
    names = [str(known.name) for known in program.all_inputs() if isinstance(known, Flag)]
    for place, chosen in enumerate((*plain, *leading)):
        sizes = {name: max(2, least.get(name, 1)) + turn for turn, name in enumerate(plain)}
        lengths = dict.fromkeys(leading, (2, 1))
        if chosen in plain:
            sizes[chosen] = number
        else:
            lengths[chosen] = (2, number)
        shape = Shape(sizes | {name: prod(length) for name, length in lengths.items()}, lengths)
        yield chosen, Case(place, shape, dict.fromkeys(names, place % 2 == 0), bare=False)


def inputs_of(program: Program, case: Case) -> dict[str, Any] | None:
    """Values for the inputs; None where a table that is not empty would have to point into nothing."""
    for known in program.all_inputs():
        if isinstance(known, Tensor) and known.into is not None and case.shape.number(known.into) == 0:
            if prod(case.shape.of(known)):
                return None
            break
    try:
        return draw(program, case, seed=3)[0]
    except ValueError:  # an empty table cannot be drawn from an empty range
        filled = Case(
            case.number, Shape({n: s or 1 for n, s in case.shape.sizes.items()}, case.shape.leading), case.flags, False
        )
        values = draw(program, filled, seed=3)[0]
        return {
            str(known.name): np.zeros(case.shape.of(known), np.int64 if known.into is not None else np.float64)
            if isinstance(known, Tensor) and 0 in case.shape.of(known)
            else values[str(known.name)]
            for known in program.all_inputs()
        }


def results(kernel: Kernel, case: Case, inputs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The outputs and the gradients, with every warning an error."""
    run = Run(kernel, case, inputs, (), np.zeros(()))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        outputs, saved = kernel.run(*run.arguments())
        found = [np.array(kernel.library.plain(output)) for output in outputs]
        if kernel.backward is None:
            return found, []
        upstream = np.random.default_rng(7).uniform(0.5, 1.5, found[0].shape)
        gradients = kernel.gradients(kernel.library.array(upstream), saved)
        return found, [np.array(kernel.library.plain(gradient)) for gradient in gradients]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_empty_axis(name: str, target: str) -> None:
    program, needs = LIBRARY[name], needs_of(name, target)
    kernel = kernel_of(program, target)
    for size, case in cases(program, 0):
        inputs = inputs_of(program, case)
        if size in needs:
            arguments = Run(kernel, case, dict(inputs or {}), (), np.zeros(())).arguments() if inputs else None
            if arguments is not None:
                with pytest.raises(ValueError, match=re.escape(f"expected {size} >= 1 ({needs[size]})")):
                    kernel.run(*arguments)
            continue
        if inputs is None:
            continue
        outputs, gradients = results(kernel, case, inputs)
        given = {n: kernel.library.array(v) if isinstance(v, np.ndarray) else v for n, v in inputs.items()}
        expected = statement_values(program, kernel.request, given, case.shape, kernel.library)
        for output, value in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(output, kernel.library.plain(value), rtol=1e-12, err_msg=f"{size} = 0")
        for symbol, gradient in zip(kernel.request.wrt, gradients, strict=True):
            assert gradient.shape == case.shape.of(symbol), f"{size} = 0: d{symbol.name}"
            assert np.isfinite(gradient).all(), f"{size} = 0: d{symbol.name}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_axis_of_length_one(name: str, target: str) -> None:
    """The values and gradients themselves are compared by `gradproof check`; here nothing may warn or be a NaN."""
    program = LIBRARY[name]
    kernel = kernel_of(program, target)
    for size, case in cases(program, 1):
        if sizes_of(program)[2].get(size, 1) > 1:
            continue
        outputs, gradients = results(kernel, case, draw(program, case, seed=4)[0])
        for array in (*outputs, *gradients):
            assert not np.isnan(array).any(), f"{size} = 1"

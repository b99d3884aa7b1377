"""The statement's own values and gradients, through the reference evaluation: two witnesses of a kernel.

Between `codegen.checking.reference`, which knows one axis for each index, and the kernels, which take any number of
leading dimensions in place of a leading index: tensors are reshaped on the way in, outputs on the way back. With torch,
autograd runs through all of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from codegen.checking.array_library import ArrayLibrary
from codegen.checking.reference import Setting, evaluate, run_program
from codegen.checking.sampling import Shape
from derive.exceptional import open_roots
from derive.functions import unfold
from derive.language import Flag
from derive.program import Program
from derive.statements import KernelRequest

__all__ = ["autograd_gradients", "roots_met", "statement_values"]

Array = np.ndarray[Any, Any]


def statement_values(
    program: Program, request: KernelRequest, inputs: Mapping[str, Any], shape: Shape, library: ArrayLibrary
) -> tuple[Any, ...]:
    """The outputs by the statement, as arrays of the library in the shapes that kernels return."""
    with np.errstate(all="ignore"):
        values = run_program(program, flat_inputs(program, inputs, shape), shape.sizes, library)
    return tuple(values[str(output.name)].reshape(shape.of(output)) for output in request.outputs)


def flat_inputs(program: Program, inputs: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """The inputs as the statement has them: an axis for each index."""
    arrays: dict[str, Any] = {}
    for known in program.all_inputs():
        value = inputs[str(known.name)]
        if not isinstance(known, Flag) and not isinstance(value, (int, float)):
            value = value.reshape(shape.flat(known))
        arrays[str(known.name)] = value
    return arrays


def roots_met(
    program: Program, request: KernelRequest, inputs: Mapping[str, Any], shape: Shape, library: ArrayLibrary
) -> list[str]:
    """The points without a derivative that these inputs are at: roots of 0 that the gradient goes through."""
    roots = [found for definition in program.definitions for found in open_roots(definition, program)]
    if roots:  # few programs have any, and a derivation takes long
        (output,) = request.outputs
        stated = program.gradient(output, request.wrt).assumptions
        roots = [(text, radicand) for text, radicand in roots if text in stated]
    if not roots:
        return []
    arrays = flat_inputs(program, inputs, shape)
    with np.errstate(all="ignore"):
        setting = Setting(library, shape.sizes, arrays | run_program(program, arrays, shape.sizes, library))
        met = [text for text, radicand in roots if bool((evaluate(unfold(radicand), setting).array == 0).any())]
    return sorted(set(met))


def autograd_gradients(
    program: Program, request: KernelRequest, inputs: Mapping[str, Any], shape: Shape, upstream: Array,
    library: ArrayLibrary,
) -> tuple[Array, ...]:  # fmt: skip
    """The derivatives of sum(output * upstream) by torch's autograd, one array for each variable of the request."""
    torch: Any = importlib.import_module("torch")
    arrays: dict[str, Any] = {
        name: value if isinstance(value, bool) else library.array(np.array(value)) for name, value in inputs.items()
    }
    # A number may be given as an integer; what is differentiated is real.
    arrays |= {str(symbol.name): arrays[str(symbol.name)].double() for symbol in request.wrt}
    variables = [arrays[str(symbol.name)].requires_grad_() for symbol in request.wrt]
    (output,) = statement_values(program, request, arrays, shape, library)
    found = torch.autograd.grad((output * library.array(upstream)).sum(), variables, allow_unused=True)
    return tuple(
        np.zeros(tuple(variable.shape)) if gradient is None else library.plain(gradient)
        for variable, gradient in zip(variables, found, strict=True)
    )

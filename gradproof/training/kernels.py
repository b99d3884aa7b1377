"""Where training finds its kernels: the NumPy modules that the compiler wrote to `generated/numpy/`.

Between the compiler and the model. This is the only module of the package that names `generated`; every function that
computes on weights, activations, gradients or losses is obtained here, by name, on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from gradproof.training.errors import KernelMissingError

__all__ = ["Kernel", "backward_kernel", "forward_kernel", "kernel"]

Kernel = Callable[..., Any]

_PACKAGE = "generated.numpy"


def forward_kernel(name: str) -> Kernel:
    """The function `<name>_forward`, which returns its output and what its backward pass needs."""
    return kernel(name, f"{name}_forward")


def backward_kernel(name: str) -> Kernel:
    """The function `<name>_backward`, which returns a tuple of gradients in the order of the forward arguments."""
    return kernel(name, f"{name}_backward")


@cache
def kernel(name: str, function: str) -> Kernel:
    """The function `function` of the generated module `name`.

    Raises:
        KernelMissingError: The module has not been generated, or has no such function.
    """
    module_name = f"{_PACKAGE}.{name}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # A kernel that is there but misses something else is another fault; it must not be reported as this one.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise KernelMissingError(
            f"kernel {name}: expected the generated module {module_name}, found none; run `gradproof generate`"
        ) from error
    try:
        found: Kernel = getattr(module, function)
    except AttributeError as error:
        raise KernelMissingError(
            f"kernel {name}: expected a function {function} in {module_name}, found none; run `gradproof generate`"
        ) from error
    return found

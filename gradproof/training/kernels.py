"""Where training finds its kernels: the modules that the compiler wrote to `generated/numpy/` and `generated/torch/`.

Between the compiler and the engines. This is the only module of the package that names `generated`; every function that
computes on weights, activations, gradients or losses is obtained here, by name, on first use.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from gradproof.training.errors import KernelMissingError

__all__ = [
    "Kernel",
    "backward_kernel",
    "forward_kernel",
    "kernel",
    "kernel_folder",
    "new_workspace",
    "plain_kernel",
    "takes_workspace",
    "use_kernels",
]

Kernel = Callable[..., Any]


def forward_kernel(name: str, library: str = "numpy") -> Kernel:
    """The function `<name>_forward`, which returns its output and what its backward pass needs."""
    return kernel(name, f"{name}_forward", library)


def backward_kernel(name: str, library: str = "numpy") -> Kernel:
    """The function `<name>_backward`, which returns a tuple of gradients in the order of the forward arguments."""
    return kernel(name, f"{name}_backward", library)


def plain_kernel(name: str, library: str = "numpy") -> Kernel:
    """The function of a kernel that is not differentiated; PyTorch's has an operator of that name beside it."""
    return kernel(name, f"{name}_forward" if library == "torch" else name, library)


@cache
def kernel(name: str, function: str, library: str = "numpy") -> Kernel:
    """The function `function` of the module `name` that was generated for a library.

    Raises:
        KernelMissingError: The module has not been generated, or has no such function.
    """
    module_name = f"generated.{library}.{name}"
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


@cache
def takes_workspace(function: Kernel) -> bool:
    """Whether a kernel works block by block, and so takes the memory and the threads to do it with."""
    return "workspace" in inspect.signature(function).parameters


def new_workspace(library: str = "numpy", threads: int | None = None) -> Any:
    """Scratch memory for the kernels of a library, for one thread to call them with.

    They have so many threads, or one for each core.
    """
    return importlib.import_module(f"generated.{library}.workspace").Workspace(threads=threads)


def kernel_folder() -> Path:
    """The folder of the kernels that training uses."""
    return Path(str(importlib.import_module("generated").__file__)).resolve().parent


def use_kernels(folder: Path) -> None:
    """Let `import generated` mean the kernels in `folder` from now on.

    Raises:
        ImportError: There is no package.
    """
    for name in sorted(sys.modules):
        if name == "generated" or name.startswith("generated."):
            del sys.modules[name]
    kernel.cache_clear()
    file = folder.joinpath("__init__.py")
    spec = spec_from_file_location("generated", file, submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder}: cannot be imported as the package `generated`")
    package = module_from_spec(spec)
    sys.modules["generated"] = package
    spec.loader.exec_module(package)

"""What ours is compared with: which libraries are installed, and how each is set up.

A peer that cannot run here is left out, and a note says so; nothing is guessed. torch gets the threads that it takes by
itself; it and JAX are asked for what ours returns, the value and all gradients, in one call that ends when all of it is
there.
"""

from __future__ import annotations

import importlib
import os
import shutil
from types import ModuleType
from typing import Any

from benchmarks.timing import Note, Run


def installed(name: str, note: Note, what: str) -> ModuleType | None:
    """The module, or None and a note that says which peers are left out."""
    if name == "jax":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        return importlib.import_module(name)
    except ImportError:
        note(f"{name} is not installed; left out: {what}")
        return None


def can_compile(note: Note) -> bool:
    """Whether torch.compile finds a C++ compiler, which it needs on a CPU."""
    found = any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "clang++"))
    if not found:
        note("no C++ compiler was found; left out: torch.compile")
    return found


def through_autograd(torch: Any, function: Any, arguments: list[Any], upstream: Any | None = None) -> Run:
    """A run of function(*arguments) and of autograd through it: the value and the gradients of the leading tensors.

    Arguments that are tensors of floating point are differentiated for.
    """
    leaves = [
        value.clone().requires_grad_() if torch.is_tensor(value) and value.is_floating_point() else value
        for value in arguments
    ]
    wanted = [leaf for leaf in leaves if torch.is_tensor(leaf) and leaf.requires_grad]

    def run() -> tuple[Any, ...]:
        value = function(*leaves)
        return (value.detach(), *torch.autograd.grad(value, wanted, upstream))

    return run


def compiled(torch: Any, function: Any) -> Any:
    """The function through torch.compile, for fixed shapes, with nothing left from an earlier one."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)

"""Generated kernels as they lie in a folder: loaded by path, called with the inputs of a case.

Between the files `FOLDER/TARGET/NAME.py` and `codegen.checking.checks`. The folder need not be the installed
`generated`, and may be a second copy of it: its modules get a package name of their own, so that their relative imports
work and no installed module is touched.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from codegen.checking.array_library import ArrayLibrary, ContractError
from codegen.errors import KernelError
from derive.language import Tensor
from derive.program import Program
from derive.statements import KernelRequest

__all__ = ["Kernel", "opened"]

_numbers = count()


@dataclass(frozen=True)
class Kernel:
    """The functions of one generated module, and the program they were generated from.

    `lean` are the functions of the schedule that saves less, and `together` gives value and gradient at once, where the
    module has them.
    """

    program: Program
    request: KernelRequest
    library: ArrayLibrary
    forward: Callable[..., Any]
    backward: Callable[..., Any] | None
    lean: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    together: Callable[..., Any] | None = None

    @property
    def takes_numbers(self) -> bool:
        """Whether there is an array of numbers among its arguments, not of positions alone: it says their type."""
        return any(isinstance(known, Tensor) and known.into is None for known in self.program.all_inputs())

    def run(self, arrays: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """The outputs, and what the forward kernel saved for the backward kernel.

        Raises:
            ContractError: what comes back is not what a kernel returns.
        """
        returned = self.forward(*self._tensors(arrays), **options)
        if self.backward is not None:
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise ContractError(f"expected (output, saved) from the forward kernel, found {described(returned)}")
            return (returned[0],), returned[1]
        outputs = returned if len(self.request.outputs) > 1 else (returned,)
        if not isinstance(outputs, tuple) or len(outputs) != len(self.request.outputs):
            raise ContractError(f"expected {len(self.request.outputs)} outputs, found {described(returned)}")
        return outputs, None

    def gradients(self, upstream: Any, saved: Any) -> tuple[Any, ...]:
        """The gradients, in the order of the request.

        Raises:
            ContractError: what comes back is not a tuple with one gradient for each variable.
        """
        if self.backward is None:
            return ()
        returned = self.backward(upstream, saved)
        if not isinstance(returned, tuple) or len(returned) != len(self.request.wrt):
            raise ContractError(f"expected a tuple of {len(self.request.wrt)} gradients, found {described(returned)}")
        return returned

    def otherwise(
        self, arrays: Mapping[str, Any], options: Mapping[str, Any], upstream: Any
    ) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
        """For each other schedule its name, the output and the gradients."""
        tensors = self._tensors(arrays)
        if self.lean is not None:
            output, saved = self.lean[0](*tensors, **options)
            yield "the lean schedule", output, self.lean[1](upstream, saved)
        if self.together is not None:
            output, *gradients = self.together(*tensors, **options)
            yield "value and gradient in one", output, tuple(upstream * gradient for gradient in gradients)

    def _tensors(self, arrays: Mapping[str, Any]) -> list[Any]:
        return [arrays[str(known.name)] for known in self.program.all_inputs() if isinstance(known, Tensor)]


def described(value: Any) -> str:
    """What kind of value it is, in words."""
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__


@contextmanager
def opened(program: Program, request: KernelRequest, folder: Path, library: ArrayLibrary) -> Iterator[Kernel]:
    """The generated kernel of a program; its modules stay loaded for as long as the context lasts.

    Raises:
        KernelError: there is no such file, it cannot be imported, or it lacks a function.
    """
    path = folder / library.name / f"{program.name}.py"
    if not path.is_file():
        raise KernelError(
            f"kernel {program.name}: expected the generated file {path}, found none; run `gradproof generate`, for a "
            "program of your own with a folder (-o DIR), and name that folder here (--generated DIR)"
        )
    if request.wrt and len(request.outputs) != 1:
        raise KernelError(
            f"kernel {program.name}: expected one output to differentiate, found {len(request.outputs)}; "
            "ask for one kernel for each output"
        )
    package = f"gradproof_kernels_{next(_numbers)}"
    try:
        module = _module_at(path, package, program.name)
        suffixes = ("_forward", "_backward") if request.wrt else ("",)
        functions = [_function(module, path, program.name, f"{program.name}{suffix}") for suffix in suffixes]
        lean = [getattr(module, f"{program.name}_lean{suffix}", None) for suffix in suffixes]
        yield Kernel(
            program, request, library, functions[0], functions[1] if request.wrt else None,
            (lean[0], lean[1]) if len(lean) > 1 and lean[0] and lean[1] else None,
            getattr(module, f"{program.name}_value_and_gradient", None),
        )  # fmt: skip
    finally:
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]


class _SourceLoader(SourceFileLoader):
    """Compiles the file as it is now: cached bytecode may be of an older file of the same second and length."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _module_at(path: Path, package: str, kernel: str) -> ModuleType:
    target = f"{package}.{path.parent.name}"
    for name, folder in ((package, path.parent.parent), (target, path.parent)):
        parent = ModuleType(name)
        parent.__path__ = [str(folder)]
        sys.modules[name] = parent
    name = f"{target}.{path.stem}"
    spec = importlib.util.spec_from_loader(name, _SourceLoader(name, str(path)))
    if spec is None or spec.loader is None:
        raise KernelError(f"kernel {kernel}: {path} cannot be imported; run `gradproof generate`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a damaged file may fail in any way that Python knows
        raise KernelError(
            f"kernel {kernel}: {path} cannot be imported: {type(error).__name__}: {error}; run `gradproof generate`"
        ) from error
    return module


def _function(module: ModuleType, path: Path, kernel: str, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        raise KernelError(
            f"kernel {kernel}: expected a function {name} in {path}, found none; run `gradproof generate`"
        )
    return found  # type: ignore[no-any-return]

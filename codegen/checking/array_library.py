"""NumPy and PyTorch as one small table of operations: what the reference and the checks need of either.

Below `codegen.checking.reference` and `codegen.checking.checks`, beside the compiler and not used by it. A row of the
table holds the few operations that the two libraries spell differently; arithmetic, comparison, indexing, `reshape`,
`sum`, `prod` and `any` along an axis are spelt alike and need no row. torch is imported when its row is asked for,
never before.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import sympy

__all__ = ["ArrayLibrary", "ContractError", "array_library"]


class ContractError(TypeError):
    """A kernel returned something else than its callers expect."""


@dataclass(frozen=True)
class ArrayLibrary:
    """The operations of one array library.

    Attributes:
        name: The target that the library is for.
        array: The library's array, from a number, a truth value or a NumPy array, whose memory it shares.
        plain: A NumPy array, from one of the library's own arrays; raises ContractError for anything else.
        positions: 0, 1, ... count-1 as float64.
        where: Entries of the second argument where the first holds, else of the third.
        permute: The axes in another order.
        broadcast: The array repeated to a shape.
        real: The array as float64.
        whole: The array as int64, for use as an index.
        functions: The scalar functions of the language.
        single_threaded: A context in which the library uses one thread: for arrays of a few entries, several threads
            spend their time waiting for each other.
        in_double: A context in which numbers have float64 where nothing says their type.
    """

    name: str
    array: Callable[[Any], Any]
    plain: Callable[[Any], np.ndarray[Any, Any]]
    positions: Callable[[int], Any]
    where: Callable[[Any, Any, Any], Any]
    permute: Callable[[Any, tuple[int, ...]], Any]
    broadcast: Callable[[Any, tuple[int, ...]], Any]
    real: Callable[[Any], Any]
    whole: Callable[[Any], Any]
    functions: Mapping[type, Callable[[Any], Any]]
    single_threaded: Callable[[], AbstractContextManager[None]]
    in_double: Callable[[], AbstractContextManager[None]]


def array_library(target: str) -> ArrayLibrary:
    """The operations of the library that kernels of the target are written for.

    Raises:
        ValueError: there is no such target.
        ImportError: the library is not installed.
    """
    if target not in LIBRARIES:
        raise ValueError(f"target {target!r}: expected one of {', '.join(LIBRARIES)}")
    return LIBRARIES[target]()


@cache
def _numpy() -> ArrayLibrary:
    return ArrayLibrary(
        name="numpy",
        array=np.asarray,
        plain=_own_array,
        positions=lambda count: np.arange(count, dtype=np.float64),
        where=np.where,
        permute=np.transpose,
        broadcast=np.broadcast_to,
        real=lambda array: np.asarray(array, dtype=np.float64),
        whole=lambda array: np.asarray(array).astype(np.int64),
        functions={
            sympy.exp: np.exp,
            sympy.log: np.log,
            # NumPy has no erf: the C library's, one entry at a time, which is slow and exact.
            sympy.erf: np.vectorize(math.erf, otypes=[np.float64]),
            sympy.erfc: np.vectorize(math.erfc, otypes=[np.float64]),
            sympy.tanh: np.tanh,
            sympy.sinh: np.sinh,
            sympy.cosh: np.cosh,
            sympy.sin: np.sin,
            sympy.cos: np.cos,
            sympy.atan: np.arctan,
            sympy.sign: np.sign,
        },
        single_threaded=nullcontext,
        in_double=nullcontext,
    )


def _own_array(value: Any) -> np.ndarray[Any, Any]:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ContractError(f"expected a NumPy array, found {type(value).__name__}")
    return np.asarray(value)


@cache
def _torch() -> ArrayLibrary:
    torch: Any = importlib.import_module("torch")

    def tensor(value: Any) -> Any:
        # Reductions in NumPy return scalars, which torch does not take for arrays.
        plain = np.asarray(value)
        return torch.from_numpy(plain) if isinstance(value, (np.ndarray, np.generic)) else torch.tensor(plain)

    @contextmanager
    def one_thread() -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @contextmanager
    def double() -> Iterator[None]:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    def own_tensor(value: Any) -> np.ndarray[Any, Any]:
        if not isinstance(value, torch.Tensor):
            raise ContractError(f"expected a torch tensor, found {type(value).__name__}")
        return np.asarray(value.detach().cpu().numpy())

    return ArrayLibrary(
        name="torch",
        array=tensor,
        plain=own_tensor,
        positions=lambda count: torch.arange(count, dtype=torch.float64),
        where=torch.where,
        permute=lambda array, axes: array.permute(axes),
        broadcast=lambda array, shape: array.expand(shape),
        real=lambda array: array.to(torch.float64),
        whole=lambda array: array.to(torch.int64),
        functions={
            sympy.exp: torch.exp,
            sympy.log: torch.log,
            sympy.erf: torch.erf,
            sympy.erfc: torch.erfc,
            sympy.tanh: torch.tanh,
            sympy.sinh: torch.sinh,
            sympy.cosh: torch.cosh,
            sympy.sin: torch.sin,
            sympy.cos: torch.cos,
            sympy.atan: torch.atan,
            sympy.sign: torch.sign,
        },
        single_threaded=one_thread,
        in_double=double,
    )


LIBRARIES: Mapping[str, Callable[[], ArrayLibrary]] = {"numpy": _numpy, "torch": _torch}

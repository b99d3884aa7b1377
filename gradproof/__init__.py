"""The public face of gradproof: state a computation, prove its gradient for every size, get the kernel.

Last stage of the data flow. Everything a statement needs is importable from here; the mathematics itself is in
`derive`, the compiler in `codegen`. The names are fetched when first used, so that `import gradproof` (and
`gradproof --version`) does not load SymPy.

    from gradproof import Program, Sum, dims, index, indices, softmax, sqrt, tensors

    T, d = dims("T d")
    i, j = indices("i j", T)
    a = index("a", d)
    Q, K, V = tensors("Q K V", T, d)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sympy import erf, exp, log, sqrt, tanh

    from derive.errors import AlarmError, StatementError
    from derive.functions import (
        argmax,
        argmin,
        gelu,
        gelu_tanh,
        log_softmax,
        logsumexp,
        mean,
        relu,
        sigmoid,
        silu,
        softmax,
        softplus,
        variance,
    )
    from derive.language import (
        Product,
        Sum,
        delta,
        dim,
        dims,
        flag,
        index,
        indices,
        iverson,
        leading_index,
        lengths,
        scalar,
        scalars,
        tensor,
        tensors,
        where,
    )
    from derive.matrices import matrices, matrix, row_softmax, row_sum
    from derive.program import Claim, Program
    from derive.prove import Verdict, prove

__version__ = "0.1.0"

__all__ = [
    "AlarmError",
    "Claim",
    "Product",
    "Program",
    "StatementError",
    "Sum",
    "Verdict",
    "__version__",
    "argmax",
    "argmin",
    "delta",
    "dim",
    "dims",
    "erf",
    "exp",
    "flag",
    "gelu",
    "gelu_tanh",
    "index",
    "indices",
    "iverson",
    "leading_index",
    "lengths",
    "log",
    "log_softmax",
    "logsumexp",
    "matrices",
    "matrix",
    "mean",
    "prove",
    "relu",
    "row_softmax",
    "row_sum",
    "scalar",
    "scalars",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "sqrt",
    "tanh",
    "tensor",
    "tensors",
    "variance",
    "where",
]

# Where each public name is defined: the run-time twin of the imports above (a test holds the two together).
SOURCES: dict[str, str] = {
    name: module
    for module, names in {
        "derive.errors": "AlarmError StatementError",
        "derive.functions": "argmax argmin gelu gelu_tanh log_softmax logsumexp mean relu sigmoid silu softmax "
        "softplus variance",
        "derive.language": "Product Sum delta dim dims flag index indices iverson leading_index lengths scalar scalars "
        "tensor tensors where",
        "derive.matrices": "matrices matrix row_softmax row_sum",
        "derive.program": "Claim Program",
        "derive.prove": "Verdict prove",
        "sympy": "erf exp log sqrt tanh",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """The public name, fetched from the module that defines it.

    Raises:
        AttributeError: gradproof has no such name.
    """
    if name not in SOURCES:
        raise AttributeError(f"module 'gradproof' has no attribute {name!r}")
    value = getattr(importlib.import_module(SOURCES[name]), name)
    globals()[name] = value  # so that the next use is an ordinary look-up
    return value


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)

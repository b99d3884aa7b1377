"""The public face of gradproof: state a computation, prove its gradient for every size, get the kernel.

Last stage of the data flow. Everything a statement needs is importable from here, inference rules included; the
mathematics itself is in `derive`, the compiler in `codegen`. The names are fetched when first used, so that
`import gradproof` (and `gradproof --version`) does not load SymPy.

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
    from sympy import (
        Abs,
        And,
        Eq,
        Max,
        Min,
        Ne,
        Not,
        Or,
        Piecewise,
        Rational,
        atan,
        cos,
        cosh,
        erf,
        erfc,
        exp,
        log,
        pi,
        sign,
        sin,
        sinh,
        sqrt,
        tanh,
    )

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
        implies,
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
    from derive.operators import expectation, first_order, limit, variance_over
    from derive.program import Program
    from derive.prove import Verdict, prove
    from derive.rules import RuleRefusedError
    from derive.rules.cases import Case, Cases
    from derive.rules.chain import Chain
    from derive.rules.expansion import TaylorExpansion
    from derive.rules.expectation import Moments
    from derive.rules.gibbs import Gibbs, GibbsEquality, divergence
    from derive.rules.induction import Induction
    from derive.rules.lemma import Lemmas
    from derive.rules.limits import Decay, LimitOfDecays
    from derive.rules.monotone import StrictlyMonotone
    from derive.rules.order import Absolute, Bound, Combination
    from derive.rules.squares import Squares
    from derive.statements import Claim
    from derive.structured import Convention, is_free_entry, structured, structured_gradient

__version__ = "0.1.0"

__all__ = [
    "Abs",
    "Absolute",
    "AlarmError",
    "And",
    "Bound",
    "Case",
    "Cases",
    "Chain",
    "Claim",
    "Combination",
    "Convention",
    "Decay",
    "Eq",
    "Gibbs",
    "GibbsEquality",
    "Induction",
    "Lemmas",
    "LimitOfDecays",
    "Max",
    "Min",
    "Moments",
    "Ne",
    "Not",
    "Or",
    "Piecewise",
    "Product",
    "Program",
    "Rational",
    "RuleRefusedError",
    "Squares",
    "StatementError",
    "StrictlyMonotone",
    "Sum",
    "TaylorExpansion",
    "Verdict",
    "__version__",
    "argmax",
    "argmin",
    "atan",
    "cos",
    "cosh",
    "delta",
    "dim",
    "dims",
    "divergence",
    "erf",
    "erfc",
    "exp",
    "expectation",
    "first_order",
    "flag",
    "gelu",
    "gelu_tanh",
    "implies",
    "index",
    "indices",
    "is_free_entry",
    "iverson",
    "leading_index",
    "lengths",
    "limit",
    "log",
    "log_softmax",
    "logsumexp",
    "matrices",
    "matrix",
    "mean",
    "pi",
    "prove",
    "relu",
    "row_softmax",
    "row_sum",
    "scalar",
    "scalars",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "sqrt",
    "structured",
    "structured_gradient",
    "tanh",
    "tensor",
    "tensors",
    "variance",
    "variance_over",
    "where",
]

# Where each public name is defined: the run-time twin of the imports above (a test holds the two together).
SOURCES: dict[str, str] = {
    name: module
    for module, names in {
        "derive.errors": "AlarmError StatementError",
        "derive.functions": "argmax argmin gelu gelu_tanh log_softmax logsumexp mean relu sigmoid silu "
        "softmax softplus variance",
        "derive.language": "Product Sum delta dim dims flag implies index indices iverson leading_index "
        "lengths scalar scalars tensor tensors where",
        "derive.matrices": "matrices matrix row_softmax row_sum",
        "derive.operators": "expectation first_order limit variance_over",
        "derive.program": "Program",
        "derive.prove": "Verdict prove",
        "derive.rules": "RuleRefusedError",
        "derive.rules.cases": "Case Cases",
        "derive.rules.chain": "Chain",
        "derive.rules.expansion": "TaylorExpansion",
        "derive.rules.expectation": "Moments",
        "derive.rules.gibbs": "Gibbs GibbsEquality divergence",
        "derive.rules.induction": "Induction",
        "derive.rules.lemma": "Lemmas",
        "derive.rules.limits": "Decay LimitOfDecays",
        "derive.rules.monotone": "StrictlyMonotone",
        "derive.rules.order": "Absolute Bound Combination",
        "derive.rules.squares": "Squares",
        "derive.statements": "Claim",
        "derive.structured": "Convention is_free_entry structured structured_gradient",
        "sympy": "Abs And Eq Max Min Ne Not Or Piecewise Rational atan cos cosh erf erfc exp log "
        "pi sign sin sinh sqrt tanh",
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

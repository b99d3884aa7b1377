"""The operator tables: how each array library spells an operation of the IR.

A row is (text with {0}, {1} ... for the operands, precedence of the result, precedence each operand needs). Both tables
have the same keys; a test holds that. Precedence is Python's: an operand that binds less tightly is parenthesised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TERNARY, OR, AND, NOT, COMPARE, ADD, MUL, UNARY, POWER, POSTFIX, ATOM = range(11)


@dataclass(frozen=True)
class Spelling:
    """How one operation is written: the text, its precedence, and the precedence that its operands must have."""

    text: str
    precedence: int
    operands: tuple[int, ...]


def _call(name: str, count: int = 1) -> Spelling:
    return Spelling(f"{name}({', '.join(f'{{{k}}}' for k in range(count))})", POSTFIX, (TERNARY,) * count)


ARITHMETIC: dict[str, Spelling] = {
    "add": Spelling("{0} + {1}", ADD, (ADD, ADD)),
    "sub": Spelling("{0} - {1}", ADD, (ADD, MUL)),
    "mul": Spelling("{0} * {1}", MUL, (MUL, UNARY)),
    "div": Spelling("{0} / {1}", MUL, (MUL, UNARY)),
    "neg": Spelling("-{0}", UNARY, (UNARY,)),
    "power": Spelling("{0}**{1}", POWER, (POSTFIX, UNARY)),
    "gt": Spelling("{0} > {1}", COMPARE, (ADD, ADD)),
    "ge": Spelling("{0} >= {1}", COMPARE, (ADD, ADD)),
    "lt": Spelling("{0} < {1}", COMPARE, (ADD, ADD)),
    "le": Spelling("{0} <= {1}", COMPARE, (ADD, ADD)),
    "eq": Spelling("{0} == {1}", COMPARE, (ADD, ADD)),
    "ne": Spelling("{0} != {1}", COMPARE, (ADD, ADD)),
    # Conditions are arrays of truth values; a flag of the caller is handled before an array is touched.
    "or": Spelling("({0}) | ({1})", ATOM, (TERNARY, TERNARY)),
    "and": Spelling("({0}) & ({1})", ATOM, (TERNARY, TERNARY)),
    "not": Spelling("~({0})", UNARY, (TERNARY,)),
}

HOST: dict[str, Spelling] = {
    **ARITHMETIC,
    "or": Spelling("{0} or {1}", OR, (OR, AND)),
    "and": Spelling("{0} and {1}", AND, (AND, NOT)),
    "not": Spelling("not {0}", NOT, (NOT,)),
    "square": Spelling("{0}**2", POWER, (POSTFIX,)),
    **{
        name: _call(f"math.{name}")
        for name in ("sqrt", "exp", "log", "erf", "erfc", "tanh", "sinh", "cosh", "sin", "cos", "atan")
    },
    "softplus": Spelling("math.log1p(math.exp({0}))", POSTFIX, (TERNARY,)),
    "sign": Spelling("math.copysign(1.0, {0})", POSTFIX, (TERNARY,)),
}

NUMPY: dict[str, Spelling] = {
    **ARITHMETIC,
    **{
        name: _call(f"np.{name}")
        for name in ("sqrt", "square", "exp", "log", "tanh", "sinh", "cosh", "sin", "cos", "sign")
    },
    "atan": _call("np.arctan"),
    "erf": _call("erf"),
    "erfc": Spelling("1 - erf({0})", ADD, (TERNARY,)),
    "softplus": Spelling("np.logaddexp({0}, 0)", POSTFIX, (TERNARY,)),
    "finite": Spelling("np.maximum({0}, np.finfo(dtype).min)", POSTFIX, (TERNARY,)),
    "at_least_one": Spelling("np.maximum({0}, 1)", POSTFIX, (TERNARY,)),
}

TORCH: dict[str, Spelling] = {
    **ARITHMETIC,
    **{
        name: _call(f"torch.{name}")
        for name in (
            "sqrt",
            "square",
            "exp",
            "log",
            "tanh",
            "sinh",
            "cosh",
            "sin",
            "cos",
            "sign",
            "erf",
            "erfc",
            "atan",
        )
    },
    "softplus": Spelling("torch.nn.functional.softplus({0})", POSTFIX, (TERNARY,)),
    "finite": Spelling("torch.clamp({0}, min=torch.finfo(dtype).min)", POSTFIX, (TERNARY,)),
    "at_least_one": Spelling("torch.clamp({0}, min=1)", POSTFIX, (TERNARY,)),
}


@dataclass(frozen=True)
class Library:
    """An array library: its operators, and the few phrases that are not operators."""

    name: str
    prefix: str
    operators: Mapping[str, Spelling]
    permute: str
    reductions: Mapping[str, str]
    arange: str
    arange_number: str
    zeros: str
    eye: str
    clone: str
    expand: str
    as_number: str
    scatter: str
    where_host: str
    has: frozenset[str]
    runtime: Mapping[str, str]


LIBRARIES: dict[str, Library] = {
    "numpy": Library(
        name="numpy",
        prefix="np",
        operators=NUMPY,
        permute="transpose",
        reductions={"sum": ".sum(axis={axis})", "prod": ".prod(axis={axis})", "max": ".max(axis={axis})"},
        arange="np.arange({size})",
        arange_number="np.arange({size}, dtype=dtype)",
        zeros="np.zeros(({shape}), dtype)",
        eye="np.eye({size}, dtype=dtype)",
        clone=".copy()",
        expand="np.broadcast_to({value}, ({shape})).copy()",
        as_number=".astype(dtype)",
        scatter="np.add.at({array}, {where}, {value})",
        where_host="np.where({condition}, {yes}, {no}).astype(dtype)",
        has=frozenset(),
        runtime={
            "title": "NumPy",
            "library": "numpy as np",
            "array": "np.ndarray",
            "as_array": "np.asarray",
            "as_like": "value, dtype=like.dtype",
            "lacks_kind": 'value.dtype.kind not in ("iu" if argument.into is not None else "f")',
            "count": "value.size",
        },
    ),
    "torch": Library(
        name="torch",
        prefix="torch",
        operators=TORCH,
        permute="permute",
        reductions={"sum": ".sum(dim={axis})", "prod": ".prod(dim={axis})", "max": ".amax(dim={axis})"},
        arange="torch.arange({size}, device=device)",
        arange_number="torch.arange({size}, dtype=dtype, device=device)",
        zeros="torch.zeros(({shape}), dtype=dtype, device=device)",
        eye="torch.eye({size}, dtype=dtype, device=device)",
        clone=".clone()",
        expand="torch.broadcast_to({value}, ({shape})).clone()",
        as_number=".to(dtype)",
        scatter="{array}.index_put_({where}, {value}, accumulate=True)",
        where_host="torch.where({condition}, {yes}, {no}).to(dtype)",
        has=frozenset({"erf"}),
        runtime={
            "title": "PyTorch",
            "library": "torch",
            "array": "torch.Tensor",
            "as_array": "torch.as_tensor",
            "as_like": "value, dtype=like.dtype, device=like.device",
            "lacks_kind": "value.is_floating_point() != (argument.into is None)",
            "count": "value.numel()",
        },
    ),
}

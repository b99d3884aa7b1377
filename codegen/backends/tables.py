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
    "or": Spelling("({0}) | ({1})", COMPARE, (TERNARY, TERNARY)),
    "and": Spelling("({0}) & ({1})", COMPARE, (TERNARY, TERNARY)),
    "not": Spelling("~({0})", UNARY, (TERNARY,)),
}

# What an array library lacks, a function of the generated runtime.
RUNTIME_FUNCTIONS = (
    "erf", "erfc", "exp_at", "exp_difference", "expit", "logistic_at", "logistic_slope", "logistic_slope_at",
    "normal_cdf", "scaled_normal_cdf", "softplus", "wide_sum", "add_rows", "dot_rows",
)  # fmt: skip
AT = "({1}, {2}, {3}, {4})"  # the coefficients of a polynomial in {0}
# Passes over an array that one operation of these stands for, of which any other is one.
PASSES = {"exp_at": 3, "exp_difference": 2, "logistic_at": 4, "logistic_slope_at": 4, "scaled_logistic_at": 5}

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
    "softplus": Spelling("(max({0}, 0) + math.log1p(math.exp(-abs({0}))))", ATOM, (TERNARY,)),
    "logistic": Spelling("(math.exp(min({0}, 0)) / (1 + math.exp(-abs({0}))))", ATOM, (TERNARY,)),
    "logistic_slope": Spelling("(math.exp(-abs({0})) / (1 + math.exp(-abs({0})))**2)", ATOM, (TERNARY,)),
    "normal_cdf": Spelling("(0.5 * math.erfc(-math.sqrt(0.5) * {0}))", ATOM, (UNARY,)),
    "sign": Spelling("math.copysign(1.0, {0})", POSTFIX, (TERNARY,)),
}

# Functions of the runtime of both libraries.
OWN: dict[str, Spelling] = {
    "logistic": _call("expit"),  # not a name that a program may well have
    **{name: _call(name) for name in ("logistic_slope", "normal_cdf")},
    "exp_difference": _call("exp_difference", 2),
    "scaled_normal_cdf": _call("scaled_normal_cdf", 2),
    **{
        name: Spelling(f"{name}({{0}}, {AT})", POSTFIX, (TERNARY,) * 5)
        for name in ("exp_at", "logistic_at", "logistic_slope_at")
    },
    "scaled_logistic": Spelling("expit({1}, times={0})", POSTFIX, (TERNARY,) * 2),
    "scaled_logistic_at": Spelling("logistic_at({1}, ({2}, {3}, {4}, {5}), times={0})", POSTFIX, (TERNARY,) * 6),
}
OWN_INTO = {name: f"{spelling.text[:-1]}, out={{out}})" for name, spelling in OWN.items()}

NUMPY: dict[str, Spelling] = {
    **ARITHMETIC,
    **{
        name: _call(f"np.{name}")
        for name in ("sqrt", "square", "exp", "log", "tanh", "sinh", "cosh", "sin", "cos", "sign")
    },
    "atan": _call("np.arctan"),
    **OWN,
    **{name: _call(name) for name in ("erf", "erfc", "softplus")},
    "rsqrt": Spelling("1 / np.sqrt({0})", MUL, (TERNARY,)),
    "finite": Spelling("np.maximum({0}, np.finfo(dtype).min)", POSTFIX, (TERNARY,)),
    "at_least_one": Spelling("np.maximum({0}, 1)", POSTFIX, (TERNARY,)),
    "positive": _call("or_one"),
    "number": Spelling("float({0})", POSTFIX, (TERNARY,)),
    "as_number": Spelling("{0}.astype(dtype)", POSTFIX, (POSTFIX,)),
}


NUMBER_ZERO = "torch.zeros((), dtype=dtype, device=device)"
TORCH: dict[str, Spelling] = {
    **ARITHMETIC,
    **{
        name: _call(f"torch.{name}")
        for name in (
            "sqrt",
            "rsqrt",
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
    **OWN,
    # torch.nn.functional.softplus(x) is x above 20: not to float64.
    "softplus": Spelling(f"torch.logaddexp({{0}}, {NUMBER_ZERO})", POSTFIX, (TERNARY,)),
    "finite": Spelling("torch.clamp({0}, min=torch.finfo(dtype).min)", POSTFIX, (TERNARY,)),
    "at_least_one": Spelling("torch.clamp({0}, min=1)", POSTFIX, (TERNARY,)),
    "positive": _call("or_one"),
    "number": Spelling("float({0})", POSTFIX, (TERNARY,)),
    "as_number": Spelling("{0}.to(dtype)", POSTFIX, (POSTFIX,)),
}


# Inside a loop every wide operation writes to memory that is there: {0}, {1} are the operands, {out} is the memory.
NUMPY_IN_PLACE = {
    name: f"{{out}} {sign} {{0}}" for name, sign in (("add", "+="), ("sub", "-="), ("mul", "*="), ("div", "/="))
}
# An augmented assignment to a part of a tensor copies it onto itself.
TORCH_IN_PLACE = {name: f"{{out}}.{name}_({{0}})" for name in ("add", "sub", "mul", "div")}
NUMPY_INTO = {
    **{
        name: f"np.{function}({{0}}, {{1}}, out={{out}})"
        for name, function in (
            ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("div", "divide"), ("matmul", "matmul"),
        )
    },
    **{
        name: f"np.{function}({{0}}, out={{out}})"
        for name, function in (
            ("neg", "negative"), ("exp", "exp"), ("log", "log"), ("sqrt", "sqrt"), ("square", "square"),
            ("tanh", "tanh"), ("sin", "sin"), ("cos", "cos"), ("sinh", "sinh"), ("cosh", "cosh"), ("sign", "sign"),
            ("atan", "arctan"),
        )
    },
    **OWN_INTO,
    **{name: f"{name}({{0}}, out={{out}})" for name in ("erf", "erfc", "softplus")},
    "finite": "np.maximum({0}, np.finfo(dtype).min, out={out})",
    "at_least_one": "np.maximum({0}, 1, out={out})",
}  # fmt: skip
TORCH_INTO = {
    **{
        name: f"torch.{name}({{0}}, {{1}}, out={{out}})" for name in ("add", "sub", "mul", "div", "matmul")
    },
    **{
        name: f"torch.{name}({{0}}, out={{out}})"
        for name in (
            "neg", "exp", "log", "sqrt", "rsqrt", "square", "tanh", "sin", "cos", "sinh", "cosh", "sign", "atan", "erf",
            "erfc",
        )
    },
    **OWN_INTO,
    "softplus": f"torch.logaddexp({{0}}, {NUMBER_ZERO}, out={{out}})",
    "finite": "torch.clamp({0}, min=torch.finfo(dtype).min, out={out})",
    "at_least_one": "torch.clamp({0}, min=1, out={out})",
}  # fmt: skip


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
    full: str  # an array of one number
    as_number: str
    scatter: str
    where_host: str
    number: str  # a number of the host as an array, where a selection of two would round it
    blocks: bool
    lots: bool  # whether a stack of matrices is multiplied as fast as one after the other
    plain_summands: bool  # whether functions that keep their last digits are spelled out where these are not seen
    contiguous: str  # lays an array out anew, in the order of its axes, where products would do so each time
    sum_of_rows: str  # the sum over the first axis of a matrix, where that is no call of its own
    dots: str  # the sum of products along the last axis, where that is no call of its own
    times_vector: Spelling  # the product of a matrix and a vector, {0} and {1}
    vector_first: Spelling  # the product of a vector, {1}, and a matrix, {0}
    sums_products: bool  # whether a sum of products is faster as a product and a sum than by einsum
    axis: str
    into: Mapping[str, str]
    in_place: Mapping[str, str]
    needs_array_first: bool
    assigning_copies: bool  # whether an assignment to a part costs more than a call with the part as its memory
    copy: str
    fill: str
    fill_where: str
    empty: str
    larger: str
    lowest: str  # a number that is no larger than any
    products: Mapping[int, str]  # by number of axes, a call that computes a product and nothing else
    adds_products: Mapping[int, str]  # by number of axes, a call that adds a product to what is there
    starts_products: Mapping[int, str]  # likewise, one that adds it to {2}, which is broadcast
    adds_multiples: tuple[str, ...]  # calls that add to {0} the product by entry of {1} and {2}, or {3} times it
    norm: str  # the root of the sum of squares along an axis
    bands: tuple[str, str]  # calls that put 0 above, or below, a diagonal of the last two axes
    has: frozenset[str]
    runtime: Mapping[str, str]


LIBRARIES: dict[str, Library] = {
    "numpy": Library(
        name="numpy",
        prefix="np",
        operators=NUMPY,
        permute="transpose",
        reductions={
            "sum": "{operand}.sum(axis={axis})",
            "wide sum": "wide_sum({operand}, {axis})",
            "prod": "{operand}.prod(axis={axis})",
            "max": "{operand}.max(axis={axis})",
            "max of any": "{operand}.max(axis={axis}, initial=-math.inf)",
        },
        arange="np.arange({range})",
        arange_number="np.arange({range}, dtype=dtype)",
        zeros="np.zeros(({shape}), dtype)",
        eye="np.eye({size}, dtype=dtype)",
        clone=".copy()",
        expand="np.broadcast_to({value}, ({shape})).copy()",
        full="np.full(({shape}), {value}, dtype)",
        as_number=".astype(dtype)",
        scatter="add_at({array}, {where}, {value})",
        where_host="np.where({condition}, {yes}, {no}).astype(dtype)",
        number="",
        blocks=True,
        lots=True,
        plain_summands=False,
        contiguous="",
        sum_of_rows="add_rows({operand})",
        dots="dot_rows({0}, {1})",
        times_vector=_call("np.dot", 2),  # of the ways to write it the one that other threads need not wait for
        vector_first=Spelling("np.dot({0}.T, {1})", POSTFIX, (POSTFIX, TERNARY)),
        sums_products=False,
        axis="axis",
        into=NUMPY_INTO,
        in_place=NUMPY_IN_PLACE,
        needs_array_first=False,
        assigning_copies=False,
        copy="np.copyto({out}, {0})",
        fill="{out}.fill({value})",
        fill_where="np.copyto({out}, {value}, where={where})",
        empty="workspace.empty(({shape}), dtype)",
        larger="np.maximum({0}, {1})",
        lowest="np.full((), -math.inf, dtype)",
        products={},
        adds_products={},
        starts_products={},
        adds_multiples=(),
        norm="",
        bands=("", ""),
        has=frozenset(),
        runtime={
            "title": "NumPy",
            "library": "numpy as np",
            "array": "np.ndarray",
            "as_array": "np.asarray",
            "as_like": "value, dtype=like.dtype",
            "lacks_kind": 'value.dtype.kind not in ("iu" if argument.into is not None else "f")',
            "count": "value.size",
            "kind": "dtype",
            "dtype_type": "np.dtype",
            "memory": "memory_numpy.py.jinja",
            "block": "2**18",
            "tile": "2**17",
            "lowest": "64",
            "flat": "2048",
            "kind_arguments": "dtype",
            "kind_signature": "dtype: np.dtype",
            "piece_size": "piece.size",
            "empty_piece": "np.empty(size, self.kind)",
            "cores": "cores_numpy.py.jinja",
            "alone": "2**21  # entries of all blocks together up to which products share the cores, not blocks",
            "alone_if": "matrices and ",
            "alone_unless": "",
            "alone_then": "alone",
            "guard": "",
            "element_type": "np.dtype[Any]",
            "promoted": "np.result_type(first, second)",
            "low_precision": "kind == np.float16",
            "single": "np.dtype(np.float32)",
            "typed": "value.astype({kind}, copy=False)",
            "out_of_sight": "",
        },
    ),
    "torch": Library(
        name="torch",
        prefix="torch",
        operators=TORCH,
        permute="permute",
        reductions={
            "sum": "{operand}.sum(dim={axis})",
            "wide sum": "wide_sum({operand}, {axis})",
            "prod": "{operand}.prod(dim={axis})",
            "max": "{operand}.amax(dim={axis})",
            "max of any": "largest({operand}, {axis})",
        },
        arange="torch.arange({range}, device=device)",
        arange_number="torch.arange({range}, dtype=dtype, device=device)",
        zeros="torch.zeros(({shape}), dtype=dtype, device=device)",
        eye="torch.eye({size}, dtype=dtype, device=device)",
        clone=".clone()",
        expand="torch.broadcast_to({value}, ({shape})).clone()",
        full="torch.full(({shape}), {value}, dtype=dtype, device=device)",
        as_number=".to(dtype)",
        scatter="{array}.index_put_({where}, {value}, accumulate=True)",
        where_host="torch.where({condition}, {yes}, {no}).to(dtype)",
        # Of two numbers that are not whole torch.where makes single precision, whatever the arrays have.
        number="torch.as_tensor({value}, dtype=dtype, device=device)",
        blocks=True,
        lots=True,
        plain_summands=True,
        contiguous=".contiguous()",
        sum_of_rows="",
        dots="",
        times_vector=Spelling("{0} @ {1}", MUL, (MUL, UNARY)),
        vector_first=Spelling("{0}.T @ {1}", MUL, (POSTFIX, UNARY)),  # the other way round it is one of two matrices
        sums_products=True,
        axis="dim",
        into=TORCH_INTO,
        in_place=TORCH_IN_PLACE,
        needs_array_first=True,
        assigning_copies=True,
        copy="{out}.copy_({0})",
        fill="{out}.fill_({value})",
        fill_where="{out}.masked_fill_({where}, {value})",
        empty="workspace.empty(({shape}), dtype, device)",
        larger="torch.maximum({0}, {1})",
        lowest="torch.full((), -math.inf, dtype=dtype, device=device)",
        products={2: "torch.mm({0}, {1}, out={out})", 3: "torch.bmm({0}, {1}, out={out})"},
        adds_products={2: "{out}.addmm_({0}, {1}{beta})", 3: "{out}.baddbmm_({0}, {1}{beta})"},
        starts_products={
            2: "torch.addmm({2}, {0}, {1}, out={out})",
            3: "torch.baddbmm({2}, {0}, {1}, out={out})",
        },
        adds_multiples=(
            "torch.addcmul({0}, {1}, {2}, out={out})",
            "torch.addcmul({0}, {1}, {2}, value={3}, out={out})",
        ),
        norm="torch.linalg.vector_norm({operand}, dim={axis})",
        bands=("{out}.tril_({diagonal})", "{out}.triu_({diagonal})"),
        has=frozenset({"operators", "erf", "erfc", "softplus"}),
        runtime={
            "title": "PyTorch",
            "library": "torch",
            "array": "torch.Tensor",
            "as_array": "torch.as_tensor",
            "as_like": "value, dtype=like.dtype, device=like.device",
            "lacks_kind": "value.is_floating_point() != (argument.into is None)",
            "count": "value.numel()",
            "kind": "(dtype, device)",
            "dtype_type": "torch.dtype",
            "memory": "memory_torch.py.jinja",
            "block": "2**19",  # a call costs more than with NumPy
            "tile": "2**18",  # products of low matrices are slower than with NumPy, sums of them cost no pass
            "lowest": "128",
            "flat": "1024",
            "kind_arguments": "dtype, device",
            "kind_signature": "dtype: torch.dtype, device: torch.device",
            "piece_size": "piece.numel()",
            "empty_piece": "torch.empty(size, dtype=self.kind[0], device=self.kind[1])",
            "cores": "cores_torch.py.jinja",
            "alone": "2**21  # entries of all blocks together up to which operations share the cores, not blocks",
            "alone_if": "",
            "alone_unless": " and not (lots and together == 1)",
            "alone_then": "(alone and self.threads > 1)",
            "guard": "torch.no_grad()",  # memory that is there is no matter for autograd
            "element_type": "torch.dtype",
            "promoted": "torch.promote_types(first, second)",
            "low_precision": "kind in (torch.float16, torch.bfloat16)",
            "single": "torch.float32",
            "typed": "value.to({kind})",
            "out_of_sight": 'torch.compiler.is_compiling() or value.device.type in ("cuda", "meta", "xpu")',
        },
    ),
}

"""NumPy: its operators, and the phrases that are not operators."""

from __future__ import annotations

from codegen.backends.library import Companion, Library
from codegen.backends.spelling import ARITHMETIC, MUL, OWN, OWN_INTO, POSTFIX, TERNARY, Spelling, called

# The larger or smaller of two arrays, or of an array and a number.
EXTREMES = {"maximum": "maximum", "minimum": "minimum", "at_least": "maximum", "at_most": "minimum"}
OPERATORS: dict[str, Spelling] = {
    **ARITHMETIC,
    **{
        name: called(f"np.{name}")
        for name in ("sqrt", "square", "exp", "expm1", "log", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "sign")
    },
    "atan": called("np.arctan"),
    **OWN,
    **{name: called(name) for name in ("erf", "erfc", "softplus")},
    "rsqrt": Spelling("1 / np.sqrt({0})", MUL, (TERNARY,)),
    **{name: called(f"np.{function}", 2) for name, function in EXTREMES.items()},
    "finite": Spelling("np.maximum({0}, np.finfo(dtype).min)", POSTFIX, (TERNARY,)),
    "at_least_one": Spelling("np.maximum({0}, 1)", POSTFIX, (TERNARY,)),
    "positive": called("or_one"),
    "number": Spelling("float({0})", POSTFIX, (TERNARY,)),
    "as_number": Spelling("{0}.astype(dtype)", POSTFIX, (POSTFIX,)),
}

# Inside a loop every wide operation writes to memory that is there: {0}, {1} are the operands, {out} is the memory.
IN_PLACE = {
    name: f"{{out}} {sign} {{0}}" for name, sign in (("add", "+="), ("sub", "-="), ("mul", "*="), ("div", "/="))
}
INTO = {
    **{
        name: f"np.{function}({{0}}, {{1}}, out={{out}})"
        for name, function in (
            ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("div", "divide"), ("matmul", "matmul"),
        )
    },
    **{
        name: f"np.{function}({{0}}, out={{out}})"
        for name, function in (
            ("neg", "negative"), ("exp", "exp"), ("expm1", "expm1"), ("log", "log"), ("log1p", "log1p"),
            ("sqrt", "sqrt"), ("square", "square"), ("tanh", "tanh"), ("sin", "sin"), ("cos", "cos"), ("sinh", "sinh"),
            ("cosh", "cosh"), ("sign", "sign"), ("atan", "arctan"),
        )
    },
    **OWN_INTO,
    **{name: f"np.{function}({{0}}, {{1}}, out={{out}})" for name, function in EXTREMES.items()},
    **{name: f"{name}({{0}}, out={{out}})" for name in ("erf", "erfc", "softplus")},
    "finite": "np.maximum({0}, np.finfo(dtype).min, out={out})",
    "at_least_one": "np.maximum({0}, 1, out={out})",
}  # fmt: skip

NUMPY = Library(
    name="numpy",
    prefix="np",
    operators=OPERATORS,
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
    spread="np.broadcast_to({value}, ({shape}))",
    full="np.full(({shape}), {value}, dtype)",
    as_number=".astype(dtype)",
    positions="{0}",
    scatter="add_at({array}, {where}, {value})",
    where_host="np.where({condition}, {yes}, {no}).astype(dtype)",
    number="",
    blocks=True,
    lots=True,
    plain_summands=False,
    contiguous="",
    sum_of_rows="add_rows({operand})",
    sum_along_rows="sum_rows({operand})",
    turned="turned({0}, {rows})",
    dots="dot_rows({0}, {1})",
    times_vector=called("np.dot", 2),  # of the ways to write it the one that other threads need not wait for
    vector_first=Spelling("np.dot({0}.T, {1})", POSTFIX, (POSTFIX, TERNARY)),
    sums_products=False,
    axis="axis",
    into=INTO,
    companions={
        "normal_cdf": Companion("exp_at", ("0", "0", "-0.5", "0"), "normal_cdf({0}, out={out}, bell={other})"),
    },
    in_place=IN_PLACE,
    needs_array_first=False,
    assigning_copies=False,
    copy="np.copyto({out}, {0})",
    fill="{out}.fill({value})",
    fill_where="np.copyto({out}, {value}, where={where})",
    falsehoods="np.zeros(({shape}), bool)",
    holding="",
    empty="workspace.empty(({shape}), dtype)",
    lowest="np.full((), -math.inf, dtype)",
    products={},
    adds_products={},
    starts_products={},
    adds_multiples=(),
    norm="",
    bands=("", ""),
    base_two={},  # without AVX-512 a power of 2 is the slower of the two
    has=frozenset(),
    runtime={
        "title": "NumPy",
        "library": "numpy as np",
        "array": "np.ndarray",
        "as_array": "np.asarray",
        "as_like": "value, dtype=like.dtype",
        "computes": 'kind.kind == "f" and kind.itemsize <= 8',
        "points": 'kind.kind in "iu"',
        "integers": "integers",
        "as_computed": 'kind if kind.isnative else kind.newbyteorder("=")',
        "order": "\n\n    Its bytes are in the machine's order: functions below look at bits.\n    ",
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
        "pool_options": "",
        "alone": "0",
        "together": "2**19",
        "guard": "",
        "element_type": "np.dtype[Any]",
        "promoted": "np.result_type(first, second)",
        "low_precision": "kind.itemsize == 2",
        "single": "np.dtype(np.float32)",
        "default": "np.dtype(np.float64)",
        "typed": "value.astype({kind}, copy=False)",
        "out_of_sight": "",
    },
)

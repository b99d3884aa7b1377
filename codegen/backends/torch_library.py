"""PyTorch: its operators, and the phrases that are not operators."""

from __future__ import annotations

from codegen.backends.library import Library
from codegen.backends.spelling import ARITHMETIC, MUL, OWN, OWN_INTO, POSTFIX, TERNARY, UNARY, Spelling, called

NUMBER_ZERO = "torch.zeros((), dtype=dtype, device=device)"
ENDS = {"at_least": "min", "at_most": "max"}  # of a range that entries are brought into
OPERATORS: dict[str, Spelling] = {
    **ARITHMETIC,
    **{
        name: called(f"torch.{name}")
        for name in (
            "sqrt",
            "rsqrt",
            "square",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log1p",
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
    **{name: called(f"torch.{name}", 2) for name in ("maximum", "minimum")},
    **{name: Spelling(f"torch.clamp({{0}}, {end}={{1}})", POSTFIX, (TERNARY,) * 2) for name, end in ENDS.items()},
    "finite": Spelling("torch.clamp({0}, min=torch.finfo(dtype).min)", POSTFIX, (TERNARY,)),
    "at_least_one": Spelling("torch.clamp({0}, min=1)", POSTFIX, (TERNARY,)),
    "positive": called("or_one"),
    "number": Spelling("float({0})", POSTFIX, (TERNARY,)),
    "as_number": Spelling("{0}.to(dtype)", POSTFIX, (POSTFIX,)),
}

# Inside a loop every wide operation writes to memory that is there: {0}, {1} are the operands, {out} is the memory.
# An augmented assignment to a part of a tensor copies it onto itself.
IN_PLACE = {name: f"{{out}}.{name}_({{0}})" for name in ("add", "sub", "mul", "div")}
INTO = {
    **{
        name: f"torch.{name}({{0}}, {{1}}, out={{out}})" for name in ("add", "sub", "mul", "div", "matmul")
    },
    **{
        name: f"torch.{name}({{0}}, out={{out}})"
        for name in (
            "neg", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "square", "tanh", "sin", "cos",
            "sinh", "cosh", "sign", "atan", "erf", "erfc",
        )
    },
    **OWN_INTO,
    **{name: f"torch.{name}({{0}}, {{1}}, out={{out}})" for name in ("maximum", "minimum")},
    **{name: f"torch.clamp({{0}}, {end}={{1}}, out={{out}})" for name, end in ENDS.items()},
    "softplus": f"torch.logaddexp({{0}}, {NUMBER_ZERO}, out={{out}})",
    "finite": "torch.clamp({0}, min=torch.finfo(dtype).min, out={out})",
    "at_least_one": "torch.clamp({0}, min=1, out={out})",
}  # fmt: skip

TORCH = Library(
    name="torch",
    prefix="torch",
    operators=OPERATORS,
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
    spread="torch.broadcast_to({value}, ({shape}))",
    full="torch.full(({shape}), {value}, dtype=dtype, device=device)",
    as_number=".to(dtype)",
    positions="{0}.long()",  # bytes would be a mask
    scatter="{array}.index_put_({where}, {value}, accumulate=True)",
    where_host="torch.where({condition}, {yes}, {no}).to(dtype)",
    # Of two numbers that are not whole torch.where makes single precision, whatever the arrays have.
    number="torch.as_tensor({value}, dtype=dtype, device=device)",
    blocks=True,
    lots=True,
    plain_summands=True,
    contiguous=".contiguous()",
    sum_of_rows="",
    sum_along_rows="",
    turned="",
    dots="",
    times_vector=Spelling("{0} @ {1}", MUL, (MUL, UNARY)),
    vector_first=Spelling("{0}.T @ {1}", MUL, (POSTFIX, UNARY)),  # the other way round it is one of two matrices
    sums_products=True,
    axis="dim",
    into=INTO,
    companions={},
    in_place=IN_PLACE,
    needs_array_first=True,
    assigning_copies=True,
    copy="{out}.copy_({0})",
    fill="{out}.fill_({value})",
    fill_where="{out}.masked_fill_({where}, {value})",
    empty="workspace.empty(({shape}), dtype, device)",
    falsehoods="torch.zeros(({shape}), dtype=torch.bool, device=device)",
    holding="@holding_cores",
    lowest="torch.full((), -math.inf, dtype=dtype, device=device)",
    products={2: "torch.mm({0}, {1}, out={out})", 3: "torch.bmm({0}, {1}, out={out})"},
    adds_products={2: "{out}.addmm_({0}, {1}{beta})", 3: "{out}.baddbmm_({0}, {1}{beta})"},
    starts_products={
        2: "torch.addmm({2}, {0}, {1}, out={out})",
        3: "torch.baddbmm({2}, {0}, {1}, out={out})",
    },
    adds_multiples=(
        ("torch.add({0}, {1}, out={out})", "torch.add({0}, {1}, alpha={2}, out={out})"),
        ("torch.addcmul({0}, {1}, {2}, out={out})", "torch.addcmul({0}, {1}, {2}, value={3}, out={out})"),
    ),
    norm="torch.linalg.vector_norm({operand}, dim={axis})",
    bands=("{out}.tril_({diagonal})", "{out}.triu_({diagonal})"),
    base_two={"exp": "exp2", "log": "log2"},
    has=frozenset({"operators", "erf", "erfc", "softplus"}),
    runtime={
        "title": "PyTorch",
        "library": "torch",
        "array": "torch.Tensor",
        "as_array": "torch.as_tensor",
        "as_like": "value, dtype=like.dtype, device=like.device",
        "computes": "kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64)",
        # PyTorch finds no least entry of the wider types without a sign.
        "points": "kind in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)",
        "integers": "integers of a type that PyTorch computes with",
        "as_computed": "kind",
        "order": "",
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
        "pool_options": ", initializer=torch.set_num_threads, initargs=(1,)",
        "alone": "2**21",
        "together": "2**21",
        "guard": "torch.no_grad()",  # memory that is there is no matter for autograd
        "element_type": "torch.dtype",
        "promoted": "torch.promote_types(first, second)",
        "low_precision": "kind in (torch.float16, torch.bfloat16)",
        "single": "torch.float32",
        "default": "torch.get_default_dtype()",
        "typed": "value.to({kind})",
        "out_of_sight": 'torch.compiler.is_compiling() or value.device.type in ("cuda", "meta", "xpu")',
    },
)

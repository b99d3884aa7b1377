"""gradproof/training/ computes nothing itself: what touches weights, activations, gradients or losses is a kernel.

The source may contain only what the tables below list, file by file: every arithmetic expression, every NumPy name,
every built-in, every import. A second witness is in `tests/numeric/test_training_run.py`: a run in which everything
that the kernels return refuses to be computed on.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gradproof import training

try:
    import torch
except ImportError:
    torch = None

FOLDER = Path(training.__file__).parent


@dataclass(frozen=True)
class Allowed:
    """What a file may contain beyond moving values around.

    `arithmetic` lists whole expressions: operators, and calls that reduce, draw or look up by name. `numpy` and `torch`
    list dotted names below the libraries, `names` are built-ins, `attributes` names that arrays have too.
    """

    arithmetic: frozenset[str] = frozenset()
    numpy: frozenset[str] = frozenset()
    torch: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()


# The files through which arrays of the model go. What stands under `arithmetic` is on sizes, settings, places in a
# text, seconds, and losses that are Python floats already; a profile multiplies two arrays of zeros to time it.
ALLOWED = {
    "model.py": Allowed(
        arithmetic=frozenset(
            {
                "first + len(tokens)",
                "int | np.random.SeedSequence",
                "self.config.context - start",
                "self.first_row + first_row",
                "start + length",
                "start + tokens.shape[1]",
            }
        ),
        numpy=frozenset(
            {
                "int64",
                "random.SeedSequence",
                "random.default_rng",
            }
        ),
        imports=frozenset(
            {
                "contextlib.AbstractContextManager",
                "importlib.util.find_spec",
            }
        ),
        attributes=frozenset(
            {
                "copy",
            }
        ),
    ),
    "cache.py": Allowed(
        arithmetic=frozenset(
            {
                "self.length + rows.shape[1]",
            }
        ),
        numpy=frozenset(
            {
                "arange",
                "int64",
            }
        ),
        attributes=frozenset(
            {
                "copy",
            }
        ),
    ),
    "engine_numpy.py": Allowed(
        arithmetic=frozenset(
            {
                "1 << 17",
            }
        ),
        numpy=frozenset(
            {
                "array",
                "copyto",
                "dtype",
                "zeros",
            }
        ),
        imports=frozenset(
            {
                "contextlib.AbstractContextManager",
                "contextlib.nullcontext",
                "threadpoolctl.ThreadpoolController",
            }
        ),
        attributes=frozenset(
            {
                "astype",
            }
        ),
    ),
    "parts.py": Allowed(
        arithmetic=frozenset(
            {
                "1 / len(parts)",
                "fmean(losses)",
                "min(self._lanes, len(self._parts(len(tokens))))",
                "self.config.batch // self.config.parts",
                "share(0) + wait()",
                "start + size",
            }
        ),
        imports=frozenset(
            {
                "concurrent.futures.ThreadPoolExecutor",
                "functools.partial",
                "os",
            }
        ),
        names=frozenset(
            {
                "BaseException",
            }
        ),
        attributes=frozenset(
            {
                "copy",
            }
        ),
    ),
    "engine_torch.py": Allowed(
        arithmetic=frozenset(
            {
                "getattr(torch, dtype)",
                "getattr(torch, weight_dtype)",
            }
        ),
        numpy=frozenset(
            {
                "ascontiguousarray",
            }
        ),
        torch=frozenset(
            {
                "as_tensor",
                "bfloat16",
                "cuda.current_device",
                "cuda.is_available",
                "cuda.synchronize",
                "device",
                "dtype",
                "from_numpy",
                "get_float32_matmul_precision",
                "get_num_threads",
                "no_grad",
                "set_num_threads",
                "tensor",
                "torch",
                "zeros",
            }
        ),
        imports=frozenset(
            {
                "contextlib.contextmanager",
                "sys",
                "torch",
                "torch.Tensor",
                "torch.nn",
            }
        ),
        names=frozenset(
            {
                "MemoryError",
                "RuntimeError",
            }
        ),
        attributes=frozenset(
            {
                "backward",  # autograd's, through the kernels
                "copy_",
                "cpu",
                "detach",
                "device",
                "float",
                "grad",
                "numpy",
                "partition",  # of a message
                "to",
                "type",
                "values",
                "zero_",
            }
        ),
    ),
    "execution.py": Allowed(),
    "presence.py": Allowed(),
    "optimiser.py": Allowed(
        arithmetic=frozenset(
            {
                "math.isfinite(norm)",
            }
        ),
        numpy=frozenset(
            {
                "array",
                "float64",
            }
        ),
        attributes=frozenset(
            {
                "clip",
                "copy",
            }
        ),
    ),
    "draws.py": Allowed(
        arithmetic=frozenset(
            {
                "np.random.default_rng([config.seed, step, row]).random(dtype=np.float32, out=drawn[place])",
            }
        ),
        numpy=frozenset(
            {
                "empty",
                "float32",
                "random.default_rng",
            }
        ),
    ),
    "kernels.py": Allowed(
        arithmetic=frozenset(
            {
                "getattr(module, function)",
            }
        ),
        imports=frozenset(
            {
                "importlib",
                "importlib.util.module_from_spec",
                "importlib.util.spec_from_file_location",
                "inspect",
                "sys",
            }
        ),
        names=frozenset(
            {
                "ImportError",
            }
        ),
    ),
    "parameters.py": Allowed(
        arithmetic=frozenset(
            {
                "(2 * config.layers) ** (-0.5)",
                "2 ** 56",
                "config.feed_forward_width ** (-0.5) * into_stream",
                "config.width ** (-0.5)",
                "config.width ** (-0.5) * into_stream",
                "generator.normal(spec.centre, spec.spread, spec.shape)",
                "own // 2",
                "start + math.prod(spec.shape)",
                "sum((math.prod(spec.shape) for spec in specs))",
            }
        ),
        numpy=frozenset(
            {
                "random.Generator",
            }
        ),
        names=frozenset(
            {
                "MemoryError",
                "map",
            }
        ),
    ),
    "distributed.py": Allowed(
        arithmetic=frozenset(
            {
                "(self.rank + 1) * share",
                "[0.0] * self.size",
                "config.batch % size",
                "fmean(losses)",
                "self.batch // self.size",
                "self.rank * share",
            }
        ),
        torch=frozenset(
            {
                "cuda.is_available",
                "cuda.set_device",
            }
        ),
        imports=frozenset(
            {
                "contextlib.contextmanager",
                "contextlib.suppress",
                "os",
                "sys",
                "torch",
                "torch.distributed",
                "torch.nn.parallel.DistributedDataParallel",
            }
        ),
        names=frozenset(
            {
                "BaseException",
                "OSError",
                "RuntimeError",
            }
        ),
        attributes=frozenset(
            {
                "device",
                "mean",  # of a number of each process
                "size",
            }
        ),
    ),
    "diagnosis.py": Allowed(
        numpy=frozenset(
            {
                "errstate",
                "isfinite",
                "isnan",
            }
        ),
        names=frozenset(
            {
                "Exception",
                "map",
            }
        ),
        attributes=frozenset(
            {
                "all",
                "any",
                "clip",
            }
        ),
    ),
    # Sizes of memory, ids and losses that go through pipes.
    "lanes.py": Allowed(
        arithmetic=frozenset(
            {
                "-code",
                "1 + config.lanes",
                "1 + self._lanes",
                "8 * math.prod(shape)",
                "count * self._stride",
                "json.dumps(content).encode() + b'\\n'",
                "lanes - 1",
                "math.ceil(size * self._dtype.itemsize / mmap.PAGESIZE) * mmap.PAGESIZE",
                "number * self._stride",
            }
        ),
        numpy=frozenset(
            {
                "ascontiguousarray",
                "copyto",
                "dtype",
                "frombuffer",
                "int64",
            }
        ),
        imports=frozenset(
            {
                "contextlib.contextmanager",
                "contextlib.suppress",
                "json",
                "mmap",
                "os",
                "subprocess",
                "sys",
                "threading",
                "typing.IO",
                "warnings",
                "weakref",
            }
        ),
        names=frozenset(
            {
                "BaseException",
                "BrokenPipeError",
                "Exception",
                "OSError",
                "RuntimeWarning",
                "__file__",
                "bytearray",
                "bytes",
                "hasattr",
                "map",
                "repr",
            }
        ),
        attributes=frozenset(
            {
                "dumps",
                "flags",  # of the interpreter
                "itemsize",
                "tobytes",
            }
        ),
    ),
    "profile.py": Allowed(
        arithmetic=frozenset(
            {
                "-row.seconds",
                "2 * 2.0 * model.config.width * (length + 1) / 2",
                "2.0 * _SIDE ** 3 / best",
                "batch * length * (weights + between)",
                "len(times) // steps",
                "max(1, len(tokens) // model.config.parts)",
                "min(best, time.perf_counter() - began)",
                "operations.get(entry, 0.0) + times * _operations(model, step, tokens.shape)",
                "operations.get(entry, 0.0) / rate / (sum(times) / steps)",
                "square @ square",
                "start + size",
                "sum((2.0 * np.prod(matrix.shape) for matrix in matrices if len(matrix.shape) > 1))",
                "sum((sum(times) for times in found.values()))",
                "sum(operations.values()) / rate",
                "sum(times) / steps",
                "sum(times) / whole",
                "time.perf_counter() - began",
                "whole / steps",
            }
        ),
        numpy=frozenset(
            {
                "prod",
            }
        ),
        attributes=frozenset(
            {
                "sort",
            }
        ),
    ),
    "steps.py": Allowed(
        arithmetic=frozenset(
            {
                "before + 1",
                "before_s + elapsed",
                "clock() - began",
                "config.steps + 1",
                "config.tokens_per_step / pace",
                "elapsed / (step - before)",
                "fmean((model.loss(*batch) for batch in held_out_batches(model, corpus, most, between)))",
                "math.isfinite(loss)",
                "math.isfinite(norm)",
                "max(0.0, min(pace * (config.steps - step), config.time_limit_s - elapsed))",
            }
        ),
        imports=frozenset(
            {
                "collections.deque",
                "dataclasses.field",
            }
        ),
        attributes=frozenset(
            {
                "mean",
            }
        ),
    ),
    "loop.py": Allowed(
        arithmetic=frozenset(
            {
                "done.step * self.config.tokens_per_step / done.trained_s",
                "fmean(done.losses)",
                "math.isfinite(loss)",
                "math.isfinite(self.optimiser.weight_norm())",
                "min(_GLANCE, self.config.evaluation_windows)",
                "step % every",
            }
        ),
        numpy=frozenset(
            {
                "random.SeedSequence",
                "random.default_rng",
            }
        ),
        imports=frozenset(
            {
                "collections.deque",
                "contextlib.ExitStack",
                "signal.SIGTERM",
                "threadpoolctl.ThreadpoolController",
            }
        ),
        names=frozenset(
            {
                "Exception",
                "callable",
                "round",
            }
        ),
        attributes=frozenset(
            {
                "mean",
                "size",
            }
        ),
    ),
    "sampling.py": Allowed(
        arithmetic=frozenset(
            {
                "((known - context - 1) // stride + 1) * stride",
                "context - kept + 1",
                "end += 1",
                "end - 1",
                "found += [float(probabilities[0, place - start - 1, text[place]]) for place in range(first, end)]",
                "generator.choice(len(weights[0]), p=weights[0])",
                "math.isnan(float(conditionals[0, 0]))",
                "max(1, context // 2)",
            }
        ),
        numpy=frozenset(
            {
                "asarray",
                "dtype",
                "float64",
                "int64",
                "ndarray",
                "random.Generator",
            }
        ),
        imports=frozenset(
            {
                "dataclasses.replace",
            }
        ),
        attributes=frozenset(
            {
                "astype",
                "size",
            }
        ),
    ),
    "floor.py": Allowed(
        arithmetic=frozenset(
            {
                "-(-len(starts) // most)",
                "float(total) / tokens.size",
                "2 ** 33",
                "fmean(divergences)",
                "fmean(entropies)",
                "fmean(expected)",
                "len(corpus.train) - len(before)",
                "len(corpus.train) - process.memory",
                "max(_FEW, _LOOKS // split)",
                "start + config.context",
                "start + context",
            }
        ),
        numpy=frozenset(
            {
                "concatenate",
                "float64",
                "stack",
            }
        ),
        attributes=frozenset(
            {
                "astype",
                "size",
                "tolist",
            }
        ),
    ),
}
TORCH_FILE = "engine_torch.py"  # the one file that holds tensors
NO_ARITHMETIC_AT_ALL = ("execution.py", "kernels.py", "engine_torch.py")

# Files that no weight, activation, gradient or loss reaches: settings, texts and their statistics, files, mathematics.
# They may compute; they may import nothing of the package that touches such arrays, beside what is listed.
ASIDE: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("__main__.py", "chain.py", "checkpoint.py", "config.py", "data.py", "entropy.py", "errors.py",
         "folder.py", "interruption.py", "memory.py", "metrics.py", "plot.py", "process_wide.py", "processes.py",
         "text.py"),
        frozenset(),
    ),
    "reports.py": frozenset({"floor.py"}),  # types of what was measured
    "proof.py": frozenset({"kernels.py"}),  # which statement a kernel was generated from
    "__init__.py": frozenset({"loop.py", "sampling.py"}),  # the names that others import
}  # fmt: skip

IMPORTS = frozenset(
    {"__future__.annotations", "dataclasses.dataclass", "functools.cache", "math", "numpy", "numpy.typing.NDArray"}
    | {"pathlib.Path", "statistics.fmean", "time", "types.MappingProxyType"}
    | {f"typing.{name}" for name in ("Any", "Literal", "Protocol", "TYPE_CHECKING", "TypeVar")}
    | {f"collections.abc.{name}" for name in ("Callable", "Iterable", "Iterator", "Mapping", "Sequence")}
)
BUILTINS = frozenset(
    {
        "AttributeError",
        "ModuleNotFoundError",
        "NotImplementedError",
        "ValueError",
        "__all__",
        "bool",
        "dict",
        "enumerate",
    }
    | {"float", "getattr", "int", "isinstance", "iter", "len", "list", "max", "min", "next", "property", "range"}
    | {"reversed", "slice", "sorted", "str", "sum", "super", "tuple", "zip"}
)
BUILT_IN = frozenset(dir(builtins))
ARRAY_ATTRIBUTES = frozenset({"__init__", "dtype", "flat", "reshape", "shape"})

# Calls that compute, reduce, draw or reach a function by its name: each has to be listed as a whole.
LISTED_CALLS = frozenset({"sum", "min", "max", "fmean", "getattr"})
LISTED_METHODS = frozenset(name for name in dir(np.random.Generator) if name[0] != "_" and name != "spawn")
OPERATORS = (ast.BinOp, ast.AugAssign, ast.UnaryOp)


def computes(node: ast.AST) -> bool:
    """Whether the node, taken alone, is something a table has to list."""
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not) and not isinstance(node.operand, ast.Constant)
    if isinstance(node, OPERATORS):
        return True
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute):
        return called.attr in LISTED_METHODS or ast.unparse(called.value) == "math"
    return isinstance(called, ast.Name) and called.id in LISTED_CALLS


def annotations_of(tree: ast.AST) -> Iterator[ast.expr | None]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            yield node.annotation
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.returns


def computations(node: ast.AST, skipped: set[int]) -> Iterator[ast.AST]:
    """The outermost computing expressions; what lies within one is part of its text."""
    for child in ast.iter_child_nodes(node):
        if id(child) in skipped:
            continue
        if computes(child):
            yield child
        else:
            yield from computations(child, skipped)


def imports_in(tree: ast.AST) -> Iterator[str]:
    """What is imported, as `module` or `module.name`; a new name for it, or a path to a submodule, stays in sight."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                usual = alias.asname == ("np" if alias.name == "numpy" else None) and "." not in alias.name
                yield alias.name if usual else f"{alias.name} as {alias.asname}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                yield f"{name} as {alias.asname}" if alias.asname else name


def dotted(node: ast.AST) -> str:
    """`a.b.c` as text, or nothing where the expression is not a dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    head = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{head}.{node.attr}" if head else ""


def names_below(root: str, tree: ast.AST) -> Iterator[str]:
    """The longest dotted names below a library; the bare library, which could be passed on, is its own name."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        name = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in inner else ""
        if name == root or name.startswith(f"{root}."):
            yield name.removeprefix(f"{root}.")


def violations(source: str, file: str) -> list[str]:
    """Everything in the source that no table lists for the file."""
    tree = ast.parse(source)
    allowed = ALLOWED.get(file, Allowed())
    skipped = {id(annotation) for annotation in annotations_of(tree) if annotation is not None}
    found = [f"computes {ast.unparse(node)}" for node in computations(tree, skipped)]
    wrong = [text for text in found if text.removeprefix("computes ") not in allowed.arithmetic]
    wrong += [f"uses np.{name}" for name in names_below("np", tree) if name not in allowed.numpy]
    wrong += [f"uses torch.{name}" for name in names_below("torch", tree) if name not in allowed.torch]
    wrong += [
        f"imports {name}"
        for name in imports_in(tree)
        if name not in IMPORTS | allowed.imports and not (name.startswith("gradproof.training.") and " as " not in name)
    ]
    # A built-in's name could be bound anew or passed on; it is judged wherever it stands.
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    wrong += [
        f"names {name}"
        for name in names
        if name not in BUILTINS | allowed.names and (name in BUILT_IN or name[:2] == "__")
    ]
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    wrong += [
        f"passes on {node.id}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in LISTED_CALLS and id(node) not in called
    ]
    wrong += [
        f"passes on {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and id(node) not in called and not dotted(node).startswith("np.")
        if node.attr in LISTED_METHODS or (dotted(node).startswith("math.") and node.attr not in {"inf", "nan", "pi"})
    ]
    attributes = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and dotted(node).partition(".")[0] not in {"math", "np", "torch"}
    ]
    known = ARRAY_ATTRIBUTES | allowed.attributes
    kinds = (np.ndarray, torch.Tensor) if torch and file == TORCH_FILE else (np.ndarray,)
    wrong += [
        f"reads .{name}" for name in attributes if any(hasattr(kind, name) for kind in kinds) and name not in known
    ]
    return wrong


FILES = sorted(path.name for path in FOLDER.rglob("*.py"))


def test_every_file_is_in_one_table() -> None:
    assert sorted([*ALLOWED, *ASIDE]) == FILES


@pytest.mark.parametrize("file", sorted(ALLOWED))
def test_file_contains_only_what_is_listed(file: str) -> None:
    assert violations((FOLDER / file).read_text(encoding="utf-8"), file) == []


@pytest.mark.parametrize("file", sorted(ALLOWED))
def test_tables_list_nothing_that_is_gone(file: str) -> None:
    tree = ast.parse((FOLDER / file).read_text(encoding="utf-8"))
    skipped = {id(annotation) for annotation in annotations_of(tree) if annotation is not None}
    assert {ast.unparse(node) for node in computations(tree, skipped)} == ALLOWED[file].arithmetic
    assert set(names_below("np", tree)) == ALLOWED[file].numpy
    assert set(names_below("torch", tree)) == ALLOWED[file].torch
    assert ALLOWED[file].imports <= set(imports_in(tree))


@pytest.mark.parametrize("file", NO_ARITHMETIC_AT_ALL)
def test_these_have_no_arithmetic(file: str) -> None:
    assert not any(set(text) & set("+-*/@%<>&|^") for text in ALLOWED[file].arithmetic)
    assert not any(isinstance(getattr(np, name, None), np.ufunc) for name in ALLOWED[file].numpy)


@pytest.mark.parametrize("file", sorted(ASIDE))
def test_what_computes_on_other_things_sees_no_arrays_of_the_model(file: str) -> None:
    imported = imports_in(ast.parse((FOLDER / file).read_text(encoding="utf-8")))
    modules = {f"{name.split('.')[2]}.py" for name in imported if name.startswith("gradproof.training.")}
    assert modules & set(ALLOWED) <= ASIDE[file]


def test_every_file_is_a_file_of_the_folder_itself() -> None:
    folders = [path.name for path in FOLDER.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    assert folders == ["presets"]
    assert {path.suffix for path in (FOLDER / "presets").iterdir()} == {".toml"}


@pytest.mark.parametrize(
    "statement",
    [
        "y = x + x",
        "y = x @ w",
        "x += gradient",
        "y = -x",
        "y = ~x",
        "y = x ** 2",
        "y = x[a - b]",
        "y = f'{x * 2}'",
        "y = np.exp(x)",
        "y = np.add.reduce(x)",
        "n = np",
        "y = f(np)",
        "import numpy",
        "import numpy as n",
        "import numpy.linalg as np",
        "from gradproof.training.model import create_model as update",
        "import math as m",
        "from numpy import exp",
        "from numpy import copyto as exp",
        "from operator import add",
        "from functools import reduce",
        "from math import prod",
        "from . import arithmetic",
        "import torch",
        "y = x.sum()",
        "y = x.dot(w)",
        "y = x.__add__(w)",
        "y = x.T",
        "y = sum([x, w])",
        "y = total(sum)",
        "y = max(x, w)",
        "y = abs(x)",
        "y = pow(x, 2)",
        "y = divmod(x, w)",
        "y = map(f, x)",
        "y = getattr(x, 'su' 'm')()",
        "y = eval('x + x')",
        "y = exec",
        "y = __import__('numpy')",
        "y = __builtins__['sum'](x)",
        "y = math.exp(x)",
        "y = f(math.exp)",
        "y = generator.normal(x, 0)",
        "draw = generator.normal",
        "y = fmean(x)",
        "y = torch.exp(x)",
        "from torch import exp",
        "def f(y=x + x): ...",
        "class C:\n    y: float = x * x",
        "y = [a * b for a, b in pairs]",
        "y = (lambda a: a * a)(x)",
    ],
)
def test_arithmetic_is_found_however_it_is_written(statement: str) -> None:
    assert violations(statement, "model.py") != []


@pytest.mark.parametrize(
    "statement",
    [
        "y: int | None = None",
        "def f(x: int | None) -> int | None: ...",
        "y = logits[:, -1]",
        "np.copyto(x, y)",
        "y = not x",
        "y = kernel('adamw', 'adamw')(x)",
    ],
)
def test_glue_is_not_arithmetic(statement: str) -> None:
    assert violations(statement, "engine_numpy.py") == []

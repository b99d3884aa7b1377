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

FOLDER = Path(training.__file__).parent


@dataclass(frozen=True)
class Allowed:
    """What a file may contain beyond moving values around.

    `numpy` lists dotted names below `np`; `arithmetic` lists whole expressions: operators, and calls that reduce, draw
    or look up by name.
    """

    numpy: frozenset[str] = frozenset()
    arithmetic: frozenset[str] = frozenset()


ALLOWED = {
    # Settings: sizes and the step size, plain numbers.
    "config.py": Allowed(
        arithmetic=frozenset(
            {
                "self.width % self.heads",
                "self.width // self.heads",
                "self.expansion * self.width",
                "self.batch * self.context",
                "min(self.warm_up, self.steps // 10)",
                "config.learning_rate * (step / rise)",
                "(step - rise) / (config.steps - rise)",
                "(1 + math.cos(math.pi * progress)) / 2",
                "config.learning_rate * (config.final_rate + (1 - config.final_rate) * cosine)",
                "getattr(self, name)",
            }
        )
    ),
    # Text: positions in it.
    "data.py": Allowed(
        numpy=frozenset(
            {"int64", "uint32", "frombuffer", "unique", "asarray", "random.Generator"}
            | {"lib.stride_tricks.sliding_window_view"}
        ),
        arithmetic=frozenset(
            {
                "len(text) // _HELD_OUT_SHARE",
                "(context + 1) * _HELD_OUT_SHARE",
                "len(text) - held_out_length",
                "generator.integers(0, len(ids) - context, size=batch)",
                "len(ids) - context - 1",
                "min(most, last // context + 1)",
                "min(batch, windows)",
                "windows -= windows % size",
                "last * window // max(1, windows - 1)",
                "first + size",
                "context + 1",
            }
        ),
    ),
    "kernels.py": Allowed(arithmetic=frozenset({"getattr(module, function)"})),
    # The run: steps and seconds, and the mean of losses that are already Python floats.
    "loop.py": Allowed(
        numpy=frozenset({"random.SeedSequence", "random.default_rng", "random.Generator"}),
        arithmetic=frozenset(
            {
                "fmean((report.loss for report in reports[_LAST_STEPS]))",
                "fmean((loss_of(parameters, batch, config) for batch in batches))",
                "unigram_entropy(corpus.held_out)",
                "bigram_entropy(corpus.held_out)",
                "config.steps + 1",
                "math.isfinite(loss)",
                "clock() - began",
                "max(0.0, min(elapsed / step * (config.steps - step), config.time_limit_s - elapsed))",
                "step * config.tokens_per_step / elapsed",
            }
        ),
    ),
    "model.py": Allowed(numpy=frozenset({"copyto", "ones"})),
    "optimiser.py": Allowed(numpy=frozenset({"copyto", "zeros_like"})),
    # Layout: sizes, offsets, and the spread of the first values.
    "parameters.py": Allowed(
        numpy=frozenset({"copyto", "zeros", "random.Generator"}),
        arithmetic=frozenset(
            {
                "(2 * config.layers) ** (-0.5)",
                "width ** (-0.5)",
                "width ** (-0.5) * into_stream",
                "hidden ** (-0.5) * into_stream",
                "sum((math.prod(spec.shape) for spec in specs))",
                "start + math.prod(spec.shape)",
                "generator.normal(spec.centre, spec.spread, spec.shape)",
            }
        ),
    ),
    "sampling.py": Allowed(
        numpy=frozenset({"asarray", "int64", "float64", "random.Generator"}),
        arithmetic=frozenset(
            {"max(0, corpus.alphabet.find('\\n'))", "generator.choice(len(corpus.alphabet), p=probabilities[0])"}
        ),
    ),
}
NO_ARITHMETIC_AT_ALL = ("model.py", "optimiser.py")

# The character statistics: the one file with arithmetic on arrays. It sees the text's integers and nothing else.
STATISTICS = "entropy.py"
STATISTICS_IMPORTS = {"__future__.annotations", "numpy", "numpy.typing.NDArray"}

IMPORTS = frozenset(
    {"__future__.annotations", "collections.deque", "dataclasses.dataclass", "functools.cache", "math", "numpy"}
    | {"numpy.typing.NDArray", "pathlib.Path", "pydoc_data.topics.topics", "statistics.fmean", "time"}
    | {"types.MappingProxyType", "typing.Any", "typing.Literal"}
    | {f"collections.abc.{name}" for name in ("Callable", "Iterator", "Mapping")}
)
IMPORTS_OF_ONE_FILE = {
    "kernels.py": frozenset({"importlib"}),
    "loop.py": frozenset({"threadpoolctl.threadpool_limits"}),
}
BUILTINS = frozenset(
    {"ArithmeticError", "AttributeError", "FileNotFoundError", "ImportError", "ModuleNotFoundError", "OSError"}
    | {"RuntimeError", "UnicodeDecodeError", "ValueError", "__all__", "bool", "chr", "dict", "float", "getattr", "int"}
    | {"len", "list", "max", "min", "next", "property", "range", "reversed", "slice", "sorted", "str", "sum", "tuple"}
    | {"zip"}
)
BUILT_IN = frozenset(dir(builtins))
ARRAY_ATTRIBUTES = frozenset({"astype", "dtype", "flat", "reshape", "shape", "tolist"})

# Calls that compute, reduce, draw or reach a function by its name: each has to be listed as a whole.
LISTED_CALLS = frozenset({"sum", "min", "max", "fmean", "getattr", "unigram_entropy", "bigram_entropy"})
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


def numpy_names(tree: ast.AST) -> Iterator[str]:
    """The longest dotted names below `np`; a bare `np`, which could be passed on, is its own name."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        name = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in inner else ""
        if name == "np" or name.startswith("np."):
            yield name.removeprefix("np.")


def violations(source: str, file: str) -> list[str]:
    """Everything in the source that no table lists for the file."""
    tree = ast.parse(source)
    allowed = ALLOWED.get(file, Allowed())
    skipped = {id(annotation) for annotation in annotations_of(tree) if annotation is not None}
    found = [f"computes {ast.unparse(node)}" for node in computations(tree, skipped)]
    wrong = [text for text in found if text.removeprefix("computes ") not in allowed.arithmetic]
    wrong += [f"uses np.{name}" for name in numpy_names(tree) if name not in allowed.numpy]
    imports = IMPORTS | IMPORTS_OF_ONE_FILE.get(file, frozenset())
    wrong += [
        f"imports {name}"
        for name in imports_in(tree)
        if name not in imports and not (name.startswith("gradproof.training.") and " as " not in name)
    ]
    # A built-in's name could be bound anew or passed on; it is judged wherever it stands.
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    wrong += [f"names {name}" for name in names if name not in BUILTINS and (name in BUILT_IN or name[:2] == "__")]
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
        if isinstance(node, ast.Attribute) and dotted(node).partition(".")[0] not in {"math", "np"}
    ]
    wrong += [f"reads .{name}" for name in attributes if hasattr(np.ndarray, name) and name not in ARRAY_ATTRIBUTES]
    return wrong


FILES = sorted(path.name for path in FOLDER.rglob("*.py"))


@pytest.mark.parametrize("file", [file for file in FILES if file != STATISTICS])
def test_file_contains_only_what_is_listed(file: str) -> None:
    assert violations((FOLDER / file).read_text(encoding="utf-8"), file) == []


@pytest.mark.parametrize("file", sorted(ALLOWED))
def test_tables_list_nothing_that_is_gone(file: str) -> None:
    tree = ast.parse((FOLDER / file).read_text(encoding="utf-8"))
    skipped = {id(annotation) for annotation in annotations_of(tree) if annotation is not None}
    assert {ast.unparse(node) for node in computations(tree, skipped)} == ALLOWED[file].arithmetic
    assert set(numpy_names(tree)) == ALLOWED[file].numpy


@pytest.mark.parametrize("file", NO_ARITHMETIC_AT_ALL)
def test_model_and_optimiser_have_no_arithmetic(file: str) -> None:
    assert ALLOWED[file].arithmetic == frozenset()
    assert not any(isinstance(getattr(np, name), np.ufunc) for name in ALLOWED[file].numpy)


def test_every_file_is_a_file_of_the_folder_itself() -> None:
    assert [path for path in FOLDER.rglob("*") if path.is_dir() and path.name != "__pycache__"] == []


def test_character_statistics_see_integers_only() -> None:
    tree = ast.parse((FOLDER / STATISTICS).read_text(encoding="utf-8"))
    assert set(imports_in(tree)) <= STATISTICS_IMPORTS
    for file in FILES:
        imported = imports_in(ast.parse((FOLDER / file).read_text(encoding="utf-8")))
        used = {name for name in imported if name.startswith("gradproof.training.entropy")}
        expected = {f"gradproof.training.entropy.{name}_entropy" for name in ("unigram", "bigram")}
        assert used == (expected if file == "loop.py" else set()), file


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
        "import gradproof.training.entropy",
        "from gradproof.training.model import loss_of as update",
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
        "y = unigram_entropy(x)",
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
    assert violations(statement, "model.py") == []

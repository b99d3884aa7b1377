"""The check of kernels passes a correct kernel and fails each of its mutations, by the gradient that is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import log, sqrt, tanh

import codegen.checking.examination
from codegen.checking.checks import CheckResult, check_kernels
from codegen.checking.sampling import Case, cases_of, draw, shape_plan
from codegen.errors import KernelError
from derive.functions import relu
from derive.language import Sum, dims, flag, index, leading_index, scalar, tensor, where
from derive.library import load
from derive.program import Program

N, C, V = dims("N C V")
n = leading_index("n", N)
c, k = index("c", C), index("k", C)
x, W, b = tensor("x", N, C), tensor("W", C, C), tensor("b", C)
tau, doubled = scalar("tau", positive=True), flag("doubled")

# A made-up layer: a square matrix, whose transpose has its shape, a scalar with a gradient, and a flag.
layer = Program("layer", "made up", [x, W, b, tau, doubled])
u = layer.define("u", [n, c], Sum(x[n, k] * W[c, k], k) / sqrt(C))
y = layer.define("y", [n, c], tau * tanh(u[n, c]) * where(doubled, 2, 1) + b[c])
layer.kernel(y, wrt=[x, W, b, tau], defaults={tau: 0.5, doubled: False})

LAYER = """
from .shared import root
import LIBRARY

def layer_forward(x, W, b, *, tau=0.5, doubled=False):
    u = x @ W.T / root(x.shape[-1])
    factor = 2 if doubled else 1
    y = tau * LIBRARY.tanh(u) * factor + b
    return y, (x, W, LIBRARY.tanh(u), tau * factor, factor)

def layer_backward(dy, saved):
    x, W, t, scale, factor = saved
    du = dy * scale * (1 - t**2) / root(x.shape[-1])
    dx = du @ W
    rows = (-1, x.shape[-1])
    dW = du.reshape(rows).T @ x.reshape(rows)
    db = dy.reshape(rows).sum(0)
    dtau = (dy * t).sum() * factor
    return dx, dW, db, dtau
"""
SHARED = "def root(size):\n    return size**0.5\n"
TARGETS = ("numpy", "torch")


def write(folder: Path, source: str, target: str = "numpy", name: str = "layer", shared: str = SHARED) -> Path:
    (folder / target).mkdir(parents=True)
    (folder / target / f"{name}.py").write_text(source.replace("LIBRARY", target), encoding="utf-8")
    (folder / target / "shared.py").write_text(shared, encoding="utf-8")
    return folder


def check(folder: Path, *changes: tuple[str, str], target: str = "numpy", source: str = LAYER) -> list[CheckResult]:
    """The results for the layer's kernel once each `old` in its source is replaced by `new`."""
    if target == "torch":
        pytest.importorskip("torch")
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return list(check_kernels([layer], target=target, folder=write(folder, source, target)))


def failed(results: Sequence[CheckResult]) -> list[str]:
    return sorted({result.gradient for result in results if not result.ok})


# ---------------------------------------------------------------------------------------------------------------------


def test_a_correct_kernel_passes(tmp_path: Path) -> None:
    results = check(tmp_path)
    assert [(result.gradient, result.witness) for result in results] == [
        ("y", "statement"), *((name, "finite differences") for name in ("dx", "dW", "db", "dtau"))
    ]  # fmt: skip
    assert all(result.ok and result.detail == "" and result.error <= result.tolerance for result in results)
    assert {result.kernel for result in results} == {"layer"}
    assert {result.target for result in results} == {"numpy"}
    # Three shapes without a 1, one with C = 1, one with a leading dimension of 1.
    assert {result.shapes for result in results} == {5}
    assert max(result.error for result in results if result.witness == "finite differences") < 1e-8


def test_a_correct_torch_kernel_passes_both_witnesses(tmp_path: Path) -> None:
    results = check(tmp_path, target="torch")
    assert all(result.ok for result in results)
    assert [result.witness for result in results] == ["statement", *["finite differences", "autograd"] * 4]
    assert max(result.error for result in results if result.witness == "autograd") < 1e-13


MUTATIONS: dict[str, tuple[tuple[str, str], list[str]]] = {
    "sign": (("dx = du @ W", "dx = -du @ W"), ["dx"]),
    "missing scale": (("(1 - t**2) / root(x.shape[-1])", "(1 - t**2)"), ["dW", "dx"]),
    "transposed result": (("return dx, dW,", "return dx, dW.T,"), ["dW"]),
    "transposed factor": (("dx = du @ W", "dx = du @ W.T"), ["dx"]),
    "one percent of a term": (("(1 - t**2) / root", "(1 - 0.99 * t**2) / root"), ["dW", "dx"]),
    "upstream gradient ignored": (("dtau = (dy * t)", "dtau = (dy * 0 + t)"), ["dtau"]),
    "only the size of the upstream gradient": (("dtau = (dy * t)", "dtau = (abs(dy) * t)"), ["dtau"]),
    "square of the upstream gradient": (("db = dy.", "db = (dy * dy)."), ["db"]),
    "constant instead of upstream": (("db = dy.", "db = (dy * 0 + 1)."), ["db"]),
    "a flag forgotten backward": (("dtau = (dy * t).sum() * factor", "dtau = (dy * t).sum()"), ["dtau"]),
    "a flag forgotten forward": ((".tanh(u) * factor", ".tanh(u)"), ["dW", "dtau", "dx", "y"]),
    "first row only": (("db = dy.reshape(rows).sum(0)", "db = dy.reshape(rows)[0]"), ["db"]),
    "wrong value": (("factor + b", "factor + 1.001 * b"), ["db", "y"]),
    "gradient of another shape": (("db = dy.reshape(rows).sum(0)", "db = dy"), ["db"]),
    "NaN": (("dtau = (dy * t).sum()", "dtau = (dy * t).sum() * float('nan')"), ["dtau"]),
    "input modified forward": (("    factor = 2", "    b *= 1.0001\n    factor = 2"), ["dW", "db", "dtau", "dx", "y"]),
    "input modified backward": (("    dx = du @ W", "    dx = du @ W\n    W += 1e-3"), ["dW", "db", "dtau", "dx"]),
    "upstream gradient modified": (("    return dx", "    dy *= 2\n    return dx"), ["dW", "db", "dtau", "dx"]),
    "saved values modified": (("    dx = du @ W", "    t *= 0.5\n    dx = du @ W"), ["dW", "dtau", "dx"]),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mutation", sorted(MUTATIONS))
def test_a_broken_kernel_fails_where_it_is_broken(mutation: str, target: str, tmp_path: Path) -> None:
    change, expected = MUTATIONS[mutation]
    results = check(tmp_path, change, target=target)
    assert failed(results) == sorted(expected)
    assert all(result.detail for result in results if not result.ok)
    assert all(result.error > result.tolerance for result in results if not result.ok)


def test_both_torch_witnesses_see_a_wrong_gradient(tmp_path: Path) -> None:
    results = check(tmp_path, MUTATIONS["sign"][0], target="torch")
    assert [result.witness for result in results if not result.ok] == ["finite differences", "autograd"]


def test_detail_names_case_entry_and_both_values(tmp_path: Path) -> None:
    (wrong,) = [result for result in check(tmp_path, MUTATIONS["sign"][0]) if not result.ok]
    assert wrong.gradient == "dx"
    assert wrong.error == pytest.approx(2, rel=1e-6)
    assert wrong.detail.startswith("with N=(")
    assert "doubled=" in wrong.detail
    entry, other = wrong.detail.split(": ")[1].split(", by finite differences ")
    assert entry.startswith("entry [")
    assert float(entry.rsplit(" ", 1)[1]) == pytest.approx(-float(other))


@pytest.mark.parametrize("target", TARGETS)
def test_results_keep_the_type_of_the_inputs(target: str, tmp_path: Path) -> None:
    widened = ("+ b\n", "+ b * LIBRARY.ones(1, dtype=LIBRARY.float64)\n")
    forward = check(tmp_path / "forward", widened, target=target)
    (value,) = [result for result in forward if result.witness == "statement"]
    assert not value.ok
    assert "has dtype float64 for inputs of float32" in value.detail
    widened = ("db = dy", "db = (dy * LIBRARY.ones(1, dtype=LIBRARY.float64))")
    backward = check(tmp_path / "backward", widened, target=target)
    assert failed(backward) == ["db"]


def test_a_kernel_that_computes_in_float32_fails(tmp_path: Path) -> None:
    inside = ("u = x @ W.T", "u = (x.astype('float32') @ W.astype('float32').T).astype(x.dtype)")
    assert failed(check(tmp_path, inside)) == ["dW", "dx", "y"]


def test_another_default_than_the_statement_has_fails(tmp_path: Path) -> None:
    (wrong,) = [result for result in check(tmp_path, ("tau=0.5", "tau=0.25")) if not result.ok]
    assert (wrong.gradient, wrong.witness) == ("y", "statement")
    assert "other parameters left out where they have a default" in wrong.detail


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("return dx, dW, db, dtau", "return dx, dW, db"), "expected a tuple of 4 gradients, found a tuple of 3"),
        (("return dx, dW, db, dtau", "return dx, dW, db, None"), "expected a NumPy array, found NoneType"),
        (("dx = du @ W", "dx = du @ W[:-1]"), "raises ValueError"),
    ],
)
def test_a_backward_kernel_that_cannot_be_used_fails(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    results = check(tmp_path, change)
    assert failed(results) == ["dW", "db", "dtau", "dx"]
    assert all(said in result.detail and result.error == float("inf") for result in results if not result.ok)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("return y, (x", "return y + (x"), "raises ValueError"),
        (("return y, (x, W, LIBRARY.tanh(u), tau * factor, factor)", "return y"), "expected (output, saved)"),
        (("x.shape[-1])\n    factor", "x.shape[1])\n    factor"), "raises IndexError"),
    ],
)
def test_a_forward_kernel_that_cannot_be_used_fails(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    results = check(tmp_path, change)
    assert failed(results) == ["dW", "db", "dtau", "dx", "y"]
    assert all(said in result.detail for result in results if result.gradient == "y")


# ---------------------------------------------------------------------------------------------------------------------
# Other kinds of kernels.

first, second = (scalar(name) for name in ("first", "second"))
pair = Program("pair", "two outputs, no gradient", [x, b, first])
shifted = pair.define("shifted", [n, c], x[n, c] + first)
total = pair.define("total", [n], Sum(x[n, c] * b[c], c))
pair.kernel(shifted, total)

PAIR = "def pair(x, b, *, first):\n    return x + first, x @ b\n"


def test_a_kernel_without_gradient_is_checked_by_its_outputs(tmp_path: Path) -> None:
    results = list(check_kernels([pair], target="numpy", folder=write(tmp_path / "right", PAIR, name="pair")))
    assert [(result.gradient, result.witness, result.ok) for result in results] == [
        ("shifted", "statement", True), ("total", "statement", True)
    ]  # fmt: skip
    wrong = write(tmp_path / "wrong", PAIR.replace("x @ b", "x @ b[::-1]"), name="pair")
    assert failed(list(check_kernels([pair], target="numpy", folder=wrong))) == ["total"]
    single = write(tmp_path / "single", PAIR.replace("return x + first, x @ b", "return x + first"), name="pair")
    results = list(check_kernels([pair], target="numpy", folder=single))
    assert all("expected 2 outputs, found ndarray" in result.detail for result in results)


rectifier = Program("rectifier", "a kink", [x])
rectified = rectifier.define("y", [n, c], relu(x[n, c]))
rectifier.kernel(rectified, wrt=[x])

RECTIFIER = """
import numpy
def rectifier_forward(x):
    return numpy.maximum(x, 0).astype(x.dtype), x
def rectifier_backward(dy, x):
    return ((dy * (x > 0)).astype(x.dtype),)
"""


def near_the_kink(program: Program, case: Case, seed: int, attempt: int = 0) -> tuple[dict[str, Any], Any]:
    values, generator = draw(program, case, seed, attempt)
    values["x"].flat[0] = 1e-7
    return values, generator


def test_a_kink_within_the_step_is_not_held_against_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen.checking.examination, "draw", near_the_kink)
    right = write(tmp_path / "right", RECTIFIER, name="rectifier")
    assert failed(list(check_kernels([rectifier], target="numpy", folder=right))) == []
    wrong = write(tmp_path / "wrong", RECTIFIER.replace("x > 0", "x > -0.5"), name="rectifier")
    assert failed(list(check_kernels([rectifier], target="numpy", folder=wrong))) == ["dx"]


impossible = Program("impossible", "no finite value", [x])
impossible.kernel(impossible.define("y", [n, c], log(-(x[n, c] ** 2))), wrt=[x])


def test_a_statement_without_values_is_said_to_have_none(tmp_path: Path) -> None:
    source = "def impossible_forward(x):\n    return x, x\ndef impossible_backward(dy, x):\n    return (dy,)\n"
    folder = write(tmp_path, source, name="impossible")
    results = list(check_kernels([impossible], target="numpy", folder=folder))
    assert failed(results) == ["dx", "y"]
    assert all("the statement has no finite value" in result.detail for result in results)


def test_a_program_that_asks_for_no_kernel_is_passed_over(tmp_path: Path) -> None:
    assert list(check_kernels([Program("silent", "", [x])], target="numpy", folder=tmp_path)) == []


# ---------------------------------------------------------------------------------------------------------------------
# Files.


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "found none; run `gradproof generate`, for a program of your own with a folder"),
        ("def layer_forward(x, W, b):\n    return x, x\n", "expected a function layer_backward"),
        ("def layer_forward(:\n", "cannot be imported: SyntaxError"),
        ("from .missing import root\n", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(source: str | None, said: str, tmp_path: Path) -> None:
    folder = tmp_path if source is None else write(tmp_path, source)
    with pytest.raises(KernelError, match=r"^kernel layer: ") as caught:
        list(check_kernels([layer], target="numpy", folder=folder))
    assert said in str(caught.value)
    assert "gradproof generate" in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_unknown_target_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="expected one of numpy, torch"):
        list(check_kernels([layer], target="fortran", folder=tmp_path))


def test_the_folder_is_what_counts_and_nothing_stays_loaded(tmp_path: Path) -> None:
    before = set(sys.modules)
    folder = write(tmp_path, LAYER)
    assert failed(list(check_kernels([layer], target="numpy", folder=folder))) == []
    # The same length, within the same second: cached bytecode would still be the right kernel.
    (folder / "numpy" / "layer.py").write_text(LAYER.replace("LIBRARY", "numpy").replace("dx = du @ W", "dx = W @ du"))
    assert "dx" in failed(list(check_kernels([layer], target="numpy", folder=folder)))
    assert {name for name in set(sys.modules) - before if "layer" in name or "shared" in name} == set()


def test_results_depend_on_the_seed_alone(tmp_path: Path) -> None:
    folder = write(tmp_path, LAYER)
    once, again, other = (list(check_kernels([layer], target="numpy", folder=folder, seed=seed)) for seed in (1, 1, 2))
    assert once == again
    assert [result.error for result in once] != [result.error for result in other]


def test_results_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "from derive.library import FOLDER, load_file\n"
        "from codegen.checking.sampling import cases_of, draw\n"
        "for name in ('attention', 'adamw'):\n"
        "    (program,) = (known for known in load_file(FOLDER / f'{name}.py') if known.name == name)\n"
        "    for case in cases_of(program):\n"
        "        print(case, {name: str(value) for name, value in draw(program, case, 0)[0].items()})\n"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert shown[0] == shown[1] != ""


# ---------------------------------------------------------------------------------------------------------------------
# Cases.


def numbers(shape: Any) -> list[int]:
    plain = [number for name, number in shape.sizes.items() if name not in shape.leading]
    return plain + [length for lengths in shape.leading.values() for length in lengths]


@pytest.mark.parametrize("make", [lambda: [layer, pair, rectifier], load], ids=["here", "library"])
def test_shapes_are_distinct_and_each_size_is_1_once(make: Callable[[], list[Program]]) -> None:
    for program in [program for program in make() if program.request is not None]:
        plan = shape_plan(program)
        distinct = [shape for shape in plan if 1 not in numbers(shape)]
        assert len(distinct) == 3
        assert all(len(set(numbers(shape))) == len(numbers(shape)) for shape in distinct)
        for name in plan[0].sizes:
            assert any(shape.sizes[name] == 1 and shape.leading.get(name) != () for shape in plan)
        ranks = {len(lengths) for shape in plan for lengths in shape.leading.values()}
        assert ranks in ({0, 1, 2}, set())


def test_every_flag_setting_meets_parameters_given_and_left_out() -> None:
    met = {(case.flags["doubled"], case.bare) for case in cases_of(layer)}
    assert met == {(False, False), (False, True), (True, False), (True, True)}


def test_inputs_keep_what_is_declared_about_them() -> None:
    token = tensor("token", N, C, into=V)
    E, positive = tensor("E", V, C), tensor("positive", C, positive=True)
    step = scalar("step", positive=True, integer=True)
    program = Program("typed", "", [token, E, positive, tau, step])
    result = program.define("y", [n], Sum(E[token[n, c], c] * positive[c] * tau**step, c))
    program.kernel(result, wrt=[E], defaults={tau: 0.5})
    for case in cases_of(program):
        values, _ = draw(program, case, 0)
        assert values["token"].dtype == np.int64
        assert values["token"].shape == case.shape.of(token)
        assert 0 <= values["token"].min() <= values["token"].max() < case.shape.sizes["V"]
        if values["token"].size > 1:
            assert len(np.unique(values["token"])) < values["token"].size
        assert values["positive"].min() > 0.3
        assert type(values["step"]) is int
        assert values["step"] >= 1
        assert values["tau"] == 0.5 if case.bare else 0.1 < values["tau"] < 1


def test_a_fixed_position_lies_inside_in_every_shape() -> None:
    program = Program("third", "", [x])
    program.kernel(program.define("y", [n], x[n, 2]), wrt=[x])
    assert [min(shape.sizes["C"] for shape in shape_plan(program))] >= [3]

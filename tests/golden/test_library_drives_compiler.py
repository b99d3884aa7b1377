"""The compiler knows no operator: a library file is all there is to a kernel."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import codegen
from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from derive.library import FOLDER, load

MADE_UP = '''
"""A derivation that nobody has written before."""
from derive.functions import softmax
from derive.language import Sum, dims, index, leading_index, scalar, tensor
from derive.program import Program

N, V, H = dims("N V H")
n, v, h = leading_index("n", N), index("v", V), index("h", H)
x, W = tensor("x", N, V), tensor("W", H, V)
tau = scalar("tau", positive=True)
tempered = Program("tempered_cubic", "cubic activation and softmax with a temperature", [x, W, tau])
u = tempered.define("u", [n, h], Sum(W[h, v] * x[n, v], v))
a = tempered.define("a", [n, h], u[n, h] ** 3)
p = tempered.define("p", [n, h], softmax(a[n, h] / tau, over=h))
tempered.kernel(p, wrt=[x, W], defaults={tau: 1.5})
'''


def copied_library(folder: Path) -> Path:
    """A library of a few copied files."""
    folder.mkdir()
    for name in ("gelu", "layer_norm", "residual", "softmax"):
        shutil.copy(FOLDER / f"{name}.py", folder)
    return folder


def test_removing_a_file_removes_its_kernel(tmp_path: Path) -> None:
    folder = copied_library(tmp_path / "library")
    before = render_all(load(folder=folder))
    (folder / "layer_norm.py").unlink()
    after = render_all(load(folder=folder))
    assert set(before) - set(after) == {"numpy/layer_norm.py", "torch/layer_norm.py"}
    assert all(before[name] == after[name] for name in after if name != "MANIFEST.json")


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_adding_a_file_adds_a_correct_kernel(tmp_path: Path, target: str) -> None:
    if target == "torch":
        pytest.importorskip("torch")
    folder = copied_library(tmp_path / "library")
    (folder / "made_up.py").write_text(MADE_UP)
    programs = [program for program in load(folder=folder) if program.name == "tempered_cubic"]
    files = render_all(programs)
    assert f"{target}/tempered_cubic.py" in files
    write(files, tmp_path / "generated")
    results = list(check_kernels(programs, target=target, folder=tmp_path / "generated"))
    assert {result.gradient for result in results} >= {"p", "dx", "dW"}
    assert all(result.ok for result in results), [result for result in results if not result.ok]


def test_no_operator_is_named_in_the_compiler() -> None:
    names = r"attention|layer_?norm|cross_?entropy|gelu|embedding|adamw|feed_?forward|residual"
    for path in sorted(Path(codegen.__file__).parent.rglob("*")):
        if path.suffix in {".py", ".jinja"}:
            found = re.findall(names, path.read_text(encoding="utf-8"), flags=re.IGNORECASE)
            assert not found, f"{path.name} names {found}"

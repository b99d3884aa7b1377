"""The committed kernels are what the library generates, byte for byte, whatever the hash seed.

The library is rendered under two hash seeds, and both are held against the committed files; what else is asked of the
text is asked of those files.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.generate import TAKEN, compare, default_folder, render_all, write
from derive.library import load

ROOT = default_folder()
FILES = {
    path.relative_to(ROOT).as_posix(): path.read_bytes().decode("utf-8")
    for path in sorted([*ROOT.glob("*.*"), *ROOT.glob("*/*.py")])
}
SOURCES = sorted(name for name in FILES if name.endswith(".py"))


def test_committed_files_are_current() -> None:
    assert compare(render_all(load()), ROOT) == ""


def test_text_does_not_depend_on_the_hash_seed() -> None:
    """The seed of the test above is this process's, drawn anew each time; the command of the user has another one."""
    environment = {**os.environ, "PYTHONHASHSEED": "4242" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    command = [sys.executable, "-m", "gradproof", "generate", "--check"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", SOURCES)
def test_source_is_readable(name: str) -> None:
    text = FILES[name]
    tree = ast.parse(text)
    assert max(map(len, text.splitlines()), default=0) <= 120
    assert "\t" not in text
    assert text.endswith("\n")
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert all(ast.get_docstring(function) for function in functions if not function.name.startswith("_"))


@pytest.mark.parametrize("name", [name for name in SOURCES if "/" in name and Path(name).stem not in TAKEN])
def test_kernels_have_no_unused_values(name: str) -> None:
    for function in ast.walk(ast.parse(FILES[name])):
        if isinstance(function, ast.FunctionDef):
            stored = {
                node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            loaded = {
                node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            }
            assert stored - {"_"} <= loaded, f"{name}: {function.name}: {sorted(stored - loaded)} are never read"


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    assert set(write(FILES, tmp_path)) == set(FILES)
    assert write(FILES, tmp_path) == []
    assert compare(FILES, tmp_path) == ""


def test_a_changed_file_is_shown_and_mended(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    target = tmp_path / "numpy" / "attention.py"
    target.write_text(target.read_text().replace("dS -= ", "dS += ").replace("np.matmul(dO", "np.matmul(-dO"))
    diff = compare(FILES, tmp_path)
    assert "a/numpy/attention.py" in diff
    assert re.search(r"^- .*np\.matmul\(-dO", diff, re.MULTILINE)
    assert write(FILES, tmp_path) == ["numpy/attention.py"]


def test_a_kernel_without_a_program_is_removed_and_a_stranger_is_not(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    (tmp_path / "numpy" / "mine.py").write_text("x = 1\n")
    fewer = {name: text for name, text in FILES.items() if not name.endswith("/gelu.py")}
    assert sorted(write(fewer, tmp_path)) == ["numpy/gelu.py", "torch/gelu.py"]
    assert (tmp_path / "numpy" / "mine.py").exists()


def test_generated_package_needs_numpy_alone(tmp_path: Path) -> None:
    write(FILES, tmp_path / "generated")
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'derive', 'codegen', 'gradproof', 'sympy', 'jinja2', 'torch'}:\n"
        "            raise ImportError(name + ' is not needed here')\n"
        "sys.meta_path.insert(0, Block())\n"
        "import importlib, pkgutil, numpy as np\n"
        "import generated.numpy as package\n"
        f"assert package.__file__.startswith({str(tmp_path)!r}), package.__file__\n"
        "names = [m.name for m in pkgutil.iter_modules(package.__path__)]\n"
        "for name in names:\n"
        "    importlib.import_module('generated.numpy.' + name)\n"
        "from generated.numpy.softmax import softmax_forward\n"
        "p, saved = softmax_forward(np.array([[0.0, 0.0]]))\n"
        "print(len(names), p.tolist())\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().endswith("[[0.5, 0.5]]")

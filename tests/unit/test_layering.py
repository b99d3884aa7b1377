"""Imports go one way, and nothing but the four named packages is installed."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from setuptools import find_packages

import gradproof

ROOT = Path(__file__).resolve().parents[2]
OURS = {"derive", "codegen", "gradproof", "generated"}
OUTSIDE = {
    *("click", "jinja2", "matplotlib", "mpmath", "numpy", "rich", "safetensors", "sympy", "threadpoolctl", "torch")
}
FORBIDDEN = {
    "derive": {"codegen", "gradproof", "generated", "numpy", "torch", "jinja2", "click", "rich"},
    "codegen": {"gradproof", "generated", "click", "rich"},
    "gradproof": set(),
    "generated": OURS - {"generated"} | OUTSIDE - {"numpy", "threadpoolctl", "torch"},
}


def imported_by(path: Path) -> Iterator[tuple[str, int]]:
    """The top-level names that a file imports, wherever in the file, each with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[0] if node.level else (node.module or "").split(".")[0]
            yield package, node.lineno


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_imports_go_one_way(package: str) -> None:
    allowed = (OURS | OUTSIDE | set(sys.stdlib_module_names)) - FORBIDDEN[package]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name, line in imported_by(path)
        if name not in allowed
    ]
    assert wrong == []


STAGES = (
    *("errors", "backends", "ir", "algebra", "stability", "lowering", "blocking", "planning", "printing"),
    *("generate", "checking"),
)
"""The parts of the compiler, each before those that may import it."""


def test_stages_of_the_compiler_import_those_before_them() -> None:
    folder = ROOT / "codegen"
    wrong = []
    for path in sorted(folder.rglob("*.py")):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
            if module[:1] == ["codegen"] and len(module) > 1 and STAGES.index(module[1]) > STAGES.index(own):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {'.'.join(module)}")
    assert wrong == []


def test_torch_is_imported_only_where_it_is_wanted() -> None:
    """Without torch, everything but the torch kernels and their checks must work."""
    engine = "gradproof/training/engine_torch.py"  # imported when a run asks for it
    drop_ins = ROOT / "gradproof" / "torch"  # imported by those who have torch
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in ("derive", "codegen", "gradproof")
        for path in sorted((ROOT / package).rglob("*.py"))
        if str(path.relative_to(ROOT)) != engine and not path.is_relative_to(drop_ins)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if name.split(".")[0] == "torch" or name.startswith(("gradproof.torch", "gradproof.training.engine_torch"))
    ]
    assert wrong == []


def test_only_the_four_packages_are_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    where = settings["packages"]["find"]
    packages = find_packages(str(ROOT), include=where["include"])
    assert {name.split(".")[0] for name in packages} == OURS
    folders = {path.parent.relative_to(ROOT) for name in OURS for path in (ROOT / name).rglob("*.py")}
    assert {".".join(folder.parts) for folder in folders} == set(packages)


def test_every_package_is_typed() -> None:
    assert [name for name in sorted(OURS) if not (ROOT / name / "py.typed").is_file()] == []


def public_imports() -> dict[str, str]:
    """The names that `gradproof/__init__.py` shows to type checkers, each with its module."""
    tree = ast.parse((ROOT / "gradproof" / "__init__.py").read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: node.module or ""
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_public_names_are_the_same_for_the_type_checker_and_at_run_time() -> None:
    assert public_imports() == gradproof.SOURCES
    assert sorted([*gradproof.SOURCES, "__version__"]) == sorted(gradproof.__all__)


@pytest.mark.parametrize("name", sorted(gradproof.SOURCES))
def test_public_name_is_what_its_module_defines(name: str) -> None:
    assert getattr(gradproof, name) is getattr(sys.modules[gradproof.SOURCES[name]], name)


def test_unknown_public_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sofmax'"):
        _ = gradproof.sofmax

"""What a program may be called and its title say when its kernels are written, and what is said of slips."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from sympy import Rational

from codegen.checking.checks import check_kernels
from codegen.errors import KernelError
from codegen.generate import render_all, write
from derive.errors import StatementError
from gradproof import Program, dims, index, matrix, tensor
from gradproof.cli.selection import InputError, programs_of

T = dims("T")[0]
i = index("i", T)
x = tensor("x", T)


def doubled(name: str, title: str, assumptions: tuple[str, ...] = ()) -> Program:
    program = Program(name, title, inputs=[x], assumptions=list(assumptions))
    program.kernel(program.define("y", [i], 2 * x[i]), wrt=[x])
    return program


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize(
    "title",
    ['a """quoted""" one', '"""', r"x \in R, \n and \\", "ends in \\", 'ends in "', "a\nline", "nul \0", "\ud800"],
)
def test_a_title_may_say_anything(title: str, target: str) -> None:
    """Quotes and backslashes ended the docstring."""
    text = render_all([doubled("titled", title, ('where """ it \\ exists',))], [target])[f"{target}/titled.py"]
    module = ast.parse(text.encode("utf-8"))
    said = ast.get_docstring(module)
    assert said is not None
    assert 'where """ it \\ exists' in said
    if title.isprintable():
        assert title[1:] in said  # after a capital
        functions = [part for part in module.body if isinstance(part, ast.FunctionDef)]
        assert title in (ast.get_docstring(functions[0]) or "")


def test_two_programs_of_one_name_are_refused() -> None:
    """The second took the place of the first."""
    one, other = doubled("same", "one"), doubled("same", "other")
    with pytest.raises(KernelError, match=r"program same: two programs .*'one' and 'other'.*same\.py; rename one"):
        render_all([one, other])


def test_the_name_of_an_upstream_gradient_is_taken() -> None:
    """The advice was an argument that kernels do not have."""
    dy = tensor("dy", T)
    program = Program("taken", inputs=[x, dy])
    program.kernel(program.define("y", [i], x[i] * dy[i]), wrt=[x])
    with pytest.raises(StatementError, match=r"name dy is taken; rename what has it \(a gradient of your own"):
        render_all([program])


def test_the_text_of_an_index_is_no_index() -> None:
    with pytest.raises(StatementError, match=r"x\['i'\]: axis 0 needs an index of extent T, found 'i', which"):
        x["i"]


def test_a_matrix_is_no_value() -> None:
    """Its entry was shown, a function of Python's."""
    A = tensor("A", T, T)
    product = matrix(A) @ matrix(A).T
    with pytest.raises(StatementError, match=r"found the matrix \(A @ A\.T\); take its entry, M\[i, j\]"):
        Program("product").define("y", [i, index("j", T)], product)


@pytest.mark.parametrize("number", [10**400, -(10**400), Rational(10**400, 3)])
def test_a_number_beyond_double_precision_is_refused(number: Any) -> None:
    program = Program("large", inputs=[x])
    program.kernel(program.define("y", [i], number * x[i]))
    with pytest.raises(KernelError, match=r"the number -?\d\.\d+E\+\d+ is beyond the largest of double precision"):
        render_all([program])


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("number", [10**30, -(10**30), Rational(10**400 + 1, 3 * 10**399)])
def test_a_long_number_is_one_of_double_precision(number: Any, target: str, tmp_path: Path) -> None:
    """PyTorch takes whole numbers of 64 bits."""
    if target == "torch":
        pytest.importorskip("torch")
    program = Program("long", inputs=[x])
    program.kernel(program.define("y", [i], number * x[i] + number), wrt=[x])
    write(render_all([program], [target]), tmp_path, [target])
    assert all(found.ok for found in check_kernels([program], target=target, folder=tmp_path))


@pytest.mark.parametrize("body", ["where(0 < x[i] < 1, 1, 0)", "where(x[i] > 0 and x[i] < 1, 1, 0)", "max(x[i], 0)"])
def test_what_python_asks_of_a_condition_is_told(body: str, tmp_path: Path) -> None:
    """SymPy's error does not say what to write instead."""
    path = tmp_path / "asked.py"
    lines = ["from gradproof import *", 'T = dims("T")[0]', 'i = index("i", T)', 'x = tensor("x", T)']
    path.write_text("\n".join([*lines, f'Program("p").define("y", [i], {body})', ""]), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"asked\.py:5: TypeError: .*write And\(0 < y, y < 1\), Or, Not, where.*Max or"
    ):
        programs_of(path)

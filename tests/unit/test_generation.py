"""What a program may be called, and what its title may say, when its kernels are written."""

from __future__ import annotations

import ast

import pytest

from codegen.errors import KernelError
from codegen.generate import render_all
from gradproof import Program, dims, index, tensor

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

"""Long lines of generated code are broken at brackets, and mean what they meant."""

from __future__ import annotations

import ast

import pytest

from codegen.printing.wrapping import wrapped

LINES = [
    "y = np.where(mask, a - b[np.arange(N), target] + np.log(np.exp(a - b[..., None]).sum(axis=-1)), 0)",
    'y = np.einsum("nv,nv->n", np.where(mask, log_q, 0) - np.where(mask, log_p, 0), weight_of_each_class)',
    "H = (cov.reshape(N, C * C).T @ (X[..., None] * X[:, None]).reshape(N, d * d)).reshape(C, C, d, d).transpose(0, 2)",
    "x = ((a * first_quantity + b * second_quantity) * (c * third_quantity + d * fourth_quantity)).sum(axis=-1)",
]


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("line", LINES)
def test_broken_lines_fit_and_mean_the_same(line: str, width: int) -> None:
    pieces = wrapped(line, width)
    assert max(map(len, pieces)) <= width
    assert ast.dump(ast.parse("\n".join(pieces))) == ast.dump(ast.parse(line))


def test_short_lines_are_left_alone() -> None:
    assert wrapped(LINES[0], 120) == [LINES[0]]


def test_a_line_without_brackets_stays_whole() -> None:
    assert wrapped("a = b + c + d", 5) == ["a = b + c + d"]


def test_indentation_is_kept() -> None:
    assert all(piece.startswith("    ") for piece in wrapped(f"    {LINES[0]}", 70))

"""`gradproof generate --explain`: what the compiler does to one program, pass by pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradproof.cli.main import main

OWN = """
from derive.language import Sum, dims, indices, index, tensor
from derive.program import Program
N, M = dims("N M")
i, j = index("i", N), index("j", M)
x, W = tensor("x", M), tensor("W", N, M)
mine = Program("mine", "a product", [x, W])
y = mine.define("y", [i], Sum(W[i, j] * x[j], j))
mine.kernel(y, wrt=[x])
"""


def run(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


def test_stages_costs_and_identities_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "--explain", "attention"]) == 0
    shown = capsys.readouterr().out
    assert "costs at sizes assumed to be typical: N = 16, T_k = 1024, T_q = 1024, d_k = 64, d_v = 64" in shown
    assert "backward, as derived" in shown
    assert "by Sum_j_2(A[b,i,j_2]*dA[b,i,j_2]) = Sum_c(O[b,i,c]*dO[b,i,c])" in shown
    assert "operations: " in shown
    assert ", was " in shown


def test_what_is_saved_and_what_is_computed_block_by_block_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "--explain", "attention"]) == 0
    _, plain, in_base_two, lean, _ = capsys.readouterr().out.split("\n\nattention_")[-5:]
    assert plain.startswith("forward, as computed with numpy\n    block by block of i, for each b,")
    assert in_base_two.startswith("forward, as computed with torch\n    block by block of i, for each b,")
    assert "divided by log(2), as exp(x) = 2^(x/log(2))" in in_base_two
    assert "log(2)" not in plain
    assert "\n  saved: O, A_exp, A_sum; bytes: 4*N*T_k*T_q + 4*N*T_q*d_v + 4*N*T_q = " in plain
    assert "\n      A_exp, stored\n" in plain
    assert lean.startswith("lean_forward")
    assert "\n  saved: O, A_sum, A_exp_top; bytes: 4*N*T_q*d_v + 8*N*T_q = " in lean
    assert "\n      A_exp, in the block\n" in lean
    assert "\n      dV, added up; by A = A_exp / A_sum, divided before the product" in lean


def test_an_unknown_kernel_is_named_with_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "--explain", "atention"]) == 2
    assert "did you mean attention" in capsys.readouterr().err


def test_a_program_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    assert run(["generate", "--explain", "mine", str(path)]) == 0
    assert "dx[j] = Sum_i(dy[i]*W[i,j])" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_stated_in_one_piece_is_shown_as_it_is_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN.replace("Sum(W[i, j] * x[j], j))", "1 / (1 + Sum(W[i, j] * x[j], j)**2))"), encoding="utf-8")
    assert run(["generate", "--explain", "mine", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "as stated\n    y[i] = 1/(1 + Sum_j(x[j]*W[i,j])**2)\n" in shown
    named = shown.split("forward, with names for its parts")[1].split("backward")[0]
    assert "y_product[i] = Sum_j(x[j]*W[i,j])" in named
    assert "y[i] = 1/(1 + y_product[i]**2)" in named

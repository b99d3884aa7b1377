"""Every command of the README runs, and every output it shows is the real one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from codegen.printing.emission import kernel_file
from derive.library import load_file
from gradproof.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "attention.py"
CONSOLE = re.findall(r"```console\n\$ gradproof ([^\n]*)\n(.*?)```", README, flags=re.DOTALL)


def without_times(text: str) -> list[str]:
    """The lines with seconds blanked and long lines cut where the README cuts them."""
    return [re.sub(r"\d+\.\d+ s", "_ s", line)[:112].rstrip() for line in text.strip().splitlines()]


def test_there_are_commands_to_test() -> None:
    assert len(CONSOLE) >= 2


@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_console_output_is_real(command: str, shown: str, tmp_path: Path) -> None:
    words = [str(EXAMPLE) if word == "examples/attention.py" else word for word in command.split()]
    words = [str(tmp_path) if word == "build/kernels" else word for word in words]
    ran = CliRunner().invoke(main, words)
    assert ran.exit_code in (0, 1), ran.output
    if shown.strip():
        assert without_times(ran.stdout) == without_times(shown.replace(" ...\n", "\n"))


def test_statement_is_the_example() -> None:
    blocks = re.findall(r"```python\n(from gradproof.*?)```", README, flags=re.DOTALL)
    assert [block.strip() in EXAMPLE.read_text(encoding="utf-8") for block in blocks] == [True]


def test_kernel_is_what_is_generated() -> None:
    (block,) = re.findall(r"```python\n(O_i .*?)```", README, flags=re.DOTALL)
    text = kernel_file(load_file(EXAMPLE)[0], "numpy")
    lines = [line for line in block.strip().splitlines() if line and line != "# backward"]
    assert [line for line in lines if f"        {line}" not in text.splitlines()] == []


@pytest.mark.parametrize("target", sorted(set(re.findall(r"^    make (\w+)", README, flags=re.MULTILINE))))
def test_make_target_exists(target: str) -> None:
    ran = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^\| `gradproof (\w+)", README, flags=re.MULTILINE))))
def test_command_explains_itself(command: str) -> None:
    words = [sys.executable, "-m", "gradproof", command, "--help"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert "Usage:" in ran.stdout


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target

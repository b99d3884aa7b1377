"""The command line: exit codes, messages and output forms. The stages behind it are played by small stand-ins."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import gradproof
from codegen.errors import KernelError
from derive.errors import AlarmError, StatementError
from derive.language import Sum, dims, index, tensors
from derive.program import Program
from gradproof.cli import render
from gradproof.cli.main import main
from gradproof.cli.meter import LineMeter, meter
from gradproof.cli.selection import some_of
from gradproof.training import Source, StepReport, TrainingConfig, TrainingResult
from gradproof.training.floor import Floor
from gradproof.training.reports import Event

COMMANDS = ("prove", "generate", "check", "train", "sample", "run")


# ---------------------------------------------------------------------------------------------------------------------
# Stand-ins


def two_programs() -> list[Program]:
    """A program with a kernel and two claims, and one with a claim alone."""
    (n,) = dims("n")
    i = index("i", n)
    x, y = tensors("x y", n)
    square = Program("square", inputs=[x])
    total = square.define("total", [], Sum(x[i] * x[i], i))
    square.claim("S1", total, Sum(x[i] ** 2, i), name="a square is a product")
    square.claim("S2", total, Sum(x[i], i), name="a square is its root")
    square.kernel(total, wrt=[x])
    inner = Program("inner", inputs=[x, y])
    product = inner.define("product", [], Sum(x[i] * y[i], i))
    inner.claim("I1", product, Sum(y[i] * x[i], i))
    return [square, inner]


@dataclass(frozen=True)
class FakeCounterexample:
    sizes: dict[str, int] = field(default_factory=lambda: {"n": 2})
    position: dict[str, int] = field(default_factory=lambda: {"i": 1})
    left: str = "13"
    right: str = "5"
    line: str = "print(2**2 + 3**2, 2 + 3)"

    @property
    def command(self) -> str:
        return f'python -c "{self.line}"'

    def as_dict(self) -> dict[str, Any]:
        return {"sizes": self.sizes, "left": self.left, "right": self.right, "line": self.line}


@dataclass(frozen=True)
class FakeVerdict:
    claim: Any
    status: str
    hypotheses: tuple[str, ...] = ("n >= 1",)
    laws: tuple[str, ...] = ("sum is linear",)
    seconds: float = 0.0125
    counterexample: FakeCounterexample | None = None
    reason: str = ""
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class FakeCheck:
    kernel: str
    target: str
    gradient: str = "dx"
    error: float = 2e-10
    tolerance: float = 1e-6
    witness: str = "finite differences"
    shapes: int = 4
    ok: bool = True
    detail: str = ""
    note: str = ""


class Stage:
    """What the stand-ins answer; a test changes it to play a fault."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Callable[[Any], FakeVerdict]] = {}
        self.difference = ""
        self.written: list[str] = []
        self.failing: set[str] = set()
        self.trained: list[TrainingConfig] = []
        self.result: dict[str, Any] = {}

    def prove(self, claim: Any, *, seconds: float = 10.0, seed: int = 0) -> FakeVerdict:
        return self.verdicts.get(claim.id, lambda claim: FakeVerdict(claim, "Proved"))(claim)

    def render_all(self, programs: list[Program], targets: tuple[str, ...]) -> dict[str, str]:
        files = {f"{target}/{name}.py": "" for target in targets for name in ("__init__", *[p.name for p in programs])}
        return {"__init__.py": "", "MANIFEST.json": "{}", **files}

    def write(self, files: dict[str, str], folder: Path, targets: tuple[str, ...]) -> list[str]:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self.written = sorted(files)
        return self.written

    def check_kernels(
        self, programs: list[Program], *, target: str, folder: Path, seed: int = 0
    ) -> Iterator[FakeCheck]:
        for program in programs:
            if program.name in self.failing:
                yield FakeCheck(program.name, target, error=0.5, ok=False, detail="n = 3")
            else:
                yield FakeCheck(program.name, target)

    def train(
        self, config: TrainingConfig, source: Source, *, tell: Callable[[Event], None], **_: Any
    ) -> TrainingResult:
        self.trained.append(config)
        for step in range(1, config.steps + 1):
            tell(StepReport(step, config.steps, 3.0, 1e-3, 1.0, 0.1, 1.5, 1000.0))
        numbers: dict[str, Any] = {
            "train_loss": 2.0, "heldout_loss": 2.1, "floor": Floor(3.2, 2.4, 1.4, 1.0, 0.0), "parts": None,
            "tokens_per_s": 1000.0, "steps": config.steps, "first_loss": 4.6,
            "sample": "the\tlist[i]\nof \x1b things", "stopped_early": False,
        }  # fmt: skip
        return TrainingResult(**{**numbers, **self.result})


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stage]:
    """All stages replaced by stand-ins that succeed."""
    played = Stage()
    programs = two_programs()
    monkeypatch.setattr("derive.library.load", lambda *_, **__: programs, raising=False)
    for name, members in {
        "derive.prove": {"prove": played.prove},
        "codegen.generate": {
            "render_all": played.render_all,
            "write": played.write,
            "compare": lambda files, folder, targets: played.difference,
            "default_folder": lambda: tmp_path / "generated",
        },
        "codegen.checking.checks": {"check_kernels": played.check_kernels},
    }.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("gradproof.training.train", played.train)
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "generated"}
    yield played
    for name in [name for name in sys.modules if name.split(".")[0] == "generated"]:
        del sys.modules[name]
    sys.modules.update(kept)


def said(*arguments: str) -> Result:
    """The outcome of a command line."""
    return CliRunner().invoke(main, list(arguments), prog_name="gradproof")


def refuted(claim: Any) -> FakeVerdict:
    return FakeVerdict(claim, "Refuted", counterexample=FakeCounterexample())


def undecided(claim: Any) -> FakeVerdict:
    return FakeVerdict(claim, "Undecided", reason="more than 10000 terms")


def raising(error: BaseException) -> Callable[[Any], FakeVerdict]:
    def raise_it(_claim: Any) -> FakeVerdict:
        raise error

    return raise_it


# ---------------------------------------------------------------------------------------------------------------------
# The group


def test_version() -> None:
    outcome = said("--version")
    assert outcome.exit_code == 0
    assert outcome.stdout == f"gradproof, version {gradproof.__version__}\n"


def test_version_needs_no_sympy() -> None:
    code = "import sys, gradproof.cli.main; sys.exit(sorted({'sympy', 'numpy', 'torch'} & set(sys.modules)) or 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_the_exit_codes(command: str) -> None:
    outcome = said(command, "--help")
    assert outcome.exit_code == 0
    assert "Exit codes:" in outcome.stdout


def test_unknown_command_is_bad_input() -> None:
    assert said("porve").exit_code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that takes nothing")
@pytest.mark.parametrize(
    "words", [("--help",), ("prove", "--help"), ("--unknown",), ("prove", "--unknown"), ("porve",)]
)
def test_help_and_complaints_that_cannot_be_written_are_no_crash(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "gradproof", *words]
        assert subprocess.run(command, stdout=full, stderr=full, check=False).returncode == 2


def test_crash_is_never_taken_for_a_verdict(stage: Stage) -> None:
    stage.verdicts["S1"] = raising(ZeroDivisionError("division by zero"))
    outcome = said("prove")
    assert outcome.exit_code == 70
    assert "ZeroDivisionError" in outcome.stderr
    assert "internal error" in outcome.stderr


def test_interrupt_ends_cleanly(stage: Stage) -> None:
    stage.verdicts["S1"] = raising(KeyboardInterrupt())
    outcome = said("prove")
    assert outcome.exit_code == 130
    assert "Traceback" not in outcome.output


def test_file_that_cannot_be_written_is_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> list[str]:
        raise PermissionError(13, "Permission denied", "/somewhere/numpy")

    monkeypatch.setattr(sys.modules["codegen.generate"], "write", refuse)
    outcome = said("generate")
    assert outcome.exit_code == 2
    assert outcome.stderr == "gradproof: /somewhere/numpy: Permission denied\n"


# ---------------------------------------------------------------------------------------------------------------------
# prove


def test_all_proved(stage: Stage) -> None:
    outcome = said("prove")
    assert outcome.exit_code == 0
    assert outcome.stderr == ""
    assert "3 of 3 proved" in outcome.stdout
    for part in ("S1", "Proved", "n >= 1", "sum is linear", "0.013 s", "a square is a product"):
        assert part in outcome.stdout


def test_claim_without_a_name_shows_what_it_says(stage: Stage) -> None:
    assert "product = Sum(x[i]*y[i], (i, 0, n - 1))" in said("prove", "I1").stdout


def test_refuted_shows_the_counterexample_and_how_to_reproduce_it(stage: Stage) -> None:
    stage.verdicts["S2"] = refuted
    outcome = said("prove")
    assert outcome.exit_code == 1
    assert "2 of 3 proved, 1 refuted" in outcome.stdout
    for part in ("n = 2, i = 1", "= 13", "= 5", FakeCounterexample().command, "test_cli.py:"):
        assert part in outcome.stdout


def test_refuted_says_when_it_holds(stage: Stage) -> None:
    stage.verdicts["S2"] = lambda claim: FakeVerdict(claim, "Refuted", advice=("holds if x = 1", "holds if n = 1"))
    lines = [line.strip() for line in said("prove").stdout.splitlines()]
    assert "holds if x = 1" in lines
    assert "holds if n = 1" in lines
    report = json.loads(said("prove", "--format", "json").stdout)
    assert [claim["advice"] for claim in report["claims"]] == [[], ["holds if x = 1", "holds if n = 1"], []]


def test_undecided_gives_its_reason(stage: Stage) -> None:
    stage.verdicts["S2"] = undecided
    outcome = said("prove")
    assert outcome.exit_code == 1
    assert "1 undecided" in outcome.stdout
    assert "reason: more than 10000 terms" in outcome.stdout


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["S2"], ["S2"]),
        (["inner"], ["I1"]),
        (["I1", "square"], ["S1", "S2", "I1"]),
        (["S1", "square", "S1"], ["S1", "S2"]),
    ],
)
def test_names_choose_claims_and_programs(stage: Stage, names: list[str], ids: list[str]) -> None:
    outcome = said("prove", "--format", "json", *names)
    assert [claim["id"] for claim in json.loads(outcome.stdout)["claims"]] == ids


@pytest.mark.parametrize(("name", "nearest"), [("S3", "S1, S2"), ("sqare", "square"), ("s1", "S1")])
def test_unknown_name_gives_the_nearest(stage: Stage, name: str, nearest: str) -> None:
    outcome = said("prove", name)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert repr(name) in outcome.stderr
    for match in nearest.split(", "):
        assert match in outcome.stderr.split("nearest are")[1]


def test_an_unknown_name_lists_a_few_of_many(stage: Stage, tmp_path: Path) -> None:
    assert some_of([]) == "none"
    assert some_of(map(str, range(12))) == "0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9"
    assert some_of(f"{name:02}" for name in range(99)).endswith("10, 11 and 87 more")
    outcome = said("prove", f"{tmp_path}/")
    assert (outcome.exit_code, "expected a Python file with programs, found a folder" in outcome.stderr) == (2, True)


def test_json_has_exactly_the_agreed_shape(stage: Stage) -> None:
    stage.verdicts.update({"S2": refuted, "I1": undecided})
    outcome = said("prove", "--format", "json")
    assert outcome.exit_code == 1
    report = json.loads(outcome.stdout)
    assert set(report) == {"claims", "summary"}
    for claim in report["claims"]:
        assert list(claim) == [
            "id", "name", "program", "statement", "source", "verdict", "hypotheses", "laws", "rule", "note", "reason",
            "seconds", "counterexample", "advice",
        ]  # fmt: skip
        assert re.fullmatch(r"tests/unit/test_cli.py:\d+", claim["source"])
    assert [claim["verdict"] for claim in report["claims"]] == ["Proved", "Refuted", "Undecided"]
    assert report["claims"][0]["counterexample"] is None
    assert report["claims"][1]["counterexample"] == FakeCounterexample().as_dict()
    assert report["claims"][2]["reason"] == "more than 10000 terms"
    assert (report["claims"][0]["program"], report["claims"][2]["program"]) == ("square", "inner")
    assert report["claims"][2]["statement"] == "product = Sum(x[i]*y[i], (i, 0, n - 1))"
    assert set(report["summary"]) == {"proved", "refuted", "undecided", "seconds"}
    assert (report["summary"]["proved"], report["summary"]["refuted"], report["summary"]["undecided"]) == (1, 1, 1)


@pytest.mark.parametrize("verdict", [None, refuted, undecided], ids=["proved", "refuted", "undecided"])
def test_source_line_is_in_every_message(stage: Stage, verdict: Callable[[Any], FakeVerdict] | None) -> None:
    if verdict is not None:
        stage.verdicts["S1"] = verdict
    first, *_ = said("prove", "S1").stdout.splitlines()
    assert re.search(r"\(tests/unit/test_cli\.py:\d+\)$", first)
    stage.verdicts["S1"] = raising(AlarmError("internal alarm: S1"))
    assert re.search(r"\(tests/unit/test_cli\.py:\d+\)$", said("prove", "S1").stderr.splitlines()[0])


def test_a_rule_is_shown_with_its_sentence_and_source() -> None:
    printed = said("prove", "A4").stdout
    assert "rule: Gibbs' inequality: p, q > 0 and Sum p = Sum q = 1 imply Sum p log(p/q) >= 0 (Cover" in printed
    claims = json.loads(said("prove", "--format", "json", "A4").stdout)["claims"]
    assert {claim["rule"]["name"] for claim in claims if claim["rule"]} == {
        "Gibbs' inequality", "equality in Gibbs' inequality",
    }  # fmt: skip


def test_notes_are_in_the_json() -> None:
    (claim, *_) = json.loads(said("prove", "--format", "json", "C6").stdout)["claims"]
    assert "nats" in claim["note"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_alarm_is_never_a_verdict(stage: Stage, form: str) -> None:
    stage.verdicts["S2"] = raising(
        AlarmError("internal alarm: S2: the normal form proves it, exact evaluation at n = 2 denies it")
    )
    outcome = said("prove", "--format", form)
    assert outcome.exit_code == 70
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("gradproof: internal alarm: S2")


def test_ill_formed_statement_is_bad_input(stage: Stage) -> None:
    stage.verdicts["S1"] = raising(StatementError("S1: size mismatch on axis 0"))
    outcome = said("prove")
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("gradproof: S1: size mismatch on axis 0   (tests/unit/test_cli.py:")


STATEMENT = """\
from gradproof import Program, Sum, dims, index, tensor

n, m = dims("n m")
i, j = index("i", n), index("j", m)
x = tensor("x", n)
own = Program("own")
total = own.define("total", [], Sum(x[i], i))
"""


def test_claims_of_a_file_of_ones_own(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(STATEMENT + 'own.claim("O1", total, Sum(x[i], i), name="mine")\n')
    outcome = said("prove", "--format", "json", str(path))
    assert [claim["id"] for claim in json.loads(outcome.stdout)["claims"]] == ["O1"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of the user's, in the working folder."""
    folder = tmp_path / "users_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("users_package")]:
        del sys.modules[name]


def test_claims_of_a_module_of_ones_own(stage: Stage, package: Path) -> None:
    (package / "own.py").write_text(STATEMENT + 'own.claim("O1", total, Sum(x[i], i), name="mine")\n')
    outcome = said("prove", "--format", "json", "users_package.own", "I1")
    assert [claim["id"] for claim in json.loads(outcome.stdout)["claims"]] == ["I1", "O1"]
    assert str(package.parent) not in sys.path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STATEMENT + "own.claim(missing)\n", "own.py:8: NameError: name 'missing' is not defined"),
        (f"{STATEMENT}exit()\n", "own.py:8: expected a file that states programs, found one that ends Python"),
        ("import gradproof\n", "users_package.own: expected at least one module-level Program in"),
    ],
)
def test_fault_in_a_module_of_ones_own(stage: Stage, package: Path, text: str, message: str) -> None:
    (package / "own.py").write_text(text)
    outcome = said("prove", "users_package.own")
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_module_that_is_not_there(stage: Stage, package: Path) -> None:
    outcome = said("prove", "users_package.other")
    assert outcome.exit_code == 2
    assert "'users_package.other': expected a claim or a program of the library, a module" in outcome.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('own.claim("O1", total, x[j])', "own.py:8: x[j]: size mismatch on axis 0"),
        ("own.claim(missing)", "own.py:8: NameError: name 'missing' is not defined"),
        ("own.claim(", "own.py:8: SyntaxError: '(' was never closed"),
        ("raise SystemExit", "own.py:8: expected a file that states programs, found one that ends Python (SystemExit)"),
        ("import sys; sys.exit(0)", "own.py:8: expected a file that states programs"),
        ("", "there is no claim to prove"),
    ],
)
def test_fault_in_a_file_of_ones_own_is_told_with_its_line(
    stage: Stage, tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "own.py"
    path.write_text(f"{STATEMENT}{line}\n")
    outcome = said("prove", str(path))
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_without_a_working_folder(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert said("prove", "S1").exit_code == 0
    assert said("prove", "os.path").exit_code == 2
    (tmp_path / "own.py").write_text(STATEMENT + "own.claim(missing)\n")
    outcome = said("prove", str(tmp_path / "own.py"))
    assert (outcome.exit_code, "own.py:8: NameError" in outcome.stderr) == (2, True)
    outcome = said("train", "--steps", "1", "--data", "text.txt")
    assert (outcome.exit_code, "Traceback" in outcome.stderr) == (2, False)


def test_file_that_is_not_there(stage: Stage, tmp_path: Path) -> None:
    outcome = said("prove", str(tmp_path / "none.py"))
    assert outcome.exit_code == 2
    assert "none.py" in outcome.stderr


def test_plain_output_has_no_control_characters(stage: Stage) -> None:
    stage.verdicts["S2"] = refuted
    for words in ("prove", "check --target numpy", "run --steps 10", "train --no-save --steps 10"):
        arguments = words.split()
        text = said(*arguments).output
        assert all(character.isprintable() or character == "\n" for character in text), arguments


def test_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(STATEMENT + 'own.claim("O1", total, Sum(x[i], i))\n')
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "gradproof", "prove", str(path)]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, "")


# ---------------------------------------------------------------------------------------------------------------------
# generate


def test_generate_writes_both_targets(stage: Stage, tmp_path: Path) -> None:
    outcome = said("generate", "-o", str(tmp_path / "here"))
    assert outcome.exit_code == 0
    assert (tmp_path / "here" / "torch" / "square.py").is_file()
    assert "inner" not in " ".join(stage.written)  # it asks for no kernel
    assert "2 kernels in" in outcome.stdout


def test_a_target_may_be_repeated(stage: Stage, tmp_path: Path) -> None:
    """The last one counted, and the other was left out in silence."""
    assert said("generate", "--target", "torch", "--target", "numpy", "-o", str(tmp_path / "both")).exit_code == 0
    assert [(tmp_path / "both" / name / "square.py").is_file() for name in ("numpy", "torch")] == [True, True]


def test_generate_one_target(stage: Stage, tmp_path: Path) -> None:
    assert said("generate", "--target", "numpy").exit_code == 0
    assert (tmp_path / "generated" / "numpy" / "square.py").is_file()
    assert not (tmp_path / "generated" / "torch").exists()


def test_generate_check_prints_the_difference_and_writes_nothing(stage: Stage) -> None:
    stage.difference = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"
    outcome = said("generate", "--check")
    assert outcome.exit_code == 1
    assert outcome.stdout == stage.difference
    assert "run `gradproof generate`" in outcome.stderr
    assert stage.written == []


def test_advice_names_the_folder_and_the_files(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.difference = "--- a\n"
    outcome = said("generate", "--check", "-o", "my kernels")
    assert outcome.stderr.endswith("; run `gradproof generate -o 'my kernels'`\n")

    def missing(*_: Any, **__: Any) -> Any:
        raise KernelError("kernel square: none; run `gradproof generate`")

    monkeypatch.setattr(sys.modules["codegen.checking.checks"], "check_kernels", missing)
    outcome = said("check", "--target", "numpy", "--generated", str(tmp_path), "square")
    assert outcome.exit_code == 2
    assert outcome.stderr.endswith(f"run `gradproof generate -o {tmp_path}`\n")


def test_generate_check_when_all_is_current(stage: Stage) -> None:
    outcome = said("generate", "--check")
    assert outcome.exit_code == 0
    assert "is current" in outcome.stdout
    assert stage.written == []


def test_generate_own_files(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(STATEMENT + "own.kernel(total, wrt=[x])\n")
    assert said("generate", str(path)).exit_code == 2  # they do not go among the library's
    assert said("generate", "-o", str(tmp_path / "out"), str(path)).exit_code == 0
    assert (tmp_path / "out" / "numpy" / "own.py").is_file()
    path.write_text(STATEMENT)
    outcome = said("generate", "-o", str(tmp_path / "out"), str(path))
    assert outcome.exit_code == 2
    assert "program.kernel(...)" in outcome.stderr


# ---------------------------------------------------------------------------------------------------------------------
# check


def test_check_passes(stage: Stage) -> None:
    outcome = said("check", "--target", "numpy")
    assert outcome.exit_code == 0
    for part in ("square", "dx", "2.0e-10", "finite differences", "1 check passed"):
        assert part in outcome.stdout


def test_check_fails(stage: Stage) -> None:
    stage.failing.add("square")
    outcome = said("check", "--target", "numpy")
    assert outcome.exit_code == 1
    assert "numpy kernel square, dx: differs from finite differences by 5.0e-01" in outcome.stdout


def test_check_json(stage: Stage) -> None:
    stage.failing.add("square")
    report = json.loads(said("check", "--target", "numpy", "--format", "json").stdout)
    assert report["checks"][0]["ok"] is False
    assert report["summary"] == {"passed": 0, "failed": 1, "largest_error": 0.5, "skipped_targets": []}


def test_check_without_torch(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradproof.cli.check.torch_is_installed", lambda: False)
    outcome = said("check")
    assert outcome.exit_code == 0
    assert "the torch kernels were not checked" in outcome.stderr
    asked = said("check", "--target", "torch")
    assert asked.exit_code == 2
    assert "pip install 'gradproof[torch]'" in asked.stderr


def test_check_unknown_program(stage: Stage) -> None:
    outcome = said("check", "squar")
    assert outcome.exit_code == 2
    assert "nearest are square" in outcome.stderr


# ---------------------------------------------------------------------------------------------------------------------
# run


def test_run_sums_up_every_stage(stage: Stage) -> None:
    outcome = said("run")
    assert outcome.exit_code == 0, outcome.output
    for part in ("3 of 3", "kernels generated", "2.0e-10", "4.600 -> 2.000", "bigram entropy 2.400", "list[i]"):
        assert part in outcome.stdout
    assert "falls short" not in outcome.stdout


def test_run_uses_the_kernels_that_it_has_written(stage: Stage, tmp_path: Path) -> None:
    assert said("run", "--steps", "1", "-o", str(tmp_path / "there")).exit_code == 0
    assert Path(sys.modules["generated"].__file__ or "") == tmp_path / "there" / "__init__.py"


def test_run_refuses_a_text_before_anything_else(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("short")
    for name, message in (("none.txt", "there is no such file"), ("short.txt", "needs at least")):
        outcome = said("run", "--data", str(tmp_path / name))
        assert (outcome.exit_code, outcome.stdout) == (2, "")
        assert message in outcome.stderr
    assert not stage.written


def test_run_does_not_hide_a_claim_that_is_not_proved(stage: Stage) -> None:
    stage.verdicts["S2"] = refuted
    outcome = said("run")
    assert outcome.exit_code == 1
    assert "prove falls short: S2 Refuted" in outcome.stdout.split("total time")[1]
    assert FakeCounterexample().line in outcome.stdout
    assert stage.trained != []


def test_run_does_not_hide_a_failed_check(stage: Stage) -> None:
    stage.failing.add("square")
    outcome = said("run")
    assert outcome.exit_code == 1
    assert "check falls short: numpy kernel square" in outcome.stdout


@pytest.mark.parametrize(
    ("steps", "result", "code"),
    [
        (None, {"heldout_loss": 2.39}, 0),
        (None, {"heldout_loss": 2.4}, 1),
        (None, {"heldout_loss": float("nan")}, 1),
        (10, {"heldout_loss": 3.5, "train_loss": 4.0}, 0),
        (10, {"heldout_loss": 2.0, "train_loss": 4.7}, 1),
    ],
)
def test_run_judges_what_was_learned(stage: Stage, steps: int | None, result: dict[str, float], code: int) -> None:
    stage.result = result
    assert said("run", *([] if steps is None else ["--steps", str(steps)])).exit_code == code


def test_run_says_when_training_stopped_early(stage: Stage) -> None:
    stage.result = {"steps": 700, "stopped_early": True}
    assert "note: training stopped at its time limit, after 700 of" in said("run").stdout


def test_run_ends_at_an_alarm_with_the_summary_of_what_was_done(stage: Stage) -> None:
    stage.verdicts["S2"] = raising(AlarmError("internal alarm: S2"))
    outcome = said("run")
    assert outcome.exit_code == 70
    assert outcome.stdout.count("not finished") == 1
    assert outcome.stdout.count("not run") == 3
    assert "internal alarm: S2" in outcome.stderr
    assert stage.trained == []


# ---------------------------------------------------------------------------------------------------------------------
# What the commands share


def test_meter_prints_a_line_for_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with meter(["count"]) as progress:
        assert isinstance(progress, LineMeter)
        progress.start("count", 25)
        for done in range(1, 26):
            progress.move(done, f"at {done}")
        progress.finish("all")
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == 11
    assert lines[0] == "count: 3 of 25, at 3"
    assert lines[-1].startswith("count: done in")


def test_aligned_columns() -> None:
    columns = (render.Column("name"), render.Column("value", number=True))
    assert render.aligned(columns, [["a", "1"], ["longer", "1000000"]]) == [
        "name      value",
        "a             1",
        "longer  1000000",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.000 s"),
        (0.0126, "0.013 s"),
        (0.9996, "1.00 s"),
        (9.996, "10.0 s"),
        (119.96, "2 min 00 s"),
        (185, "3 min 05 s"),
    ],
)
def test_seconds(value: float, shown: str) -> None:
    assert render.seconds(value) == shown


def test_terminal_table_does_not_take_a_formula_for_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(render, "on_terminal", lambda **_: True)
    render.show_table([render.Column("claim")], [["S[i, j] = [bold]x[/bold]"]], title="[red]all[/red]")
    render.show_line("Q[i]")
    render.show_text("[t]", "A[i]")
    out = click.unstyle(capsys.readouterr().out)
    for part in ("S[i, j] = [bold]x[/bold]", "[red]all[/red]", "Q[i]", "[t]", "A[i]"):
        assert part in out


def test_json_has_no_word_for_infinity() -> None:
    payload = {"loss": math.inf, "parts": [1.0, math.nan, {"steps": (2, None, True)}]}
    assert json.loads(render.json_text(payload, indent=None), parse_constant=pytest.fail) == {
        "loss": None,
        "parts": [1.0, None, {"steps": [2, None, True]}],
    }


@pytest.mark.parametrize(
    ("value", "shown"), [(2.1e-5, "0.021 ms"), (0.00503, "5.03 ms"), (0.0274, "27.40 ms"), (1.234, "1,234 ms")]
)
def test_milliseconds(value: float, shown: str) -> None:
    assert render.milliseconds(value) == shown

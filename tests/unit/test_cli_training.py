"""`gradproof train` and `gradproof sample`: what is said, what is left behind, and what is refused. Nothing is played:
these are real runs of a very small model.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from derive.library import load as load_programs
from gradproof.cli import training_setup
from gradproof.cli.main import main
from gradproof.cli.training_setup import table_of
from gradproof.training import Interrupted, KernelMissingError, TrainingConfig, loop, train
from gradproof.training import plot as plotting
from gradproof.training.checkpoint import checkpoint_in, load
from gradproof.training.data import corpus_from
from gradproof.training.folder import CHECKPOINT
from gradproof.training.kernels import kernel
from gradproof.training.metrics import read_metrics
from gradproof.training.model import Model, create_model

TEXT = "the quick brown fox jumps over the lazy dog\n" * 20
NANO = ("--layers", "1", "--heads", "1", "--width", "8", "--context", "6", "--batch", "2", "--data", "text.txt")
ALONE = ("--set", "run.processes=false")  # a second process takes longer to start than such a run
KEYS = ["train_loss", "heldout_loss", "unigram", "bigram", "entropy_rate", "tokens_per_s", "steps"]


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a text."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    return tmp_path


def said(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), prog_name="gradproof")


def trained(*words: str) -> Result:
    outcome = said("train", *NANO, *ALONE, *words)
    assert outcome.exit_code == 0, outcome.output
    return outcome


@pytest.fixture(scope="module")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, made once for all tests that read one."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("text.txt").write_text(TEXT)
        trained("--steps", "30", "-o", "model")
    return folder / "model"


@pytest.fixture
def model(made_before: Path) -> str:
    """The name of a run in this test's own folder."""
    shutil.copytree(made_before, "model")
    return "model"


# ---------------------------------------------------------------------------------------------------------------------
# train


def test_report_sets_the_loss_beside_what_it_is_measured_against() -> None:
    outcome = trained("--steps", "20")
    rows = [re.split(r"\s{2,}", line) for line in outcome.stdout.splitlines() if re.search(r"\d\.\d{4}$", line)]
    assert [row[0] for row in rows[:3]] == ["loss before training", "training loss", "held-out loss"]
    assert {row[0] for row in rows[3:]} == {
        "xz, after the training text", "held-out unigram entropy", "held-out bigram entropy", "held-out trigram entropy"
    }  # fmt: skip
    heights = [float(row[1]) for row in rows[3:]]
    assert heights == sorted(heights)
    assert "20 steps, " in outcome.stdout
    assert "100.0% of the held-out windows also stand in the training text" in outcome.stdout
    assert "`gradproof sample runs/001` writes text with it" in outcome.stdout
    assert [line.split(",")[0] for line in outcome.stderr.splitlines()[:2]] == ["train: 2 of 20", "train: 4 of 20"]


def test_a_run_that_the_time_limit_ends_says_how_to_go_on() -> None:
    short = ("--set", "run.time_limit_s=0.01", "--set", "run.steps=100000")
    assert "(stopped early at the time limit; --resume goes on)" in trained(*short, "-o", "mine").stdout
    kept_nothing = "(stopped early at the time limit; raise run.time_limit_s, or name --steps)"
    assert kept_nothing in trained(*short, "--no-save").stdout


def test_on_a_process_the_report_takes_the_loss_apart() -> None:
    words = [word for word in NANO if word not in ("--data", "text.txt")]
    outcome = said("train", *words, "--steps", "5", "--process", "markov:order=1,symbols=3,length=2000")
    found = dict(re.findall(r"^ *([^\d\n]*?)  +(\d\.\d{4})$", outcome.stdout, re.MULTILINE))
    expected, entropy, divergence = (
        float(found[label])
        for label in ("expected of the model", "= entropy of the process", "+ divergence of the model")
    )
    assert expected == pytest.approx(entropy + divergence, abs=2e-4)
    assert float(found["entropy rate of the process"]) == pytest.approx(entropy, rel=0.2)
    assert "least loss within a window" in found


@pytest.mark.parametrize("process", [None, "copy:block=2,symbols=3,length=2000"])
def test_json_is_one_line_at_the_end(process: str | None) -> None:
    words = NANO if process is None else (*NANO[:-2], "--process", process)
    outcome = said("train", *words, "--json", "--steps", "20", "--no-save")
    (line,) = outcome.stdout.splitlines()
    report = json.loads(line)
    assert list(report) == KEYS
    assert report["steps"] == 20
    assert (report["entropy_rate"] is None) == (process is None)
    assert all(isinstance(report[key], float) for key in KEYS[:4])


def test_runs_are_numbered_and_leave_their_files() -> None:
    pytest.importorskip("matplotlib")
    first, second = trained("--steps", "4"), trained("--steps", "4", "--checkpoint-every", "1")
    names = {CHECKPOINT, "step-00000004.safetensors", "metrics.jsonl", "report.json", "loss.svg", ".lock"}
    for number, outcome in (("001", first), ("002", second)):
        folder = Path("runs", number)
        assert {path.name for path in folder.iterdir()} == names
        assert f"runs/{number}" in outcome.stdout
        assert json.loads((folder / "report.json").read_text())["steps"] == 4
        assert len(list(read_metrics(folder))) == 4


def test_the_same_command_gives_the_same_bytes() -> None:
    trained("--steps", "12", "--seed", "3")
    trained("--steps", "12", "--seed", "3")
    one, two = Path("runs/001"), Path("runs/002")
    for name in ("step-00000012.safetensors", "loss.svg"):
        if (one / name).exists():
            assert (one / name).read_bytes() == (two / name).read_bytes()
    without_times = [re.sub(r', "elapsed_s".*', "}", (folder / "metrics.jsonl").read_text()) for folder in (one, two)]
    assert without_times[0] == without_times[1] != ""


def test_nothing_is_left_if_nothing_is_to_be_kept(workplace: Path) -> None:
    outcome = trained("--steps", "3", "--no-save")
    assert [path.name for path in workplace.iterdir()] == ["text.txt"]
    assert "runs/" not in outcome.stdout


def test_a_run_is_not_trained_over() -> None:
    trained("--steps", "3", "-o", "here")
    before = Path("here", CHECKPOINT).read_bytes()
    outcome = said("train", *NANO, *ALONE, "--steps", "3", "-o", "here")
    assert outcome.exit_code == 2
    assert "here: holds a run already; go on with it by --resume" in outcome.stderr
    assert Path("here", CHECKPOINT).read_bytes() == before


def test_files_of_ones_own_are_left_alone() -> None:
    """A run in a folder that is in use removes and writes over nothing that it did not write."""
    Path("mine").mkdir()
    kept = {"movie.mkv.part": "film", "step-my.safetensors": "weights", "chapter.part": TEXT}
    for name, content in kept.items():
        Path("mine", name).write_text(content)
    Path("mine/folder.part").mkdir()
    assert said("train", *NANO[:-1], "mine", *ALONE, "--steps", "2", "-o", "mine").exit_code == 0
    assert said("train", "--resume", "mine", "--steps", "3").exit_code == 0
    assert {name: Path("mine", name).read_text() for name in kept} == kept
    Path("other").mkdir()
    Path("other/metrics.jsonl").write_text("mine")
    Path("other/report.json").write_text("mine")
    outcome = said("train", *NANO, *ALONE, "--steps", "2", "-o", "other", "--resume")
    assert outcome.exit_code == 2
    assert "other: holds no checkpoint, but metrics.jsonl, report.json, which a run would write over" in outcome.stderr
    assert {path.name for path in Path("other").iterdir()} == {"metrics.jsonl", "report.json"}


def test_resume_in_every_way() -> None:
    """The same command begins a run and goes on with it; a folder can be named; the newest run is the default."""
    trained("-o", "here", "--resume", "--steps", "4")
    assert load(Path("here")).step == 4
    assert said("train", "--resume", "here", "--steps", "6").exit_code == 0
    assert load(Path("here")).step == 6
    trained("--steps", "4")
    trained("--steps", "5")
    outcome = said("train", "--resume", "--steps", "7", "--json")
    assert json.loads(outcome.stdout)["steps"] == 7
    assert (load(Path("runs/001")).step, load(Path("runs/002")).step) == (4, 7)
    again = said("train", "--resume")
    assert again.exit_code == 0, "a run that is complete reports again"
    assert "7 steps" in again.stdout


def test_one_folder_by_two_names_and_a_text_that_moved() -> None:
    trained("--steps", "2", "-o", "a run", "--plot", "text.png")
    moved = Path("text.txt").rename("moved.txt")
    outcome = said("train", "--resume", "a run", "--steps", "3")
    assert outcome.exit_code == 2
    assert "text.txt: expected the text that the run began with, found nothing there; name the place" in outcome.stderr
    outcome = said("train", "--resume", f"{Path.cwd()}/a run", "-o", "a run", "--data", str(moved), "--steps", "3")
    assert outcome.exit_code == 0, outcome.output
    assert f"`gradproof sample '{Path.cwd()}/a run'` writes text with it" in outcome.stdout


def test_a_number_of_steps_lifts_the_limit_unless_there_is_one_beside_it() -> None:
    trained("--steps", "2", "-o", "one")
    assert load(Path("one")).config.time_limit_s == float("inf")
    trained("--steps", "2", "-o", "two", "--set", "run.time_limit_s=7")
    assert load(Path("two")).config.time_limit_s == 7


def test_resume_takes_the_file_as_sample_does() -> None:
    trained("--steps", "2", "-o", "mine")
    assert said("train", "--resume", f"mine/{CHECKPOINT}", "--steps", "4").exit_code == 0
    assert load(Path("mine")).step == 4


def test_a_folder_in_which_another_process_has_trained_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading of the checkpoint and the lock another process has gone on with the run, and ended."""
    trained("--steps", "2", "-o", "mine")
    genuine = training_setup.chosen_source

    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.setattr("gradproof.cli.train.chosen_source", genuine)
        assert said("train", "--resume", "mine", "--steps", "4").exit_code == 0
        return genuine(*arguments)

    monkeypatch.setattr("gradproof.cli.train.chosen_source", meanwhile)
    outcome = said("train", "--resume", "mine", "--steps", "3")
    assert (outcome.exit_code, "mine: another process has just trained" in outcome.stderr) == (2, True), outcome.output
    assert load(Path("mine")).step == 4


def test_runs_in_the_folder_that_is_trained_on_do_not_change_its_text() -> None:
    Path("texts").mkdir()
    Path("text.txt").rename("texts/text.txt")
    small = (*NANO[:-1], "texts")
    for place in ("texts", "texts/run"):
        assert said("train", *small, "--steps", "2", "-o", place).exit_code == 0
        outcome = said("train", "--resume", place, "--steps", "4")
        assert outcome.exit_code == 0, outcome.output


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("width", ["100000000", "1000000000"])
def test_too_large_a_model_is_bad_input(width: str, engine: str) -> None:
    if engine == "torch":
        pytest.importorskip("torch")
    outcome = said("train", *NANO, *ALONE, "--width", width, "--engine", engine)
    assert outcome.exit_code == 2
    assert re.fullmatch(r"gradproof: not enough memory: .*; choose smaller sizes\n", outcome.stderr)
    assert not Path("runs").exists()


def test_output_that_cannot_be_written_is_told_in_one_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    words = [sys.executable, "-m", "gradproof", "train", *NANO, "--steps", "2", "--no-save", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "gradproof: the output cannot be written: No space left on device"


@pytest.mark.parametrize("words", [(*NANO, "--steps", "2", "--no-save"), ("--data", "none.txt")])
def test_a_log_that_cannot_be_written_is_bad_input_and_no_divergence(words: tuple[str, ...]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    with Path("/dev/full").open("w") as full:
        words = (sys.executable, "-m", "gradproof", "train", *words)
        assert subprocess.run(words, stdout=subprocess.DEVNULL, stderr=full, check=False).returncode == 2


def test_an_error_brings_no_control_characters_to_a_terminal() -> None:
    outcome = said("train", "--data", "a\x1b[31mb")
    assert (outcome.exit_code, "gradproof: a\\x1b[31mb: there is no such file" in outcome.stderr) == (2, True)


def test_an_engine_that_is_not_installed_is_refused_before_its_kernels_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradproof.training.model.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    for module in [name for name in sys.modules if name.startswith("generated.torch")]:
        monkeypatch.delitem(sys.modules, module)
    kernel.cache_clear()
    outcome = said("train", *NANO, *ALONE, "--steps", "2", "--engine", "torch")
    assert (outcome.exit_code, Path("runs").exists()) == (2, False)
    assert outcome.stderr.startswith("gradproof: engine = 'torch' needs PyTorch, which is not installed; pip install")


def test_resume_begins_a_run_where_there_is_none_yet() -> None:
    trained("--resume", "--steps", "3")
    assert checkpoint_in(Path("runs/001"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--resume", "nowhere"), "nowhere: there is no checkpoint here"),
        (("--resume", "run", "-o", "other"), "name two folders"),
        (("--resume", ""), "--resume: expected a folder, found an empty text"),
        (("-o", ""), "expected a path, found an empty text; name one, or leave the option out"),
        (("--data", ""), "expected a path, found an empty text"),
        (("--plot", ""), "expected a path, found an empty text"),
        (("--config", ""), "expected a path, found an empty text"),
        (
            ("--data", "texts", "--plot", "texts/two.svg"),
            "texts, whose text it would be part of when the run goes on; choose another, or draw a .png",
        ),
        (("--data", "bin", "--unit", "bytes"), "or name a single file, which --unit bytes takes whatever it is"),
        (("--resume", "run", "--width", "16"), "run: width: the run was begun with 8, found 16"),
        (("--resume", "run", "--steps", "9"), "run: steps: the run has done 30 steps, found 9"),
        (("--resume", "run", "--seed", "9"), "run: seed: the run was begun with 0, found 9"),
        (("--resume", "run", "--preset", "nano"), "run: "),
        (("--resume", "run", "--set", "optimiser.clip=0.5"), "run: clip: the run was begun with 1.0, found 0.5"),
        (("--resume", "run", "--unit", "bytes"), "run: the run was begun with characters, found --unit bytes"),
        (("--resume", "run", "--data", "other.txt"), "the text is not the one that the run began with"),
        (("--resume", "run", "--process", "markov"), "the text is not the one that the run began with"),
        (("--resume", "damaged"), "damaged/step-00000030.safetensors: is damaged"),
        (("--no-save", "-o", "other"), "--no-save keeps nothing"),
        (("--no-save", "--plot", "loss.png"), "--plot draws what a run leaves"),
        (("--plot", "nowhere/loss.png"), "nowhere/loss.png: expected a folder to draw into"),
        (("--plot", "loss.gif"), "loss.gif: expected a name that ends in .png or .svg"),
        (("--data", "none.txt"), "none.txt: there is no such file"),
        (("--data", "other.txt", "--context", "900"), "a context of 900 needs at least"),
        (("--process", "coin"), "expected a process, markov or copy"),
        (("--data", "other.txt", "--process", "markov"), "found both"),
        (("--width", "10", "--heads", "3"), "width is 10 and heads is 3"),
        (("--learning-rate", "nan"), "learning_rate must be positive and finite"),
        (("--preset", "huge"), "expected a preset, nano, tiny, small, found 'huge'"),
        (("--preset", "nano", "--config", "some.toml"), "--preset and --config both"),
        (("--config", "none.toml"), "none.toml"),
        (("--set", "model.depth=3"), "[model] has no setting depth"),
        (("--set", "run.steps=many", "--steps", "3"), "steps must be a whole number, found 'many'"),
        (("--set", "model.width=0", "--set", "model.width=8"), "width must be at least 1, found 0"),
        (("--set", "layers=3"), "expected TABLE.NAME=VALUE"),
        (("--set", "model.layers=2\nmodel.heads=3"), "expected one value"),
        (("--set", f"optimiser.eps={'9' * 400}"), "eps must be a number, found 9999"),
        (("--set", f"optimiser.eps={'9' * 5000}"), "eps must be a number, found '9999"),
        (("--set", f"model.expansion={10**20}"), "expansion must be at most 1,000,000,000"),
        (("--width", "99999999999998"), "width must be at most 1,000,000,000"),
        (("--batch", f"{10**20}"), "batch must be at most 1,000,000,000"),
        (("--dtype", "bfloat16"), "dtype = 'bfloat16' needs engine = 'torch'"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(
    words: tuple[str, ...], message: str, workplace: Path, made_before: Path
) -> None:
    Path("other.txt").write_text("abc" * 200)
    for name, content in (("bin", "\0"), ("texts", TEXT)):
        Path(name).mkdir()
        Path(name, "file").write_text(content)
    for name in ("run", "damaged"):
        shutil.copytree(made_before, name)
    Path("damaged", "step-00000030.safetensors").write_bytes(b"")
    before = {path: path.read_bytes() for path in workplace.rglob("*") if path.is_file()}
    outcome = said("train", *words)
    assert outcome.exit_code == 2, outcome.output
    assert message in " ".join(outcome.stderr.split())
    assert "Traceback" not in outcome.stderr
    after = {path: path.read_bytes() for path in workplace.rglob("*") if path.is_file()}
    assert after == before
    assert not Path("runs").exists()


def test_settings_come_from_preset_or_file_then_single_ones_then_options() -> None:
    Path("own.toml").write_text(
        '[model]\nlayers = 1\nheads = 1\nwidth = 12\ncontext = 6\nnorm = "rms"\n[run]\nbatch = 3\n'
    )
    words = ("--config", "own.toml", "--set", "model.activation=swiglu", "--set", "model.width=16", "--width", "20")
    together = ("--set", "model.heads=5")  # possible with a width of 20 only
    assert said("train", *words, *together, "--steps", "2", "--data", "text.txt").exit_code == 0
    config = load(Path("runs/001")).config
    assert (config.norm, config.activation, config.width, config.batch, config.steps) == ("rms", "swiglu", 20, 3, 2)
    assert config.heads == 5


def test_assigned_values_are_toml_or_words() -> None:
    assert table_of("model.norm=rms") == {"model": {"norm": "rms"}}
    assert table_of('model.norm = "rms"') == {"model": {"norm": "rms"}}
    assert table_of("model.tied=true") == {"model": {"tied": True}}
    assert table_of("run.time_limit_s=inf") == {"run": {"time_limit_s": float("inf")}}


def test_notes_are_told_beside_json_and_kept_in_the_report() -> None:
    Path("texts").mkdir()
    Path("texts/one.txt").write_text(TEXT)
    Path("texts/two.bin").write_bytes(b"\0")
    outcome = said("train", *NANO[:-1], "texts", *ALONE, "--steps", "2", "-o", "mine", "--json")
    json.loads(outcome.stdout)
    told = "1 text files read, 1 left out: empty or not UTF-8 text"
    assert f"note: {told}\n" in outcome.stderr
    assert "note: the run is in mine" in outcome.stderr
    notes = json.loads(Path("mine/report.json").read_text())["notes"]
    assert notes[0] == told
    assert len(notes) >= 2, "how many held-out windows also stand in the training text"
    metrics = Path("mine/metrics.jsonl")
    metrics.write_bytes(metrics.read_bytes().replace(b"loss", b"l\xffss", 1))
    outcome = said("train", "--resume", "mine", "--steps", "3")
    assert "note: mine/metrics.jsonl: damaged in line 1, which is left out" in outcome.stdout


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_result_is_printed_though_its_files_cannot_be_left(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(plotting, "draw_losses", full)
    outcome = said("train", *NANO, *ALONE, "--steps", "2", "-o", "mine", *more)
    assert outcome.exit_code == 2
    assert "gradproof: mine/loss.svg: No space left on device" in outcome.stderr
    assert "heldout_loss" in outcome.stdout if more else "held-out loss" in outcome.stdout
    assert json.loads(Path("mine/report.json").read_text())["steps"] == 2


def test_a_picture_that_cannot_be_written_is_refused_before_training() -> None:
    pytest.importorskip("matplotlib")
    if not Path("/proc/self").exists():
        pytest.skip("needs a folder in which nobody can write")
    outcome = said("train", *NANO, *ALONE, "--steps", "2", "--plot", "/proc/loss.svg")
    assert (outcome.exit_code, outcome.stdout, Path("runs").exists()) == (2, "", False)
    assert "/proc/loss.svg: expected a folder that can be written to" in outcome.stderr


def test_a_run_that_cannot_begin_leaves_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: Any, **__: Any) -> None:
        raise KernelMissingError("kernel adamw: none")

    monkeypatch.setattr("gradproof.training.loop.check_kernels", without)
    for place in ((), ("-o", "mine")):
        assert said("train", *NANO, *ALONE, "--steps", "2", *place).exit_code == 2
    assert not Path("runs").exists()
    assert not Path("mine").exists()


def test_a_signal_while_a_run_is_evaluated_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = loop.sample_text

    def late(*arguments: Any) -> str:
        text = genuine(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return text

    monkeypatch.setattr(loop, "sample_text", late)
    outcome = said("train", *NANO, *ALONE, "--steps", "2", "-o", "mine")
    assert (outcome.exit_code, outcome.stdout) == (143, "")
    assert "interrupted after step 2 of 2; saved in mine" in outcome.stderr
    assert "train: done in" in outcome.stderr, "the evaluation had begun"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_last_step_that_diverges_is_no_result(more: tuple[str, ...]) -> None:
    large = ("--steps", "1", "--learning-rate", "1e30")
    outcome = said("train", *NANO, *ALONE, *large, "-o", "mine", *more)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "after step 1 of 1: expected a finite held-out loss" in outcome.stderr
    outcome = said("sample", "mine")
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("gradproof: after token 1: expected finite logits to draw the next from")


def test_divergence_has_an_exit_code_of_its_own() -> None:
    outcome = said("train", *NANO, *ALONE, "--steps", "9", "--learning-rate", "1e30", "--set", "optimiser.clip=0")
    assert outcome.exit_code == 1
    assert re.search(r"step \d of 9: expected a finite loss and gradient, .* kernel \w+ at", outcome.stderr)
    assert "Warning" not in outcome.stderr


def test_profile_shows_the_time_of_each_kernel() -> None:
    outcome = trained("--steps", "2", "--no-save", "--profile")
    assert "of the GEMM limit" in outcome.stdout
    assert re.search(r"^self_attention +backward +2 ", outcome.stdout, re.MULTILINE)


# ---------------------------------------------------------------------------------------------------------------------
# The picture


def test_losses_are_drawn_with_the_entropies_as_lines() -> None:
    pytest.importorskip("matplotlib")
    trained("--steps", "12", "--evaluate-every", "4", "-o", "here")
    drawn = Path("here/loss.svg").read_text()
    for label in ("training loss", "held-out loss", "held-out bigram entropy", "xz, after the training text", "step"):
        assert label in drawn
    Path("folder.svg").mkdir()
    outcome = said("train", *NANO, *ALONE, "--steps", "2", "-o", "there", "--plot", "folder.svg")
    assert (outcome.exit_code, Path("there").exists()) == (2, False)
    assert "folder.svg: expected the name of a file to draw into, found a folder" in outcome.stderr
    trained("--steps", "2", "--plot", "loss.png")
    assert Path("loss.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_run_says_so_and_one_that_asks_for_a_picture_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    assert "note: the loss is not drawn, since matplotlib is not installed" in trained("--steps", "2").stdout
    outcome = said("train", *NANO, *ALONE, "--steps", "2", "--plot", "loss.png")
    assert outcome.exit_code == 2
    assert "pip install 'gradproof[plot]'" in outcome.stderr
    assert not Path("runs/002").exists()


# ---------------------------------------------------------------------------------------------------------------------
# A process of its own


def test_ctrl_c_saves_and_the_run_goes_on() -> None:
    words = [sys.executable, "-m", "gradproof.training", *NANO, "--steps", "100000", "-o", "here"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        while not checkpoint_in(Path("here")) or load(Path("here")).step == 0:
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        complaint = running.stderr.read()
    assert running.returncode == 130
    step = load(Path("here")).step
    assert f"interrupted after step {step} of 100000; saved in here; go on with" in complaint
    assert [line["step"] for line in read_metrics(Path("here")) if "loss" in line] == list(range(1, step + 1))
    assert said("train", "--resume", "here", "--steps", str(step + 2)).exit_code == 0


def test_ctrl_c_that_also_ends_the_reader_of_a_pipe_saves() -> None:
    """As with `gradproof train 2>&1 | tee log`: each step is told, and nobody is there any more to be told."""
    slow = ("--width", "128", "--batch", "1024", "--steps", "10")
    words = [sys.executable, "-m", "gradproof.training", *NANO, *ALONE, *slow, "-o", "here"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"train: 1 of 10")
        time.sleep(0.05)  # so that the next step has begun, which takes longer
        running.stdout.close()
        running.send_signal(signal.SIGINT)
    assert running.returncode == 130
    step = load(Path("here")).step
    assert step > 0
    assert [line["step"] for line in read_metrics(Path("here")) if "loss" in line] == list(range(1, step + 1))


def on_terminal(columns: int, *words: str) -> str:
    """What the command shows on a terminal of the operating system's own making."""
    reader, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    words = (sys.executable, "-m", "gradproof", *words)
    with subprocess.Popen(words, stdout=terminal, stderr=terminal, env=environment) as running:
        os.close(terminal)
        pieces = []
        try:
            while piece := os.read(reader, 65536):
                pieces.append(piece)
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(reader)
    assert running.returncode == 0
    return b"".join(pieces).decode()


def test_on_a_terminal_progress_is_live_and_samples_are_shown() -> None:
    shown = on_terminal(150, "train", *NANO, "--steps", "30", "--sample-every", "10")
    for part in ("30/30", "tokens/s", "sample after 10 steps", "sample after 20 steps", "held-out loss"):
        assert part in shown
    assert "\x1b[" in shown


@pytest.mark.parametrize("columns", [0, 5, 40])
def test_no_number_is_cut_off_on_a_narrow_terminal(columns: int) -> None:
    shown = on_terminal(columns, "train", *NANO, *ALONE, "--steps", "2", "--no-save", "--profile")
    shares = [float(share) for share in re.findall(r" ([0-9.]+)%", shown) if "." in share]
    assert "held-out loss" in shown
    assert sum(shares[-14:]) == pytest.approx(100, abs=1)


# ---------------------------------------------------------------------------------------------------------------------
# sample


def test_text_goes_on_from_the_prompt_and_repeats_with_the_seed(model: str) -> None:
    def written(*words: str, at: str = model) -> str:
        outcome = said("sample", at, "--prompt", "the ", *words)
        assert (outcome.exit_code, outcome.stderr) == (0, "")
        assert outcome.stdout.startswith("the ")
        assert set(outcome.stdout) <= set(TEXT)
        return outcome.stdout

    assert len(written()) == len("the ") + 500 + 1
    first, again, other = (written("--length", "60", "--seed", seed) for seed in ("1", "1", "2"))
    assert len(first) == len("the ") + 60 + 1
    assert first == again != other
    assert written("--length", "60", "--seed", "1", at=f"{model}/{CHECKPOINT}") == first
    assert written("--length", "60", "--seed", "1", "--no-cache") == first


def test_a_sample_as_json_and_its_probability_in_two_ways(model: str) -> None:
    words = ("sample", model, "--length", "40", "--temperature", "0.8", "--top-k", "9", "--top-p", "0.9")
    plain, as_json = said(*words), said(*words, "--json", "--check")
    report = json.loads(as_json.stdout)
    assert f"{report['text']}\n" == plain.stdout
    assert (report["prompt"], report["tokens"]) == ("", 40)
    assert as_json.exit_code == 0
    sums = [float(found) for found in re.findall(r"(-\d+\.\d+) (?:as|computed)", as_json.stderr)]
    assert sums == pytest.approx([report["log_probability"]] * 2, abs=1e-3)


def test_a_prompt_is_utf_8_where_the_locale_is_not() -> None:
    Path("text.txt").write_text(TEXT.replace("o", "é"), encoding="utf-8")
    trained("--steps", "2", "-o", "model")
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-m", "gradproof", "sample", "model", "--prompt", "é", "--length", "3", "--json"]
    outcome = subprocess.run(words, env=plain, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert json.loads(outcome.stdout)["prompt"] == "é"


def test_check_fails_if_the_two_ways_disagree(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradproof.training.sampling.conditionals_of", lambda *_: [0.5] * 20)
    assert said("sample", model, "--length", "20", "--check").exit_code == 1


def test_the_likeliest_token_does_not_depend_on_the_seed(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where several are the likeliest."""
    genuine = Model.logits
    monkeypatch.setattr(Model, "logits", lambda *words: np.round(genuine(*words) / 4))
    words = ("sample", model, "--temperature", "0", "--length", "30", "--seed")
    assert said(*words, "1").stdout == said(*words, "2").stdout != ""


def test_a_model_of_bytes_writes_bytes() -> None:
    Path("text.txt").write_text("naïve 数学\n" * 30)
    trained("--steps", "3", "--unit", "bytes", "-o", "model")
    assert said("sample", "model", "--prompt", "數", "--length", "9").stdout.startswith("數")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "nowhere: there is no checkpoint here"),
        (("model", "--prompt", "Ü"), "found 'Ü', which does not occur in it"),
        (("model", "--temperature", "-1"), "temperature must be 0, or at least"),
        (("model", "--top-p", "0"), "top_p must be above 0"),
        (("model", "--top-k", "-1"), "not in the range"),
        (("model", "--length", "0"), "not in the range"),
    ],
)
def test_sample_that_is_refused(words: tuple[str, ...], message: str, model: str) -> None:
    outcome = said("sample", *words)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert outcome.stdout == ""


def test_weights_that_were_damaged_are_refused_by_name(model: str) -> None:
    (file,) = Path(model).glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    outcome = said("sample", model)
    assert outcome.exit_code == 2
    assert f"{file}: is damaged: its SHA-256 is not the one in checkpoint.json" in outcome.stderr


# ---------------------------------------------------------------------------------------------------------------------
# The document


def test_document_lists_every_setting_with_its_table_and_default() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\w+) \| `(\w+)` \| (\S+) \|", text, re.MULTILINE)
    values = TrainingConfig().as_dict()
    spelled = {True: "true", False: "false"}
    assert listed == [
        (table, name, spelled[value] if isinstance(value, bool) else json.dumps(value))
        for table, settings in values.items()
        for name, value in settings.items()
    ]


def test_document_states_the_constants_of_the_kernels() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    stated = re.findall(r"layer norm: .* ([\de-]+)\) gamma \+ beta;\s+RMS norm: .* ([\de-]+)\) gamma\.", text)
    stated += re.findall(r"clip / \(norm \+ ([\de-]+)\)", text) + re.findall(r"angle t (\d+)\^", text)
    names = ["layer_norm", "rms_norm", "gradient_clipping", "self_attention_rotary"]
    requests = {program.name: program.request for program in load_programs(names)}
    defaults = [value for name in names for value in getattr(requests[name], "defaults", {}).values()]
    assert [*map(float, (*stated[0], *stated[1:]))] == [*map(float, defaults)]


def test_document_says_where_a_run_begins() -> None:
    """The weights of a run that has taken no step are those that docs/training.md gives for a comparison."""
    config = TrainingConfig(layers=1, width=8, context=6, batch=2, seed=3)
    with pytest.raises(Interrupted):
        train(config, TEXT, folder=Path("run"), stop=lambda: signal.SIGTERM)
    vocabulary = corpus_from(TEXT, config.context).vocabulary.size
    first = create_model(config, vocabulary, np.random.SeedSequence(config.seed, spawn_key=(0,))).state()
    saved = load(Path("run")).weights
    assert {name: values.tobytes() for name, values in saved.items()} == {
        name: values.tobytes() for name, values in first.items()
    }


def test_document_names_options_that_exist() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    known = {option for command in ("train", "sample", "prove") for option in main.commands[command].params}
    names = {name for option in known for name in option.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - names == {"--nproc-per-node"}


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_run_does_not_need_the_streams_that_were_closed(closed: str) -> None:
    words = " ".join([*NANO, "--steps", "2", "-o", "model"])
    command = f"{sys.executable} -m gradproof train {words} {closed}"
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0
    assert load(Path("model")).step == 2

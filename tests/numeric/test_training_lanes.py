"""Processes that compute parts of a batch: the bits of threads, and what happens when one of them, or ours, ends."""

from __future__ import annotations

import gc
import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradproof.training import lanes, train
from gradproof.training.checkpoint import load
from gradproof.training.config import TrainingConfig
from gradproof.training.errors import LaneError
from gradproof.training.model import create_model
from gradproof.training.optimiser import AdamW
from gradproof.training.reports import StepReport

PLAIN = "GRADPROOF_TESTS_WITHOUT_TORCH"  # set for what is started here: it takes longer to import than to run
torch = importlib.import_module("torch") if importlib.util.find_spec("torch") and PLAIN not in os.environ else None

ENGINES = [
    "numpy",
    pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="torch, optional, is not installed")),
]
VOCABULARY = 11
TEXT = "the quick brown fox jumps over the lazy dog\n" * 12
CONFIG = TrainingConfig(
    layers=2, heads=2, width=12, context=7, batch=6, micro_batches=6, threads=2, dropout=0.2, clip=0.5
)

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memory that processes can share")


def batch_of(config: TrainingConfig, step: int) -> tuple[Any, Any]:
    ids = np.random.default_rng(step).integers(0, VOCABULARY, (config.batch, config.context + 1))
    return ids[:, :-1], ids[:, 1:]


def trained(config: TrainingConfig, steps: int = 3) -> tuple[Any, list[float]]:
    """A model after a few steps, and their losses."""
    model = create_model(config, VOCABULARY)
    optimiser = AdamW(model)
    losses = []
    for step in range(1, steps + 1):
        losses.append(model.loss_and_gradients(*batch_of(config, step), step))
        optimiser.update(step, 1e-2)
    return model, losses


def processes_of(model: Any) -> list[subprocess.Popen[bytes]]:
    found: list[subprocess.Popen[bytes]] = model._crew._processes
    return found


def ends(process_id: int) -> bool:
    """Whether the process is gone, or will be within seconds."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


HERE = Path(__file__).parent
WITH_TESTS = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]), PLAIN: "1"}


def in_python(words: list[str]) -> str:
    """What Python prints."""
    done = subprocess.run([sys.executable, *words], env=WITH_TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_processes_give_the_bits_of_threads(engine: Any, dtype: Any) -> None:
    config = replace(CONFIG, engine=engine, dtype=dtype, threads=3)
    apart, losses = trained(config)
    assert len(processes_of(apart)) == 2
    together, same = trained(replace(config, processes=False))
    assert losses == same
    for name, value in together.state().items():
        np.testing.assert_array_equal(apart.state()[name], value, err_msg=name)


@pytest.mark.skipif(torch is None, reason="torch, optional, is not installed")
def test_weights_beside_bfloat16_are_shared_in_float32() -> None:
    config = replace(CONFIG, engine="torch", dtype="bfloat16")
    assert trained(config)[1] == trained(replace(config, processes=False))[1]


def refusing(*arguments: Any, **options: Any) -> Any:
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize(
    ("where", "what", "put"),
    [
        (os, "memfd_create", None),
        (os, "memfd_create", refusing),
        (sys, "executable", ""),
        (sys, "executable", "/nowhere/python"),
        (subprocess, "Popen", refusing),
    ],
)
def test_a_system_that_refuses_computes_on_threads(
    where: Any, what: str, put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = trained(replace(CONFIG, processes=False))[1]
    if put is None:
        monkeypatch.delattr(where, what)
    else:
        monkeypatch.setattr(where, what, put)
    model, losses = trained(CONFIG)
    assert model._crew is None
    assert losses == expected


@pytest.mark.skipif(torch is None, reason="torch, optional, is not installed")
def test_other_products_than_pytorch_begins_with_stay_in_one_process() -> None:
    config = replace(CONFIG, engine="torch")
    torch.set_float32_matmul_precision("medium")
    try:
        assert trained(config, steps=1)[0]._crew is None
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_model_that_does_not_train_starts_none() -> None:
    model: Any = create_model(CONFIG, VOCABULARY)
    model.loss(*batch_of(CONFIG, 1))
    assert processes_of(model) == []


def test_shares_of_a_small_batch_wake_no_more_lanes_than_there_are() -> None:
    config = CONFIG
    model: Any = create_model(config, VOCABULARY)
    tokens, targets = batch_of(config, 1)
    whole = model.loss_and_gradients(tokens[:1], targets[:1], 1)
    gradients = {name: value.copy() for name, value in model.gradients.items()}
    alone: Any = create_model(replace(config, threads=1), VOCABULARY)
    assert alone.loss_and_gradients(tokens[:1], targets[:1], 1) == whole
    for name, value in alone.gradients.items():
        np.testing.assert_array_equal(gradients[name], value)


def test_processes_end_with_their_model() -> None:
    model, _ = trained(CONFIG, steps=1)
    started = [process.pid for process in processes_of(model)]
    del model
    gc.collect()
    assert all(map(ends, started))


def test_a_process_that_was_killed_is_an_error_that_says_so() -> None:
    model, _ = trained(CONFIG, steps=1)
    processes_of(model)[-1].kill()
    with pytest.raises(LaneError, match=r"has ended, killed by signal 9; try again, or let threads of one process"):
        model.loss_and_gradients(*batch_of(CONFIG, 2), 2)
    # What was computed is dropped, and new processes are started for the next step.
    again, _ = trained(CONFIG, steps=1)
    expected = again.loss_and_gradients(*batch_of(CONFIG, 2), 2)
    assert model.loss_and_gradients(*batch_of(CONFIG, 2), 2) == expected


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_left_to_the_one_that_saves(how: signal.Signals) -> None:
    model, _ = trained(CONFIG, steps=1)
    for process in processes_of(model):
        process.send_signal(how)
    model.loss_and_gradients(*batch_of(CONFIG, 2), 2)


def test_a_run_whose_process_is_killed_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(CONFIG, steps=9, checkpoint_every=100, evaluate_every=0, sample_every=0)
    started: list[subprocess.Popen[bytes]] = []
    genuine = lanes._interpreter

    def noted(descriptor: int) -> subprocess.Popen[bytes]:
        started.append(genuine(descriptor))
        return started[-1]

    def tell(event: Any) -> None:
        if isinstance(event, StepReport) and event.step == 4:
            started[-1].kill()

    monkeypatch.setattr(lanes, "_interpreter", noted)
    with pytest.raises(LaneError, match=r"after step 4 of 9: a process .* signal 9; .*; saved in .* --resume"):
        train(config, TEXT, folder=tmp_path, tell=tell)
    saved = load(tmp_path)
    assert saved.step == 4
    resumed = train(config, TEXT, folder=tmp_path, resume=saved)
    assert resumed.train_loss == train(replace(config, processes=False), TEXT).train_loss


@pytest.mark.parametrize("row", [0, 1])
def test_a_batch_is_refused_in_the_same_words_whoever_sees_it(row: int) -> None:
    model, _ = trained(CONFIG, steps=1)
    tokens, targets = batch_of(CONFIG, 2)
    tokens = tokens.copy()
    tokens[row] = VOCABULARY  # a row is a part: row 0 is the first lane's, row 1 another's
    with pytest.raises(ValueError, match=r"token_embedding_forward: tokens?: expected"):
        model.loss_and_gradients(tokens, targets, 2)
    with pytest.raises(ValueError, match="expected"):
        model.loss_and_gradients(tokens[:, :-1], targets, 2)
    with pytest.raises(ValueError, match="expected"):
        model.loss_and_gradients(*[ids[: 4 - place] for place, ids in enumerate(batch_of(CONFIG, 2))], 2)


def test_what_fails_in_a_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = trained(CONFIG, steps=1)
    answers = iter([b'{"failed": "MemoryError()"}\n'])
    monkeypatch.setattr(processes_of(model)[0].stdout, "readline", lambda: next(answers), raising=False)
    with pytest.raises(LaneError, match=r"part of each batch failed: MemoryError\(\)"):
        model.loss_and_gradients(*batch_of(CONFIG, 2), 2)


@pytest.mark.parametrize("end", [b"", b"{"])
def test_who_is_asked_nothing_ends(end: bytes) -> None:
    answers = io.BytesIO()
    lanes.serve(io.BytesIO(end), answers)
    assert answers.getvalue() == b""


def test_whole_numbers_of_numpy_and_arrays_of_any_kind_are_taken() -> None:
    model: Any = create_model(CONFIG, np.int64(VOCABULARY))  # type: ignore[arg-type]
    tokens, targets = batch_of(CONFIG, 1)
    expected = model.loss_and_gradients(tokens, targets, 1)
    assert model.loss_and_gradients(tokens[:, ::-1].copy()[:, ::-1], targets.astype(np.int32), np.int64(1)) == expected


def test_two_threads_take_turns() -> None:
    model, _ = trained(CONFIG, steps=1)
    expected = model.loss_and_gradients(*batch_of(CONFIG, 2), 2)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: model.loss_and_gradients(*batch_of(CONFIG, 2), 2), range(8)))
    assert found == [expected] * 8


FORKED = """
import os, sys
from test_training_lanes import CONFIG, batch_of, processes_of, trained
model, _ = trained(CONFIG, steps=1)
before = model.weights.flat.copy()
child = os.fork()
if not child:
    own = processes_of(model)
    model.weights.flat[...] = 0  # this process's, and nobody else's
    model.loss_and_gradients(*batch_of(CONFIG, 3), 3)
    print(len(own), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print((model.weights.flat == before).all(), model.loss_and_gradients(*batch_of(CONFIG, 2), 2))
"""


def test_a_fork_has_a_model_and_processes_of_its_own() -> None:
    said = in_python(["-c", FORKED]).splitlines()
    model, _ = trained(CONFIG, steps=1)
    assert said == ["1", f"True {model.loss_and_gradients(*batch_of(CONFIG, 2), 2)}"]


ONE_STEP = "from test_training_lanes import CONFIG, trained; print(trained(CONFIG, steps=1)[1][0])"
MOVED = """
import os
from test_training_lanes import CONFIG, batch_of
from gradproof.training.model import create_model
model = create_model(CONFIG, 11)
os.chdir("/")
print(model.loss_and_gradients(*batch_of(CONFIG, 1), 1))
"""


@pytest.mark.parametrize(
    "words", [["-P", "-s", "-O", "-W", "error", "-c", ONE_STEP], ["-c", MOVED]], ids=["with flags", "after chdir"]
)
def test_however_python_was_started(words: list[str]) -> None:
    assert in_python(words).split() == [str(trained(CONFIG, steps=1)[1][0])]


@pytest.mark.parametrize("closed", ["<&-", "<&- 2>&-"])
def test_what_was_closed_is_not_where_weights_lie(closed: str) -> None:
    command = f"{sys.executable} -c '{ONE_STEP}' {closed}"
    done = subprocess.run(["sh", "-c", command], env=WITH_TESTS, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(trained(CONFIG, steps=1)[1][0])]


def test_an_interrupted_step_leaves_no_answers_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = trained(CONFIG, steps=1)
    share = model.share

    def interrupted(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "share", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.loss_and_gradients(*batch_of(CONFIG, 7), 7)
    monkeypatch.setattr(model, "share", share)
    again, _ = trained(CONFIG, steps=1)
    found = model.loss_and_gradients(*batch_of(CONFIG, 2), 2)
    assert found == again.loss_and_gradients(*batch_of(CONFIG, 2), 2)
    np.testing.assert_array_equal(model.slopes.flat, again.slopes.flat)


SCRIPT = """
import time
from test_training_lanes import CONFIG, processes_of, trained
model, _ = trained(CONFIG, steps=1)
print(*(process.pid for process in processes_of(model)), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_processes_end_when_the_one_that_started_them_does(how: signal.Signals, tmp_path: Path) -> None:
    """Also a script without a guard against being imported, beside files that are called like Python's own modules."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for name in ("nt", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("print('not asked for')\n")
    run = subprocess.Popen(
        [sys.executable, str(script)], env=WITH_TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with run:
        assert run.stdout is not None
        started = [int(word) for word in run.stdout.readline().split()]
        assert len(started) == 1
        run.send_signal(how)
    assert all(map(ends, started))


def test_what_overflows_in_a_process_is_seen_in_the_loss_alone(capfd: pytest.CaptureFixture[str]) -> None:
    model: Any = create_model(CONFIG, VOCABULARY)
    model.parameters["layers.0.attention.gamma"][...] = 1e30
    with np.errstate(all="ignore"):
        loss = model.loss_and_gradients(*batch_of(CONFIG, 1), 1)
    assert not np.isfinite(loss)
    assert capfd.readouterr().err == ""

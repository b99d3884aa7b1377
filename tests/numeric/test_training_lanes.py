"""Processes that compute parts of a batch: the bits of threads, and what happens when one of them, or ours, ends."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradproof.training import lanes
from gradproof.training.config import TrainingConfig
from gradproof.training.errors import LaneError
from gradproof.training.model import create_model
from gradproof.training.optimiser import AdamW

try:
    import torch
except ImportError:
    torch = None

ENGINES = [
    "numpy",
    pytest.param("torch", marks=pytest.mark.skipif(torch is None, reason="torch, optional, is not installed")),
]
VOCABULARY = 11
CONFIG = TrainingConfig(
    layers=2, heads=2, width=12, context=7, batch=6, micro_batches=6, threads=3, dropout=0.2, clip=0.5
)

pytestmark = pytest.mark.skipif(not lanes.can_be_processes(), reason="needs memory that processes can share")


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


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_processes_give_the_bits_of_threads(engine: Any, dtype: Any) -> None:
    config = replace(CONFIG, engine=engine, dtype=dtype)
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


def test_a_system_without_shared_memory_computes_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(CONFIG)[1]
    monkeypatch.delattr(os, "memfd_create")
    model, losses = trained(CONFIG)
    assert model._crew is None
    assert losses == expected


def test_a_model_that_does_not_train_starts_none() -> None:
    model: Any = create_model(CONFIG, VOCABULARY)
    model.loss(*batch_of(CONFIG, 1))
    assert processes_of(model) == []


def test_shares_of_a_small_batch_wake_no_more_lanes_than_there_are() -> None:
    config = replace(CONFIG, threads=2)
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


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_was_killed_is_an_error_that_says_so(how: signal.Signals) -> None:
    model, _ = trained(CONFIG, steps=1)
    processes_of(model)[1].send_signal(how)
    processes_of(model)[1].wait()
    with pytest.raises(LaneError, match=f"has ended, killed by signal {how.value}; go on with --resume, or let"):
        model.loss_and_gradients(*batch_of(CONFIG, 2), 2)
    # What was computed is dropped, and new processes are started for the next step.
    again, _ = trained(CONFIG, steps=1)
    expected = again.loss_and_gradients(*batch_of(CONFIG, 2), 2)
    assert model.loss_and_gradients(*batch_of(CONFIG, 2), 2) == expected


def test_what_fails_in_a_process_is_told() -> None:
    model, _ = trained(CONFIG, steps=1)
    tokens, targets = batch_of(CONFIG, 2)
    tokens = tokens.copy()
    tokens[1] = VOCABULARY  # row 1 is the second lane's
    with pytest.raises(LaneError, match=r"failed: ValueError\(.*expected"):
        model.loss_and_gradients(tokens, targets, 2)


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
import os, sys, time
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[1]))))
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
    here = Path(__file__).parent
    run = subprocess.Popen(
        [sys.executable, str(script), str(here / "x")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with run:
        assert run.stdout is not None
        started = [int(word) for word in run.stdout.readline().split()]
        assert len(started) == 2
        run.send_signal(how)
    assert all(map(ends, started))


def test_what_overflows_in_a_process_is_seen_in_the_loss_alone(capfd: pytest.CaptureFixture[str]) -> None:
    model: Any = create_model(CONFIG, VOCABULARY)
    model.parameters["layers.0.attention.gamma"][...] = 1e30
    with np.errstate(all="ignore"):
        loss = model.loss_and_gradients(*batch_of(CONFIG, 1), 1)
    assert not np.isfinite(loss)
    assert capfd.readouterr().err == ""

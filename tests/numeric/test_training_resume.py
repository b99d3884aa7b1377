"""A run that is stopped, in whatever way and at whatever moment, and goes on as if it had not been."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradproof.training import Interrupted, StepReport, TrainingConfig, TrainingResult, loop, sampling, train
from gradproof.training.checkpoint import checkpoint_in, load
from gradproof.training.folder import CHECKPOINT, METRICS
from gradproof.training.interruption import interruptions
from gradproof.training.metrics import read_metrics
from gradproof.training.reports import Event

TEXT = "the quick brown fox jumps over the lazy dog\n" * 12
NANO = TrainingConfig(
    layers=1, width=8, context=6, batch=2, processes=False, steps=40, dropout=0.1, checkpoint_every=7,
    evaluate_every=10, sample_every=15, sample_length=9, evaluation_windows=4,
)  # fmt: skip
KILLS = int(os.environ.get("GRADPROOF_KILLS", "20"))
TIMES = ("elapsed_s", "tokens_per_s")


class Cut(BaseException):
    """Ends a run at once, as a fault in the machine would."""


def weights_in(folder: Path) -> dict[str, bytes]:
    """Every tensor of the checkpoint, the optimiser's as well, bit for bit."""
    state = load(folder)
    tensors = {**state.weights, **{f"optimiser {name}": values for name, values in state.optimiser.items()}}
    return {name: values.tobytes() for name, values in tensors.items()}


def metrics_in(folder: Path) -> list[dict[str, Any]]:
    """The metrics, times aside."""
    return [{name: value for name, value in line.items() if name not in TIMES} for line in read_metrics(folder)]


def repeatable(result: TrainingResult) -> TrainingResult:
    return replace(result, tokens_per_s=0.0)


def begin_or_resume(folder: Path, config: TrainingConfig = NANO, **options: Any) -> TrainingResult:
    state = load(folder) if checkpoint_in(folder) else None
    return train(config, TEXT, folder=folder, resume=state, **options)


def cutting_at(step: int) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        if isinstance(event, StepReport) and event.step == step:
            raise Cut

    return tell


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingResult]:
    """A run that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(NANO, TEXT, folder=folder)


def test_what_a_run_leaves_does_not_change_it(whole: tuple[Path, TrainingResult]) -> None:
    assert repeatable(train(NANO, TEXT)) == repeatable(whole[1])


def test_the_same_seed_leaves_the_same_bytes(whole: tuple[Path, TrainingResult], tmp_path: Path) -> None:
    train(NANO, TEXT, folder=tmp_path)
    names = [{path.name for path in folder.iterdir()} for folder in (whole[0], tmp_path)]
    assert names[0] == names[1] == {".lock", CHECKPOINT, METRICS, "step-00000040.safetensors"}
    tensors = [(folder / "step-00000040.safetensors").read_bytes() for folder in (whole[0], tmp_path)]
    assert tensors[0] == tensors[1]
    assert metrics_in(whole[0]) == metrics_in(tmp_path)


@pytest.mark.parametrize("step", [1, 6, 7, 8, 20, 39, 40])
def test_resumed_run_ends_with_the_same_bits(step: int, whole: tuple[Path, TrainingResult], tmp_path: Path) -> None:
    with pytest.raises(Cut):
        train(NANO, TEXT, folder=tmp_path, tell=cutting_at(step))
    assert load(tmp_path).step == (step - 1) // 7 * 7, "the last checkpoint before the step"
    result = begin_or_resume(tmp_path)
    assert weights_in(tmp_path) == weights_in(whole[0])
    assert metrics_in(tmp_path) == metrics_in(whole[0])
    assert repeatable(result) == repeatable(whole[1])


def test_a_run_that_was_complete_reports_the_same_again(whole: tuple[Path, TrainingResult], tmp_path: Path) -> None:
    first = begin_or_resume(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    again = begin_or_resume(tmp_path)
    assert again == first, "the pace is that of the steps that were taken"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_more_steps_can_be_added(tmp_path: Path) -> None:
    begin_or_resume(tmp_path, replace(NANO, steps=10))
    assert begin_or_resume(tmp_path, replace(NANO, steps=15)).steps == 15
    assert load(tmp_path).config.steps == 15
    assert [line["step"] for line in read_metrics(tmp_path) if "loss" in line] == list(range(1, 16))


def test_a_time_limit_of_the_run_is_one_of_each_part(tmp_path: Path) -> None:
    limited = replace(NANO, time_limit_s=10.0)
    ticks = itertools.count()
    first = begin_or_resume(tmp_path, limited, clock=lambda: next(ticks) * 1.0)
    assert (first.steps, first.stopped_early) == (10, True)
    assert begin_or_resume(tmp_path, limited, clock=lambda: next(ticks) * 1.0).steps == 20


# ---------------------------------------------------------------------------------------------------------------------
# Signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_saves_and_ends(
    number: signal.Signals, code: int, whole: tuple[Path, TrainingResult], tmp_path: Path
) -> None:
    def tell(event: Event) -> None:
        if isinstance(event, StepReport) and event.step == 12:
            signal.raise_signal(number)

    with (
        interruptions() as stop,
        pytest.raises(Interrupted, match=r"interrupted after step 12 of 40; saved in .*--resume") as caught,
    ):
        train(NANO, TEXT, folder=tmp_path, tell=tell, stop=stop)
    assert caught.value.exit_code == code
    assert load(tmp_path).step == 12
    begin_or_resume(tmp_path)
    assert weights_in(tmp_path) == weights_in(whole[0])
    assert metrics_in(tmp_path) == metrics_in(whole[0])


@pytest.mark.parametrize("kind", ["StepReport", "HeldOutReport", "SampleReport"])
@pytest.mark.parametrize("asked", [None, signal.SIGINT])
def test_a_listener_that_fails_ends_the_run_saved(
    kind: str, asked: int | None, whole: tuple[Path, TrainingResult], tmp_path: Path
) -> None:
    """Ctrl-C also ends whoever reads what is told through a pipe; it must not cost the steps since the checkpoint."""

    def tell(event: Event) -> None:
        if type(event).__name__ == kind and getattr(event, "step", 0) == 30:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError if asked is None else Interrupted):
        train(NANO, TEXT, folder=tmp_path, tell=tell, stop=lambda: asked if in_metrics(tmp_path, 30) else None)
    assert load(tmp_path).step == 30
    begin_or_resume(tmp_path)
    assert weights_in(tmp_path) == weights_in(whole[0])
    assert metrics_in(tmp_path) == metrics_in(whole[0])


def in_metrics(folder: Path, step: int) -> bool:
    return any(line["step"] == step for line in read_metrics(folder))


@pytest.mark.parametrize("moment", ["FinalReport", "floor_of", "generate"])
def test_a_signal_during_the_final_evaluation_ends_the_run(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is saved by then: what has begun is not awaited, and the run reports when it is asked to go on."""

    def tell(event: Event) -> None:
        if type(event).__name__ == moment:
            signal.raise_signal(signal.SIGTERM)

    def signalled(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            signal.raise_signal(signal.SIGTERM)
            return genuine(*arguments, **keywords)

        return call

    short = replace(NANO, steps=3)
    with monkeypatch.context() as patch:
        if moment == "floor_of":
            patch.setattr(loop, "floor_of", signalled(loop.floor_of))
        if moment == "generate":
            patch.setattr(sampling, "generate", signalled(sampling.generate))
        with interruptions() as stop, pytest.raises(Interrupted, match="interrupted after step 3 of 3") as caught:
            train(short, TEXT, folder=tmp_path, tell=tell, stop=stop)
    assert caught.value.exit_code == 143
    assert repeatable(begin_or_resume(tmp_path, short)) == repeatable(train(short, TEXT))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process that a shell started in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_second_signal_ends_at_once_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interruptions() as stop:
        assert stop() is None
        signal.raise_signal(signal.SIGINT)
        assert stop() == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_signal_before_the_first_step_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match="interrupted after step 0 of 40"):
        train(NANO, TEXT, folder=tmp_path, stop=lambda: signal.SIGTERM)
    assert load(tmp_path).step == 0


# ---------------------------------------------------------------------------------------------------------------------
# A kill at every moment of writing, and at random ones


def interrupted_writes(monkeypatch: pytest.MonkeyPatch, survived: int) -> Callable[[], int]:
    """Let so many calls of the operating system that write pass, and none after; returns how many were made."""
    made = itertools.count()
    count = 0

    def guarded(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal count
            count = next(made) + 1
            if count > survived:
                raise Cut(name)
            return original(*arguments, **keywords)

        return call

    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, guarded(name, getattr(os, name)))
    monkeypatch.setattr(Path, "unlink", guarded("unlink", Path.unlink))
    monkeypatch.setattr(Path, "open", guarded("open", Path.open))
    return lambda: count


def test_kill_between_any_two_writes_leaves_the_old_state_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving takes a dozen calls of the operating system; the state is whole after each of them."""
    config = replace(NANO, steps=10, checkpoint_every=5)
    seen: set[int] = set()
    for survived in itertools.count():
        folder = tmp_path / str(survived)
        folder.mkdir()
        with pytest.raises(Cut):  # the checkpoint of step 5 is there
            train(config, TEXT, folder=folder, tell=cutting_at(6))
        with monkeypatch.context() as patch:
            made = interrupted_writes(patch, survived)
            with contextlib.suppress(Cut):
                begin_or_resume(folder, config)
            total = made()
        seen.add(load(folder).step)
        begin_or_resume(folder, config)
        assert load(folder).step == 10
        assert len(list(folder.glob("step-*"))) == 1, "no old tensors and no parts of files are left"
        if total <= survived:
            break
    assert survived >= 10
    assert seen == {5, 10}


@pytest.mark.parametrize("size", [0, 1, 100, 5000])
def test_a_part_of_a_file_that_a_kill_left_is_no_obstacle(size: int, tmp_path: Path) -> None:
    begin_or_resume(tmp_path, replace(NANO, steps=5))
    for name in (CHECKPOINT, METRICS, "step-00000010.safetensors"):
        (tmp_path / f"{name}.part").write_bytes(b"x" * size)
    begin_or_resume(tmp_path, replace(NANO, steps=10))
    assert load(tmp_path).step == 10


# Forks a process that trains, saving all the time, whenever it is told to; importing once saves a second for each.
TRAINER = """
import json, os, sys
from pathlib import Path
from gradproof.training import TrainingConfig, train
from gradproof.training.checkpoint import checkpoint_in, load

folder, text, config = Path(sys.argv[1]), sys.argv[2], TrainingConfig(**json.loads(sys.argv[3]))
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        train(config, text, folder=folder, resume=load(folder) if checkpoint_in(folder) else None)
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def train_until(step: int, folder: Path, config: TrainingConfig) -> None:
    """Begin the run in the folder, or go on with it, and end it after the step, as a signal does."""
    done = load(folder).step if checkpoint_in(folder) else 0

    def tell(event: Event) -> None:
        nonlocal done
        done = event.step if isinstance(event, StepReport) else done

    with pytest.raises(Interrupted, match=f"after step {step} of"):
        begin_or_resume(folder, config, tell=tell, stop=lambda: signal.SIGTERM if done == step else None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork and that can be killed")
def test_kills_at_random_moments(tmp_path: Path) -> None:
    """Killed again and again, the run loses at most the steps since its last checkpoint and has the bits of one step.

    The run is longer than any machine takes it: it is compared, a little after the last kill, with one that nothing
    stopped before. Machines differ in how far that is, not in how long it takes.
    """
    config = replace(NANO, processes=True, steps=10**9, warm_up=10, time_limit_s=math.inf, checkpoint_every=3)
    killed, free = tmp_path / "killed", tmp_path / "free"
    killed.mkdir()
    free.mkdir()
    words = [sys.executable, "-c", TRAINER, str(killed), TEXT, json.dumps(asdict(config))]
    generator = np.random.default_rng(0)
    longest = 0.2  # seconds from the fork to the kill; more where a machine gets nothing saved in most of that time
    steps = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdin is not None
        assert trainer.stdout is not None
        for _ in range(KILLS):
            print("go", file=trainer.stdin, flush=True)
            child = int(trainer.stdout.readline())
            moment = float(generator.uniform(0.0, longest))
            time.sleep(moment)
            os.kill(child, signal.SIGKILL)
            assert int(trainer.stdout.readline()) == signal.SIGKILL
            if checkpoint_in(killed):
                reached = max((line["step"] for line in read_metrics(killed)), default=0)
                steps.append(load(killed).step)
                assert steps[-1] >= reached - config.checkpoint_every
            gained = len(set(steps[-2:])) == 2
            longest *= 1.0 if gained or moment < longest / 2 else 1.3
        trainer.stdin.close()
    assert steps == sorted(steps)
    assert steps[-1] > 0
    last = steps[-1] + 2 * config.checkpoint_every
    often_enough = replace(config, checkpoint_every=config.steps)
    train_until(last, killed, often_enough)
    train_until(last, free, often_enough)
    assert load(free).step == last
    assert weights_in(killed) == weights_in(free)
    assert metrics_in(killed) == metrics_in(free)

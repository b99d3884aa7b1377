"""The torch engine beside the NumPy engine, several processes beside one, and what tells where a step goes wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradproof.training.chain import forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.diagnosis import first_affected
from gradproof.training.distributed import Group, process_group
from gradproof.training.engine_numpy import NumpyArrays
from gradproof.training.errors import ConfigurationError, LaneError, PeerError
from gradproof.training.model import Model, create_model
from gradproof.training.optimiser import AdamW, learning_rate_at
from gradproof.training.profile import profile

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch, which is optional, is not installed")

VOCABULARY = 11
PLAIN = TrainingConfig(
    layers=2, heads=3, width=12, context=7, batch=4, processes=False, dtype="float64", steps=5, warm_up=0
)
MODERN = replace(
    PLAIN, heads=2, key_value_heads=1, norm="rms", positions="rotary", activation="swiglu", dropout=0.2, tied=True
)
BOTH = pytest.mark.parametrize("config", [PLAIN, MODERN], ids=["plain", "all options"])


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    """Arrays this small are quicker on one thread."""
    before = torch.get_num_threads() if torch else 1
    if torch:
        torch.set_num_threads(1)
    yield
    if torch:
        torch.set_num_threads(before)


def batch_of(config: TrainingConfig, step: int) -> tuple[Any, Any]:
    ids = np.random.default_rng(step).integers(0, VOCABULARY, (config.batch, config.context + 1))
    return ids[:, :-1], ids[:, 1:]


def test_updates_on_several_threads_are_those_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumpyArrays, "block", 50)  # many blocks, the last of them short
    found = []
    for threads in (1, 3):
        model = create_model(replace(PLAIN, micro_batches=4, threads=threads), VOCABULARY)
        update = AdamW(model)
        for step in (1, 2):
            np.copyto(model.slopes.flat, np.random.default_rng(step).standard_normal(len(model.slopes.flat)))
            update.update(step, 0.1)
        found.append(model.weights.flat)
    np.testing.assert_array_equal(found[0], found[1])


def losses_of(model: Model, steps: int = 5) -> list[float]:
    optimiser = AdamW(model)
    losses = []
    for step in range(1, steps + 1):
        losses.append(model.loss_and_gradients(*batch_of(model.config, step), step))
        optimiser.update(step, learning_rate_at(step, model.config))
    return losses


# The torch engine. ----------------------------------------------------------------------------------------------------


@needs_torch
def test_the_norm_does_not_depend_on_the_threads_that_pytorch_has() -> None:
    """A vector that PyTorch would add up on all of them, by the number there are."""
    config = replace(PLAIN, engine="torch", heads=2, width=128, dtype="float32", micro_batches=2, threads=2)
    found = []
    for threads in (1, 5):
        torch.set_num_threads(threads)
        try:
            model = create_model(config, VOCABULARY)
            values = np.random.default_rng(0).standard_normal(len(model.slopes.flat))
            model.arrays.copy(model.slopes.flat, model.arrays.weights(values))
            norm = AdamW(model).update(1, 0.1)
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(1)
        found.append((norm, model.arrays.to_numpy(model.weights.flat).tobytes()))
    assert found[0] == found[1]


@needs_torch
@BOTH
def test_torch_trains_as_numpy_does(config: TrainingConfig) -> None:
    ours, theirs = create_model(config, VOCABULARY), create_model(replace(config, engine="torch"), VOCABULARY)
    np.testing.assert_allclose(losses_of(theirs), losses_of(ours), rtol=1e-12)
    for name, value in ours.state().items():
        np.testing.assert_allclose(theirs.state()[name], value, rtol=0, atol=1e-11, err_msg=name)
    tokens, targets = batch_of(config, 9)
    assert theirs.loss(tokens[:, :5], targets[:, :5]) == pytest.approx(
        ours.loss(tokens[:, :5], targets[:, :5]), rel=1e-12
    )
    cache = theirs.new_cache(4)
    found = [theirs.logits(part, cache) for part in (tokens[:, :3], tokens[:, 3:4], tokens[:, 4:])]
    np.testing.assert_allclose(np.concatenate(found, axis=1), ours.logits(tokens), rtol=1e-11, atol=1e-12)


@needs_torch
def test_state_passes_from_one_engine_to_the_other() -> None:
    first, second = create_model(replace(MODERN, engine="torch"), VOCABULARY), create_model(MODERN, VOCABULARY, 5)
    losses_of(first)
    second.load_state(first.state())
    for name, value in first.state().items():
        np.testing.assert_array_equal(second.parameters[name], value)


@needs_torch
@BOTH
def test_bfloat16_keeps_its_weights_in_float32_and_learns(config: TrainingConfig) -> None:
    half = create_model(replace(config, engine="torch", dtype="bfloat16"), VOCABULARY)
    single = create_model(replace(config, engine="torch", dtype="float32"), VOCABULARY)
    assert {view.dtype for view in half.parameters.values()} == {torch.float32}
    np.testing.assert_allclose(losses_of(half), losses_of(single), rtol=2e-2)
    assert half.logits(batch_of(config, 1)[0]).dtype == np.float32


@needs_torch
@BOTH
def test_parts_threads_and_autograd_change_the_order_of_additions_only(config: TrainingConfig) -> None:
    found = []
    for micro_batches, threads in ((1, 1), (4, 1), (4, 2), (2, 4)):
        parted = replace(config, engine="torch", micro_batches=micro_batches, threads=threads)
        model = create_model(parted, VOCABULARY)
        found.append((model.loss_and_gradients(*batch_of(config, 1), 1), model.slopes.flat))
    traced = create_model(replace(config, engine="torch"), VOCABULARY)
    traced.network = traced.as_module()  # type: ignore[attr-defined]
    found.append((traced.loss_and_gradients(*batch_of(config, 1), 1), traced.slopes.flat))
    for loss, flat in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-14)
        torch.testing.assert_close(flat, found[0][1], rtol=1e-10, atol=1e-15)
    assert torch.get_num_threads() == 1  # what it was before


@needs_torch
def test_the_module_is_one_graph_for_torch_compile() -> None:
    config = replace(MODERN, layers=1, engine="torch", micro_batches=1)
    model, traced = create_model(config, VOCABULARY), create_model(config, VOCABULARY)
    traced.network = torch.compile(traced.as_module(), backend="aot_eager", fullgraph=True)  # type: ignore[attr-defined]
    batch = batch_of(config, 1)
    assert traced.loss_and_gradients(*batch, 1) == model.loss_and_gradients(*batch, 1)
    assert torch.equal(traced.slopes.flat, model.slopes.flat)


@needs_torch
def test_a_gpu_that_is_not_there_is_an_error() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ConfigurationError, match="expected a GPU that torch can use, found none"):
        create_model(replace(PLAIN, engine="torch", device="cuda"), VOCABULARY)


def test_without_torch_its_engine_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradproof.training.model.find_spec", lambda name: None)
    with pytest.raises(
        ConfigurationError, match=r"needs PyTorch, which is not installed; pip install 'gradproof\[torch\]'"
    ):
        create_model(replace(PLAIN, engine="torch"), VOCABULARY)


# Several processes. ---------------------------------------------------------------------------------------------------

TRAINING = """
import json, sys
import numpy as np, torch
from gradproof.training.config import TrainingConfig
from gradproof.training.distributed import leave, process_group
from gradproof.training.model import create_model
from gradproof.training.optimiser import AdamW, learning_rate_at

torch.set_num_threads(1)
config = TrainingConfig.from_dict(json.loads(sys.argv[1]))
with process_group(config) as group:
    model = group.wrap(create_model(config, 11))
    optimiser = AdamW(model)
    losses = []
    for step in range(1, config.steps + 1):
        ids = np.random.default_rng(step).integers(0, 11, (config.batch, config.context + 1))
        loss = model.loss_and_gradients(group.share(ids[:, :-1]), group.share(ids[:, 1:]), step)
        losses.append(group.mean(loss))
        optimiser.update(step, learning_rate_at(step, config))
    if group.is_first:
        print(json.dumps(losses))
leave(0)
"""


@needs_torch
def test_two_processes_get_the_losses_of_one_with_the_doubled_batch(tmp_path: Path) -> None:
    """torchrun, gloo, two processes with two rows each, beside one process with all four; dropout included."""
    config = replace(MODERN, engine="torch", dtype="float32", steps=12)
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    run = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    done = subprocess.run(
        [*run, "--standalone", str(script), json.dumps(config.as_dict())],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    model = create_model(config, VOCABULARY)
    np.testing.assert_allclose(json.loads(done.stdout), losses_of(model, 12), rtol=1e-6)


@needs_torch
def test_a_process_that_ends_while_gradients_are_averaged_is_told_as_such() -> None:
    lost = "[/src/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:22922: Connection reset by peer"
    with pytest.raises(LaneError, match="the other processes of this run cannot be reached"), Group(0, 2, 4).reaching():
        raise RuntimeError(lost)
    with pytest.raises(RuntimeError, match="shapes"), Group(0, 2, 4).reaching():
        raise RuntimeError("shapes do not fit")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "abc"}, "WORLD_SIZE: expected a whole number, at least 1, found 'abc'; start"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE: expected a whole number, at least 1, found '0'"),
        ({"WORLD_SIZE": "2"}, "RANK: expected a whole number, at least 0, found ''"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK: expected a number below WORLD_SIZE, 2, found 2"),
        ({"WORLD_SIZE": "2", "RANK": "1"}, "MASTER_PORT: expected a whole number, at least 1, found ''"),
        ({"WORLD_SIZE": "2", "RANK": "1", "MASTER_PORT": "9"}, "MASTER_ADDR: expected the first process's address"),
    ],
)
def test_an_environment_that_is_not_torchruns_is_refused(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORLD_SIZE", "RANK", "MASTER_PORT", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=message), process_group(replace(PLAIN, engine="torch")):
        pass


@needs_torch
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_waits_for_another_can_be_ended(number: signal.Signals, tmp_path: Path) -> None:
    """PyTorch waits for half an hour, in a call in which Python handles no signal."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = free.getsockname()
    named = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": place[0], "MASTER_PORT": str(place[1])}
    process = subprocess.Popen(
        [sys.executable, "-m", "gradproof", "train", "--process", "markov", "--engine", "torch", "--no-save"],
        env={**os.environ, **named, "PYTHONPATH": str(Path(__file__).parents[2])}, cwd=tmp_path,
    )  # fmt: skip
    try:
        began = time.monotonic()
        while time.monotonic() < began + 60:
            with suppress(ConnectionRefusedError), socket.create_connection(place):
                break
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(number)
        assert process.wait(20) == -number
    finally:
        process.kill()
        process.wait()


def test_what_one_process_is_refused_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    def mean(_: Group, value: float) -> float:
        told.append(value)
        return 0.5  # one of two was refused

    monkeypatch.setattr(Group, "mean", mean)
    with pytest.raises(PeerError, match="another process of this run was refused"), Group(1, 2, 4).together():
        pass
    with pytest.raises(ConfigurationError, match="mine"), Group(0, 2, 4).together():
        raise ConfigurationError("mine")
    assert told == [0.0, 1.0]


def test_processes_that_cannot_share_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with process_group(PLAIN) as group:
        assert (group.rank, group.size, group.is_first, group.mean(2.5)) == (0, 1, True, 2.5)
        model = create_model(PLAIN, VOCABULARY)
        assert group.wrap(model) is model
    monkeypatch.setenv("WORLD_SIZE", "3")
    with (
        pytest.raises(ConfigurationError, match="3 processes need engine = 'torch', found 'numpy'"),
        process_group(PLAIN),
    ):
        pass
    config = replace(PLAIN, engine="torch")
    with pytest.raises(ConfigurationError, match="batch is 4 and there are 3 processes"), process_group(config):
        pass


# What went wrong, and what it takes. ----------------------------------------------------------------------------------


@BOTH
def test_nothing_is_affected_in_a_step_that_is_in_order(config: TrainingConfig) -> None:
    assert first_affected(create_model(config, VOCABULARY), *batch_of(config, 1), 1) is None


@pytest.mark.parametrize(
    ("weight", "value", "expected"),
    [
        ("layers.1.feed_forward.W_1", np.nan, "weights"),
        ("head.W", np.inf, "weights"),
        ("layers.0.attention.gamma", 1e200, "forward"),
    ],
)
def test_the_first_array_that_is_not_finite_is_named(weight: str, value: float, expected: str) -> None:
    model = create_model(PLAIN, VOCABULARY)
    model.parameters[weight][(0,) * model.parameters[weight].ndim] = value
    found = first_affected(model, *batch_of(PLAIN, 1), 1)
    assert found is not None
    assert found.direction == expected
    if expected == "weights":
        assert found.tensor == weight
        assert str(found).startswith(f"the weight {weight} of kernel ")
    else:
        assert (found.kernel, found.place, found.tensor) == (
            "self_attention", "layers.0.attention", "layers.0.attention.branch",
        )  # fmt: skip
        assert str(found) == (
            f"kernel self_attention at layers.0.attention gives layers.0.attention.branch with {found.found}, and none "
            "before it does"
        )


def test_a_cotangent_that_is_not_finite_is_named_with_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    model = create_model(PLAIN, VOCABULARY)
    genuine = model.call

    def overflowing(direction: str, step: Any, arguments: list[Any]) -> Any:
        results = genuine(direction, step, arguments)
        if direction == "backward" and step.place == "layers.1.feed_forward" and step.kernel == "layer_norm":
            return (results[0], np.full_like(results[1], np.inf), results[2])
        return results

    monkeypatch.setattr(model, "call", overflowing)
    found = first_affected(model, *batch_of(PLAIN, 1), 1)
    assert found is not None
    assert (found.direction, found.kernel, found.tensor, found.found) == (
        "backward", "layer_norm", "d layers.1.feed_forward.gamma", "infinity",
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["numpy", pytest.param("torch", marks=needs_torch)])
def test_a_profile_has_every_kernel_in_both_directions(engine: Any) -> None:
    config = replace(MODERN, engine=engine, micro_batches=2)
    model = create_model(config, VOCABULARY)
    before = model.state()
    found = profile(model, *batch_of(config, 1), steps=2)
    kernels = {step.kernel for step in forward_steps(config, dropout=True)}
    assert {(row.kernel, row.direction) for row in found.rows} == {
        (kernel, direction) for kernel in kernels for direction in ("forward", "backward")
    }
    calls = {(row.kernel, row.direction): row.calls for row in found.rows}
    assert calls["self_attention_rotary", "forward"] == 4
    assert calls["addition", "backward"] == 2 * 4  # of the residual sums
    assert calls["addition", "forward"] == 2 * (4 + 5)  # the same, and cotangents of what was used twice
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert sum(row.seconds for row in found.rows) == pytest.approx(found.seconds)
    assert sum(row.gemm_share * row.seconds for row in found.rows) == pytest.approx(found.gemm_seconds)
    assert [row.seconds for row in found.rows] == sorted((row.seconds for row in found.rows), reverse=True)
    assert all(np.array_equal(value, before[name]) for name, value in model.state().items())

"""Checkpoints and the folders they lie in: what is written is read back, what is not whole is refused by name."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from gradproof.training import CheckpointError, Interrupted, TrainingConfig, train
from gradproof.training import checkpoint as checkpoints
from gradproof.training.checkpoint import Checkpoint, checkpoint_in, load, save
from gradproof.training.data import Vocabulary
from gradproof.training.folder import (
    CHECKPOINT,
    METRICS,
    check_free,
    locked,
    newest_run,
    next_run,
    tensor_file,
    write_whole,
)
from gradproof.training.metrics import MetricsFile, read_metrics
from gradproof.training.reports import Event
from gradproof.training.sampling import restored_model

TEXT = "the quick brown fox jumps over the lazy dog\n" * 12
NANO = TrainingConfig(
    layers=1, width=8, context=6, batch=2, processes=False, steps=3, sample_length=4, evaluation_windows=4
)
STATE = Checkpoint(
    step=7,
    config=replace(NANO, time_limit_s=math.inf, learning_rate=0.1 + 0.2),
    vocabulary=Vocabulary("\n aé😀", "characters"),
    origin={"kind": "path", "path": "/some/text"},
    fingerprint="0123",
    first_loss=4.0 / 3,
    losses=(1.0 / 3, 2.0 / 3),
    trained_s=1.5,
    weights={"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b.c": np.array([np.pi], dtype=np.float32)},
    optimiser={"a": np.full((2, 3), -0.0, dtype=np.float32)},
)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    save(tmp_path, STATE)
    for path in (tmp_path, tmp_path / CHECKPOINT):
        found = load(path)
        assert replace(found, weights={}, optimiser={}) == replace(STATE, weights={}, optimiser={})
        for expected, tensors in ((STATE.weights, found.weights), (STATE.optimiser, found.optimiser)):
            assert sorted(tensors) == sorted(expected)
            for name, values in expected.items():
                assert (tensors[name].dtype, tensors[name].tobytes()) == (values.dtype, values.tobytes())


def test_a_checkpoint_before_the_first_step(tmp_path: Path) -> None:
    save(tmp_path, replace(STATE, step=0, first_loss=None, losses=()))
    assert (load(tmp_path).first_loss, load(tmp_path).losses) == (None, ())


def test_the_same_state_gives_the_same_bytes_and_leaves_one_set_of_tensors(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        save(tmp_path, replace(STATE, step=6))
        save(tmp_path, STATE)
        contents.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
    assert contents[0] == contents[1]
    assert set(contents[0]) == {CHECKPOINT, "step-00000007.safetensors"}


def refused(path: Path, message: str | None = None, *, named: Path | None = None) -> None:
    """Loading `path` fails with the message, which names it, or the file `named`."""
    with pytest.raises(CheckpointError, match=message) as caught:
        load(path)
    assert str(named or path) in str(caught.value)


def parsed(content: bytes) -> Any:
    """The JSON, if it is any."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_no_checkpoint(tmp_path: Path) -> None:
    refused(tmp_path, "there is no checkpoint here")
    refused(tmp_path / "nowhere", "there is no checkpoint here")


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    """Flip a bit at many places of each file, and cut each file at as many."""
    save(tmp_path, STATE)
    generator = np.random.default_rng(0)
    for name in (CHECKPOINT, "step-00000007.safetensors"):
        content = (tmp_path / name).read_bytes()
        for place in sorted({0, len(content) - 1, *generator.integers(0, len(content), 60).tolist()}):
            flipped = bytearray(content)
            flipped[place] ^= 1 << int(generator.integers(0, 7))
            for damaged in (bytes(flipped), content[:place]):
                (tmp_path / name).write_bytes(damaged)
                if name == CHECKPOINT and parsed(damaged) == json.loads(content):
                    assert load(tmp_path).step == STATE.step, "white space, which says nothing"
                else:
                    refused(tmp_path, named=tmp_path / name)
        (tmp_path / name).write_bytes(content)
    assert load(tmp_path).step == 7


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the JSON and give it the checksum that then fits, as somebody who means harm would."""
    document = json.loads((folder / CHECKPOINT).read_text())
    del document["sha256"]
    change(document)
    document["sha256"] = checkpoints._digest(checkpoints._canonical(document))
    (folder / CHECKPOINT).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it.update(format=2), "expected format 1, found 2"),
        (lambda it: it.update(step="7"), "expected step to be a whole number, at least 0, found '7'"),
        (lambda it: it.update(step=True), "expected step to be a whole number, at least 0, found True"),
        (lambda it: it.update(step=-7), "expected step to be a whole number, at least 0, found -7"),
        (lambda it: it.update(step=8), "expected the tensor file step-00000008.safetensors beside it"),
        (lambda it: it.pop("alphabet"), "expected alphabet to be different characters in code-point order, found None"),
        (lambda it: it.update(alphabet=""), "expected alphabet to be different characters"),
        (lambda it: it.update(alphabet="ba"), "expected alphabet to be different characters in code-point order"),
        (lambda it: it.update(alphabet="aa"), "expected alphabet to be different characters"),
        (lambda it: it.update(unit="words"), "expected unit to be 'characters' or 'bytes', found 'words'"),
        (lambda it: it.update(origin=[]), "expected origin to be a table of texts"),
        (lambda it: it.update(origin={"kind": "path", "path": 5}), "expected origin to be a table of texts"),
        (lambda it: it.update(origin={"path": "a\0b"}), "expected origin to be a table of texts"),
        (lambda it: it.update(first_loss="abc"), "expected first_loss to be a number"),
        (lambda it: it.update(first_loss=[1.0]), "expected first_loss to be a number"),
        (lambda it: it.update(first_loss=None), "expected first_loss to be a number"),
        (lambda it: it.update(losses=["a"]), "expected losses to be the last losses"),
        (lambda it: it.update(losses=[[1.0]]), "expected losses to be the last losses"),
        (lambda it: it.update(losses=[]), "expected losses to be the last losses"),
        (lambda it: it.update(trained_s=-1.0), "expected trained_s to be seconds, at least 0, found -1.0"),
        (lambda it: it["tensors"].update(file="../step-00000007.safetensors"), "expected the tensor file .* beside it"),
        (lambda it: it["tensors"].update(file="/etc/passwd"), "expected the tensor file .* beside it"),
        (lambda it: it["tensors"].update(file=".."), "expected the tensor file .* beside it"),
        (lambda it: it["tensors"].update(file="a\0b"), "expected the tensor file .* beside it"),
        (lambda it: it["config"]["model"].update(heads=3), "its settings cannot be used: heads must divide width"),
        (lambda it: it["config"]["model"].update(depth=3), "its settings cannot be used: .*no setting depth"),
        (lambda it: it["config"]["model"].pop("width"), r"expected the setting width in \[model\], found none"),
        (lambda it: it["config"].pop("run"), r"expected the setting batch in \[run\], found none"),
        (lambda it: it.update(format="x" * 10_000), "expected format 1, found 'x{79}; use"),
        (lambda it: it["config"].update(more=3), "its settings cannot be used: expected the tables"),
        (lambda it: it.update(config=[]), "expected config to be of type dict"),
    ],
)
def test_json_that_says_what_cannot_be(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    save(tmp_path, STATE)
    rewritten(tmp_path, change)
    refused(tmp_path / CHECKPOINT, message)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("weights.a", np.zeros((2, 3), np.float64), "weights.a: expected numbers of float32, found float64"),
        ("weights.a", np.zeros((2, 3), np.int64), "weights.a: expected numbers of float32, found int64"),
        ("optimiser.a", np.zeros((2, 3), np.float16), "optimiser.a: expected numbers of float32, found float16"),
        ("surplus", np.zeros(3, np.float32), "expected weights and what the optimiser keeps, found 'surplus'"),
    ],
)
def test_tensors_that_are_no_models(name: str, values: np.ndarray[Any, Any], message: str, tmp_path: Path) -> None:
    save(tmp_path, STATE)
    file = tmp_path / tensor_file(7)
    with_other_tensors(tmp_path, save_tensors({**load_tensors(file.read_bytes()), name: values}))
    refused(tmp_path, message, named=file)


def test_tensors_of_a_type_that_numpy_lacks(tmp_path: Path) -> None:
    save(tmp_path, STATE)
    file = tmp_path / tensor_file(7)
    content = file.read_bytes()
    assert content.count(b'"dtype":"F32"') == 3
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    header["weights.a"].update(dtype="BF16", shape=[4, 3])
    written = json.dumps(header).encode()
    body = content[8 + int.from_bytes(content[:8], "little") :]
    with_other_tensors(tmp_path, len(written).to_bytes(8, "little") + written + body)
    refused(tmp_path, "expected tensors of types that NumPy has, found others: 'BF16'", named=file)


def with_other_tensors(folder: Path, content: bytes) -> None:
    """Other tensors, and the checksums that then fit."""
    (folder / tensor_file(7)).write_bytes(content)
    digest = checkpoints._digest(content)
    rewritten(folder, lambda it: it["tensors"].update(bytes=len(content), sha256=digest))


@pytest.mark.parametrize(
    "content",
    [b"", b"[1, 2]", b"{}", b"\x80", b"[" * 100_000, b"NaN", b'{"format": 1, "a": NaN}', b'{"format": 1, "a": 1e999}'],
)
def test_json_that_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(content)
    refused(tmp_path / CHECKPOINT, "expected the JSON of a checkpoint")


def test_json_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).mkdir()
    refused(tmp_path, "cannot be read: Is a directory", named=tmp_path / CHECKPOINT)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("name", [CHECKPOINT, tensor_file(7)])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    save(tmp_path, STATE)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    refused(tmp_path, "cannot be read: not a regular file", named=tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_in_the_place_of_other_files_of_a_run_is_not_waited_for_either(tmp_path: Path) -> None:
    """A run that waits to open a file hears of no signal."""
    uses: dict[str, Callable[[Path], object]] = {
        METRICS: lambda folder: MetricsFile(folder, 7),
        f"{CHECKPOINT}.part": lambda folder: save(folder, STATE),
        ".lock": lambda folder: locked(folder).__enter__(),
    }
    for name, use in uses.items():
        os.mkfifo(tmp_path / name)
        with pytest.raises(OSError, match="not a regular file") as caught:
            use(tmp_path)
        assert caught.value.filename == str(tmp_path / name)
        (tmp_path / name).unlink()
    os.mkfifo(tmp_path / METRICS)
    with pytest.raises(OSError, match="not a regular file"):
        list(read_metrics(tmp_path))


def test_tensors_that_are_missing(tmp_path: Path) -> None:
    save(tmp_path, STATE)
    (tmp_path / "step-00000007.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"step-00000007.safetensors: named by checkpoint.json, cannot be read"):
        load(tmp_path)


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path, STATE)
    content = pickle.dumps(Explosive())
    (tmp_path / "step-00000007.safetensors").write_bytes(content)
    rewritten(
        tmp_path,
        lambda it: it["tensors"].update(bytes=len(content), sha256=checkpoints._digest(content)),
    )
    with pytest.raises(CheckpointError, match="expected a safetensors file"):
        load(tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(content)
    refused(tmp_path / CHECKPOINT, "expected the JSON of a checkpoint")
    assert not (tmp_path / "exploded").exists()


def test_a_run_that_replaces_its_checkpoint_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, STATE)
    read = checkpoints._document

    def read_too_early(path: Path) -> dict[str, Any]:
        found = read(path)
        monkeypatch.setattr(checkpoints, "_document", read)
        save(tmp_path, replace(STATE, step=8))
        return found

    monkeypatch.setattr(checkpoints, "_document", read_too_early)
    assert load(tmp_path).step == 8


# Checkpoints of another run. ------------------------------------------------------------------------------------------


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    train(NANO, TEXT, folder=tmp_path)
    return tmp_path


def test_another_text(trained: Path) -> None:
    with pytest.raises(CheckpointError, match="the text is not the one that the run began with"):
        train(NANO, TEXT + "more", folder=trained, resume=load(trained))


def test_fewer_steps_than_are_done(trained: Path) -> None:
    with pytest.raises(CheckpointError, match="the run has done 3 steps, more than the 2 of the settings; name more"):
        train(replace(NANO, steps=2), TEXT, folder=trained, resume=load(trained))
    assert load(trained).config.steps == 3


def test_another_alphabet(trained: Path) -> None:
    state = load(trained)
    turned = replace(state, vocabulary=Vocabulary("".join(chr(300 + n) for n in range(state.vocabulary.size))))
    with pytest.raises(CheckpointError, match=r"checkpoint\.json: expected the alphabet of the text, found another"):
        train(NANO, TEXT, folder=trained, resume=turned)


def test_a_checkpoint_that_does_not_fit_is_named(trained: Path) -> None:
    state = load(trained)
    assert state.path == trained / CHECKPOINT
    with pytest.raises(CheckpointError) as caught:
        train(NANO, TEXT + "more", resume=state)
    assert str(caught.value).startswith(f"{trained / CHECKPOINT}: the text is not the one")
    with pytest.raises(CheckpointError) as caught:
        restored_model(replace(state, weights={}))
    assert str(caught.value).startswith(f"{trained / CHECKPOINT}: does not fit the model")


def test_the_tensors_of_another_checkpoint_are_left_where_they_are(trained: Path) -> None:
    """A state that is older than the folder's checkpoint becomes that checkpoint, with tensors of its own."""
    older = replace(load(trained), step=2)
    with pytest.raises(Interrupted):
        train(NANO, TEXT, folder=trained, resume=older, stop=lambda: 15)
    assert load(trained).step == 2


@pytest.mark.parametrize("setting", [{"width": 16}, {"layers": 2}, {"norm": "rms"}, {"tied": True}])
def test_another_model(setting: dict[str, Any], trained: Path) -> None:
    state = replace(load(trained), config=replace(NANO, **setting))
    for use in (
        lambda: train(state.config, TEXT, resume=state),
        lambda: restored_model(state),
    ):
        with pytest.raises(CheckpointError, match=r"do(es)? not fit the model that (its|the) settings describe"):
            use()


def test_a_weight_too_many_and_one_too_few(trained: Path) -> None:
    state = load(trained)
    some = dict(state.weights)
    name, values = some.popitem()
    with pytest.raises(CheckpointError, match=name):
        restored_model(replace(state, weights=some))
    with pytest.raises(CheckpointError, match="surplus"):
        restored_model(replace(state, weights={**state.weights, "surplus": values}))


# Folders. -------------------------------------------------------------------------------------------------------------


def test_runs_are_numbered_and_none_is_used_twice(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert newest_run(runs) is None
    first, second = next_run(runs), next_run(runs)
    assert [first.name, second.name] == ["001", "002"]
    assert newest_run(runs) is None, "neither holds a checkpoint"
    save(first, STATE)
    (runs / "notes").mkdir()
    assert newest_run(runs) == first
    (runs / "999").mkdir()
    save(runs / "999", STATE)
    assert next_run(runs).name == "1000"
    save(runs / "1000", STATE)
    assert newest_run(runs) == runs / "1000", "by number, not by name"


def test_a_folder_is_for_one_process(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    message = "another process is training in this folder"
    with locked(tmp_path), pytest.raises(CheckpointError, match=message), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_run_keeps_its_folder_to_itself_and_replaces_no_other(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with locked(tmp_path), pytest.raises(CheckpointError, match="another process is training in this folder"):
        train(NANO, TEXT, folder=tmp_path)

    def tell(event: Event) -> None:
        with pytest.raises(CheckpointError, match="another process is training in this folder"), locked(tmp_path):
            pass

    train(NANO, TEXT, folder=str(tmp_path), tell=tell)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(CheckpointError, match=r"holds a run already; go on with it, resume=load\(folder\)"):
        train(NANO, TEXT, folder=tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    train(NANO, TEXT, folder=tmp_path, resume=load(str(tmp_path)))


def test_only_what_a_run_has_written_is_removed(tmp_path: Path) -> None:
    mine = ["movie.mkv.part", "step-my.safetensors", "step-1.safetensors", "step-00000003.safetensors.bak", "x.part"]
    for name in [*mine, "step-00000003.safetensors", "step-00000007.safetensors.part", "metrics.jsonl.part"]:
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.part").mkdir()
    (tmp_path / "report.json.part").mkdir()
    save(tmp_path, STATE)
    left = {path.name for path in tmp_path.iterdir()} - {CHECKPOINT, "step-00000007.safetensors"}
    assert left == {*mine, "folder.part", "report.json.part"}


@pytest.mark.parametrize("name", [METRICS, "report.json", "loss.svg", "step-00000005.safetensors", CHECKPOINT])
def test_a_run_begins_in_no_folder_with_files_of_somebody_else(name: str, tmp_path: Path) -> None:
    if name == CHECKPOINT:  # one that leads nowhere
        (tmp_path / name).symlink_to("nowhere")
    else:
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match=rf"holds no checkpoint, but {name}, which a run would write over"):
        train(NANO, TEXT, folder=tmp_path)
    assert sorted(tmp_path.iterdir()) == before
    assert name == CHECKPOINT or (tmp_path / name).read_text() == "mine"


def test_what_a_run_leaves_before_its_first_checkpoint_is_no_obstacle(tmp_path: Path) -> None:
    for name in (
        METRICS,
        ".lock",
        "checkpoint.json.part",
        "step-00000000.safetensors",
        "step-00000000.safetensors.part",
    ):
        (tmp_path / name).write_text("" if name == METRICS else "cut off")
    check_free(tmp_path)
    check_free(tmp_path / "nowhere")
    train(NANO, TEXT, folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {METRICS, ".lock", CHECKPOINT, "step-00000003.safetensors"}
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == "cut off"


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    write_whole(path, b"new")
    assert (path.read_bytes(), len(list(tmp_path.iterdir()))) == (b"new", 1)


def test_metrics_after_a_checkpoint_are_dropped_with_the_line_that_was_cut_off(tmp_path: Path) -> None:
    with MetricsFile(tmp_path, 0) as metrics:
        for step in range(1, 6):
            metrics.add({"step": step, "loss": step / 3})
        metrics.add({"step": 5, "sample": "ü\n\u2028😀"})
    content = (tmp_path / METRICS).read_bytes()
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'{"step": 6, "lo')
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3, 4, 5, 5]
    with MetricsFile(tmp_path, 5):
        assert (tmp_path / METRICS).read_bytes() == content
    with MetricsFile(tmp_path, 3) as metrics:
        metrics.add({"step": 4, "loss": 4 / 3})
    assert (tmp_path / METRICS).read_bytes() == b"".join(content.splitlines(keepends=True)[:4])


@pytest.mark.parametrize(("kept", "lacking"), [(0, "1 to 5"), (3, "4 to 5"), (5, "")])
def test_metrics_that_end_before_the_checkpoint_are_told(kept: int, lacking: str, tmp_path: Path) -> None:
    with MetricsFile(tmp_path, 0) as metrics:
        for step in range(1, kept + 1):
            metrics.add({"step": step, "loss": step / 3})
    if kept == 0:
        (tmp_path / METRICS).unlink()
    with MetricsFile(tmp_path, 5) as metrics:
        note = metrics.note
    assert note == (f"{tmp_path / METRICS}: lacks the lines of the steps from {lacking}" if lacking else "")


def test_a_damaged_line_loses_itself_alone_and_the_file_is_kept(tmp_path: Path) -> None:
    with MetricsFile(tmp_path, 0) as metrics:
        assert metrics.note == ""
        for step in range(1, 9):
            metrics.add({"step": step, "loss": step / 3})
    path, beside = tmp_path / METRICS, tmp_path / "metrics.jsonl.damaged-1"
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    path.write_bytes(content.replace(b'"step": 2', b'"step"\x80 2'))
    found = path.read_bytes()
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 3, 4, 5, 6, 7, 8]
    with MetricsFile(tmp_path, 5) as metrics:
        assert metrics.note == f"{path}: damaged in line 2, which is left out; as it was, the file is {beside}"
    assert (path.read_bytes(), beside.read_bytes()) == (b"".join([lines[0], *lines[2:5]]), found)
    with MetricsFile(tmp_path, 5) as metrics:
        assert metrics.note == ""
    # What lies after the checkpoint is dropped anyway; the last line before it is not.
    path.write_bytes(content.replace(b'"step": 7', b"\0"))
    with MetricsFile(tmp_path, 5) as metrics:
        assert metrics.note == ""
    path.write_bytes(b"".join(lines[:4]) + b'{"step": 5, "lo')
    with MetricsFile(tmp_path, 5) as metrics:
        assert "damaged in line 5" in metrics.note
    assert {file.name for file in tmp_path.iterdir()} == {METRICS, beside.name, "metrics.jsonl.damaged-2"}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"[]\n", b'{"loss": 1}\n', b'{"step": "x"}\n', b"[" * 100_000,
        b'{"step": 1, "loss": "low"}\n', b'{"step": 1, "heldout_loss": null}\n', b'{"step": ' + b"9" * 5000 + b"}\n",
    ],
)  # fmt: skip
def test_metrics_that_are_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(content)
    assert list(read_metrics(tmp_path)) == []
    assert not checkpoint_in(tmp_path)


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(tmp_path / "file", b"new")
    assert caught.value.filename == str(tmp_path / "file")


class Full(io.StringIO):
    """A file on a disk that has no room left, which says so without a name."""

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_up_under_the_metrics_is_told_with_their_name(tmp_path: Path) -> None:
    with MetricsFile(tmp_path, 0) as metrics:
        metrics._file.close()
        metrics._file = Full()  # type: ignore[assignment]
        with pytest.raises(OSError, match="No space left on device") as caught:
            metrics.add({"step": 1, "loss": 1.0})
    assert caught.value.filename == str(tmp_path / METRICS)

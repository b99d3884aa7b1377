"""The benchmarks: contenders agree or nothing is timed, rows have their fields, memory is counted."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import attention, compilation, cross_entropy, errors, layer_norm, memory, proof, timing, training
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.kernels import settings, there_and_back
from benchmarks.timing import Contest, Row, agree, compared, difference, take_turns
from derive.library import load


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    """PyTorch on one thread, for what is computed here is tiny."""
    module = pytest.importorskip("torch")
    threads = module.get_num_threads()
    module.set_num_threads(1)
    yield module
    module.set_num_threads(threads)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns without waiting."""
    monkeypatch.setattr(timing, "PAUSE", 0.0)
    monkeypatch.setattr(timing, "PATIENCE", 0.0)
    monkeypatch.setattr(timing, "BURST", 1e-4)


@pytest.mark.parametrize(("heads", "length", "causal"), [(2, 9, True), (3, 6, False)])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_attention_of_all_contenders_agrees(torch: Any, kind: str, heads: int, length: int, causal: bool) -> None:
    arrays = attention.inputs(heads, length, kind)
    tensors = [torch.from_numpy(array) for array in arrays]
    contenders = {
        "numpy": attention.ours("numpy", arrays, causal),
        "lean": attention.ours("numpy", arrays, causal, "lean", workspace=False),
        "torch": attention.ours("torch", tensors, causal),
        "numpy.textbook": attention.textbook(arrays, causal),
        **attention.torch_peers(torch, arrays, causal, compiles=False),
    }
    agree("attention", contenders, attention.TOLERANCE[kind])


def test_cross_entropy_of_all_contenders_agrees(torch: Any) -> None:
    z, target = cross_entropy.inputs(7, 11)
    tensors = torch.from_numpy(z), torch.from_numpy(target)
    contenders = {
        "numpy": cross_entropy.ours("numpy", z, target),
        "torch": cross_entropy.ours("torch", *tensors),
        "numpy.textbook": cross_entropy.textbook(z, target),
        "F.cross_entropy": memory.fused_cross_entropy(7, 11),
    }
    agree("cross entropy", contenders, cross_entropy.TOLERANCE)


def test_layer_norm_of_all_contenders_agrees(torch: Any) -> None:
    arrays = layer_norm.inputs(7, 12)
    tensors = [torch.from_numpy(array) for array in arrays]
    contenders = {
        "numpy": layer_norm.ours("numpy", arrays),
        "torch": layer_norm.ours("torch", tensors),
        "numpy.textbook": layer_norm.textbook(arrays),
        **layer_norm.torch_peers(torch, tensors, compiles=False),
    }
    agree("layer norm", contenders, layer_norm.TOLERANCE)


def test_jax_agrees() -> None:
    jax = pytest.importorskip("jax")
    arrays = attention.inputs(2, 9)
    both = {"a": attention.textbook(arrays, True), "b": attention.with_jax(jax, arrays, True)}
    agree("attention", both, attention.TOLERANCE["float32"])
    logits = cross_entropy.inputs(7, 11)
    agree("cross entropy", {"a": cross_entropy.textbook(*logits), "b": cross_entropy.with_jax(jax, *logits)}, 1e-5)
    given = layer_norm.inputs(7, 12)
    agree("layer norm", {"a": layer_norm.textbook(given), "b": layer_norm.with_jax(jax, given)}, 2e-5)


def test_nothing_is_timed_for_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("timed")

    monkeypatch.setattr(timing, "take_turns", fail)
    right, wrong = np.ones(3), np.array([1.0, 1.0, 1.001])
    contest = Contest("a case", {"numpy": lambda: (right,)}, {"peer": lambda: (wrong,)}, 1e-5)
    with pytest.raises(RuntimeError, match=r"a case: result 0 of peer and of numpy are 1.0e-03 of the largest"):
        timing.compete([contest], 1.0, quiet)


@pytest.mark.parametrize("other", [np.ones(4), np.ones(3, np.float32), np.array([1, 1, np.nan])])
def test_another_shape_or_type_or_no_number_is_a_difference(other: np.ndarray[Any, Any]) -> None:
    assert not difference(np.ones(3), other) <= 1.0


def test_a_missing_result_is_a_difference() -> None:
    with pytest.raises(RuntimeError, match="b has 1 results, a 2"):
        agree("a case", {"a": lambda: (np.ones(1), np.ones(1)), "b": lambda: (np.ones(1),)}, 1.0)


def test_ratio_is_their_time_over_ours_within_a_round() -> None:
    contest = Contest("a case", {"numpy": lambda: ()}, {"peer": lambda: ()}, 0.0)
    # The machine is ten times slower in the last two rounds.
    times = {"numpy": [1.0, 1.1, 0.9, 10.0, 10.0], "peer": [2.0, 2.2, 1.8, 20.0, 30.0]}
    assert compared(contest, times) == [Row("a case", "numpy", "peer", 2.0, 1100.0, 2200.0)]


@pytest.mark.usefixtures("hasty")
def test_turns_alternate_and_measure_time(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    now = [0.0]  # by a clock that goes on while something runs, and at no other time
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0], sleep=lambda seconds: None))

    def run(name: str, seconds: float) -> timing.Run:
        def work() -> tuple[Any, ...]:
            order.append(name)
            now[0] += seconds
            return ()

        return work

    times = take_turns({"short": run("short", 0.001), "long": run("long", 0.004)}, 0.0)
    assert times["short"] == pytest.approx([0.001] * timing.ROUNDS[0])
    assert times["long"] == pytest.approx([0.004] * timing.ROUNDS[0])
    assert order.count("short") == order.count("long") == 2 * timing.ROUNDS[0]
    assert order[:4] == ["short", "short", "long", "long"]
    assert order[4:6] == ["long", "long"]


@pytest.mark.usefixtures("hasty")
def test_json_has_the_fields_that_programs_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(quick: bool, note: timing.Note) -> Iterator[Contest]:
        note("a peer was left out")
        arrays = attention.inputs(1, 4)
        yield Contest(
            "1 x 4, full",
            {"numpy": attention.ours("numpy", arrays, False)},
            {"numpy.textbook": attention.textbook(arrays, False)},
            attention.TOLERANCE["float32"],
        )

    monkeypatch.setattr(attention, "contests", tiny)
    ran = CliRunner().invoke(main, ["attention", "--quick", "--json"])
    assert ran.exit_code == 0, ran.output
    (row,) = json.loads(ran.stdout)
    assert list(row) == ["case", "target", "peer", "ratio", "ours_ms", "peer_ms"]
    assert (row["case"], row["target"], row["peer"]) == ("1 x 4, full", "numpy", "numpy.textbook")
    assert row["ratio"] > 0
    assert "note: a peer was left out" in ran.stderr
    shown = CliRunner().invoke(main, ["attention", "--quick"])
    assert "numpy.textbook" in shown.stdout
    assert "ratio" in shown.stdout


FIELDS = ["case", "target", "peer", "ratio", "ours_ms", "peer_ms"]


def one_row_of(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Rows of a benchmark that measures next to nothing."""
    if name == "errors":
        (kernel,) = (known for known in errors.KERNELS if known.title == "silu")
        monkeypatch.setattr(errors, "KERNELS", (kernel,))
        monkeypatch.setattr(errors, "TYPES", ("float32",))
        return errors.measure(True, quiet)
    if name == "proof":
        monkeypatch.setattr(proof, "QUICK_CHAINS", (1,))
        return [*proof.measure(True, quiet)]
    if name == "compile":
        return [compilation.row("library", "import and state", 7, 0.25, 30.0)]
    if name == "memory":
        small = memory.Case("attention", "numpy", "lean", (1, 8, True), (1, 4, True), 32.0)
        return [memory.peak(small), memory.peak(dataclasses.replace(small, run="F.cross_entropy"))]
    if name == "training":
        return [training.Pace("a step", "numpy", "jax.jit", 2.0, 1.0, 2.0, tokens_per_s=2.0, peer_tokens_per_s=1.0)]
    return [Row("a case", "numpy", "peer", 2.0, 1.0, 2.0)]


@pytest.mark.parametrize("name", [entry.name for entry in BENCHMARKS])
def test_rows_of_every_benchmark_begin_with_the_same_fields(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(next(entry.module for entry in BENCHMARKS if entry.name == name))
    rows = one_row_of(name, monkeypatch)
    monkeypatch.setattr(module, "measure", lambda quick, note: rows)
    ran = CliRunner().invoke(main, [name, "--quick", "--json"])
    assert ran.exit_code == 0, ran.output
    printed = json.loads(ran.stdout)
    assert len(printed) == len(rows) > 0
    for row in printed:
        assert list(row)[: len(FIELDS)] == FIELDS
        assert isinstance(row["case"], str)
        assert isinstance(row["target"], str)
        assert (row["peer"] is None) == (row["peer_ms"] is None)
        assert row["ratio"] is None or row["peer"] is not None
    shown = CliRunner().invoke(main, [name, "--quick"]).stdout
    assert "case" in shown
    assert ("peer" in shown) == any(row["peer"] is not None for row in printed)


def test_every_benchmark_of_the_table_is_there() -> None:
    assert [entry.name for entry in BENCHMARKS if not hasattr(importlib.import_module(entry.module), "measure")] == []
    assert sorted(main.commands) == sorted(entry.name for entry in BENCHMARKS)


def test_cost_of_one_block_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "QUICK_CHAINS", (1,))
    (cost,) = proof.measure(True, quiet)
    assert cost.blocks == 1
    assert cost.definitions > 30
    assert 0 < cost.derive_s + cost.prove_s == pytest.approx(cost.per_block_s, abs=1e-3)


def test_definitions_count_the_gradient_where_one_is_asked_for() -> None:
    (program,) = load(["softmax"])
    backward = len(program.gradient(program.request.outputs[0], wrt=program.request.wrt).definitions)
    assert backward > 0
    assert compilation.definitions(program) == len(program.definitions) + backward


def test_no_contest_begins_after_the_limit() -> None:
    notes: list[str] = []
    contest = Contest("late", {"numpy": lambda: ()}, {}, 0.0)
    assert timing.compete([contest], 1.0, notes.append, limit=-1.0) == []
    assert "no time was left for late and what follows" in notes


def test_settings_are_those_that_a_kernel_has() -> None:
    def kernel(x: Any, *, causal: bool = False) -> None: ...

    assert settings(kernel, {"causal": True, "workspace": None}) == {"causal": True}


def test_a_workspace_is_shared_by_forward_and_backward_and_by_calls() -> None:
    arrays = attention.inputs(1, 5)
    run = there_and_back("attention", "numpy", arrays[:3], arrays[3], causal=True)
    first, second = run(), run()
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
        assert one is not two
        assert not np.shares_memory(one, two)


def test_memory_counts_what_is_neither_argument_nor_result() -> None:
    argument = np.ones(1_000_000)

    def run() -> tuple[Any, ...]:
        scratch = argument * 2  # 8 MB
        scratch += 1
        return (scratch[:1000].copy(),)

    extra, results, seconds = memory.traced(run)
    assert 8e6 <= extra < 8.1e6
    assert results == 8000
    assert seconds > 0


def test_resident_memory_sees_what_was_touched() -> None:
    def run() -> tuple[Any, ...]:
        return (np.ones(8_000_000)[:1].copy(),)  # 64 MB

    extra, _, _ = memory.resident(run)
    assert 50e6 < extra < 90e6

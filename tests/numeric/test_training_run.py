"""The whole run: what it tells, that it repeats, when it stops, and that it touches no array outside a kernel."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import math
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from gradproof.training import (
    DivergenceError,
    HeldOutReport,
    KernelMissingError,
    SampleReport,
    SavedReport,
    StepReport,
    TrainingConfig,
    TrainingResult,
    cache,
    default_text,
    engine_numpy,
    kernels,
    loop,
    model,
    open_source,
    presence,
    sampling,
    train,
)
from gradproof.training.checkpoint import load
from gradproof.training.data import batch_at, corpus_from
from gradproof.training.distributed import Group
from gradproof.training.entropy import bigram_entropy, unigram_entropy
from gradproof.training.metrics import read_metrics
from gradproof.training.model import Model, create_model
from gradproof.training.optimiser import AdamW
from gradproof.training.parameters import Array
from gradproof.training.presence import check_kernels
from gradproof.training.process_wide import on_one_thread, without_warnings
from gradproof.training.reports import Event, FinalReport
from gradproof.training.steps import Progress, held_out_loss, training_steps

TEXT = "the quick brown fox jumps over the lazy dog\n" * 12
TINY = TrainingConfig(
    layers=1, width=8, context=6, batch=2, processes=False, steps=3, sample_length=9, evaluation_windows=4
)


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that moves on by so many seconds whenever it is read."""
    ticks = itertools.count()
    return lambda: next(ticks) * seconds


def steps_of(events: list[Event]) -> list[StepReport]:
    return [event for event in events if isinstance(event, StepReport)]


def repeatable(result: TrainingResult) -> dict[str, Any]:
    """All of a result but the pace."""
    return {name: value for name, value in asdict(result).items() if name != "tokens_per_s"}


def test_a_run_reports_every_step() -> None:
    events: list[Event] = []
    result = train(TINY, TEXT, tell=events.append, clock=ticking(0.5))
    reports = steps_of(events)
    assert events == [*reports, FinalReport(3)], "without a folder nothing else happens"
    assert [report.step for report in reports] == [1, 2, 3]
    assert {report.steps for report in reports} == {3}
    assert [report.elapsed_s for report in reports] == [0.5, 1.0, 1.5]
    assert [report.seconds_left for report in reports] == [1.0, 0.5, 0.0]
    assert {report.tokens_per_s for report in reports} == {24.0}
    assert result.first_loss == reports[0].loss
    assert result.train_loss == pytest.approx(fmean(report.loss for report in reports))
    assert (result.steps, result.stopped_early, result.tokens_per_s) == (3, False, 24.0)


def test_a_run_with_a_folder_tells_what_it_leaves_there(tmp_path: Path) -> None:
    events: list[Event] = []
    config = replace(TINY, steps=7, checkpoint_every=5, evaluate_every=2, sample_every=3)
    train(config, TEXT, tell=events.append, folder=tmp_path)
    assert [event.step for event in events if isinstance(event, SavedReport)] == [0, 5, 7]
    looks = [event for event in events if isinstance(event, HeldOutReport)]
    samples = [event for event in events if isinstance(event, SampleReport)]
    assert [event.step for event in looks] == [2, 4, 6]
    assert [event.step for event in samples] == [3, 6]
    assert {len(event.text) for event in samples} == {9}
    lines = list(read_metrics(tmp_path))
    assert [line["step"] for line in lines] == [1, 2, 2, 3, 3, 4, 4, 5, 6, 6, 6, 7]
    for reports, name in ((steps_of(events), "loss"), (looks, "heldout_loss")):
        assert [line[name] for line in lines if name in line] == [report.loss for report in reports]
    assert [line["sample"] for line in lines if "sample" in line] == [event.text for event in samples]
    names = ["step", "loss", "learning_rate", "gradient_norm", "elapsed_s", "tokens_per_s"]
    assert [list(line) for line in lines if "loss" in line] == [names] * 7
    assert lines[1]["gradient_norm"] > 0


def test_looks_and_samples_can_be_left_out(tmp_path: Path) -> None:
    train(replace(TINY, evaluate_every=0, sample_every=0), TEXT, folder=tmp_path)
    assert {name for line in read_metrics(tmp_path) for name in line}.isdisjoint({"heldout_loss", "sample"})


def test_losses_are_those_of_the_batches(tmp_path: Path) -> None:
    """The report's loss and gradient norm, recomputed with the model alone."""
    corpus = corpus_from(TEXT, TINY.context)
    made = (create_model(TINY, corpus.vocabulary.size, 0) for _ in range(2))
    (model, again) = made
    steps = training_steps(model, AdamW(model), corpus, TINY, Progress(), Group(0, 1, TINY.batch))
    first = next(steps)
    batch = batch_at(corpus.train, TINY.context, TINY.batch, TINY.seed, 1)
    assert first.loss == again.loss_and_gradients(*batch, 1)
    squares = sum(float((gradient.astype(np.float64) ** 2).sum()) for gradient in again.gradients.values())
    assert first.gradient_norm == pytest.approx(math.sqrt(squares), rel=1e-5)
    before = held_out_loss(again, corpus, 4)
    assert before != held_out_loss(model, corpus, 4), "the step has changed the weights"


def test_training_loss_is_the_mean_over_the_last_fifty_steps() -> None:
    events: list[Event] = []
    result = train(replace(TINY, steps=60), TEXT, tell=events.append)
    assert result.train_loss == pytest.approx(fmean(report.loss for report in steps_of(events)[10:]))


def test_entropies_are_those_of_the_held_out_text() -> None:
    result = train(TINY, TEXT)
    held_out = corpus_from(TEXT, TINY.context).held_out
    assert (result.unigram, result.bigram) == (unigram_entropy(held_out), bigram_entropy(held_out))


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, again, other = (repeatable(train(replace(TINY, seed=seed), TEXT)) for seed in (4, 4, 5))
    assert first == again
    assert first["sample"] != other["sample"]
    assert first["first_loss"] != other["first_loss"]


def test_the_first_loss_is_near_that_of_a_guess() -> None:
    result = train(replace(TINY, width=64), TEXT)
    assert abs(result.first_loss - math.log(len(set(TEXT)))) < 1.5


def test_a_run_stops_at_its_time_limit_and_says_so() -> None:
    events: list[Event] = []
    result = train(replace(TINY, steps=100, time_limit_s=10.0), TEXT, tell=events.append, clock=ticking(2.5))
    assert (result.steps, result.stopped_early, len(events)) == (4, True, 5)
    assert [report.seconds_left for report in steps_of(events)] == [7.5, 5.0, 2.5, 0.0]


def test_a_time_limit_reached_by_the_last_step_stops_nothing_early() -> None:
    assert not train(replace(TINY, time_limit_s=7.5), TEXT, clock=ticking(2.5)).stopped_early


def test_a_run_without_a_time_limit() -> None:
    assert train(replace(TINY, time_limit_s=math.inf), TEXT, clock=ticking(1e6)).steps == 3


def test_a_loss_that_is_not_finite_names_the_step_the_kernel_and_the_tensor(tmp_path: Path) -> None:
    """A run that goes up in flames: the message says where that began, and the last good state is still there."""
    config = replace(TINY, steps=20, learning_rate=1e30, clip=0.0, checkpoint_every=1)
    named = r"kernel \w+ at [\w.]+ gives [\w.]+ with (NaN|infinity)"
    with pytest.raises(DivergenceError, match=rf"step 2 of 20: expected a finite loss and gradient, .*; {named}"):
        train(config, TEXT, folder=tmp_path)
    assert [line["step"] for line in read_metrics(tmp_path) if "loss" in line] == [1]


def test_a_weight_that_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    created = create_model

    def spoiled(*arguments: Any) -> Model:
        model = created(*arguments)
        model.parameters["layers.0.attention.W_K"][...] = np.nan
        return model

    monkeypatch.setattr(loop, "create_model", spoiled)
    with pytest.raises(
        DivergenceError, match=r"step 1 of 3: .*the weight layers.0.attention.W_K of kernel .* holds NaN"
    ):
        train(TINY, TEXT)


def test_weights_that_are_not_finite_do_not_replace_the_last_good_state(tmp_path: Path) -> None:
    config = replace(TINY, steps=9, dtype="float64", learning_rate=1e308, weight_decay=1e3, checkpoint_every=1)
    with pytest.raises(DivergenceError, match=r"after step 1 of 9: expected finite weights, found \S+ with (NaN|inf)"):
        train(config, TEXT, folder=tmp_path)
    state = load(tmp_path)
    assert state.step == 0
    assert all(np.isfinite(values).all() for values in state.weights.values())


@pytest.mark.parametrize("steps", [1, 5])
def test_a_held_out_loss_that_is_not_finite_ends_the_run(steps: int, tmp_path: Path) -> None:
    """The last update has no later loss to show what it has done; an evaluation may come before one."""
    config = replace(TINY, steps=steps, learning_rate=1e30, warm_up=0, clip=0.0, evaluate_every=1)
    named = r"kernel \w+ at [\w.]+ gives [\w.]+ with (NaN|infinity), and none before it does; lower the largest"
    message = rf"after step 1 of {steps}: expected a finite held-out loss, found (nan|inf); {named}"
    for folder in (tmp_path, None) if steps == 1 else (tmp_path,):
        with pytest.raises(DivergenceError, match=message):
            train(config, TEXT, folder=folder)
    assert not any("heldout_loss" in line for line in read_metrics(tmp_path))


def test_a_sample_that_cannot_be_drawn_ends_the_run(tmp_path: Path) -> None:
    config = replace(TINY, steps=5, learning_rate=1e30, warm_up=0, clip=0.0, evaluate_every=0, sample_every=1)
    with pytest.raises(DivergenceError, match="after token 1: expected finite logits to draw the next from"):
        train(config, TEXT, folder=tmp_path)


def test_a_gradient_too_long_to_be_measured_names_the_kernel_that_measures_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry is finite in float32, the sum of their squares is not."""
    created = create_model

    def steep(*arguments: Any) -> Model:
        model = created(*arguments)
        model.parameters["head.W"][...] *= 1e25
        return model

    monkeypatch.setattr(loop, "create_model", steep)
    with pytest.raises(
        DivergenceError, match=r"length inf .* kernel gradient_clipping at the update gives norm with inf"
    ):
        train(TINY, TEXT)


def test_the_sample_is_text_of_the_length_asked_for() -> None:
    sample = train(replace(TINY, sample_length=40), TEXT).sample
    assert len(sample) == 40
    assert set(sample) <= set(TEXT)
    assert train(replace(TINY, sample_length=0), TEXT).sample == ""


def test_a_text_without_a_line_break_can_be_sampled() -> None:
    assert set(train(TINY, "ab" * 200).sample) <= {"a", "b"}


def test_training_learns_what_a_bigram_cannot_know() -> None:
    """What follows an `a` depends on where in the word it stands; a context of six characters settles it."""
    config = replace(TINY, width=32, batch=16, steps=150, learning_rate=1e-2, warm_up=10, evaluation_windows=64)
    result = train(config, "abacabad" * 200)
    assert result.bigram > 0.5
    assert result.heldout_loss < 0.7 * result.bigram
    assert result.train_loss < result.first_loss


def test_the_default_shape_learns_english() -> None:
    """Far fewer steps than the default run: enough to leave the unigram entropy behind."""
    result = train(replace(TrainingConfig(), steps=100, warm_up=20, evaluation_windows=64), default_text())
    assert result.heldout_loss < result.unigram


def test_a_kernel_that_was_not_generated() -> None:
    with pytest.raises(KernelMissingError, match=r"kernel attention_of_none: .*run `gradproof generate`"):
        kernels.forward_kernel("attention_of_none")


@pytest.mark.parametrize(
    "options", [{}, {"positions": "rotary", "norm": "rms", "dropout": 0.1, "activation": "swiglu"}]
)
@pytest.mark.parametrize("process", [None, "markov:order=1,symbols=3,length=900"])
def test_kernels_are_looked_for_before_a_run_and_no_others(
    options: dict[str, Any], process: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[tuple[str, ...]] = set()
    genuine = kernels.kernel

    def listened(*words: str) -> Any:
        asked.add(words[:2])
        return genuine(*words)

    for module in (kernels, cache, model, presence, sampling):
        monkeypatch.setattr(module, "kernel", listened)
    config, source = replace(TINY, **options), open_source(process=process) if process else TEXT
    check_kernels(config, process=process is not None)
    looked_for = set(asked)
    asked.clear()
    monkeypatch.setattr(loop, "check_kernels", lambda *_, **__: None)
    train(config, source)
    assert asked == looked_for


def test_a_run_without_its_kernels_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: str) -> Any:
        raise KernelMissingError("kernel adamw: none")

    monkeypatch.setattr(presence, "plain_kernel", missing)
    with pytest.raises(KernelMissingError):
        train(TINY, TEXT, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_kernel_without_the_function_asked_for() -> None:
    with pytest.raises(KernelMissingError, match=r"kernel adamw: expected a function adamw_sideways in"):
        kernels.kernel("adamw", "adamw_sideways")


def test_a_kernel_that_misses_something_itself_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str, package: str | None = None) -> ModuleType:
        raise ModuleNotFoundError("No module named 'numpy.fft'", name="numpy.fft")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        kernels.forward_kernel("kernel_with_a_missing_import")


# No array is touched outside a kernel. --------------------------------------------------------------------------------


class Untouchable(np.ndarray[Any, Any]):
    """An array that can be sliced, reshaped, cast and copied; any function that computes on it fails."""

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> Any:
        pytest.fail(f"training applied {ufunc.__name__} to an array; only kernels may")

    def __array_function__(self, function: Callable[..., Any], _: Any, arguments: Any, keywords: Any) -> Any:
        if function not in {np.copyto, np.zeros_like, np.full_like}:
            pytest.fail(f"training applied {function.__name__} to an array; only kernels may")
        return function(*map(bare, arguments), **{key: bare(value) for key, value in keywords.items()})


@dataclass(frozen=True)
class Sealed:
    """What a forward pass saved, for its backward pass alone."""

    value: Any


def bare(value: Any) -> Any:
    """The value as a kernel, or a permitted function, may see it."""
    if isinstance(value, Sealed):
        return value.value
    return value.view(np.ndarray) if isinstance(value, Untouchable) else value


def sealed_off(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel function, taking untouchable arrays and returning them."""

    @functools.wraps(function)  # the engine looks at the signature
    def call(*arguments: Any, **keywords: Any) -> Any:
        result = function(*map(bare, arguments), **{key: bare(value) for key, value in keywords.items()})
        if function.__name__ == "softmax_forward":  # probabilities are read one by one
            return result[0], Sealed(result[1])
        if name == "truncated_softmax":  # they go to NumPy's generator, which checks that they sum to 1
            return result
        if function.__name__.endswith("_forward"):
            return untouchable(result[0]), Sealed(result[1])
        return tuple(map(untouchable, result)) if isinstance(result, tuple) else untouchable(result)

    return call


def untouchable(array: Array) -> Array:
    return np.asarray(array).view(Untouchable)


def test_a_gradient_that_is_not_finite_stops_before_the_weights_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is finite, the backward pass overflows: the kernel named is the one that overflows."""
    genuine = importlib.import_module("generated.numpy.layer_norm").layer_norm_backward
    made: list[Model] = []
    created = create_model

    def overflowing(*arguments: Any) -> Any:
        return tuple(np.full_like(gradient, np.inf) for gradient in genuine(*arguments))

    def kept(*arguments: Any) -> Model:
        made.append(created(*arguments))
        return made[0]

    monkeypatch.setattr("generated.numpy.layer_norm.layer_norm_backward", overflowing)
    monkeypatch.setattr(loop, "create_model", kept)
    kernels.kernel.cache_clear()
    try:
        with pytest.raises(
            DivergenceError, match=r"step 1 of 3: .* kernel layer_norm at .* gives, backwards, .*infinity"
        ):
            train(TINY, TEXT)
    finally:
        kernels.kernel.cache_clear()
    assert all(np.isfinite(values).all() for values in made[0].parameters.values())


@pytest.mark.parametrize(
    ("options", "kernels_called"),
    [
        ({}, "feed_forward layer_norm self_attention self_attention_keys self_attention_step token_embedding"),
        (
            {"norm": "rms", "positions": "rotary", "activation": "swiglu", "dropout": 0.2, "tied": True, "threads": 2,
             "micro_batches": 2},
            "dropout_draws embedding rms_norm self_attention_rotary self_attention_rotary_keys "
            "self_attention_rotary_step swiglu",
        ),
    ],
)  # fmt: skip
def test_while_a_run_trains_no_array_is_touched_outside_a_kernel(
    options: dict[str, Any], kernels_called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(TINY, width=16, **options)
    called: set[str] = set()
    genuine = importlib.import_module
    zeros = engine_numpy.NumpyArrays.zeros

    def sealed_module(path: str, package: str | None = None) -> ModuleType | SimpleNamespace:
        module = genuine(path, package)
        if not path.startswith("generated.numpy.") or path.endswith(".workspace"):
            return module
        name = path.rpartition(".")[2]
        called.add(name)
        functions = inspect.getmembers(module, inspect.isfunction)
        return SimpleNamespace(**{key: sealed_off(name, function) for key, function in functions})

    def untouchable_zeros(self: engine_numpy.NumpyArrays, shape: Any, *, weights: bool = False) -> Array:
        return untouchable(zeros(self, shape, weights=weights))

    monkeypatch.setattr(importlib, "import_module", sealed_module)
    monkeypatch.setattr(engine_numpy.NumpyArrays, "zeros", untouchable_zeros)
    kernels.kernel.cache_clear()
    try:
        guarded = train(config, TEXT)
    finally:
        kernels.kernel.cache_clear()
    monkeypatch.undo()
    free = train(config, TEXT)
    assert repeatable(guarded) == repeatable(free)
    always = "adamw addition cross_entropy gradient_clipping read_out softmax step_size truncated_softmax"
    assert called == {*always.split(), *kernels_called.split()}


@pytest.mark.parametrize(
    "computation",
    [lambda x: x + x, lambda x: x @ x, lambda x: -x, lambda x: x < 0, np.exp, np.sum, lambda x: x.sum()],
)
def test_an_untouchable_array_refuses(computation: Callable[[Any], Any]) -> None:
    with pytest.raises(pytest.fail.Exception, match="only kernels may"):
        computation(np.ones((2, 2)).view(Untouchable))


def test_runs_in_several_threads_give_back_what_they_set_for_the_process() -> None:
    """A run that begins during another one finds what that one has set."""
    libraries = ThreadpoolController()
    first, second = ExitStack(), ExitStack()

    def threads() -> list[int]:
        return [library["num_threads"] for library in libraries.info() if library["user_api"] == "blas"]

    with libraries.limit(limits=2, user_api="blas"):
        before = threads(), list(warnings.filters)
        for run in (first, second):
            run.enter_context(on_one_thread(libraries))
            run.enter_context(without_warnings())
        first.close()
        assert set(threads()) <= {1}
        assert warnings.filters[0][:3:2] == ("ignore", RuntimeWarning)
        second.close()
        assert (threads(), list(warnings.filters)) == before

"""The whole run: what it reports, that it repeats, when it stops, and that it touches no array outside a kernel."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradproof.training import (
    DivergenceError,
    KernelMissingError,
    StepReport,
    TrainingConfig,
    TrainingResult,
    default_text,
    kernels,
    loop,
    sampling,
    train,
)
from gradproof.training.data import Ids, corpus_from
from gradproof.training.entropy import bigram_entropy, unigram_entropy
from gradproof.training.parameters import Array, FlatArrays

TEXT = "the quick brown fox jumps over the lazy dog\n" * 12
TINY = TrainingConfig(layers=1, width=8, context=6, batch=2, steps=3, sample_length=9, evaluation_windows=4)


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that moves on by so many seconds whenever it is read."""
    ticks = itertools.count()
    return lambda: next(ticks) * seconds


def repeatable(result: TrainingResult) -> dict[str, Any]:
    """All of a result but the pace."""
    return {name: value for name, value in asdict(result).items() if name != "tokens_per_s"}


def test_a_run_reports_every_step() -> None:
    reports: list[StepReport] = []
    result = train(TINY, TEXT, reports.append, ticking(0.5))
    assert [report.step for report in reports] == [1, 2, 3]
    assert {report.steps for report in reports} == {3}
    assert [report.elapsed_s for report in reports] == [0.5, 1.0, 1.5]
    assert [report.seconds_left for report in reports] == [1.0, 0.5, 0.0]
    assert {report.tokens_per_s for report in reports} == {24.0}
    assert result.first_loss == reports[0].loss
    assert result.train_loss == pytest.approx(fmean(report.loss for report in reports))
    assert (result.steps, result.stopped_early, result.tokens_per_s) == (3, False, 24.0)


def test_training_loss_is_the_mean_over_the_last_fifty_steps() -> None:
    reports: list[StepReport] = []
    result = train(replace(TINY, steps=60), TEXT, reports.append)
    assert result.train_loss == pytest.approx(fmean(report.loss for report in reports[10:]))


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
    reports: list[StepReport] = []
    result = train(replace(TINY, steps=100, time_limit_s=10.0), TEXT, reports.append, ticking(2.5))
    assert (result.steps, result.stopped_early, len(reports)) == (4, True, 4)
    assert [report.seconds_left for report in reports] == [7.5, 5.0, 2.5, 0.0]


def test_a_time_limit_reached_by_the_last_step_stops_nothing_early() -> None:
    assert not train(replace(TINY, time_limit_s=7.5), TEXT, clock=ticking(2.5)).stopped_early


def test_a_run_without_a_time_limit() -> None:
    assert train(replace(TINY, time_limit_s=math.inf), TEXT, clock=ticking(1e6)).steps == 3


def test_a_loss_that_is_not_finite_names_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([2.0, math.nan])
    monkeypatch.setattr(loop, "loss_and_gradient", lambda *_: next(losses))
    with pytest.raises(DivergenceError, match=r"step 2 of 3: expected a finite loss, found nan at a learning rate of"):
        train(TINY, TEXT)


def test_the_sample_is_text_of_the_length_asked_for() -> None:
    sample = train(replace(TINY, sample_length=40), TEXT).sample
    assert len(sample) == 40
    assert set(sample) <= set(TEXT)
    assert train(replace(TINY, sample_length=0), TEXT).sample == ""


def test_the_model_sees_what_was_drawn_and_never_more_than_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = corpus_from(TEXT, TINY.context)
    seen: list[list[int]] = []

    def next_in_the_alphabet(_: FlatArrays, tokens: Ids, __: TrainingConfig) -> Array:
        seen.append(tokens[0].tolist())
        return np.where(np.arange(len(corpus.alphabet)) == tokens[:, -1] + 1, 500.0, -500.0)[None]

    monkeypatch.setattr(sampling, "next_character_logits", next_in_the_alphabet)
    weights = FlatArrays(np.zeros(0), {}, 0)
    assert sampling.sample_text(weights, corpus, TINY, np.random.default_rng(0)) == corpus.alphabet[1:10]
    assert seen == [list(range(max(0, last - 5), last + 1)) for last in range(9)]


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
        if function not in {np.copyto, np.zeros_like}:
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

    def call(*arguments: Any, **keywords: Any) -> Any:
        result = function(*map(bare, arguments), **{key: bare(value) for key, value in keywords.items()})
        if name == "softmax":  # its probabilities go to NumPy's generator, which checks that they sum to 1
            return result[0], Sealed(result[1])
        if function.__name__.endswith("_forward"):
            return np.asarray(result[0]).view(Untouchable), Sealed(result[1])
        return tuple(np.asarray(value).view(Untouchable) for value in result)

    return call


def untouchable(arrays: FlatArrays) -> FlatArrays:
    views = {name: view.view(Untouchable) for name, view in arrays.views.items()}
    return FlatArrays(arrays.flat.view(Untouchable), views, arrays.decayed_size)


def test_while_a_run_trains_no_array_is_touched_outside_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()
    genuine = importlib.import_module
    allocate, initial_parameters = loop.allocate, loop.initial_parameters

    def sealed_module(path: str, package: str | None = None) -> ModuleType | SimpleNamespace:
        module = genuine(path, package)
        if not path.startswith("generated.numpy."):
            return module
        name = path.rpartition(".")[2]
        called.add(name)
        functions = inspect.getmembers(module, inspect.isfunction)
        return SimpleNamespace(**{key: sealed_off(name, function) for key, function in functions})

    monkeypatch.setattr(importlib, "import_module", sealed_module)
    monkeypatch.setattr(loop, "allocate", lambda *arguments: untouchable(allocate(*arguments)))
    monkeypatch.setattr(loop, "initial_parameters", lambda *arguments: untouchable(initial_parameters(*arguments)))
    kernels.kernel.cache_clear()
    try:
        guarded = train(TINY, TEXT)
    finally:
        kernels.kernel.cache_clear()
    monkeypatch.undo()
    free = train(TINY, TEXT)
    assert repeatable(guarded) == repeatable(free)
    assert called == {
        *("adamw", "attention_block", "cross_entropy", "feed_forward_block"),
        *("layer_norm", "linear", "softmax", "token_embedding"),
    }


@pytest.mark.parametrize(
    "computation",
    [lambda x: x + x, lambda x: x @ x, lambda x: -x, lambda x: x < 0, np.exp, np.sum, lambda x: x.sum()],
)
def test_an_untouchable_array_refuses(computation: Callable[[Any], Any]) -> None:
    with pytest.raises(pytest.fail.Exception, match="only kernels may"):
        computation(np.ones((2, 2)).view(Untouchable))

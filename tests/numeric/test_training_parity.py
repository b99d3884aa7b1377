"""The whole model, made of generated kernels, against finite differences and against plain PyTorch, for all options."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradproof.training.chain import forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.draws import draws_for
from gradproof.training.model import Ids, Model, create_model
from gradproof.training.optimiser import AdamW, learning_rate_at

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch, which is optional, is not installed")

# Sizes differ from each other, so that no transposed or misplaced axis goes unseen.
SMALL = TrainingConfig(
    layers=2, heads=3, width=12, context=7, batch=4, processes=False, dtype="float64", steps=50, warm_up=5
)
VOCABULARY = 11
ENTRIES_PER_PARAMETER = 4

OPTIONS: dict[str, tuple[Any, Any]] = {
    "key_value_heads": (0, 1),
    "norm": ("layer", "rms"),
    "positions": ("learned", "rotary"),
    "activation": ("gelu", "swiglu"),
    "dropout": (0.0, 0.25),
    "tied": (False, True),
    "clip": (0.0, 0.5),
    "micro_batches": (1, 2),
}
# Every pair of values of two options stands in one of these rows at least (a test counts them); 1 is the second value.
ROWS = ("00000000", "11111100", "11100011", "10011011", "01010110", "00101101", "11111111")
CONFIGS = {
    row: replace(SMALL, **{name: values[int(bit)] for (name, values), bit in zip(OPTIONS.items(), row, strict=True)})
    for row in ROWS
}


def test_every_pair_of_options_is_covered() -> None:
    for (one, two), (first, second) in itertools.product(
        itertools.combinations(range(len(OPTIONS)), 2), itertools.product("01", repeat=2)
    ):
        assert any(row[one] == first and row[two] == second for row in ROWS), (one, two, first, second)


def generic_model(config: TrainingConfig, seed: int = 7) -> Model:
    """A model whose weights are moved away from their first values, so that gains are not 1 and biases not 0."""
    model = create_model(config, VOCABULARY, seed)
    model.weights.flat[:] += np.random.default_rng(seed + 1).normal(0, 0.2, model.weights.flat.shape)
    return model


def batches(config: TrainingConfig, seed: int = 3) -> Iterator[tuple[Ids, Ids]]:
    generator = np.random.default_rng(seed)
    while True:
        ids = generator.integers(0, VOCABULARY, (config.batch, config.context + 1))
        yield ids[:, :-1], ids[:, 1:]


# Against finite differences. -----------------------------------------------------------------------------------------


def difference_quotient(model: Model, name: str, place: tuple[int, ...], batch: tuple[Ids, Ids]) -> float:
    """The derivative of the loss, from central differences at two step sizes (Richardson)."""
    view = model.parameters[name]
    value = view[place]
    step = np.finfo(np.float64).eps ** 0.2 * max(1.0, abs(value))

    def quotient(h: float) -> float:
        losses = []
        for moved in (value + h, value - h):
            view[place] = moved
            losses.append(model.loss(*batch))
        view[place] = value
        return (losses[0] - losses[1]) / (2 * h)

    return (4 * quotient(step / 2) - quotient(step)) / 3


@pytest.mark.parametrize("row", [row for row in ROWS if row[4] == "0"])
def test_gradient_of_the_whole_model_against_finite_differences(row: str) -> None:
    model = generic_model(CONFIGS[row])
    batch = next(batches(model.config))
    model.loss_and_gradients(*batch, step=1)
    for name, gradient in model.gradients.items():
        chosen = np.random.default_rng(len(name)).permutation(gradient.size)[:ENTRIES_PER_PARAMETER]
        for flat_place in chosen:
            place = tuple(int(axis) for axis in np.unravel_index(flat_place, gradient.shape))
            expected = difference_quotient(model, name, place, batch)
            assert gradient[place] == pytest.approx(expected, rel=1e-8, abs=1e-11), (name, place)


@pytest.mark.parametrize("row", ROWS)
def test_every_parameter_has_a_gradient_which_is_written_over(row: str) -> None:
    model = generic_model(CONFIGS[row])
    batch = next(batches(model.config))
    model.loss_and_gradients(*batch, step=1)
    first = model.slopes.flat.copy()
    assert [name for name, gradient in model.gradients.items() if not np.any(gradient)] == []
    model.slopes.flat.fill(np.nan)
    model.loss_and_gradients(*batch, step=1)
    np.testing.assert_array_equal(model.slopes.flat, first)


def test_a_short_window_cannot_be_trained_on() -> None:
    tokens, targets = next(batches(SMALL))
    with pytest.raises(ValueError, match="expected windows of 7 tokens"):
        create_model(SMALL, VOCABULARY).loss_and_gradients(tokens[:, :3], targets[:, :3], 1)


@pytest.mark.parametrize("row", ["00000000", "11101110"])
def test_parts_and_threads_change_the_order_of_additions_only(row: str) -> None:
    bits = dict(zip(OPTIONS, row, strict=True))
    config = replace(SMALL, **{name: OPTIONS[name][int(bit)] for name, bit in bits.items()})
    batch = next(batches(config))
    found = []
    for micro_batches, threads in ((1, 1), (4, 1), (4, 2), (4, 3), (2, 4)):
        model = generic_model(replace(config, micro_batches=micro_batches, threads=threads))
        found.append((model.loss_and_gradients(*batch, step=3), model.slopes.flat))
    for loss, flat in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-14)
        np.testing.assert_allclose(flat, found[0][1], rtol=1e-10, atol=1e-15)


def test_threads_give_the_same_bits_each_time() -> None:
    config = replace(SMALL, dtype="float32", micro_batches=4, threads=3, dropout=0.2)
    batch = next(batches(config))
    runs = []
    for _ in range(5):
        model = generic_model(config)
        runs.append((model.loss_and_gradients(*batch, step=3), model.slopes.flat.tobytes()))
    assert len(set(runs)) == 1


# The same model in plain PyTorch. -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    """Arrays this small are quicker on one thread."""
    before = torch.get_num_threads() if torch else 1
    if torch:
        torch.set_num_threads(1)
    yield
    if torch:
        torch.set_num_threads(before)


def plain() -> Any:
    """The module of the benchmarks, which lie beside the tests and are not installed."""
    path = Path(__file__).parents[2] / "benchmarks" / "plain_gpt.py"
    spec = importlib.util.spec_from_file_location("plain_gpt", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.get("plain_gpt")
    if module is None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["plain_gpt"] = module
        spec.loader.exec_module(module)
    return module


def twin_of(model: Model) -> Any:
    """The plain PyTorch model with the same weights."""
    twin = plain().PlainGPT(model.config, model.vocabulary).to(torch.float64)
    plain().load(twin, model.state())
    return twin


def draw_alike(twin: Any, config: TrainingConfig, step: int) -> None:
    """Give the twin the draws that dropout goes by in a step."""
    drawn = list(draws_for(forward_steps(config, dropout=True), config, step, range(config.batch)).values())
    layers = [twin.drop, *(block[2] for block in twin.blocks)]
    for layer, draw in itertools.zip_longest(layers, drawn):
        layer.draw = None if draw is None else torch.tensor(draw, dtype=torch.float64)


def plain_training(twin: Any, config: TrainingConfig) -> list[float]:
    """The losses of `config.steps` steps of torch.optim.AdamW."""
    optimiser = torch.optim.AdamW(
        twin.decay_groups(config.weight_decay), betas=(config.beta_1, config.beta_2), eps=config.eps
    )
    losses = []
    for step, (tokens, targets) in zip(range(1, config.steps + 1), batches(config), strict=False):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate_at(step, config)
        draw_alike(twin, config, step)
        optimiser.zero_grad()
        loss = twin.loss(torch.tensor(tokens), torch.tensor(targets))
        loss.backward()
        if config.clip:
            torch.nn.utils.clip_grad_norm_(twin.parameters(), config.clip)
        optimiser.step()
        losses.append(loss.item())
    return losses


def training(model: Model) -> list[float]:
    """The losses of as many steps of ours."""
    optimiser = AdamW(model)
    losses = []
    for step, batch in zip(range(1, model.config.steps + 1), batches(model.config), strict=False):
        losses.append(model.loss_and_gradients(*batch, step))
        optimiser.update(step, learning_rate_at(step, model.config))
    return losses


@needs_torch
@pytest.mark.parametrize("row", ROWS)
def test_gradient_of_the_whole_model_against_autograd(row: str) -> None:
    model = generic_model(CONFIGS[row])
    twin = twin_of(model)
    tokens, targets = next(batches(model.config))
    ours = model.loss_and_gradients(tokens, targets, step=2)
    draw_alike(twin, model.config, step=2)
    loss = twin.loss(torch.tensor(tokens), torch.tensor(targets))
    loss.backward()
    assert ours == pytest.approx(loss.item(), abs=1e-13)
    seen = set()
    for parameter, names in plain().named_weights(twin, model.parameters):
        seen.update(names)
        expected = plain().joined(parameter, names, model.gradients)
        np.testing.assert_allclose(expected, parameter.grad.numpy(), rtol=1e-10, atol=1e-14, err_msg=str(names))
    assert seen == set(model.parameters)


@needs_torch
@pytest.mark.parametrize("row", ROWS)
def test_fifty_steps_of_training_against_pytorch(row: str) -> None:
    model = generic_model(CONFIGS[row])
    theirs = plain_training(twin_of(model), model.config)
    ours = training(model)
    assert len(set(ours)) == 50
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@needs_torch
@pytest.mark.parametrize("row", ["00000000", "11111111"])
def test_fifty_steps_in_float32_stay_close(row: str) -> None:
    exact = generic_model(CONFIGS[row])
    single = create_model(replace(CONFIGS[row], dtype="float32"), VOCABULARY)
    single.load_state({name: value.astype("float32") for name, value in exact.state().items()})
    twin = twin_of(single)
    # The draws are float32's, so that both drop the same.
    theirs = plain_training(twin, replace(CONFIGS[row], dtype="float32"))
    ours = training(single)
    assert {single.weights.flat.dtype, single.slopes.flat.dtype} == {np.dtype("float32")}
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@needs_torch
@pytest.mark.parametrize("row", ["00000000", "11111111"])
def test_windows_shorter_than_the_context(row: str) -> None:
    model = generic_model(CONFIGS[row])
    twin = twin_of(model).eval()
    tokens, targets = next(batches(model.config))
    for length in range(1, model.config.context):
        with torch.no_grad():
            expected = twin.loss(torch.tensor(tokens[:, :length]), torch.tensor(targets[:, :length])).item()
        assert model.loss(tokens[:, :length], targets[:, :length]) == pytest.approx(expected, abs=1e-12)


# The optimiser and the cache. -----------------------------------------------------------------------------------------


def test_decay_reaches_matrices_and_embeddings_only() -> None:
    model = generic_model(replace(SMALL, weight_decay=0.5))
    before = model.state()
    assert AdamW(model).update(1, 0.1) == 0.0
    for name, view in model.parameters.items():
        np.testing.assert_allclose(view, before[name] * (0.95 if view.ndim > 1 else 1.0), rtol=1e-15, err_msg=name)


@pytest.mark.parametrize("clip", [0.0, 0.5, 100.0])
def test_the_norm_is_that_of_the_whole_gradient(clip: float) -> None:
    model = generic_model(replace(SMALL, clip=clip))
    model.loss_and_gradients(*next(batches(SMALL)), step=1)
    before = model.slopes.flat.copy()
    optimiser = AdamW(model)
    norm = optimiser.update(1, 0.1)
    assert norm == pytest.approx(math.sqrt(float(before @ before)), rel=1e-12)
    scale = min(1.0, clip / (norm + 1e-6)) if clip else 1.0
    means = np.concatenate([v.ravel() for k, v in optimiser.state().items() if k.startswith("first_moment.")])
    np.testing.assert_allclose(np.sort(means), np.sort((1 - SMALL.beta_1) * before * scale), rtol=1e-12)
    np.testing.assert_array_equal(model.slopes.flat, before)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("pieces", [(7,), (1,) * 7, (3, 1, 2, 1)])
def test_logits_with_a_cache_are_those_without(row: str, pieces: tuple[int, ...]) -> None:
    model = generic_model(CONFIGS[row])
    tokens, _ = next(batches(model.config))
    cache = model.new_cache(len(tokens))
    starts = itertools.accumulate(pieces, initial=0)
    found = [model.logits(tokens[:, start : start + size], cache) for start, size in zip(starts, pieces, strict=False)]
    assert cache.length == 7
    np.testing.assert_allclose(np.concatenate(found, axis=1), model.logits(tokens), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="expected at most 0 more"):
        model.logits(tokens[:, :1], cache)
    with pytest.raises(ValueError, match="expected 4 texts"):
        model.logits(tokens[:1, :1], cache)


@pytest.mark.parametrize("row", ["00000000", "11111111"])
def test_state_carries_a_run_on_to_the_same_bits(row: str) -> None:
    config = replace(CONFIGS[row], steps=6)

    def run(model: Model, optimiser: AdamW, steps: range) -> None:
        for step, batch in zip(range(1, 7), batches(config), strict=False):
            if step in steps:
                model.loss_and_gradients(*batch, step)
                optimiser.update(step, learning_rate_at(step, config))

    whole, first, second = generic_model(config), generic_model(config), create_model(config, VOCABULARY, 99)
    run(whole, AdamW(whole), range(1, 7))
    before, after = AdamW(first), AdamW(second)
    run(first, before, range(1, 4))
    second.load_state(first.state())
    after.load_state(before.state())
    run(second, after, range(4, 7))
    np.testing.assert_array_equal(second.weights.flat, whole.weights.flat)


def test_a_state_that_does_not_fit_is_refused_by_name() -> None:
    model = create_model(SMALL, VOCABULARY)
    state = model.state()
    for change, message in (
        ({"head.W": None}, r"weights: head\.W: .* found none"),
        ({"other": np.zeros(3)}, r"weights: other: .* found one that this model does not have"),
        (
            {"head.W": np.zeros((11, 13))},
            r"weights: head\.W: .* of shape \(11, 12\), found float64 of shape \(11, 13\)",
        ),
        ({"head.W": np.zeros((11, 12), int)}, r"weights: head\.W: expected floating-point numbers .* found int64"),
    ):
        damaged = {name: value for name, value in {**state, **change}.items() if value is not None}
        with pytest.raises(ValueError, match=message):
            model.load_state(damaged)

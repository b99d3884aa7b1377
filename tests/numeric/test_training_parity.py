"""The whole model, made of generated kernels, against finite differences and against plain PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradproof.training.config import TrainingConfig, learning_rate_at
from gradproof.training.data import Batch, corpus_from, default_text
from gradproof.training.loop import random_batches, training_steps
from gradproof.training.model import loss_and_gradient, loss_of
from gradproof.training.optimiser import AdamW
from gradproof.training.parameters import (
    Array,
    FlatArrays,
    ParameterSpec,
    allocate,
    initial_parameters,
    parameter_specs,
)

try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch, which is optional, is not installed")

# Sizes differ from each other, so that no transposed or misplaced axis goes unseen.
SMALL = TrainingConfig(layers=2, heads=3, width=12, context=7, batch=5, dtype="float64")
VOCABULARY = 11
ENTRIES_PER_PARAMETER = 6


def generic_parameters(specs: tuple[ParameterSpec, ...], generator: np.random.Generator) -> FlatArrays:
    """Weights moved away from their first values, so that gains are not 1 and biases not 0."""
    parameters = initial_parameters(specs, "float64", generator)
    parameters.flat[:] += generator.normal(0, 0.2, parameters.flat.shape)
    return parameters


def random_ids(config: TrainingConfig, generator: np.random.Generator) -> Batch:
    shape = (config.batch, config.context)
    return generator.integers(0, VOCABULARY, shape), generator.integers(0, VOCABULARY, shape)


def difference_quotient(parameters: FlatArrays, entry: tuple[str, tuple[int, ...]], batch: Batch) -> float:
    """The derivative of the loss in one entry, by central differences extrapolated once.

    The error of the extrapolated quotient is O(h^4) from truncation and O(epsilon / h) from rounding; the fifth root of
    epsilon balances the two.
    """
    name, place = entry
    view = parameters.views[name]
    value = view[place]
    step = np.finfo(np.float64).eps ** 0.2 * max(1.0, abs(value))

    def quotient(h: float) -> float:
        losses = []
        for moved in (value + h, value - h):
            view[place] = moved
            losses.append(loss_of(parameters, batch, SMALL))
        view[place] = value
        return (losses[0] - losses[1]) / (2 * h)

    return (4 * quotient(step / 2) - quotient(step)) / 3


@pytest.fixture(scope="module")
def small() -> tuple[FlatArrays, FlatArrays, Batch]:
    """Weights of the small model, the gradient there, and the batch it is the gradient of."""
    generator = np.random.default_rng(7)
    specs = parameter_specs(SMALL, VOCABULARY)
    parameters, gradients = generic_parameters(specs, generator), allocate(specs, "float64")
    batch = random_ids(SMALL, generator)
    loss_and_gradient(parameters, gradients, batch, SMALL)
    return parameters, gradients, batch


@pytest.mark.parametrize("name", [spec.name for spec in parameter_specs(SMALL, VOCABULARY)])
def test_gradient_of_the_whole_model_against_finite_differences(
    name: str, small: tuple[FlatArrays, FlatArrays, Batch]
) -> None:
    parameters, gradients, batch = small
    shape = parameters.views[name].shape
    chosen = np.random.default_rng(len(name)).permutation(math.prod(shape))[:ENTRIES_PER_PARAMETER]
    for flat_place in chosen:
        place = tuple(int(axis) for axis in np.unravel_index(flat_place, shape))
        expected = difference_quotient(parameters, (name, place), batch)
        assert gradients.views[name][place] == pytest.approx(expected, rel=1e-9, abs=1e-11), place


def test_every_parameter_has_a_gradient(small: tuple[FlatArrays, FlatArrays, Batch]) -> None:
    _, gradients, _ = small
    assert [name for name, gradient in gradients.views.items() if not np.any(gradient)] == []


def test_gradients_are_written_over_not_added(small: tuple[FlatArrays, FlatArrays, Batch]) -> None:
    parameters, gradients, batch = small
    again = allocate(parameter_specs(SMALL, VOCABULARY), "float64")
    again.flat.fill(np.nan)
    loss_and_gradient(parameters, again, batch, SMALL)
    np.testing.assert_array_equal(again.flat, gradients.flat)


def test_a_short_window_cannot_be_trained_on(small: tuple[FlatArrays, FlatArrays, Batch]) -> None:
    parameters, gradients, (tokens, targets) = small
    with pytest.raises(ValueError, match="expected windows of 7 characters"):
        loss_and_gradient(parameters, gradients, (tokens[:, :3], targets[:, :3]), SMALL)


# The same model in plain PyTorch. -------------------------------------------------------------------------------------

Tensors = dict[str, Any]  # torch is optional, so its types are not named


def tensors_of(parameters: FlatArrays) -> Tensors:
    return {name: torch.tensor(view, requires_grad=True) for name, view in parameters.views.items()}


def torch_attention(x: Any, weights: Tensors, place: str, config: TrainingConfig) -> Any:
    normed = functional.layer_norm(x, (config.width,), weights[f"{place}.gamma"], weights[f"{place}.beta"], 1e-5)
    q, k, v = (torch.einsum("btc,hdc->bhtd", normed, weights[f"{place}.W_{symbol}"]) for symbol in "QKV")
    scores = q @ k.transpose(-1, -2) / math.sqrt(config.head_width)
    length = scores.shape[-1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    heads = scores.masked_fill(future, -math.inf).softmax(dim=-1) @ v
    return x + torch.einsum("bhtd,chd->btc", heads, weights[f"{place}.W_O"])


def torch_feed_forward(x: Any, weights: Tensors, place: str, config: TrainingConfig) -> Any:
    normed = functional.layer_norm(x, (config.width,), weights[f"{place}.gamma"], weights[f"{place}.beta"], 1e-5)
    hidden = functional.gelu(functional.linear(normed, weights[f"{place}.W_1"], weights[f"{place}.b_1"]))
    return x + functional.linear(hidden, weights[f"{place}.W_2"], weights[f"{place}.b_2"])


def torch_logits(weights: Tensors, tokens: Array, config: TrainingConfig) -> Any:
    x = weights["embedding.E"][torch.tensor(tokens)] + weights["embedding.P"][: tokens.shape[-1]]
    for layer in range(config.layers):
        x = torch_attention(x, weights, f"layers.{layer}.attention", config)
        x = torch_feed_forward(x, weights, f"layers.{layer}.feed_forward", config)
    x = functional.layer_norm(x, (config.width,), weights["final_norm.gamma"], weights["final_norm.beta"], 1e-5)
    return functional.linear(x, weights["head.W"], weights["head.b"])


def torch_loss(weights: Tensors, batch: Batch, config: TrainingConfig) -> Any:
    tokens, targets = batch
    return functional.cross_entropy(
        torch_logits(weights, tokens, config).flatten(0, 1), torch.tensor(targets).flatten()
    )


def torch_training(weights: Tensors, batches: Iterator[Batch], config: TrainingConfig) -> list[float]:
    """The losses of `config.steps` steps; matrices are decayed, gains and biases are not."""
    vectors = [weight for weight in weights.values() if weight.ndim == 1]
    others = [weight for weight in weights.values() if weight.ndim > 1]
    groups = [{"params": others, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, betas=(config.beta_1, config.beta_2), eps=1e-8)
    losses = []
    for step in range(1, config.steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate_at(step, config)
        optimiser.zero_grad()
        loss = torch_loss(weights, next(batches), config)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@needs_torch
def test_gradient_of_the_whole_model_against_autograd(small: tuple[FlatArrays, FlatArrays, Batch]) -> None:
    parameters, gradients, batch = small
    weights = tensors_of(parameters)
    torch_loss(weights, batch, SMALL).backward()
    for name, weight in weights.items():
        np.testing.assert_allclose(gradients.views[name], weight.grad, rtol=1e-11, atol=1e-14, err_msg=name)


@needs_torch
@pytest.mark.parametrize("length", range(1, SMALL.context))
def test_windows_shorter_than_the_context(length: int, small: tuple[FlatArrays, FlatArrays, Batch]) -> None:
    parameters, _, (tokens, targets) = small
    batch = tokens[:, :length], targets[:, :length]
    with torch.no_grad():
        expected = torch_loss(tensors_of(parameters), batch, SMALL).item()
    assert loss_of(parameters, batch, SMALL) == pytest.approx(expected, abs=1e-12)


@needs_torch
@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(batch=3, steps=10, warm_up=4, weight_decay=0.1, dtype="float64"),
        replace(SMALL, steps=10, warm_up=0, layers=3, beta_1=0.8, beta_2=0.999, seed=5),
    ],
    ids=["the default shape", "three heads, three layers"],
)
def test_ten_steps_of_the_whole_training_against_pytorch(config: TrainingConfig) -> None:
    corpus = corpus_from(default_text(), config.context)
    specs = parameter_specs(config, len(corpus.alphabet))
    parameters = generic_parameters(specs, np.random.default_rng(config.seed))
    weights = tensors_of(parameters)
    theirs = torch_training(weights, random_batches(corpus, config, np.random.default_rng(1)), config)
    batches = random_batches(corpus, config, np.random.default_rng(1))
    ours = [report.loss for report in training_steps(parameters, allocate(specs, "float64"), batches, config)]
    assert len(set(ours)) == 10
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    for name, weight in weights.items():
        np.testing.assert_allclose(parameters.views[name], weight.detach(), rtol=0, atol=1e-9, err_msg=name)


def test_decay_reaches_matrices_and_embeddings_only() -> None:
    specs = parameter_specs(SMALL, VOCABULARY)
    parameters = generic_parameters(specs, np.random.default_rng(3))
    before = {name: view.copy() for name, view in parameters.views.items()}
    optimiser = AdamW(parameters, replace(SMALL, weight_decay=0.5))
    optimiser.update(allocate(specs, "float64"), 1, 0.1)
    for name, view in parameters.views.items():
        np.testing.assert_allclose(view, before[name] * (0.95 if view.ndim > 1 else 1.0), rtol=1e-15, err_msg=name)


def test_float32_stays_float32_and_close_to_float64() -> None:
    config = replace(SMALL, steps=5, dtype="float32")
    corpus = corpus_from(default_text(), config.context)
    specs = parameter_specs(config, len(corpus.alphabet))
    losses = {}
    for dtype in ("float32", "float64"):
        parameters = initial_parameters(specs, dtype, np.random.default_rng(0))
        batches = itertools.islice(random_batches(corpus, config, np.random.default_rng(1)), config.steps)
        gradients = allocate(specs, dtype)
        losses[dtype] = [report.loss for report in training_steps(parameters, gradients, batches, config)]
        assert {parameters.flat.dtype, gradients.flat.dtype} == {np.dtype(dtype)}
    np.testing.assert_allclose(losses["float32"], losses["float64"], rtol=1e-4)

"""Generation: with a cache and without, cut to the likeliest tokens; the probability of a text by the chain rule."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradproof.training import SamplingError, TrainingConfig
from gradproof.training.data import Vocabulary
from gradproof.training.kernels import kernel
from gradproof.training.model import Model, create_model
from gradproof.training.sampling import (
    Sampling,
    conditionals_of,
    generate,
    log_probability,
    sample_text,
    window_start,
)

VOCABULARY = 11
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary, grouped, rms, swiglu": {
        "positions": "rotary", "key_value_heads": 2, "norm": "rms", "activation": "swiglu", "tied": True, "dropout": 0.3
    },
}  # fmt: skip


def model_of(shape: str, dtype: str = "float32", context: int = 9) -> Model:
    """A model with weights far from their first values, so that its distributions are far from uniform."""
    config = TrainingConfig(layers=2, heads=4, width=16, context=context, dtype=dtype, **SHAPES[shape])  # type: ignore[arg-type]
    model = create_model(config, VOCABULARY, 3)
    generator = np.random.default_rng(5)
    for values in model.parameters.values():
        values += generator.normal(0, 0.3, values.shape)
    return model


def drawn_from(model: Model, length: int, *, cached: bool, sampling: Sampling = Sampling()) -> list[tuple[int, float]]:  # noqa: B008
    found = generate(model, [4, 2], length, sampling, np.random.default_rng(1), cached=cached)
    return [(each.token, each.conditional) for each in found]


# The cache. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-5), ("float64", 1e-12)])
def test_logits_with_a_cache_are_those_without(shape: str, dtype: str, bound: float) -> None:
    model = model_of(shape, dtype)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (3, 9))
    expected = model.logits(tokens)
    for cuts in ([1, 2, 3, 4, 5, 6, 7, 8], [4], [1, 7], []):
        cache = model.new_cache(3)
        pieces = [model.logits(tokens[:, start:end], cache) for start, end in itertools.pairwise([0, *cuts, 9])]
        found = np.concatenate(pieces, axis=1)
        assert np.abs(found - expected).max() <= bound * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_text_with_a_cache_and_without_also_past_the_context(shape: str) -> None:
    model = model_of(shape)
    with_cache, without = (drawn_from(model, 40, cached=cached) for cached in (True, False))
    assert [token for token, _ in with_cache] == [token for token, _ in without]
    np.testing.assert_allclose([p for _, p in with_cache], [p for _, p in without], atol=1e-5)


@given(known=st.integers(1, 400), context=st.integers(1, 40))
def test_window_is_never_longer_than_the_context_and_moves_seldom(known: int, context: int) -> None:
    start = window_start(known, context)
    assert 0 <= start < known
    assert known - start <= context
    if known <= context:
        assert start == 0
    else:
        assert known - start >= max(1, context // 2)
    assert window_start(known + 1, context) >= start
    moves = {window_start(each, context) for each in range(known, known + context // 2)}
    assert len(moves) <= 2


# The chain rule. ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [1, 7, 8, 40])
def test_log_probability_of_a_text_is_the_sum_of_its_conditionals(shape: str, length: int) -> None:
    """Found while drawing, token by token with a cache, and from the finished text in whole windows without one."""
    model = model_of(shape, "float64")
    drawn = drawn_from(model, length, cached=True, sampling=Sampling(temperature=0.7, top_k=5))
    again = conditionals_of(model, [4, 2, *(token for token, _ in drawn)], 2)
    np.testing.assert_allclose(again, [p for _, p in drawn], rtol=1e-10)
    assert log_probability(again) == pytest.approx(math.fsum(math.log(p) for _, p in drawn), rel=1e-12)


def test_log_probability_is_the_loss_of_the_text() -> None:
    model = model_of("plain", "float64")
    text = np.random.default_rng(2).integers(0, VOCABULARY, 10)
    loss = model.loss(text[None, :-1], text[None, 1:])
    assert log_probability(conditionals_of(model, text.tolist(), 1)) == pytest.approx(-9 * loss, rel=1e-12)


def test_the_probabilities_of_all_texts_of_a_length_sum_to_one() -> None:
    model = model_of("plain", "float64", context=1)  # so that the window moves within so short a text
    total = sum(
        math.exp(log_probability(conditionals_of(model, [1, *text], 1)))
        for text in itertools.product(range(VOCABULARY), repeat=2)
    )
    assert total == pytest.approx(1, rel=1e-12)


def test_a_text_too_long_for_its_probability_still_has_a_log() -> None:
    assert log_probability([1e-3] * 1000) == pytest.approx(1000 * math.log(1e-3))


# What is drawn from. --------------------------------------------------------------------------------------------------


def kept_by_sorting(logits: np.ndarray[Any, Any], temperature: float, top_k: int, top_p: float) -> np.ndarray[Any, Any]:
    """The distribution that the kernel gives, by sorting and adding up; for logits without ties."""
    weights = np.exp((logits - logits.max()) / temperature)
    weights /= weights.sum()
    order = np.argsort(-weights)
    kept = np.zeros(len(logits), dtype=bool)
    total = 0.0
    for rank, token in enumerate(order):
        if rank >= top_k or total >= top_p:
            break
        kept[token] = True
        total += weights[token]
    cut = np.where(kept, weights, 0)
    return cut / cut.sum()


@settings(max_examples=60)
@given(
    logits=st.lists(st.integers(-40, 40), min_size=2, max_size=12, unique=True),
    temperature=st.sampled_from([0.1, 0.5, 1.0, 3.0]),
    top_k=st.integers(1, 13),
    top_p=st.sampled_from([0.05, 0.3, 0.9, 2.0]),
)
def test_truncated_softmax_keeps_what_sorting_keeps(
    logits: list[int], temperature: float, top_k: int, top_p: float
) -> None:
    values = np.array(logits) / 7
    truncated_softmax = kernel("truncated_softmax", "truncated_softmax")
    found = truncated_softmax(values[None], temperature=temperature, most=top_k, mass=top_p)[0]
    np.testing.assert_allclose(found, kept_by_sorting(values, temperature, top_k, top_p), rtol=1e-12, atol=1e-15)


def test_equal_tokens_are_kept_or_cut_together() -> None:
    truncated_softmax = kernel("truncated_softmax", "truncated_softmax")
    logits = np.array([[1.0, 3.0, 3.0, 0.0]])
    np.testing.assert_allclose(truncated_softmax(logits, temperature=1.0, most=1, mass=2.0), [[0, 0.5, 0.5, 0]])


@pytest.mark.parametrize("sampling", [Sampling(temperature=0), Sampling(top_k=1), Sampling(top_p=1e-9)])
def test_three_ways_to_take_the_likeliest(sampling: Sampling) -> None:
    model = model_of("plain")
    drawn = [token for token, _ in drawn_from(model, 8, cached=True, sampling=sampling)]
    text = [4, 2]
    for token in drawn[:7]:  # as long as the window begins at the first token
        assert token == int(model.logits(np.array([text]))[0, -1].argmax())
        text.append(token)


def test_tokens_are_drawn_as_often_as_the_model_says() -> None:
    model = model_of("plain", "float64", context=1)
    draws = 1500
    expected = {}
    counts: Counter[int] = Counter()
    for seed in range(draws):
        (each,) = generate(model, [3], 1, Sampling(), np.random.default_rng(seed))
        counts[each.token] += 1
        expected[each.token] = each.conditional
    for token, probability in expected.items():
        assert counts[token] / draws == pytest.approx(probability, abs=5 * math.sqrt(probability / draws))


@pytest.mark.parametrize(
    ("settings_of", "message"),
    [
        ({"temperature": -1.0}, "temperature must be 0, or at least"),
        ({"temperature": 1e-9}, "temperature must be 0, or at least"),
        ({"temperature": math.nan}, "temperature must be 0, or at least"),
        ({"temperature": math.inf}, "temperature must be 0, or at least"),
        ({"top_k": -1}, "top_k must be at least 0"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1"),
        ({"top_p": math.nan}, "top_p must be above 0"),
    ],
)
def test_settings_that_nothing_can_be_drawn_with(settings_of: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplingError, match=message):
        Sampling(**settings_of)


def test_sample_begins_after_a_line_break_and_repeats_with_the_seed() -> None:
    model = model_of("plain")
    vocabulary = Vocabulary("\nabcdefghij")
    samples = [sample_text(model, vocabulary, 30, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    tokens = [each.token for each in generate(model, [0], 30, Sampling(), np.random.default_rng(1))]
    assert vocabulary.decode(tokens) == samples[0]
    assert sample_text(model, vocabulary, 0, np.random.default_rng(1)) == ""

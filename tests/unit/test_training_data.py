"""What training is fed: text and windows, the entropies beside the losses, the settings, the layout of weights."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradproof.training import ConfigurationError, DataError, TrainingConfig, default_text, read_text
from gradproof.training.config import learning_rate_at
from gradproof.training.data import Corpus, corpus_from, evaluation_batches, random_batch
from gradproof.training.entropy import bigram_entropy, unigram_entropy
from gradproof.training.parameters import allocate, initial_parameters, parameter_specs

# The text. ------------------------------------------------------------------------------------------------------------


def test_default_text_is_the_topics_in_the_order_of_their_names() -> None:
    from pydoc_data.topics import topics

    text = default_text()
    first, last = min(topics), max(topics)
    assert text.startswith(topics[first])
    assert text.endswith(topics[last])
    assert len(text) == sum(map(len, topics.values())) + len(topics) - 1


def test_file_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffvoilà\r\n数学\n".encode())
    assert read_text(path) == "voilà\r\n数学\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected text, found an empty file"),
        (b"\xef\xbb\xbf", "expected text, found an empty file"),
        (b"caf\xe9!", "expected UTF-8 text, found byte 0xe9 at offset 3"),
    ],
)
def test_file_that_cannot_be_trained_on(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_text(path)
    assert str(path) in str(caught.value)


def test_file_that_is_missing_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(DataError, match="expected a readable text file"):
        read_text(tmp_path)


def test_characters_are_numbered_in_code_point_order_and_the_last_tenth_held_out() -> None:
    text = "banana😀é\n" * 10
    corpus = corpus_from(text, 3)
    assert corpus.alphabet == "".join(sorted(set(text)))
    assert (len(corpus.train), len(corpus.held_out)) == (81, 9)
    assert corpus.decode([*corpus.train.tolist(), *corpus.held_out.tolist()]) == text
    assert corpus.train.dtype == corpus.held_out.dtype == np.int64


def test_text_too_short_for_the_context() -> None:
    with pytest.raises(DataError, match=r"has 649 characters; a context of 64 needs at least 650"):
        corpus_from("x" * 649, 64)
    assert len(corpus_from("x" * 650, 64).held_out) == 65


# Windows. -------------------------------------------------------------------------------------------------------------

IDS = np.arange(100, dtype=np.int64)  # an id is its own position


def test_random_batches_are_windows_and_what_follows_them() -> None:
    starts = set()
    generator = np.random.default_rng(0)
    for _ in range(300):
        tokens, targets = random_batch(IDS, 7, 5, generator)
        assert tokens.shape == targets.shape == (5, 7)
        np.testing.assert_array_equal(tokens - tokens[:, :1], np.tile(np.arange(7), (5, 1)))
        np.testing.assert_array_equal(targets, tokens + 1)
        starts.update(tokens[:, 0].tolist())
    assert starts == set(range(93)), "every start that leaves room for the last target, and no other"


def test_random_batches_repeat_with_the_seed() -> None:
    batches = [random_batch(IDS, 7, 5, np.random.default_rng(seed))[0] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(batches[0], batches[1])
    assert not np.array_equal(batches[0], batches[2])


@given(length=st.integers(2, 120), context=st.integers(1, 20), batch=st.integers(1, 9), most=st.integers(1, 30))
def test_evaluation_windows_are_spread_over_the_whole_text(length: int, context: int, batch: int, most: int) -> None:
    if length <= context:
        return
    batches = list(evaluation_batches(np.arange(length, dtype=np.int64), context, batch, most))
    sizes = {tokens.shape for tokens, _ in batches}
    fitting = min(most, (length - 1) // context)
    assert sizes == {(min(batch, fitting), context)}, "batches of equal size"
    starts = [start for tokens, _ in batches for start in tokens[:, 0].tolist()]
    assert fitting - batch < len(starts) <= fitting
    assert starts[0] == 0
    assert len(starts) == 1 or starts[-1] == length - 1 - context
    assert all(later - earlier >= context for earlier, later in itertools.pairwise(starts)), "no overlap"
    for tokens, targets in batches:
        np.testing.assert_array_equal(targets, tokens + 1)


# Entropies. -----------------------------------------------------------------------------------------------------------


def ids_of(text: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([ord(character) for character in text], dtype=np.int64)


@pytest.mark.parametrize(
    ("text", "unigram", "bigram"),
    [
        ("aaaa", 0.0, 0.0),
        ("abababab", math.log(2), 0.0),
        ("aabba", -0.6 * math.log(0.6) - 0.4 * math.log(0.4), math.log(2)),
        ("a", 0.0, 0.0),
    ],
)
def test_entropies_known_in_closed_form(text: str, unigram: float, bigram: float) -> None:
    assert unigram_entropy(ids_of(text)) == pytest.approx(unigram, abs=1e-15)
    assert bigram_entropy(ids_of(text)) == pytest.approx(bigram, abs=1e-15)


@given(st.text(alphabet="abcdé数", min_size=2, max_size=200))
def test_entropies_are_the_sums_of_their_docstrings(text: str) -> None:
    ids = ids_of(text)
    total, counts = len(text), Counter(text)
    expected = -math.fsum(count / total * math.log(count / total) for count in counts.values())
    assert unigram_entropy(ids) == pytest.approx(expected, abs=1e-12)
    pairs, firsts = Counter(itertools.pairwise(text)), Counter(text[:-1])
    shares = ((count / (total - 1), count / firsts[pair[0]]) for pair, count in pairs.items())
    expected = -math.fsum(joint * math.log(conditional) for joint, conditional in shares)
    assert bigram_entropy(ids) == pytest.approx(expected, abs=1e-12)
    assert -1e-12 <= bigram_entropy(ids) <= unigram_entropy(ids[1:]) + 1e-12, "knowing more never raises entropy"


# Settings. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"layers": 0}, "layers must be at least 1, found 0"),
        ({"steps": -1}, "steps must be at least 1, found -1"),
        ({"seed": -1}, "seed must be at least 0, found -1"),
        ({"learning_rate": math.nan}, "learning_rate must be positive and finite, found nan"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"time_limit_s": 0.0}, "time_limit_s must be positive"),
        ({"final_rate": 1.5}, "final_rate must be between 0 and 1"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0"),
        ({"beta_1": 1.0}, "beta_1 must be at least 0 and below 1"),
        ({"beta_2": 1.0}, "beta_2 must be at least 0 and below 1"),
        ({"dtype": "int8"}, "dtype must be 'float32' or 'float64', found 'int8'"),
        ({"width": 10, "heads": 3}, "width is 10 and heads is 3"),
    ],
)
def test_settings_no_run_can_have(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        TrainingConfig(**setting)


def test_sizes_that_follow_from_settings() -> None:
    config = TrainingConfig(width=12, heads=3, batch=5, context=7)
    assert (config.head_width, config.feed_forward_width, config.tokens_per_step) == (4, 48, 35)


def test_learning_rate_rises_then_falls_to_its_final_share() -> None:
    config = TrainingConfig(steps=110, warm_up=10, learning_rate=0.5, final_rate=0.1)
    rates = [learning_rate_at(step, config) for step in range(1, 111)]
    assert rates[:10] == pytest.approx([0.05 * step for step in range(1, 11)])
    assert rates[59] == pytest.approx(0.5 * (0.1 + 0.9 / 2)), "half of the fall at half of the way"
    assert rates[-1] == pytest.approx(0.05)
    assert sorted(rates[9:], reverse=True) == rates[9:]


@pytest.mark.parametrize(("steps", "rise"), [(1, 0), (9, 0), (10, 1), (30, 3), (5000, 100)])
def test_a_short_run_rises_over_its_first_tenth(steps: int, rise: int) -> None:
    config = TrainingConfig(steps=steps, warm_up=100)
    assert config.warm_up_steps == rise
    rates = [learning_rate_at(step, config) for step in range(1, steps + 1)]
    assert all(0 < rate <= config.learning_rate for rate in rates)
    assert rates.index(max(rates)) == max(0, rise - 1)


def test_learning_rate_without_warm_up() -> None:
    config = TrainingConfig(steps=4, warm_up=0)
    assert learning_rate_at(1, config) < config.learning_rate


# The layout of weights. -----------------------------------------------------------------------------------------------


def test_views_share_the_memory_of_the_flat_array_and_fill_it() -> None:
    specs = parameter_specs(TrainingConfig(width=12, heads=3, context=7), 11)
    arrays = allocate(specs, "float32")
    assert list(arrays.views) == [spec.name for spec in specs]
    for number, view in enumerate(arrays.views.values(), start=1):
        view += number
    expected = Counter({number: math.prod(spec.shape) for number, spec in enumerate(specs, start=1)})
    assert Counter(arrays.flat.tolist()) == expected
    decayed = {number for number, spec in enumerate(specs, start=1) if spec.decayed}
    assert set(arrays.flat[: arrays.decayed_size].tolist()) == decayed
    assert decayed == {number for number, spec in enumerate(specs, start=1) if len(spec.shape) > 1}


def test_first_values_have_the_spread_their_specification_names() -> None:
    specs = parameter_specs(TrainingConfig(), 103)
    parameters = initial_parameters(specs, "float64", np.random.default_rng(0))
    for spec in specs:
        view = parameters.views[spec.name]
        assert view.shape == spec.shape
        assert view.mean() == pytest.approx(spec.centre, abs=5 * spec.spread / math.sqrt(view.size))
        assert view.std() == pytest.approx(spec.spread, rel=0.1)


def test_corpus_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Corpus("a", IDS, IDS).alphabet = "b"  # type: ignore[misc]

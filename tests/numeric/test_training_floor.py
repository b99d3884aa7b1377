"""The floor: on a text of known entropy the loss comes down to it, and what is left is the divergence of the model."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradproof.training import DataError, TrainingConfig, open_source, train
from gradproof.training.data import corpus_from
from gradproof.training.floor import floor_of, loss_parts
from gradproof.training.model import create_model
from gradproof.training.processes import CopyTask, MarkovChain, Process, mean_entropy, parse_process

SMALL = TrainingConfig(layers=1, width=16, context=16, batch=16, steps=150, learning_rate=1e-2)


# ---------------------------------------------------------------------------------------------------------------------
# Processes


def ids_of(process: Process) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([process.symbols.index(symbol) for symbol in process.draw()], dtype=np.int64)


@pytest.mark.parametrize(
    "process",
    [MarkovChain(1, 6, 20_000), MarkovChain(2, 4, 20_000), MarkovChain(3, 3, 20_000, seed=5), CopyTask(4, 8, 20_000)],
)
def test_entropy_rate_is_what_the_text_costs_under_its_own_distributions(process: Process) -> None:
    """An independent estimate: the mean of -log P of each token of a long text, within five standard errors."""
    ids = ids_of(process)
    rows = process.conditionals(ids, 0)[:-1]
    costs = -np.log(rows[np.arange(len(rows)), ids[1:]])[process.memory :]
    assert costs.mean() == pytest.approx(process.entropy_rate, abs=5 * costs.std() / math.sqrt(len(costs)) + 1e-3)
    assert np.isnan(rows).any(axis=1).sum() <= process.memory
    np.testing.assert_allclose(rows[process.memory :].sum(axis=1), 1)


@pytest.mark.parametrize("process", [MarkovChain(2, 4, 2000), MarkovChain(1, 6, 2000), CopyTask(4, 8, 2000)])
def test_distributions_do_not_depend_on_where_the_text_is_cut(process: Process) -> None:
    ids = ids_of(process)
    whole = process.conditionals(ids, 0)
    for start in (1, 5, 7, 100):
        np.testing.assert_array_equal(
            process.conditionals(ids[start:], start)[process.memory :], whole[start + process.memory :]
        )


def test_markov_rate_by_hand() -> None:
    """Two symbols, order one: pi = (b, a) / (a + b) with a = P(0 -> 1), b = P(1 -> 0)."""
    chain = MarkovChain(1, 2, seed=3)
    a, b = chain.transitions[0, 1], chain.transitions[1, 0]

    def entropy(p: float) -> float:
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    np.testing.assert_allclose(chain.stationary, [b / (a + b), a / (a + b)], rtol=1e-12)
    assert chain.entropy_rate == pytest.approx((b * entropy(a) + a * entropy(b)) / (a + b), rel=1e-12)


@pytest.mark.parametrize("context", [1, 2, 3, 5])
def test_markov_window_floor_by_enumeration(context: int) -> None:
    """Every window of a chain of order two, its probability, and the conditional entropy of each target in it."""
    chain = MarkovChain(2, 3, seed=1)
    symbols = range(3)

    def probability(text: tuple[int, ...]) -> float:
        if len(text) < 2:
            return sum(probability((*text, more)) for more in symbols)
        total = float(chain.stationary[3 * text[0] + text[1]])
        for place in range(2, len(text)):
            total *= float(chain.transitions[3 * text[place - 2] + text[place - 1], text[place]])
        return total

    def block_entropy(length: int) -> float:
        texts = (probability(text) for text in itertools.product(symbols, repeat=length))
        return -math.fsum(p * math.log(p) for p in texts)

    expected = (block_entropy(context + 1) - block_entropy(1)) / context
    assert chain.window_floor(context) == pytest.approx(expected, rel=1e-10)


def test_copy_rate_and_window_floor() -> None:
    task = CopyTask(block=1, symbols_count=4, length=100)
    assert task.entropy_rate == pytest.approx(math.log(4) / 4)
    assert task.draw()[:8].count("\n") == 2
    # Windows of one token see the token before the target alone; of the four phases, the block's symbol is unknown in
    # one, and its copy, whose original is two tokens before it, in another.
    assert task.window_floor(1) == pytest.approx(2 * math.log(4) / 4)
    assert task.window_floor(2) == pytest.approx((2 * 2 - 1) * math.log(4) / 8)
    assert task.window_floor(4000) == pytest.approx(task.entropy_rate, rel=1e-3)


def test_process_is_repeatable_and_its_seed_matters() -> None:
    texts = [parse_process(f"markov:order=1,symbols=3,length=200,seed={seed}").draw() for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_parsed_settings() -> None:
    assert parse_process("markov") == MarkovChain()
    assert parse_process("markov:order=1, symbols=5,concentration=2") == MarkovChain(1, 5, concentration=2.0)
    assert parse_process("copy:block=3,length=500") == CopyTask(block=3, length=500)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a process, markov or copy, found ''"),
        ("coin:p=0.5", "expected a process, markov or copy, found 'coin'"),
        ("markov:depth=2", "expected settings of markov, which are order=.*; found 'depth=2'"),
        ("markov:order", "expected settings of markov"),
        ("markov:order=two", "expected a whole number for order, found 'two'"),
        ("markov:order=1.5", "expected a whole number for order"),
        ("markov:concentration=x", "expected a number for concentration"),
        ("markov:concentration=nan", "concentration must be from 0.01 to 1e\\+06, found nan"),
        ("markov:concentration=1e308", "concentration must be from 0.01 to 1e\\+06, found 1e\\+308"),
        ("markov:order=2,symbols=3,order=3", "order is given twice"),
        ("markov:order=0", "order must be from 1 to 16, found 0"),
        ("markov:symbols=1", "symbols must be from 2 to 62, found 1"),
        ("markov:order=9,symbols=20", "transition probabilities, more than"),
        ("copy:block=0", "block must be from 1"),
        ("copy:block=8,length=20", "length must be from 180"),
        ("copy:symbols=99", "symbols must be from 2 to 62"),
    ],
)
def test_process_that_is_none(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_process(text)


# ---------------------------------------------------------------------------------------------------------------------
# The loss and its parts


def test_on_a_markov_chain_the_loss_comes_within_two_percent_of_the_entropy_rate() -> None:
    result = train(replace(SMALL, context=32, steps=200), open_source(process="markov:order=1,symbols=6"))
    rate = result.floor.entropy_rate
    assert rate is not None
    assert result.parts is not None
    assert result.floor.window_floor == pytest.approx(rate), "of order one, a window's first token settles the second"
    assert rate * 0.98 < result.heldout_loss < rate * 1.02
    assert result.parts.expected < rate * 1.02, "not by the luck of the draw"
    assert result.first_loss > rate * 1.1


@pytest.mark.parametrize("process", ["markov:order=2,symbols=5,length=20000", "copy:block=3,symbols=4,length=20000"])
def test_expected_loss_is_entropy_plus_divergence(process: str) -> None:
    """An identity for every model; the loss measured differs from it by the luck of the draw alone."""
    source = open_source(process=process)
    config = replace(SMALL, dtype="float64", evaluation_windows=64)
    corpus = corpus_from(source, config.context)
    assert source.process is not None
    for model in (create_model(config, corpus.vocabulary.size, seed) for seed in (0, 1)):
        parts = loss_parts(model, source.process, corpus)
        assert parts.expected == pytest.approx(parts.entropy + parts.divergence, rel=1e-12)
        assert parts.divergence > 0.05, "before training"
        assert parts.entropy == pytest.approx(source.process.entropy_rate, rel=0.1)


def test_divergence_of_a_distribution_from_itself() -> None:
    """With the process itself in the model's place the divergence is 0 and the loss is the entropy."""

    class Knowing:
        config = SMALL

        def logits(self, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, Any]:
            return np.log(chain.transitions[tokens])

    chain = MarkovChain(1, 5, 5000)
    source = open_source(process="markov:order=1,symbols=5,length=5000")
    parts = loss_parts(Knowing(), chain, corpus_from(source, SMALL.context))  # type: ignore[arg-type]
    assert parts.divergence == pytest.approx(0, abs=1e-14)
    assert parts.expected == pytest.approx(parts.entropy, rel=1e-12)


def test_mean_entropy() -> None:
    rows = np.array([[0.5, 0.5, 0], [1, 0, 0], [0.25, 0.25, 0.5]])
    assert mean_entropy(rows) == pytest.approx((math.log(2) + 0 + 1.5 * math.log(2)) / 3)


def test_what_a_loss_on_text_is_measured_against() -> None:
    """Noise, and a text whose held-out part repeats the training text, for which xz needs almost nothing."""
    generator = np.random.default_rng(0)
    noise = "".join(map(chr, generator.integers(97, 123, 3000)))
    source = open_source(None)
    for text, repeated, xz in ((noise, 0.0, math.log(26)), (noise[:1000] * 5, 1.0, 0.0)):
        known = replace(source, text=text, alphabet="".join(sorted(set(text))))
        floor = floor_of(known, corpus_from(known, SMALL.context), SMALL)
        assert floor.repeated == repeated
        assert floor.xz == pytest.approx(xz, abs=0.35)
        assert floor.trigram <= floor.bigram <= floor.unigram
        assert (floor.entropy_rate, floor.window_floor) == (None, None)

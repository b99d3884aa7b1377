"""What training is fed: text from files, folders and Python itself, numbered, cut into windows; and its entropies."""

from __future__ import annotations

import itertools
import lzma
import math
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradproof.training import DataError, SamplingError, Source, default_text, open_source, read_text
from gradproof.training.data import Corpus, Vocabulary, batch_at, corpus_from, evaluation_batches, random_batch
from gradproof.training.entropy import (
    bigram_entropy,
    conditional_entropy,
    repeated_share,
    trigram_entropy,
    unigram_entropy,
    xz_rate,
)
from gradproof.training.text import Unit, content_of, reopen, source_of

# The text. ------------------------------------------------------------------------------------------------------------


def test_default_text_is_the_topics_in_the_order_of_their_names() -> None:
    from pydoc_data.topics import topics

    text = default_text()
    first, last = min(topics), max(topics)
    assert text.startswith(topics[first])
    assert text.endswith(topics[last])
    assert len(text) == sum(map(len, topics.values())) + len(topics) - 1
    assert open_source().text == text


def test_file_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffvoilà\r\n数学\n".encode())
    assert read_text(path) == open_source(path).text == "voilà\r\n数学\n"


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
    for read in (read_text, open_source):
        with pytest.raises(DataError, match=message) as caught:
            read(path)
        assert str(path) in str(caught.value)


def test_file_that_is_missing_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        open_source(tmp_path / "none.txt")
    with pytest.raises(DataError, match="expected a readable text file"):
        read_text(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="found something else"):
        open_source(tmp_path / "pipe")


def test_text_and_process_together() -> None:
    with pytest.raises(DataError, match="found both"):
        open_source(Path("text.txt"), "markov")


def test_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    for name, content in {
        "b.txt": b"bee", "a/z.md": b"\xef\xbb\xbfzed", "a/y": "ü".encode(), "c.png": b"\x89PNG\0", "d.txt": b"caf\xe9",
        "empty": b"", ".hidden": b"no", ".git/config": b"no",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    source = open_source(tmp_path)
    assert source.text == "ü\nzed\nbee"
    assert source.note == "3 text files read, 3 left out: empty or not UTF-8 text"
    assert open_source(tmp_path, unit="bytes").text == "ü\nzed\nbee".encode().decode("latin-1")


@pytest.mark.skipif(sys.platform != "linux", reason="paths are not as long elsewhere")
def test_folders_may_be_nested_deeper_than_calls(tmp_path: Path) -> None:
    folders = [tmp_path / "a"]
    while len(folders) <= sys.getrecursionlimit():
        folders.append(folders[-1] / "a")
    text = folders[-1] / "text.txt"
    try:
        for folder in folders:
            folder.mkdir()
        text.write_text("text")
        assert open_source(tmp_path).text == "text"
    finally:  # whoever tidies up may go down by calls
        text.unlink(missing_ok=True)
        for folder in reversed(folders):
            folder.rmdir()


def test_what_runs_have_left_in_a_folder_is_no_text(tmp_path: Path) -> None:
    """`gradproof train --data .` leaves its run in the folder that it reads, and goes on with the same text."""
    (tmp_path / "text.txt").write_text("text")
    for folder in (tmp_path, tmp_path / "runs" / "001"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in (
            "checkpoint.json",
            "metrics.jsonl",
            "report.json",
            "loss.svg",
            "step-00000001.safetensors",
            "metrics.jsonl.part",
        ):
            (folder / name).write_text("not this")
    (tmp_path / "runs" / "001" / "notes.txt").write_text("notes")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "report.json").write_text("{}")
    source = open_source(tmp_path)
    assert (source.text, source.note) == ("{}\nnotes\ntext", "3 text files read")


def test_a_process_has_no_bytes() -> None:
    with pytest.raises(DataError, match=r"markov: a process is a text of characters, found --unit bytes; leave it out"):
        open_source(process="markov", unit="bytes")


def test_a_text_that_is_too_short_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("short")
    for source, name in (
        (open_source(tmp_path / "text.txt"), str(tmp_path / "text.txt")),
        (open_source(process="markov:length=100"), "markov:length=100"),
        (source_of("short"), "the text"),
    ):
        with pytest.raises(DataError) as caught:
            corpus_from(source, 64)
        assert str(caught.value).startswith(f"{name} has ")


def test_folder_without_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found no file in it"):
        open_source(tmp_path)
    (tmp_path / "image").write_bytes(b"\0\1")
    with pytest.raises(DataError, match="found 1 of which none is UTF-8 text"):
        open_source(tmp_path)


def test_bytes_need_not_be_text(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    path.write_bytes(bytes(range(256)))
    source = open_source(path, unit="bytes")
    assert len(source.text) == len(source.alphabet) == 256
    assert content_of(source.text, "bytes") == path.read_bytes()


@pytest.mark.parametrize("unit", get_args(Unit))
def test_source_is_found_again_by_its_origin_and_known_by_its_fingerprint(unit: Unit, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("abc" * 10)
    sources = [open_source(path, unit=unit), open_source(unit=unit), open_source(process="copy:length=1000")]
    for source in sources:
        again = reopen(source.origin, source.unit)
        assert again == source
        assert again.fingerprint == source.fingerprint
    assert len({source.fingerprint for source in sources}) == 3
    path.write_text("abd" * 10)
    assert reopen(sources[0].origin, unit).fingerprint != sources[0].fingerprint


def test_characters_and_bytes_of_one_text_are_two_sources() -> None:
    assert open_source(unit="characters").fingerprint != Source("abc", "abc", "bytes").fingerprint
    assert Source("abc", "abc", "characters").fingerprint != Source("abc", "abc", "bytes").fingerprint


# Tokens. --------------------------------------------------------------------------------------------------------------


def test_characters_are_numbered_in_code_point_order_and_the_last_tenth_held_out() -> None:
    text = "banana😀é\n" * 10
    corpus = corpus_from(text, 3)
    assert corpus.alphabet == "".join(sorted(set(text)))
    assert (len(corpus.train), len(corpus.held_out)) == (81, 9)
    assert corpus.decode([*corpus.train.tolist(), *corpus.held_out.tolist()]) == text
    assert corpus.train.dtype == corpus.held_out.dtype == np.int64


@given(st.text(min_size=20, max_size=60))
def test_numbering_is_undone_by_decoding(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    corpus = corpus_from(text, 1)
    assert corpus.decode([*corpus.train.tolist(), *corpus.held_out.tolist()]) == text
    assert corpus.vocabulary.encode(text) == [*corpus.train.tolist(), *corpus.held_out.tolist()]


def test_a_byte_has_its_own_number(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("naïve 数学 " * 10)
    corpus = corpus_from(open_source(path, unit="bytes"), 5)
    assert bytes([*corpus.train.tolist(), *corpus.held_out.tolist()]) == path.read_bytes()
    assert corpus.vocabulary.size == 256
    assert corpus.vocabulary.encode("é") == [0xC3, 0xA9]


def test_bytes_are_written_as_soon_as_a_character_is_whole() -> None:
    vocabulary = Vocabulary(bytes(range(256)).decode("latin-1"), "bytes")
    assert list(vocabulary.decode_each("aé数".encode())) == ["a", "", "é", "", "", "数", ""]
    assert vocabulary.decode(b"a\xff\xe6\x95") == "a\ufffd\ufffd"


def test_prompt_with_an_unknown_character() -> None:
    with pytest.raises(SamplingError, match="found '\u00e9', which does not occur in it"):
        Vocabulary("abc").encode("abé")


@pytest.mark.parametrize(("alphabet", "first"), [("\nabc", 0), ("\t\nabc", 1), ("abc", 0)])
def test_text_begins_after_a_line_break(alphabet: str, first: int) -> None:
    assert Vocabulary(alphabet).first == first


def test_text_too_short_for_the_context() -> None:
    with pytest.raises(DataError, match=r"has 649 characters; a context of 64 needs at least 650"):
        corpus_from("x" * 649, 64)
    assert len(corpus_from("x" * 650, 64).held_out) == 65
    with pytest.raises(DataError, match="has 649 bytes"):
        corpus_from(Source("x" * 649, "x", "bytes"), 64)


def test_corpus_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Corpus(Vocabulary("a"), IDS, IDS).train = IDS  # type: ignore[misc]


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


def test_batch_is_a_function_of_seed_and_step() -> None:
    batches = {(seed, step): batch_at(IDS, 7, 5, seed, step)[0].tobytes() for seed in (0, 1, 2) for step in (1, 2, 3)}
    assert len(set(batches.values())) == 9
    assert batches == {key: batch_at(IDS, 7, 5, *key)[0].tobytes() for key in reversed(batches)}


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
    ("text", "unigram", "bigram", "trigram"),
    [
        ("aaaa", 0.0, 0.0, 0.0),
        ("abababab", math.log(2), 0.0, 0.0),
        ("aabba", -0.6 * math.log(0.6) - 0.4 * math.log(0.4), math.log(2), 0.0),
        ("a", 0.0, 0.0, 0.0),
        ("ab", math.log(2), 0.0, 0.0),
    ],
)
def test_entropies_known_in_closed_form(text: str, unigram: float, bigram: float, trigram: float) -> None:
    found = [entropy(ids_of(text)) for entropy in (unigram_entropy, bigram_entropy, trigram_entropy)]
    assert found == pytest.approx([unigram, bigram, trigram], abs=1e-15)


@given(st.text(alphabet="abcdé数", min_size=5, max_size=200), st.integers(0, 4))
def test_entropies_are_the_sums_of_their_docstrings(text: str, order: int) -> None:
    pairs = Counter((text[place - order : place], text[place]) for place in range(order, len(text)))
    contexts = Counter(text[place - order : place] for place in range(order, len(text)))
    shares = ((count / (len(text) - order), count / contexts[context]) for (context, _), count in pairs.items())
    expected = -math.fsum(joint * math.log(conditional) for joint, conditional in shares)
    assert conditional_entropy(ids_of(text), order) == pytest.approx(expected, abs=1e-12)
    named = (unigram_entropy, bigram_entropy, trigram_entropy)
    if order < len(named):
        assert named[order](ids_of(text)) == conditional_entropy(ids_of(text), order)


@given(st.text(alphabet="abc", min_size=4, max_size=100))
def test_knowing_more_never_raises_entropy(text: str) -> None:
    ids = ids_of(text)
    assert -1e-12 <= trigram_entropy(ids) <= bigram_entropy(ids[1:]) + 1e-12
    assert -1e-12 <= bigram_entropy(ids) <= unigram_entropy(ids[1:]) + 1e-12


def test_xz_is_charged_for_what_the_training_text_did_not_tell() -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 256, 20_000, dtype=np.uint8).tobytes()
    assert xz_rate(noise[:10_000], noise[10_000:], 10_000) == pytest.approx(math.log(256), rel=0.02)
    assert xz_rate(noise, noise[:10_000], 10_000) < 0.3
    alone = len(lzma.compress(noise)) - len(lzma.compress(b""))
    assert xz_rate(b"", noise, 20_000) == pytest.approx(alone * 8 * math.log(2) / 20_000)


def test_share_of_windows_that_were_seen_in_training() -> None:
    assert repeated_share("the quick fox", ["quick", "slow ", "e q", "fox "]) == 0.5


def test_string_is_a_source() -> None:
    assert source_of("banana") == Source("banana", "abn")

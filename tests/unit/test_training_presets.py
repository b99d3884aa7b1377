"""Configuration files: presets, tables, and what is refused in them."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from gradproof.training.config import PRESETS, SECTIONS, TrainingConfig, preset, read_config
from gradproof.training.errors import ConfigurationError


def test_the_defaults_are_the_first_preset() -> None:
    assert preset("nano") == TrainingConfig()


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_the_way_through_tables(name: str) -> None:
    config = preset(name)
    assert TrainingConfig.from_dict(config.as_dict()) == config


def test_every_setting_stands_in_one_table() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(field.name for field in fields(TrainingConfig))


def test_a_file_overrides_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[model]\nheads = 4\npositions = "rotary"\n[run]\ntime_limit_s = 5\nsteps = 7\n')
    assert read_config(path) == replace(TrainingConfig(), heads=4, positions="rotary", time_limit_s=5.0, steps=7)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_config(path).steps == 7, "some editors begin a file with a byte-order mark"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model\n", "expected a TOML file, found: "),
        ("model = " + "[" * 5000, "expected a TOML file, found: maximum recursion depth"),
        ("[modell]\nheads = 2\n", r"expected the tables \[model\], \[optimiser\], \[run\], found modell"),
        ("heads = 2\n", r"expected the tables .*, found heads"),
        ("[model]\nsteps = 2\n", r"\[model\] has no setting steps, which belongs in \[run\]"),
        ("[model]\nhaeds = 2\n", r"\[model\] has no setting haeds; it has layers, heads, "),
        ("[model]\nheads = 2.0\n", "heads must be a whole number, found 2.0"),
        ("[model]\ntied = 1\n", "tied must be true or false, found 1"),
        ('[model]\nnorm = "batch"\n', "norm must be 'layer' or 'rms', found 'batch'"),
        ("[model]\nnorm = 1\n", "norm must be a word in quotes, found 1"),
        ("[model]\nheads = 3\n", "heads must divide width, but width is 64 and heads is 3"),
        ("[model]\nheads = 4\nkey_value_heads = 3\n", "key_value_heads must divide heads, but heads is 4"),
        ('[model]\nheads = 64\npositions = "rotary"\n', "rotary positions turn pairs of channels"),
        ("[model]\ndropout = 1.0\n", "dropout must be at least 0 and below 1, found 1.0"),
        ("[run]\nmicro_batches = 3\n", "micro_batches must divide batch, but batch is 16"),
        ("[run]\nprocesses = 2\n", "processes must be true or false, found 2"),
        ('[run]\ndtype = "bfloat16"\n', "dtype = 'bfloat16' needs engine = 'torch', found engine = 'numpy'"),
        ('[run]\ndevice = "cuda"\n', "device = 'cuda' needs engine = 'torch', found engine = 'numpy'"),
        ("[optimiser]\neps = nan\n", "eps must be positive and finite, found nan"),
    ],
)
def test_a_file_that_no_run_can_have_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=f"mine.toml: {message}"):
        read_config(path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected a readable TOML file, found: No such file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ConfigurationError, match="expected a TOML file, found: "):
        read_config(tmp_path / "latin.toml")
    with pytest.raises(ConfigurationError, match="expected a preset, nano, tiny, small, found 'huge'"):
        preset("huge")

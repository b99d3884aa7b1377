"""The settings of a run, and the layout and first values of the weights that follow from them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gradproof.training import ConfigurationError, TrainingConfig
from gradproof.training.optimiser import learning_rate_at
from gradproof.training.parameters import allocate, first_values, parameter_specs

# Settings. ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"layers": 0}, "layers must be at least 1, found 0"),
        ({"layers": 10_001}, "layers must be at most 10,000, found 10001"),
        ({"width": 10**14}, "width must be at most 1,000,000,000, found 100000000000000"),
        ({"batch": 10**5000}, "batch must be at most 1,000,000,000, found a number of thousands of digits"),
        ({"steps": 10**16}, "steps must be at most 1,000,000,000,000,000"),
        ({"seed": 2**128}, r"seed must be below 2\^128"),
        ({"eps": 10**400}, r"eps must be a number, found 1000+\.\.\.; change eps"),
        ({"steps": -1}, "steps must be at least 1, found -1"),
        ({"seed": -1}, "seed must be at least 0, found -1"),
        ({"learning_rate": math.nan}, "learning_rate must be positive and finite, found nan"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"time_limit_s": 0.0}, "time_limit_s must be positive"),
        ({"final_rate": 1.5}, "final_rate must be between 0 and 1"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0"),
        ({"beta_1": 1.0}, "beta_1 must be at least 0 and below 1"),
        ({"beta_2": 1.0}, "beta_2 must be at least 0 and below 1"),
        ({"dtype": "int8"}, "dtype must be 'float32' or 'float64' or 'bfloat16', found 'int8'"),
        ({"width": 10, "heads": 3}, "width is 10 and heads is 3"),
        ({"learning_rate": 1e39}, "learning_rate, and its product .* of float32, .* found 1e\\+39; lower them"),
        ({"weight_decay": 1e38, "learning_rate": 100.0}, "product with weight_decay, must be .* found 1e\\+40"),
        (
            {"learning_rate": 1e39, "dtype": "bfloat16", "engine": "torch"},
            "numbers of float32, the type of the weights",
        ),
    ],
)
def test_settings_no_run_can_have(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        TrainingConfig(**setting)


def test_a_step_size_is_a_number_of_the_type_of_the_weights() -> None:
    """PyTorch's kernels refuse a factor that is none; at the bound it is one, and float64 has larger ones."""
    assert TrainingConfig(learning_rate=3.4e38, weight_decay=1e-300).learning_rate == 3.4e38
    assert TrainingConfig(learning_rate=1e-300, weight_decay=1e300).weight_decay == 1e300
    assert TrainingConfig(learning_rate=1e300, weight_decay=1e300, dtype="float64").learning_rate == 1e300


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
    arrays = allocate(specs, np.zeros)
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
    values = dict(first_values(specs, np.random.default_rng(0)))
    for spec in specs:
        view = values[spec.name]
        assert view.shape == spec.shape
        assert view.mean() == pytest.approx(spec.centre, abs=5 * spec.spread / math.sqrt(view.size))
        assert view.std() == pytest.approx(spec.spread, rel=0.1)

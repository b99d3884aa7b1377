"""The document's numerical claims, shown by generated code: B5 (underflow), A2 (the error falls), B12 (AdamW)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from generated.numpy import adamw as adamw_numpy
from generated.numpy.relu_layer import relu_layer_forward
from generated.numpy.sequence_probability import sequence_probability

ROOT = Path(__file__).resolve().parents[2]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


underflow, feed_forward_fit = example("underflow"), example("feed_forward_fit")


# -- B5 ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", list(underflow.underflows()), ids=lambda row: f"{row.dtype}-{row.conditional}")
def test_product_underflows_where_predicted_and_the_sum_of_logs_does_not(row: Any) -> None:
    assert row.found == row.predicted
    assert row.log_probability == pytest.approx(row.expected_log, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_conditionals(dtype: str) -> None:
    """Conditionals of a model with a perplexity of about 20, and sequences of 1000 tokens."""
    rng = np.random.default_rng(3)
    conditional = rng.uniform(0.01, 0.09, size=(5, 1000)).astype(dtype)
    product, logs = sequence_probability(conditional)
    np.testing.assert_array_equal(product, 0)
    np.testing.assert_allclose(logs, np.log(conditional.astype("float64")).sum(axis=1), rtol=1e-5)
    short, logs = sequence_probability(conditional[:, :5])
    np.testing.assert_allclose(np.exp(logs), short, rtol=1e-5)


# -- A2 ----------------------------------------------------------------------------------------------------------------

FITS = list(feed_forward_fit.fits())


def test_widths_are_those_of_the_claim() -> None:
    assert (FITS[0].width, FITS[-1].width) == (4, 256)


def test_error_falls_with_the_width() -> None:
    for wide, narrow in zip(FITS[1:], FITS, strict=False):
        assert wide.largest < narrow.largest
        assert wide.root_mean_square < narrow.root_mean_square
    assert FITS[-1].largest < 1e-3
    assert FITS[-1].root_mean_square < FITS[0].root_mean_square / 1000


def test_error_is_within_the_bound_that_is_proved() -> None:
    for fit in FITS:
        assert 0 < fit.largest <= fit.bound
        assert fit.root_mean_square <= fit.largest


def test_gradient_vanishes_at_the_fit() -> None:
    assert max(fit.slope for fit in FITS) < 1e-10


@pytest.mark.parametrize("width", feed_forward_fit.WIDTHS)
def test_layer_is_the_interpolant(width: int) -> None:
    """Claim A2 at numbers: the kernel with the constructed weights is NumPy's piecewise linear interpolation."""
    x, nodes = np.linspace(0, 1, 1001), np.linspace(0, 1, width + 1)
    y, _ = relu_layer_forward(x[:, None], *feed_forward_fit.interpolated(width))
    np.testing.assert_allclose(y[:, 0], np.interp(x, nodes, feed_forward_fit.target(nodes)), atol=1e-11)


# -- B12 ---------------------------------------------------------------------------------------------------------------

OPTIONS = {"lr": 3e-3, "beta_1": 0.9, "beta_2": 0.99, "eps": 1e-7, "weight_decay": 0.1}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("options", [OPTIONS, {"lr": 1e-3}], ids=["all", "defaults"])
def test_adamw_equals_torch_step_by_step(backend: str, options: dict[str, float]) -> None:
    torch = pytest.importorskip("torch")
    from generated.torch import adamw as adamw_torch

    step = adamw_numpy.adamw if backend == "numpy" else adamw_torch.adamw
    rng = np.random.default_rng(7)
    weights = torch.tensor(rng.normal(size=(3, 5)), requires_grad=True)
    names = {"beta_1": "betas", "beta_2": "betas"}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if name not in names}
    if "beta_1" in options:
        chosen["betas"] = (options["beta_1"], options["beta_2"])
    reference = torch.optim.AdamW([weights], **chosen)
    own: Any = weights.detach().clone() if backend == "torch" else weights.detach().numpy().copy()
    m, v = own * 0, own * 0
    for number in range(1, 51):
        slope = rng.normal(size=(3, 5)) * 10.0 ** rng.integers(-3, 3)
        weights.grad = torch.tensor(slope)
        reference.step()
        own, m, v = step(own, torch.tensor(slope) if backend == "torch" else slope, m, v, t=number, **options)
        np.testing.assert_allclose(np.asarray(own), weights.detach().numpy(), rtol=1e-12, atol=1e-14)
        state = reference.state[weights]
        np.testing.assert_allclose(np.asarray(m), state["exp_avg"].numpy(), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(np.asarray(v), state["exp_avg_sq"].numpy(), rtol=1e-12, atol=1e-14)


# -- the examples ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "rows"), [("underflow", 6), ("feed_forward_fit", 7), ("adamw_steps", 5)])
def test_examples_print_their_table(name: str, rows: int) -> None:
    if name == "adamw_steps":
        pytest.importorskip("torch")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert len(ran.stdout.splitlines()) == rows + 1
    assert ran.stderr == ""

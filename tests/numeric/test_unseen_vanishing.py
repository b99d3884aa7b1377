"""Exponentials that overflow beside a factor of 0: what does not reach a result has a slope of 0.

A ratio that is clipped, and the components of a mixture that have no share. Far from all of its components the shares
of a mixture are the exponentials of differences of large numbers, and so are its slopes. None of these statements is in
the library. In float32, against PyTorch's slopes in float64, where the same exponentials are finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sympy import Max, Min, exp, log, pi, sqrt

from codegen.checking.array_library import array_library
from codegen.checking.checks import check_kernels
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.functions import log_softmax, logsumexp, softmax
from derive.language import Sum, dims, index, scalar, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

M, K = dims("M K")
m, k = index("m", M), index("k", K)
new, old, gain = tensor("new", M), tensor("old", M), tensor("gain", M)
x, mu, s, w = tensor("x", M), tensor("mu", M, K), tensor("s", M, K), tensor("w", M, K)
common = tensor("s", K)
e = scalar("e", positive=True)


def clipped(named: bool) -> Program:
    """The clipped loss of proximal policy optimisation, with and without a name for the ratio."""
    program = Program("clipped", "clipped ratios", [new, old, gain, e])
    ratio = exp(new[m] - old[m])
    if named:
        ratio = program.define("r", [m], ratio)[m]
    loss = -Min(ratio * gain[m], Min(Max(ratio, 1 - e), 1 + e) * gain[m])
    program.kernel(program.define("o", [m], loss), wrt=[new, old], defaults={e: 0.2})
    return program


def clipped_expected(new: Any, old: Any, gain: Any) -> Any:
    ratio = torch.exp((new - old).clamp(max=600))
    return -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)


def mixture(kind: str) -> Program:
    """A mixture of normal distributions, by its deviations, or by its precisions; these may be the same for all."""
    scale = common[k] if kind == "common" else s[m, k]
    program = Program(f"mixture_{kind}", "a mixture", [x, mu, common if kind == "common" else s, w])
    if kind == "precision":
        precision = program.define("t", [m, k], exp(-2 * scale))
        square = precision[m, k] * (x[m] - mu[m, k]) ** 2
    else:
        square = program.define("d", [m, k], (x[m] - mu[m, k]) * exp(-scale))[m, k] ** 2
    density = program.define("c", [m, k], log_softmax(w[m, k], over=k) - scale - square / 2)
    loss = program.define("o", [m], -logsumexp(density[m, k], over=k))
    program.kernel(loss, wrt=[mu, common if kind == "common" else s, w])
    return program


def written() -> Program:
    """The same mixture as its density is written, divided by deviations."""
    program = Program("mixture_written", "a mixture by its density", [x, mu, s, w])
    share = program.define("p", [m, k], softmax(w[m, k], over=k))
    deviation = program.define("d", [m, k], exp(s[m, k]))
    bell = exp(-(((x[m] - mu[m, k]) / deviation[m, k]) ** 2) / 2) / (sqrt(2 * pi) * deviation[m, k])
    program.kernel(program.define("o", [m], -log(Sum(share[m, k] * bell, k))), wrt=[x, mu, s, w])
    return program


def mixture_expected(x: Any, mu: Any, s: Any, w: Any) -> Any:
    density = torch.log_softmax(w, -1) - s - ((x[..., None] - mu) * torch.exp(-s)) ** 2 / 2
    return -torch.logsumexp(density, -1)


LOGS = np.array([-1e4, -100.0, -1.0, 0.1, 1.0, 89.0, 100.0, 1e4])
NARROW = np.array([[0, 0, -60.0], [-1, 0, 0], [-100, 0, 0], [-50, -50, 0], [1e4, 0, 0]])
MIXTURE = {"x": np.full(5, 0.5), "mu": np.full((5, 3), [0, 1, 3.0]), "w": np.zeros((5, 3))}
OUTLIERS = {
    **MIXTURE,
    "x": np.array([0.5, 30.0, -100.0, 1e3, -1e3]),
    "s": np.full((5, 3), [0.5, 0, -0.3]),
    "w": np.full((5, 3), [0.3, -1, 2]),
}
CLIPPED = {"new": LOGS, "old": 0 * LOGS, "gain": np.where(LOGS > 1, 2.0, -2.0)}
CASES: dict[str, tuple[Program, dict[str, Array], Callable[..., Any]]] = {
    "clipped": (clipped(False), CLIPPED, clipped_expected),
    "clipped by name": (clipped(True), CLIPPED, clipped_expected),
    "deviations": (mixture("deviation"), {**MIXTURE, "s": NARROW}, mixture_expected),
    "precisions": (mixture("precision"), {**MIXTURE, "s": NARROW}, mixture_expected),
    "outliers": (written(), OUTLIERS, lambda **known: mixture_expected(**known) + math.log(2 * math.pi) / 2),
    "common": (mixture("common"), {**MIXTURE, "s": np.array([0, -60.0, -100.0])}, mixture_expected),
}


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_what_has_no_share_has_no_slope(name: str, target: str, tmp_path: Path) -> None:
    (program, given, expected), library = CASES[name], array_library(target)
    assert program.request is not None
    write(render_all([program], [target]), tmp_path, [target])
    known = {key: torch.tensor(value, dtype=torch.float64, requires_grad=True) for key, value in given.items()}
    value = expected(**known)
    slopes = torch.autograd.grad(value.sum(), [known[str(tensor.name)] for tensor in program.request.wrt])
    with opened(program, program.request, tmp_path, library) as kernel, np.errstate(over="ignore"):
        arrays = {key: library.array(array.astype(np.float32)) for key, array in given.items()}
        (output,), saved = kernel.run(arrays, {})
        made = kernel.gradients(library.array(np.ones(output.shape, np.float32)), saved)
    for found, right in zip((output, *made), (value.detach(), *slopes), strict=True):
        np.testing.assert_allclose(library.plain(found), right, rtol=4e-6, atol=1e-6)


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_against_every_witness(name: str, target: str, tmp_path: Path) -> None:
    program = CASES[name][0]
    write(render_all([program], [target]), tmp_path, [target])
    results = list(check_kernels([program], target=target, folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [result for result in results if not result.ok]

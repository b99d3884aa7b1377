"""Functions of several logsumexps without names, at logits of 1e4 and 1e8: their logarithms are not rounded away.

None of these statements is in the library. At 1e8 a float32 has no room for log(5): what is added to a logsumexp before
its own terms are taken off is off by a factor. Values and slopes are compared with PyTorch's, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sympy import Expr, exp, log

from codegen.checking.array_library import array_library
from codegen.checking.checks import check_kernels
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.functions import logsumexp, relu, sigmoid, softmax, softplus
from derive.language import Sum, Tensor, dims, index, leading_index, scalar, tensor
from derive.program import Program

Array = np.ndarray[Any, Any]

N, K, L = dims("N K L")
n, k, l = leading_index("n", N), index("k", K), index("l", L)
a, b, v = tensor("a", N, K), tensor("b", N, L), tensor("v", N)
t = scalar("t", positive=True)
A, B = logsumexp(a[n, k], over=k), logsumexp(b[n, l], over=l)

TEMPERATURE, MARGIN = 3.0, 0.25


def above(u: Any) -> Any:
    """log(1 + exp(u)); PyTorch's softplus is u above a threshold."""
    return torch.logaddexp(u, torch.zeros_like(u))


def circle(a: Any, b: Any, v: Any) -> Any:
    """The circle loss, its weights differentiated as well."""
    near = torch.logsumexp(TEMPERATURE * torch.relu(a + MARGIN) * (a - MARGIN), -1)
    far = torch.logsumexp(-TEMPERATURE * torch.relu(1 + MARGIN - b) * (b - 1 + MARGIN), -1)
    return above(near + far)


def sums(a: Any, b: Any) -> tuple[Any, Any]:
    """Both logsumexps."""
    return torch.logsumexp(a, -1), torch.logsumexp(b, -1)


MARGINS = t * relu(a[n, k] + 0.25) * (a[n, k] - 0.25), -t * relu(1.25 - b[n, l]) * (b[n, l] - 0.75)
CASES: dict[str, tuple[Expr, tuple[Tensor, ...], Callable[..., Any]]] = {
    "circle": (softplus(logsumexp(MARGINS[0], over=k) + logsumexp(MARGINS[1], over=l)), (a, b), circle),
    "spelled": (
        log(1 + Sum(exp(a[n, k]), k) * Sum(exp(b[n, l]), l)),
        (a, b),
        lambda a, b, v: above(sum(sums(a, b))),
    ),
    "margin": (softplus(A - v[n]), (a, v), lambda a, b, v: above(torch.logsumexp(a, -1) - v)),
    "tsallis": (
        (1 - Sum(softmax(a[n, k], over=k) ** t, k)) / (t - 1),
        (a,),
        lambda a, b, v: (1 - (torch.softmax(a, -1) ** TEMPERATURE).sum(-1)) / (TEMPERATURE - 1),
    ),
    "balance": (3 * A / 2 - 3 * B / 2 + v[n], (a, b, v), lambda a, b, v: 1.5 * (sums(a, b)[0] - sums(a, b)[1]) + v),
    "odds": (sigmoid(A - B), (a, b), lambda a, b, v: torch.sigmoid(sums(a, b)[0] - sums(a, b)[1])),
    "tempered": (
        softplus(t * (A - B)) / t,
        (a, b),
        lambda a, b, v: above(TEMPERATURE * (sums(a, b)[0] - sums(a, b)[1])) / TEMPERATURE,
    ),
}
KINDS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda z: z,
    "small": lambda z: 1e-6 * z,
    "around 1e4": lambda z: z + 1e4,
    "around -1e4": lambda z: z - 1e4,
    "+-1e4": lambda z: np.where(z > 0, 1e4, -1e4),
    "+-1e8": lambda z: np.where(z > 0, 1e8, -1e8),
    "all 1e4": lambda z: np.full_like(z, 1e4),
}


def statement(name: str) -> Program:
    """The program of a case."""
    body, wrt, _ = CASES[name]
    program = Program(name, "several logsumexps", [a, b, v, t])
    program.kernel(program.define("o", [n], body), wrt=list(wrt), defaults={t: TEMPERATURE})
    return program


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_at_large_logits(name: str, target: str, tmp_path: Path) -> None:
    dtype = np.float32
    program, (_, wrt, expected), library = statement(name), CASES[name], array_library(target)
    write(render_all([program], [target]), tmp_path, [target])
    assert program.request is not None
    for said, kind in KINDS.items():
        if name == "circle" and said == "+-1e8":
            continue  # at squares of 1e8 float64 has no room for the logarithm either
        rng = np.random.default_rng(2)
        given = {str(x.name): kind(rng.standard_normal(shape)).astype(dtype) for x, shape in SHAPES.items()}
        known = {key: torch.tensor(value.astype(np.float64), requires_grad=True) for key, value in given.items()}
        value = expected(**known)
        slopes = torch.autograd.grad(value.sum(), [known[str(x.name)] for x in wrt])
        with opened(program, program.request, tmp_path, library) as kernel:
            arrays = {key: library.array(array) for key, array in given.items()}
            (output,), saved = kernel.run(arrays, {"t": TEMPERATURE})
            made = (output, *kernel.gradients(library.array(np.ones(tuple(output.shape), dtype)), saved))
        for found, right in zip(made, (value.detach(), *slopes), strict=True):
            scale = max(1.0, float(right.abs().max()))
            np.testing.assert_allclose(library.plain(found), right, rtol=0, atol=16 * np.finfo(dtype).eps * scale)


SHAPES: dict[Tensor, tuple[int, ...]] = {a: (4, 5), b: (4, 3), v: (4,)}


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_against_every_witness(name: str, target: str, tmp_path: Path) -> None:
    write(render_all([statement(name)], [target]), tmp_path, [target])
    results = list(check_kernels([statement(name)], target=target, folder=tmp_path))
    assert results
    assert all(result.ok for result in results), [result for result in results if not result.ok]

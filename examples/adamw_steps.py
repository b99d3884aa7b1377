"""The generated AdamW kernel beside torch.optim.AdamW, step by step, on the same gradients.

For 50 steps with gradients of very different sizes, the largest difference in the weights, relative to their size, is
printed every tenth step (claim B12). Needs torch.

    python examples/adamw_steps.py
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from generated.numpy.adamw import adamw

OPTIONS = {"lr": 3e-3, "beta_1": 0.9, "beta_2": 0.99, "eps": 1e-7, "weight_decay": 0.1}
STEPS = 50


@dataclass(frozen=True)
class Step:
    """A step: its number, the size of the gradient, and how far the two sets of weights are apart."""

    number: int
    gradient: float
    apart: float


def steps(seed: int = 7) -> Iterator[Step]:
    """All steps, the two optimisers side by side."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(3, 5))
    weights = torch.tensor(theta, requires_grad=True)
    reference = torch.optim.AdamW(
        [weights], lr=OPTIONS["lr"], betas=(OPTIONS["beta_1"], OPTIONS["beta_2"]), eps=OPTIONS["eps"],
        weight_decay=OPTIONS["weight_decay"],
    )  # fmt: skip
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for number in range(1, STEPS + 1):
        gradient = rng.normal(size=theta.shape) * 10.0 ** rng.integers(-3, 3)
        weights.grad = torch.tensor(gradient)
        reference.step()
        theta, m, v = adamw(theta, gradient, m, v, t=number, **OPTIONS)
        expected = weights.detach().numpy()
        yield Step(number, float(np.abs(gradient).max()), float((np.abs(theta - expected) / np.abs(expected)).max()))


def main() -> None:
    """Print a line for every tenth step."""
    print("step  largest gradient  largest relative difference")
    for step in steps():
        if step.number % 10 == 0:
            print(f"{step.number:4}  {step.gradient:16.5f}  {step.apart:27.1e}")


if __name__ == "__main__":
    main()

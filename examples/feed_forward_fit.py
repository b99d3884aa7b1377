"""How well a generated ReLU layer of 4 to 256 hidden units approximates a function on [0, 1].

Two ways to choose the weights, both run through the generated kernel `relu_layer`:

- interpolated: the construction of claim A2 (`gradproof prove A2`), whose error is at most L h / 2 for a target with
  Lipschitz constant L and node spacing h;
- fitted: the same hidden units, with the output weights that make the mean squared error smallest.

    python examples/feed_forward_fit.py
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from generated.numpy.relu_layer import relu_layer_backward, relu_layer_forward

WIDTHS = (4, 8, 16, 32, 64, 128, 256)
POINTS = 1025
LIPSCHITZ = 6 * np.pi

Weights = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def target(x: np.ndarray) -> np.ndarray:
    """The function to approximate, of Lipschitz constant 6 pi."""
    return np.sin(6 * np.pi * x)


def interpolated(width: int, function: Callable[[np.ndarray], np.ndarray] = target) -> Weights:
    """The weights of claim A2: unit k switches on at node k and adds the change of slope there."""
    nodes = np.linspace(0, 1, width + 1)
    slopes = np.diff(function(nodes)) * width
    return np.ones((width, 1)), -nodes[:-1], np.diff(slopes, prepend=0)[None, :], function(nodes[:1])


def fitted(width: int, x: np.ndarray, y: np.ndarray) -> Weights:
    """The hidden units of `interpolated`, with the output weights of least mean squared error."""
    W_1, b_1, _, _ = interpolated(width)
    hidden, _ = relu_layer_forward(x, W_1, b_1, np.eye(width), np.zeros(width))
    solution, *_ = np.linalg.lstsq(np.column_stack([hidden, np.ones(len(x))]), y, rcond=None)
    return W_1, b_1, solution[:-1].T, solution[-1]


@dataclass(frozen=True)
class Fit:
    """The errors at one width: largest error of the interpolant and its bound, mean error of the fit, its gradient."""

    width: int
    largest: float
    bound: float
    root_mean_square: float
    slope: float


def fits() -> Iterator[Fit]:
    """The errors at all widths."""
    x = np.linspace(0, 1, POINTS)[:, None]
    y = target(x)
    for width in WIDTHS:
        exact, _ = relu_layer_forward(x, *interpolated(width))
        best, saved = relu_layer_forward(x, *fitted(width, x, y))
        gradients = relu_layer_backward(2 * (best - y) / POINTS, saved)
        yield Fit(
            width,
            float(np.abs(exact - y).max()),
            LIPSCHITZ / width / 2,
            float(np.sqrt(np.mean((best - y) ** 2))),
            float(np.abs(gradients[3]).max()),  # of the output weights: 0 where the error is smallest
        )


def main() -> None:
    """Print a line for each width."""
    print("width  interpolated: largest error     L h / 2  fitted: mean error")
    for fit in fits():
        print(f"{fit.width:5}  {fit.largest:27.7f}  {fit.bound:10.5f}  {fit.root_mean_square:18.7f}")


if __name__ == "__main__":
    main()

"""Carrying out a chain of kernels: the forward pass that keeps what the backward pass needs, and the backward pass.

Between the chain and the engines. Both functions go through a list and hand arrays from one kernel to the next. `call`
runs a kernel: the direction, the step, and the arguments go in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradproof.training.chain import LOSS, Pull, Step, cotangent, last_uses

__all__ = ["Call", "run_backward", "run_forward"]


Call = Callable[[str, Step, list[Any]], Any]
"""Runs the kernel of a step, "forward" or "backward", on its arguments: forward it returns the output and what the
backward pass needs, backward one cotangent for each varied input."""


def run_forward(steps: tuple[Step, ...], values: dict[str, Any], call: Call) -> tuple[Any, list[Any]]:
    """The output of the last step, and what the backward pass needs of each.

    Args:
        steps: The forward pass.
        values: The arrays that it begins with, by name. Used up: what is not needed any more is dropped.
        call: Runs a kernel.
    """
    kept: list[Any] = []
    for step, unused in zip(steps, last_uses(steps), strict=True):
        values[step.output], saved = call("forward", step, [values[name] for name in step.inputs])
        kept.append(saved)
        for name in unused:
            del values[name]
    return values[steps[-1].output], kept


def run_backward(plan: Sequence[Pull | Step], upstream: Any, kept: list[Any], call: Call) -> Iterator[tuple[str, Any]]:
    """The gradients with respect to what the forward pass began with, by name, as they are found.

    Args:
        plan: The backward pass.
        upstream: The cotangent of the loss.
        kept: What `run_forward` kept. Used up.
        call: Runs a kernel.
    """
    used = {name for item in plan for name in (item.inputs if isinstance(item, Step) else (item.cotangent,))}
    held = {cotangent(LOSS): upstream}
    for item in plan:
        if isinstance(item, Step):
            results = (call("forward", item, [held.pop(name) for name in item.inputs])[0],)
            names: tuple[str, ...] = (item.output,)
        else:
            results = call("backward", item.step, [held.pop(item.cotangent), kept.pop()])
            names = item.makes
        for name, value in zip(names, results, strict=True):
            if name in used:
                held[name] = value
            else:
                yield name.removeprefix(cotangent("")), value

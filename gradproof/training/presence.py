"""Whether all kernels are there that a run calls, asked before anything is written or computed.

Between the settings and the loop. Each kernel is found as the run finds it, on the library that the run calls it on.
"""

from __future__ import annotations

from gradproof.training.cache import Cache
from gradproof.training.chain import ADDITION, forward_steps
from gradproof.training.config import TrainingConfig
from gradproof.training.kernels import backward_kernel, forward_kernel, kernel, plain_kernel
from gradproof.training.model import model_class

__all__ = ["check_kernels"]


def check_kernels(config: TrainingConfig, *, process: bool = False) -> None:
    """See to it that every kernel is there that a run with these settings calls, on a text or on a known process.

    Raises:
        ConfigurationError: The library of the engine, which its kernels import, is not installed.
        KernelMissingError: One is missing. The message names it.
    """
    library = config.engine
    model_class(config)
    names = dict.fromkeys([ADDITION, *(step.kernel for step in forward_steps(config, dropout=True))])
    for name in names:
        forward_kernel(name, library)
        backward_kernel(name, library)
        if name in Cache.KERNELS:
            for form in (f"{name}_keys", f"{name}_step"):
                kernel(form, form, library)
    for name in ("gradient_clipping", "adamw"):
        plain_kernel(name, library)
    # Step sizes, and what is drawn from a distribution or compared with one, are NumPy's on every engine.
    for name in ("step_size", "truncated_softmax"):
        plain_kernel(name)
    for name in ("softmax", *(("kullback_leibler", "cross_entropy_soft") if process else ())):
        forward_kernel(name)

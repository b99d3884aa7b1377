"""Training a causal character Transformer in which every forward, backward and update is a generated kernel.

Last stage of the data flow: statement, derivation, proof, kernel, and here the kernels at work. Nothing in this package
computes; it cuts text into windows, hands arrays from one kernel to the next and reports numbers. A test holds that.

    result = train(TrainingConfig(steps=200), default_text())
    result.heldout_loss < result.bigram
"""

from gradproof.training.config import TrainingConfig
from gradproof.training.data import default_text, read_text
from gradproof.training.errors import ConfigurationError, DataError, DivergenceError, KernelMissingError
from gradproof.training.loop import StepReport, TrainingResult, train

__all__ = [
    "ConfigurationError",
    "DataError",
    "DivergenceError",
    "KernelMissingError",
    "StepReport",
    "TrainingConfig",
    "TrainingResult",
    "default_text",
    "read_text",
    "train",
]

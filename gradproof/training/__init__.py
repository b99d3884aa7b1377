"""Training a causal character Transformer in which every forward, backward and update is a generated kernel.

Last stage of the data flow: statement, derivation, proof, kernel, and here the kernels at work. Nothing in this package
computes; it cuts text into windows, hands arrays from one kernel to the next and reports numbers. A test holds that.

    result = train(TrainingConfig(steps=200), default_text())
    result.heldout_loss < result.bigram
"""

from gradproof.training.config import TrainingConfig
from gradproof.training.errors import (
    CheckpointError,
    ConfigurationError,
    DataError,
    DivergenceError,
    Interrupted,
    KernelMissingError,
    LaneError,
    PeerError,
    PlotError,
    SamplingError,
)
from gradproof.training.loop import train
from gradproof.training.reports import (
    FinalReport,
    HeldOutReport,
    NoteReport,
    SampleReport,
    SavedReport,
    StepReport,
    TrainingResult,
)
from gradproof.training.text import Source, default_text, open_source, read_text

__all__ = [
    "CheckpointError",
    "ConfigurationError",
    "DataError",
    "DivergenceError",
    "FinalReport",
    "HeldOutReport",
    "Interrupted",
    "KernelMissingError",
    "LaneError",
    "NoteReport",
    "PeerError",
    "PlotError",
    "SampleReport",
    "SamplingError",
    "SavedReport",
    "Source",
    "StepReport",
    "TrainingConfig",
    "TrainingResult",
    "default_text",
    "open_source",
    "read_text",
    "train",
]

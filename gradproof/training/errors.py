"""The errors of training, each with the exit code the command line gives it.

Most are for input: settings that contradict each other, a text that cannot be trained on, a checkpoint that does not
fit, kernels that have not been generated. Divergence is an outcome of the run, and an interruption is what somebody
asked for.
"""

from __future__ import annotations


class ConfigurationError(ValueError):
    """A setting is out of range or two settings contradict each other. The message names both."""

    exit_code = 2


class DataError(ValueError):
    """The training text is missing, unreadable, empty or too short."""

    exit_code = 2


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged, or of another run. The message names the file and what is wrong with it."""

    exit_code = 2


class SamplingError(ValueError):
    """A prompt holds what the model has never seen, or a setting of sampling is out of range."""

    exit_code = 2


class PlotError(RuntimeError):
    """The loss cannot be drawn: the plotting library is not installed."""

    exit_code = 2


class KernelMissingError(RuntimeError):
    """A generated kernel is not there, or lacks a function that training calls."""

    exit_code = 2


class DivergenceError(ArithmeticError):
    """The loss stopped being a finite number. The message names the step, the first kernel and the tensor."""

    exit_code = 1


class LaneError(RuntimeError):
    """A process that computes part of each batch has ended, or failed. The message says how."""

    exit_code = 1


class PeerError(RuntimeError):
    """Another of the processes that train together was refused; its own message says why."""

    exit_code = 2


class Interrupted(Exception):  # noqa: N818, since it is no error
    """A signal asked the run to end; what it had learned is saved. The message says where, and how to go on.

    Attributes:
        exit_code: What a shell reports for the signal, 128 + its number.
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number

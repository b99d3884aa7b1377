"""The errors of training, each with the exit code the command line gives it.

All but divergence are for input: settings that contradict each other, a text that cannot be trained on, kernels that
have not been generated.
"""

from __future__ import annotations


class ConfigurationError(ValueError):
    """A setting is out of range or two settings contradict each other. The message names both."""

    exit_code = 2


class DataError(ValueError):
    """The training text is missing, unreadable, empty or too short."""

    exit_code = 2


class KernelMissingError(RuntimeError):
    """A generated kernel is not there, or lacks a function that training calls."""

    exit_code = 2


class DivergenceError(ArithmeticError):
    """The loss stopped being a finite number. The message names the step."""

    exit_code = 1

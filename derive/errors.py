"""The errors of the mathematical side, each with the exit code the command line gives it.

A wrong claim is no error: it is a verdict. These are for input that cannot be given a meaning, for work past its
budget, and for the one thing that must never be smoothed over, a disagreement between the two engines.
"""

from __future__ import annotations


class StatementError(ValueError):
    """A statement is ill-formed: sizes, indices or names do not fit. The message names the object and the next step."""

    exit_code = 2


class MisuseError(StatementError, TypeError):
    """A symbol is used as a number, an array or a list, which it is not; a TypeError too, as Python has it."""


class NoMemberError(StatementError, AttributeError):
    """A symbol has no attribute of this name, as an array would; also an AttributeError, so that one may ask for it."""


class NoLawError(StatementError):
    """A statement uses an operator for which the normal form has no law; it needs an inference rule, with by=..."""


class BudgetExceededError(RuntimeError):
    """A proof needed more time or terms than it was given; the verdict is Undecided, with this reason."""

    exit_code = 1


class AlarmError(RuntimeError):
    """The two engines disagree. Nothing that the prover said in this run may be trusted until it is explained."""

    exit_code = 70

"""What holds for the whole run: how much SymPy remembers, the options, and the last line, which counts mutants.

A test of the mutation suite leaves counts and remarks in its report as `user_properties`, which reach the main process
from every worker.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest

from gradproof import symbolic_cache

symbolic_cache.enlarge()  # nothing has imported SymPy yet

COUNTED = ("mutants", "refuted", "equivalent", "undecided", "false", "ill-formed")
REMARK = "equivalent mutant"


class MutantCounts:
    """Collects the counts of all reports, and prints their sum when everything else has been printed."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.remarks: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in report.user_properties:
                if name in COUNTED and isinstance(value, int):
                    self.counts[name] += value
                elif name == REMARK:
                    self.remarks.append(str(value))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.remarks:
            terminalreporter.write_sep("=", "mutants that are equal to what they came from, by both engines")
            for remark in sorted(self.remarks):
                terminalreporter.write_line(remark)

    def pytest_unconfigure(self) -> None:
        if self.counts:
            sys.stdout.write(" ".join(f"{name}: {self.counts[name]}" for name in COUNTED) + "\n")
            sys.stdout.flush()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-statements", default="47:72", help="numbers of the random statements to check, FROM:TO")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(MutantCounts(), "mutant-counts")

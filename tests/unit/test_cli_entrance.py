"""Ctrl-C before the command line is loaded, and after its work: the command ends at once, and says nothing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

IN_THE_LOADING = """
import signal, sys
class Typed:
    def find_spec(self, name, *_):
        if name == "gradproof.cli.main":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Typed())
"""
AT_THE_END = """
import atexit, signal
atexit.register(signal.raise_signal, signal.SIGINT)
"""
START = """
from gradproof.cli.entrance import enter
enter(["--version"])
"""


def ended(before: str) -> subprocess.CompletedProcess[str]:
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    return subprocess.run([sys.executable, "-c", heard + before + START], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("moment", "shown"), [(IN_THE_LOADING, ""), (AT_THE_END, "gradproof, version")])
def test_where_nothing_is_under_way_ctrl_c_ends_the_command_without_a_word(moment: str, shown: str) -> None:
    outcome = ended(moment)
    assert (outcome.returncode, outcome.stderr) == (-signal.SIGINT, "")
    assert outcome.stdout.startswith(shown)


@pytest.mark.parametrize("moment", [IN_THE_LOADING, AT_THE_END])
def test_what_a_shell_started_in_the_background_does_not_hear_it(moment: str) -> None:
    outcome = ended("signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + moment)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("gradproof, version")

"""How the `gradproof` command begins and ends: there, Ctrl-C ends it at once and without a word.

Before `main`, the first thing that Python runs of the command. While modules are loaded nothing is under way that could
be told or saved, and nothing is any more while Python takes itself down; an interruption would only be a traceback
through other people's files. In between, `main` turns it into a message, and training saves first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

__all__ = ["enter"]


def enter(arguments: Sequence[str] | None = None) -> None:
    """Load the command line and run it, on the words that the process was given if there are no others."""
    # What a shell starts in the background ignores Ctrl-C, and goes on doing so.
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gradproof.cli.main import main

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(sys.argv[1:] if arguments is None else list(arguments), prog_name="gradproof")
    except SystemExit as ended:
        if "torch.distributed" in sys.modules and "WORLD_SIZE" in os.environ and isinstance(ended.code, int):
            from gradproof.training.distributed import leave

            leave(ended.code)
        raise
    finally:
        if is_heard:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

"""The `gradproof` command: the group of all commands, and the one place where errors become messages and exit codes.

An error that carries an `exit_code` is about the input or about the proof, and is told in one message. Any other
exception is a fault of gradproof itself: its traceback is shown, since its maintainers need it, and the exit code is
that of an internal alarm, so that a crash can never be read as a verdict.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any, TextIO

import click

import gradproof
from gradproof import symbolic_cache
from gradproof.cli.check import check
from gradproof.cli.generate import generate
from gradproof.cli.prove import prove
from gradproof.cli.render import visible, working_folder
from gradproof.cli.run import run
from gradproof.cli.sample import sample
from gradproof.cli.train import train

INTERNAL = 70  # EX_SOFTWARE; also the exit code of derive.errors.AlarmError
BAD_INPUT = 2
INTERRUPTED = 128 + 2  # what a shell reports for SIGINT
BROKEN_PIPE = 128 + 13  # and for SIGPIPE
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write to stdout, which has no name; files are named where they are written."""

symbolic_cache.enlarge()  # no command has imported SymPy yet


class Commands(click.Group):
    """A group that ends every error with one clear message and the exit code that belongs to it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the work."""
        return list(self.commands)

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Read the words and run what they ask for; help, or a complaint about a word, may not be writable."""
        try:
            return super().main(*arguments, **options)
        except OSError as error:
            sys.exit(report(error))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            _say("\ngradproof: interrupted")
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _leave(sys.stdout)  # the reader has seen enough
            ctx.exit(BROKEN_PIPE)
        except Exception as error:
            ctx.exit(report(error))


def report(error: Exception) -> int:
    """Say on stderr what went wrong and return the exit code for it."""
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        _say(f"gradproof: {error}")
        return code
    if isinstance(error, OSError) and error.filename is not None:
        _say(f"gradproof: {error.filename}: {error.strerror}")
        return BAD_INPUT
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _say(f"gradproof: the output cannot be written: {error.strerror}")
        _leave(sys.stdout)
        return BAD_INPUT
    if isinstance(error, FileNotFoundError) and working_folder() is None:
        _say("gradproof: the working folder does not exist any more; change to another")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        said = f": {error}" if str(error) else ""
        _say(f"gradproof: not enough memory{said}; choose smaller sizes")
        return BAD_INPUT
    _say("".join(traceback.format_exception(error)).rstrip("\n"))
    _say("gradproof: internal error, see the traceback above; please report it with the command")
    return INTERNAL


def _say(text: str) -> None:
    """Print on stderr, without control characters, which the name of a file may hold.

    Where it cannot be written, a full disk under a log, the exit code still says what happened.
    """
    try:
        click.echo(visible(text), err=True)
    except OSError:
        _leave(sys.stderr)


def _leave(stream: TextIO | None) -> None:
    """Python flushes its streams once more when it ends, which must not fail again; one that was closed is none."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Exit codes of every command:
  0    all is well
  1    a claim not proved, a kernel out of date or wrong, a stage that fell short
  2    bad input: the message says what was expected and what was found
  70   internal alarm: the two proof engines disagree, or gradproof itself failed
  130  interrupted; 143 by SIGTERM""",
)
@click.version_option(gradproof.__version__, prog_name="gradproof")
def main() -> None:
    """Write the mathematics once. Prove the gradient for every size. Ship the kernel.

    gradproof derives gradients from statements in index notation, proves or refutes what is claimed about them for
    symbolic sizes, generates NumPy and PyTorch kernels, checks them numerically, and trains a small Transformer with
    nothing but these kernels. Start with `gradproof run`.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a text in a foreign alphabet must not end the run on an ASCII terminal
            stream.reconfigure(errors="backslashreplace")


for command in (prove, generate, check, train, sample, run):
    main.add_command(command)

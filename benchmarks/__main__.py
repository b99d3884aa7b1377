"""`python -m benchmarks NAME [--quick] [--json]`: the table of benchmarks, and how a result is shown.

A benchmark is a module with `measure(quick, note)`, which returns rows: `benchmarks.timing.Row` or a class with further
fields, the same for all. The fields are the columns, but for those that no row has anything in. `note` takes a sentence
about the measurement, such as a peer that is not installed. Modules are imported when they are run, so that none pays
for the imports of another.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from gradproof import symbolic_cache


@dataclass(frozen=True)
class Benchmark:
    """An entry of the table: what is typed, where it is, what it says about itself, and what --quick leaves out."""

    name: str
    module: str
    about: str
    quick: str


BENCHMARKS = (
    Benchmark(
        "attention",
        "benchmarks.attention",
        "Causal and full attention, forward and backward, against other libraries. Ratio: their time / ours.",
        "Three short cases.",
    ),
    Benchmark(
        "cross_entropy",
        "benchmarks.cross_entropy",
        "Mean softmax cross entropy from logits and its gradient, against other libraries. Ratio: their time / ours.",
        "A quarter of the rows.",
    ),
    Benchmark(
        "layer_norm",
        "benchmarks.layer_norm",
        "Layer norm, forward and backward, against other libraries. Ratio: their time / ours.",
        "Fewer rounds.",
    ),
    Benchmark(
        "training",
        "benchmarks.training",
        "Tokens per second of training a small GPT, both engines, against PyTorch and JAX. Ratio: our pace / theirs.",
        "Fewer rounds, without torch.compile.",
    ),
    Benchmark(
        "memory",
        "benchmarks.memory",
        "Peak memory beside arguments and results, in a process of its own for each case.",
        "Without the longest sequences.",
    ),
    Benchmark(
        "proof",
        "benchmarks.proof",
        "Cost of deriving and proving a chain of L Transformer blocks: seconds of processor time, linear in L.",
        "Chains of up to 8 blocks instead of 32.",
    ),
    Benchmark(
        "compile",
        "benchmarks.compilation",
        "Cost of deriving, planning and emitting the whole library, and chains of Transformer blocks, in both targets.",
        "Chains of up to 4 blocks instead of 16.",
    ),
    Benchmark(
        "errors",
        "benchmarks.errors",
        "Rounding errors of the kernels against a reference of 40 digits, on ordinary and extreme inputs.",
        "Smaller arrays, and docs/errors.md is left as it is.",
    ),
)


@click.group()
def main() -> None:
    """Measurements behind the claims about speed, memory and accuracy, each in one run."""


def command(benchmark: Benchmark) -> click.Command:
    """The command that runs a benchmark."""

    def run(quick: bool, as_json: bool) -> None:
        module = importlib.import_module(benchmark.module)
        rows = module.measure(quick, lambda text: click.echo(f"note: {text}", err=True))
        if as_json:
            click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        else:
            Console().print(table(benchmark.name, rows))

    options = [
        click.Option(["--quick"], is_flag=True, help=benchmark.quick),
        click.Option(["--json", "as_json"], is_flag=True, help="A list of objects on stdout, for programs."),
    ]
    return click.Command(benchmark.name, params=list(options), callback=run, help=benchmark.about)


def table(title: str, rows: Sequence[Any]) -> Table:
    """The rows for people: a column for each field that some row has, what repeats the row above left blank."""
    names = [field.name for field in fields(rows[0])] if rows else []
    names = [name for name in names if any(getattr(row, name) is not None for row in rows)]
    shown = Table(*(name.replace("_", " ") for name in names), title=title)
    above: tuple[str, ...] = ()
    for row in rows:
        cells = tuple(cell(getattr(row, name)) for name in names)
        repeated = 0
        while above and isinstance(getattr(row, names[repeated]), str) and cells[repeated] == above[repeated]:
            repeated += 1  # up to a number; every class of rows has one
        shown.add_row(*("",) * repeated, *cells[repeated:])
        above = cells
    return shown


def cell(value: Any) -> str:
    """A value as a table shows it: four significant digits of a number, a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


for benchmark in BENCHMARKS:
    main.add_command(command(benchmark))


if __name__ == "__main__":
    # Before NumPy is imported and OpenBLAS reads it: with a core type that was set by hand, products of NumPy run on
    # another processor's code, which no peer has to bear.
    os.environ.pop("OPENBLAS_CORETYPE", None)
    symbolic_cache.enlarge()
    main()

"""`python -m benchmarks proof [--quick] [--json]`: what is measured, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from benchmarks.proof import measure


@click.group()
def main() -> None:
    """Measurements behind the claims about speed, each in one run."""


@main.command()
@click.option("--quick", is_flag=True, help="Chains of up to 8 blocks instead of 32.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects on stdout.")
def proof(quick: bool, as_json: bool) -> None:
    """Cost of deriving and proving a chain of L Transformer blocks: seconds of processor time, linear in L."""
    results = measure((1, 2, 4, 8) if quick else (1, 2, 4, 8, 16, 32))
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
        return
    table = Table("blocks", "definitions", "derive s", "prove s", "per block s", title="a chain of Transformer blocks")
    for result in results:
        per_block = (result.derive_s + result.prove_s) / result.blocks
        table.add_row(
            str(result.blocks),
            str(result.definitions),
            f"{result.derive_s:.2f}",
            f"{result.prove_s:.2f}",
            f"{per_block:.3f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()

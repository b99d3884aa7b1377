"""What `gradproof train` trains, on what, and where it leaves its files, from the words of the command line.

Between the options and `gradproof.training`. Everything that can be refused is refused here, before a folder is made
or a step is taken; a run that goes on keeps every setting that makes it that run.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gradproof.training import Source, TrainingConfig
    from gradproof.training.checkpoint import Checkpoint

RUNS = Path("runs")
NEWEST = "\0"
"""What `--resume` without a folder stands for; no folder is called so."""

CHANGEABLE = frozenset(
    {
        "steps",
        "time_limit_s",
        "checkpoint_every",
        "evaluate_every",
        "sample_every",
        "evaluation_windows",
        "sample_length",
    }
    | {"engine", "device", "processes"}
)
"""What may differ when a run goes on; everything else would make it another run."""


@dataclass(frozen=True)
class Place:
    """Where a run leaves its files, and the state that it goes on from.

    Attributes:
        folder: The folder, if it is known; it need not exist. Else it is to be the next number in `RUNS`.
        state: The checkpoint in it, when the run goes on.
    """

    folder: Path | None = None
    state: Checkpoint | None = None


def placed(output: Path | None, resume: str | None, no_save: bool) -> Place:
    """The folder that the options mean, not yet made, and the state in it when the run is to go on.

    Raises:
        CheckpointError: The folder named with --resume has no checkpoint; or one without --resume has one, or has files
            that a run would write over.
    """
    from gradproof.training import CheckpointError
    from gradproof.training.checkpoint import checkpoint_in, load
    from gradproof.training.folder import CHECKPOINT, check_free, newest_run

    if no_save and (output is not None or resume is not None):
        raise click.UsageError("--no-save keeps nothing; leave out --output and --resume, or --no-save")
    if resume == "":
        raise click.UsageError("--resume: expected a folder, found an empty text; name one, or leave the text out")
    if resume is not None and resume != NEWEST:
        named = Path(resume)
        named = named.parent if named.name == CHECKPOINT else named
        if output is not None and os.path.realpath(output) != os.path.realpath(named):
            raise click.UsageError(f"--resume {resume} and --output {output} name two folders; leave one of them out")
        return Place(named, state=load(named))
    folder = newest_run(RUNS) if resume is not None and output is None else output
    if folder is not None and checkpoint_in(folder):
        if resume is None:
            raise CheckpointError(f"{folder}: holds a run already; go on with it by --resume, or choose another folder")
        return Place(folder, state=load(folder))
    if folder is not None:
        check_free(folder)
    return Place(folder)


def check_untouched(place: Place, folder: Path) -> None:
    """See to it, once the folder is locked, that no other process has trained in it since it was looked at.

    Raises:
        CheckpointError: One has.
    """
    from gradproof.training import CheckpointError
    from gradproof.training.checkpoint import saved_step

    if saved_step(folder) != (None if place.state is None else place.state.step):
        raise CheckpointError(f"{folder}: another process has just trained in this folder; start the command again")


def prepared(place: Place) -> Path:
    """The folder of the run, made if it is not there."""
    from gradproof.training.folder import next_run

    if place.folder is None:
        return next_run(RUNS)
    place.folder.mkdir(parents=True, exist_ok=True)
    return place.folder


def check_not_read(plot: Path, place: Place, source: Source) -> None:
    """Refuse a picture that would be part of the text when the run goes on: one in the folder that is trained on.

    Raises:
        PlotError: It would be.
    """
    from gradproof.training import PlotError
    from gradproof.training.folder import is_own

    texts = Path(source.origin.get("path", ""))
    where, name = Path(os.path.realpath(plot.parent)), plot.name
    beside = place.folder is not None and where == Path(os.path.realpath(place.folder)) and is_own(name)
    if (
        "path" not in source.origin
        or not texts.is_dir()
        or beside
        or name.startswith(".")
        or plot.suffix.lower() == ".png"
    ):
        return
    if where.is_relative_to(os.path.realpath(texts)):
        raise PlotError(
            f"{plot}: expected a place outside of {texts}, whose text it would be part of when the run goes on; choose "
            "another, or draw a .png"
        )


def chosen_config(
    place: Place, preset: str | None, file: Path | None, assignments: tuple[str, ...], given: Mapping[str, Any]
) -> TrainingConfig:
    """The settings: those of the run that goes on, or of a preset or a file, with what was set singly on top.

    Raises:
        CheckpointError: A run that goes on was begun with another value of a setting that has to stay.
        ConfigurationError: A setting is unknown or out of range.
    """
    from gradproof.training import CheckpointError, TrainingConfig
    from gradproof.training.config import SECTIONS, check_settings, read_config
    from gradproof.training.config import preset as preset_named

    if preset is not None and file is not None:
        raise click.UsageError("--preset and --config both give all settings; leave one of them out")
    begun = None if place.state is None else place.state.config
    base = begun or TrainingConfig()
    if preset is not None:
        base = preset_named(preset)
    elif file is not None:
        base = read_config(file)
    named: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    # All at once, since one setting may only be possible together with another.
    tables: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        assigned = table_of(assignment)
        check_settings(assigned)  # also what a later one, or an option, says otherwise
        for table, values in assigned.items():
            tables.setdefault(table, {}).update(values)
    for table, names in SECTIONS.items():
        tables.setdefault(table, {}).update({name: named[name] for name in names if name in named})
    # Who names a number of steps wants that number, however long it takes, and who names a limit as well wants both.
    if "steps" in named:
        tables["run"].setdefault("time_limit_s", math.inf)
    config: TrainingConfig = TrainingConfig.from_dict(tables, base)
    for name in sorted(asdict(config)):
        before, after = getattr(begun or config, name), getattr(config, name)
        if before != after and name not in CHANGEABLE:
            raise CheckpointError(
                f"{place.folder}: {name}: the run was begun with {before!r}, found {after!r}; leave it as it was, or "
                "begin anew"
            )
    if place.state is not None and config.steps < place.state.step:
        raise CheckpointError(
            f"{place.folder}: steps: the run has done {place.state.step} steps, found {config.steps}; name more"
        )
    return config


def table_of(assignment: str) -> dict[str, dict[str, Any]]:
    """The TOML table that TABLE.NAME=VALUE stands for; a word without quotes is taken as text."""
    place, sign, text = assignment.partition("=")
    table, dot, name = place.strip().partition(".")
    if not (sign and dot):
        raise click.UsageError(f"--set {assignment}: expected TABLE.NAME=VALUE, such as model.norm=rms")
    try:
        value = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, or a number of more digits than Python reads
        value = {"value": text.strip()}
    if set(value) != {"value"}:
        raise click.UsageError(f"--set {assignment}: expected one value")
    return {table: {name: value["value"]}}


def chosen_source(place: Place, data: Path | None, process: str | None, unit: str | None) -> Source:
    """The text: that of the run that goes on, or what the options name."""
    from gradproof.training import CheckpointError, open_source
    from gradproof.training.text import reopen

    state = place.state
    if state is not None and unit not in (None, state.vocabulary.unit):
        raise CheckpointError(
            f"{place.folder}: the run was begun with {state.vocabulary.unit}, found --unit {unit}; leave it out"
        )
    chosen = "bytes" if unit == "bytes" or (state is not None and state.vocabulary.unit == "bytes") else "characters"
    if state is not None and data is None and process is None:
        return reopen(state.origin, chosen)  # type: ignore[arg-type]
    return open_source(data, process, chosen)  # type: ignore[arg-type]

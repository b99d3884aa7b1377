"""The state of a run on disk: tensors in a safetensors file, everything else in JSON.

Between the loop and the disk. `checkpoint.json` names the tensor file and its SHA-256, and is renamed into place after
the tensor file is there: that renaming is the moment at which the new checkpoint counts, and at every other moment the
old one is whole. Nothing is unpickled or evaluated; a file that is damaged, or that does not fit, is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from gradproof.training.config import TrainingConfig
from gradproof.training.data import Vocabulary
from gradproof.training.errors import CheckpointError, ConfigurationError
from gradproof.training.folder import CHECKPOINT, content_of_file, is_own, tensor_file, write_whole

__all__ = ["Checkpoint", "checkpoint_in", "load", "save", "saved_step", "tidy"]

_FORMAT = 1
_WEIGHTS, _OPTIMISER = "weights.", "optimiser."

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs in order to go on as if it had not been stopped, and a model in order to write.

    Attributes:
        step: Steps done.
        config: The settings.
        vocabulary: What the ids stand for.
        origin: How to obtain the text again.
        fingerprint: SHA-256 of the text.
        first_loss: Loss of the first step; none before it.
        losses: Losses of the last steps, the newest last.
        trained_s: Seconds of training so far.
        weights: Name to values.
        optimiser: Name to the optimiser's values.
        path: The file that it was read from, if it was.
    """

    step: int
    config: TrainingConfig
    vocabulary: Vocabulary
    origin: Mapping[str, str]
    fingerprint: str
    first_loss: float | None
    losses: tuple[float, ...]
    trained_s: float
    weights: Mapping[str, NDArray[Any]]
    optimiser: Mapping[str, NDArray[Any]]
    path: Path | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """What a message calls it."""
        return "the checkpoint" if self.path is None else str(self.path)


def checkpoint_in(folder: Path) -> bool:
    """Whether the folder holds a checkpoint."""
    return (folder / CHECKPOINT).exists()


def saved_step(folder: Path) -> int | None:
    """The step of the folder's checkpoint, if there is one; its tensors are not looked at.

    Raises:
        CheckpointError: It is damaged, or another version of the format.
    """
    path = folder / CHECKPOINT
    return int(_document(path)["step"]) if checkpoint_in(folder) else None


def save(folder: Path, state: Checkpoint) -> None:
    """Make `state` the checkpoint of the folder; the one before counts until this one is whole, and is removed then."""
    tensors = {f"{_WEIGHTS}{name}": values for name, values in state.weights.items()}
    tensors |= {f"{_OPTIMISER}{name}": values for name, values in state.optimiser.items()}
    content = save_tensors(tensors)
    file = folder / tensor_file(state.step)
    write_whole(file, content)
    document = {
        "format": _FORMAT,
        "step": state.step,
        "config": _replaced(state.config.as_dict(), math.inf, "inf"),
        "unit": state.vocabulary.unit,
        "alphabet": state.vocabulary.alphabet,
        "origin": dict(state.origin),
        "fingerprint": state.fingerprint,
        "first_loss": state.first_loss,
        "losses": list(state.losses),
        "trained_s": state.trained_s,
        "tensors": {"file": file.name, "bytes": len(content), "sha256": _digest(content)},
    }
    document["sha256"] = _digest(_canonical(document))
    write_whole(folder / CHECKPOINT, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")
    tidy(folder, state.step)


def tidy(folder: Path, step: int) -> None:
    """Remove what the checkpoint of `step` has replaced, and parts of files that a kill left; nothing else."""
    for file in sorted([*folder.glob("step-*"), *folder.glob("*.part")]):
        if is_own(file.name) and file.name != tensor_file(step) and file.is_file():
            file.unlink(missing_ok=True)


def load(path: Path | str) -> Checkpoint:
    """The checkpoint of a folder, or of its `checkpoint.json`.

    Raises:
        CheckpointError: There is none, it is damaged, or another version of the format.
    """
    path = Path(path)
    path = path / CHECKPOINT if path.is_dir() else path
    if not path.exists():
        raise CheckpointError(
            f"{path}: there is no checkpoint here; give the folder that `gradproof train` wrote, such as runs/001"
        )
    document = _document(path)
    try:
        tensors = _tensors(path, document)
    except CheckpointError:
        # A run that goes on may have replaced both files between the two readings.
        newer = _document(path)
        if newer == document:
            raise
        document, tensors = newer, _tensors(path, newer)
    config = _config(path, document)
    _check_tensors(path, document, tensors, config)
    return Checkpoint(
        step=document["step"],
        config=config,
        vocabulary=Vocabulary(document["alphabet"], document["unit"]),
        origin=document["origin"],
        fingerprint=document["fingerprint"],
        first_loss=document["first_loss"],
        losses=tuple(document["losses"]),
        trained_s=document["trained_s"],
        weights=_named(tensors, _WEIGHTS),
        optimiser=_named(tensors, _OPTIMISER),
        path=path,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


_Holds = Callable[[Mapping[str, Any], Any], bool]
_FIELDS: tuple[tuple[str, _Holds, str], ...] = (
    ("step", lambda _, value: type(value) is int and value >= 0, "a whole number, at least 0"),
    ("unit", lambda _, value: value in ("characters", "bytes"), "'characters' or 'bytes'"),
    (
        "alphabet",
        lambda _, value: isinstance(value, str) and value != "" and list(value) == sorted(set(value)),
        "different characters in code-point order",
    ),
    (
        "origin",
        lambda _, value: isinstance(value, dict) and all(map(_is_text, value.values())),
        "a table of texts that says how to read the text again",
    ),
    ("fingerprint", lambda _, value: isinstance(value, str), "a text"),
    (
        "first_loss",
        lambda document, value: _is_number(value) if document["step"] else value is None,
        "a number, or null before the first step",
    ),
    (
        "losses",
        lambda document, value: (
            isinstance(value, list) and all(map(_is_number, value)) and bool(value) == bool(document["step"])
        ),
        "the last losses, none before the first step",
    ),
    ("trained_s", lambda _, value: _is_number(value) and value >= 0, "seconds, at least 0"),
)
"""What each entry must be, by itself or beside the others, and the same in words; the step is looked at first."""


def _document(path: Path) -> dict[str, Any]:
    """The JSON, with its version, its own checksum and what stands in it checked; not the settings, not the tensors."""
    try:
        document = json.loads(content_of_file(path))
        # Writing it down again may fail as reading does: at numbers that JSON does not have, or brackets too deep.
        found = document.pop("sha256", None) if isinstance(document, dict) else None
        expected_digest = _digest(_canonical(document))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: expected the JSON of a checkpoint, found a file that is not: {error}"
        ) from error
    if not isinstance(document, dict) or "format" not in document:
        raise CheckpointError(f"{path}: expected the JSON of a checkpoint, found something else; check the path")
    if document["format"] != _FORMAT:
        raise CheckpointError(
            f"{path}: expected format {_FORMAT}, found {document['format']!r:.80}; use the gradproof that wrote it"
        )
    if found != expected_digest:
        raise CheckpointError(f"{path}: is damaged or was changed by hand: its checksum does not fit its content")
    for name, holds, expected in _FIELDS:
        if not holds(document, document.get(name)):
            raise CheckpointError(f"{path}: expected {name} to be {expected}, found {document.get(name)!r:.80}")
    return document


def _tensors(path: Path, document: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The tensors that the JSON names, if their file is what it says."""
    entry = _field(path, document, "tensors", dict)
    name, expected = _field(path, entry, "file", str), tensor_file(document["step"])
    if name != expected:
        raise CheckpointError(f"{path}: expected the tensor file {expected} beside it, found the path {name!r:.80}")
    file = path.with_name(name)
    try:
        content = content_of_file(file)
    except OSError as error:
        raise CheckpointError(f"{file}: named by {path.name}, cannot be read: {error.strerror}") from error
    size = _field(path, entry, "bytes", int)
    if len(content) != size:
        raise CheckpointError(f"{file}: is damaged: expected {size} bytes, found {len(content)}")
    if _digest(content) != _field(path, entry, "sha256", str):
        raise CheckpointError(f"{file}: is damaged: its SHA-256 is not the one in {path.name}")
    try:
        tensors: dict[str, NDArray[Any]] = load_tensors(content)
    except SafetensorError as error:
        raise CheckpointError(f"{file}: expected a safetensors file, found something else: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # as the library takes types that NumPy lacks
        raise CheckpointError(f"{file}: expected tensors of types that NumPy has, found others: {error}") from error
    return tensors


def _config(path: Path, document: Mapping[str, Any]) -> TrainingConfig:
    """The settings, all of which were written down."""
    try:
        config = TrainingConfig.from_dict(_replaced(_field(path, document, "config", dict), "inf", math.inf))
    except ConfigurationError as error:
        raise CheckpointError(f"{path}: its settings cannot be used: {error}") from error
    for section, names in config.as_dict().items():
        for name in names:
            if name not in document["config"].get(section, {}):
                raise CheckpointError(f"{path}: expected the setting {name} in [{section}], found none")
    return config


def _check_tensors(
    path: Path, document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], config: TrainingConfig
) -> None:
    """See to it that every tensor is one of the model or the optimiser, in the type that weights have."""
    file = path.with_name(document["tensors"]["file"])
    for name, values in tensors.items():
        if not name.startswith((_WEIGHTS, _OPTIMISER)):
            raise CheckpointError(f"{file}: expected weights and what the optimiser keeps, found {name!r:.80}")
        if values.dtype.name != config.weight_dtype:
            raise CheckpointError(f"{file}: {name}: expected numbers of {config.weight_dtype}, found {values.dtype}")


def _named(tensors: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): values for name, values in tensors.items() if name.startswith(prefix)}


def _field(path: Path, document: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    value = document.get(name)
    if not isinstance(value, kind):
        raise CheckpointError(f"{path}: expected {name} to be of type {kind.__name__}, found {value!r:.80}")
    return value


def _canonical(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, allow_nan=False).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _replaced(value: Any, old: Any, new: Any) -> Any:
    """The nested tables with `new` for `old`; an unlimited time, for which JSON has no number, is written "inf"."""
    if isinstance(value, Mapping):
        return {name: _replaced(part, old, new) for name, part in value.items()}
    return new if value == old else value

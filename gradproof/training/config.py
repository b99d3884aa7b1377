"""The settings of a training run: the shape of the model, the step size at each step, how the work is done.

First in the data flow of training: everything else takes a `TrainingConfig` and derives its sizes from it. Settings
come from a preset, a TOML file with the tables [model], [optimiser] and [run], or Python; all are checked alike. The
only arithmetic here is on settings, plain Python numbers.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from gradproof.training.errors import ConfigurationError

__all__ = ["PRESETS", "SECTIONS", "TrainingConfig", "check_settings", "preset", "read_config"]

PRESETS = ("nano", "tiny", "small")
"""The configurations that come with the package: files of `presets/`."""
_PRESET_FOLDER = Path(__file__).parent / "presets"


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of one run; the defaults are sized for about a minute on two processor cores.

    Attributes:
        layers: Number of blocks, each attention and then feed-forward.
        heads: Query heads; divides `width`.
        key_value_heads: Key and value heads, each shared by a group of query heads; 0 for as many as query heads.
        width: Channels of the residual stream, C.
        context: Tokens the model sees, T.
        expansion: Hidden units of the feed-forward layer for every channel, F / C.
        norm: Layer norm or RMS norm, before each attention and feed-forward and at the end.
        positions: A learned vector for each position, or rotary queries and keys.
        activation: The feed-forward layer: GELU with biases, or SwiGLU without.
        dropout: Chance that a channel is dropped, after the embedding and before each residual sum.
        tied: Whether the read-out uses the embedding's matrix.
        learning_rate: Largest step size, reached when the warm-up is over.
        warm_up: Most steps over which the step size rises linearly; a short run rises over its first tenth.
        final_rate: Step size at the last step, as a fraction of `learning_rate`.
        weight_decay: Decay of the weight matrices and embeddings; gains and biases are not decayed.
        beta_1: Decay of AdamW's running mean of the gradient.
        beta_2: Decay of AdamW's running mean of its square.
        eps: What AdamW adds to the root of that mean.
        clip: Largest norm of the whole gradient; a longer one is scaled down to it. 0 for no limit.
        batch: Windows per step.
        micro_batches: Equal parts that a batch is cut into, so that each part stays in the cache; 0 for one for each
            thread, or one if that does not divide the batch.
        threads: Threads that compute side by side, on the processor. Each adds up the gradients of its share of the
            micro-batches, so that this number and the one before decide the last digits of a result.
        processes: Whether each of them is the thread of a process of its own, where the system has memory that
            processes can share: faster, and the same to the last digit.
        steps: Updates of the run.
        time_limit_s: Wall-clock seconds of training after which the run stops early and says so.
        evaluation_windows: Most windows of the held-out text that the held-out loss averages over.
        checkpoint_every: Steps from one checkpoint to the next.
        evaluate_every: Steps from one look at some held-out windows to the next; 0 for none.
        sample_every: Steps from one sample to the next; 0 for none.
        sample_length: Tokens of a sample.
        seed: Makes weights, batches, dropout and sample repeatable.
        dtype: Floating-point type of activations; weights are kept in float32 where it is bfloat16.
        engine: The library whose kernels compute.
        device: Where the torch engine computes.
    """

    layers: int = 2
    heads: int = 2
    key_value_heads: int = 0
    width: int = 64
    context: int = 64
    expansion: int = 4
    norm: Literal["layer", "rms"] = "layer"
    positions: Literal["learned", "rotary"] = "learned"
    activation: Literal["gelu", "swiglu"] = "gelu"
    dropout: float = 0.0
    tied: bool = False
    learning_rate: float = 3e-3
    warm_up: int = 100
    final_rate: float = 0.05
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.99
    eps: float = 1e-8
    clip: float = 1.0
    batch: int = 16
    micro_batches: int = 0
    threads: int = 2
    processes: bool = True
    steps: int = 1000
    time_limit_s: float = 80.0
    evaluation_windows: int = 704
    checkpoint_every: int = 100
    evaluate_every: int = 100
    sample_every: int = 250
    sample_length: int = 200
    seed: int = 0
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    engine: Literal["numpy", "torch"] = "numpy"
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        """Refuse settings no run can have: of another type, out of range, or contradicting each other."""
        check_settings(self.as_dict())
        self._check_divides("heads", "width")
        self._check_divides("groups", "heads", "key_value_heads")
        self._check_divides("parts", "batch", "micro_batches")
        if self.positions == "rotary" and self.head_width % 2:
            raise ConfigurationError(
                f"rotary positions turn pairs of channels, but width / heads is {self.head_width}; choose a width that "
                f"is a multiple of {2 * self.heads}"
            )
        for setting, value, other, allowed in _TOGETHER:
            if getattr(self, setting) == value and getattr(self, other) != allowed:
                raise ConfigurationError(
                    f"{setting} = {value!r} needs {other} = {allowed!r}, found {other} = {getattr(self, other)!r}; "
                    "change one of them"
                )
        furthest = self.learning_rate * max(1.0, self.weight_decay)
        if self.weight_dtype == "float32" and furthest > _LARGEST_FLOAT32:
            raise ConfigurationError(
                "learning_rate, and its product with weight_decay, must be numbers of float32, the type of the "
                f"weights, found {furthest:g}; lower them, or set dtype = 'float64'"
            )

    def _check_divides(self, part: str, whole: str, setting: str = "") -> None:
        divisor, number = getattr(self, part), getattr(self, whole)
        if number % divisor:
            raise ConfigurationError(
                f"{setting or part} must divide {whole}, but {whole} is {number} and {setting or part} is {divisor}; "
                f"choose a {whole} that is a multiple of {divisor}"
            )

    @property
    def groups(self) -> int:
        """Groups of query heads, each with a key and value head of its own, G."""
        return self.key_value_heads or self.heads

    @property
    def heads_per_group(self) -> int:
        """Query heads that share a key and value head, R = H / G."""
        return self.heads // self.groups

    @property
    def head_width(self) -> int:
        """Channels of one head, D = C / H."""
        return self.width // self.heads

    @property
    def feed_forward_width(self) -> int:
        """Hidden units of the feed-forward layer, F."""
        return self.expansion * self.width

    @property
    def parts(self) -> int:
        """Micro-batches of a batch."""
        lanes = self.threads if self.device == "cpu" else 1
        return self.micro_batches or (1 if self.batch % lanes else lanes)

    @property
    def lanes(self) -> int:
        """How many threads or processes compute parts of a batch side by side; on a GPU, one."""
        return min(self.threads, self.parts) if self.device == "cpu" else 1

    @property
    def weight_dtype(self) -> str:
        """Floating-point type of the weights and their gradients."""
        return "float32" if self.dtype == "bfloat16" else self.dtype

    @property
    def warm_up_steps(self) -> int:
        """Steps over which the step size rises linearly in this run."""
        return min(self.warm_up, self.steps // 10)

    @property
    def tokens_per_step(self) -> int:
        """Tokens predicted in one step."""
        return self.batch * self.context

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """The settings by table, as TOML and JSON have them."""
        values = asdict(self)
        return {section: {name: values[name] for name in names} for section, names in SECTIONS.items()}

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], base: TrainingConfig | None = None) -> TrainingConfig:
        """The settings in the tables, over those of `base`, or over the defaults.

        Raises:
            ConfigurationError: A table or a setting is unknown, or no run can have the settings.
        """
        return replace(base or cls(), **_settings_in(tables))


SECTIONS: Mapping[str, tuple[str, ...]] = {
    "model": (
        "layers", "heads", "key_value_heads", "width", "context", "expansion", "norm", "positions", "activation",
        "dropout", "tied",
    ),
    "optimiser": ("learning_rate", "warm_up", "final_rate", "weight_decay", "beta_1", "beta_2", "eps", "clip"),
    "run": (
        "batch", "micro_batches", "threads", "processes", "steps", "time_limit_s", "evaluation_windows",
        "checkpoint_every", "evaluate_every", "sample_every", "sample_length", "seed", "dtype", "engine", "device",
    ),
}  # fmt: skip
"""Which table of a configuration file each setting stands in."""

_MOST_SHOWN = 60
"""Most characters of a value that a message shows."""
_KINDS = {field.name: type(field.default) for field in fields(TrainingConfig)}

_WORDS: Mapping[str, tuple[str, ...]] = {
    "norm": ("layer", "rms"),
    "positions": ("learned", "rotary"),
    "activation": ("gelu", "swiglu"),
    "dtype": ("float32", "float64", "bfloat16"),
    "engine": ("numpy", "torch"),
    "device": ("cpu", "cuda"),
}

# What no machine has room or time for; within these bounds every size is a number that NumPy and PyTorch can hold.
_MOST_PARTS = 10_000
_LARGEST_SIZE = 1_000_000_000
_LARGEST_COUNT = 10**15
_SEEDS = 2**128
_LARGEST_FLOAT32 = 3.4028234663852886e38

_Test = Callable[[Any], bool]
_RANGES: tuple[tuple[str, _Test, str], ...] = (
    ("layers threads", lambda x: x <= _MOST_PARTS, f"at most {_MOST_PARTS:,}"),
    (
        "heads key_value_heads width context expansion batch micro_batches",
        lambda x: x <= _LARGEST_SIZE,
        f"at most {_LARGEST_SIZE:,}",
    ),
    (
        "warm_up steps evaluation_windows checkpoint_every evaluate_every sample_every sample_length",
        lambda x: x <= _LARGEST_COUNT,
        f"at most {_LARGEST_COUNT:,}",
    ),
    ("seed", lambda x: x < _SEEDS, "below 2^128"),
    ("layers heads width context expansion", lambda x: x >= 1, "at least 1"),
    ("batch threads steps evaluation_windows checkpoint_every", lambda x: x >= 1, "at least 1"),
    (
        "key_value_heads micro_batches warm_up seed evaluate_every sample_every sample_length",
        lambda x: x >= 0,
        "at least 0",
    ),
    ("time_limit_s", lambda x: x > 0, "positive"),
    ("learning_rate eps", lambda x: 0 < x < math.inf, "positive and finite"),
    ("weight_decay clip", lambda x: 0 <= x < math.inf, "at least 0 and finite"),
    ("final_rate", lambda x: 0 <= x <= 1, "between 0 and 1"),
    ("beta_1 beta_2 dropout", lambda x: 0 <= x < 1, "at least 0 and below 1"),
    *((name, words.__contains__, f"{' or '.join(map(repr, words))}") for name, words in _WORDS.items()),
)
"""Settings, what must hold of each, and the same in words."""

_TOGETHER = (("dtype", "bfloat16", "engine", "torch"), ("device", "cuda", "engine", "torch"))
"""A setting that, at a value, needs another setting to have a value."""


def preset(name: str) -> TrainingConfig:
    """The settings that come with the package under this name.

    Raises:
        ConfigurationError: There are none of this name.
    """
    if name not in PRESETS:
        raise ConfigurationError(f"expected a preset, {', '.join(PRESETS)}, found {name!r}; choose one, or give a file")
    return read_config(_PRESET_FOLDER / f"{name}.toml")


def read_config(path: Path) -> TrainingConfig:
    """The settings of a TOML file; what it leaves out has its default.

    Raises:
        ConfigurationError: The file cannot be read, is no TOML, or has settings no run can have. The message names it.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        found = f"expected a readable TOML file, found: {error.strerror}; check the path"
        raise ConfigurationError(f"{path}: {found}") from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of more digits than Python reads
        raise ConfigurationError(f"{path}: expected a TOML file, found: {error}; correct it") from error
    try:
        return TrainingConfig.from_dict(tables)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def check_settings(tables: Mapping[str, Any]) -> None:
    """Refuse a setting that is unknown, and a value that it has in no run."""
    for name, value in _settings_in(tables).items():
        kind = _KINDS[name]
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a word in quotes"}[kind]
        of_range = ((holds(value), expected) for names, holds, expected in _RANGES if name in names.split())
        for is_met, expected in chain([(type(value) is kind, words)], of_range):  # a range is for values of the type
            if not is_met:
                raise ConfigurationError(f"{name} must be {expected}, found {_shown(value)}; change {name}")


def _settings_in(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in the tables by name; a whole number is a float where a number is expected."""
    chosen: dict[str, Any] = {}
    for section, table in tables.items():
        if section not in SECTIONS or not isinstance(table, Mapping):
            expected = ", ".join(f"[{name}]" for name in SECTIONS)
            raise ConfigurationError(f"expected the tables {expected}, found {section}; rename or remove it")
        for name, value in table.items():
            if name not in SECTIONS[section]:
                raise ConfigurationError(_unknown(section, name))
            chosen[name] = _as_float(value) if _is_whole(value) and _KINDS[name] is float else value
    return chosen


def _as_float(value: int) -> float | int:
    """The whole number as a float, or itself where it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return value


def _shown(value: Any) -> str:
    """A value as a message shows it; Python does not write a number of thousands of digits."""
    try:
        written = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return written if len(written) <= _MOST_SHOWN else f"{written[:_MOST_SHOWN]}..."


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _unknown(section: str, name: str) -> str:
    home = next((other for other, names in SECTIONS.items() if name in names), None)
    if home is not None:
        return f"[{section}] has no setting {name}, which belongs in [{home}]; move it there"
    return f"[{section}] has no setting {name}; it has {', '.join(SECTIONS[section])}"

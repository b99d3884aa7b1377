"""The model as a chain of kernels: which kernel, on which arrays, in which order, forwards and backwards.

Between the settings and the engines. Nothing runs here. `forward_steps` writes the model down as a list; every entry
names a generated kernel, the arrays that it takes and the array that it makes. `backward_steps` turns the list around:
each kernel's backward pass in the opposite order and, where an array was used more than once, the kernel that adds
what comes back. The engines carry the lists out; `gradproof.training.proof` reads them too and proves that what they
compute is the gradient of the loss.

    embedding -> (norm -> attention -> +  norm -> feed-forward -> +) x layers -> norm -> read-out -> cross entropy
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gradproof.training.config import TrainingConfig

__all__ = [
    "ADDITION",
    "LOGITS",
    "LOSS",
    "TARGETS",
    "TOKENS",
    "Pull",
    "Step",
    "backward_steps",
    "cotangent",
    "forward_steps",
    "last_uses",
]

TOKENS, TARGETS, LOSS, LOGITS = "tokens", "targets", "loss", "logits"
ADDITION = "addition"

_NORMS = {"layer": ("layer_norm", "gamma beta"), "rms": ("rms_norm", "gamma")}
_ATTENTIONS = {"learned": "self_attention", "rotary": "self_attention_rotary"}
_FEED_FORWARDS = {"gelu": ("feed_forward", "W_1 b_1 W_2 b_2"), "swiglu": ("swiglu", "W_g W_u W_d")}


@dataclass(frozen=True)
class Step:
    """One kernel of the forward pass.

    Attributes:
        place: Where in the model it stands, for a reader.
        kernel: The generated kernel.
        inputs: The arrays it takes, in its order.
        output: The array it makes.
        varied: Those of the inputs that a gradient is wanted for, in the order of its backward results.
        options: Its options, where they are not the defaults.
    """

    place: str
    kernel: str
    inputs: tuple[str, ...]
    output: str
    varied: tuple[str, ...]
    options: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Pull:
    """One kernel of the backward pass: from the cotangent of the step's output to those of its varied inputs."""

    step: Step
    cotangent: str
    makes: tuple[str, ...]


@cache
def forward_steps(config: TrainingConfig, *, dropout: bool = False) -> tuple[Step, ...]:
    """The forward pass from tokens and targets to the loss; with dropout, as in training, or without."""
    chance = config.dropout if dropout else 0.0
    steps: list[Step] = []

    def apply(place: str, kernel: str, inputs: str, output: str, fixed: str = "", **options: float) -> str:
        """Add a step; names that begin with a dot belong to the place. Returns the name of its output."""
        names = tuple(f"{place}{name}" if name.startswith(".") else name for name in inputs.split())
        kept = tuple(f"{place}{name}" if name.startswith(".") else name for name in fixed.split())
        made = f"{place}{output}" if output.startswith(".") else output
        varied = tuple(name for name in names if name not in kept)
        steps.append(Step(place, kernel, names, made, varied, tuple(options.items())))
        return made

    def drop(place: str, value: str) -> str:
        return apply(place, "dropout_draws", f"{value} .draw", ".dropped", ".draw", p=chance) if chance else value

    def norm(place: str, value: str) -> str:
        kernel, symbols = _NORMS[config.norm]
        return apply(place, kernel, f"{value} {_owned(symbols)}", ".normed")

    def residual(place: str, value: str, branch: str) -> str:
        return apply(place, ADDITION, f"{value} {drop(place, branch)}", ".stream")

    learned = config.positions == "learned"
    kernel, tables = ("token_embedding", ".E .P") if learned else ("embedding", ".E")
    stream = drop("embedding", apply("embedding", kernel, f"{TOKENS} {tables}", ".rows", TOKENS))
    for layer in range(config.layers):
        place = f"layers.{layer}.attention"
        weights = _owned("W_Q W_K W_V W_O")
        branch = apply(place, _ATTENTIONS[config.positions], f"{norm(place, stream)} {weights}", ".branch")
        stream = residual(place, stream, branch)
        place = f"layers.{layer}.feed_forward"
        kernel, symbols = _FEED_FORWARDS[config.activation]
        branch = apply(place, kernel, f"{norm(place, stream)} {_owned(symbols)}", ".branch")
        stream = residual(place, stream, branch)
    matrix = "embedding.E" if config.tied else ".W"
    apply("head", "read_out", f"{norm('final', stream)} {matrix}", LOGITS)
    apply("loss", "cross_entropy", f"{LOGITS} {TARGETS}", LOSS, TARGETS)
    return tuple(steps)


@cache
def backward_steps(steps: tuple[Step, ...]) -> tuple[Pull | Step, ...]:
    """The backward pass of a chain of steps, whose last makes the loss; the cotangent of `x` is called `d x`.

    The parts of a cotangent that comes from several uses are `d x (1)`, `d x (2)`, ..., the last use first, and steps
    of the addition kernel add them in this order.
    """
    uses: dict[str, int] = {}
    for step in steps:
        for name in step.varied:
            uses[name] = uses.get(name, 0) + 1
    met: dict[str, int] = {}
    plan: list[Pull | Step] = []
    for step in reversed(steps):
        made = []
        for name in step.varied:
            met[name] = met.get(name, 0) + 1
            made.append(cotangent(name) if uses[name] == 1 else f"{cotangent(name)} ({met[name]})")
        plan.append(Pull(step, cotangent(step.output), tuple(made)))
        for name in dict.fromkeys(step.varied):
            if 1 < uses[name] == met[name]:
                plan += _sum_of(step.place, cotangent(name), uses[name])
    return tuple(plan)


@cache
def last_uses(steps: tuple[Step, ...]) -> tuple[tuple[str, ...], ...]:
    """For each step the outputs of earlier ones that no step after it reads, so that they need not be kept."""
    made = {step.output for step in steps}
    last = {name: number for number, step in enumerate(steps) for name in step.inputs if name in made}
    return tuple(tuple(name for name in last if last[name] == number) for number in range(len(steps)))


def cotangent(name: str) -> str:
    """The name of the gradient of the loss with respect to an array."""
    return f"d {name}"


def _sum_of(place: str, total: str, parts: int) -> list[Step]:
    """The additions that make `total` from its parts: the first two, then one more each time."""
    names = [f"{total} ({number})" for number in range(1, parts + 1)]
    sums = [names[0], *(f"{total} (1..{number})" for number in range(2, parts)), total]
    pairs = zip(sums, names[1:], strict=False)
    return [Step(place, ADDITION, pair, made, ()) for pair, made in zip(pairs, sums[1:], strict=True)]


def _owned(symbols: str) -> str:
    return " ".join(f".{symbol}" for symbol in symbols.split())

"""Training steps: loss, gradient and AdamW update of a small GPT, in tokens per second.

4 layers, 4 heads, 128 channels, 128 tokens of context, 16 windows a step, float32, two threads where the cores allow.
Peers: the same model as one would write it in PyTorch (`benchmarks.plain_gpt`: eager autograd,
`torch.optim.AdamW`, `scaled_dot_product_attention`), the same through torch.compile, and in JAX under jit. All begin
with the same weights, see the same batches and have to report the same losses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from statistics import median
from typing import Any

import numpy as np

from benchmarks.peers import can_compile, compiled, installed
from benchmarks.timing import Note, Row, Run, agree, take_turns
from gradproof.training.config import TrainingConfig, preset
from gradproof.training.model import Model, create_model
from gradproof.training.optimiser import AdamW

CASE = "a step, 4 layers, 128 channels, 16 x 128 tokens"
VOCABULARY = 103
TOLERANCE = 2e-3
RATE = 1e-3
"""The step size, the same at every step: a schedule costs nothing, and is left to nobody."""


@dataclass(frozen=True, kw_only=True)
class Pace(Row):
    """A step of ours and theirs, also in tokens per second; the ratio is the median over rounds of their time/ours."""

    tokens_per_s: float
    peer_tokens_per_s: float


def measure(quick: bool, note: Note) -> list[Pace]:
    """A row for each target and peer."""
    config = preset("tiny")
    model = create_model(config, VOCABULARY)
    targets = {"numpy": ours(model)}
    peers: dict[str, Run] = {}
    torch = installed("torch", note, "the target torch; plain PyTorch, torch.compile")
    if torch is not None:
        targets["torch"] = ours(create_model(replace(config, engine="torch"), VOCABULARY))
        peers["torch.eager"] = plain(torch, model, lambda function: function)
        if not quick and can_compile(note):
            peers["torch.compile"] = plain(torch, model, lambda function: compiled(torch, function))
    jax = installed("jax", note, "jax.jit")
    if jax is not None:
        peers["jax.jit"] = with_jax(jax, model)
    contenders = {**targets, **peers}
    agree("a training step", contenders, TOLERANCE)
    times = take_turns(contenders, 20.0 if quick else 60.0)
    tokens = config.tokens_per_step
    return [
        Pace(
            CASE,
            target,
            peer,
            round(median(theirs / mine for theirs, mine in zip(times[peer], times[target], strict=True)), 3),
            round(1000 * median(times[target]), 3),
            round(1000 * median(times[peer]), 3),
            tokens_per_s=round(tokens / median(times[target])),
            peer_tokens_per_s=round(tokens / median(times[peer])),
        )
        for target in targets
        for peer in peers
    ]


def batches(config: TrainingConfig) -> Iterator[tuple[Any, Any]]:
    """Random tokens and targets, always the same ones, without end."""
    generator = np.random.default_rng(0)
    while True:
        ids = generator.integers(0, VOCABULARY, (config.batch, config.context + 1))
        yield ids[:, :-1], ids[:, 1:]


def ours(model: Model) -> Run:
    """A step of gradproof's training."""
    optimiser, given, steps = AdamW(model), batches(model.config), count(1)

    def run() -> tuple[Any, ...]:
        step = next(steps)
        loss = model.loss_and_gradients(*next(given), step)
        optimiser.update(step, RATE)
        return (np.float32(loss),)

    return run


def plain(torch: Any, model: Model, through: Callable[[Any], Any]) -> Run:
    """A step of the plain PyTorch model, its loss taken through a compiler or as it is."""
    from benchmarks.plain_gpt import PlainGPT, load

    config, given = model.config, batches(model.config)
    twin = PlainGPT(config, VOCABULARY)
    load(twin, model.state())
    groups = twin.decay_groups(config.weight_decay)
    optimiser = torch.optim.AdamW(groups, lr=RATE, betas=(config.beta_1, config.beta_2), eps=config.eps)
    loss_of = through(twin.loss)

    def run() -> tuple[Any, ...]:
        tokens, targets = map(torch.from_numpy, next(given))
        optimiser.zero_grad()
        loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), config.clip)
        optimiser.step()
        return (np.float32(loss.item()),)

    return run


def with_jax(jax: Any, model: Model) -> Run:
    """A step in JAX: loss, gradient, clipping and AdamW in one compiled function."""
    jnp, config, given = jax.numpy, model.config, batches(model.config)
    decayed = {spec.name: config.weight_decay * spec.decayed for spec in model.specs}

    def norm(x: Any, weights: Any, place: str) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        return centred * scale * weights[f"{place}.gamma"] + weights[f"{place}.beta"]

    def attention(x: Any, weights: Any, place: str) -> Any:
        q, k, v = (jnp.einsum("ntc,hdc->nthd", x, _heads(weights[f"{place}.W_{symbol}"])) for symbol in "QKV")
        heads = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return jnp.einsum("nthd,chd->ntc", heads, weights[f"{place}.W_O"][:, :, 0])

    def feed_forward(x: Any, weights: Any, place: str) -> Any:
        hidden = jax.nn.gelu(x @ weights[f"{place}.W_1"].T + weights[f"{place}.b_1"], approximate=False)
        return hidden @ weights[f"{place}.W_2"].T + weights[f"{place}.b_2"]

    def loss_of(weights: Any, tokens: Any, targets: Any) -> Any:
        x = weights["embedding.E"][tokens] + weights["embedding.P"]
        for layer in range(config.layers):
            for place, branch in (("attention", attention), ("feed_forward", feed_forward)):
                where = f"layers.{layer}.{place}"
                x = x + branch(norm(x, weights, where), weights, where)
        logits = norm(x, weights, "final") @ weights["head.W"].T
        picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return (jax.nn.logsumexp(logits, axis=-1) - picked).mean()

    def update(state: Any, step: Any, tokens: Any, targets: Any) -> Any:
        weights, means, squares = state
        loss, slopes = jax.value_and_grad(loss_of)(weights, tokens, targets)
        size = jnp.sqrt(sum((slope**2).sum() for slope in slopes.values()))
        scale = jnp.minimum(1, config.clip / (size + 1e-6))
        slopes = {name: slope * scale for name, slope in slopes.items()}
        means = {name: config.beta_1 * means[name] + (1 - config.beta_1) * slopes[name] for name in slopes}
        squares = {name: config.beta_2 * squares[name] + (1 - config.beta_2) * slopes[name] ** 2 for name in slopes}
        first, second = 1 - config.beta_1**step, 1 - config.beta_2**step
        moved = {
            name: weight * (1 - RATE * decayed[name])
            - RATE * (means[name] / first) / (jnp.sqrt(squares[name] / second) + config.eps)
            for name, weight in weights.items()
        }
        return loss, (moved, means, squares)

    stepping = jax.jit(update, donate_argnums=0)
    weights = {name: jnp.asarray(value) for name, value in model.state().items()}
    state = [(weights, *({name: jnp.zeros_like(value) for name, value in weights.items()} for _ in range(2)))]
    steps = count(1)

    def run() -> tuple[Any, ...]:
        loss, state[0] = stepping(state[0], float(next(steps)), *next(given))
        return (np.float32(jax.block_until_ready(loss)),)

    return run


def _heads(weight: Any) -> Any:
    """W[g, r, d, c] or W[g, d, c] with one head in each group, as W[h, d, c]."""
    return weight[:, 0] if weight.ndim == 4 else weight

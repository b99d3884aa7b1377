"""The Transformer as a chain of generated kernels.

The heart of the data flow of training: token ids in, a loss and the gradient of every parameter out. The chain is a
table, `stages_of`; running it forwards and backwards is the same two loops for any table. Nothing is added up here:
every parameter is used in exactly one stage, and the residual sums are inside the kernels.

    embedding -> (attention block -> feed-forward block) x layers -> layer norm -> linear -> cross entropy
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gradproof.training.config import TrainingConfig
from gradproof.training.data import Batch, Ids
from gradproof.training.kernels import backward_kernel, forward_kernel
from gradproof.training.parameters import Array, FlatArrays

__all__ = ["Stage", "loss_and_gradient", "loss_of", "next_character_logits", "stages_of"]

_EMBEDDING, _LOSS = "token_embedding", "cross_entropy"


@dataclass(frozen=True)
class Stage:
    """One kernel of the chain and the names of the parameters that it takes after its input."""

    kernel: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """What the backward pass needs: the saved values of the embedding and of every stage, opaque to this module."""

    embedding: Any
    stages: tuple[Any, ...]


@cache
def stages_of(layers: int) -> tuple[Stage, ...]:
    """The chain between the embedding and the loss, for a model of so many layers."""
    chain: list[Stage] = []
    for layer in range(layers):
        chain.append(_stage("attention_block", f"layers.{layer}.attention", "gamma beta W_Q W_K W_V W_O"))
        chain.append(_stage("feed_forward_block", f"layers.{layer}.feed_forward", "gamma beta W_1 b_1 W_2 b_2"))
    chain.append(_stage("layer_norm", "final_norm", "gamma beta"))
    chain.append(_stage("linear", "head", "W b"))
    return tuple(chain)


def loss_of(parameters: FlatArrays, batch: Batch, config: TrainingConfig) -> float:
    """The mean cross entropy of a batch, in nats per character.

    Args:
        parameters: The weights.
        batch: Tokens and targets, each (B, T) with T at most the context.
        config: The settings that the weights were laid out for.
    """
    tokens, targets = batch
    logits, _ = _logits(parameters, tokens, config)
    loss, _ = forward_kernel(_LOSS)(logits, targets)
    return float(loss)


def loss_and_gradient(parameters: FlatArrays, gradients: FlatArrays, batch: Batch, config: TrainingConfig) -> float:
    """The mean cross entropy of a batch; its gradient with respect to every parameter is written to `gradients`.

    Args:
        parameters: The weights.
        gradients: Laid out like the weights; overwritten.
        batch: Tokens and targets, each (B, T).
        config: The settings that the weights were laid out for.

    Raises:
        ValueError: T is not the context, so that some positions would have no gradient.
    """
    tokens, targets = batch
    if tokens.shape[-1] != config.context:
        raise ValueError(
            f"tokens: expected windows of {config.context} characters, the context, found {tokens.shape[-1]}; "
            "cut the batch to the context"
        )
    logits, trace = _logits(parameters, tokens, config)
    loss, saved = forward_kernel(_LOSS)(logits, targets)
    (upstream,) = backward_kernel(_LOSS)(np.ones((), dtype=logits.dtype), saved)
    for stage, saved in zip(reversed(stages_of(config.layers)), reversed(trace.stages), strict=True):
        upstream, *found = backward_kernel(stage.kernel)(upstream, saved)
        _write(gradients, stage.parameters, found)
    _write(gradients, ("embedding.E", "embedding.P"), backward_kernel(_EMBEDDING)(upstream, trace.embedding))
    return float(loss)


def next_character_logits(parameters: FlatArrays, tokens: Ids, config: TrainingConfig) -> Array:
    """Logits, shape (B, V), of the character after `tokens`, shape (B, T) with T at most the context."""
    logits, _ = _logits(parameters, tokens, config)
    last: Array = logits[:, -1]
    return last


def _logits(parameters: FlatArrays, tokens: Ids, config: TrainingConfig) -> tuple[Array, Trace]:
    views = parameters.views
    positions = views["embedding.P"][: tokens.shape[-1]]
    stream, embedding_saved = forward_kernel(_EMBEDDING)(tokens, views["embedding.E"], positions)
    stage_saved = []
    for stage in stages_of(config.layers):
        stream, saved = forward_kernel(stage.kernel)(stream, *(views[name] for name in stage.parameters))
        stage_saved.append(saved)
    return stream, Trace(embedding_saved, tuple(stage_saved))


def _write(gradients: FlatArrays, names: tuple[str, ...], values: Any) -> None:
    for name, value in zip(names, values, strict=True):
        np.copyto(gradients.views[name], value)


def _stage(kernel: str, place: str, symbols: str) -> Stage:
    return Stage(kernel, tuple(f"{place}.{symbol}" for symbol in symbols.split()))

"""The library's derivations as chains of equalities, each step decided on its own; a wrong one is pointed at."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from derive.language import Sum, dims, indices, tensors
from derive.library import load
from derive.program import Program
from derive.prove import PROVED, REFUTED, prove

# The derivations that the project promises, by file.
SUBJECTS = [
    "adamw", "attention", "attention_alibi", "attention_block", "attention_grouped", "attention_padding",
    "attention_softcap", "attention_window", "batch_norm", "contrastive", "cosine_similarity", "cross_entropy",
    "cross_entropy_masked", "cross_entropy_soft", "cross_entropy_weighted", "dice", "dpo", "dropout", "embedding",
    "feed_forward", "focal", "gelu", "gelu_tanh", "jensen_shannon", "kl_distillation", "label_smoothing",
    "layer_norm", "layer_norm_variants", "likelihood", "linear", "linear_attention", "linear_regression",
    "log_softmax", "logistic", "logsumexp", "matrix_calculus", "matrix_inverse", "mean_squared_error", "momentum",
    "online_softmax", "positions", "rms_norm", "rotary", "silu", "softmax", "softplus", "swiglu", "symmetric",
    "transformer_block", "weight_tying", "z_loss",
]  # fmt: skip
PROGRAMS = load()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_derivation_is_a_chain_that_can_be_followed(subject: str) -> None:
    """A chain has at least two steps, one after another, each with its reason; the next begins where one ends."""
    chains: dict[str, list[object]] = {}
    for program in PROGRAMS:
        if program.origin == f"derive.library.{subject}":
            for claim in program.claims:
                if re.fullmatch(r".+\.\d+", claim.id):
                    assert claim.name, claim.id
                    chains.setdefault(claim.id.rsplit(".", 1)[0], []).append(claim)
    assert max((len(chain) for chain in chains.values()), default=0) >= 2
    for chain in chains.values():
        assert [claim.id.rsplit(".", 1)[1] for claim in chain] == [str(number + 1) for number in range(len(chain))]
        assert all(first.right == second.left for first, second in pairwise(chain))


def test_a_wrong_step_is_pointed_at_and_the_others_are_decided() -> None:
    (n,) = dims("n")
    i, j = indices("i j", n)
    x, y = tensors("x y", n)
    program = Program("square", inputs=[x, y])
    steps = program.steps(
        "square", Sum((x[i] + y[i]) ** 2, i), Sum(x[i] ** 2 + 2 * x[i] * y[i] + y[i] ** 2, i),
        Sum(x[i] ** 2, i) + 2 * Sum(x[i], i) * Sum(y[i], i) + Sum(y[i] ** 2, i),
        Sum(x[j] ** 2 + y[j] ** 2, j) + 2 * Sum(x[i] * y[j], i, j),
        because=["binomial", "the sum of products split", "sums renamed and joined"],
    )  # fmt: skip
    verdicts = [prove(step) for step in steps]
    assert [verdict.status for verdict in verdicts] == [PROVED, REFUTED, PROVED]
    assert verdicts[1].counterexample is not None
    assert all(verdict.laws for verdict in verdicts if verdict.status == PROVED)

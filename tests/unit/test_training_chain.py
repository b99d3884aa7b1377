"""The model as a list of kernels, its backward pass as another, and the proof that the second is the gradient."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr

from derive.composition import Application
from derive.errors import StatementError
from derive.language import Tensor, dims
from derive.library import load
from derive.program import Program
from derive.prove import prove
from gradproof.training import proof
from gradproof.training.chain import Pull, Step, backward_steps, cotangent, forward_steps, last_uses
from gradproof.training.config import TrainingConfig, preset
from gradproof.training.errors import KernelMissingError
from gradproof.training.parameters import parameter_specs

ONE_LAYER = TrainingConfig(layers=1, heads=2, width=8, context=4)
MODERN = replace(
    preset("small"), layers=1, heads=6, key_value_heads=2, width=24, expansion=2, micro_batches=1, threads=1
)
EVERY = [
    replace(ONE_LAYER, norm=norm, positions=positions, activation=activation, dropout=dropout, tied=tied)
    for norm, positions, activation, dropout, tied in itertools.product(
        ("layer", "rms"), ("learned", "rotary"), ("gelu", "swiglu"), (0.0, 0.1), (False, True)
    )
]


@pytest.mark.parametrize("config", EVERY, ids=lambda config: f"{config.norm}-{config.positions}")
def test_every_array_is_made_before_it_is_read(config: TrainingConfig) -> None:
    steps = forward_steps(config, dropout=True)
    weights = {spec.name for spec in parameter_specs(config, 11)}
    known = {"tokens", "targets", *weights}
    known |= {step.inputs[1] for step in steps if step.kernel == "dropout_draws"}
    for step in steps:
        assert known.issuperset(step.inputs)
        assert step.output not in known
        known.add(step.output)
    held = {cotangent("loss")}
    for item in backward_steps(steps):
        read = item.inputs if isinstance(item, Step) else (item.cotangent,)
        made = (item.output,) if isinstance(item, Step) else item.makes
        assert held.issuperset(read)
        held = (held - set(read)) | set(made)
    assert held == set(map(cotangent, weights))


def test_last_uses_are_last() -> None:
    steps = forward_steps(MODERN, dropout=True)
    dropped = [name for names in last_uses(steps) for name in names]
    assert sorted(dropped) == sorted(step.output for step in steps[:-1])
    for number, names in enumerate(last_uses(steps)):
        assert not any(name in step.inputs for step in steps[number + 1 :] for name in names)


def test_an_array_that_is_used_three_times_receives_two_additions() -> None:
    steps = tuple(
        Step("here", kernel, inputs, output, inputs)
        for kernel, inputs, output in (("f", ("x", "x"), "y"), ("g", ("x", "y"), "loss"))
    )
    plan = backward_steps(steps)
    assert [item.makes for item in plan if isinstance(item, Pull)] == [("d x (1)", "d y"), ("d x (2)", "d x (3)")]
    added = [(item.inputs, item.output) for item in plan if isinstance(item, Step)]
    assert added == [(("d x (1)", "d x (2)"), "d x (1..2)"), (("d x (1..2)", "d x (3)"), "d x")]


# The proof. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config", [replace(ONE_LAYER, layers=2), replace(MODERN, layers=2)], ids=["plain", "all options"]
)
def test_what_training_runs_is_proved_to_be_the_gradient(config: TrainingConfig) -> None:
    claims = proof.claims_of_model(config)
    weights = {cotangent(spec.name) for spec in parameter_specs(config, 11)}
    assert weights <= {claim.name.partition(",")[0] for claim in claims}
    assert [str(verdict.claim) for verdict in map(prove, claims) if verdict.status != "Proved"] == []


def test_the_whole_model_is_one_program_from_tokens_to_loss() -> None:
    program = proof.program_of_model(replace(MODERN, layers=2))
    names = program.names()
    assert names[0] == "embedding_rows"
    assert names[-1] == "loss"
    assert sum(name.endswith("_P") for name in names) == 2
    sizes = {str(size) for symbol in program.all_inputs() if isinstance(symbol, Tensor) for size in symbol.shape}
    assert sizes == {"A", "C", "D", "F", "G", "N", "R", "T", "V", "2"}


def altered(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    monkeypatch.setattr(proof, "backward_steps", lambda steps: change(backward_steps(steps)))


def test_a_backward_pass_that_leaves_out_an_addition_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, lambda plan: tuple(item for item in plan if isinstance(item, Pull)))
    with pytest.raises(StatementError, match=r"expected d layers\.0\.attention\.stream to be made before it is used"):
        proof.claims_of_model(ONE_LAYER)


def test_a_backward_pass_that_leaves_out_a_weight_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    altered(monkeypatch, lambda plan: plan[:-1])
    with pytest.raises(StatementError, match=r"leaves out d embedding\.E, d embedding\.P"):
        proof.claims_of_model(ONE_LAYER)


def test_gradients_handed_to_the_wrong_weights_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(item: Pull | Step) -> Pull | Step:
        if isinstance(item, Step) or item.step.kernel != "self_attention":
            return item
        rows, query, key, value, output = item.makes
        return replace(item, makes=(rows, query, value, key, output))

    altered(monkeypatch, lambda plan: tuple(map(swapped, plan)))
    claims = [claim for claim in proof.claims_of_model(ONE_LAYER) if "W_K" in claim.name or "W_V" in claim.name]
    assert [prove(claim).status for claim in claims] == ["Refuted", "Refuted"]


@pytest.mark.parametrize("name", ["rms_norm", "runtime"])
def test_a_kernel_that_was_changed_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that carries the digest of its statement still, and what kernels share."""
    proof.check_generated(MODERN)
    shutil.copytree(proof.kernel_folder(), tmp_path / "generated")
    file = tmp_path / "generated" / "numpy" / f"{name}.py"
    file.write_text(file.read_text().replace("return ", "return 2 * ", 1))
    monkeypatch.setattr(proof, "kernel_folder", lambda: tmp_path / "generated")
    with pytest.raises(KernelMissingError, match=rf"{name}\.py: expected what is generated from the statements"):
        proof.check_generated(MODERN)


# A program inside another. --------------------------------------------------------------------------------------------


def applied(name: str) -> Application:
    return Application(load([name])[0])


def body_of(program: Program, application: Application, name: str) -> Expr:
    definition = program.definition(name)
    assert definition is not None
    return application.expression(definition.body)


def test_a_leading_index_becomes_as_many_as_the_array_has_more() -> None:
    application = applied("cross_entropy")
    B, T, V = dims("B T V")
    z, target = application.program.inputs
    application.bind(z, Tensor("logits", (B, T, V)))
    application.bind(target, Tensor("targets", (B, T), into=V))
    application.names[application.program["L"]] = Tensor("top", (B, T))
    found = body_of(application.program, application, "loss")
    assert str(found) == ("Sum(-logits[n, n_T, targets[n, n_T]] + top[n, n_T], (n_T, 0, T - 1), (n, 0, B - 1))/(B*T)")


def test_arrays_that_do_not_fit_are_refused() -> None:
    B, T, V, W = dims("B T V W")
    with pytest.raises(StatementError, match=r"cross_entropy: z: expected 2 axes, found flat with 1"):
        applied("cross_entropy").bind(load(["cross_entropy"])[0].inputs[0], Tensor("flat", (V,)))
    application = applied("cross_entropy")
    z, target = application.program.inputs
    application.bind(z, Tensor("logits", (B, T, V)))
    with pytest.raises(StatementError, match=r"target = targets: V is \(V,\), found \(W,\)"):
        application.bind(target, Tensor("targets", (B, T), into=W))
    with pytest.raises(StatementError, match="target has no name in the larger program"):
        body_of(application.program, application, "loss")

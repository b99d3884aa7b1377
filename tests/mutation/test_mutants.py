"""Mutants of the library's true equalities: each is refuted, or is equal after all and shown to be by both engines.

A refuted mutant's counterexample is judged by a third party, loops in 60 digits (`brute_force.py`). A mutant that the
prover calls Proved is evaluated by the second engine at many more points than a proof usually is, and listed at the end
of the run. No verdict is false, and none is missing. `tests/conftest.py` prints the counts as the last line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from derive import library
from derive.numeric.sampling import REGIMES, confirmation_sizes, flag_settings
from derive.numeric.trial import Trial
from derive.prove import PROVED, REFUTED, prove
from derive.refutation import confirm
from derive.statements import Claim

LEAST, AIM = 2_000, 2_100  # how many there have to be, and how many are made
SECONDS = 15.0  # for a proof; 2 would do on a fast machine that does nothing else
SEEDS = range(1, 9)  # at which the second engine evaluates a mutant that is called equal
VISIBLE = 1e-9  # a relative difference that 60 digits show beyond doubt

CLAIMS = [claim for program in library.load() for claim in program.claims if claim.by is None]


@pytest.fixture(scope="session")
def shares(mutants: Any) -> list[int]:
    """How many mutants each claim has."""
    return list(mutants.shares(CLAIMS, AIM))


def name_of(number: int) -> str:
    return f"{CLAIMS[number].program.name}-{CLAIMS[number].id}-{number}"


@pytest.mark.parametrize("number", range(len(CLAIMS)), ids=name_of)
def test_mutants(number: int, shares: list[int], mutants: Any, brute_force: Any, record_property: Any) -> None:
    original = CLAIMS[number]
    made, ill_formed = mutants.mutants_of(original, shares[number])
    counts = dict.fromkeys(("refuted", "equivalent", "undecided", "false"), 0)
    problems = []
    for mutant in made:
        shown = f"[{mutant.operator}] {mutant.claim.program.name}: {mutant.claim}"
        verdict = prove(mutant.claim, seconds=SECONDS)
        if verdict.status == REFUTED:
            wrong = objection(mutant.claim, verdict.counterexample, brute_force)
            outcome = "false" if wrong else "refuted"
        elif verdict.status == PROVED:
            wrong = contradiction(mutant.claim)
            outcome = "false" if wrong else "equivalent"
            record_property("equivalent mutant", f"{shown} {list(verdict.hypotheses)}")
        elif is_the_same_claim(mutant.claim, original, brute_force):
            wrong, outcome = "", "equivalent"
            record_property("equivalent mutant", f"{shown} [the hypothesis only says where there is a value]")
        elif has_no_value(mutant.claim, original, brute_force):
            ill_formed += 1
            continue
        else:
            wrong, outcome = verdict.reason, "undecided"
        counts[outcome] += 1
        if wrong:
            problems.append(f"{verdict.status} {shown}: {wrong}")
    for name, count in {"mutants": sum(counts.values()), **counts, "ill-formed": ill_formed}.items():
        record_property(name, count)
    assert not problems, "\n".join(problems)


def objection(claim: Claim, found: Any, brute_force: Any) -> str:
    """What is wrong with a counterexample; empty when its two sides differ, by what it says."""
    world = brute_force.BruteForce(claim.program, found.sizes, found.inputs)
    if not all(world.holds(condition, found.position) for condition in claim.given):
        return "the counterexample does not meet the claim's conditions"
    left, right = (world.value(side, found.position) for side in (claim.left, claim.right))
    if abs(left - right) <= VISIBLE * max(abs(left), abs(right)):
        return f"the sides agree: {left} and {right}"
    for value, shown in ((left, found.left), (right, found.right)):
        if abs(value - world.real.mpf(shown)) > VISIBLE * max(abs(value), 1):
            return f"{shown} is said to be the value, but {value} is"
    return ""


def contradiction(claim: Claim) -> str:
    """Where the second engine differs on a claim that is called proved, or why it saw nothing; empty when it agrees."""
    seen = [confirm(claim, seed=seed) for seed in SEEDS]
    for confirmation in seen:
        if confirmation.disagreement is not None:
            return str(confirmation.disagreement)
    return "" if any(confirmation.points for confirmation in seen) else "the second engine found no point to compare"


def worlds(mutant: Claim, original: Claim, brute_force: Any) -> Iterator[tuple[Any, Any]]:
    """Points of many sizes, each with all positions, at which a mutant and its original can be compared."""
    trials = [Trial(claim) for claim in (original, mutant)]
    names = sorted({name for trial in trials for name in trial.size_names})
    plan = product(SEEDS, confirmation_sizes(names), flag_settings(trials[0].needs))
    for seed, sizes, flags in plan:
        samples = [trial.sample(sizes, flags, REGIMES[0], seed) for trial in trials]
        inputs = {**samples[0].inputs, **samples[1].inputs}
        world = brute_force.BruteForce(mutant.program, sizes, inputs, strict=True)
        for place in world.everywhere(trials[0].indices, {}):
            yield world, place


def has_no_value(mutant: Claim, original: Claim, brute_force: Any) -> bool:
    """Whether the mutant has no value somewhere where the original has one: 0/0, an empty row, the log of -1.

    A claim is about the inputs for which both sides have a value, so that such a mutant says nothing about the others.
    """
    return any(
        world.has_value(original, place) and not world.has_value(mutant, place)
        for world, place in worlds(mutant, original, brute_force)
    )


def is_the_same_claim(mutant: Claim, original: Claim, brute_force: Any) -> bool:
    """Whether a hypothesis was dropped that only says where the sides have a value: [M > 0] for total / M."""
    if (mutant.left, mutant.right) != (original.left, original.right):
        return False
    seen = {
        (world.has_value(mutant, place), world.has_value(original, place))
        for world, place in worlds(mutant, original, brute_force)
    }
    return seen == {(True, True), (False, False)}


def test_there_are_enough_of_every_kind(shares: list[int], mutants: Any) -> None:
    assert sum(shares) >= LEAST
    missing = {
        "sign", "sign of a term", "factor 2", "factor 1/2", "dropped term", "doubled term", "transposed indices",
        "swapped index", "wrong axis", "wrong power", "root dropped", "missing normaliser", "exchanged tensors",
        "mask dropped", "delta dropped", "another function", "detached path", "dropped factor", "hypothesis dropped",
    }  # fmt: skip
    for claim in CLAIMS:
        missing -= {name for name, _ in mutants.candidates(claim)} if missing else set()
    assert not missing

"""Every claim of the document is in the library under its id, and those that need rules are proved by them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from derive.library import load
from derive.prove import PROVED, prove
from derive.statements import Claim
from gradproof.cli.main import main

DOCUMENT = [
    *(f"A{number}" for number in range(1, 5)),
    *(f"B{number}" for number in range(1, 13)),
    *(f"C{number}" for number in range(1, 10)),
    *(f"E{number}" for number in range(1, 11)),
]
CLAIMS = [claim for program in load() for claim in program.claims]
BY_RULE = [claim for claim in CLAIMS if claim.by is not None]


def of(id_: str) -> list[Claim]:
    return [claim for claim in CLAIMS if claim.id == id_]


@pytest.mark.parametrize("id_", DOCUMENT)
def test_claim_of_the_document_is_stated(id_: str) -> None:
    assert of(id_) != []


@pytest.mark.parametrize("claim", BY_RULE, ids=lambda claim: f"{claim.program.name}-{claim.id}")
def test_claims_by_rule_are_proved(claim: Claim) -> None:
    verdict = prove(claim)
    assert verdict.status == PROVED, verdict.reason
    assert claim.by is not None
    assert claim.by.name in verdict.laws


def test_hypotheses_of_the_document_are_stated() -> None:
    """Each is needed; `tests/refused/test_rules.py` shows what becomes of the claims without them."""
    needed = {
        "A1": "every prefix has positive probability",
        "C1": "the samples are independent and identically distributed (i.i.d.)",
        "C7": "P is fixed, and only Q varies",
    }
    for id_, text in needed.items():
        assert all(text in prove(claim).hypotheses for claim in of(id_)), id_
    assert any("the maximum of the row is unique" in prove(claim).hypotheses for claim in of("B9"))
    assert any("attention" in text and "assumption" in text for claim in of("A2") for text in claim.assuming)


@pytest.mark.parametrize(
    ("id_", "words"),
    [
        ("C6", ["nats", "bits = nats / ln 2"]),
        ("B2", ["L(theta; D)", "log-likelihood in part two", "likelihood in part three"]),
        ("C1", ["L(theta; D)", "log-likelihood in part two", "likelihood in part three"]),
        ("C7", ["fixed P only"]),
        ("A2", ["only the feed-forward half is proved", "examples/feed_forward_fit.py"]),
        ("notation", ["L(theta; D)", "two functions"]),
        ("B5", ["examples/underflow.py"]),
        ("B12", ["torch.optim.AdamW step by step", "examples/adamw_steps.py"]),
    ],
)
def test_notes_are_printed(id_: str, words: list[str]) -> None:
    ran = CliRunner().invoke(main, ["prove", id_])
    assert ran.exit_code == 0
    notes = "\n".join(line for line in ran.stdout.splitlines() if line.strip().startswith("note: "))
    assert all(word in notes for word in words), notes

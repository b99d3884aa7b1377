"""`gradproof prove`: decide claims for all sizes and say what each verdict rests on.

Takes claims from `selection` to `derive.prove` and prints the verdicts, a paragraph for each, or as JSON. What is
not proved is shown in full, with the counterexample and the line that reproduces it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradproof.cli import render
from gradproof.cli.meter import Meter, meter
from gradproof.cli.selection import chosen_claims

if TYPE_CHECKING:
    from derive.prove import Verdict
    from derive.statements import Claim


@click.command(
    short_help="Prove or refute claims for all sizes.",
    epilog="""\b
Exit codes:
  0   every claim is proved
  1   a claim is refuted or undecided
  2   bad input: an unknown name, or a statement that is ill-formed
  70  internal alarm: the two proof engines disagree, or gradproof itself failed""",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the verdicts."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the counterexample search."
)
@click.option(
    "--model",
    metavar="MODEL",
    help="Prove that training MODEL, a preset or a TOML file, follows the gradient of its loss.",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_context
def prove(ctx: click.Context, form: str, seed: int, model: str | None, names: tuple[str, ...]) -> None:
    """Prove or refute claims for all sizes.

    NAME is the id of a claim (E6), the name of a program, a module that states programs (package.module), or the path
    of a .py file that does. Without names, every claim of the library is decided.
    """
    claims = chosen_claims(names) if names or model is None else []
    claims += claims_of(model) if model is not None else []
    with meter(["prove"], lines=False) as progress:
        began = time.perf_counter()
        verdicts = decide(claims, seed=seed, progress=progress)
        elapsed = time.perf_counter() - began
    if form == "json":
        render.show_json(as_json(verdicts, elapsed))
    else:
        show(verdicts, elapsed)
        if model is not None and all(verdict.status == "Proved" for verdict in verdicts):
            show_coverage()
    ctx.exit(0 if all(verdict.status == "Proved" for verdict in verdicts) else 1)


def claims_of(model: str) -> list[Claim]:
    """The claims that training this model, a preset or a configuration file, runs the gradient of its loss.

    Raises:
        ConfigurationError: there is no such preset, or the file cannot be used.
        KernelMissingError: the kernels are not what is generated from the statements that the claims are about.
    """
    from gradproof.training.config import PRESETS, preset, read_config
    from gradproof.training.proof import check_generated, claims_of_model

    config = read_config(Path(model)) if model not in PRESETS and Path(model).suffix == ".toml" else preset(model)
    check_generated(config)
    return claims_of_model(config)


def show_coverage() -> None:
    """Print what the claims of a model say together, and what they do not."""
    from gradproof.training.proof import COVERAGE

    for part in COVERAGE:
        render.show_note(part, indent=0)


def decide(claims: Sequence[Claim], *, seed: int, progress: Meter) -> list[Verdict]:
    """The verdicts on the claims, in their order.

    Raises:
        AlarmError: the two engines disagree about a claim.
        StatementError: a claim cannot be given a meaning.
    """
    from derive.errors import AlarmError, StatementError
    from derive.prove import prove as verdict_on

    gc.freeze()  # the statements stay to the end: a collection need not go through all of them for each few claims
    progress.start("prove", len(claims))
    verdicts = []
    for number, claim in enumerate(claims):
        progress.move(number, claim.id)
        try:
            verdicts.append(verdict_on(claim, seed=seed))
        except (AlarmError, StatementError) as error:
            raise type(error)(f"{error}{stated_at(claim)}") from error
    progress.finish(tally(verdicts))
    return verdicts


def count(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many claims met each verdict."""
    return {
        key: sum(verdict.status == status for verdict in verdicts)
        for key, status in (("proved", "Proved"), ("refuted", "Refuted"), ("undecided", "Undecided"))
    }


def tally(verdicts: Sequence[Verdict]) -> str:
    """The count in words: 28 of 30 proved, 1 refuted, 1 undecided."""
    counts = count(verdicts)
    rest = [f"{counts[key]} {key}" for key in ("refuted", "undecided") if counts[key]]
    return ", ".join([f"{counts['proved']} of {len(verdicts)} proved", *rest])


def as_json(verdicts: Sequence[Verdict], elapsed: float) -> dict[str, Any]:
    """The verdicts as the JSON object that `--format json` prints; every claim has the same keys."""
    return {
        "claims": [
            {
                "id": verdict.claim.id,
                "name": verdict.claim.name,
                "program": verdict.claim.program.name,
                "statement": str(verdict.claim),
                "source": render.place(verdict.claim.source),
                "verdict": verdict.status,
                "hypotheses": list(verdict.hypotheses),
                "laws": list(verdict.laws),
                "rule": rule_of(verdict.claim),
                "note": verdict.claim.note,
                "reason": verdict.reason,
                "seconds": round(verdict.seconds, 6),
                "counterexample": verdict.counterexample and verdict.counterexample.as_dict(),
                "advice": list(verdict.advice),
            }
            for verdict in verdicts
        ],
        "summary": {**count(verdicts), "seconds": round(elapsed, 6)},
    }


def rule_of(claim: Claim) -> dict[str, str] | None:
    """The inference rule that a claim names, with the sentence that it rests on and where that is proved."""
    rule = claim.by
    return None if rule is None else {"name": rule.name, "statement": rule.statement, "source": rule.source}


def show(verdicts: Sequence[Verdict], elapsed: float) -> None:
    """Print a paragraph for each verdict, then the count."""
    width = max(len(verdict.claim.id) for verdict in verdicts)
    for verdict in verdicts:
        head = f"{verdict.claim.id:<{width}}  {verdict.status:<9}  {render.seconds(verdict.seconds):>7}"
        render.show_line(f"{head}  {title_of(verdict.claim)}{stated_at(verdict.claim)}", render.STYLES[verdict.status])
        if verdict.hypotheses:
            render.show_note(f"hypotheses: {'; '.join(verdict.hypotheses)}", indent=width + 2)
        if verdict.laws:
            render.show_note(f"laws: {'; '.join(verdict.laws)}", indent=width + 2)
        if verdict.claim.by is not None:
            rule = verdict.claim.by
            render.show_note(f"rule: {rule.name}: {rule.statement} ({rule.source})", indent=width + 2)
        if verdict.claim.note:
            render.show_note(f"note: {verdict.claim.note}", indent=width + 2)
        for line in grounds(verdict):
            render.show_line(f"{'':<{width}}  {line}")
    render.show_line(f"{tally(verdicts)}, in {render.seconds(elapsed)}")


def title_of(claim: Claim) -> str:
    """What the claim says, in the words of its author or else in its own."""
    return claim.name or str(claim)


def stated_at(claim: Claim) -> str:
    """The file and line of the claim, in brackets, to stand at the end of a message."""
    return f"   ({render.place(claim.source)})" if claim.source else ""


def grounds(verdict: Verdict) -> list[str]:
    """Why a claim is not proved: the statement, and its counterexample or what was tried; nothing for a proof."""
    if verdict.status == "Proved":
        return []
    lines = [f"claimed: {verdict.claim}"]
    found = verdict.counterexample
    if found is not None:
        where = [f"{name} = {value}" for name, value in (*found.sizes.items(), *found.position.items())]
        lines += [
            f"fails at: {', '.join(where) or 'the smallest input'}",
            f"    left  side = {found.left}",
            f"    right side = {found.right}",
            f"reproduce with: {found.command}",
        ]
    lines += verdict.advice
    if verdict.reason:
        lines.append(f"reason: {verdict.reason}")
    return lines

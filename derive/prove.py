"""Proving a claim: Proved for all sizes, Refuted with a counterexample, or Undecided.

Last stage of the mathematical side. The normal form is asked first (`derive.attempts`). If that never gives zero,
numbers are asked: they can refute, and never prove. What comes of it is a `derive.verdicts.Verdict`.

Whatever the normal form proves, the second engine (`derive.refutation.confirm`, which shares no code with it)
evaluates at several small sizes. Disagreement is neither verdict: it raises AlarmError, exit code 70.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import sympy
from sympy.core.relational import Relational

from derive.attempts import attempts_at, first_proof, proof_of
from derive.binders import free_indices
from derive.calls import called_as
from derive.consequences import solved_by_inverses
from derive.errors import AlarmError, StatementError
from derive.language import is_bracket
from derive.names import shown
from derive.normal.existence import with_values
from derive.normal.expressions import expression_of_form
from derive.normal.ledger import Ledger
from derive.normal.terms import Polynomial
from derive.program import Program
from derive.refutation import Counterexample, confirm, find_counterexample, is_rare
from derive.rules import Rule, RuleRefusedError
from derive.rules.equal_or_not import numbers_compared
from derive.statements import Claim
from derive.ties import comparisons_of, jumps, off_ties
from derive.verdicts import (
    ARITHMETIC,
    PROVED,
    REFUTED,
    UNDECIDED,
    Verdict,
    definitions_used,
    hypotheses_of,
    readable,
    stated,
)
from derive.wellformed import is_equation, named_symbols

__all__ = ["PROVED", "REFUTED", "UNDECIDED", "Verdict", "proof_of", "prove", "readable"]

CHEAP = 4  # attempts made before numbers are asked
SEARCH = 5.0  # seconds of processor time for a counterexample before everything is written in
LEAST = 0.5  # seconds of processor time for a search away from ties, when one near them has found something
LEFT_OUT = 0.1  # seconds of processor time for a search where one condition of a proof does not hold ...
MOST_LEFT_OUT = 4  # ... for as many conditions at most
EITHER = 2.0  # seconds of processor time for a claim where two numbers are equal, and as many where they are not
RARE = 0.02  # seconds of processor time for a search behind a proof of what few points tell, and for one at ties
MOST_FOLLOWING = 16  # equations that are made of the hypotheses and tried, one at a time
WHOLE = 100  # definitions of a program that the second engine evaluates from its inputs on
NOWHERE = (
    "the normal form proves it, but no point was found where the hypotheses hold and both sides have a value: the "
    "hypotheses may contradict each other"
)

NO_RULE = (
    "an inequality can be given a rule: by=Squares(...) for a gap that is a sum of squares, by=Combination(...) of "
    "hypotheses, by=Gibbs(...) for divergences (docs/prover.md)"
)
TIED = (
    "the normal form proves it where no comparison that was differentiated has a tie, but at each point that was tried "
    "one has: x[i] > x[j] at i = j"
)


@called_as("prove(program.claim(...))")
def prove(claim: Claim, *, seconds: float = 10.0, seed: int = 0, vacuous: bool = False) -> Verdict:
    """The verdict on a claim, within a budget of `seconds` of processor time for the proof and the search for numbers.

    Cheap attempts come first, then numbers, then the attempts that write everything in: a false claim is refuted before
    much is spent on proving it. Each may take half of the time that is left. A claim whose hypotheses nothing is seen
    to meet is left undecided, unless it may be `vacuous`, as one case of several may.

    Raises:
        AlarmError: the normal form proves what the second engine contradicts.
    """
    if not isinstance(claim, Claim):
        found = f"the program {claim.name}; prove each of its .claims" if isinstance(claim, Program) else shown(claim)
        raise StatementError(f"prove: expected a claim, as program.claim(...) returns it, found {found}")
    started = time.monotonic()
    if claim.by is not None and claim.left != claim.right:  # what says 1 = 1 needs no rule
        verdict = _prove_by_rule(claim, claim.by, seconds, seed, vacuous=vacuous)
    else:
        verdict = _prove_or_refute(claim, seconds, seed, vacuous=vacuous)
    return replace(verdict, seconds=time.monotonic() - started)


def _prove_or_refute(claim: Claim, seconds: float, seed: int, *, vacuous: bool) -> Verdict:
    """The verdict on an equality, by the normal form and by numbers in turn."""
    deadline = time.thread_time() + seconds
    reasons: list[str] = []
    found = None
    attempts = attempts_at(claim, deadline)
    proof = first_proof(claim, islice(attempts, CHEAP), _share(deadline), reasons, vacuous=vacuous)
    if proof is None:
        proof = _by_inverses(claim, deadline)
    if proof is None:
        found = _counterexample(claim, seed, min(_share(deadline), time.thread_time() + SEARCH))
    if proof is None and found is None:
        proof = first_proof(claim, attempts, _share(deadline), reasons, vacuous=vacuous)
    if proof is None and found is None:
        verdict = _either_way(claim, deadline, seed, vacuous=vacuous)
        if verdict is not None:
            return verdict
        found = _counterexample(claim, seed, deadline)
    if proof is not None:
        return _confirmed(claim, *proof, seconds, seed, vacuous=vacuous)
    reasons.append("no counterexample found at small sizes")
    if found is None and claim.by is None and is_bracket(claim.left):
        reasons.append(NO_RULE)
    return _unproved(claim, found, "; ".join(dict.fromkeys(reasons)))


def _either_way(claim: Claim, deadline: float, seed: int, *, vacuous: bool) -> Verdict | None:
    """The verdict on a claim that compares two numbers, from where they are equal and where not; None for none."""
    for rule in numbers_compared(claim):
        seconds = min(EITHER, (deadline - time.thread_time()) / 2)
        verdict = _prove_by_rule(claim, rule, seconds, seed, vacuous=vacuous) if seconds > 0 else None
        if verdict is not None and verdict.status != UNDECIDED:
            return verdict
    return None


def _by_inverses(claim: Claim, deadline: float) -> tuple[Ledger, tuple[Any, Any]] | None:
    """A proof from the hypotheses and from what they say when one undoes another; None when there is none."""
    until = _share(deadline)
    for given in islice(solved_by_inverses(claim.given), MOST_FOLLOWING):
        known = replace(claim, given=tuple(given))
        proof = first_proof(known, islice(attempts_at(known, until), CHEAP), until, [])
        if proof is not None:
            return proof
    return None


def _unproved(claim: Claim, found: Counterexample | None, reason: str, ledger: Ledger | None = None) -> Verdict:
    """Refuted by what numbers found, or undecided for a reason."""
    if found is not None:
        return Verdict(claim, REFUTED, hypotheses_of(claim, ledger), counterexample=found)
    return Verdict(claim, UNDECIDED, hypotheses_of(claim, ledger), reason=reason)


def _confirmed(
    claim: Claim, ledger: Ledger, sides: tuple[Any, Any], seconds: float, seed: int, *, vacuous: bool
) -> Verdict:
    """The verdict on a claim that the normal form proves: what the second engine makes of it.

    Raises:
        AlarmError: it contradicts the proof.
    """
    whole = claim if len(claim.program.definitions) <= WHOLE else _as_proved(claim, sides)
    seen = confirm(whole, seed=seed)
    if seen.points == 0 and seen.disagreement is None:
        seen = confirm(with_values(whole), seed=seed)
    if ledger.off_ties or (seen.disagreement is not None and comparisons_of(claim)):
        # Where every point has a tie, as x[i] - x[j] has at i = j, nothing was proved.
        seen = confirm(off_ties(whole), seed=seed)
        if seen.points == 0 and seen.disagreement is None and not vacuous:
            away = off_ties(claim, everywhere=False)
            return _unproved(claim, find_counterexample(away, seed=seed, budget_s=min(seconds, SEARCH)), TIED)
    if seen.disagreement is not None and (
        ledger.may_leave_out(masked=seen.masked) or _agrees_where_not_zero(whole, ledger, seed)
    ):
        found = find_counterexample(claim, seed=seed, budget_s=min(seconds, SEARCH))
        return _unproved(claim, found, f"the normal form proves it only where {', '.join(ledger.conditions)}")
    if seen.disagreement is not None:
        raise AlarmError(_alarm(claim, seen.disagreement))
    if seen.points == 0 and not vacuous:
        return _unproved(claim, None, NOWHERE, ledger)
    away = off_ties(whole) if comparisons_of(claim) else whole
    found = _false_where_left_out(away, ledger, seed) or _false_at_rare_points(away, seed)
    if found is not None and not ledger.conditions:
        raise AlarmError(_alarm(claim, found))
    if found is not None:
        return _unproved(claim, found, "")
    laws = (*definitions_used(claim, sides), *ledger.laws) or (ARITHMETIC,)
    conditions = tuple(sorted(set(map(readable, ledger.conditions))))
    hypotheses = hypotheses_of(claim, ledger)
    return Verdict(claim, PROVED, hypotheses, laws, conditions=conditions, leaves_out=ledger.leaves_out)


def _alarm(claim: Claim, disagreement: Counterexample) -> str:
    return (
        f"internal alarm: claim {claim.id} of {claim.program.name} is proved by the normal form and contradicted "
        f"by the second engine: {disagreement}. Neither can be trusted; please report this statement."
    )


def _agrees_where_not_zero(claim: Claim, ledger: Ledger, seed: int) -> bool:
    """Whether numbers agree with a proof wherever what it divides by is not 0, as hypotheses may say that it is.

    Points that meet hypotheses are rare, and none may be found; without any, agreement has to be seen.
    """
    apart = tuple(sympy.Ne(value, 0) for value in _written(claim, ledger.divided_by))
    stated = tuple(condition for condition in apart if isinstance(condition, sympy.Ne))
    seen = confirm(replace(claim, given=(*claim.given, *stated)), seed=seed) if stated else None
    return seen is not None and seen.disagreement is None and (seen.points > 0 or bool(claim.given))


def _false_where_left_out(claim: Claim, ledger: Ledger, seed: int) -> Counterexample | None:
    """A counterexample where the conditions of a proof do not hold, and both sides have a value all the same.

    The ratio 1 of a geometric sum is such a point. Ties, 0 and 1 are tried, and where what is not to be 0 is 0.
    """
    if not ledger.conditions:
        return None
    found = find_counterexample(claim, seed=seed, budget_s=LEAST, only_ties=True)
    for value in _written(claim, ledger.not_zero) if found is None else ():
        gone = sympy.Eq(value, 0)
        if isinstance(gone, sympy.Eq):
            found = find_counterexample(replace(claim, given=(*claim.given, gone)), seed=seed, budget_s=LEFT_OUT)
        if found is not None:
            break
    return found


def _false_at_rare_points(claim: Claim, seed: int) -> Counterexample | None:
    """A counterexample to a claim of which a few points may tell nothing; ties are tried first."""
    if not is_rare(claim):
        return None
    searches = (find_counterexample(claim, seed=seed, budget_s=RARE, only_ties=ties) for ties in (True, False))
    return next((found for found in searches if found is not None), None)


def _written(claim: Claim, forms: Sequence[Polynomial]) -> list[Any]:
    """The first few of what a proof takes not to be 0, as far as they can be written down."""
    sides = sympy.Tuple(claim.left, claim.right)
    names = {str(known.name): known for known in (*named_symbols(sides), *free_indices(sides))}
    values = [expression_of_form(form, names) for form in forms[:MOST_LEFT_OUT]]
    return [value for value in values if value is not None]


def _share(deadline: float) -> float:
    """The time at which half of what is left is used up."""
    now = time.thread_time()
    return now + max(deadline - now, 0) / 2


def _counterexample(claim: Claim, seed: int, until: float) -> Counterexample | None:
    """A counterexample, for a claim about derivatives away from the points where a case switches."""
    found = find_counterexample(claim, seed=seed, budget_s=until - time.thread_time())
    if found is None and (stated := with_values(claim)).given != claim.given:
        found = find_counterexample(stated, seed=seed, budget_s=until - time.thread_time())
    if found is None:
        found = _where_sides_are_equal(claim, seed, until)
    if found is None or not comparisons_of(claim) or not jumps(claim):
        return found
    away = off_ties(claim, everywhere=False)
    again = find_counterexample(away, seed=seed, budget_s=max(until - time.thread_time(), LEAST))
    if again is None:
        seen = confirm(away, seed=seed)
        return None if seen.points and seen.disagreement is None else found
    return again


def _where_sides_are_equal(claim: Claim, seed: int, until: float) -> Counterexample | None:
    """A counterexample where the two sides of a comparison in the claim are equal, which they rarely are by chance."""
    found = sympy.Tuple(claim.left, claim.right).atoms(Relational)
    equations = [sympy.Eq(part.lhs, part.rhs) for part in sorted(found, key=str) if isinstance(part.lhs, sympy.Expr)]
    about = [one for one in equations if is_equation(one)]
    for equation in about[:MOST_LEFT_OUT]:
        budget = min(LEFT_OUT, until - time.thread_time())
        stated = replace(claim, given=(*claim.given, equation))
        if budget > 0 and (met := find_counterexample(stated, seed=seed, budget_s=budget)) is not None:
            return met
    return None


def _as_proved(claim: Claim, sides: tuple[Any, Any]) -> Claim:
    """The identity that was proved, its opaque names as inputs: what is evaluated does not grow with the program."""
    bare = Program(claim.program.name, inputs=claim.program.inputs, origin=claim.program.origin)
    return replace(claim, left=sides[0], right=sides[1], program=bare)


def _prove_by_rule(claim: Claim, rule: Rule, seconds: float, seed: int, *, vacuous: bool) -> Verdict:
    """The verdict on a claim that a rule reduces to equalities: proved when all of them are."""
    hypotheses, conditions, laws, reason = [*hypotheses_of(claim, None)], list[str](), [rule.name], ""
    try:
        parts = [prove(part, seconds=seconds, seed=seed, vacuous=True) for part in rule.obligations(claim)]
        hypotheses += rule.hypotheses(claim)
    except RuleRefusedError as error:
        parts, reason = [], f"{rule.name}: {error}"
    for part in parts:
        # What a rule adds to the conditions of an obligation it has to discharge itself: a case, a lemma.
        further = [condition for condition in part.claim.given if condition not in claim.given]
        discharged = {*map(stated, further), *(f"hypothesis {condition}" for condition in further)}
        own = _index_names(part.claim) - _index_names(claim)
        meant = {text: _for_all(text, own) for text in part.conditions}
        conditions += meant.values()
        hypotheses += [meant.get(text, text) for text in part.hypotheses if text not in discharged]
        laws += [law for law in part.laws if law not in discharged]
        if part.status != PROVED:
            reason = f"{rule.name}: {part.claim.name or part.claim} is {part.status.lower()}"
        elif own & part.leaves_out:
            reason = f"{rule.name}: {part.claim.name or part.claim} is proved at some positions only"
        if reason:
            break
    found = find_counterexample(claim, seed=seed) if reason else None
    seen = confirm(claim, seed=seed) if not reason else None
    if seen is not None and seen.disagreement is not None:
        if not conditions:
            raise AlarmError(
                f"internal alarm: claim {claim.id} is proved by {rule.name} and contradicted: {seen.disagreement}"
            )
        # A form that is not defined everywhere, exp(log(s)) for s, shows nothing about where it is not.
        found, reason = seen.disagreement, f"{rule.name} shows it only where {', '.join(conditions)}"
    elif seen is not None and seen.points == 0 and not vacuous:
        reason = NOWHERE
    if reason:
        return replace(_unproved(claim, found, reason), hypotheses=tuple(dict.fromkeys(hypotheses)))
    told, used, added = (tuple(dict.fromkeys(texts)) for texts in (hypotheses, laws, conditions))
    leaves_out = frozenset[str]().union(*(part.leaves_out for part in parts))
    return Verdict(claim, PROVED, told, used, conditions=added, leaves_out=leaves_out)


def _index_names(claim: Claim) -> frozenset[str]:
    """The names of the indices that a claim is about."""
    return frozenset(index.name for index in free_indices(claim.left) | free_indices(claim.right))


def _for_all(condition: str, names: Iterable[str]) -> str:
    """A condition of an obligation, which stands for all positions of indices that the claim does not have."""
    meant = [name for name in sorted(names) if re.search(rf"\b{re.escape(name)}\b", condition)]
    return f"{condition} for all {', '.join(meant)}" if meant else condition

"""Verdicts: a claim is Proved for all sizes, Refuted with a counterexample, or Undecided.

Last stage of the mathematical side. A claim left = right is put to the normal form, first with every defined name
left opaque (an identity in arbitrary tensors holds in particular for the ones defined), then with definitions written
in, one level at a time and at last completely. If that never gives zero, numbers are asked: they can refute, and
never prove.

Whatever the normal form proves, the second engine (`derive.refutation.confirm`, which shares no code with it)
evaluates at several small sizes. Disagreement is neither verdict: it raises AlarmError, exit code 70.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from sympy import Indexed

from derive.binders import free_indices, node_count
from derive.errors import AlarmError, BudgetExceededError, NoLawError
from derive.exceptional import empty_index_sets
from derive.gradient import Gradient, depends_on, inline
from derive.language import Scalar
from derive.normal.form import condition_form, is_zero, normal_form
from derive.normal.ledger import Ledger
from derive.normal.powers import UndefinedError
from derive.normal.products import product
from derive.normal.rewriting import Rewrite, solved
from derive.program import Claim, Program, symbols_of
from derive.refutation import Counterexample, confirm, find_counterexample
from derive.rules import Rule, RuleRefusedError
from derive.wellformed import is_equation

PROVED, REFUTED, UNDECIDED = "Proved", "Refuted", "Undecided"
CHEAP = 4  # attempts made before numbers are asked
SEARCH = 5.0  # seconds of processor time for a counterexample before everything is written in
WHOLE = 100  # definitions of a program that the second engine evaluates from its inputs on
WRITTEN = 2_000  # nodes that a side or a hypothesis may grow to when definitions are written in
NEAR = 12  # definitions behind a name that are written in together
LEVELS = 2  # levels of definitions that are written in together


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    `status` is Proved, Refuted or Undecided. `hypotheses` are the conditions under which a proof holds, `laws` what it
    used; `counterexample` belongs to Refuted, `reason` to Undecided. `seconds` is wall-clock time.
    """

    claim: Claim
    status: str
    hypotheses: tuple[str, ...]
    laws: tuple[str, ...]
    seconds: float
    counterexample: Counterexample | None = None
    reason: str = ""

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """For a refuted claim, simple conditions under which it is proved: "holds if B[i, j] = B[j, i]".

        Worked out when first asked for.
        """
        from derive.advice import advice_on

        return advice_on(self.claim) if self.status == REFUTED else ()


def prove(claim: Claim, *, seconds: float = 10.0, seed: int = 0) -> Verdict:
    """The verdict on a claim, within a budget of `seconds` of processor time for the proof.

    Cheap attempts come first, then numbers, then the attempts that write everything in: a false claim is refuted before
    much is spent on proving it.

    Raises:
        AlarmError: the normal form proves what the second engine contradicts.
    """
    if claim.by is not None and claim.left != claim.right:  # what says 1 = 1 needs no rule
        return _prove_by_rule(claim, claim.by, seconds, seed)
    started = time.monotonic()
    deadline = time.thread_time() + seconds
    reasons: list[str] = []
    attempts = _attempts(claim, deadline)
    proof = _first_proof(claim, islice(attempts, CHEAP), deadline, reasons)
    found = find_counterexample(claim, seed=seed, budget_s=min(seconds, SEARCH)) if proof is None else None
    if found is None and proof is None:
        proof = _first_proof(claim, attempts, deadline, reasons)
        if proof is None and seconds > SEARCH:
            found = find_counterexample(claim, seed=seed, budget_s=seconds)
    if found is not None:
        return Verdict(claim, REFUTED, _hypotheses(claim, None), (), time.monotonic() - started, found)
    if proof is None:
        reason = "; ".join(dict.fromkeys([*reasons, "no counterexample found at small sizes"]))
        return Verdict(claim, UNDECIDED, _hypotheses(claim, None), (), time.monotonic() - started, None, reason)
    ledger, sides = proof
    confirmation = confirm(claim if len(claim.program.definitions) <= WHOLE else _as_proved(claim, sides), seed=seed)
    if confirmation.disagreement is not None:
        raise AlarmError(
            f"internal alarm: claim {claim.id} of {claim.program.name} is proved by the normal form and contradicted "
            f"by the second engine: {confirmation.disagreement}. Neither can be trusted; please report this statement."
        )
    laws = (*_derivation_laws(claim), *ledger.laws)
    return Verdict(claim, PROVED, _hypotheses(claim, ledger), laws, time.monotonic() - started)


def _prove_by_rule(claim: Claim, rule: Rule, seconds: float, seed: int) -> Verdict:
    """The verdict on a claim that a rule reduces to equalities: proved when all of them are."""
    started = time.monotonic()
    hypotheses, laws, reason = [*_hypotheses(claim, None)], [rule.name], ""
    try:
        parts = [prove(part, seconds=seconds, seed=seed) for part in rule.obligations(claim)]
        hypotheses += rule.hypotheses(claim)
    except RuleRefusedError as error:
        parts, reason = [], f"{rule.name}: {error}"
    for part in parts:
        # What a rule adds to the conditions of an obligation it has to discharge itself: a case, a lemma.
        added = [condition for condition in part.claim.given if condition not in claim.given]
        discharged = {*map(_stated, added), *(f"hypothesis {condition}" for condition in added)}
        hypotheses += [text for text in part.hypotheses if text not in discharged]
        laws += [law for law in part.laws if law not in discharged]
        if part.status != PROVED:
            reason = f"{rule.name}: {part.claim.name or part.claim} is {part.status.lower()}"
            break
    found = find_counterexample(claim, seed=seed) if reason else None
    status = PROVED if not reason else REFUTED if found is not None else UNDECIDED
    if status == PROVED and (disagreement := confirm(claim, seed=seed).disagreement) is not None:
        raise AlarmError(f"internal alarm: claim {claim.id} is proved by {rule.name} and contradicted: {disagreement}")
    return Verdict(
        claim,
        status,
        tuple(dict.fromkeys(hypotheses)),
        tuple(dict.fromkeys(laws)) if status == PROVED else (),
        time.monotonic() - started,
        found,
        reason if status == UNDECIDED else "",
    )


def proof_of(claim: Claim, *, seconds: float, attempts: int) -> Ledger | None:
    """The ledger of a proof by the normal form alone, unconfirmed; None when so many attempts find none."""
    deadline = time.thread_time() + seconds
    proof = _first_proof(claim, islice(_attempts(claim, deadline), attempts), deadline, [])
    return proof[0] if proof is not None else None


def _first_proof(
    claim: Claim, attempts: Iterator[tuple[Any, Any]], deadline: float, reasons: list[str]
) -> tuple[Ledger, tuple[Any, Any]] | None:
    """The ledger and the sides of the first attempt that gives zero; None, with reasons added, when none does."""
    while True:
        try:
            left, right = next(attempts)
        except StopIteration:
            return None
        except (BudgetExceededError, RecursionError) as error:
            reasons.append(f"proof stopped: {error}")
            return None
        remaining = deadline - time.thread_time()
        if remaining <= 0:
            reasons.append("the time for the proof is used up")
            return None
        ledger = Ledger(remaining)
        try:
            ledger.rewrites = _equations(ledger, claim, reasons)
            difference = normal_form(ledger, left) - normal_form(ledger, right)
            for condition in claim.given:
                if not is_equation(condition) and not difference.is_zero:
                    difference = product(ledger, [condition_form(ledger, condition), difference])
            if is_zero(ledger, difference):
                return ledger, (left, right)
            reasons.append("the normal form of left - right is not zero")
        except BudgetExceededError as error:
            reasons.append(f"proof stopped: {error}")
        except RecursionError:
            reasons.append("proof stopped: nested too deeply")
        except UndefinedError as error:
            reasons.append(f"a side has no value: {error}")
        except NoLawError as error:
            reasons.append(str(error))


def _as_proved(claim: Claim, sides: tuple[Any, Any]) -> Claim:
    """The identity that was proved, its opaque names as inputs: what is evaluated does not grow with the program."""
    bare = Program(claim.program.name, inputs=claim.program.inputs, origin=claim.program.origin)
    return replace(claim, left=sides[0], right=sides[1], program=bare)


def _equations(ledger: Ledger, claim: Claim, reasons: list[str]) -> tuple[Rewrite, ...]:
    """The claim's equational hypotheses, each written with the ones before it and solved for one atom.

    One that mentions defined names counts twice: as it stands, and with their definitions written in.
    """
    found: list[Rewrite] = []
    for condition in dict.fromkeys([*claim.given, *_written_in(ledger, claim)]):
        if is_equation(condition):
            ledger.rewrites = tuple(found)
            left, right = (normal_form(ledger, side) for side in condition.args)
            rewrite = solved(left, right, str(condition))
            if rewrite is not None:
                found.append(rewrite)
            elif not (left - right).is_zero:
                reasons.append(f"the hypothesis {condition} could not be used: no single term stands for the rest")
    return tuple(found)


def _written_in(ledger: Ledger, claim: Claim) -> list[Any]:
    """The claim's conditions with definitions written in, where that does not make them too large."""
    try:
        until = ledger.started + ledger.seconds
        return [inline(condition, claim.program, most=WRITTEN, until=until) for condition in claim.given]
    except BudgetExceededError:
        return []


def _attempts(claim: Claim, deadline: float) -> Iterator[tuple[Any, Any]]:
    """The two sides with more and more definitions written in, so that what need not be expanded is not.

    1. nothing; 2. the names that stand on one side only, the last defined first, until the sides share all names
    that are left; 3. all names that are mentioned, one level and then one more; 4. as 2, and in addition one shared
    name with what it is computed from directly, then with all behind it where that is little, each in turn; 5. as
    2, and all forward definitions; 6. everything.
    """
    program = claim.program
    order = [definition.symbol for definition in program.definitions]
    defined = frozenset(order)

    def written_in(sides: tuple[Any, Any], names: frozenset[Any]) -> tuple[Any, Any]:
        left, right = (inline(side, program, defined - names, most=WRITTEN, until=deadline) for side in sides)
        nodes = max(node_count(left), node_count(right))
        if nodes > WRITTEN:
            raise BudgetExceededError(f"a side of {nodes} nodes with its definitions written in")
        return left, right

    def mentioned(side: Any) -> frozenset[Any]:
        return defined & symbols_of(side)

    sides = claim.left, claim.right
    if claim.given or not any(isinstance(side, (Indexed, Scalar)) for side in sides):
        yield sides  # a name alone equals nothing but itself until a hypothesis or its definition is written in
    while lone := mentioned(sides[0]) ^ mentioned(sides[1]):
        sides = written_in(sides, frozenset({max(lone, key=order.index)}))
    yield sides
    level = claim.left, claim.right
    for _ in range(LEVELS):
        names = mentioned(level[0]) | mentioned(level[1])
        if names:
            level = written_in(level, names)
            yield level
    shared = sorted(mentioned(sides[0]), key=order.index)
    adjoints = defined - frozenset(d.symbol for d in program.forward) if isinstance(program, Gradient) else frozenset()
    for name in shared:
        if name not in adjoints:
            yield written_in(sides, defined & (symbols_of(program.bodies[name]) | {name}))
    for name in shared:
        behind = frozenset(depends_on(program, name)) & defined
        if name not in adjoints and len(behind) <= NEAR:
            yield written_in(sides, behind)
    if shared and adjoints:
        yield written_in(sides, defined - adjoints)
    if shared:
        yield written_in(sides, defined)


# ---------------------------------------------------------------------------------------------------------------------
# What the verdict says about itself.


def _derivation_laws(claim: Claim) -> tuple[str, ...]:
    if isinstance(claim.program, Gradient):
        return ("dX[i]/dX[j] = delta(i, j)", "chain rule")
    return ()


def _hypotheses(claim: Claim, ledger: Ledger | None) -> tuple[str, ...]:
    stated = [_stated(condition) for condition in claim.given]
    stated += [*claim.assuming, *claim.program.assumptions, *_index_sets(claim)]
    used = sorted(map(readable, ledger.hypotheses)) if ledger is not None else []
    return tuple(dict.fromkeys([*stated, *used]))


def _stated(condition: Any) -> str:
    free = sorted(map(str, free_indices(condition))) if is_equation(condition) else []
    return f"{condition} for all {', '.join(free)}" if free else str(condition)


def _index_sets(claim: Claim) -> list[str]:
    """The index sets that must not be empty for the sides to have a value, by the definitions that they rest on."""
    masked = [known for known in claim.program.definitions if empty_index_sets(known)]
    if not masked:
        return []
    behind = set().union(
        *(depends_on(claim.program, name) for name in symbols_of(claim.left) | symbols_of(claim.right))
    )
    return [text for known in masked if known.symbol in behind for text in empty_index_sets(known)]


def readable(key: str) -> str:
    """A hypothesis as a reader writes it: bound indices by letters instead of positions."""
    names: dict[str, str] = {}
    for token in re.findall(r"#\d+\.\d+|~\d+", key):
        names.setdefault(token, f"k{len(names)}" if names else "k")
    for token, name in sorted(names.items(), key=lambda pair: -len(pair[0])):
        key = key.replace(token, name)
    return re.sub(r"\b(sum|prod)\[([^\]]*)\]", lambda m: f"{m[1]}_{{{m[2]}}}", key)

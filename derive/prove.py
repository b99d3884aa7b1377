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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any

from sympy import Indexed

from derive.binders import free_indices, node_count
from derive.errors import AlarmError, BudgetExceededError, NoLawError, StatementError
from derive.exceptional import empty_index_sets
from derive.functions import Defined
from derive.gradient import Gradient, depends_on, inline
from derive.language import Scalar
from derive.normal.case_analysis import Apart
from derive.normal.form import condition_form, is_zero, normal_form
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.products import product
from derive.normal.rewriting import Rewrite, solved
from derive.program import Claim, Program, symbols_of
from derive.refutation import Counterexample, confirm, find_counterexample
from derive.rules import Rule, RuleRefusedError
from derive.ties import comparisons_of, jumps, off_ties, without_ties
from derive.wellformed import is_equation

PROVED, REFUTED, UNDECIDED = "Proved", "Refuted", "Undecided"
CHEAP = 4  # attempts made before numbers are asked
SEARCH = 5.0  # seconds of processor time for a counterexample before everything is written in
LEAST = 0.5  # seconds of processor time for a search away from ties, when one near them has found something
WHOLE = 100  # definitions of a program that the second engine evaluates from its inputs on
WRITTEN = 2_000  # nodes that a side or a hypothesis may grow to when definitions are written in
NEAR = 12  # definitions behind a name that are written in together
LEVELS = 2  # levels of definitions that are written in together
ARITHMETIC = "arithmetic of sums and products"
DERIVATION = ("dX[i]/dX[j] = delta(i, j)", "chain rule")
NOWHERE = (
    "the normal form proves it, but no point was found where the hypotheses hold and both sides have a value: the "
    "hypotheses may contradict each other"
)


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    `status` is Proved, Refuted or Undecided. `hypotheses` are the conditions under which a proof holds, `conditions`
    those of them that it added, which are neither declared nor given; `laws` is what it used. `counterexample` belongs
    to Refuted, `reason` to Undecided. `seconds` is wall-clock time.
    """

    claim: Claim
    status: str
    hypotheses: tuple[str, ...]
    laws: tuple[str, ...]
    seconds: float
    counterexample: Counterexample | None = None
    reason: str = ""
    conditions: tuple[str, ...] = ()

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """For a refuted claim, simple conditions under which it is proved: "holds if B[i, j] = B[j, i]".

        Worked out when first asked for.
        """
        from derive.advice import advice_on

        try:
            return advice_on(self.claim) if self.status == REFUTED else ()
        except (StatementError, ArithmeticError, RecursionError):
            return ()  # SymPy may not be able to work out a hostile statement at 0 or 1


def prove(claim: Claim, *, seconds: float = 10.0, seed: int = 0, vacuous: bool = False) -> Verdict:
    """The verdict on a claim, within a budget of `seconds` of processor time for the proof and the search for numbers.

    Cheap attempts come first, then numbers, then the attempts that write everything in: a false claim is refuted before
    much is spent on proving it. Each may take half of the time that is left. A claim whose hypotheses nothing is seen
    to meet is left undecided, unless it may be `vacuous`, as one case of several may.

    Raises:
        AlarmError: the normal form proves what the second engine contradicts.
    """
    if not isinstance(claim, Claim):
        raise StatementError(f"prove: expected a claim, as program.claim(...) returns it, found {claim!r}")
    if claim.by is not None and claim.left != claim.right:  # what says 1 = 1 needs no rule
        return _prove_by_rule(claim, claim.by, seconds, seed, vacuous=vacuous)
    started = time.monotonic()
    deadline = time.thread_time() + seconds
    reasons: list[str] = []
    found = None
    attempts = _attempts(claim, deadline)
    proof = _first_proof(claim, islice(attempts, CHEAP), _share(deadline), reasons, vacuous=vacuous)
    if proof is None:
        found = _counterexample(claim, seed, min(_share(deadline), time.thread_time() + SEARCH))
    if proof is None and found is None:
        proof = _first_proof(claim, attempts, _share(deadline), reasons, vacuous=vacuous)
    if proof is None and found is None:
        found = _counterexample(claim, seed, deadline)
    if found is not None:
        return Verdict(claim, REFUTED, _hypotheses(claim, None), (), time.monotonic() - started, found)
    if proof is None:
        reason = "; ".join(dict.fromkeys([*reasons, "no counterexample found at small sizes"]))
        return Verdict(claim, UNDECIDED, _hypotheses(claim, None), (), time.monotonic() - started, None, reason)
    ledger, sides = proof
    whole = claim if len(claim.program.definitions) <= WHOLE else _as_proved(claim, sides)
    confirmation = confirm(whole, seed=seed)
    if ledger.off_ties or (confirmation.disagreement is not None and claim.program.switches):
        # Where every point has a tie, as x[i] - x[j] has at i = j, nothing was proved.
        confirmation = confirm(off_ties(whole), seed=seed)
        if confirmation.points == 0 and confirmation.disagreement is None and not vacuous:
            found = find_counterexample(claim, seed=seed, budget_s=min(seconds, SEARCH))
            status, reason = (REFUTED, "") if found is not None else (UNDECIDED, NOWHERE)
            return Verdict(claim, status, _hypotheses(claim, None), (), time.monotonic() - started, found, reason)
    if confirmation.disagreement is not None:
        raise AlarmError(
            f"internal alarm: claim {claim.id} of {claim.program.name} is proved by the normal form and contradicted "
            f"by the second engine: {confirmation.disagreement}. Neither can be trusted; please report this statement."
        )
    if confirmation.points == 0 and not vacuous:
        return Verdict(claim, UNDECIDED, _hypotheses(claim, ledger), (), time.monotonic() - started, None, NOWHERE)
    laws = (*_definitions_used(claim, sides), *ledger.laws) or (ARITHMETIC,)
    conditions = tuple(sorted(set(map(readable, ledger.conditions))))
    return Verdict(
        claim, PROVED, _hypotheses(claim, ledger), laws, time.monotonic() - started, conditions=conditions
    )  # fmt: skip


def _share(deadline: float) -> float:
    """The time at which half of what is left is used up."""
    now = time.thread_time()
    return now + max(deadline - now, 0) / 2


def _counterexample(claim: Claim, seed: int, until: float) -> Counterexample | None:
    """A counterexample, for a claim about derivatives away from the points where a case switches."""
    found = find_counterexample(claim, seed=seed, budget_s=until - time.thread_time())
    if found is None or not claim.program.switches or not jumps(claim):
        return found
    away = off_ties(claim)
    again = find_counterexample(away, seed=seed, budget_s=max(until - time.thread_time(), LEAST))
    if again is None:
        seen = confirm(away, seed=seed)
        return None if seen.points and seen.disagreement is None else found
    return again


def _prove_by_rule(claim: Claim, rule: Rule, seconds: float, seed: int, *, vacuous: bool) -> Verdict:
    """The verdict on a claim that a rule reduces to equalities: proved when all of them are."""
    started = time.monotonic()
    hypotheses, laws, reason = [*_hypotheses(claim, None)], [rule.name], ""
    try:
        parts = [prove(part, seconds=seconds, seed=seed, vacuous=True) for part in rule.obligations(claim)]
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
    conditions = tuple(dict.fromkeys(text for part in parts for text in part.conditions))
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
    status = PROVED if not reason else REFUTED if found is not None else UNDECIDED
    return Verdict(
        claim,
        status,
        tuple(dict.fromkeys(hypotheses)),
        tuple(dict.fromkeys(laws)) if status == PROVED else (),
        time.monotonic() - started,
        found,
        reason if status == UNDECIDED else "",
        conditions if status == PROVED else (),
    )


def proof_of(claim: Claim, *, seconds: float, attempts: int) -> Ledger | None:
    """The ledger of a proof by the normal form alone, unconfirmed; None when so many attempts find none."""
    deadline = time.thread_time() + seconds
    proof = _first_proof(claim, islice(_attempts(claim, deadline), attempts), deadline, [])
    return proof[0] if proof is not None else None


def _first_proof(
    claim: Claim, attempts: Iterator[tuple[Any, Any]], deadline: float, reasons: list[str], *, vacuous: bool = False
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
        try:
            ledger = _zero_by(claim, left, right, deadline, reasons, vacuous=vacuous)
            if ledger is not None:
                return ledger, (left, right)
            reasons.append("the normal form of left - right is not zero")
        except BudgetExceededError as error:
            reasons.append(f"proof stopped: {error}")
            if time.thread_time() > deadline:
                return None
        except RecursionError:
            reasons.append("proof stopped: nested too deeply")
        except (UndefinedError, UndefinedInstanceError) as error:
            reasons.append(f"a side has no value: {error}")
        except NoLawError as error:
            reasons.append(str(error))


def _zero_by(
    claim: Claim, left: Any, right: Any, deadline: float, reasons: list[str], *, vacuous: bool
) -> Ledger | None:  # fmt: skip
    """The ledger of a proof that left - right is zero where the claim's hypotheses hold; None where there is none.

    What divides by a number that may be 0 is tried when nothing else is left, and makes that a hypothesis.

    Raises:
        BudgetExceededError: the time is used up.
    """
    for divides in (False, True):
        remaining = deadline - time.thread_time()
        if remaining <= 0:
            raise BudgetExceededError("the time for the proof is used up")
        ledger = Ledger(remaining, divides=divides)
        ledger.rewrites = _equations(ledger, claim, reasons)
        ledger.apart = cache(partial(_apart, ledger, claim))
        difference = normal_form(ledger, left) - normal_form(ledger, right)
        held = [] if difference.is_zero else [condition_form(ledger, known) for known in _conditions(claim)]
        for condition in held:
            difference = product(ledger, [condition, difference])
        if held and not vacuous and product(ledger, held).is_zero:
            reasons.append("the hypotheses exclude each other")
            return None
        if is_zero(ledger, difference):
            return ledger
        if not ledger.could_divide:
            return None
    return None


def _as_proved(claim: Claim, sides: tuple[Any, Any]) -> Claim:
    """The identity that was proved, its opaque names as inputs: what is evaluated does not grow with the program."""
    bare = Program(claim.program.name, inputs=claim.program.inputs, origin=claim.program.origin)
    return replace(claim, left=sides[0], right=sides[1], program=bare)


def _conditions(claim: Claim) -> list[Any]:
    """The claim's hypotheses that are met, or not, position by position."""
    return [condition for condition in claim.given if not is_equation(condition)]


def _equations(ledger: Ledger, claim: Claim, reasons: list[str]) -> tuple[Rewrite, ...]:
    """The claim's equational hypotheses, each written with the ones before it and solved for one atom.

    One that mentions defined names counts twice: as it stands, and with their definitions written in.
    """
    found: list[Rewrite] = []
    for condition in dict.fromkeys([*claim.given, *_written_in(ledger, claim, claim.given)]):
        if is_equation(condition):
            ledger.rewrites = tuple(found)
            left, right = (normal_form(ledger, side) for side in condition.args)
            rewrite = solved(left, right, str(condition))
            if rewrite is not None:
                found.append(rewrite)
            elif (left - right).constant():
                reasons.append(f"the hypothesis {condition} contradicts the ones before it")
            elif not (left - right).is_zero:
                reasons.append(f"the hypothesis {condition} could not be used: no single term stands for the rest")
    return tuple(found)


def _apart(ledger: Ledger, claim: Claim) -> tuple[Apart, ...]:
    """What is not 0 because the claim is about derivatives, which do not exist where a case switches."""
    comparisons = comparisons_of(claim)
    return without_ties(ledger, [*comparisons, *_written_in(ledger, claim, comparisons)])


def _written_in(ledger: Ledger, claim: Claim, conditions: Sequence[Any]) -> list[Any]:
    """Conditions with definitions written in, where that does not make them too large."""
    try:
        until = ledger.started + ledger.seconds
        return [inline(condition, claim.program, most=WRITTEN, until=until) for condition in conditions]
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


def _definitions_used(claim: Claim, sides: tuple[Any, Any]) -> tuple[str, ...]:
    """The definitions that were written in before the sides met, and how they came about if they are derivatives."""
    if claim.left == claim.right:
        return ()
    bodies = claim.program.bodies
    kept = symbols_of(sides[0]) | symbols_of(sides[1])
    used: set[Any] = set()
    waiting: set[Any] = {*symbols_of(claim.left), *symbols_of(claim.right)} - kept
    while waiting := {name for name in waiting if name in bodies} - used:
        used |= waiting
        waiting = set().union(*(symbols_of(bodies[name]) for name in waiting)) - kept
    names = [known.name for known in claim.program.definitions if known.symbol in used]
    # A derivative that `Program.derivative` gave has no name; one that has a name is not among what it is taken of.
    forward = claim.program.forward.bodies if isinstance(claim.program, Gradient) else None
    derived = any(name not in forward for name in used) if forward is not None else claim.program.differentiated
    names += sorted({node.name for side in sides for node in side.atoms(Defined)})
    return (*(DERIVATION if derived else ()), *([f"definition of {', '.join(names)}"] if names else []))


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

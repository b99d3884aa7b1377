"""Attempts at a proof by the normal form: with nothing written in, with a little, with everything.

Between `derive.prove`, which asks for a proof, and `derive.normal`, which decides whether left - right is zero. A claim
is put to the normal form first with every defined name left opaque (an identity in arbitrary tensors holds in
particular for the ones defined), then with definitions written in, one level at a time and at last completely. Its
hypotheses are read here: equations become rewrites (`derive.equations`), strict inequalities say what is positive, all
others are brackets that left - right is multiplied by.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any

import sympy
from sympy import Ge, Gt, Indexed, Le, Lt, Ne

from derive.binders import free_indices, leaves_of, node_count, symbols_of
from derive.equations import read_equations
from derive.errors import BudgetExceededError, NoLawError
from derive.gradient import Gradient, depends_on, inline
from derive.language import Dim, Scalar
from derive.normal.bounds import is_zero_by_bounds
from derive.normal.case_analysis import Apart
from derive.normal.existence import know_what_has_values
from derive.normal.form import normal_form
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.products import product
from derive.normal.selections import condition_form
from derive.normal.vanishing import follows
from derive.normal.zero import is_zero
from derive.statements import Claim
from derive.ties import comparisons_of, without_ties
from derive.wellformed import is_equation

WRITTEN = 2_000  # nodes that a side or a hypothesis may grow to when definitions are written in
SMALL = 300  # nodes of two sides with everything written in that is tried before names are written in one by one
NEAR = 12  # definitions behind a name that are written in together
LEVELS = 2  # levels of definitions that are written in together


def proof_of(claim: Claim, *, seconds: float, attempts: int) -> Ledger | None:
    """The ledger of a proof by the normal form alone, unconfirmed; None when so many attempts find none."""
    deadline = time.thread_time() + seconds
    proof = first_proof(claim, islice(attempts_at(claim, deadline), attempts), deadline, [])
    return proof[0] if proof is not None else None


def first_proof(
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
        _read_hypotheses(ledger, claim, reasons)
        know_what_has_values(ledger, (left, right), [known.symbol for known in claim.program.definitions])
        ledger.apart = cache(partial(_apart, ledger, claim))
        difference = normal_form(ledger, left) - normal_form(ledger, right)
        held = [] if difference.is_zero else [condition_form(ledger, known) for known in _conditions(claim)]
        for condition in held:
            difference = product(ledger, [condition, difference])
        if held and not vacuous and product(ledger, held).is_zero:
            reasons.append("the hypotheses exclude each other")
            return None
        if is_zero(ledger, difference) or follows(ledger, difference) or is_zero_by_bounds(ledger, difference):
            return ledger
        if not ledger.could_divide:
            return None
    return None


def _conditions(claim: Claim) -> list[Any]:
    """The claim's hypotheses that are met, or not, position by position."""
    return [condition for condition in claim.given if not is_equation(condition)]


def _read_hypotheses(ledger: Ledger, claim: Claim, reasons: list[str]) -> None:
    """Give the ledger what the claim's hypotheses say.

    An equation that mentions defined names counts twice: as it stands, and with their definitions written in. What is
    said without an index is known when equations, which are meant for all values of theirs, are solved. Equations of
    sizes, T = 2, come first: the others are read with the ranges that these leave.
    """
    for condition in _conditions(claim):
        if not free_indices(condition):
            _know_sign(ledger, condition)
    equations = [known for known in (*claim.given, *_written_in(ledger, claim, claim.given)) if is_equation(known)]
    equations.sort(key=lambda known: not all(isinstance(leaf, Dim) for leaf in leaves_of(known)))
    ledger.zeros = read_equations(ledger, equations, reasons)
    for condition in _conditions(claim):
        _know_sign(ledger, condition)


def _know_sign(ledger: Ledger, condition: Any) -> None:
    """Remember which difference of values a hypothesis says to be positive, at least 0, or not 0."""
    if isinstance(condition, Ne):
        left, right = (normal_form(ledger, side) for side in condition.args)
        ledger.known_not_zero.add((left - right).key)
    if isinstance(condition, (Ge, Gt, Le, Lt)):
        difference = normal_form(ledger, condition.gts) - normal_form(ledger, condition.lts)
        if isinstance(condition, (Gt, Lt)):
            ledger.know_positive(difference, stated=True)
        else:
            ledger.valued[1].add(difference.key)


def _apart(ledger: Ledger, claim: Claim) -> tuple[Apart, ...]:
    """What is not 0 because the claim is about derivatives, which do not exist where a case switches."""
    comparisons = comparisons_of(claim)
    return without_ties(ledger, [*comparisons, *_written_in(ledger, claim, comparisons)])


def _written_in(ledger: Ledger, claim: Claim, conditions: Sequence[Any]) -> list[Any]:
    """Conditions that mention a defined name with definitions written in, where that does not make them too large."""
    defined = {definition.symbol for definition in claim.program.definitions}
    about = [condition for condition in conditions if defined & symbols_of(condition)]
    try:
        until = ledger.started + ledger.seconds
        return [inline(condition, claim.program, most=WRITTEN, until=until) for condition in about]
    except BudgetExceededError:
        return []


# ---------------------------------------------------------------------------------------------------------------------
# What is written in.


def attempts_at(claim: Claim, deadline: float) -> Iterator[tuple[Any, Any]]:
    """The two sides with more and more definitions written in, each pair once: see `_written_out`."""
    tried: set[tuple[Any, Any]] = set()
    for sides in _written_out(claim, deadline):
        if sides not in tried:
            tried.add(sides)
            yield sides


def _written_out(claim: Claim, deadline: float) -> Iterator[tuple[Any, Any]]:
    """The two sides with more and more definitions written in, so that what need not be expanded is not.

    1. nothing; 2. the names that stand on one side only, the last defined first, until the sides share all names
    that are left, those that the hypotheses mention in a second go; 3. all names that are mentioned, one level and
    then one more, unless nothing but a large expression is left; 4. as 2, and in addition one shared name with what it
    is computed from directly, then with all behind it where that is little, each in turn; 5. as 2, and all forward
    definitions; 6. everything.
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
    stated = defined & symbols_of(sympy.Tuple(*claim.given))
    # A hypothesis about a name is used as it stands, before the name is written in.
    for kept in (stated, frozenset()) if stated else (frozenset(),):
        before = sides
        while lone := (mentioned(sides[0]) ^ mentioned(sides[1])) - kept:
            sides = written_in(sides, frozenset({max(lone, key=order.index)}))
        if not kept or sides != before:
            yield sides
    shared = sorted(mentioned(sides[0]), key=order.index)
    level = claim.left, claim.right
    for _ in range(LEVELS):
        names = mentioned(level[0]) | mentioned(level[1])
        level = written_in(level, names)
        if mentioned(level[0]) or sum(map(node_count, level)) <= SMALL or len(shared) < 2:
            yield level
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

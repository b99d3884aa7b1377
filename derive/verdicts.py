"""Verdicts: what became of a claim, and what a verdict says about itself.

Written by `derive.prove`, printed by the command line, in the same words for every claim: the hypotheses that the claim
states and those that a proof added, with bound indices by letters; the laws, which begin with the definitions that had
to be written in; and for what is refuted, when somebody asks, simple conditions under which it would hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from derive.binders import free_indices, symbols_of
from derive.errors import StatementError
from derive.exceptional import empty_index_sets
from derive.functions import Defined
from derive.gradient import Gradient, depends_on
from derive.normal.ledger import Ledger
from derive.refutation import Counterexample
from derive.statements import Claim
from derive.wellformed import is_equation

PROVED, REFUTED, UNDECIDED = "Proved", "Refuted", "Undecided"
ARITHMETIC = "arithmetic of sums and products"
DERIVATION = ("dX[i]/dX[j] = delta(i, j)", "chain rule")


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    `status` is Proved, Refuted or Undecided. `hypotheses` are the conditions under which a proof holds, `conditions`
    those of them that it added, which are neither declared nor given; `laws` is what it used. `leaves_out` has indices
    at some positions of which a condition fails whatever the inputs are. `counterexample` belongs to Refuted, `reason`
    to Undecided. `seconds` is wall-clock time.
    """

    claim: Claim
    status: str
    hypotheses: tuple[str, ...]
    laws: tuple[str, ...] = ()
    seconds: float = 0.0
    counterexample: Counterexample | None = None
    reason: str = ""
    conditions: tuple[str, ...] = ()
    leaves_out: frozenset[str] = frozenset()

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


def definitions_used(claim: Claim, sides: tuple[Any, Any]) -> tuple[str, ...]:
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


def hypotheses_of(claim: Claim, ledger: Ledger | None) -> tuple[str, ...]:
    """What the claim states and, with the ledger of a proof, what that rests on beyond it."""
    found = [stated(condition) for condition in claim.given]
    found += [*claim.assuming, *claim.program.assumptions, *_index_sets(claim)]
    used = sorted(map(readable, ledger.hypotheses)) if ledger is not None else []
    return tuple(dict.fromkeys([*found, *used]))


@lru_cache(maxsize=2_000)
def stated(condition: Any) -> str:
    """A hypothesis of a claim as text: an equation is meant for all values of its free indices."""
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

"""The ledger of one proof: which laws were used, what was assumed, how much of the budget is left.

Every law of the normal form writes its name here when it changes something, and every side condition that it could not
establish from declarations is written down as a hypothesis. The budget makes a hostile expression end in Undecided.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.errors import BudgetExceededError
from derive.normal.terms import Atom, Polynomial, Var

if TYPE_CHECKING:
    from derive.normal.rewriting import Rewrite

Renamings = dict[tuple[str, tuple[tuple[str, str], ...]], Polynomial]


@dataclass
class Ledger:
    """What one proof has used; `seconds` and `terms` are its budget."""

    seconds: float = 10.0
    terms: int = 200_000
    laws: dict[str, None] = field(default_factory=dict)
    hypotheses: dict[str, None] = field(default_factory=dict)
    renamed: Renamings = field(default_factory=dict)
    looked: Renamings = field(default_factory=dict)
    known_positive: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    written: dict[str, str] = field(default_factory=dict)
    rewrites: tuple[Rewrite, ...] = ()
    started: float = field(default_factory=time.thread_time)
    spent: int = 0
    fresh: int = 0

    def use(self, law: str) -> None:
        """Record that a law was applied."""
        self.laws[law] = None

    def assume(self, hypothesis: str) -> None:
        """Record a condition under which the result holds."""
        self.hypotheses[hypothesis] = None

    def know_positive(self, polynomial: Polynomial) -> None:
        """Remember that a polynomial is positive for a reason that its multiplied-out form no longer shows."""
        self.known_positive.add(polynomial.key)

    def remember_writing(self, polynomial: Polynomial, text: str) -> None:
        """Remember how the statement wrote a polynomial, so that a hypothesis about it can be read."""
        self.written.setdefault(polynomial.key, text)

    def settle(self, polynomial: Polynomial) -> None:
        """Remember that the condition on a polynomial is already recorded, under other names of its indices."""
        self.settled.add(polynomial.key)

    def assume_about(self, polynomial: Polynomial, relation: str) -> None:
        """Record a condition on a polynomial, in the statement's own words where they are known."""
        if polynomial.key in self.settled:
            return
        self.assume(f"{self.written.get(polynomial.key, polynomial.key)} {relation}")

    def assume_nonzero(self, atom: Atom) -> None:
        """Record that an atom is divided by."""
        if not atom.positive:
            self.assume(f"{atom.key} != 0")

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """A block whose laws and hypotheses are no part of the proof, and whose renamings are remembered apart."""
        laws, hypotheses = dict(self.laws), dict(self.hypotheses)
        self.renamed, self.looked = self.looked, self.renamed
        try:
            yield
        finally:
            self.renamed, self.looked = self.looked, self.renamed
            self.laws, self.hypotheses = laws, hypotheses

    def spend(self, amount: int = 1) -> None:
        """Count work.

        Raises:
            BudgetExceededError: the proof is past its limit of terms or time.
        """
        self.spent += amount
        if self.spent > self.terms:
            raise BudgetExceededError(f"more than {self.terms} terms")
        if self.spent % 64 < amount and time.thread_time() - self.started > self.seconds:
            raise BudgetExceededError(f"more than {self.seconds:g} s")

    def fresh_var(self, extent: Polynomial) -> Var:
        """An index with a name that occurs nowhere else in this proof."""
        self.fresh += 1
        return Var(f"~{self.fresh:06d}", extent)  # names are compared as text, and shall keep the order they came in

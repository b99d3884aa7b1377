"""The ledger of one proof: which laws were used, what was assumed, how much of the budget is left.

Every law of the normal form writes its name here when it changes something, and every side condition that it could not
establish from declarations is written down as a hypothesis. The budget makes a hostile expression end in Undecided.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.errors import BudgetExceededError, StatementError
from derive.normal.positions import can_hold_everywhere
from derive.normal.terms import ONE, Monomial, Polynomial, Rational, Var
from derive.normal.wording import worded

if TYPE_CHECKING:
    from derive.normal.case_analysis import Apart
    from derive.normal.rewriting import Rewrite
    from derive.normal.vanishing import Vanishing

LOOK = 32  # steps between two looks at the clock
Renamings = dict[tuple[str, tuple[tuple[str, str], ...]], Polynomial]


class UndefinedError(StatementError):
    """The expression has no value: a division by zero, the logarithm of zero."""


class UndefinedInstanceError(StatementError):
    """An instance of what has a value has none: 1 / (x[i] - x[j]) where i = j.

    Whatever brackets stand beside it may exclude the instance, and nothing here can tell, so that a proof ends with it.
    """


@dataclass(frozen=True)
class Branch:
    """A case of a selection: its condition as a polynomial with values 0 and 1, and as a reader writes it."""

    form: Polynomial
    text: str


@dataclass(frozen=True)
class Condition:
    """What a result assumes: a text, or that a form is what the text says (> 0); and in which branches it does."""

    text: str
    form: Polynomial | None
    branches: tuple[Branch, ...]

    def follows_from(self, other: Condition) -> bool:
        """Whether another condition, which is no matter of branches, says as much: x > 0, where this is x != 0."""
        if other.branches or self.form is None or other.form is None or self == other:
            return False
        signs = (ONE, -ONE) if self.text == "!= 0" else (ONE,)
        same = any(self.form.scaled(sign).key == other.form.key for sign in signs)
        return same and (other.text == "> 0" or (other.text == self.text and bool(self.branches)))

    @property
    def where(self) -> tuple[str, ...]:
        """The branches as a reader writes them, each once: a selection may stand inside another of the same case."""
        return tuple(dict.fromkeys(branch.text for branch in self.branches))

    def excludes_zero(self, case: Polynomial) -> bool:
        """Whether the form is not 0, at least where the case is 1."""
        return self.text in ("!= 0", "> 0") and all(branch.form.key == case.key for branch in self.branches)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, str, tuple[str, ...]]:
        return self.text, "" if self.form is None else self.form.key, self.where


def _is_odd(term: tuple[Monomial, Rational]) -> bool:
    """Whether a term is more than a name or 1."""
    monomial, coefficient = term
    return abs(coefficient) != 1 or len(monomial) > 1 or any(power != 1 for _, power in monomial)


@dataclass
class Ledger:
    """What one proof has used; `seconds` and `terms` are its budget.

    `facts` are the declarations that it rests on (p > 0), `assumed` is what it assumes beyond them (s != 0). `rewrites`
    are the equational hypotheses, `zeros` those that no rewrite expresses, `apart` gives what is not 0 because
    comparisons have no ties. What is positive, or at least 0, wherever both sides of the claim have a value is in
    `valued`. `branches` are the cases of selections that are being read, outermost first; where there are any, a
    condition is assumed in them only, and the proof is then `partial`. While the ledger is `muted` no condition is
    recorded: an atom that is renamed has its conditions already. Closed forms that divide by what may be 0 are used
    where it `divides`; otherwise it is noted that one `could_divide`. A result `narrows` where a condition asks for
    more than values on both sides. Polynomials whose sign no bound has shown, within so many steps, are `hopeless`.
    """

    seconds: float = 10.0
    terms: int = 200_000
    laws: dict[str, None] = field(default_factory=dict)
    facts: dict[str, None] = field(default_factory=dict)
    assumed: dict[Condition, None] = field(default_factory=dict)
    renamed: Renamings = field(default_factory=dict)
    looked: Renamings = field(default_factory=dict)
    known_positive: set[str] = field(default_factory=set)
    known_not_zero: set[str] = field(default_factory=set)
    stated_positive: set[str] = field(default_factory=set)
    valued: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    written: dict[str, Callable[[], str]] = field(default_factory=dict)
    rewrites: tuple[Rewrite, ...] = ()
    zeros: tuple[Vanishing, ...] = ()
    branches: tuple[Branch, ...] = ()
    muted: bool = False
    partial: bool = False
    divides: bool = False
    could_divide: bool = False
    narrows: bool = False
    apart: Callable[[], tuple[Apart, ...]] = tuple
    off_ties: bool = False
    hopeless: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    started: float = field(default_factory=time.thread_time)
    spent: int = 0
    fresh: int = 0

    def use(self, law: str) -> None:
        """Record that a law was applied."""
        self.laws[law] = None

    @property
    def conditions(self) -> list[str]:
        """What the result assumes beyond declarations, in the statement's own words where they are known."""
        told = [known for known in self.assumed if not any(known.follows_from(other) for other in self.assumed)]
        return list(dict.fromkeys(map(self._in_words, told)))

    @property
    def not_zero(self) -> list[Polynomial]:
        """What the result assumes not to be 0, less what is 0 by chance at ties: a name, or the difference of two."""
        forms = [known.form for known in self.assumed if known.form is not None]
        return [form for form in dict.fromkeys(forms) if len(form.terms) > 2 or sum(map(_is_odd, form.terms.items()))]

    @property
    def divided_by(self) -> list[Polynomial]:
        """What the result assumes not to be 0, in whatever case."""
        known = (one.form for one in self.assumed if one.text == "!= 0" and not one.branches)
        return [form for form in known if form is not None]

    @property
    def leaves_out(self) -> frozenset[str]:
        """The indices at some positions of which a condition fails for all inputs: t, where it is t - 50 != 0."""
        forms = [known.form for known in self.assumed if known.form is not None and known.form.free]
        return frozenset().union(*(form.free for form in forms if not can_hold_everywhere(form)))

    @property
    def hypotheses(self) -> list[str]:
        """Everything that the result rests on."""
        return [*self.facts, *self.conditions]

    def may_leave_out(self, *, masked: bool) -> bool:
        """Whether the conditions may leave out a point at which numbers contradict the result.

        A condition that narrows asks for more than values on both sides; any may be about a factor that is `masked`
        there, one without a value that a bracket hides: 0/0 [T > 1] is 0 at T = 1.
        """
        return (self.narrows or masked) and bool(self.assumed)

    def _in_words(self, condition: Condition) -> str:
        text, form = condition.text, condition.form
        if form is not None:
            signs = (ONE, -ONE) if condition.text == "!= 0" else (ONE,)
            stated = (self.written[key]() for sign in signs if (key := form.scaled(sign).key) in self.written)
            # What is not 0 may have either sign: the first term is written with a plus.
            lead = signs[-1] if form.ordered()[-1][1] < 0 else ONE
            text = f"{next(stated, None) or worded(form.scaled(lead))} {condition.text}"
        return f"{text} where {' and '.join(condition.where)}" if condition.where else text

    def rest_on(self, fact: str) -> None:
        """Record a declaration that was used."""
        self.facts[fact] = None

    def assume(self, text: str, form: Polynomial | None = None) -> None:
        """Record a condition under which the result holds; within a branch, one that matters only there.

        The condition is the text, or with a form that the form is what the text says: "> 0".
        """
        if not self.muted:
            if form is not None and text == "!= 0":
                form = min(form, form.scaled(-ONE), key=lambda either: either.key)
            self.partial = self.partial or bool(self.branches)
            self.assumed[Condition(text, form, self.branches)] = None

    @contextmanager
    def within(self, form: Polynomial, text: str) -> Iterator[None]:
        """A block that is about one case of a selection."""
        held, self.branches = self.branches, (*self.branches, Branch(form, text))
        try:
            yield
        finally:
            self.branches = held

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """A block whose conditions are recorded, and in all cases, whatever surrounds it."""
        held, self.branches = self.branches, ()
        muted, self.muted = self.muted, False
        try:
            yield
        finally:
            self.branches, self.muted = held, muted

    def know_positive(self, polynomial: Polynomial, *, stated: bool = False) -> None:
        """Remember that a polynomial is positive for a reason that its multiplied-out form no longer shows.

        What a hypothesis of the claim has `stated`, from the start, also says which way round a quotient is written.
        """
        self.known_positive.add(polynomial.key)
        if stated:
            self.stated_positive.add(polynomial.key)

    def remember_writing(self, polynomial: Polynomial, text: Callable[[], str]) -> None:
        """Remember how the statement wrote a polynomial, for when a hypothesis about it is to be read."""
        self.written.setdefault(polynomial.key, text)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """A block whose laws and hypotheses are no part of the proof, and whose renamings are remembered apart."""
        laws, facts, assumed = dict(self.laws), dict(self.facts), dict(self.assumed)
        self.renamed, self.looked = self.looked, self.renamed
        try:
            yield
        finally:
            self.renamed, self.looked = self.looked, self.renamed
            self.laws, self.facts, self.assumed = laws, facts, assumed

    def spend(self, amount: int = 1) -> None:
        """Count work.

        Raises:
            BudgetExceededError: the proof is past its limit of terms or time.
        """
        self.spent += amount
        if self.spent > self.terms:
            raise BudgetExceededError(f"more than {self.terms} terms")
        if self.spent % LOOK < amount and time.thread_time() - self.started > self.seconds:
            raise BudgetExceededError(f"more than {self.seconds:g} s")

    def fresh_var(self, extent: Polynomial) -> Var:
        """An index with a name that occurs nowhere else in this proof."""
        self.fresh += 1
        return Var(f"~{self.fresh:06d}", extent)  # names are compared as text, and shall keep the order they came in

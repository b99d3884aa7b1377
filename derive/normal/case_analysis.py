"""Zero by cases: a polynomial with brackets is zero when it is zero in every case that can occur.

The last resort of `derive.normal.zero`, for functions in pieces: Huber's loss, a clipped ratio, a hard sigmoid. Each
bracket [p > 0] is taken to hold and not to hold, in turn; what is then left of the polynomial has to be zero, or the
case has to be impossible. A case is impossible when the inequalities that it takes for granted contradict each other
by linear arithmetic (Fourier and Motzkin: whatever bounds a quantity from below and from above has to leave room).
Products and functions count as quantities of which nothing is known but their sign, integers as at least 1 where they
are positive, indices as inside their range. Where a case leaves room for a single value only, p = 0, the rest may be a
multiple of p: two pieces meet there.

A sum is zero when what it sums is, so sums over the same ranges are first written as one.

SOUND: a case is only left out when no values can meet it. INCOMPLETE: products of unknowns are not multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from derive.normal import comparisons, positivity, products, ranges, renaming, rewriting, splitting, vanishing
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    Atom,
    Bracket,
    Delta,
    Entry,
    Monomial,
    Polynomial,
    Rational,
    Total,
    Var,
    from_atom,
    is_idempotent,
    magnitude,
    number,
    ratio,
    total,
    value_of,
)

MOST_BRACKETS = 8  # that are taken to hold and not to hold
MOST_ROWS = 200  # inequalities that are kept while one quantity after another is eliminated


@dataclass(frozen=True)
class Fact:
    """An inequality that a case takes for granted: `form` > 0, or >= 0 when it is not strict."""

    form: Polynomial
    strict: bool


@dataclass(frozen=True)
class Apart:
    """A polynomial that is not 0, for all values of its indices: the two sides of a comparison that has no tie."""

    form: Polynomial
    variables: tuple[Var, ...]


def is_zero_by_cases(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether a normal polynomial is zero in every case of its brackets that can occur, sums taken together."""
    if polynomial.is_zero:
        return True
    first = _first_sum(polynomial)
    if first is not None:
        ledger.use("sums over the same ranges are one sum")
        ways = (_as_one_sum(ledger, polynomial, first, counts=counts) for counts in (False, True))
        return any(is_zero_by_cases(ledger, body) and is_zero_by_cases(ledger, rest) for body, rest in ways)
    brackets = {atom for monomial in polynomial.terms for atom, power in monomial if is_idempotent(atom) and power > 0}
    if not any(isinstance(atom, Bracket) for atom in brackets) or len(brackets) > MOST_BRACKETS:
        return False
    ledger.use("cases: a bracket holds or does not hold")
    return _is_zero(ledger, polynomial, ())


def _is_zero(ledger: Ledger, polynomial: Polynomial, facts: tuple[Fact, ...]) -> bool:
    """Whether the polynomial is zero wherever the facts hold."""
    ledger.spend()
    if polynomial.is_zero or is_contradictory(ledger, facts):
        return True
    bracket = splitting.first_bracket(polynomial)
    if bracket is None:
        return _is_multiple(ledger, polynomial, facts)
    holds, fails = splitting.cases_of(ledger, polynomial, bracket)
    return _is_zero(ledger, holds, (*facts, *_facts_of(ledger, bracket, holds=True))) and _is_zero(
        ledger, fails, (*facts, *_facts_of(ledger, bracket, holds=False))
    )


def _facts_of(ledger: Ledger, bracket: Atom, *, holds: bool) -> tuple[Fact, ...]:
    """What is known where a bracket holds, or where it does not."""
    if isinstance(bracket, Delta) and holds:
        apart = value_of(bracket.left) - value_of(bracket.right)
        return Fact(apart, strict=False), Fact(apart.scaled(-ONE), strict=False)
    if isinstance(bracket, Delta):
        return _facts_apart(bracket)
    if not isinstance(bracket, Bracket):
        return ()
    if not holds:
        strict = _is_divided_by(ledger, bracket) or _is_apart(ledger, bracket.inside)
        return (Fact(bracket.inside.scaled(-ONE), strict=strict),)
    whole = products.is_integer_valued(bracket.inside)
    return (Fact(bracket.inside - UNITY, strict=False) if whole else Fact(bracket.inside, strict=True),)


def _facts_apart(delta: Delta) -> tuple[Fact, ...]:
    """What is known where two positions differ of which one is never below the other: it is above it, by at least 1."""
    apart = value_of(delta.left) - value_of(delta.right)
    signed = (apart.scaled(sign) for sign in (ONE, -ONE))
    return tuple(Fact(form - UNITY, strict=False) for form in signed if ranges.never_negative(form))


# ---------------------------------------------------------------------------------------------------------------------
# Linear arithmetic.

Row = tuple[Mapping[Monomial, Rational], bool]  # coefficients, the constant under UNIT; whether strict


def is_contradictory(ledger: Ledger, facts: Sequence[Fact]) -> bool:
    """Whether no values can meet all facts, by linear arithmetic over their monomials."""
    quantities = {monomial: None for fact in facts for monomial in fact.form.terms if monomial != UNIT}
    above = {m[0][0] for m in map(_positive_atom, facts) if m is not None}
    known = [*facts, *_known_of(quantities, above)]
    rows: list[Row] = [(dict(fact.form.terms), fact.strict) for fact in known]
    while True:
        ledger.spend(len(rows))
        constant = [(row.get(UNIT, 0), strict) for row, strict in rows if not row.keys() - {UNIT}]
        if any(value < 0 or (value == 0 and strict) for value, strict in constant):
            for monomial in quantities:
                if positivity.monomial_is_positive(monomial):
                    positivity.note_positive(ledger, monomial)
            return True
        rows = [row for row in rows if row[0].keys() - {UNIT}]
        if not rows or len(rows) > MOST_ROWS:
            return False
        rows = _without_one(rows)


def is_implied(ledger: Ledger, cases: Sequence[Polynomial], polynomial: Polynomial, relation: str) -> bool:
    """Whether a polynomial is "> 0", ">= 0" or "!= 0" wherever the cases, brackets or their opposites, are all 1."""
    # What has no tie is not asked for here: to find that out, conditions are read that ask for this.
    facts = [fact for case in cases for fact in _facts_of_case(case)]
    opposite = Fact(polynomial.scaled(-ONE), strict=relation == ">= 0")
    others = [Fact(polynomial, strict=False)] if relation == "!= 0" else []
    return bool(facts) and any(is_contradictory(ledger, [*facts, fact]) for fact in (opposite, *others))


def _facts_of_case(case: Polynomial) -> Iterator[Fact]:
    """What is known where a bracket, or its opposite, is 1."""
    for sign, form in ((ONE, case), (-ONE, UNITY - case)):
        one = form.single()
        bracket = one[0][0][0] if one is not None and one[1] == 1 and len(one[0]) == 1 else None
        if isinstance(bracket, Bracket):
            yield Fact(bracket.inside.scaled(sign), strict=sign > 0)


def _positive_atom(fact: Fact) -> Monomial | None:
    """The single factor that a fact says to be positive; None when it says anything else."""
    one = fact.form.single() if fact.strict else None
    return one[0] if one is not None and one[1] > 0 and len(one[0]) == 1 and one[0][0][1] == 1 else None


def _known_of(quantities: dict[Monomial, None], above: AbstractSet[Atom] = frozenset()) -> Iterator[Fact]:
    """What is known of the quantities: signs, and the ranges of indices, sizes of which join them.

    Signs are those that declarations give, and of products those that follow for factors `above` 0.
    """
    waiting = list(quantities)
    while waiting:
        monomial = waiting.pop()
        value = Polynomial({monomial: ONE})
        if products.is_integer_valued(value) and ranges.least(value) is not None:
            yield Fact(value - number(ranges.least(value) or 0), strict=False)
        elif all(atom in above or positivity.factor_is_positive(atom, e) for atom, e in monomial):
            yield Fact(value, strict=True)
        elif positivity.is_nonnegative(value):
            yield Fact(value, strict=False)
        extent = _extent(monomial)
        if extent is not None:
            yield Fact(extent - UNITY - value, strict=False)
            waiting += [m for m in extent.terms if m != UNIT and m not in quantities]
            quantities.update(dict.fromkeys(m for m in extent.terms if m != UNIT))


def _extent(monomial: Monomial) -> Polynomial | None:
    """The range of a quantity that is an index."""
    if len(monomial) != 1 or monomial[0][1] != 1:
        return None
    atom = monomial[0][0]
    extent = atom.extent if isinstance(atom, Var) else atom.into if isinstance(atom, Entry) else None
    # A range that depends on an index may be another one since that index was replaced.
    return None if extent is None or extent.free else extent


def _without_one(rows: list[Row]) -> list[Row]:
    """The inequalities that are left when the quantity that costs least is eliminated."""
    keys = sorted({m for row, _ in rows for m in row if m != UNIT}, key=lambda m: [(a.key, e) for a, e in m])

    def cost(monomial: Monomial) -> int:
        signs = [row[monomial] > 0 for row, _ in rows if monomial in row]
        return signs.count(True) * signs.count(False)

    gone = min(keys, key=cost)
    below = [row for row in rows if row[0].get(gone, 0) > 0]
    above = [row for row in rows if row[0].get(gone, 0) < 0]
    made = [row for row in rows if gone not in row[0]]
    for lower, strictly in below:
        for upper, too in above:
            scales = -upper[gone], lower[gone]
            sum_ = total((Polynomial(lower).scaled(scales[0]), Polynomial(upper).scaled(scales[1])))
            made.append((dict(sum_.terms), strictly or too))
    return _strongest(made)


def _strongest(rows: list[Row]) -> list[Row]:
    """Of inequalities with the same coefficients, up to a positive factor, the one that says most."""
    best: dict[frozenset[tuple[Monomial, Rational]], Row] = {}
    for row, strict in rows:
        scale = max((magnitude(c) for m, c in row.items() if m != UNIT), default=ONE)
        scaled = {m: ratio(c, scale) for m, c in row.items()}
        key = frozenset((m, c) for m, c in scaled.items() if m != UNIT)
        other = best.get(key)
        mine = (scaled.get(UNIT, 0), not strict)
        if other is None or mine < (other[0].get(UNIT, 0), not other[1]):
            best[key] = scaled, strict
    return list(best.values())


def _is_multiple(ledger: Ledger, polynomial: Polynomial, facts: tuple[Fact, ...]) -> bool:
    """Whether the polynomial is a multiple of one that the facts force to be 0: where two pieces meet."""
    for place, fact in enumerate(facts):
        others = (*facts[:place], *facts[place + 1 :])
        if fact.strict or not is_contradictory(ledger, (*others, Fact(fact.form, strict=True))):
            continue
        ledger.use("pieces meet where both sides of a comparison are equal")
        for form in (fact.form, comparisons.without_logs(ledger, fact.form)):
            polynomial = vanishing.remainder(ledger, polynomial, form) if form is not None else polynomial
            if polynomial.is_zero:
                return True
    return False


# ---------------------------------------------------------------------------------------------------------------------
# Comparisons without ties.


def _is_divided_by(ledger: Ledger, bracket: Bracket) -> bool:
    """Whether something divides by what is compared with 0, at least where the bracket does not hold."""
    keys = {bracket.inside.key, bracket.inside.scaled(-ONE).key}
    fails = UNITY - from_atom(bracket)
    about = [known for known in ledger.assumed if known.form is not None and known.form.key in keys]
    return any(known.excludes_zero(fails) for known in about)


def _is_apart(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether a polynomial is assumed not to be 0, because a comparison of its parts has no tie."""
    keys = {polynomial.key, polynomial.scaled(-ONE).key}
    for apart in ledger.apart():
        for names in rewriting.instances(apart.variables, rewriting.parts_in(polynomial)):
            if renaming.renamed(ledger, apart.form, names).key in keys:
                ledger.use("almost everywhere: a comparison has no tie")
                ledger.assume("!= 0", polynomial)
                ledger.off_ties = True
                return True
    return False


def apart_of(ledger: Ledger, difference: Polynomial) -> tuple[Apart, ...]:
    """What is not 0 where a comparison has no tie, from the difference of its sides."""
    brackets = {atom for m in comparisons.bracket(ledger, difference).terms for atom, _ in m}
    forms = sorted((atom.inside for atom in brackets if isinstance(atom, Bracket)), key=lambda form: form.key)
    return tuple(Apart(form, rewriting.variables_in(rewriting.parts_in(form), form.free)) for form in forms)


# ---------------------------------------------------------------------------------------------------------------------
# Sums.


def _first_sum(polynomial: Polynomial) -> Total | None:
    """The first sum with a bracket inside; None when no sum has one."""
    sums = (atom for m, _ in polynomial.ordered() for atom, power in m if isinstance(atom, Total) and power == 1)
    return next((atom for atom in sums if _ranges(atom) and any(is_idempotent(a) for a, _ in atom.monomial)), None)


def _as_one_sum(
    ledger: Ledger, polynomial: Polynomial, first: Total, *, counts: bool
) -> tuple[Polynomial, Polynomial]:  # fmt: skip
    """(body, rest): all sums over the ranges of `first` as one, and the rest.

    With `counts`, multiples of what the ranges count, n in a sum over n, are sums as well.
    """
    ranges_ = _ranges(first)
    fresh = [ledger.fresh_var(var.extent) for var in first.bound]
    size = products.product(ledger, [var.extent for var in first.bound]).single() if counts else None
    inside, outside = [], []
    for monomial, coefficient in polynomial.ordered():
        met = next((a for a, e in monomial if isinstance(a, Total) and e == 1 and _ranges(a) == ranges_), None)
        powers_ = dict(monomial)
        if met is not None:
            names: dict[str, Atom] = {var.name: new for var, new in zip(met.bound, fresh, strict=True)}
            body = renaming.renamed_monomial(ledger, met.monomial, names)
            others = tuple(pair for pair in monomial if pair[0] != met)
            inside.append(products.product(ledger, [Polynomial({others: coefficient}), body]))
        elif size is not None and all(powers_.get(atom, 0) >= e for atom, e in size[0]):
            each = (*monomial, *((atom, -e) for atom, e in size[0]))
            inside.append(products.normal_monomial(ledger, ratio(coefficient, size[1]), each))
        else:
            outside.append(Polynomial({monomial: coefficient}))
    return total(inside), total(outside)


def _ranges(atom: Total) -> list[str] | None:
    """The ranges of a sum; None where one depends on another index of the sum."""
    names = {var.name for var in atom.bound}
    return None if any(var.extent.free & names for var in atom.bound) else [var.extent.key for var in atom.bound]

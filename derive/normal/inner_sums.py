"""Laws about the sum over one index of a larger sum: short ranges, hypotheses, quotients, re-indexing.

Used by `derive.normal.sums` before a connected component becomes an atom. Each function returns what the sum is by its
law, or None where the law does not apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from derive.normal import deltas, positivity, products, renaming, rewriting, sums
from derive.normal.ledger import Ledger, UndefinedInstanceError
from derive.normal.terms import (
    ONE,
    UNITY,
    ZERO,
    Atom,
    Base,
    Delta,
    Entry,
    Exponent,
    Fixed,
    Monomial,
    Place,
    Polynomial,
    Total,
    Var,
    from_atom,
    position,
    sorted_monomial,
    total,
    value_of,
)


def written_out(ledger: Ledger, bound: list[Var], _names: set[str], monomial: Monomial) -> Polynomial | None:
    """A sum over a short range of known length as the sum of its terms."""
    for var in bound:
        if not deltas.is_short(var.extent):
            continue
        ledger.use("a sum over a short range is the sum of its terms")
        terms = []
        for place in range(int(var.extent.constant() or 0)):
            names: Mapping[str, Atom] = {var.name: Fixed(place)}
            others = [Var(o.name, renaming.renamed(ledger, o.extent, names)) for o in bound if o != var]
            terms.append(sums.sum_over(ledger, others, renaming.renamed_monomial(ledger, monomial, names)))
        return total(terms)
    return None


def rewritten_inside(ledger: Ledger, variables: list[Var], factors: list[tuple[Atom, Exponent]]) -> Polynomial | None:
    """A hypothesis about a sum, applied to part of a larger one: Sum_j A_ij B_jk = [i = k] in Sum_jk A_ij B_jk x_k."""
    if len(variables) < 2 or not ledger.rewrites:
        return None
    for group in _groups(ledger, variables, factors):
        names = {var.name for var in group}
        inside = [pair for pair in factors if names & pair[0].free]
        with rewriting.resting(ledger):
            one = sums.component(ledger, list(group), inside).single()
        if one is None or len(one[0]) != 1:
            continue
        replacement = rewriting.rewritten(ledger, one[0][0][0])
        if replacement is not None:
            rest = sorted_monomial({atom: power for atom, power in factors if not names & atom.free})
            body = products.product(ledger, [Polynomial({rest: one[1]}), replacement])
            return sums.sum_over(ledger, [other for other in variables if other not in group], body)
    return None


def _groups(
    ledger: Ledger, variables: list[Var], factors: list[tuple[Atom, Exponent]]
) -> Iterator[tuple[Var, ...]]:  # fmt: skip
    """The indices, one or several, over which part of a sum may be what a hypothesis is about."""
    patterns = [known.pattern for known in ledger.rewrites if isinstance(known.pattern, Total)]
    free = [var for var in variables if not any(var.name in other.extent.free for other in variables)]
    for count in range(1, 1 + min(len(variables) - 1, max((len(one.bound) for one in patterns), default=1))):
        looks = {_names_of(one.monomial) for one in patterns if len(one.bound) == count}
        for group in combinations(free, count):
            inside = [pair for pair in factors if {var.name for var in group} & pair[0].free]
            if count == 1 or _names_of(inside) in looks:
                yield group


def _names_of(factors: Iterable[tuple[Atom, Exponent]]) -> tuple[str, ...]:
    """What the factors are of, whatever their indices are."""
    return tuple(sorted(f"{atom.name if isinstance(atom, Entry) else type(atom).__name__}^{e}" for atom, e in factors))


def cancelled(ledger: Ledger, variables: list[Var], factors: list[tuple[Atom, Exponent]]) -> Polynomial | None:
    """Sum_j e_ij beside its own inverse in Sum_ij e_ij x_i / Sum_k e_ik: the sum over j is taken first."""
    below = [one for atom, power in factors if power < 0 and (one := _sum_divided_by(atom)) is not None]
    for var in variables:
        wanted = {one for one in below if var.name not in one.free}
        if not wanted or any(var.name in other.extent.free for other in variables):
            continue
        inside = [pair for pair in factors if var.name in pair[0].free]
        met = sums.component(ledger, [var], inside).single()
        if met is None or not any(atom in wanted and power >= 1 for atom, power in met[0]):
            continue
        ledger.use("a sum beside its own inverse")
        rest = sorted_monomial({atom: power for atom, power in factors if var.name not in atom.free})
        body = products.product(ledger, [Polynomial({rest: met[1]}), Polynomial({met[0]: ONE})])
        return sums.sum_over(ledger, [other for other in variables if other != var], body)
    return None


def _sum_divided_by(atom: Atom) -> Total | None:
    """The sum that a factor with a negative power is, or leads with; what leads is what a quotient is reduced by."""
    if isinstance(atom, Base):
        lead, _ = products.leading_term(atom.inside)
        return lead[0][0] if len(lead) == 1 and lead[0][1] == 1 and isinstance(lead[0][0], Total) else None
    return atom if isinstance(atom, Total) else None


TURNED = "a sum over t of f(T - 1 - t) is that of f(t)"
MOST_TURNED = 4  # ways of reading a sum of which each is turned round in one more index


def read_forwards(ledger: Ledger, variables: list[Var], factors: list[tuple[Atom, Exponent]]) -> Polynomial | None:
    """A sum of f(T - 1 - t) over t < T as the sum of f(t); None where no index is read backwards more than forwards.

    Where it is read both ways as often, as in x[t] y[T - 1 - t], the one is taken that comes first by its key.
    """
    monomial = sorted_monomial(dict(factors))
    either = [monomial]
    for var in variables:
        backwards, forwards = _directions(monomial, var.name)
        tied = any(isinstance(atom, Delta) and var.name in atom.free for atom, _ in factors)
        if not backwards or backwards < forwards or tied or any(var.name in other.extent.free for other in variables):
            continue
        back: Mapping[str, Atom] = {var.name: position(var.extent - UNITY - from_atom(var))}
        if backwards > forwards:
            ledger.use(TURNED)
            return sums.sum_over(ledger, variables, renaming.renamed_monomial(ledger, monomial, back))
        if len(either) <= MOST_TURNED:
            turned = [renaming.renamed_monomial(ledger, one, back).single() for one in either]
            plain = [one[0] for one in turned if one is not None and one[1] == 1 and len(one[0]) == len(monomial)]
            either += [one for one in plain if one not in either]
    if len(either) == 1:
        return None
    ledger.use(TURNED)
    return min((sums.component(ledger, variables, list(one)) for one in either), key=lambda form: form.key)


def _directions(monomial: Monomial, name: str) -> tuple[int, int]:
    """How often an index stands in positions backwards, as in x[T - 1 - t], and how often forwards."""
    counts = [0, 0]
    for atom, _ in monomial:
        for part in rewriting.index_atoms(atom, values=False):
            steps = value_of(part).terms.items() if name in part.free and isinstance(part, (Var, Place)) else ()
            for term, c in steps:
                if any(isinstance(factor, Var) and factor.name == name for factor, _ in term):
                    counts[c > 0] += 1
    return counts[0], counts[1]


def reindexed(ledger: Ledger, variables: list[Var], factors: list[tuple[Atom, Exponent]]) -> Polynomial | None:
    """A sum of f(t + 1) over t < T as the sum of f(t), plus f(T), minus f(0); None when every index stands unshifted.

    This is what makes sums telescope.
    """
    for var in variables:
        if any(var.name in other.extent.free for other in variables):
            continue
        shifts = [shift for atom, _ in factors for shift in rewriting.shifts_of(atom, var.name)]
        if not shifts or any(shift is None or shift < 1 for shift in shifts):
            continue
        monomial = sorted_monomial(dict(factors))
        others = [other for other in variables if other != var]
        try:
            back = renaming.renamed_monomial(ledger, monomial, {var.name: position(from_atom(var) - UNITY)})
            first = renaming.renamed(ledger, back, {var.name: position(ZERO)})
            # f(T) is read off the sum's own last term: what was simplified for an index below T does not hold at T.
            last = renaming.renamed_monomial(ledger, monomial, {var.name: position(var.extent - UNITY)})
        except UndefinedInstanceError:
            continue  # x[t + 1] / (t + 1) has no value before the first position
        with ledger.everywhere():  # f(0) is no term of the sum, and needs a value of its own
            positivity.assume_value(ledger, first)
        ledger.use("re-indexing: Sum f(t+1) = Sum f(t) + f(T) - f(0)")
        return sums.sum_over(ledger, variables, back) + sums.sum_over(ledger, others, last - first)
    return None

"""Sums over symbolic ranges, and the canonical names of their bound indices.

`sum_over` takes a sum apart until nothing can be separated: it is linear; a delta contracts; a range of known and short
length is written out; nested sums become one; factors that do not depend on a bound index come out; what is left falls
into connected components, and each component is one atom, unless a law of `derive.normal.inner_sums` or
`derive.normal.closed_sums` applies to it. A sum on which nothing depends gives its extent: Sum(1, i) = T for every T.

A component is named canonically: colour refinement distinguishes bound indices by how they occur, and where that leaves
a tie each candidate is tried, so two sums that differ in the names or the order of their indices get the same key.
What a sum is under two orders of its indices may be an equation for it: S = T^2 - S for the sum of x[i]/(x[i] + x[j]).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from derive.errors import BudgetExceededError
from derive.normal import (
    closed_sums,
    comparisons,
    deltas,
    inner_sums,
    positivity,
    products,
    renaming,
    rewriting,
    symmetry,
    vanishing,
)
from derive.normal.ledger import Ledger, UndefinedInstanceError
from derive.normal.ranges import lies_below
from derive.normal.terms import (
    ONE,
    UNITY,
    ZERO,
    Atom,
    Bracket,
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
    sorted_monomial,
    total,
    value_of,
)

MAX_LABELLINGS = 5_040  # 7!, the most symmetric components that are still named canonically


def opened(ledger: Ledger, atom: Total) -> tuple[list[Var], Polynomial]:
    """The sum's bound indices under fresh names, and its body with them."""
    names: dict[str, Atom] = {}
    fresh: list[Var] = []
    for var in atom.bound:
        new = ledger.fresh_var(var.extent)
        names[var.name] = new
        fresh.append(new)
    ranged = [Var(var.name, renaming.renamed(ledger, var.extent, names)) for var in fresh]
    return ranged, renaming.renamed_monomial(ledger, atom.monomial, dict(zip(names, ranged, strict=True)))


def sum_over(ledger: Ledger, bound: list[Var], body: Polynomial) -> Polynomial:
    """The normal form of the sum of `body` over the bound indices, which have fresh names."""
    if not bound:
        return body
    if ledger.zeros:
        body = vanishing.reduced(ledger, body)
    if len(body.terms) > 1:
        ledger.use("sums are linear")
    return total(_sum_monomial(ledger, bound, m).scaled(c) for m, c in body.ordered())


def _sum_monomial(ledger: Ledger, bound: list[Var], monomial: Monomial) -> Polynomial:
    """The sum of one monomial over the bound indices: a law for the whole where one fits, else part by part."""
    ledger.spend()
    names = {var.name for var in bound}
    for step in (_contract, inner_sums.written_out, closed_sums.last_terms, _merge):
        result = step(ledger, bound, names, monomial)
        if result is not None:
            return result
    outside = tuple((atom, power) for atom, power in monomial if not atom.free & names)
    inside = [(atom, power) for atom, power in monomial if atom.free & names]
    parts = [Polynomial({outside: ONE})]
    if outside and inside:
        ledger.use("factors that do not depend on the index leave the sum")
    for variables, factors in _components(bound, inside):
        if not factors:
            # No factor depends on these: the innermost range is counted, then the next.
            ledger.use("sum of 1 over i gives the extent of i")
            last = _innermost(variables)
            parts.append(sum_over(ledger, [var for var in variables if var != last], last.extent))
        elif counted := _uncounted(variables, factors):
            body = products.product(ledger, [Polynomial({tuple(factors): ONE}), counted.extent])
            ledger.use("sum of 1 over i gives the extent of i")
            parts.append(sum_over(ledger, [var for var in variables if var != counted], body))
        else:
            parts.append(
                inner_sums.rewritten_inside(ledger, variables, factors)
                or inner_sums.cancelled(ledger, variables, factors)
                or inner_sums.read_forwards(ledger, variables, factors)
                or inner_sums.reindexed(ledger, variables, factors)
                or closed_sums.counted(ledger, variables, factors)
                or closed_sums.powers_of_an_index(ledger, variables, factors)
                or closed_sums.geometric(ledger, variables, factors)
                or component(ledger, variables, factors)
            )
    return products.product(ledger, parts)


def _contract(ledger: Ledger, bound: list[Var], _names: set[str], monomial: Monomial) -> Polynomial | None:
    for place, gone, kept in _eliminations(ledger, bound, monomial):
        ledger.use("delta contraction")
        rest = (*monomial[:place], *monomial[place + 1 :])
        body = renaming.renamed_monomial(ledger, rest, {gone.name: kept})
        ranges = {var.name: var.extent for var in bound}
        if not stays_below(ledger, kept, ranges[gone.name], ranges):
            # Where the position lies outside the range, no term of the sum has it.
            value, end = value_of(kept), ranges[gone.name]
            inside = [comparisons.bracket(ledger, value + UNITY), comparisons.bracket(ledger, end - value)]
            body = products.product(ledger, [body, *inside])
        left = [Var(v.name, renaming.renamed(ledger, v.extent, {gone.name: kept})) for v in bound if v != gone]
        return sum_over(ledger, left, body)
    return None


def _eliminations(ledger: Ledger, bound: Sequence[Var], monomial: Monomial) -> Iterator[tuple[int, Var, Atom]]:
    """The deltas that eliminate a bound index: their places, the index, and what it is forced to be.

    Those come first that force it to a value which surely lies in its range.
    """
    ranges = {var.name: var.extent for var in bound}
    for inside, (place, (atom, power)) in product((True, False), enumerate(monomial)):
        if not isinstance(atom, Delta) or power <= 0:
            continue
        for gone, kept in deltas.solutions(atom):
            if gone.name not in ranges:
                continue
            plain = not ranges[gone.name].free and isinstance(kept, (Fixed, Place, Var)) and not _is_difference(kept)
            if stays_below(ledger, kept, ranges[gone.name], ranges) is inside and (inside or plain):
                yield place, gone, kept


def _is_difference(part: Atom) -> bool:
    """Whether a position is that of one index less that of another.

    Of t = r + s neither r nor s is eliminated where it may leave its range: a sum over t may follow, in which t can be.
    """
    value = value_of(part)
    steps = [c for m, c in value.terms.items() if len(m) == 1 and isinstance(m[0][0], Var)]
    return len(steps) > 1 and min(steps) < 0


def stays_below(ledger: Ledger, part: Atom, extent: Polynomial, ranges: Mapping[str, Polynomial]) -> bool:
    """Whether an index expression only takes values that an index of the given extent takes."""
    if isinstance(part, Fixed):
        size = extent.constant()
        if size is None and part.value == 0:
            ledger.rest_on(f"{extent.key} >= 1")
        return part.value == 0 if size is None else part.value < size
    if isinstance(part, Var):
        # A bound index that stands in a factor may still carry the range it had before an outer index was replaced.
        known = ranges.get(part.name, part.extent)
        return known.key == extent.key or lies_below(Var(part.name, known), extent)
    if isinstance(part, Place):
        return lies_below(part, extent)
    return isinstance(part, Entry) and part.into is not None and part.into.key == extent.key


def _merge(ledger: Ledger, bound: list[Var], names: set[str], monomial: Monomial) -> Polynomial | None:
    """A sum inside the sum that depends on a bound index becomes part of it."""
    for place, (atom, power) in enumerate(monomial):
        if isinstance(atom, Total) and atom.free & names and power >= 1:
            whole = int(power)
            bodies: list[Polynomial] = []
            inner: list[Var] = []
            for _ in range(whole):
                variables, body = opened(ledger, atom)
                inner += variables
                bodies.append(body)
            ledger.use("nested sums are one sum")
            rest = Polynomial({(*monomial[:place], *monomial[place + 1 :]): ONE})
            if power != whole:
                bodies.append(from_atom(atom, power - whole))
            return sum_over(ledger, [*bound, *inner], products.product(ledger, [rest, *bodies]))
    return None


def _components(
    bound: list[Var], factors: list[tuple[Atom, Exponent]]
) -> Iterator[tuple[list[Var], list[tuple[Atom, Exponent]]]]:
    """Groups of bound indices that a factor or a range connects, with the factors of each."""
    groups: list[set[str]] = [{var.name} for var in bound]
    names = {var.name for var in bound}
    edges = [atom.free & names for atom, _ in factors] + [(var.extent.free & names) | {var.name} for var in bound]
    for edge in edges:
        joined = [group for group in groups if group & edge]
        groups = [group for group in groups if not group & edge] + [set().union(*joined)] if joined else groups
    for group in sorted(groups, key=min):
        yield [v for v in bound if v.name in group], [pair for pair in factors if pair[0].free & group]


def _innermost(variables: list[Var]) -> Var:
    """An index that no other one's range depends on."""
    return next(v for v in reversed(variables) if not any(v.name in other.extent.free for other in variables))


def _uncounted(variables: list[Var], factors: list[tuple[Atom, Exponent]]) -> Var | None:
    """An index of the component on which no factor and no other range depends."""
    for var in variables:
        used = any(var.name in atom.free for atom, _ in factors)
        if not used and not any(var.name in other.extent.free for other in variables):
            return var
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Canonical names.


def component(ledger: Ledger, variables: list[Var], factors: list[tuple[Atom, Exponent]]) -> Polynomial:
    """The sum of a connected component, its indices under their canonical names."""
    monomial = sorted_monomial(dict(factors))
    height = 1 + max(atom.height for atom, _ in monomial)
    best: tuple[str, tuple[Var, ...], Polynomial] | None = None
    equations = symmetry.Equations()
    orders = symmetry.orders_of_tied(variables, monomial) or _labellings(ledger, variables, monomial)
    for count, order in enumerate(orders):
        if count >= MAX_LABELLINGS:
            raise BudgetExceededError(f"a sum over {len(variables)} interchangeable indices")
        named = _named(ledger, order, monomial, height)
        if len(variables) > 1 and equations.says_zero(*named):
            ledger.use("a sum that is a multiple of itself is 0")
            return ZERO
        key = f"{symmetry.ranges_of(named[0])}:{named[1].key}"
        if best is None or key < best[0]:
            best = (key, *named)
    for order in symmetry.further_orders(variables, monomial):
        equations.says_zero(*_named(ledger, order, monomial, height))
    if (solved := equations.solution()) is not None:
        ledger.use("S = a + b S, by the symmetry of a sum")
        return total(_resummed(ledger, solved[0], m).scaled(c) for m, c in solved[1].ordered())
    if best is None:
        return Polynomial({monomial: ONE})
    _, bound, body = best
    # Orders go by name, so a renamed factor may come out with another sign or as several terms.
    return total(
        (_closed(ledger, bound, m) if _is_finished(ledger, bound, m) else _resummed(ledger, bound, m)).scaled(c)
        for m, c in body.ordered()
    )


def _is_finished(ledger: Ledger, bound: tuple[Var, ...], monomial: Monomial) -> bool:
    """Whether every bound index is used, no delta eliminates one, and the factors hold all of them together."""
    used = all(any(var.name in atom.free for atom, _ in monomial) or _is_range(var, bound) for var in bound)
    whole = len(list(_components(list(bound), list(monomial)))) == 1
    return used and whole and next(_eliminations(ledger, bound, monomial), None) is None


def _closed(ledger: Ledger, bound: tuple[Var, ...], monomial: Monomial) -> Polynomial:
    """A finished sum, or what a hypothesis puts in its place."""
    atom = Total(bound, monomial, positivity.monomial_is_positive(monomial))
    return rewriting.rewritten(ledger, atom) or from_atom(atom)


def _is_range(var: Var, bound: tuple[Var, ...]) -> bool:
    return any(var.name in other.extent.free for other in bound)


def _resummed(ledger: Ledger, bound: tuple[Var, ...], monomial: Monomial) -> Polynomial:
    fresh, body = opened(ledger, Total(bound, monomial))
    return sum_over(ledger, fresh, body)


def _named(
    ledger: Ledger, order: tuple[Var, ...], monomial: Monomial, height: int
) -> tuple[tuple[Var, ...], Polynomial]:
    names: dict[str, Atom] = {var.name: Var(f"#{height}.{place}", var.extent) for place, var in enumerate(order)}
    ranged = {
        old: Var(new.key, renaming.renamed(ledger, new.extent, names))
        for old, new in names.items()
        if isinstance(new, Var)
    }
    return tuple(ranged.values()), renaming.renamed_monomial(ledger, monomial, ranged)


def _labellings(ledger: Ledger, variables: list[Var], monomial: Monomial) -> Iterator[tuple[Var, ...]]:
    """Orders of the bound indices that can be smallest: one when refinement tells all of them apart."""
    start = {var.name: var.extent.key if not var.extent.free else "" for var in variables}
    yield from _refine(ledger, variables, monomial, start)


def _refine(
    ledger: Ledger, variables: list[Var], monomial: Monomial, colours: dict[str, str]
) -> Iterator[tuple[Var, ...]]:
    known = 0
    while known < (known := len(set(colours.values()))) < len(variables):
        colours = _recoloured(ledger, variables, monomial, colours)
    classes: dict[str, list[Var]] = {}
    for var in variables:
        classes.setdefault(colours[var.name], []).append(var)
    tied = [key for key in sorted(classes) if len(classes[key]) > 1]
    if not tied:
        yield tuple(classes[key][0] for key in sorted(classes))
        return
    for var in classes[tied[0]]:
        yield from _refine(ledger, variables, monomial, {**colours, var.name: colours[var.name] + "!"})


def _recoloured(ledger: Ledger, variables: list[Var], monomial: Monomial, colours: dict[str, str]) -> dict[str, str]:
    """Each index's colour with what its factors look like from it, numbered in the order of their text."""
    seen: dict[str, str] = {}
    for var in variables:
        view: dict[str, Atom] = {
            other.name: Var("@" if other == var else f"?{colours[other.name]}", other.extent) for other in variables
        }
        looks = sorted(f"{_look(ledger, atom, view)}^{power}" for atom, power in monomial if var.name in atom.free)
        ranges = sorted(
            f"{other.name == var.name}{renaming.renamed(ledger, other.extent, view).key}" for other in variables
        )
        seen[var.name] = f"{colours[var.name]}|{';'.join(looks)}|{';'.join(ranges)}"
    numbers = {text: f"{place:03d}" for place, text in enumerate(sorted(set(seen.values())))}
    return {name: numbers[text] for name, text in seen.items()}


def _look(ledger: Ledger, atom: Atom, view: Mapping[str, Atom]) -> str:
    """What an atom looks like when indices that are not yet told apart have one name.

    A comparison of indices looks the same from both sides: which way round it is written goes by the names.
    """
    if isinstance(atom, Bracket) and products.is_integer_valued(atom.inside):
        inside = renaming.renamed(ledger, atom.inside, view)
        return "|".join(sorted((inside.key, inside.scaled(-ONE).key)))
    try:
        with ledger.unrecorded():
            return renaming.renamed_atom(ledger, atom, view).key.removeprefix("-1*")  # A[i, j] = -A[j, i]
    except UndefinedInstanceError:
        return type(atom).__name__  # 1 / (x[i] - x[j]) has no value when i and j are one; any common text will do

"""Renaming: free indices of a normal form replaced by other index expressions.

Because orders and leading terms go by name, a renamed atom is built again through the constructor of its kind, one row
of REBUILD for each; what does not contain the index is returned untouched. Renaming opens sums with fresh names and
closes them again, so a new name is never caught. What has a value under a condition has it recorded already, for all
indices; an instance of it needs no condition of its own, so that the ledger is muted meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from derive.normal import comparisons, deltas, functions, logarithms, powers, products, ranged_products, rewriting, sums
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.terms import (
    ONE,
    ZERO,
    Apply,
    Atom,
    Base,
    Bracket,
    Delta,
    Entry,
    Exp,
    Exponent,
    Log,
    Monomial,
    Place,
    Polynomial,
    Prod,
    Total,
    Var,
    from_atom,
    is_idempotent,
    position,
    sorted_monomial,
    total,
    value_of,
)
from derive.normal.wording import worded

Names = Mapping[str, Atom]


def renamed(ledger: Ledger, polynomial: Polynomial, names: Names) -> Polynomial:
    """The polynomial with the named free indices replaced."""
    if not polynomial.free & names.keys():
        return polynomial
    return total(renamed_monomial(ledger, m, names).scaled(c) for m, c in polynomial.terms.items())


def renamed_monomial(ledger: Ledger, monomial: Monomial, names: Names) -> Polynomial:
    """The monomial with the named free indices replaced. Brackets come first: what they exclude needs no value."""
    factors = []
    for atom, power in sorted(monomial, key=lambda pair: not is_idempotent(pair[0])):
        factors.append(renamed_power(ledger, atom, power, names))
        if factors[-1].is_zero:
            return ZERO
    return products.product(ledger, factors)


def renamed_power(ledger: Ledger, atom: Atom, power: Exponent, names: Names) -> Polynomial:
    """atom^power with the named free indices replaced."""
    if not atom.free & names.keys():
        return from_atom(atom, power)
    new = renamed_atom(ledger, atom, names)
    if power == ONE:
        return new
    with _instance(ledger, atom):
        return powers.power(ledger, new, power)


@contextmanager
def _instance(ledger: Ledger, atom: Atom) -> Iterator[None]:
    """A block that works out an instance of an atom: its conditions are recorded, and it may have no value."""
    muted, ledger.muted = ledger.muted, True
    try:
        yield
    except UndefinedError as error:
        raise UndefinedInstanceError(f"an instance of {worded(from_atom(atom))}: {error}") from error
    finally:
        ledger.muted = muted


def renamed_atom(ledger: Ledger, atom: Atom, names: Names) -> Polynomial:
    """The atom with the named free indices replaced."""
    relevant = {name: names[name] for name in sorted(atom.free & names.keys())}
    if not relevant:
        return from_atom(atom)
    memo = atom.key, tuple((name, new.key) for name, new in relevant.items())
    if memo not in ledger.renamed:
        ledger.spend()
        with _instance(ledger, atom):
            ledger.renamed[memo] = REBUILD[type(atom)](ledger, atom, relevant)
    return ledger.renamed[memo]


def renamed_index(ledger: Ledger, part: Atom, names: Names) -> Atom:
    """An index expression with the named indices replaced: an index expression again."""
    if isinstance(part, Var):
        return names.get(part.name, part)
    if isinstance(part, Place) and part.free & names.keys():
        return position(_substituted(ledger, part.value, names))
    if isinstance(part, Entry) and part.free & names.keys():
        where = tuple(renamed_index(ledger, inner, names) for inner in part.where)
        return Entry(part.name, where, part.sign, part.integer, part.into)
    return part


def _substituted(ledger: Ledger, value: Polynomial, names: Names) -> Polynomial:
    """An index value with the named indices replaced, also where they stand inside an entry: T[n]."""
    parts = []
    for monomial, coefficient in value.terms.items():
        factors = [
            powers.power(ledger, value_of(renamed_index(ledger, atom, names)), power) for atom, power in monomial
        ]
        parts.append(products.product(ledger, factors).scaled(coefficient))
    return total(parts)


def _entry(ledger: Ledger, atom: Entry, names: Names) -> Polynomial:
    new = renamed_index(ledger, atom, names)
    return rewriting.rewritten(ledger, new) or from_atom(new)


def _exp(ledger: Ledger, atom: Exp, names: Names) -> Polynomial:
    return powers.exponential(ledger, renamed_monomial(ledger, atom.monomial, names))


def _log(ledger: Ledger, atom: Log, names: Names) -> Polynomial:
    return logarithms.logarithm(ledger, renamed(ledger, atom.inside, names), formal=atom.formal)


def _base(ledger: Ledger, atom: Base, names: Names) -> Polynomial:
    inside = renamed(ledger, atom.inside, names)
    if atom.sure:
        ledger.know_positive(inside)
    return inside


def _total(ledger: Ledger, atom: Total, names: Names) -> Polynomial:
    moved = _moved(ledger, atom, names)
    if moved is not None:
        return moved
    bound, body = sums.opened(ledger, atom)
    ranges = {var.name: Var(var.name, renamed(ledger, var.extent, names)) for var in bound}
    return sums.sum_over(ledger, list(ranges.values()), renamed(ledger, body, names))


def _moved(ledger: Ledger, atom: Total, names: Names) -> Polynomial | None:
    """A sum in which nothing but names changes, without taking it apart and together again; None for any other.

    Where different names become different names that do not occur yet, factor by factor, no law applies that did not
    before. Hypotheses, ranges, and comparisons, which depend on ranges, are left to the general way.
    """
    new = list(names.values())
    plain = all(isinstance(part, Var) and part.name not in atom.free for part in new) and len(set(new)) == len(new)
    if not plain or ledger.rewrites or any(var.extent.free or var in new for var in atom.bound):
        return None
    factors: list[tuple[Atom, Exponent]] = []
    for factor, power in atom.monomial:
        one = None if isinstance(factor, Var) or is_idempotent(factor) else renamed_power(ledger, factor, power, names)
        found = _only_factor(one) if one is not None else None
        if found is None or type(found[0]) is not type(factor) or found[1] != power:
            return None
        factors.append(found)
    monomial = sorted_monomial(dict(factors))
    if products.normal_monomial(ledger, ONE, factors).terms != {monomial: ONE} or len(monomial) != len(factors):
        return None  # leading terms go by name, so that a quotient may be reduced now
    if len(atom.bound) > 1:
        return sums.component(ledger, list(atom.bound), factors)
    return from_atom(Total(atom.bound, monomial, atom.sure))


def _only_factor(polynomial: Polynomial) -> tuple[Atom, Exponent] | None:
    """The factor that the polynomial is; None for any other."""
    one = polynomial.single()
    return one[0][0] if one is not None and one[1] == 1 and len(one[0]) == 1 else None


def _prod(ledger: Ledger, atom: Prod, names: Names) -> Polynomial:
    bound = ledger.fresh_var(renamed(ledger, atom.bound.extent, names))
    body = renamed(ledger, renamed(ledger, atom.inside, {atom.bound.name: bound}), names)
    return ranged_products.product_over(ledger, bound, body)


def _delta(ledger: Ledger, atom: Delta, names: Names) -> Polynomial:
    return deltas.delta(ledger, renamed_index(ledger, atom.left, names), renamed_index(ledger, atom.right, names))


def _bracket(ledger: Ledger, atom: Bracket, names: Names) -> Polynomial:
    return comparisons.bracket(ledger, renamed(ledger, atom.inside, names))


def _apply(ledger: Ledger, atom: Apply, names: Names) -> Polynomial:
    return functions.applied(ledger, atom.function, renamed(ledger, atom.argument, names))


def _var(ledger: Ledger, atom: Var, names: Names) -> Polynomial:
    part = renamed_index(ledger, atom, names)
    return value_of(part)


# Each row takes (ledger, atom of its kind, names); the type of the second argument varies by row.
REBUILD: Mapping[type[Atom], Callable[..., Polynomial]] = {
    Var: _var,
    Entry: _entry,
    Exp: _exp,
    Log: _log,
    Base: _base,
    Total: _total,
    Prod: _prod,
    Delta: _delta,
    Bracket: _bracket,
    Apply: _apply,
}

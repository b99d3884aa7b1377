"""Equational hypotheses: sum(y) = 1, B[i,j] = B[j,i], as rewrites of atoms.

A hypothesis left = right holds for all values of its free indices. Its normal form is solved for one atom, the
pattern, and wherever the normal form is about to produce an instance of the pattern it puts the rest in its place. A
pattern that its own replacement contains (symmetry) is used in the direction that makes the key smaller, so that
rewriting ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, permutations
from itertools import product as assignments

from derive.normal import positivity, products, ranges, renaming
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNITY,
    Apply,
    Atom,
    Base,
    Bracket,
    Delta,
    Entry,
    Exp,
    Fixed,
    Log,
    Monomial,
    Place,
    Polynomial,
    Prod,
    Rational,
    Total,
    Var,
    from_atom,
    is_idempotent,
    parts_of,
    position,
    ratio,
    total,
    value_of,
)

PRIORITY = (Total, Entry)  # what a hypothesis is solved for, first choice first; nothing else is looked up


@dataclass(frozen=True)
class Rewrite:
    """pattern = replacement, for all values of `variables`; `text` is how the statement wrote it.

    A replacement that `masks` is the pattern beside brackets, a (1 - q), so that doing it twice is doing it once.
    """

    pattern: Atom
    replacement: Polynomial
    variables: tuple[Var, ...]
    text: str
    masks: bool = False


def solved(left: Polynomial, right: Polynomial, text: str) -> Rewrite | None:
    """The hypothesis left = right solved for one atom; None when no atom stands alone in a term and in no other one.

    A left side that is one atom, of a kind that the right side does not have, is replaced by the right side as the
    hypothesis says. Otherwise the atom is chosen by kind, by length and by key.
    """
    difference = left - right
    one = left.single()
    if one is not None and one[1] == 1 and len(one[0]) == 1 and one[0][0][1] == 1:
        stated = one[0][0][0]
        if isinstance(stated, PRIORITY) and not any(_may_match(stated, a) for m in right.terms for a, _ in m):
            return _for_atom(stated, ONE, difference, text)
    candidates = [
        (PRIORITY.index(type(m[0][0])), m[0][0], c)
        for m, c in difference.ordered()
        if len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], PRIORITY) and _occurrences(m[0][0], difference) == 1
    ]
    if not candidates:
        return None
    first = min(rank for rank, _, _ in candidates)
    chosen = ((a, c) for rank, a, c in candidates if rank == first)
    # The longest sum goes, as V A U M in C M + V A U M = I: what is left of a sum that has it is shorter.
    pattern, c = max(chosen, key=lambda pair: (_length(pair[0]), _is_later(pair[0], difference), pair[0].key))
    return _for_atom(pattern, c, difference, text)


def _is_later(atom: Atom, difference: Polynomial) -> bool:
    """Whether an entry is one after all others of its tensor, x[t + 1] beside x[t]: a recurrence goes down."""
    others = [a for m in difference.terms for a, _ in m if a != atom and _may_match(atom, a)]
    return bool(others) and _goes_down(atom, others)


def _length(atom: Atom) -> int:
    """How many factors a sum has."""
    return len(atom.monomial) if isinstance(atom, Total) else 0


def masking(ledger: Ledger, difference: Polynomial, text: str) -> Rewrite | None:
    """The hypothesis a q = 0 as a = a (1 - q), for an entry a and a q made of brackets; None for any other.

    So a matrix is said to be lower triangular, or diagonal.
    """
    entries = {atom for m in difference.terms for atom, _ in m if not is_idempotent(atom)}
    pattern = max(entries, key=lambda atom: (len(atom.free), atom.key), default=None)  # beside a delta it has fewer
    if not isinstance(pattern, Entry):
        return None
    q = Polynomial({tuple(pair for pair in m if is_idempotent(pair[0])): c for m, c in difference.terms.items()})
    if not q.free <= pattern.free or not (products.product(ledger, [from_atom(pattern), q]) - difference).is_zero:
        return None
    for c in q.terms.values():
        for sign in (ONE, -ONE):
            mask = UNITY - q.scaled(ratio(sign, c))
            if (products.product(ledger, [mask, mask]) - mask).is_zero:
                variables = variables_in(index_atoms(pattern), pattern.free)
                return Rewrite(
                    pattern, products.product(ledger, [mask, from_atom(pattern)]), variables, text, masks=True
                )
    return None


def _occurrences(atom: Atom, polynomial: Polynomial) -> int:
    """How often an atom occurs in a polynomial, at any depth."""
    return sum(
        1 if other == atom else sum(_occurrences(atom, part) for part in parts_of(other))
        for monomial in polynomial.terms
        for other, _ in monomial
    )


def cofactors(ledger: Ledger, difference: Polynomial) -> Iterator[Monomial]:
    """What is not 0 beside a lone atom of a term, so that the equation may be divided by it: 1/N of Sum(x)/N.

    Entries and sums come before numbers with a name. Where a product is something positive, as s r = 1 says, or its
    opposite, no factor of it is 0.
    """
    whole = _never_zero(difference)
    for named in (False, True):
        for monomial, _ in difference.ordered():
            for atom, power in monomial:
                rest = tuple((other, e) for other, e in monomial if other is not atom)
                is_number = isinstance(atom, Entry) and not atom.where
                if not (rest and isinstance(atom, PRIORITY) and power == 1 and is_number is named):
                    continue
                if (
                    monomial == whole
                    or positivity.monomial_is_positive(rest)
                    or all(_is_not_zero(ledger, other) for other, _ in rest)
                ):
                    yield rest


def _never_zero(difference: Polynomial) -> Monomial | None:
    """The term that is a multiple of something positive wherever the difference is 0; None where none is.

    Of two entries of one tensor, x[i] x[j] = 1, neither is put in the other's place.
    """
    if len(difference.terms) != 2:
        return None
    for one, other in permutations(difference.terms):
        atoms = [atom for atom, _ in one]
        alike = any(_may_match(first, second) for first, second in combinations(atoms, 2))
        if positivity.monomial_is_positive(other) and not alike and not any(map(is_idempotent, atoms)):
            return one
    return None


def _is_not_zero(ledger: Ledger, atom: Atom) -> bool:
    """Whether declarations or hypotheses say that an atom is not 0."""
    return positivity.sign_of(ledger, atom) != 0 or from_atom(atom).key in ledger.known_not_zero


def _for_atom(pattern: Atom, coefficient: Rational, difference: Polynomial, text: str) -> Rewrite:
    rest = total((difference, Polynomial({((pattern, ONE),): -coefficient})))
    return Rewrite(pattern, rest.scaled(ratio(-1, coefficient)), variables_in(index_atoms(pattern), pattern.free), text)


def variables_in(parts: Iterable[Atom], free: frozenset[str]) -> tuple[Var, ...]:
    """The free indices among the parts, and in computed ones, by name."""
    found = {v for part in parts for v in _indices_in(part) if v.name in free}
    return tuple(sorted(found, key=lambda v: v.key))


def _indices_in(part: Atom) -> Iterator[Var]:
    """An index, or those that a position is computed from: t of t + 1."""
    if isinstance(part, Var):
        yield part
    elif isinstance(part, Place):
        yield from (atom for monomial in part.value.terms for atom, _ in monomial if isinstance(atom, Var))


def mentions(polynomial: Polynomial, pattern: Atom) -> bool:
    """Whether an instance of a pattern may occur anywhere in a polynomial."""
    return any(
        _may_match(pattern, atom) or any(mentions(part, pattern) for part in parts_of(atom))
        for monomial in polynomial.terms
        for atom, _ in monomial
    )


def rewritten(ledger: Ledger, atom: Atom) -> Polynomial | None:
    """What the hypotheses put in place of an atom; None when none applies."""
    for rewrite in ledger.rewrites:
        if type(rewrite.pattern) is not type(atom) or not _may_match(rewrite.pattern, atom):
            continue
        for names in instances(rewrite.variables, index_atoms(atom)):
            with resting(ledger):
                if renaming.renamed_atom(ledger, rewrite.pattern, names).key != atom.key:
                    continue
                replacement = _solved(atom, renaming.renamed(ledger, rewrite.replacement, names))
            if rewrite.masks:
                if replacement.terms == {((atom, ONE),): ONE}:
                    continue  # the mask is 1 here
                ledger.use(f"hypothesis {rewrite.text}")
                return replacement
            same_kind = [a for m in replacement.terms for a, _ in m if _may_match(rewrite.pattern, a)]
            if any(other.key >= atom.key for other in same_kind) and not _goes_down(atom, same_kind):
                continue  # symmetry, already in the direction that is kept
            ledger.use(f"hypothesis {rewrite.text}")
            return replacement
    return None


def _solved(atom: Atom, replacement: Polynomial) -> Polynomial:
    """The replacement of an atom that is in it itself, solved for it: from a = -a, the diagonal of A = -A^T, a = 0."""
    share = replacement.terms.get(((atom, ONE),), 0)
    if share in (0, ONE):
        return replacement
    rest = total((replacement, Polynomial({((atom, ONE),): -share})))
    return rest.scaled(ratio(1, 1 - share))


@contextmanager
def resting(ledger: Ledger) -> Iterator[None]:
    """No rewriting inside: an instance of a pattern is compared as it stands."""
    held, ledger.rewrites = ledger.rewrites, ()
    memo, ledger.renamed = ledger.renamed, {}
    try:
        yield
    finally:
        ledger.rewrites, ledger.renamed = held, memo


def _may_match(pattern: Atom, atom: Atom) -> bool:
    """A quick necessary condition: same names of tensors, same numbers of bound indices.

    Two factors of a pattern may be one of the atom, where indices agree.
    """
    if isinstance(pattern, Entry) and isinstance(atom, Entry):
        return pattern.name == atom.name and len(pattern.where) == len(atom.where)
    if isinstance(pattern, Total) and isinstance(atom, Total):
        same_shape = [v.extent.key for v in pattern.bound] == [v.extent.key for v in atom.bound]
        return same_shape and len(pattern.monomial) >= len(atom.monomial)
    return type(pattern) is type(atom)


def instances(variables: Sequence[Var], parts: Iterable[Atom]) -> Iterator[dict[str, Atom]]:
    """All ways to put one of the parts in place of each variable, where it runs over the same range.

    So are the indices that a position is computed from, and the position before it: of x[t + 1] and x[1] t and 0.
    """
    near = {other for part in set(parts) for other in (part, *_indices_in(part), *_before(part))}
    ordered = sorted(near, key=lambda part: part.key)
    choices = [[part for part in ordered if runs_over(part, variable.extent)] for variable in variables]
    for chosen in assignments(*choices):
        yield {variable.name: part for variable, part in zip(variables, chosen, strict=True)}


def _before(part: Atom) -> Iterator[Atom]:
    """The position before a fixed or a computed one."""
    if isinstance(part, Place) or (isinstance(part, Fixed) and part.value > 0):
        yield position(value_of(part) - UNITY)


def _goes_down(pattern: Atom, others: Iterable[Atom]) -> bool:
    """Whether a recurrence leads from an entry to earlier ones alone, x[t + 1] to x[t], so that it ends."""
    return isinstance(pattern, Entry) and all(
        isinstance(other, Entry)
        and all(
            (value_of(here) - value_of(there)).constant() in (0, 1)
            for here, there in zip(pattern.where, other.where, strict=True)
        )
        and pattern.key != other.key
        for other in others
    )


def runs_over(part: Atom, extent: Polynomial) -> bool:
    """Whether a hypothesis about all indices of the given extent says something about this position."""
    return (isinstance(part, Var) and part.extent.key == extent.key) or ranges.lies_below(part, extent)


def index_atoms(atom: Atom, *, values: bool = True) -> Iterator[Atom]:
    """The atoms in index positions anywhere below an atom, bound ones of its own sums left out.

    With `values`, also the indices that are factors, where their value counts and not a position.
    """
    if isinstance(atom, Entry):
        for part in atom.where:
            yield part
            yield from index_atoms(part, values=values)
    elif isinstance(atom, Delta):
        yield from (atom.left, atom.right)
    elif isinstance(atom, Var):
        yield from [atom] if values else []
    elif isinstance(atom, (Total, Exp)):
        bound = {var.name for var in atom.bound} if isinstance(atom, Total) else set()
        yield from (part for part in _in_monomial(atom.monomial, values) if not part.free & bound)
    elif isinstance(atom, (Log, Base, Bracket)):
        yield from parts_in(atom.inside, values)
    elif isinstance(atom, Apply):
        yield from parts_in(atom.argument, values)
    elif isinstance(atom, Prod):
        yield from (part for part in parts_in(atom.inside, values) if atom.bound.name not in part.free)


def _in_monomial(monomial: Monomial, values: bool) -> Iterator[Atom]:
    for atom, _ in monomial:
        yield from index_atoms(atom, values=values)


def parts_in(polynomial: Polynomial, values: bool = True) -> Iterator[Atom]:
    """The atoms in index positions anywhere in a polynomial, see `index_atoms`."""
    for monomial in polynomial.terms:
        yield from _in_monomial(monomial, values)


def shifts_of(atom: Atom, name: str) -> Iterator[int | None]:
    """By how much an index is shifted, at each of its index positions: 0 in x[t], 1 in x[t + 1], None if otherwise."""
    for part in index_atoms(atom, values=False):
        if name not in part.free:
            continue
        if isinstance(part, Var):
            yield 0
        elif isinstance(part, Place):
            yield part.shift_of(name)
        elif not isinstance(part, Fixed):
            yield None

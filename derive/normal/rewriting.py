"""Equational hypotheses: sum(y) = 1, B[i,j] = B[j,i], as rewrites of atoms.

A hypothesis left = right holds for all values of its free indices. Its normal form is solved for one atom, the
pattern, and wherever the normal form is about to produce an instance of the pattern it puts the rest in its place. A
pattern that its own replacement contains (symmetry) is used in the direction that makes the key smaller, so that
rewriting ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as assignments

from derive.normal import renaming
from derive.normal.ledger import Ledger
from derive.normal.terms import (
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
    Total,
    Var,
    total,
)

PRIORITY = (Total, Prod, Apply, Log, Entry)  # what a hypothesis is solved for, first choice first


@dataclass(frozen=True)
class Rewrite:
    """pattern = replacement, for all values of `variables`; `text` is how the statement wrote it."""

    pattern: Atom
    replacement: Polynomial
    variables: tuple[Var, ...]
    text: str


def solved(difference: Polynomial, text: str) -> Rewrite | None:
    """The hypothesis difference = 0 solved for one atom; None when no atom stands alone in a term."""
    candidates = [
        (PRIORITY.index(type(m[0][0])), m[0][0], c)
        for m, c in difference.ordered()
        if len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], PRIORITY)
    ]
    if not candidates:
        return None
    first = min(rank for rank, _, _ in candidates)
    pattern, c = max(((a, c) for rank, a, c in candidates if rank == first), key=lambda pair: pair[0].key)
    rest = total((difference, Polynomial({((pattern, Fraction(1)),): -c})))
    variables = tuple(sorted({v for v in index_atoms(pattern) if isinstance(v, Var)}, key=lambda v: v.key))
    free = tuple(v for v in variables if v.name in pattern.free)
    return Rewrite(pattern, rest.scaled(-1 / c), free, text)


def rewritten(ledger: Ledger, atom: Atom) -> Polynomial | None:
    """What the hypotheses put in place of an atom; None when none applies."""
    for rewrite in ledger.rewrites:
        if type(rewrite.pattern) is not type(atom) or not _may_match(rewrite.pattern, atom):
            continue
        for names in _assignments(rewrite, atom):
            with resting(ledger):
                if renaming.renamed_atom(ledger, rewrite.pattern, names).key != atom.key:
                    continue
                replacement = renaming.renamed(ledger, rewrite.replacement, names)
            same_kind = (a for m in replacement.terms for a, _ in m if _may_match(rewrite.pattern, a))
            if any(other.key >= atom.key for other in same_kind):
                continue  # symmetry, already in the direction that is kept
            ledger.use(f"hypothesis {rewrite.text}")
            return replacement
    return None


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
    """A quick necessary condition: same names of tensors, same numbers of bound indices."""
    if isinstance(pattern, Entry) and isinstance(atom, Entry):
        return pattern.name == atom.name and len(pattern.where) == len(atom.where)
    if isinstance(pattern, Total) and isinstance(atom, Total):
        same_shape = [v.extent.key for v in pattern.bound] == [v.extent.key for v in atom.bound]
        return same_shape and len(pattern.monomial) == len(atom.monomial)
    return type(pattern) is type(atom)


def _assignments(rewrite: Rewrite, atom: Atom) -> Iterator[dict[str, Atom]]:
    parts = sorted(set(index_atoms(atom)), key=lambda part: part.key)
    choices = [
        [part for part in parts if _range(part) in (None, variable.extent.key)] for variable in rewrite.variables
    ]
    for chosen in assignments(*choices):
        yield {variable.name: part for variable, part in zip(rewrite.variables, chosen, strict=True)}


def _range(part: Atom) -> str | None:
    if isinstance(part, Var):
        return part.extent.key
    return part.into.key if isinstance(part, Entry) and part.into is not None else None


def index_atoms(atom: Atom) -> Iterator[Atom]:
    """The atoms in index positions anywhere below an atom, bound ones of its own sums left out."""
    if isinstance(atom, Entry):
        for part in atom.where:
            yield part
            yield from index_atoms(part)
    elif isinstance(atom, Delta):
        yield from (atom.left, atom.right)
    elif isinstance(atom, Var):
        yield atom
    elif isinstance(atom, (Total, Exp)):
        bound = {var.name for var in atom.bound} if isinstance(atom, Total) else set()
        yield from (part for part in _in_monomial(atom.monomial) if not part.free & bound)
    elif isinstance(atom, (Log, Base, Bracket)):
        yield from _in_polynomial(atom.inside)
    elif isinstance(atom, Apply):
        yield from _in_polynomial(atom.argument)
    elif isinstance(atom, Prod):
        yield from (part for part in _in_polynomial(atom.inside) if atom.bound.name not in part.free)


def _in_monomial(monomial: Monomial) -> Iterator[Atom]:
    for atom, _ in monomial:
        yield from index_atoms(atom)


def _in_polynomial(polynomial: Polynomial) -> Iterator[Atom]:
    for monomial in polynomial.terms:
        yield from _in_monomial(monomial)


def shifts_of(atom: Atom, name: str) -> Iterator[int | None]:
    """By how much an index is shifted, at each of its index positions: 0 in x[t], 1 in x[t + 1], None if otherwise."""
    for part in index_atoms(atom):
        if name not in part.free:
            continue
        if isinstance(part, Var):
            yield 0
        elif isinstance(part, Place):
            yield part.shift_of(name)
        elif not isinstance(part, Fixed):
            yield None

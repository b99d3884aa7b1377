"""Look-ups that a delta makes equal: delta(f[i], g[j]) E[g[j]] = delta(f[i], g[j]) E[f[i]].

A law between the factors of a monomial, beside `derive.normal.products`. A delta of an index eliminates it; here
neither side is one, and the entries are rewritten that are read at the later of the two positions.

SOUND: where the positions are not equal, the delta is 0 on both sides. Both lie in the same range, so that a position
in it is replaced by one in it. Each step takes one position away and puts an earlier one in its place, which ends.
"""

from __future__ import annotations

from derive.normal import products
from derive.normal.ledger import Ledger
from derive.normal.terms import Atom, Delta, Entry, Exponent, Monomial, Polynomial, from_atom


def followed(ledger: Ledger, delta: Delta, rest: Monomial) -> Polynomial | None:
    """The delta times the rest, with entries at its later position read at the earlier; None where there are none."""
    from derive.normal import rewriting

    kept, gone = delta.left, delta.right
    if not (isinstance(kept, Entry) and isinstance(gone, Entry)):
        return None
    if kept.into is None or gone.into is None or kept.into.key != gone.into.key:
        return None
    if not any(_is_read_at(atom, power, gone) for atom, power in rest):
        return None
    ledger.use("delta contraction")
    parts = [from_atom(delta)]
    for atom, power in rest:
        if isinstance(atom, Entry) and _is_read_at(atom, power, gone):
            where = tuple(kept if part == gone else part for part in atom.where)
            new = Entry(atom.name, where, atom.sign, atom.integer, atom.into)
            parts += [rewriting.rewritten(ledger, new) or from_atom(new)] * int(power)
        else:
            parts.append(from_atom(atom, power))
    return products.product(ledger, parts)


def _is_read_at(atom: Atom, power: Exponent, place: Atom) -> bool:
    """Whether a factor is a whole power of an entry at a position."""
    return isinstance(atom, Entry) and place in atom.where and power.denominator == 1 and power > 0

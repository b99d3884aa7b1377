"""Whether a condition of a proof can hold at all positions of its indices, or fails at one whatever the inputs are.

Used for rules that conclude from all positions to one, such as induction: x[t] != 0 for all t is a hypothesis like any
other, but t - 50 != 0 leaves position 50 out, and a chain of steps breaks there. "Not known" counts as failing.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from derive.normal import ranges
from derive.normal.terms import Atom, Constant, Entry, Exp, Monomial, Polynomial, Prime, Rational, Total, Var


def can_hold_everywhere(form: Polynomial) -> bool:
    """Whether, at each position, some inputs make a polynomial other than 0.

    Its terms are grouped by their inputs. Where what stands beside one of them, made of indices and sizes, is never 0,
    these inputs can be chosen such that the whole is not 0.
    """
    groups: dict[Monomial, dict[Monomial, Rational]] = {}
    for monomial, coefficient in form.terms.items():
        inputs = tuple(pair for pair in monomial if not _is_count(pair[0]))
        groups.setdefault(inputs, {})[tuple(pair for pair in monomial if pair not in inputs)] = coefficient
    return any(
        ranges.never_zero(Polynomial(beside)) and all(_varies_freely(atom, form.free) for atom, _ in inputs)
        for inputs, beside in groups.items()
    )


def _is_count(atom: Atom) -> bool:
    """Whether the atom is an index or a size, and no input."""
    return isinstance(atom, Var) or (isinstance(atom, Entry) and atom.integer and atom.sign == "+" and not atom.where)


def _varies_freely(atom: Atom, indices: AbstractSet[str]) -> bool:
    """Whether an atom is not 0 for some inputs, at whatever positions: an entry is, and [t > 50] is not."""
    if isinstance(atom, Total):
        return all(_varies_freely(inner, indices) for inner, _ in atom.monomial)
    return isinstance(atom, (Constant, Entry, Exp, Prime)) or not atom.free & indices

"""Whether a condition of a proof can hold at all positions of its indices, or fails at one whatever the inputs are.

Used for rules that conclude from all positions to one, such as induction: x[t] != 0 for all t is a hypothesis like any
other, but t - 50 != 0 leaves position 50 out, and a chain of steps breaks there. "Not known" counts as failing.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from derive.normal import ranges
from derive.normal.terms import (
    ONE,
    Atom,
    Constant,
    Entry,
    Exp,
    Exponent,
    Monomial,
    Polynomial,
    Prime,
    Rational,
    Total,
    Var,
    value_of,
)


def can_hold_everywhere(form: Polynomial) -> bool:
    """Whether, at each position, some inputs make a polynomial other than 0.

    Its terms are grouped by their inputs. Where what stands beside one of them, made of indices and sizes, is never 0,
    these inputs can be chosen such that the whole is not 0, unless they are those of another group at some position:
    x[t] - x[s] is 0 at t = s.
    """
    groups: dict[Monomial, dict[Monomial, Rational]] = {}
    for monomial, coefficient in form.terms.items():
        inputs = tuple(pair for pair in monomial if not is_count(pair[0]))
        groups.setdefault(inputs, {})[tuple(pair for pair in monomial if pair not in inputs)] = coefficient
    return any(
        ranges.never_zero(Polynomial(beside))
        and all(_varies_freely(atom, form.free) for atom, _ in inputs)
        and not any(_may_meet(inputs, other) for other in groups if other != inputs)
        for inputs, beside in groups.items()
    )


def _may_meet(inputs: Monomial, others: Monomial) -> bool:
    """Whether two products of inputs may be one where positions agree; two entries that are never one do not."""
    one, other = (group[0][0] if len(group) == 1 else None for group in (inputs, others))
    if isinstance(one, Entry) and isinstance(other, Entry) and one.name == other.name:
        apart = (value_of(a) - value_of(b) for a, b in zip(one.where, other.where, strict=True))
        if any(map(ranges.never_zero, apart)):
            return False
    return _degrees(inputs) == _degrees(others)


def _degrees(inputs: Monomial) -> dict[str, Exponent]:
    """How often each input stands in a product, whatever the positions; a sum may have one term only."""
    found: dict[str, Exponent] = {}
    for atom, power in inputs:
        inside = _degrees(atom.monomial) if isinstance(atom, (Exp, Total)) else {}
        if isinstance(atom, Exp):
            inside = {f"exp({sorted(inside.items())})": ONE}
        elif not isinstance(atom, Total):
            name = atom.name if isinstance(atom, Entry) else type(atom).__name__
            inside = {name: ONE}
        for name, times in inside.items():
            found[name] = found.get(name, 0) + times * power
    return found


def is_count(atom: Atom) -> bool:
    """Whether the atom is an index or a size, and no input."""
    return isinstance(atom, Var) or (isinstance(atom, Entry) and atom.integer and atom.sign == "+" and not atom.where)


def _varies_freely(atom: Atom, indices: AbstractSet[str]) -> bool:
    """Whether an atom is not 0 for some inputs, at whatever positions: an entry is, and [t > 50] is not."""
    if isinstance(atom, Total):
        return all(_varies_freely(inner, indices) for inner, _ in atom.monomial)
    return isinstance(atom, (Constant, Entry, Exp, Prime)) or not atom.free & indices

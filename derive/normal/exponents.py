"""Exponents that are letters: which of them are integers, which never are, and which are at some sizes only.

x^n has a value for a negative x where n is an integer, and has none where it is not. So `derive.normal.powers` asks
here before it writes x^n = exp(n log x), which for a logarithm needs x > 0. For an integer quantity (T, 2 i + 1) the
logarithm is formal and x may be anything. For T + 1/2, never an integer, x > 0 is what it takes to have a value. A
declared real number in the exponent is an integer at isolated values only, so that x > 0 loses nothing but those. An
exponent such as T/2 or s i is none of these: at T = 2, or at i = 0, a negative x has a power, whatever s is, and x > 0
would take away more than points without a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from derive.normal import products
from derive.normal.terms import UNIT, Atom, Entry, Polynomial, number, parts_of


def split_off_integer(exponent: Polynomial) -> tuple[Polynomial, Polynomial]:
    """(n, c) with exponent = n + c, n an integer quantity, and a constant in c between 0 and 1."""
    whole = {m: c for m, c in exponent.terms.items() if m != UNIT and products.is_integer_valued(Polynomial({m: c}))}
    integer = Polynomial(whole) + number(math.floor(exponent.terms.get(UNIT, 0)))
    return integer, exponent - integer


def is_generic(exponent: Polynomial) -> bool:
    """Whether a declared real number keeps the exponent from being an integer, but for isolated values of it.

    That is so where a term has one that occurs nowhere else, and that nothing but real and positive factors stand
    beside: such a term is not constant in it. An index is 0 somewhere, and entries of one tensor may be the same one.
    """
    names = [name for monomial in exponent.terms for atom, _ in monomial for name in _numbers_in(atom)]
    alone = {name for name in names if names.count(name) == 1}
    for monomial in exponent.terms:
        numbers = {name for atom, _ in monomial if _is_number(atom) for name in _numbers_in(atom)}
        if numbers & alone and all(atom.positive or _is_number(atom) for atom, _ in monomial):
            return True
    return False


def _is_number(atom: Atom) -> bool:
    """Whether the atom is an input that may be any real number, or any positive one."""
    return isinstance(atom, Entry) and not atom.integer and atom.sign != "01"


def _numbers_in(atom: Atom) -> Iterator[str]:
    """The names of the real numbers in an atom, as often as they occur."""
    if isinstance(atom, Entry) and _is_number(atom):
        yield atom.name
    for part in parts_of(atom):
        for monomial in part.terms:
            for inner, _ in monomial:
                yield from _numbers_in(inner)

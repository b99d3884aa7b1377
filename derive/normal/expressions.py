"""From a normal polynomial back to an expression of the language, where it is made of names and elementary functions.

The inverse of `derive.normal.form`, for what a proof assumes: numbers are tried where an assumption fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
from sympy import Expr

from derive.language import Index, Tensor
from derive.normal.functions import PI
from derive.normal.terms import Atom, Base, Entry, Exp, Fixed, Log, Polynomial, Prime, Rational, Var

Symbols = Mapping[str, Any]


def expression_of_form(polynomial: Polynomial, symbols: Symbols) -> Expr | None:
    """The polynomial over the given symbols and indices, by name; None where it has a sum or a bracket."""
    terms = []
    for monomial, coefficient in polynomial.ordered():
        factors = [_power(atom, power, symbols) for atom, power in monomial]
        if None in factors:
            return None
        terms.append(sympy.Mul(sympy.Rational(coefficient.numerator, coefficient.denominator), *factors))
    return sympy.Add(*terms)


def _power(atom: Atom, power: Rational, symbols: Symbols) -> Expr | None:
    exponent = sympy.Rational(power.numerator, power.denominator)
    if isinstance(atom, Exp):
        formal = next((inner for inner, _ in atom.monomial if isinstance(inner, Log) and inner.formal), None)
        rest = tuple(pair for pair in atom.monomial if pair[0] != formal)
        inside = expression_of_form(Polynomial({rest: power}), symbols)
        base = sympy.E if formal is None else expression_of_form(formal.inside, symbols)
        return None if inside is None or base is None else base**inside
    base = _atom(atom, symbols)
    return None if base is None else base**exponent


def _atom(atom: Atom, symbols: Symbols) -> Expr | None:
    if isinstance(atom, Base):
        return expression_of_form(atom.inside, symbols)
    if isinstance(atom, Log):
        inside = expression_of_form(atom.inside, symbols)
        return None if inside is None else sympy.log(inside)
    if isinstance(atom, Prime):
        return sympy.Integer(atom.value)
    if isinstance(atom, Fixed):
        return sympy.Integer(atom.value)
    if atom == PI:
        return sympy.pi
    if isinstance(atom, Var):
        known = symbols.get(atom.name)
        return known if isinstance(known, Index) else None
    return _entry(atom, symbols) if isinstance(atom, Entry) else None


def _entry(atom: Entry, symbols: Symbols) -> Expr | None:
    known = symbols.get(atom.name)
    where = [_atom(part, symbols) for part in atom.where]
    if known is None or None in where or isinstance(known, Tensor) != bool(where):
        return None
    return known[tuple(where)] if where else known

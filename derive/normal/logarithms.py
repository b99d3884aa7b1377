"""Logarithms: what that of a product is, and when.

Beside `derive.normal.powers`. The laws, each over the reals and each with its side condition:
- log(x y) = log x + log y for x, y > 0; log(x^c) = c log x for x > 0; log(exp x) = x;
- log(x y) = log(-x) + log(-y) for x, y < 0, where a hypothesis or the branch that is being read says so;
- log(x^n) = n log|x| for an even n.

SOUND: the sign of a factor is taken from declarations, structure, hypotheses, the branch, or from what stands on a side
of the claim on its own and has a value (`derive.normal.existence`), and is noted as a condition in the last case.
"""

from __future__ import annotations

from derive.normal import positivity, powers, products, splitting
from derive.normal.ledger import Ledger, UndefinedError
from derive.normal.terms import (
    ONE,
    ZERO,
    Atom,
    Base,
    Exp,
    Exponent,
    Log,
    Monomial,
    Polynomial,
    Rational,
    from_atom,
    magnitude,
    number,
    sorted_monomial,
    total,
)


def logarithm(ledger: Ledger, argument: Polynomial, *, formal: bool = False) -> Polynomial:
    """Log of a polynomial. A `formal` one is for the exponent of a power with an integer exponent: any sign will do.

    Raises:
        UndefinedError: the argument is zero, or a negative number where the logarithm is not formal.
    """
    value = argument.constant()
    if value is not None and (value == 0 or (value < 0 and not formal)):
        raise UndefinedError(f"logarithm of {value}")
    if value is not None:
        sign = from_atom(Log(number(-1), True)) if value < 0 else ZERO
        primes = [(p, k) for p, k in products.factorised(abs(value.numerator)).items()]
        primes += [(p, -k) for p, k in products.factorised(value.denominator).items()]
        return total([sign, *(from_atom(Log(number(p))).scaled(k) for p, k in primes)])
    split = splitting.case_split(ledger, argument, lambda part: logarithm(ledger, part, formal=formal))
    if split is not None:
        return split
    one = argument.single()
    if one is not None:
        return _log_of_monomial(ledger, *one, formal=formal)
    content, primitive = powers.content_of(ledger, argument, fractional=not formal)
    if content.constant() == 1:
        return _log_of(ledger, primitive, formal=formal)
    ledger.use("log(x y) = log x + log y for x, y > 0")
    return logarithm(ledger, content, formal=formal) + logarithm(ledger, primitive, formal=formal)


def _log_of_monomial(ledger: Ledger, monomial: Monomial, coefficient: Rational, *, formal: bool) -> Polynomial:
    """log(coefficient * monomial): a term for each factor of known sign, and one for the product of the rest."""
    if len(monomial) > 1 or coefficient != 1:
        ledger.use("log(x y) = log x + log y for x, y > 0")
    parts, rest = [], []
    for atom, e in monomial:
        sign = _sign_of_factor(ledger, atom, e)
        if sign < 0:
            coefficient = -coefficient if e % 2 else coefficient
            parts.append(_log_of(ledger, from_atom(atom).scaled(-ONE), formal=False).scaled(e))
        elif sign > 0 or formal:
            parts.append(_log_of_factor(ledger, atom, e, formal=formal))
        elif e.denominator == 1 and e % 2 == 0:
            parts.append(_log_of_size(ledger, atom).scaled(e))
        else:
            rest.append((atom, e))
    parts.append(logarithm(ledger, number(coefficient if formal else magnitude(coefficient)), formal=formal))
    if rest or (coefficient < 0 and not formal):
        left = Polynomial({sorted_monomial(dict(rest)): ONE if coefficient > 0 else -ONE})
        parts.append(_log_of(ledger, left, formal=False))
    return total(parts)


def _sign_of_factor(ledger: Ledger, atom: Atom, power: Exponent) -> int:
    """1 where atom^power is positive, -1 where -atom is known to be, 0 where neither is known.

    Where the logarithm of a product has a value no factor is 0, so a root in it is positive.
    """
    if positivity.factor_is_positive(atom, power) or positivity.is_root(atom, power):
        return 1
    return positivity.sign_of(ledger, atom) if power.denominator == 1 else 0


def _log_of_factor(ledger: Ledger, atom: Atom, power: Exponent, *, formal: bool) -> Polynomial:
    """log(atom^power) for a factor that is positive, or for a formal logarithm."""
    positivity.note_positive(ledger, ((atom, power),))
    if isinstance(atom, Exp):
        ledger.use("log(exp x) = x")
        return Polynomial({atom.monomial: power})
    if not isinstance(atom, Base):
        return _log_of(ledger, from_atom(atom), formal=formal).scaled(power)
    if formal and power.denominator != 1 and not powers.is_surely_positive(ledger, atom.inside):
        return _log_of(ledger, from_atom(atom, power), formal=True)  # of a formal logarithm there is no half
    return logarithm(ledger, atom.inside, formal=formal).scaled(power)


def _log_of_size(ledger: Ledger, atom: Atom) -> Polynomial:
    """log|x|, by cases."""
    ledger.use("log(x^n) = n log|x| for an even n")
    positivity.assume(ledger, from_atom(atom), "!= 0")
    held, ledger.muted = ledger.muted, True
    try:
        return logarithm(ledger, powers.magnitude_of(ledger, atom, 1))
    finally:
        ledger.muted = held


def _log_of(ledger: Ledger, inside: Polynomial, *, formal: bool) -> Polynomial:
    """Log of what is not taken apart any further; a formal one only where the sign is not known."""
    if positivity.is_positive(inside):
        for monomial in inside.terms:
            positivity.note_positive(ledger, monomial)
    elif inside.key not in ledger.known_positive:
        if formal and inside.key not in ledger.valued[0]:
            return from_atom(Log(inside, True))
        positivity.assume(ledger, inside, "> 0")
    return from_atom(Log(inside))

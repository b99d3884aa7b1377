"""Powers, exponentials and logarithms, and how a function of cases is taken apart.

The laws, each over the reals and each with its side condition:
- exp(a + b) = exp(a) exp(b); exp(c a) = exp(a)^c; exp(log x) = x for x > 0;
- x^n = exp(n log x) for x > 0, and for any x with a formal logarithm where n is an integer;
- log(x y) = log x + log y for x, y > 0; log(x^c) = c log x for x > 0; log(exp x) = x;
- (x y)^c = x^c y^c for x, y > 0, or for integer c; a sum keeps its power as a `Base` after its content is taken out,
  so that 1/(1 + e^-x) and e^x/(1 + e^x) meet;
- f of an expression with a bracket is split by cases: f([c] x + y) = [c] f(x + y) + (1 - [c]) f(y).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from derive.normal import products, ranges
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Base,
    Bracket,
    Delta,
    Entry,
    Exp,
    Exponent,
    Log,
    Monomial,
    NoValue,
    Polynomial,
    Total,
    from_atom,
    is_idempotent,
    number,
    parts_of,
    sorted_monomial,
    total,
)

NOWHERE = from_atom(NoValue())


# ---------------------------------------------------------------------------------------------------------------------
# Signs. What is known from declarations and structure; "not known" is a good answer.


def is_root(atom: Atom, power: Exponent) -> bool:
    """Whether atom^power is a root, of which the base cannot be negative."""
    return isinstance(atom, Base) and power.denominator != 1


def factor_is_positive(atom: Atom, power: Exponent) -> bool:
    """Whether atom^power is positive wherever it is defined and the hypotheses hold."""
    return atom.positive or (is_root(atom, power) and power < 0)


def factor_is_nonnegative(atom: Atom, power: Exponent) -> bool:
    """Whether atom^power is at least 0 wherever it is defined."""
    even = power.denominator == 1 and power.numerator % 2 == 0
    return factor_is_positive(atom, power) or is_root(atom, power) or even or is_idempotent(atom)


def monomial_is_positive(monomial: Monomial) -> bool:
    """Whether every factor is positive."""
    return all(factor_is_positive(atom, power) for atom, power in monomial)


def is_nonnegative(polynomial: Polynomial) -> bool:
    """Whether no term of the polynomial can be negative."""
    return all(c > 0 and all(factor_is_nonnegative(a, e) for a, e in m) for m, c in polynomial.terms.items())


def is_positive(polynomial: Polynomial) -> bool:
    """Whether the polynomial is positive: no term can be negative, and one is positive."""
    return is_nonnegative(polynomial) and any(monomial_is_positive(monomial) for monomial in polynomial.terms)


def is_positive_by_cases(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether the polynomial is positive whichever of its brackets hold."""
    bracket = first_bracket(polynomial)
    if bracket is None or is_positive(polynomial):
        return is_positive(polynomial)
    return all(is_positive_by_cases(ledger, case) for case in cases_of(ledger, polynomial, bracket))


def note_positive(ledger: Ledger, monomial: Monomial) -> None:
    """Write down the declarations that a positivity rests on."""
    for atom, _ in monomial:
        if isinstance(atom, Entry) and atom.sign == "+":
            ledger.rest_on(f"{atom.name} >= 1" if atom.integer else f"{atom.name} > 0")
        elif isinstance(atom, Total):
            for var in atom.bound:
                ledger.rest_on(f"{var.extent.key} >= 1")
            note_positive(ledger, atom.monomial)
        elif isinstance(atom, Base):
            for inner in atom.inside.terms:
                note_positive(ledger, inner)


# ---------------------------------------------------------------------------------------------------------------------
# Conditions.


def assume(ledger: Ledger, polynomial: Polynomial, relation: str) -> None:
    """Record that a polynomial is "> 0", ">= 0" or "!= 0", unless the branch that is being read makes sure of it.

    Raises:
        UndefinedError: it never is.
    """
    never = polynomial.is_zero if relation == "!= 0" else is_positive(polynomial.scaled(-ONE))
    if never or (polynomial.is_zero and relation == "> 0"):
        raise UndefinedError(f"{polynomial.key} is never {relation}")
    if ledger.muted or (products.is_integer_valued(polynomial) and _is_in_range(polynomial, relation)):
        return
    if ledger.branches and _is_met(ledger, polynomial, relation):
        ledger.partial = True
        return
    ledger.assume(relation, polynomial)


def _is_in_range(polynomial: Polynomial, relation: str) -> bool:
    """Whether the ranges of indices and sizes imply the relation, for an integer polynomial."""
    lowest = ranges.least(polynomial)
    if relation == "!= 0" or lowest is None:
        return relation == "!= 0" and ranges.never_zero(polynomial)
    return lowest > 0 or (relation == ">= 0" and lowest == 0)


def assume_value(ledger: Ledger, polynomial: Polynomial) -> None:
    """Record what a polynomial that no part of the statement says needs to have a value."""
    for monomial in polynomial.terms:
        for atom, power_ in monomial:
            inside = atom.inside if isinstance(atom, (Base, Log)) else from_atom(atom)
            if isinstance(atom, Log):
                assume(ledger, inside, "!= 0" if atom.formal else "> 0")
            elif power_ < 0 and not factor_is_positive(atom, power_):
                assume(ledger, inside, "!= 0")
            for part in parts_of(atom):
                assume_value(ledger, part)


def _is_met(ledger: Ledger, polynomial: Polynomial, relation: str) -> bool:
    """Whether the conditions of the branches imply the relation."""
    from derive.normal import comparisons

    with ledger.unrecorded():
        above, below = (comparisons.bracket(ledger, polynomial.scaled(sign)) for sign in (ONE, -ONE))
        met = {"> 0": above, ">= 0": UNITY - below, "!= 0": above + below}[relation]
        here = products.product(ledger, [branch.form for branch in ledger.branches])
        return (here - products.product(ledger, [here, met])).is_zero


# ---------------------------------------------------------------------------------------------------------------------
# Powers.


def power(ledger: Ledger, base: Polynomial, exponent: Exponent) -> Polynomial:
    """base^exponent for a rational exponent.

    Raises:
        UndefinedError: zero is raised to a negative power.
    """
    if exponent == 0:
        return UNITY
    if exponent == 1:
        return base
    if base.is_zero:
        if exponent > 0:
            return ZERO
        raise UndefinedError("division by zero")
    one = base.single()
    if one is not None:
        return _power_of_monomial(ledger, *one, exponent)
    if exponent.denominator == 1 and exponent > 0:
        return _repeated(ledger, base, int(exponent))
    split = case_split(ledger, base, lambda part: power(ledger, part, exponent))
    if split is not None:
        return split
    content, primitive = content_of(ledger, base, fractional=exponent.denominator != 1)
    known = base.key in ledger.known_positive and is_positive(content)
    if any(isinstance(atom, Base) for monomial in content.terms for atom, _ in monomial):
        # 1 - B^-1 is B^-1 (B - 1), and over the common denominator there may be more to take out.
        if known:
            ledger.know_positive(primitive)
        ledger.use("content of a power")
        return products.product(ledger, [power(ledger, content, exponent), power(ledger, primitive, exponent)])
    kept = Base(primitive, known or is_positive(primitive))
    if kept.positive and not known:
        for monomial in primitive.terms:
            note_positive(ledger, monomial)
    elif not known:
        assume(ledger, base, _needed(exponent))
    taken_out = power(ledger, content, exponent)
    if taken_out != UNITY:
        ledger.use("content of a power")
    return products.product(ledger, [taken_out, products.normal_monomial(ledger, ONE, [(kept, exponent)])])


def general_power(ledger: Ledger, base: Polynomial, exponent: Polynomial) -> Polynomial:
    """base^exponent by way of logarithms, which for an integer exponent are formal: then any base will do."""
    split = case_split(ledger, base, lambda part: general_power(ledger, part, exponent))
    if split is not None:
        return split
    whole = products.is_integer_valued(exponent)
    lowest = ranges.least(exponent) if whole else None
    if base.is_zero:
        return _power_of_zero(ledger, exponent, lowest)
    if whole:
        ledger.use("x^n = exp(n log x) for an integer n")
        if (lowest is None or lowest < 0) and not is_positive(base):
            assume(ledger, base, "!= 0")
    else:
        ledger.use("x^y = exp(y log x) for x > 0")
    return exponential(ledger, products.product(ledger, [exponent, logarithm(ledger, base, formal=whole)]))


def _power_of_zero(ledger: Ledger, exponent: Polynomial, lowest: Fraction | None) -> Polynomial:
    """0^exponent: 1 where the exponent is 0, and 0 where it is positive.

    Raises:
        UndefinedError: the exponent is negative.
        UndefinedInstanceError: it is not known whether it is.
    """
    from derive.normal import comparisons

    if lowest is not None and lowest >= 0:
        return UNITY - comparisons.bracket(ledger, exponent)
    if is_positive(exponent):
        return ZERO
    if is_positive(exponent.scaled(-ONE)):
        raise UndefinedError(f"0 to the power {exponent.key}")
    raise UndefinedInstanceError(f"0 to the power {exponent.key}, which may be negative")


def _needed(exponent: Exponent) -> str:
    """What a number has to be for its power with a negative or fractional exponent to have a value."""
    return "!= 0" if exponent.denominator == 1 else ">= 0" if exponent > 0 else "> 0"


def _repeated(ledger: Ledger, base: Polynomial, times: int) -> Polynomial:
    result = UNITY
    for _ in range(times):
        result = products.product(ledger, [result, base])
    return result


def _power_of_monomial(ledger: Ledger, monomial: Monomial, coefficient: Fraction, exponent: Exponent) -> Polynomial:
    if exponent < 0 and any(is_idempotent(atom) for atom, _ in monomial):
        split = case_split(ledger, Polynomial({monomial: coefficient}), lambda part: power(ledger, part, exponent))
        if split is not None:
            return split
    if exponent.denominator == 1:
        if exponent < 0:
            for atom, e in monomial:
                if factor_is_positive(atom, e):
                    note_positive(ledger, ((atom, e),))
                else:
                    assume(ledger, from_atom(atom), "!= 0")
        scale = number(coefficient ** int(exponent))
        return products.product(ledger, [scale, *(_atom_power(ledger, a, e * exponent) for a, e in monomial)])
    # A root is at least 0, and the power of a product of such is the product of their powers.
    safe = [(a, e) for a, e in monomial if factor_is_positive(a, e) or is_root(a, e)]
    rest = [pair for pair in monomial if pair not in safe]
    if rest or coefficient < 0:
        split = case_split(ledger, Polynomial({monomial: coefficient}), lambda part: power(ledger, part, exponent))
        if split is not None:
            return split
    note_positive(ledger, tuple(safe))
    if safe:
        ledger.use("(x y)^c = x^c y^c for x, y > 0")
    parts = [products.rational_power(ledger, abs(coefficient), exponent)]
    for a, e in safe:
        if exponent < 0 and not factor_is_positive(a, e):
            assume(ledger, from_atom(a), "> 0")
        parts.append(_atom_power(ledger, a, e * exponent))
    for a, e in [pair for pair in rest if _is_square_root(pair[1], exponent)]:
        ledger.use("(x^2)^(1/2) = |x|")
        rest.remove((a, e))
        parts.append(_magnitude(ledger, a, int(e * exponent)))
    if rest or coefficient < 0:
        left = Base(Polynomial({sorted_monomial(dict(rest)): ONE if coefficient > 0 else -ONE}))
        assume(ledger, left.inside, _needed(exponent))
        parts.append(products.normal_monomial(ledger, ONE, [(left, exponent)]))
    return products.product(ledger, parts)


def _is_square_root(power: Exponent, exponent: Exponent) -> bool:
    """Whether (x^power)^exponent is a whole power of |x|."""
    return power.denominator == 1 and power.numerator % 2 == 0 and (power * exponent).denominator == 1


def _magnitude(ledger: Ledger, atom: Atom, times: int) -> Polynomial:
    """|x|^times, which is x^times with the sign of x where that is odd."""
    from derive.normal import comparisons

    if times < 0:
        assume(ledger, from_atom(atom), "!= 0")
    sign = comparisons.bracket(ledger, from_atom(atom)).scaled(Fraction(2)) - UNITY
    return products.product(ledger, [_atom_power(ledger, atom, Fraction(times)), sign if times % 2 else UNITY])


def _atom_power(ledger: Ledger, atom: Atom, exponent: Exponent) -> Polynomial:
    return products.normal_monomial(ledger, ONE, [(atom, exponent)])


def content_of(ledger: Ledger, polynomial: Polynomial, *, fractional: bool) -> tuple[Polynomial, Polynomial]:
    """(content, primitive part) with polynomial = content * primitive.

    The content is a rational times the factors common to all terms; under a fractional power only positive ones may
    be taken out. Its sign makes the first coefficient positive, unless the power is fractional.
    """
    terms = polynomial.ordered()
    scale = Fraction(math.gcd(*(c.numerator for _, c in terms)), math.lcm(*(c.denominator for _, c in terms)))
    if not fractional and products_first_sign(terms) < 0:
        scale = -scale
    common: dict[Atom, Exponent] = {}
    for atom in sorted({atom for m, _ in terms for atom, _ in m}, key=lambda atom: atom.key):
        low = min(dict(m).get(atom, Fraction(0)) for m, _ in terms)
        if low != 0 and (not fractional or atom.positive) and not is_idempotent(atom):
            common[atom] = low
    shared = [(atom, -low) for atom, low in common.items()]
    primitive = total(products.normal_monomial(ledger, c / scale, (*monomial, *shared)) for monomial, c in terms)
    return Polynomial({sorted_monomial(common): scale}), primitive


def products_first_sign(terms: list[tuple[Monomial, Fraction]]) -> int:
    """The sign of the leading coefficient."""
    lead, coefficient = products.leading_term(Polynomial(dict(terms)))
    if lead == UNIT:
        coefficient = terms[0][1]
    return 1 if coefficient > 0 else -1


# ---------------------------------------------------------------------------------------------------------------------
# exp, log, the rest.


def exponential(ledger: Ledger, argument: Polynomial) -> Polynomial:
    """Exp of a polynomial."""
    split = case_split(ledger, argument, lambda part: exponential(ledger, part))
    if split is not None:
        return split
    if len(argument.terms) > 1:
        ledger.use("exp(a + b) = exp(a) exp(b)")
    parts = []
    for monomial, coefficient in argument.ordered():
        if len(monomial) == 1 and isinstance(monomial[0][0], Log) and monomial[0][1] == 1:
            ledger.use("exp(log x) = x")
            parts.append(power(ledger, monomial[0][0].inside, coefficient))
        else:
            parts.append(products.normal_monomial(ledger, ONE, [(Exp(monomial), coefficient)]))
    return products.product(ledger, parts)


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
        return total([sign, *(from_atom(Log(number(p))).scaled(Fraction(k)) for p, k in primes)])
    split = case_split(ledger, argument, lambda part: logarithm(ledger, part, formal=formal))
    if split is not None:
        return split
    one = argument.single()
    if one is not None:
        return _log_of_monomial(ledger, *one, formal=formal)
    content, primitive = content_of(ledger, argument, fractional=not formal)
    if content.constant() == 1:
        return _log_of(ledger, primitive, formal=formal)
    ledger.use("log(x y) = log x + log y for x, y > 0")
    return logarithm(ledger, content, formal=formal) + logarithm(ledger, primitive, formal=formal)


def _log_of_monomial(ledger: Ledger, monomial: Monomial, coefficient: Fraction, *, formal: bool) -> Polynomial:
    # Where the logarithm of a product has a value no factor is 0, so a root in it is positive.
    safe = [(a, e) for a, e in monomial if formal or factor_is_positive(a, e) or is_root(a, e)]
    rest = [pair for pair in monomial if pair not in safe]
    if len(monomial) > 1 or coefficient != 1:
        ledger.use("log(x y) = log x + log y for x, y > 0")
    parts = [logarithm(ledger, number(coefficient if formal else abs(coefficient)), formal=formal)]
    for atom, e in safe:
        note_positive(ledger, ((atom, e),))
        if isinstance(atom, Exp):
            ledger.use("log(exp x) = x")
            parts.append(Polynomial({atom.monomial: e}))
        elif isinstance(atom, Base):
            # A root is taken of what is at least 0, and of a formal logarithm there is no half.
            parts.append(logarithm(ledger, atom.inside, formal=formal and e.denominator == 1).scaled(e))
        else:
            parts.append(_log_of(ledger, from_atom(atom), formal=formal).scaled(e))
    if rest or (coefficient < 0 and not formal):
        left = Polynomial({sorted_monomial(dict(rest)): ONE if coefficient > 0 else -ONE})
        parts.append(_log_of(ledger, left, formal=False))
    return total(parts)


def _log_of(ledger: Ledger, inside: Polynomial, *, formal: bool) -> Polynomial:
    """Log of what is not taken apart any further; a formal one only where the sign is not known."""
    if is_positive(inside):
        for monomial in inside.terms:
            note_positive(ledger, monomial)
    elif inside.key not in ledger.known_positive:
        if formal:
            return from_atom(Log(inside, True))
        assume(ledger, inside, "> 0")
    return from_atom(Log(inside))


def case_split(ledger: Ledger, argument: Polynomial, function: Callable[[Polynomial], Polynomial]) -> Polynomial | None:
    """f(argument) by cases on the first bracket in it; None when there is none, or no case has a value."""
    bracket = first_bracket(argument)
    if bracket is None:
        return None
    values = []
    for holds, form, text in zip((True, False), _forms(bracket), _texts(bracket), strict=True):
        with ledger.within(form, text):
            values.append(_value(ledger, function, argument, bracket, holds=holds))
    if all(value is NOWHERE for value in values):
        return None
    ledger.use("case split on a bracket")
    yes, no = values
    return products.product(ledger, [from_atom(bracket), yes - no]) + no


def _forms(bracket: Atom) -> tuple[Polynomial, Polynomial]:
    """What is 1 where a bracket holds, and what is 1 where it does not."""
    return from_atom(bracket), UNITY - from_atom(bracket)


def _texts(bracket: Atom) -> tuple[str, str]:
    """How a reader writes that a bracket holds, and that it does not."""
    if isinstance(bracket, Bracket):
        return f"{bracket.inside.key} > 0", f"{bracket.inside.key} <= 0"
    if isinstance(bracket, Delta):
        return f"{bracket.left.key} = {bracket.right.key}", f"{bracket.left.key} != {bracket.right.key}"
    return bracket.key, f"not {bracket.key}"


def _value(
    ledger: Ledger, function: Callable[[Polynomial], Polynomial], argument: Polynomial, bracket: Atom, *, holds: bool
) -> Polynomial:
    """f(argument) in one case; where it has none, a value of which nothing is known: only a bracket removes it."""
    try:
        return function(case_of(ledger, argument, bracket, holds=holds))
    except UndefinedError:
        return NOWHERE


def first_bracket(polynomial: Polynomial) -> Atom | None:
    """The bracket, delta or flag of a polynomial that cases are taken by first; None when there is none."""
    brackets = (atom for m in polynomial.terms for atom, power in m if is_idempotent(atom) and power > 0)
    return min(brackets, default=None, key=lambda atom: atom.key)


def cases_of(ledger: Ledger, polynomial: Polynomial, bracket: Atom) -> tuple[Polynomial, Polynomial]:
    """What the polynomial is where the bracket holds, and where it does not."""
    yes, no = (case_of(ledger, polynomial, bracket, holds=holds) for holds in (True, False))
    return yes, no


def case_of(ledger: Ledger, polynomial: Polynomial, bracket: Atom, *, holds: bool) -> Polynomial:
    """What the polynomial is where the bracket holds, or where it does not."""
    inside = Polynomial({m: c for m, c in polynomial.terms.items() if any(atom == bracket for atom, _ in m)})
    outside = polynomial - inside
    if not holds:
        return outside
    freed = total(Polynomial({tuple(pair for pair in m if pair[0] != bracket): c}) for m, c in inside.terms.items())
    gone, kept = products.delta_direction(bracket) if isinstance(bracket, Delta) else (None, bracket)
    if gone is None:
        return freed + outside
    from derive.normal.renaming import renamed

    return freed + renamed(ledger, outside, {gone.name: kept})

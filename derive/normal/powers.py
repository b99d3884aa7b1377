"""Powers and exponentials; `derive.normal.logarithms` is their inverse.

The laws, each over the reals and each with its side condition:
- exp(a + b) = exp(a) exp(b); exp(c a) = exp(a)^c; exp(log x) = x for x > 0;
- x^n = exp(n log x) for x > 0, and for any x with a formal logarithm where n is an integer;
- (x y)^c = x^c y^c for x, y > 0, for x, y >= 0 where c > 0, or for integer c; a sum keeps its power as a `Base` after
  its content is taken out, so that 1/(1 + e^-x) and e^x/(1 + e^x) meet;
- f of an expression with a bracket is split by cases (`derive.normal.splitting`): f([c] x + y) is [c] f(x + y) +
  (1 - [c]) f(y).
"""

from __future__ import annotations

import math

from derive.normal import exponents, logarithms, positivity, products, ranges, splitting
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Base,
    Exp,
    Exponent,
    Log,
    Monomial,
    Polynomial,
    Prod,
    Rational,
    from_atom,
    is_idempotent,
    magnitude,
    number,
    ratio,
    sorted_monomial,
    total,
    whole_power,
)
from derive.normal.wording import worded

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
    split = splitting.case_split(ledger, base, lambda part: power(ledger, part, exponent))
    if split is not None:
        return split
    content, primitive = content_of(ledger, base, fractional=exponent.denominator != 1)
    if exponent.denominator == 1 and primitive.scaled(-ONE).key in ledger.stated_positive:
        content, primitive = content.scaled(-ONE), primitive.scaled(-ONE)  # 1/(1 - x) where x < 1
    stated = primitive.key in ledger.stated_positive
    known = stated or (base.key in ledger.known_positive and positivity.is_positive(content))
    if any(isinstance(atom, Base) for monomial in content.terms for atom, _ in monomial):
        # 1 - B^-1 is B^-1 (B - 1), and over the common denominator there may be more to take out.
        if known:
            ledger.know_positive(primitive)
        ledger.use("content of a power")
        return products.product(ledger, [power(ledger, content, exponent), power(ledger, primitive, exponent)])
    kept = Base(primitive, known or positivity.is_positive(primitive))
    if kept.positive and not known:
        for monomial in primitive.terms:
            positivity.note_positive(ledger, monomial)
    elif not known:
        positivity.assume(ledger, base, _needed(exponent))
    taken_out = power(ledger, content, exponent)
    if taken_out != UNITY:
        ledger.use("content of a power")
    return products.product(ledger, [taken_out, products.normal_monomial(ledger, ONE, [(kept, exponent)])])


def general_power(ledger: Ledger, base: Polynomial, exponent: Polynomial) -> Polynomial:
    """base^exponent by way of logarithms, which for an integer exponent are formal: then any base will do.

    Raises:
        UndefinedInstanceError: whether it has a value where the base is negative depends on the sizes: x^(T/2).
    """
    split = splitting.case_split(ledger, base, lambda part: general_power(ledger, part, exponent))
    if split is not None:
        return split
    if base.is_zero:
        return _power_of_zero(ledger, exponent)
    if products.is_integer_valued(exponent):
        lowest = ranges.least(exponent)
        if (lowest is None or lowest < 0) and not positivity.is_positive(base):
            positivity.assume(ledger, base, "!= 0")
            ledger.narrows = ledger.narrows or not positivity.is_positive(exponent.scaled(-ONE))
        return _integer_power(ledger, base, exponent)
    if is_surely_positive(ledger, base):
        return _real_power(ledger, base, exponent)
    integer, rest = exponents.split_off_integer(exponent)
    fraction = rest.constant()
    never_positive = positivity.is_positive(base.scaled(-ONE))
    if fraction is None and (never_positive or not (positivity.is_nonnegative(base) or exponents.is_generic(rest))):
        raise UndefinedInstanceError(
            f"where {worded(base)} is negative, its power {worded(exponent)} has a value only if that is an integer, "
            "which it is for some sizes or inputs and not for others"
        )
    if not integer.is_zero:
        ledger.use("x^(n + c) = x^n x^c for an integer n")
    if fraction is not None:
        parts = [general_power(ledger, base, integer), power(ledger, base, fraction)]
        return products.product(ledger, parts)
    ledger.narrows = True  # where the exponent is positive 0 has a power, and where it is an integer all numbers have
    return products.product(ledger, [_integer_power(ledger, base, integer), _real_power(ledger, base, rest)])


def _integer_power(ledger: Ledger, base: Polynomial, exponent: Polynomial) -> Polynomial:
    """base^exponent for an integer exponent and a base that has the power."""
    ledger.use("x^n = exp(n log x) for an integer n")
    return exponential(ledger, products.product(ledger, [exponent, logarithms.logarithm(ledger, base, formal=True)]))


def _real_power(ledger: Ledger, base: Polynomial, exponent: Polynomial) -> Polynomial:
    """base^exponent for a positive base, which is a condition where nothing else makes sure of it."""
    ledger.use("x^y = exp(y log x) for x > 0")
    return exponential(ledger, products.product(ledger, [exponent, logarithms.logarithm(ledger, base)]))


def is_surely_positive(ledger: Ledger, base: Polynomial) -> bool:
    """Whether a base is positive by declarations, structure, hypotheses, or the branch that is being read."""
    _, primitive = content_of(ledger, base, fractional=True)
    known = positivity.is_positive(base) or base.key in ledger.known_positive or primitive.key in ledger.known_positive
    return known or _is_product_of_known_signs(ledger, base) or positivity.is_positive_here(ledger, base)


def _is_product_of_known_signs(ledger: Ledger, base: Polynomial) -> bool:
    """Whether a base is one term, the signs of whose factors are known and make it positive."""
    one = base.single()
    if one is None or not all(e.denominator == 1 or positivity.is_root(a, e) for a, e in one[0]):
        return False
    odd = (positivity.sign_of(ledger, a) for a, e in one[0] if e % 2)
    return bool(one[1] * math.prod(odd) > 0) and all(positivity.sign_of(ledger, a) for a, _ in one[0])


def _power_of_zero(ledger: Ledger, exponent: Polynomial) -> Polynomial:
    """0^exponent: 1 where the exponent is 0, and 0 where it is positive.

    Raises:
        UndefinedError: the exponent is negative.
        UndefinedInstanceError: it is not known whether it is.
    """
    from derive.normal import comparisons

    lowest = ranges.least(exponent) if products.is_integer_valued(exponent) else None
    if lowest is not None and lowest >= 0:
        return UNITY - comparisons.bracket(ledger, exponent)
    if positivity.is_positive(exponent):
        return ZERO
    if positivity.is_positive(exponent.scaled(-ONE)):
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


def _power_of_monomial(ledger: Ledger, monomial: Monomial, coefficient: Rational, exponent: Exponent) -> Polynomial:
    """(coefficient * monomial)^exponent: factor by factor where that may be done, the rest as the power of one base."""
    if exponent < 0 and any(is_idempotent(atom) for atom, _ in monomial):
        split = splitting.case_split(
            ledger, Polynomial({monomial: coefficient}), lambda part: power(ledger, part, exponent)
        )
        if split is not None:
            return split
    if exponent.denominator == 1:
        if exponent < 0:
            for atom, e in monomial:
                if positivity.factor_is_positive(atom, e):
                    positivity.note_positive(ledger, ((atom, e),))
                else:
                    positivity.assume(ledger, from_atom(atom), "!= 0")
        scale = number(whole_power(coefficient, int(exponent)))
        return products.product(ledger, [scale, *(_atom_power(ledger, a, e * exponent) for a, e in monomial)])
    # A root is at least 0, and the power of a product of such is the product of their powers.
    safe = [(a, e) for a, e in monomial if positivity.factor_is_positive(a, e) or positivity.is_root(a, e)]
    rest = [pair for pair in monomial if pair not in safe]
    if rest or coefficient < 0:
        split = splitting.case_split(
            ledger, Polynomial({monomial: coefficient}), lambda part: power(ledger, part, exponent)
        )
        if split is not None:
            return split
    positivity.note_positive(ledger, tuple(safe))
    if safe:
        ledger.use("(x y)^c = x^c y^c for x, y > 0")
    parts = [products.rational_power(ledger, magnitude(coefficient), exponent)]
    for a, e in safe:
        if exponent < 0 and not positivity.factor_is_positive(a, e):
            positivity.assume(ledger, from_atom(a), "> 0")
        parts.append(_atom_power(ledger, a, e * exponent))
    for a, e in [pair for pair in rest if _is_square_root(pair[1], exponent)]:
        ledger.use("(x^2)^(1/2) = |x|")
        rest.remove((a, e))
        parts.append(magnitude_of(ledger, a, int(e * exponent)))
    rest, coefficient, signed = _of_known_sign(ledger, rest, coefficient, exponent)
    if rest or coefficient < 0:
        left = Base(Polynomial({sorted_monomial(dict(rest)): ONE if coefficient > 0 else -ONE}))
        signed.append((left, exponent))
    for base, power_ in signed:
        positivity.assume(ledger, base.inside, _needed(power_))
        parts.append(products.normal_monomial(ledger, ONE, [(base, power_)]))
    return products.product(ledger, parts)


def _of_known_sign(
    ledger: Ledger, factors: list[tuple[Atom, Exponent]], coefficient: Rational, exponent: Exponent
) -> tuple[list[tuple[Atom, Exponent]], Rational, list[tuple[Base, Exponent]]]:  # fmt: skip
    """What is left of (coefficient * factors)^exponent without the roots of factors of which the sign is known.

    A factor that may be 0 is taken out only where all others are as well: sqrt(x y) is 0 at x = 0 for every y.
    """
    found = [(a, e, positivity.sign_of(ledger, a, strict=False)) for a, e in factors if e.denominator == 1]
    flipped = coefficient * math.prod(sign for _, e, sign in found if e % 2)
    if len(found) < len(factors) or flipped <= 0:
        found = [(a, e, positivity.sign_of(ledger, a)) for a, e, _ in found]
    taken = [(a, e, sign) for a, e, sign in found if sign]
    coefficient *= math.prod(sign for _, e, sign in taken if e % 2)
    gone = {a for a, _, _ in taken}
    if taken and len(factors) > 1:
        ledger.use("(x y)^c = x^c y^c for x, y > 0")
    roots = [(Base(from_atom(a).scaled(sign)), e * exponent) for a, e, sign in taken]
    return [(a, e) for a, e in factors if a not in gone], coefficient, roots


def _is_square_root(power: Exponent, exponent: Exponent) -> bool:
    """Whether (x^power)^exponent is a whole power of |x|."""
    return power.denominator == 1 and power.numerator % 2 == 0 and (power * exponent).denominator == 1


def magnitude_of(ledger: Ledger, atom: Atom, times: int) -> Polynomial:
    """|x|^times, which is x^times with the sign of x where that is odd."""
    from derive.normal import comparisons, ranged_products

    if times < 0:
        positivity.assume(ledger, from_atom(atom), "!= 0")
    if isinstance(atom, Prod) and times % 2:
        size = ranged_products.magnitude_of_product(ledger, atom)
        return products.product(ledger, [_atom_power(ledger, atom, times - 1), size])
    sign = comparisons.bracket(ledger, from_atom(atom)).scaled(2) - UNITY
    return products.product(ledger, [_atom_power(ledger, atom, times), sign if times % 2 else UNITY])


def _atom_power(ledger: Ledger, atom: Atom, exponent: Exponent) -> Polynomial:
    return products.normal_monomial(ledger, ONE, [(atom, exponent)])


def content_of(ledger: Ledger, polynomial: Polynomial, *, fractional: bool) -> tuple[Polynomial, Polynomial]:
    """(content, primitive part) with polynomial = content * primitive.

    The content is a rational times the factors common to all terms; under a fractional power only positive ones may
    be taken out. Its sign makes the first coefficient positive, unless the power is fractional.
    """
    terms = polynomial.ordered()
    scale = ratio(math.gcd(*(c.numerator for _, c in terms)), math.lcm(*(c.denominator for _, c in terms)))
    if not fractional and products_first_sign(terms) < 0:
        scale = -scale
    common: dict[Atom, Exponent] = {}
    for atom in sorted({atom for m, _ in terms for atom, _ in m}, key=lambda atom: atom.key):
        low = min(dict(m).get(atom, 0) for m, _ in terms)
        if low != 0 and (not fractional or atom.positive) and not is_idempotent(atom):
            common[atom] = low
    shared = [(atom, -low) for atom, low in common.items()]
    primitive = total(products.normal_monomial(ledger, ratio(c, scale), (*monomial, *shared)) for monomial, c in terms)
    return Polynomial({sorted_monomial(common): scale}), primitive


def products_first_sign(terms: list[tuple[Monomial, Rational]]) -> int:
    """The sign of the leading coefficient."""
    lead, coefficient = products.leading_term(Polynomial(dict(terms)))
    if lead == UNIT:
        coefficient = terms[0][1]
    return 1 if coefficient > 0 else -1


# ---------------------------------------------------------------------------------------------------------------------
# exp.


def exponential(ledger: Ledger, argument: Polynomial) -> Polynomial:
    """Exp of a polynomial."""
    split = splitting.case_split(ledger, argument, lambda part: exponential(ledger, part))
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

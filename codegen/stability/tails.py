"""Exponential tails: what is small is computed as something small, from an argument that is not rounded.

Part of `codegen.stability.rules`, before its rules and after them. First, where a tail is the rest of a difference, as
for every u at which tanh(u) is close to -1, it becomes a function of its own:

    a + a tanh(u)    = 2 a sigma(2 u)                   a - a tanh(u)  =  2 a sigma(-2 u)
    a - a tanh(u)^2  = 4 a sigma(2 u) sigma(-2 u)       beside one of those, in a divisor or in a logarithm: elsewhere
                                                        its digits are not missed
    sinh(u) / cosh(u) = tanh(u)                         and cosh(u) = (1 + exp(2 u)) / (2 exp(u)) in a divisor
    log(cosh(u))     = log(exp(u) + exp(-u)) - log(2)

Then the argument. A relative error of the argument is one of exp(u) that is u times as large, and a power of x has been
rounded. So exp, sigma and its slope of a polynomial in x are one function of x and the coefficients, which a float32
kernel computes in double precision: there the argument is exact to all that counts.

    exp(-x^2/2)               = exp_at(x; 0, 0, -1/2, 0)
    sigma(c[1] x + c[3] x^3)  = sigma_at(x; 0, c[1], 0, c[3])

At last, what is small because of a difference from 1, where no other form has been found:

    a exp(u) - a = a expm1(u)                           log(1 + u) = log1p(u)

And x sigma(x), or x Phi(x), is one function where both factors stand together: far out the product is a normal number
where the tail is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Ne, Pow, S, exp

from codegen.stability.bounds import is_share
from codegen.stability.functions import (
    LEAST_DEGREE,
    MOST_DEGREE,
    MOST_TERMS,
    ExpAt,
    ExpLess1,
    Logistic,
    LogisticAt,
    LogisticSlope,
    LogisticSlopeAt,
    LogOf1Plus,
    NormalCdf,
    ScaledCdf,
    Softplus,
    Weight,
)
from codegen.stability.guards import Definitions, spelled_out
from derive.binders import map_children, substitute
from derive.language import Where
from derive.writing import written_definition

# ---------------------------------------------------------------------------------------------------------------------
# 1 + tanh(u).


def without_cosh(node: Any, known: Definitions) -> Any:
    """The expression with cosh(u), which overflows, as exponentials where it divides or has its logarithm taken.

    Where sinh(u) stands beside the name of what has such a divisor, the name is written in.
    """
    if isinstance(node, Mul):
        node = _with_tangents(_with_divisors(node, known))
    node = map_children(node, lambda part: without_cosh(part, known))
    base, power = node.as_base_exp() if isinstance(node, Pow) else (node, S.One)
    if isinstance(base, sympy.cosh) and power.is_negative:
        (u,) = base.args
        return (2 * exp(u) / (1 + exp(2 * u))) ** -power
    if isinstance(node, sympy.log) and isinstance(node.args[0], sympy.cosh):
        (u,) = node.args[0].args
        return sympy.log(exp(u) + exp(-u)) - sympy.log(2)
    return node


def _with_divisors(product: Mul, known: Definitions) -> Expr:
    """The product with one name of what is divided by cosh(u) written in, if sinh(u) is a factor and cosh(u) none."""
    powers = dict(factor.as_base_exp() for factor in product.args)
    wanted = {sympy.cosh(*base.args) for base in powers if isinstance(base, sympy.sinh)} - powers.keys()
    for base, power in powers.items() if wanted else ():
        body = spelled_out(base, known) if power.is_Integer and power > 0 else None
        below = dict(factor.as_base_exp() for factor in Mul.make_args(body)) if body is not None else {}
        if any(below.get(divisor, S.Zero).is_negative for divisor in wanted):
            return product / base * body
    return product


def _with_tangents(product: Expr) -> Expr:
    """The product with sinh(u)/cosh(u), as often as it is there, as tanh(u)."""
    if not isinstance(product, Mul):
        return product
    powers = dict(factor.as_base_exp() for factor in product.args)
    for base, power in powers.items():
        below = -powers.get(sympy.cosh(*base.args), S.Zero) if isinstance(base, sympy.sinh) else S.Zero
        if power.is_Integer and below.is_Integer and power > 0 and below > 0:
            count = min(power, below)
            (u,) = base.args
            return product * (sympy.cosh(u) / sympy.sinh(u)) ** count * sympy.tanh(u) ** count
    return product


def without_tanh(expression: Any, known: Definitions) -> Any:
    """The expression with a hyperbolic tangent written by the logistic function if it is added to 1, or taken off."""
    small = set(_logarithms_and_divisors(expression))
    cancelling = {
        bare
        for node in sympy.preorder_traversal(expression)
        if isinstance(node, Add)
        for bare, _, _, power in _tangents(node, known)
        if power == 1 or node in small
    }
    if not cancelling:
        return expression
    made = _rewritten(expression, known, cancelling)
    in_question = any(node.has(Logistic, LogisticSlope) for node in _logarithms_and_divisors(made))
    return _by_exponentials(made) if in_question else made


def identities(expression: Any, known: Definitions) -> Iterator[str]:
    """What `without_tanh` rests on: the names that it writes in, and the identities."""
    powers: dict[int, None] = {}
    for node in sympy.preorder_traversal(expression):
        for bare, argument, term, power in _tangents(node, known) if isinstance(node, Add) else ():
            if without_tanh(expression, known) == expression:
                return
            if not isinstance(bare, sympy.tanh) and not powers:
                yield written_definition(bare, sympy.tanh(argument))
            powers[power if term.as_coeff_Mul()[0].is_positive or power == 2 else -1] = None
    yield from (IDENTITIES[power] for power in sorted(powers, key=abs))


def _logarithms_and_divisors(expression: Any) -> Iterator[Expr]:
    """What a logarithm is taken of, and what divides: the factors of each."""
    for node in sympy.preorder_traversal(expression):
        if isinstance(node, sympy.log) or (isinstance(node, Pow) and node.exp.is_negative):
            yield from (factor.as_base_exp()[0] for factor in Mul.make_args(node.args[0]))


IDENTITIES = {
    1: "1 + tanh(u) = 2*sigmoid(2*u)",
    -1: "1 - tanh(u) = 2*sigmoid(-2*u)",
    2: "1 - tanh(u)**2 = 4*sigmoid(2*u)*sigmoid(-2*u)",
}


def _tangents(node: Add, known: Definitions) -> Iterator[tuple[Expr, Expr, Expr, int]]:
    """(tanh(u) as it stands there, u, the term, its power) for each a tanh(u), or -a tanh(u)^2, beside a number a."""
    number = node.as_coeff_Add()[0]
    for term in node.args:
        weight, power = term.as_coeff_Mul()
        bare, exponent = power.as_base_exp()
        argument = _inside(bare, known) if number != 0 else None
        if argument is not None and exponent == 1 and abs(weight) == abs(number):
            yield bare, argument, term, 1
        elif argument is not None and exponent == 2 and weight == -number:
            yield bare, argument, term, 2


def _rewritten(node: Any, known: Definitions, cancelling: set[Expr]) -> Any:
    inner = map_children(node, lambda part: _rewritten(part, known, cancelling))
    if not isinstance(inner, Add):
        return inner
    for bare, argument, term, power in _tangents(inner, known):
        if bare in cancelling:
            number = inner.as_coeff_Add()[0]
            sign = S.One if term.as_coeff_Mul()[0] == number else S.NegativeOne
            tail = (
                2 * number * Logistic(2 * sign * argument) if power == 1 else 4 * number * LogisticSlope(2 * argument)
            )
            return inner - number - term + tail
    return inner


def _by_exponentials(node: Expr) -> Expr:
    """The expression with logistic functions as exponentials, which cancel, and whose logarithm is an exponent."""
    spelled = node.replace(LogisticSlope, lambda u: exp(-u) / (1 + exp(-u)) ** 2)
    result: Expr = spelled.replace(Logistic, lambda u: 1 / (1 + exp(-u)))
    return result


def _inside(bare: Expr, known: Definitions) -> Expr | None:
    """The u of a tanh(u), spelled out or the name of a definition; None for anything else."""
    if isinstance(bare, sympy.tanh):
        return bare.args[0]
    body = spelled_out(bare, known)
    return body.args[0] if isinstance(body, sympy.tanh) else None


# ---------------------------------------------------------------------------------------------------------------------
# The logistic function, at last: until then exponentials are multiplied by adding exponents.


def with_logistic(node: Any, known: Definitions) -> Any:
    """The expression with the exponentials that are products of logistic functions written as these.

    One that is left over may be a share: x + v - softplus(A + v) for A = logsumexp(x) is (x - A) - softplus(-A - v),
    where the logarithm in A, that A + v rounds away at a large offset, meets x - A as it is.
    """
    inner = map_children(node, lambda part: with_logistic(part, known))
    if not isinstance(inner, sympy.exp):
        return inner
    rest = inner.args[0]
    factors: list[Expr] = []
    is_whole = False  # whether nothing is left, or a share
    for scale in sorted(rest.atoms(Softplus), key=sympy.default_sort_key):
        count = -rest.coeff(scale)
        if not (count.is_Integer and 0 < count <= MOST_TERMS):
            return inner
        argument = scale.args[0]
        # Of the factors, those that take the argument out of the exponent are sigma(u), the others sigma(-u).
        left = [_shortest(rest + count * scale - upper * argument) for upper in range(int(count) + 1)]
        shares = [isinstance(argument, (Add, Mul)) and is_share(part, known) for part in left]
        upper = min(range(len(left)), key=lambda n: (left[n] != 0, not shares[n], len(Add.make_args(left[n]))))
        rest, is_whole = left[upper], left[upper] == 0 or shares[upper]
        factors += [Logistic(argument) ** upper, Logistic(-argument) ** (count - upper)]
    return Mul(*factors, exp(rest)) if factors and is_whole else inner


def _shortest(exponent: Expr) -> Expr:
    """The exponent multiplied out, if it has fewer terms then."""
    expanded: Expr = sympy.expand(exponent)
    return expanded if len(Add.make_args(expanded)) < len(Add.make_args(exponent)) or expanded == 0 else exponent


# ---------------------------------------------------------------------------------------------------------------------
# What is left of differences from 1.


def near_one(node: Any) -> Any:
    """The expression with an exponential less 1, and a logarithm of 1 and more, as functions of their own."""
    inner = map_children(node, near_one)
    if isinstance(inner, sympy.log) and isinstance(inner.args[0], Add):
        number, rest = inner.args[0].as_coeff_Add()
        return LogOf1Plus(rest) if number == 1 else inner
    if isinstance(inner, Add):
        number, _ = inner.as_coeff_Add()
        for term in inner.args if number else ():
            coefficient, power = term.as_coeff_Mul()
            if isinstance(power, exp) and coefficient == -number:
                return inner - number - term + coefficient * ExpLess1(*power.args)
    return inner


# ---------------------------------------------------------------------------------------------------------------------
# Polynomials.

AT: dict[Any, Callable[..., Expr]] = {sympy.exp: ExpAt, Logistic: LogisticAt, LogisticSlope: LogisticSlopeAt}


def at_polynomials(node: Any) -> Any:
    """The expression with functions of the table taken at a polynomial in one entry, where there is one."""
    inner = map_children(node, at_polynomials)
    if isinstance(inner, Mul):
        return _without_overflow(inner)
    made = AT.get(type(inner))
    found = polynomial_in_one_entry(inner.args[0]) if made is not None else None
    return inner if made is None or found is None else made(*found)


def scaled_cdf(node: Any, known: Definitions) -> Any:
    """The expression with products of u and the name of a normal cdf of u as one function.

    The name is there to be read, and costs nothing; only where it is too small has anything to be computed again.
    """
    inner = map_children(node, lambda part: scaled_cdf(part, known))
    if not isinstance(inner, Mul):
        return inner
    for factor in inner.args:
        definition = known.get(factor.base) if isinstance(factor, Indexed) else None
        if definition is not None and isinstance(definition.body, NormalCdf):
            names = dict(zip(definition.indices, factor.indices, strict=True))
            argument = substitute(definition.body.args[0], names)
            if argument in inner.args:
                rest = [part for part in inner.args if part not in (factor, argument)]
                return Mul(ScaledCdf(argument, factor), *rest)
    return inner


def _without_overflow(product: Mul) -> Expr:
    """The product with a power beside a function that vanishes far out selected where that is not 0 already.

    The limit is 0, but the power overflows, and infinity times 0 is no number.
    """
    factors = list(product.args)
    for tail in product.args:
        if not _vanishes(tail):
            continue
        for place, factor in enumerate(factors):
            if factor is not tail and _degree(factor, tail.args[0]) >= LEAST_DEGREE:
                factors[place] = Where(Ne(Weight(tail), 0), factor, S.Zero)
    return Mul(*factors)


def _vanishes(node: Any) -> bool:
    """Whether a function goes to 0 where its polynomial goes to infinity, on either side."""
    leading = next((value for value in reversed(node.args[1:]) if value != 0), S.Zero) if node.args else S.Zero
    return isinstance(node, LogisticSlopeAt) or (
        isinstance(node, ExpAt) and bool(leading.is_negative) and node.args[3] == leading
    )


def _degree(factor: Expr, entry: Expr) -> int:
    """The degree of a polynomial in the entry, 0 for anything else."""
    power = sympy.Dummy()
    spelled = factor.xreplace({entry: power})
    return int(sympy.degree(spelled, power)) if spelled.is_polynomial(power) else 0


def polynomial_in_one_entry(argument: Expr) -> tuple[Expr, ...] | None:
    """(x, coefficients of 1, x, x^2, x^3) of a polynomial of degree 2 or 3 with numbers for coefficients, else None."""
    entries = argument.atoms(Indexed)
    if len(entries) != 1:
        return None
    (entry,) = entries
    power = sympy.Dummy()
    spelled = argument.xreplace({entry: power})
    if spelled.free_symbols != {power} or not spelled.is_polynomial(power):
        return None
    coefficients = sympy.Poly(spelled, power).all_coeffs()[::-1]
    if not LEAST_DEGREE <= len(coefficients) - 1 <= MOST_DEGREE:
        return None
    return (entry, *coefficients, *(S.Zero,) * (MOST_DEGREE + 1 - len(coefficients)))

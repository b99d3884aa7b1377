"""Exponentials whose tail lies behind a name: it is written in where the exponential alone would overflow.

Part of `codegen.stability.rules`, before its rules. Adjoints are written with values at hand. Where a name s is defined
as a / (1 + exp(u))^m, exp(u) may be infinite and s is 0 there, while their product is an ordinary number:

    exp(c u + v) s^k      = exp(c u + v) s^(k - 1) a / (1 + exp(u))^m        as often as it takes, at most k times
    (x exp(u) + y) s      = x exp(u) s + y s                                 so that the two meet
    (1 - s)^p             = (1 + exp(-u))^-p        where a = m = 1 and p is no positive whole number: s rounds to 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sympy import Add, Expr, Mul, Pow, S, ceiling, exp

from codegen.stability.guards import Definitions, spelled_out
from derive.binders import map_children
from derive.folding import same


def with_tails_of_names(node: Any, known: Definitions) -> Any:
    """The expression with names of what vanishes written in beside the exponentials that they belong to."""
    inner = map_children(node, lambda part: with_tails_of_names(part, known))
    if isinstance(inner, Pow):
        return _without_difference(inner, known)
    for factor in inner.args if isinstance(inner, Mul) else ():
        name, power = factor.as_base_exp()
        body = _spelled(name, known) if power.is_Integer and power > 0 else None
        for tail in _tails(body) if body is not None else ():
            others = [other for other in inner.args if other is not factor]
            met = _met(others, (name, power), body, tail)
            if met is not None:
                return with_tails_of_names(met, known)
    return inner


def _spelled(name: Any, known: Definitions) -> Expr | None:
    """What a name stands for, with the names that are factors of it written in; None for anything else."""
    body = spelled_out(name, known)
    return None if body is None else Mul(*(_spelled(factor, known) or factor for factor in Mul.make_args(body)))


def _met(others: Sequence[Expr], named: tuple[Expr, Expr], body: Expr, tail: Pow) -> Expr | None:
    """The product of the others and a power of a name, written in where one of them needs it; None if none does."""
    name, power = named
    beside = _divisions(others, tail)
    for place, other in enumerate(others):
        if isinstance(other, exp):
            times, argument = _multiple(other.args[0], _argument(tail))
            if times > beside:
                count = min(power, ceiling((times - beside) / -tail.exp))
                spelled = body / tail * (1 + exp(argument)) ** tail.exp
                return Mul(*others, name ** (power - count), spelled**count)
        if isinstance(other, Add) and _grows(other, tail):
            rest = [*others[:place], *others[place + 1 :], name ** (power - 1)]
            return Mul(*rest, Add(*(name * term for term in other.args)))
    return None


def _without_difference(power: Pow, known: Definitions) -> Expr:
    """A power of 1 - s, for the name s of a logistic function, without the difference; any other as it is."""
    rest = 1 - power.base
    body = spelled_out(rest, known) if not (power.exp.is_Integer and power.exp.is_positive) else None
    for tail in _tails(body) if body is not None else ():
        if body == tail and tail.exp == S.NegativeOne:
            return (1 + exp(-_argument(tail))) ** -power.exp
    return power


def _tails(body: Expr) -> Iterator[Pow]:
    """The factors (1 + exp(u))^-m of a body, m a number."""
    for factor in Mul.make_args(body):
        base, power = factor.as_base_exp()
        if power.is_Rational and power < 0 and isinstance(base, Add) and isinstance(base - 1, exp):
            yield factor


def _argument(tail: Pow) -> Expr:
    """The u of (1 + exp(u))^-m."""
    exponent: Expr = (tail.base - 1).args[0]
    return exponent


def _divisions(factors: Sequence[Expr], tail: Pow) -> Expr:
    """How often the factors are divided by the base of a tail."""
    return -Add(*(other.exp for factor in factors for other in _tails(factor) if same(other.base, tail.base)))


def _grows(node: Expr, tail: Pow) -> bool:
    """Whether a term of a sum, or of one that is a factor there, grows as the base of the tail does."""
    if isinstance(node, Add):
        return any(_grows(term, tail) for term in node.args)
    factors = Mul.make_args(node)
    times = Add(*(_multiple(factor.args[0], _argument(tail))[0] for factor in factors if isinstance(factor, exp)))
    inside = any(isinstance(factor, Add) and _grows(factor, tail) for factor in factors)
    return inside or bool(times > _divisions(factors, tail))


def _multiple(exponent: Expr, argument: Expr) -> tuple[Expr, Expr]:
    """(c, u) for an exponent c u + v, with u as it stands there and c a whole number; (0, u) where u is not in it."""
    present = exponent.as_coefficients_dict()
    times: set[Expr] = set()
    found: list[Expr] = []
    for term, number in argument.as_coefficients_dict().items():
        there = next((other for other in present if same(other, term)), term)
        times.add(present.get(there, S.Zero) / number)
        found.append(number * there)
    count = times.pop()
    return (count, Add(*found)) if not times and bool(count.is_Integer) else (S.Zero, argument)

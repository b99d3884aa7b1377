"""Terms as tensor networks: a number times a product of powers, summed over some indices, nothing said about the order.

Part of the algebraic passes, between `codegen.planning.schedule`, which chooses the definitions, and lowering. A term
such as

    Sum_j(A[i,j] * Sum_c(dO[i,c] * V[j,c]))

is here the set of factors A[i,j], dO[i,c], V[j,c] with j and c summed. In this form the three steps that a reader of
formulas makes are plain: to write a definition in is to add its factors (`opened`), to read a definition from what is
at hand is to find its factors and take them out (`readings`), and the order of the sums is a question of cost
(`codegen.algebra.ordering`). Each step is an identity of real numbers: products commute, and finite sums may be
interchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import sympy
from sympy import Add, Expr, Mul, Pow, S

from derive.binders import all_names, free_indices, fresh_index, leaves_of, substitute
from derive.differentiation import contracted_sum
from derive.folding import unify
from derive.language import Dim, Index, Scalar, Tensor
from derive.statements import Definition

MOST_TERMS = 12  # of a product that is multiplied out
Factors = tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True)
class Term:
    """coefficient * product of base^exponent over the factors, summed over `scope`.

    The coefficient is made of numbers and sizes, so that it is never 0 and may be divided by.
    """

    coefficient: Expr
    factors: Factors
    scope: tuple[Index, ...]

    @property
    def expression(self) -> Expr:
        """The term as an expression: factors that share no summed index are summed apart."""
        return _expression(self)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that its factors mention."""
        return names_in(*(base for base, _ in self.factors))

    @cached_property
    def _hash(self) -> int:
        return hash((self.coefficient, self.factors, self.scope))

    def __hash__(self) -> int:
        return self._hash


@lru_cache(maxsize=100_000)
def _one(expression: Any) -> Any:
    """The first expression met that equals this one: terms are compared a great deal, and identity is quick."""
    return expression


@lru_cache(maxsize=100_000)
def _names(expression: Any) -> frozenset[str]:
    return frozenset(str(leaf.name) for leaf in leaves_of(expression) if isinstance(leaf, (Tensor, Scalar)))


def names_in(*expressions: Any) -> frozenset[str]:
    """The names of all tensors and scalars in some expressions."""
    return _names(*expressions) if len(expressions) == 1 else frozenset().union(*map(_names, expressions))


# ---------------------------------------------------------------------------------------------------------------------
# To and from expressions.


@lru_cache(maxsize=20_000)
def terms_of(expression: Expr) -> tuple[Term, ...]:
    """The terms that an expression is the sum of; products are multiplied out over sums of few terms."""
    return tuple(part for term in Add.make_args(expression) for part in _distributed(term_of(term)))


def _distributed(term: Term) -> list[Term]:
    for base, exponent in term.factors:
        is_sum = isinstance(base, Add) and exponent == 1 and free_indices(base) and len(base.args) <= MOST_TERMS
        if is_sum and not _is_centred(base):
            rest = replace(term, factors=tuple(pair for pair in term.factors if pair[0] != base))
            return [found for part in base.args for found in _distributed(times(rest, term_of(part)))]
    return [term]


def _is_centred(total: Expr) -> bool:
    """Whether a sum is the difference of a number and another that is the same for a row of it, such as a mean.

    Multiplied out, the difference of two large sums would be left of it, and few of its digits.
    """
    if len(total.args) != len(("number", "mean")):
        return False
    below, above = sorted(total.args, key=_is_negative, reverse=True)
    is_difference = _is_negative(below) and not _is_negative(above)
    return is_difference and free_indices(below) < free_indices(above)


@lru_cache(maxsize=20_000)
def term_of(product: Expr) -> Term:
    """One product as a term: the sums among its factors are opened, their indices renamed apart."""
    factors, scope = opened_sums(product, ())
    powers: dict[Expr, Expr] = {}
    coefficient = S.One
    for factor in factors:
        if _is_coefficient(factor):
            coefficient *= factor
            continue
        base, exponent = factor.as_base_exp() if isinstance(factor, Pow) else (factor, S.One)
        if not exponent.is_Rational:
            base, exponent = factor, S.One
        if exponent.is_Integer and isinstance(base, Add) and all(map(_is_negative, base.args)):
            coefficient, base = coefficient * S.NegativeOne**exponent, -base  # so that -u and u meet
        powers[base] = powers.get(base, S.Zero) + exponent
    return _made(coefficient, powers, scope)


def opened_sums(
    product: Expr, around: Sequence[Index], *, of_sums: bool = True
) -> tuple[list[Expr], tuple[Index, ...]]:
    """The factors of a product, its sums opened, and the indices of these, named apart from those around.

    Without `of_sums`, sums of sums are left as they are.
    """
    taken = {*all_names(product), *(index.name for index in around)}
    used = {index.name for index in (*free_indices(product), *around)}
    scope: list[Index] = []
    factors: list[Expr] = []
    waiting = list(Mul.make_args(product))
    while waiting:
        factor = waiting.pop(0)
        if not isinstance(factor, sympy.Sum) or (isinstance(factor.function, Add) and not of_sums):
            factors.append(factor)
            continue
        names: dict[Any, Any] = {}
        for index, *_ in reversed(factor.limits):
            new = substitute(index, names)
            if index.name in used:
                new = fresh_index(new, taken)
                taken.add(new.name)
                names[index] = new
            used.add(new.name)
            scope.append(new)
        waiting += Mul.make_args(substitute(factor.function, names))
    return factors, tuple(scope)


def merged(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The terms with those that differ in their coefficients alone added; what cancels is gone."""
    terms = tuple(terms)
    found: dict[Any, Expr] = {}
    for term in terms:
        key = (frozenset(term.factors), term.scope)
        found[key] = found.get(key, S.Zero) + term.coefficient
    first = {(frozenset(term.factors), term.scope): term for term in terms}
    return tuple(Term(value, first[key].factors, first[key].scope) for key, value in found.items() if value != 0)


def _made(coefficient: Expr, powers: Mapping[Expr, Expr], scope: Sequence[Index]) -> Term:
    factors = tuple((_one(base), exponent) for base, exponent in powers.items() if exponent != 0)
    return _one(Term(coefficient, factors, tuple(map(_one, scope))))  # type: ignore[no-any-return]


def _is_negative(expression: Expr) -> bool:
    return bool(expression.as_coeff_Mul()[0].is_negative)


def _is_coefficient(factor: Expr) -> bool:
    return all(isinstance(leaf, Dim) for leaf in leaves_of(factor))


@lru_cache(maxsize=20_000)
def _expression(term: Term) -> Expr:
    parts: list[Expr] = [term.coefficient]
    for scope, factors in components(term):
        parts.append(contracted_sum(Mul(*(base**exponent for base, exponent in factors)), scope))
    return Mul(*parts)


def components(term: Term) -> list[tuple[tuple[Index, ...], Factors]]:
    """The term's factors in groups that share summed indices, each with these indices; what has none stands alone."""
    waiting = list(term.factors)
    left = list(term.scope)
    groups: list[tuple[tuple[Index, ...], Factors]] = []
    while left:
        inside = {left[0]}
        members: list[tuple[Expr, Expr]] = []
        grown = True
        while grown:
            found = [pair for pair in waiting if free_indices(pair[0]) & inside]
            inside |= {index for base, _ in found for index in free_indices(base) if index in left}
            waiting = [pair for pair in waiting if pair not in found]
            members += found
            grown = bool(found)
        groups.append((tuple(index for index in left if index in inside), tuple(members)))
        left = [index for index in left if index not in inside]
    return [((), (pair,)) for pair in waiting] + groups


# ---------------------------------------------------------------------------------------------------------------------
# A definition written in, a definition read from.


def opened(term: Term, base: Expr, definition: Definition) -> tuple[Term, ...]:
    """The terms that come of writing the definition in for one factor `base` of the term."""
    body = definition.at(base)
    powers = dict(term.factors)
    powers[base] -= 1
    rest = _made(term.coefficient, powers, term.scope)
    return tuple(times(rest, part) for part in terms_of(body))


def times(left: Term, right: Term) -> Term:
    """The product of two terms; the right one's summed indices are renamed apart."""
    taken = {index.name for index in left.scope}.union(
        *(all_names(base) for base, _ in (*left.factors, *right.factors))
    )
    used = {index.name for index in left.scope}.union(*({i.name for i in free_indices(b)} for b, _ in left.factors))
    names: dict[Any, Any] = {}
    scope: list[Index] = []
    for index in right.scope:
        new = substitute(index, names)
        if index.name in used:
            new = fresh_index(new, taken)
            taken.add(new.name)
            names[index] = new
        scope.append(new)
    powers = dict(left.factors)
    for base, exponent in right.factors:
        renamed = substitute(base, names)
        powers[renamed] = powers.get(renamed, S.Zero) + exponent
    return _made(left.coefficient * right.coefficient, powers, (*left.scope, *scope))


def readings(term: Term, definition: Definition, form: Term) -> Iterator[Term]:
    """The terms in which part of the term is read from the definition; `form` is its body as a term.

    The part's summed indices are summed in it alone, and stand for those of the definition one to one.
    """
    for binding, left in _matches(form.factors, term.factors, {}):
        if not binding.keys() >= {*definition.indices, *form.scope}:
            continue
        images = [binding[index] for index in form.scope]
        where = [binding[index] for index in definition.indices]
        if len(set(images)) < len(images) or not set(images) <= set(term.scope):
            continue
        elsewhere = [*where, *(base for base, _ in left)]
        if any(set(images) & free_indices(part) for part in elsewhere):
            continue
        symbol = definition.symbol
        value = symbol[tuple(where)] if isinstance(symbol, Tensor) else symbol
        powers = dict(left)
        powers[value] = powers.get(value, S.Zero) + 1
        scope = tuple(index for index in term.scope if index not in images)
        ratio = term.coefficient / form.coefficient
        if _sizes_divided_by(ratio) <= _sizes_divided_by(term.coefficient):  # a size may be 0
            yield _made(ratio, powers, scope)


def _sizes_divided_by(coefficient: Expr) -> frozenset[Expr]:
    """The sizes, or what is made of them, that a coefficient has in its divisor."""
    powers = coefficient.atoms(Pow)
    return frozenset(power.base for power in powers if power.exp.is_negative and power.base.has(Dim))


def _matches(
    wanted: Sequence[tuple[Expr, Expr]], present: Factors, binding: Mapping[Index, Expr]
) -> Iterator[tuple[Mapping[Index, Expr], Factors]]:
    """Each way to find all wanted factors among those present: the binding of their indices, and what is left."""
    if not wanted:
        yield binding, present
        return
    (base, exponent), *rest = wanted
    for place, (target, power) in enumerate(present):
        if power / exponent < 1:
            continue
        for found in unify(base, target, binding):
            remaining = power - exponent
            left = (*present[:place], *(((target, remaining),) if remaining != 0 else ()), *present[place + 1 :])
            yield from _matches(rest, left, found)

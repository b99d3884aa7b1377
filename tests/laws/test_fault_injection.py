"""A fault in a law of the normal form is not a false proof: the second engine disagrees, and the alarm goes off.

Each row breaks one function of `derive.normal` in a way a slip could, and claims something that is false and that the
broken law proves. Without the fault the claim is not proved; with it the law is used, and `prove` raises AlarmError,
which the command line turns into exit code 70. Every law that the normal form can record has a row.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy
from click.testing import CliRunner
from sympy import Abs, Eq, Max, Min, Ne, Or, atan, cos, erf, exp, log, sign, sin, sqrt, tanh

import derive.equations
import derive.prove
from derive.errors import AlarmError
from derive.functions import softmax
from derive.language import Product, Sum, delta, dims, index, indices, iverson, scalar, scalars, tensor, where
from derive.normal import (
    bounds,
    case_analysis,
    closed_sums,
    comparisons,
    deltas,
    exponents,
    form,
    functions,
    gaps,
    gram,
    inner_sums,
    logarithms,
    positivity,
    powers,
    products,
    ranged_products,
    selections,
    shares,
    splitting,
    sums,
    symmetry,
    zero,
)
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Apply,
    Bracket,
    Delta,
    Exp,
    Fixed,
    Log,
    Polynomial,
    Total,
    from_atom,
    number,
    total,
)
from derive.program import Program
from derive.prove import PROVED, prove
from derive.statements import Claim
from gradproof.cli.main import main

NORMAL = Path(form.__file__).parent
T, V = dims("T V")
i, j, k = indices("i j k", T)
x, y, z = tensor("x", T), tensor("y", T), tensor("z", T)
F = tensor("F", T + 1)
P, R = tensor("P", T, positive=True), tensor("R", T, positive=True)
X = tensor("X", T, T)
three, last = index("three", 3), index("last", T + 1)
h = tensor("h", 3)
s, r = scalars("s r")
p, q = scalar("p", positive=True), scalar("q", positive=True)

Function = Callable[..., Any]
TWO = Fraction(2)


@dataclass(frozen=True)
class Fault:
    """The law as it is recorded, what is broken, by what, and the false statement that it proves."""

    law: str
    module: Any
    name: str
    broken: Callable[[Function], Any]
    left: Any
    right: Any
    given: tuple[Any, ...] = ()
    switches: tuple[Any, ...] = ()


def first_term(polynomial: Polynomial) -> Polynomial:
    """All but the first of several terms lost."""
    return Polynomial(dict(polynomial.ordered()[:1]))


def changed(change: Callable[[Polynomial], Polynomial]) -> Callable[[Function], Function]:
    """The function with what it returns changed, where it returns anything."""

    def broken(original: Function) -> Function:
        def wrong(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            return result if result is None else change(result)

        return wrong

    return broken


def fed(change: Callable[..., tuple[Any, ...]]) -> Callable[[Function], Function]:
    """The function at work on changed arguments, after it has recorded its law for the right ones."""

    def broken(original: Function) -> Function:
        def wrong(*arguments: Any, **options: Any) -> Any:
            result = original(*arguments, **options)
            return result if result is None else original(*change(*arguments), **options)

        return wrong

    return broken


def reader(kind: Any, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The table of readers, one kind of node read as another one."""

    def broken(table: Any) -> Any:
        read = {row[0]: row[1] for row in table}[kind]

        def wrong(ledger: Ledger, node: Any, scope: Any) -> Any:
            read(ledger, node, scope)
            return form.read(ledger, change(node), scope) if change(node) != node else read(ledger, node, scope)

        return tuple((row[0], wrong if row[0] == kind else row[1]) for row in table)

    return broken


def without_ends(reindexed: Polynomial) -> Polynomial:
    """A re-indexed sum without the terms at its two ends."""
    return Polynomial({m: c for m, c in reindexed.terms.items() if any(isinstance(atom, Total) for atom, _ in m)})


def taken_twice(original: Function) -> Function:
    """What leaves the sum is multiplied to it a second time."""

    def wrong(ledger: Ledger, bound: Any, monomial: Any) -> Polynomial:
        names = {var.name for var in bound}
        outside = tuple(pair for pair in monomial if not pair[0].free & names)
        return products.product(ledger, [original(ledger, bound, monomial), Polynomial({outside: ONE})])

    return wrong


def without_one_factor(ledger: Ledger, bound: Any, names: Any, monomial: Any) -> tuple[Any, ...]:
    """A product with a delta that has lost its last factor."""
    rest = [pair for pair in monomial if not isinstance(pair[0], Delta)]
    return ledger, bound, names, tuple(pair for pair in monomial if pair != rest[-1])


def with_powers_of_one(ledger: Ledger, bound: Any, names: Any, monomial: Any) -> tuple[Any, ...]:
    """A product whose sums have lost their powers."""
    return ledger, bound, names, tuple((a, ONE if isinstance(a, Total) else e) for a, e in monomial)


def logs_once(argument: Polynomial) -> Polynomial:
    """An exponent in which log x stands once, however often it did."""
    logs = {m: isinstance(m[0][0], Log) if m else False for m in argument.terms}
    return Polynomial({m: ONE if logs[m] else c for m, c in argument.terms.items()})


def exponentials_once(monomial: Any) -> Any:
    """A product in which exp x stands once, however often it did."""
    return tuple((atom, ONE if isinstance(atom, Exp) else power) for atom, power in monomial)


def quotient_without_rest(of: Callable[[Any], bool]) -> Callable[[Function], Function]:
    """L / B = 1 for B = L + R, the rest of the base forgotten."""

    def broken(original: Function) -> Function:
        def wrong(ledger: Ledger, base: Any, kept: Any, term: Any, c: Any) -> Polynomial:
            if not of(term):
                return original(ledger, base, kept, term, c)
            return products.normal_monomial(ledger, 1 / c, (*kept, (base, ONE)))

        return wrong

    return broken


def of_twice_the_content(original: Function) -> Function:
    """Where 2 is to be taken out, 4 is."""

    def wrong(ledger: Ledger, polynomial: Polynomial, *, fractional: bool) -> tuple[Polynomial, Polynomial]:
        content, primitive = original(ledger, polynomial, fractional=fractional)
        return content.scaled(TWO if content.constant() == 2 else ONE), primitive

    return wrong


def with_a_sign(original: Function) -> Function:
    """The square of an alternating power with the wrong sign."""

    def wrong(ledger: Ledger, coefficient: Any, factors: Any) -> Polynomial:
        kept = list(factors)
        count = sum(isinstance(atom, Exp) and atom.alternates for atom, _ in kept)
        return original(ledger, -coefficient if count > 1 else coefficient, kept)

    return wrong


def with_signs_in_turn(original: Function) -> Function:
    """Every other way to name the indices of a sum gives it the other sign."""
    signs = itertools.cycle((ONE, -ONE))

    def wrong(*arguments: Any) -> Any:
        bound, body = original(*arguments)
        return bound, body.scaled(next(signs))

    return wrong


def has_delta(polynomial: Polynomial) -> bool:
    return any(isinstance(atom, Delta) for monomial in polynomial.terms for atom, _ in monomial)


FAULTS = [
    # sums
    Fault(
        "sums are linear", sums, "sum_over", fed(lambda ledger, bound, body: (ledger, bound, first_term(body))),
        Sum(x[i] + y[i], i), Sum(x[i], i),
    ),
    Fault(
        "factors that do not depend on the index leave the sum", sums, "_sum_monomial", taken_twice,
        Sum(s * x[i], i), s**2 * Sum(x[i], i),
    ),
    Fault(
        "sum of 1 over i gives the extent of i", sums, "sum_over",
        lambda f: lambda ledger, bound, body: f(ledger, bound, body) + number(int(body.key == "1" and bool(bound))),
        Sum(delta(i, i), i) * x[j], (T + 1) * x[j],
    ),
    Fault(
        "delta contraction", sums, "_contract", fed(without_one_factor),
        Sum(delta(i, j) * x[i] * y[i], i), x[j],
    ),
    Fault(
        "nested sums are one sum", sums, "_merge", fed(with_powers_of_one),
        Sum(X[i, j] * Sum(X[i, k], k) ** 2, i, j), Sum(X[i, j] * X[i, k], i, j, k),
    ),
    Fault(
        "a sum over a short range is the sum of its terms", inner_sums, "total", lambda f: lambda terms: f(terms[:-1]),
        Sum(h[three], three), h[0] + h[1],
    ),
    Fault(
        "a sum beside its own inverse", inner_sums, "cancelled", changed(lambda result: result.scaled(TWO)),
        Sum(X[i, j] * x[i] / Sum(X[i, k], k), i, j), 2 * Sum(x[i], i),
    ),
    Fault(
        "re-indexing: Sum f(t+1) = Sum f(t) + f(T) - f(0)", inner_sums, "reindexed", changed(without_ends),
        Sum(F[i + 1] - F[i], i), 0,
    ),
    Fault(
        "a sum that is a multiple of itself is 0", sums, "_named", with_signs_in_turn,
        Sum(X[i, j] * X[j, i], i, j), 0,
    ),
    Fault(
        "S = a + b S, by the symmetry of a sum", symmetry, "ratio", lambda f: lambda up, down: f(2 * up, down),
        Sum(exp(x[i]) / (exp(x[i]) + exp(x[j])), i, j), 2 * T**2 / 3,
    ),
    Fault(
        "a sum over T + 1 is the sum over T and the last term", closed_sums, "total",
        lambda f: lambda parts: f(parts[:-1]), Sum(F[last], last), Sum(F[i], i),
    ),
    Fault(
        "a sum over i of [i < r] is r", closed_sums, "_count", changed(lambda count: count + UNITY),
        Sum(iverson(j <= i), j), i,
    ),
    Fault(
        "a sum over i of [s <= i][i < r] is r - s, or 0", closed_sums, "_nearest",
        lambda f: lambda ledger, cases, border, sign: f(ledger, cases, border, -sign),
        Sum(iverson(j > i) * iverson(j > k), j), T,
    ),
    Fault(
        "Faulhaber: Sum i^k in closed form", closed_sums, "_bernoulli",
        lambda f: lambda highest: [abs(number_) for number_ in f(highest)], Sum(i, i), T * (T + 1) / 2,
    ),
    Fault(
        "geometric sum: Sum q^i = (q^T - 1)/(q - 1)", closed_sums, "geometric",
        changed(lambda closed: closed.scaled(-ONE)), Sum(s**i, i), (1 - s**T) / (s - 1),
    ),
    # products
    Fault(
        "a product of positive factors is exp of the sum of their logs", ranged_products, "product_over",
        fed(lambda ledger, bound, _body: (ledger, bound, UNITY)), Product(P[i], i), 1,
    ),
    Fault(
        "a product is taken factor by factor", ranged_products, "_of_factor",
        fed(lambda ledger, bound, atom, _power: (ledger, bound, atom, ONE)), Product(x[i] ** 2, i), Product(x[i], i),
    ),
    Fault(
        "a product of one number is its power", ranged_products, "_repeated",
        fed(lambda ledger, bound, _factor: (ledger, bound, UNITY)), Product(s, i), 1,
    ),
    Fault(
        "a product without one factor is the whole product divided by it", ranged_products, "_without_one_factor",
        changed(lambda divided: divided.scaled(TWO)),
        Product(where(Ne(i, j), x[i], 1), i), 2 * Product(x[i], i) / x[j],
    ),
    # deltas and positions
    Fault(
        "delta(i, i) = 1", deltas, "delta", lambda f: lambda ledger, left, _right: f(ledger, left, left),
        Sum(delta(i, j) * x[i], i), Sum(x[i], i),
    ),
    Fault("an index lies in its range", comparisons, "_from_ranges", lambda f: lambda _: UNITY, iverson(i < j), 1),
    Fault(
        "an index of a short range is at one of its positions", deltas, "_at_fixed_position",
        lambda f: lambda ledger, var, place: f(ledger, var, place)
        + (from_atom(Delta(*sorted((var, Fixed(0)), key=str))) if place.value == 2 else ZERO),
        delta(three, 2) * h[three], h[three] - delta(three, 1) * h[three],
    ),
    Fault(
        "an index of a short range, position by position", zero, "all", lambda f: any,
        delta(three, 0) * h[three], h[three],
    ),
    # brackets
    Fault(
        "[p > 0] [q > 0] = 0 where p + q is at most 0, for integers at most 1", products, "_exclude_each_other",
        lambda f: lambda powers_: sum(isinstance(atom, Bracket) for atom in powers_) > 1,
        iverson(s > 0) * iverson(r > 0), 0,
    ),
    Fault(
        "[p > 0] [q > 0] = [p > 0] where q is at least p", products, "_implied",
        lambda f: lambda powers_: sorted((atom for atom in powers_ if isinstance(atom, Bracket)), key=str)[1:],
        iverson(s > 0) * iverson(r > 0), iverson(r > 0),
    ),
    Fault("brackets are idempotent", products, "is_idempotent", lambda f: lambda _: True, x[i] ** 2, x[i]),
    Fault(
        "x [-x > 0] = x - x [x > 0]", products, "_turn_bracket", changed(lambda turned: turned.scaled(-ONE)),
        s * iverson(s < 0), s * iverson(s > 0) - s,
    ),
    Fault(
        "integers: [p > 0] = 1 - [1 - p > 0]", comparisons, "number",
        lambda f: lambda value: f(0 if value == 1 else value),
        iverson(i < j) + iverson(i > j), 1,
    ),
    Fault(
        "integers: [q > -1] = [q > 0] + [q = 0]", comparisons, "total", lambda f: lambda parts: next(iter(parts)),
        Sum(iverson(j <= i) * x[j], j), Sum(iverson(j < i) * x[j], j),
    ),
    Fault(
        "integers: [g q + c > 0] = [q + ceil(c/g) > 0]", comparisons, "_divided",
        lambda f: lambda ledger, argument: f(ledger, argument) - number(int(f(ledger, argument).key != argument.key)),
        iverson(2 * i + 1 > 2 * j), iverson(i > j),
    ),
    Fault(
        "[q > 0] = 1 - [q = 0] where q is at least 0", comparisons, "_above_zero",
        changed(lambda result: UNITY if has_delta(result) else result), iverson(i > 0), 1,
    ),
    Fault(
        "log is strictly increasing", comparisons, "as_logs", changed(lambda logs: ZERO - logs),
        iverson(p > q), iverson(log(q) > log(p)),
    ),
    Fault(
        "[c p > 0] = [p > 0] for c > 0", powers, "content_of",
        lambda f: lambda ledger, polynomial, *, fractional: f(ledger, polynomial, fractional=False),
        iverson(s * r > 0), 1,
    ),
    Fault(
        "p [p > 0] = p - p [p < 0]", selections, "_difference", changed(lambda difference: ZERO - difference),
        Max(s, r), r + iverson(r > s) * (s - r),
    ),
    Fault(
        "case split on a bracket", splitting, "case_of",
        lambda f: lambda *arguments, holds: f(*arguments, holds=True),
        exp(iverson(s > 0) * r), exp(r),
    ),
    Fault(
        "a sum of squares, exponentials and positive terms is positive", positivity, "is_positive",
        lambda f: lambda polynomial: True, iverson(s > 0), 1,
    ),
    Fault(
        "[a q > 0] = [a > 0] [q > 0] + [-a > 0] [-q > 0]", comparisons, "_by_signs",
        changed(lambda signs: UNITY), iverson(s * r - s > 0), 1,
    ),
    Fault(
        "[p/x > 0] = [x p > 0]", comparisons, "_without_denominators", changed(lambda _: UNITY),
        iverson(1 / s - r > 0), 1,
    ),
    # cases
    Fault(
        "cases: a bracket holds or does not hold", case_analysis, "is_contradictory",
        lambda f: lambda ledger, facts: True, Max(Min(s, 1), -1), Max(s, 2),
    ),
    Fault(
        "pieces meet where both sides of a comparison are equal", case_analysis, "is_contradictory",
        lambda f: lambda ledger, facts: bool(facts) and facts[-1].strict,
        where(s > 0, r, s), 0,
    ),
    Fault(
        "almost everywhere: a comparison has no tie", case_analysis, "_facts_of",
        lambda f: lambda ledger, bracket, *, holds: [f(ledger, bracket, holds=way) for way in (False, True)][1],
        r * sign(s), r, switches=(s > 0,),
    ),
    Fault(
        "sums over the same ranges are one sum", case_analysis, "_as_one_sum",
        lambda f: lambda ledger, polynomial, first, *, counts: (ZERO, ZERO),
        Sum(Max(Min(x[i], 1), -1), i), Sum(Max(x[i], y[i]), i),
    ),
    # powers, exponentials, functions
    Fault(
        "exp(a + b) = exp(a) exp(b)", powers, "exponential",
        fed(lambda ledger, argument: (ledger, first_term(argument))), exp(s + r), exp(r),
    ),
    Fault(
        "exp(log x) = x", powers, "exponential", fed(lambda ledger, argument: (ledger, logs_once(argument))),
        exp(Sum(2 * delta(i, j) * log(P[i]), i)), P[j],
    ),
    Fault(
        "log(x y) = log x + log y for x, y > 0", logarithms, "_log_of_monomial",
        fed(lambda ledger, monomial, coefficient: (ledger, monomial[:1], coefficient)),
        log(p * q * Sum(P[i], i)), log(p),
    ),
    Fault(
        "log(exp x) = x", logarithms, "_log_of_monomial",
        fed(lambda ledger, monomial, coefficient: (ledger, exponentials_once(monomial), coefficient)),
        log(p * exp(2 * s)), log(p) + s,
    ),
    Fault(
        "(x y)^c = x^c y^c for x, y > 0", positivity, "factor_is_positive", lambda f: lambda _atom, _power: True,
        sqrt(Sum(x[i], i) * Sum(x[j], j)), Sum(x[i], i),
    ),
    Fault(
        "x^y = exp(y log x) for x > 0", form, "READERS",
        reader(sympy.Pow, lambda node: node if node.exp.is_number else exp(node.exp)), p**s, exp(s),
    ),
    Fault(
        "x^n = exp(n log x) for an integer n", form, "READERS",
        reader(sympy.Pow, lambda node: node if node.exp.is_number else exp(node.exp)), s**T, exp(T),
    ),
    Fault(
        "x^(n + c) = x^n x^c for an integer n", exponents, "split_off_integer",
        lambda f: lambda exponent: (f(exponent)[0].scaled(Fraction(2)), f(exponent)[1]),
        s ** (T + sympy.Rational(1, 2)), s**(2 * T) * sqrt(s),
    ),
    Fault(
        "(-1)^n (-1)^n = 1", products, "normal_monomial", with_a_sign,
        Sum(delta(i, j) * sympy.S.NegativeOne**i, i) * sympy.S.NegativeOne**j, -1,
    ),
    Fault(
        "(x^2)^(1/2) = |x|", powers, "magnitude_of",
        lambda f: lambda ledger, atom, times: f(ledger, atom, times) and from_atom(atom, Fraction(times)),
        sqrt(Sum(delta(i, 0) * s**2, i)), s,
    ),
    Fault(
        "log(x^n) = n log|x| for an even n", logarithms, "_log_of_size",
        lambda f: lambda ledger, atom: f(ledger, atom) and ZERO, log(s**4), 0,
    ),
    Fault("content of a power", powers, "content_of", of_twice_the_content, 1 / (2 * p + 2 * q), 1 / (p + q) / 4),
    Fault(
        "quotient: B / B = 1", products, "_without", quotient_without_rest(lambda term: term != UNIT),
        s**2 / (s**2 + r), 1,
    ),
    Fault(
        "partial fractions: 1/(x B) = (1/x - Q/B)/c for B = c + x Q", products, "_without",
        quotient_without_rest(lambda term: term == UNIT), 1 / (s * (1 + s)), 1 / s,
    ),
    Fault("common denominator", zero, "_cleared", changed(lambda _: ZERO), 1 / (s + r), s),
    Fault(
        "tanh by its definition in exp", form, "READERS",
        reader((sympy.tanh, sympy.sinh, sympy.cosh), lambda node: sympy.sinh(*node.args)),
        tanh(s), (exp(s) - exp(-s)) / 2,
    ),
    Fault(
        "erf is odd", functions, "_by_parity",
        changed(lambda result: Polynomial({m: abs(c) for m, c in result.terms.items()})),
        erf(Sum(x[i] - s, i)), erf(Sum(s - x[i], i)),
    ),
    Fault(
        "cos is even", functions, "_by_parity",
        lambda f: lambda ledger, function, argument: f(ledger, function, argument).scaled(
            number(-1 if function == "cos" and argument.ordered()[0][1] < 0 else 1).terms[UNIT]
        ),
        cos(s - r), sin(s) * sin(r) - cos(s) * cos(r),
    ),
    Fault(
        "sine and cosine of a sum", functions, "_sine_and_cosine",
        lambda f: lambda ledger, angle: f(ledger, angle) if len(angle.terms) == 1 else (f(ledger, angle)[0],) * 2,
        cos(s + r), sin(s) * cos(r) + cos(s) * sin(r),
    ),
    Fault(
        "sine and cosine of a multiple of pi", functions, "_at_multiple_of_pi",
        lambda f: lambda ledger, multiple: f(ledger, multiple)[::-1],
        cos(sympy.pi * s / (s + r) + sympy.pi * r / (s + r)), 0,
    ),
    Fault(
        "sin^2 = 1 - cos^2", products, "from_atom",
        lambda f: lambda atom, *power: f(atom) if isinstance(atom, Apply) and power else f(atom, *power),
        sin(s) ** 2, 1 - cos(s),
    ),
    # hypotheses
    Fault(
        "hypothesis Eq(Sum(x[i], (i, 0, T - 1)), 1)", derive.equations, "solved",
        lambda f: lambda left, *rest: f(total((left, number(1))), *rest),
        Sum(x[i], i), 0, (Eq(Sum(x[i], i), 1),),
    ),
    Fault(
        "hypothesis Eq(r**2 + s**2, 1)", derive.equations, "vanishing",
        lambda f: lambda difference, text: f(total((difference, number(1))), text),
        s**2 + r**2, 0, (Eq(s**2 + r**2, 1),),
    ),
    # products over a range, and shares
    Fault(
        "a product over a short range is the product of its factors", ranged_products, "range",
        lambda _: lambda size: [*itertools.islice(itertools.count(), size - 1)],
        Product(h[three], three), h[0] * h[1],
    ),
    Fault(
        "a product with a factor 0 is 0", ranged_products, "_has_a_zero", lambda _: lambda *_arguments: True,
        Product(x[i], i), 0,
    ),
    Fault(
        "a condition holds at all positions where it fails at none", ranged_products, "_at_all_positions",
        changed(lambda met: UNITY - met), Product(1 - iverson(k < i), k), 1 - delta(i, 0),
    ),
    Fault(
        "the absolute value of a product is the product of absolute values", ranged_products, "magnitude_of_product",
        changed(lambda size: size.scaled(TWO)), Abs(Product(x[i], i)), 2 * Product(Abs(x[i]), i),
    ),
    Fault(
        "shares of a sum add up to 1", shares, "added", changed(lambda whole: whole.scaled(TWO)),
        Sum(softmax(x[k], over=k, where=Or(k < i, Eq(k, 0))), k), 2,
    ),
    # bounds
    Fault(
        "a sum of squares is at least 0", gram, "_is_semidefinite", lambda _: lambda _matrix: True,
        iverson(s**2 + r**2 >= 3 * s * r), 1,
    ),
    Fault(
        "sine, cosine and erf lie between -1 and 1", bounds, "WITHIN_ONE", lambda _: ("atan",),
        iverson(atan(s) <= 1), 1,
    ),
    Fault(
        "a sum is at least 0 where its terms are", bounds, "_spread", lambda _: lambda *_arguments: UNITY,
        iverson(Sum(x[i], i) >= Sum(y[i], i)), 1,
    ),
    Fault("log u <= u - 1", bounds, "UNITY", lambda _: number(3), iverson(log(p) <= p - 3), 1),
    Fault(
        "a >= b where a >= 0 and a^2 >= b^2", bounds, "_squared", changed(lambda _: ZERO),
        iverson(sqrt(1 + s**2) >= r), 1,
    ),
    Fault(
        "the sign that the case says", gaps, "known",
        lambda original: lambda ledger: [(fact.scaled(c), True) for fact, _ in original(ledger) for c in (1, -1)],
        Max(s, 0), 0,
    ),
    Fault(
        "exp(u) >= exp(v) (1 + u - v)", gaps, "_exponent", changed(lambda of: of.scaled(TWO)),
        iverson(exp(s) >= 1 + 2 * s), 1,
    ),
    Fault(
        "a sum of what is at least 0 is at least each of its terms", gaps, "body_of",
        changed(lambda entry: entry.scaled(TWO)), iverson(Sum(P[i], i) >= 2 * P[j]), 1,
    ),
    Fault(
        "Cauchy and Schwarz: (Sum f g)^2 <= Sum f^2 Sum g^2", gaps, "is_nonnegative", lambda _: lambda _monomial: True,
        iverson(Sum(x[i] * y[i], i) ** 2 <= Sum(y[i], i) * Sum(y[i] * x[i] ** 2, i)), 1,
    ),
    Fault(
        "(Sum f)^2 >= Sum f^2 where f >= 0", gaps, "is_nonnegative", lambda _: lambda _monomial: True,
        iverson(Sum(x[i], i) ** 2 >= Sum(x[i] ** 2, i)), 1,
    ),
]  # fmt: skip


def claim_of(fault: Fault) -> Claim:
    program = Program("fault", switches=list(fault.switches), has_unnamed_derivatives=bool(fault.switches))
    return program.claim("c", fault.left, fault.right, given=fault.given, over=[i, j, k, three])


def inject(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(fault.module, fault.name, None)
    monkeypatch.setattr(fault.module, fault.name, fault.broken(original), raising=False)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.law)
def test_a_fault_raises_the_alarm(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prove(claim_of(fault)).status != PROVED
    used: set[str] = set()
    monkeypatch.setattr(Ledger, "use", lambda _ledger, law: used.add(law))
    inject(fault, monkeypatch)
    with pytest.raises(AlarmError, match="proved by the normal form and contradicted"):
        prove(claim_of(fault))
    assert fault.law in used


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (where(T <= 3, x[i], y[i]), where(T <= 4, x[i], y[i])),
        (Sum(iverson(i < 4) * x[i], i), Sum(iverson(i < 5) * x[i], i)),
        (Abs(T + s), T + s),
        (Max(s, r) * iverson(s >= 0), Max(s, r) * iverson(s > 0)),
        (iverson(x[i] > y[i]), iverson(x[i] >= y[i])),
        (where((s > 1) & (r > 1) & (p > 2), s, r), where((s > 1) & (r > 1) & (q > 2), s, r)),
    ],
    ids=["size", "position", "sign", "border", "tie", "box"],
)
def test_a_proof_out_of_thin_air_raises_the_alarm(left: Any, right: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is false at a few sizes, at a border or in a narrow piece is looked for there, whatever the proof says."""
    claim = Program("forged").claim("c", left, right, over=[i])
    monkeypatch.setattr(derive.prove, "first_proof", lambda *_args, **_options: (Ledger(), (left, right)))
    with pytest.raises(AlarmError, match="proved by the normal form and contradicted"):
        prove(claim)


def recordable_laws() -> Iterator[re.Pattern[str]]:
    """Every text that a call of `Ledger.use` in the normal form can record, what is formatted into it left open."""
    for path in sorted(NORMAL.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "use":
                (law,) = node.args
                parts = law.values if isinstance(law, ast.JoinedStr) else [law]
                texts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in parts]
                yield re.compile("".join(texts))


def test_every_law_has_a_fault() -> None:
    laws = {fault.law for fault in FAULTS}
    assert len(laws) == len(FAULTS)
    patterns = list(recordable_laws())
    assert not [pattern.pattern for pattern in patterns if not any(map(pattern.fullmatch, laws))]
    assert not [law for law in laws if not any(pattern.fullmatch(law) for pattern in patterns)]


STATEMENT = """
from gradproof import Program, Sum, delta, dims, indices, tensor

(T,) = dims("T")
i, j = indices("i j", T)
x = tensor("x", T)
program = Program("faulty")
program.claim("c", Sum(delta(i, j) * x[i], i), Sum(x[i], i), over=[j])
"""


def test_the_command_line_exits_with_70(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "faulty.py"
    path.write_text(STATEMENT, encoding="utf-8")
    fault = next(fault for fault in FAULTS if fault.law == "delta(i, i) = 1")
    inject(fault, monkeypatch)
    ran = CliRunner().invoke(main, ["prove", str(path)])
    assert ran.exit_code == AlarmError.exit_code == 70
    assert "internal alarm" in ran.output

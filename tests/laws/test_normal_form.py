"""The normal form means what the expression means, and does not depend on how the expression was written."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
import sympy
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sympy import Abs, Add, Eq, Expr, Max, Min, Mul, Ne, Rational, cos, erf, exp, log, pi, sign, sin, sqrt

from derive.binders import free_indices, fresh_index, map_children, rebuild, scope_of, substitute
from derive.errors import BudgetExceededError
from derive.functions import logsumexp, mean, softmax, variance
from derive.language import (
    Lengths,
    Product,
    Sum,
    Tensor,
    delta,
    dims,
    index,
    indices,
    iverson,
    lengths,
    scalar,
    scalars,
    tensor,
    tensors,
    where,
)
from derive.normal import terms
from derive.normal.form import is_zero, normal_form
from derive.normal.ledger import Ledger, UndefinedError, UndefinedInstanceError
from derive.normal.terms import Atom, Log, Monomial, Polynomial

LAWS = settings(max_examples=150, deadline=None, derandomize=True)
CLOSE = mp.mpf(10) ** -15


def form(expression: Any) -> Polynomial:
    return normal_form(Ledger(), sympy.sympify(expression))


def equal(left: Any, right: Any) -> bool:
    ledger = Ledger(5.0, 20_000)
    try:
        return is_zero(ledger, normal_form(ledger, sympy.sympify(left)) - normal_form(ledger, sympy.sympify(right)))
    except (BudgetExceededError, UndefinedError):
        reject()


def hypotheses(expression: Any) -> list[str]:
    ledger = Ledger()
    normal_form(ledger, expression)
    return sorted(ledger.hypotheses)


# ---------------------------------------------------------------------------------------------------------------------
# The value of a normal form, atom by atom.


class FormReader:
    """Values of normal forms in an explicit world, in which inputs are found by name."""

    def __init__(self, world: Any, inputs: Any, no_value: type[Exception]) -> None:
        self.world = world
        self.inputs = {str(symbol.name): symbol for symbol in inputs}
        self.no_value = no_value

    def polynomial(self, polynomial: Polynomial, places: dict[str, int]) -> Any:
        return mp.fsum(
            mp.mpf(c.numerator) / c.denominator * self.monomial(m, places) for m, c in polynomial.terms.items()
        )

    def monomial(self, monomial: Monomial, places: dict[str, int]) -> Any:
        if any(terms.is_idempotent(atom) and self.atom(atom, places) == 0 for atom, _ in monomial):
            return mp.mpf(0)  # a bracket comes first: what it excludes needs no value
        return mp.fprod(self.power(self.atom(atom, places), exponent) for atom, exponent in monomial)

    def power(self, base: Any, exponent: Fraction) -> Any:
        if (base == 0 and exponent < 0) or (base < 0 and exponent.denominator != 1):
            raise self.no_value
        return base ** (
            int(exponent) if exponent.denominator == 1 else mp.mpf(exponent.numerator) / exponent.denominator
        )

    def entry(self, atom: terms.Entry, places: dict[str, int]) -> Any:
        symbol = self.inputs[atom.name]
        where_ = tuple(int(self.atom(part, places)) for part in atom.where)
        if not isinstance(symbol, Tensor):
            return mp.mpf(self.world.cell(symbol))
        for axis, (place, size) in enumerate(zip(where_, symbol.shape, strict=True)):
            ragged = isinstance(size, Lengths)
            end = self.world.cell(size, where_[axis - 1 : axis]) if ragged else self.world.size(size, {})
            if not 0 <= place < end:
                raise self.no_value
        return self.world.cell(symbol, where_)

    def total(self, atom: terms.Total, places: dict[str, int]) -> Any:
        waiting = [var for var in atom.bound if var.name not in places]
        outer = next((v for v in waiting if not any(o.name in v.extent.free for o in waiting)), None)
        if outer is None:
            return self.monomial(atom.monomial, places)
        ends = int(self.polynomial(outer.extent, places))
        return mp.fsum(self.total(atom, {**places, outer.name: place}) for place in range(ends))

    def product(self, atom: terms.Prod, places: dict[str, int]) -> Any:
        ends = int(self.polynomial(atom.bound.extent, places))
        return mp.fprod(self.polynomial(atom.inside, {**places, atom.bound.name: place}) for place in range(ends))

    def atom(self, atom: Atom, places: dict[str, int]) -> Any:
        match atom:
            case terms.Var():
                return places[atom.name]
            case terms.Fixed() | terms.Prime():
                return atom.value
            case terms.Place():
                return int(self.polynomial(atom.value, places))
            case terms.Entry():
                sizes = {"T", "d", "N", "V"}
                return self.world.size(dims(atom.name)[0], {}) if atom.name in sizes else self.entry(atom, places)
            case terms.Constant():
                return +mp.pi
            case terms.NoValue():
                return mp.mpf("1234.5")  # any number will do: a bracket excludes it
            case terms.Exp():
                formal = next((inner for inner, _ in atom.monomial if isinstance(inner, Log) and inner.formal), None)
                rest = tuple(pair for pair in atom.monomial if pair[0] != formal)
                exponent = self.monomial(rest, places)
                if formal is None:
                    return mp.exp(exponent)
                return self.power(self.polynomial(formal.inside, places), Fraction(int(exponent)))  # an integer power
            case terms.Log() | terms.Base():
                inside = self.polynomial(atom.inside, places)
                if isinstance(atom, terms.Base):
                    return inside
                if inside <= 0:
                    raise self.no_value
                return mp.log(inside)
            case terms.Total():
                own = {var.name for var in atom.bound}
                return self.total(atom, {name: place for name, place in places.items() if name not in own})
            case terms.Prod():
                return self.product(atom, places)
            case terms.Delta():
                return int(self.atom(atom.left, places) == self.atom(atom.right, places))
            case terms.Bracket():
                return int(self.polynomial(atom.inside, places) > CLOSE)
            case terms.Apply():
                return getattr(mp, atom.function)(self.polynomial(atom.argument, places))
        raise TypeError(type(atom))


@LAWS
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_the_normal_form_has_the_value_of_the_expression(
    statements: Any, explicit: Any, no_value: Any, data: Any, seed: int
) -> None:
    has_its_value(data.draw(statements.expressions(3)), FormReader, statements.inputs, explicit, no_value, seed)


@LAWS
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_a_power_with_an_integer_exponent_has_its_value(
    statements: Any, explicit: Any, no_value: Any, data: Any, seed: int
) -> None:
    """Bases of any sign, brackets and zero among them; exponents that may be 0."""
    scope = data.draw(st.lists(st.sampled_from(statements.free), unique=True, max_size=2))
    T = statements.T
    exponents = [
        T,
        T + 1,
        2 * T,
        T / 2,
        T + Rational(1, 2),
        *scope,
        *(2 * i_ for i_ in scope),
        *(i_ / 2 for i_ in scope),
    ]
    base, other = (statements.any(data.draw, scope, 1) for _ in range(2))
    power = base ** data.draw(st.sampled_from(exponents))
    minus = sympy.S.NegativeOne ** data.draw(st.sampled_from([T, T + 1, *scope]))
    expression = data.draw(
        st.sampled_from((power * other, power + minus, minus * power * other, sign(power), power**2))
    )
    has_its_value(expression, FormReader, statements.inputs, explicit, no_value, seed)


def has_its_value(expression: Any, read: Any, inputs: Any, explicit: Any, no_value: Any, seed: int) -> None:
    """Compare the expression with its normal form in two worlds, at a position where it has a value."""
    ledger = Ledger(5.0, 20_000)
    try:
        polynomial = normal_form(ledger, expression)
    except (BudgetExceededError, UndefinedError, UndefinedInstanceError):
        return
    for whole in (False, True):
        world = explicit(seed, whole=whole)
        places = random.Random(seed).choice(list(world.places(sorted(free_indices(expression), key=str))))
        try:
            value = world.value(expression, places)
            found = read(world, inputs, no_value).polynomial(polynomial, {i_.name: at for i_, at in places.items()})
        except no_value:
            assert ledger.conditions  # an odd root, or a quotient: it is said
            continue
        assert abs(value - found) <= CLOSE * (1 + abs(value)), polynomial.key


# ---------------------------------------------------------------------------------------------------------------------
# Invariance.


def with_other_names(expression: Any, names: list[str]) -> Any:
    """The expression with every bound index renamed to one of the given names, or to a fresh one where those clash."""
    changed = map_children(expression, lambda part: with_other_names(part, names))
    scope = scope_of(changed)
    if scope is None:
        return changed
    renamed: dict[Any, Any] = {}
    taken = {index.name for part in scope.inside for index in free_indices(part)}
    for bound in scope.bound:
        moved = substitute(bound, renamed)
        spare = [name for name in names if name not in taken]
        new = type(bound)(spare[0], moved.extent) if spare else fresh_index(moved, taken)
        taken.add(new.name)
        renamed[bound] = new
    inside = tuple(substitute(part, renamed) for part in scope.inside)
    return rebuild(changed, tuple(renamed.values()), inside, scope.outside)


def shuffled(expression: Any, chance: random.Random) -> Any:
    """The expression with terms, factors and the order of independent sums permuted."""
    if isinstance(expression, (Add, Mul)):
        parts = [shuffled(part, chance) for part in expression.args]
        chance.shuffle(parts)
        return expression.func(*parts, evaluate=False)
    if isinstance(expression, sympy.Sum) and not any(free_indices(limit[0].extent) for limit in expression.limits):
        limits = list(expression.limits)
        chance.shuffle(limits)
        return sympy.Sum(shuffled(expression.function, chance), *limits)
    return map_children(expression, lambda part: shuffled(part, chance) if isinstance(part, Expr) else part)


@LAWS
@given(data=st.data())
def test_names_of_bound_indices_do_not_matter(statements: Any, data: Any) -> None:
    expression = data.draw(statements.expressions(2))
    names = data.draw(st.permutations(["i", "j", "k", "a", "b", "c"]))
    assert equal(expression, with_other_names(expression, names))


@LAWS
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_the_order_of_terms_factors_and_sums_does_not_matter(statements: Any, data: Any, seed: int) -> None:
    expression = data.draw(statements.expressions(2))
    assert equal(expression, shuffled(expression, random.Random(seed)))


@LAWS
@given(data=st.data())
def test_a_renamed_free_index_can_be_named_back(statements: Any, data: Any) -> None:
    # Leading terms and orders go by name: what comes out must be the same whatever the names are.
    expression = data.draw(statements.expressions(2))
    there = {old: index(f"z{place}", old.extent) for place, old in enumerate(sorted(free_indices(expression), key=str))}
    moved = substitute(expression, there)
    assert equal(expression, substitute(moved, {new: old for old, new in there.items()}))
    assert equal(expression - 1, expression * (1 - Rational(1, 2)) + expression / 2 - 1)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_symmetric_sum_does_not_depend_on_the_order_of_its_indices(count: int) -> None:
    (T,) = dims("T")
    X = tensor("X", T, T)
    over = indices(" ".join(f"i{place}" for place in range(count)), T)
    ring = Mul(*(X[over[place], over[(place + 1) % count]] for place in range(count)))
    backwards = Mul(*(X[over[place - 1], over[place]] for place in reversed(range(count))))
    assert form(Sum(ring, *over)).key == form(Sum(backwards, *reversed(over))).key


def test_the_same_text_whatever_the_hash_seed() -> None:
    program = (
        "from sympy import exp, log\n"
        "from derive.language import *\n"
        "from derive.functions import softmax, variance\n"
        "from derive.normal.form import normal_form\n"
        "from derive.normal.ledger import Ledger\n"
        "T, d = dims('T d'); i, j = indices('i j', T); a = index('a', d); X = tensor('X', T, d); s = scalar('s')\n"
        "e = Sum(softmax(Sum(X[i, a] * X[j, a], a) * s, over=j) * variance(X[j, a], over=a), j) / (1 + exp(s))\n"
        "ledger = Ledger(); print(normal_form(ledger, e).key, list(ledger.laws), list(ledger.hypotheses))\n"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


# ---------------------------------------------------------------------------------------------------------------------
# Laws one by one, and the places where a law is tempting and wrong.

T, d, V, N = dims("T d V N")
i, j, k = indices("i j k", T)
a = index("a", d)
v = index("v", V)
n, m = indices("n m", N)
L = lengths("L", N)
t, u = index("t", L[n]), index("u", L[m])
t_1 = index("t_1", L[n])
x, y = tensors("x y", T)
p, q = tensors("p q", T, positive=True)
X = tensor("X", T, T)
g = tensor("g", V)
R = tensor("R", N, L)
token = tensor("token", T, into=V)
s, r, w = scalars("s r w")
c, e = scalars("c e", positive=True)
four = index("four", 4)
h = tensor("h", 4)

TRUE: dict[str, tuple[Any, Any]] = {
    "a sum of 1 is its extent": (Sum(1, i, a), T * d),
    "a ragged sum of 1": (Sum(1, n, t), Sum(L[n], n)),
    "delta contraction": (Sum(delta(i, j) * x[j], j), x[i]),
    "delta contraction through a look-up": (Sum(delta(v, token[i]) * g[v], v), g[token[i]]),
    "two look-ups of one index": (
        Sum(delta(v, token[i]) * delta(v, token[j]) * g[v], v),
        g[token[i]] * delta(token[i], token[j]),
    ),
    "delta contraction over a ragged range": (
        Sum(delta(n, m) * delta(t, t_1) * R[n, t] * R[n, t_1], n, t, t_1),
        Sum(R[m, u] ** 2, u),
    ),
    "a ragged sum under log": (Sum(delta(n, m) * logsumexp(R[n, t], over=t), n), logsumexp(R[m, u], over=u)),
    "the first entry": (Sum(delta(i, 0) * x[i], i), x[0]),
    "an index that is forced to 0 counts 0": (i * delta(i, 0), 0),
    "an entry inside a range of known size": (Sum(delta(four, 3) * h[four], four), h[3]),
    "delta under exp": (exp(delta(i, j) * x[i]), 1 + delta(i, j) * (exp(x[j]) - 1)),
    "delta under a quotient": (1 / (1 + delta(i, j) * p[i]), 1 - delta(i, j) * p[j] / (1 + p[j])),
    "delta under log": (log(1 + delta(i, j) * p[i]), delta(i, j) * log(1 + p[j])),
    "an equality of indices is a delta": (iverson(Eq(i, j)), delta(i, j)),
    "an inequality of indices": (iverson(Ne(i, j)), 1 - delta(i, j)),
    "trichotomy of indices": (iverson(i < j) + iverson(j < i) + delta(i, j), 1),
    "brackets over the integers": (iverson(i < j), 1 - iverson(i >= j)),
    "strict and not strict over the integers": (iverson(i < j), iverson(i + 1 <= j)),
    "brackets are idempotent": (iverson(s > 0) ** 2, iverson(s > 0)),
    "a bracket excludes its opposite": (iverson(s > 0) * iverson(s < 0), 0),
    "the sign of a product": (sign(s) * Abs(s), sign(s) * Abs(s)),
    "the square of the absolute value": (Abs(s) ** 2, s**2),
    "scaling a comparison": (iverson(3 * c * s > 0), iverson(s > 0)),
    "log is increasing": (iverson(c > e), iverson(log(c) > log(e))),
    "exp of a sum": (exp(s + r), exp(s) * exp(r)),
    "exp of log": (exp(2 * log(c) + s), c**2 * exp(s)),
    "log of a product of positive numbers": (log(c * e**2), log(c) + 2 * log(e)),
    "log of a product over a range": (log(Product(p[i], i)), Sum(log(p[i]), i)),
    "a product over a range splits": (Product(p[i] * q[i], i), Product(p[i], i) * Product(q[i], i)),
    "powers of a symbolic exponent": (c**s * c**r, c ** (s + r)),
    "a power of an index": (c**i * c, c ** (i + 1)),
    "a root of a product of positive numbers": (sqrt(c * e), sqrt(c) * sqrt(e)),
    "a root of a number": (sqrt(12 * c), 2 * sqrt(3) * sqrt(c)),
    "sigmoid in two forms": (1 / (1 + exp(-s)), exp(s) / (1 + exp(s))),
    "a sum over itself": ((s + r) ** 2 / (s + r), s + r),
    "a difference of squares": ((s**2 - r**2) / (s - r), s + r),
    "partial fractions": (1 / s - 1 / (s + 1), 1 / (s * (s + 1))),
    "an odd function": (erf(s - r), -erf(r - s)),
    "an even function": (cos(s - r), cos(r - s)),
    "a decimal is what was written": (sympy.Float("0.1") * s + sympy.Float("0.2") * s, sympy.Float("0.3") * s),
    "softmax sums to one": (Sum(softmax(x[i], over=i), i), 1),
    "softmax of softmax": (Sum(softmax(softmax(X[i, j], over=j), over=i), i), 1),
    "two forms of the variance": (variance(x[i], over=i), mean(x[i] ** 2, over=i) - mean(x[i], over=i) ** 2),
    "an index as a number": (Sum(i * x[i], i) - Sum(j * x[j], j), 0),
    "where by cases": (where(s > 0, r, w), w + iverson(s > 0) * (r - w)),
    "a function of cases": (exp(where(s > 0, r, w)), where(s > 0, exp(r), exp(w))),
    "the square of a maximum": (Max(s, r) ** 2, where(s >= r, s**2, r**2)),
    "maximum and minimum": (Max(s, r) + Min(s, r), s + r),
    "the absolute value as a maximum": (Abs(s), Max(s, -s)),
    "the minimum of opposites": (Min(s, r), -Max(-s, -r)),
    "a trace is a sum over the diagonal": (Sum(X[i, i], i), Sum(X[i, j] * delta(i, j), i, j)),
    "differences in the denominator": (
        Sum(1 / (X[i, j] - X[i, k] + c), i, j, k),
        Sum(1 / (X[k, i] - X[k, j] + c), i, j, k),
    ),
}
WRONG: dict[str, tuple[Any, Any]] = {
    "root of a square": (sqrt(s**2), s),
    "root of a square that was multiplied out": (sqrt(s**2 - 2 * s * r + r**2), s - r),
    "a root is not positive": (iverson(sqrt(s) > 0), sympy.S.One),
    "a square is not positive": (iverson(s**2 > 0), sympy.S.One),
    "the squared sign": (sign(s) ** 2, sympy.S.One),
    "above or below zero": (iverson(s > 0) + iverson(s < 0), sympy.S.One),
    "a sign that is dropped": (iverson(-s > 0), iverson(s > 0)),
    "a sign that is dropped from a multiple": (iverson(-2 * s > 0), iverson(s > 0)),
    "the absolute value": (Abs(s), s),
    "strict and not strict over the reals": (iverson(s > r), iverson(s >= r)),
    "a comparison scaled by an unknown sign": (iverson(w * s > 0), iverson(s > 0)),
    "the product of negative numbers": (Product(-p[i], i), Product(p[i], i)),
    "a product of absolute values": (Product(Abs(x[i]), i), Product(x[i], i)),
    "sum over rows for sum over columns": (Sum(X[i, j] * X[i, k], i), Sum(X[j, i] * X[k, i], i)),
    "the transpose": (X[i, j], X[j, i]),
    "the trace for the sum": (Sum(X[i, i], i), Sum(X[i, j], i, j)),
    "an entry that may not be there": (Sum(delta(i, 1), i), sympy.S.One),
    "an entry past the end": (Sum(delta(four, 4), four), sympy.S.One),
    "an index of another range": (Sum(iverson(Eq(i, v)), i), sympy.S.One),
    "indices of other lengths": (Sum(iverson(Eq(t, u)), t), sympy.S.One),
    "log of a sum": (logsumexp(x[i], over=i), Sum(x[i], i)),
    "sums of logs of sums": (
        Sum(logsumexp(R[n, t], over=t), n),
        log(Sum(exp(R[n, t]), n, t)),
    ),
    "softmax over the other index": (Sum(softmax(X[i, j], over=j), i), sympy.S.One),
    "a constant named pi": (scalar("pi"), pi),
    "sine is odd": (sin(s - r), sin(r - s)),
    "an exponent that is dropped": (c ** (s * r), c**s * c**r),
    "a sum of squares": (Sum(x[i] ** 2, i), Sum(x[i], i) ** 2),
    "the mean of a product": (mean(x[i] * y[i], over=i), mean(x[i], over=i) * mean(y[i], over=i)),
}


@pytest.mark.parametrize("name", TRUE)
def test_laws(name: str) -> None:
    assert equal(*TRUE[name])


@pytest.mark.parametrize("name", WRONG)
def test_no_such_law(name: str) -> None:
    assert not equal(*WRONG[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_law_differs_somewhere(explicit: Any, no_value: Any, name: str) -> None:
    # The table above is only worth something if each of its rows is false.
    def differs(world: Any) -> bool:
        left, right = WRONG[name]
        for places in world.places(sorted(free_indices(left) | free_indices(right), key=str)):
            try:
                if abs(world.value(left, places) - world.value(right, places)) > CLOSE:
                    return True
            except no_value:
                continue
        return False

    assert any(differs(explicit(seed, whole=bool(seed % 2))) for seed in range(100))


# ---------------------------------------------------------------------------------------------------------------------
# Hypotheses, and work past the budget.


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (1 / s, ["s != 0"]),
        (1 / (s - r), ["-r + s != 0"]),
        (log(s), ["s > 0"]),
        (sqrt(s + r), ["r + s >= 0"]),
        (1 / sqrt(s + r), ["r + s > 0"]),
        (sqrt(s), ["s >= 0"]),
        (sqrt(T - 1), []),
        (s**T, []),
        (s ** (T - 1), ["s != 0"]),
        (where(s > 0, log(s), s), []),
        (where(s > 0, 1 / r, 0), ["r != 0 where s > 0"]),
        (Sum(where(x[i] > 0, 1 / x[i], 1 / s), i), ["s != 0 where x[~000001] <= 0"]),
        (log(where(s > 0, s, r)), ["r > 0 where s <= 0"]),
        (log(c), ["c > 0"]),
        (1 / T, ["T >= 1"]),
        (softmax(x[i], over=i), ["T >= 1"]),
        (s**r, ["s > 0"]),
        (Max(c, 0), []),
        (iverson(c * s > 0), ["c > 0"]),
        (Sum(delta(i, 0) * x[i], i), ["T >= 1"]),
        (1 / x[i], ["x[i] != 0"]),
        (exp(s) * s**2, []),
    ],
    ids=str,
)
def test_hypotheses_are_written_down(expression: Any, expected: list[str]) -> None:
    found = hypotheses(expression)
    assert len(found) == len(expected)
    for hypothesis, words in zip(found, expected, strict=True):
        # Terms of a sum may be written in either order.
        assert sorted(hypothesis.replace("+ ", "").split()) == sorted(words.replace("+ ", "").split())


def test_hypotheses_do_not_come_from_looking_at_a_sum() -> None:
    # To name its indices, the sum is looked at with j and k taken for one; nothing of that is part of the proof.
    looked = hypotheses(Sum(1 / (X[i, j] * s + X[i, k] * r), i, j, k))
    assert len(looked) == 1
    assert "@" not in looked[0]
    assert "?" not in looked[0]


def test_differences_that_vanish_when_indices_are_one_have_a_normal_form() -> None:
    assert equal(Sum(1 / (X[i, j] - X[i, k]), i, j, k), Sum(1 / (X[k, i] - X[k, j]), i, j, k))


@pytest.mark.parametrize(
    "expression",
    [
        (s + r + w + 1) ** 200,
        Mul(*(Sum(X[i, j] * x[i] * x[j] + y[i], i, j) + x[place] for place in range(12))),
        sqrt(sympy.Integer(10**18 + 9) * (10**18 + 3) * c) * Sum(x[i], i) ** 400 * (1 + s) ** 400,
    ],
    ids=["power", "product", "large primes"],
)
def test_a_hostile_expression_ends_in_time(expression: Any) -> None:
    with pytest.raises(BudgetExceededError):
        normal_form(Ledger(1.0, 20_000), expression)


def test_division_by_a_zero_that_only_shows_when_it_is_read() -> None:
    nothing = Sum(x[i], i) - Sum(x[j], j)
    with pytest.raises(UndefinedError):
        form(1 / nothing)
    with pytest.raises(UndefinedError):
        form(log(nothing))
    with pytest.raises(UndefinedError):
        form(1 / (1 - Sum(softmax(x[i], over=i), i)))

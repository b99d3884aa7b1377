"""Kernels of random statements agree with the statements: programs that nobody would write.

What people write in cases is what they thought of. These meet passes in orders that nobody did: shares of exponentials
under conditions that name other places, selections inside sums, look-ups as indices, a part under a name. A statement
is settled by its number alone. All its values are of order 1, and its conditions may hold nowhere. A few are checked
each time; to look for faults, check others, a thousand from number 5000 on for instance:

    python -m pytest tests/laws/test_random_statements.py --random-statements 5000:6000
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import sympy
from sympy import Add, And, Expr, Mul, Ne, Rational, exp, log, tanh

from codegen.algebra.forms import Forms
from codegen.algebra.parts import with_parts_named
from codegen.checking.checks import check_kernels
from codegen.generate import render_all, write
from derive.binders import free_indices
from derive.gradient import depends_on, inline
from derive.language import Dim, Index, Scalar, Tensor
from gradproof import (
    Program,
    Sum,
    dims,
    gelu,
    index,
    indices,
    iverson,
    leading_index,
    logsumexp,
    relu,
    scalar,
    sigmoid,
    softmax,
    softplus,
    sqrt,
    tensor,
    where,
)

N, T, S, D = dims("N T S D")
n = leading_index("n", N)
NAMES = {T: indices("i i2 i3 i4", T), S: indices("j j2 j3", S), D: indices("a a2 a3", D)}
LAST = NAMES[T][3]
FLOATS = (
    tensor("x", N, T),
    tensor("y", T),
    tensor("z", N, T, D),
    tensor("Z", N, T, T),
    tensor("R", T, S),
    tensor("Q", N, T, D),
    tensor("K", N, S, D),
    tensor("w", S, positive=True),
    tensor("g", D),
)
x, y, *_ = FLOATS
NUMBERS = scalar("s"), scalar("e", positive=True)
DEFAULTS = dict(zip(NUMBERS, (0.3, 0.7), strict=True))
LOOK_UPS = tensor("tok", N, T, into=T), tensor("seg", T, into=S)
RESULTS = ((), (n,), (n, NAMES[T][0]), (n, NAMES[T][0]), (n, *NAMES[T][:2]))
CURVES: tuple[Callable[[Expr], Expr], ...] = (
    tanh,
    sigmoid,
    softplus,
    relu,
    gelu,
    lambda u: u**2,
    lambda u: exp(-(u**2)),
    lambda u: log(1 + u**2),
    lambda u: sqrt(1 + u**2),
)


TARGETS = ("numpy", "torch")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "number" in metafunc.fixturenames:
        first, last = map(int, metafunc.config.getoption("--random-statements").split(":"))
        metafunc.parametrize("number", range(first, last))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_kernels_of_a_random_statement_agree_with_it(number: int, tmp_path: Path) -> None:
    program = statement(number)
    write(render_all([program], TARGETS), tmp_path, TARGETS)
    for target in TARGETS:
        wrong = [result for result in check_kernels([program], target=target, folder=tmp_path) if not result.ok]
        assert not wrong, (str(program), wrong)


def test_parts_of_a_random_statement_written_out_again_are_the_statement(number: int) -> None:
    program, forms = statement(number), Forms()
    named = with_parts_named(program)
    stated = frozenset(definition.symbol for definition in program.definitions)
    found = {definition.symbol: definition for definition in named.definitions}
    for definition in program.definitions:
        written = inline(found[definition.symbol].body, named, stated)
        assert forms.of(written).number == forms.of(definition.body).number, (definition, written)


# ---------------------------------------------------------------------------------------------------------------------
# Who writes them.


def statement(number: int) -> Program:
    """The program of this number, with the gradients of every float that it names."""
    return Author(random.Random(number)).program(f"random_{number}")


Scope = tuple[Index, ...]
"""The indices that stand for something where an expression is, the leading one not among them."""


@dataclass(frozen=True)
class Author:
    """Who draws what is written."""

    draws: random.Random

    def program(self, name: str) -> Program:
        """A program of one result, a part of it perhaps under a name of its own."""
        over = self.draws.choice(RESULTS)
        scope = tuple(index for index in over if index != n)
        body = self.expression(scope, self.draws.choice((1, 2, 2, 3)))
        body = self.with_every_index(body, over)
        operands = body.args if isinstance(body, (Add, Mul)) else ()
        parts = [part for part in operands if free_indices(part) and free_indices(part) <= set(over)]
        named = self.draws.choice(parts) if parts and self.draws.random() < 0.5 else None
        program = Program(name, "a random statement", inputs_of(body))
        if named is not None:
            places = [index for index in over if index in free_indices(named)]
            part = program.define("u", places, named)
            body = body.xreplace({named: part[tuple(places)]})
        result = program.define("o", list(over), body)
        behind = depends_on(program, result)
        known = [symbol for symbol in (*FLOATS, *NUMBERS) if symbol in behind]
        reached = program.gradient(result, known).adjoints
        varied = [symbol for symbol in known if str(symbol.name) in reached]
        program.kernel(result, wrt=varied, defaults={s: DEFAULTS[s] for s in varied if s in DEFAULTS})
        return program

    def with_every_index(self, body: Expr, over: Sequence[Index]) -> Expr:
        """The body, changed so that it has the indices of the result, and no other."""
        body = body or sympy.S.One  # what cancels is no statement
        if n in free_indices(body) and n not in over:
            body = Sum(body, n)
        for place in over:
            if place not in free_indices(body):
                body = body * (1 + Sum(x[n, LAST] ** 2, LAST) if place == n else x[n, place])
        return body if body.has(sympy.Indexed) else body * Sum(y[LAST], LAST)

    def expression(self, scope: Scope, depth: int) -> Expr:
        """Any expression over some of the scope, with up to so many operations one inside another."""
        return self.entry(scope) if depth == 0 else self.draws.choice(PRODUCTIONS)(self, scope, depth - 1)

    def entry(self, scope: Scope, holding: Index | None = None) -> Expr:
        """An entry of an input, or a number; with `holding`, an entry that has this index."""
        choices: list[Expr] = [] if holding else [*NUMBERS, Rational(self.draws.choice((1, 2, -1)), 3)]
        for symbol in FLOATS:
            own = [extent for extent in symbol.shape if extent != N]
            places = [self.place(extent, scope, holding) for extent in own]
            if all(place is not None for place in places) and (holding is None or holding in places):
                choices.append(symbol[tuple([n, *places] if symbol.shape[0] == N else places)])
        vectors = [symbol[holding] for symbol in FLOATS if holding is not None and symbol.shape == (holding.extent,)]
        return self.draws.choice(choices or vectors)

    def place(self, extent: Dim, scope: Scope, holding: Index | None) -> Expr | None:
        """What may stand in an axis: an index of its extent, sometimes a look-up; None where there is nothing."""
        if holding is not None and holding.extent == extent and self.draws.random() < 0.7:
            return holding
        found: list[Expr] = [index for index in scope if index.extent == extent]
        rows = [index for index in scope if index.extent == T]
        if rows and extent != D and self.draws.random() < 0.15:
            tok, seg = LOOK_UPS
            row = self.draws.choice(rows)
            return tok[n, row] if extent == T else seg[row]
        return self.draws.choice(found) if found else None

    def condition(self, scope: Scope, holding: Index | None = None) -> sympy.Basic:
        """A condition on numbers or places; with `holding`, one that names this index."""
        tok, seg = LOOK_UPS
        rows = [index for index in scope if index.extent == T]
        columns = [index for index in scope if index.extent == S]
        choices: list[sympy.Basic] = [NUMBERS[0] > 0]
        for row in rows:
            choices += [x[n, row] > 0, seg[row] > 0, tok[n, row] <= row]
            choices += [c for other in rows if other != row for c in (row <= other, Ne(row, other), x[n, row] > other)]
            choices += [c for column in columns for c in (column <= row, Ne(seg[row], column))]
        choices = [c for c in choices if holding is None or holding in free_indices(c)] or [sympy.true]
        found = self.draws.choice(choices)
        return And(found, self.draws.choice(choices)) if self.draws.random() < 0.2 else found

    def range_within(self, scope: Scope) -> Index:
        """An index that is not in use."""
        extent = self.draws.choice((T, T, S, D))
        return next((index for index in NAMES[extent] if index not in scope), index("b", D))


def _sum_of_two(author: Author, scope: Scope, depth: int) -> Expr:
    return author.expression(scope, depth) + author.expression(scope, depth)


def _product(author: Author, scope: Scope, depth: int) -> Expr:
    return author.expression(scope, depth) * author.expression(scope, depth)


def _quotient(author: Author, scope: Scope, depth: int) -> Expr:
    return author.expression(scope, depth) / (1 + author.expression(scope, depth) ** 2)


def _curve(author: Author, scope: Scope, depth: int) -> Expr:
    return author.draws.choice(CURVES)(author.expression(scope, depth))


def _choice(author: Author, scope: Scope, depth: int) -> Expr:
    return where(author.condition(scope), author.expression(scope, depth), author.expression(scope, depth))


def _sum(author: Author, scope: Scope, depth: int) -> Expr:
    over, body = _summand(author, scope, depth)
    held = author.condition((*scope, over), over) if author.draws.random() < 0.5 else sympy.true
    return Sum(body if held == sympy.true else iverson(held) * body, over)


def _mean(author: Author, scope: Scope, depth: int) -> Expr:
    over, body = _summand(author, scope, depth)
    return Sum(body, over) / (1 + over.extent)


def _logarithm(author: Author, scope: Scope, depth: int) -> Expr:
    over, body = _summand(author, scope, depth)
    held = author.condition((*scope, over), over)
    total = 1 + Sum(iverson(held) * exp(tanh(body)), over)
    return logsumexp(tanh(body), over=over) if held == sympy.true else log(total)


def _weighted_mean(author: Author, scope: Scope, depth: int) -> Expr:
    over, body = _summand(author, scope, depth)
    held = author.condition((*scope, over), over) if author.draws.random() < 0.5 else sympy.true
    return Sum(softmax(tanh(body), over=over, where=held) * author.entry((*scope, over), over), over)


def _share(author: Author, scope: Scope, depth: int) -> Expr:
    """An exponential at one place over those of all places that a condition keeps, and 1."""
    over, body = _summand(author, scope, depth)
    held = author.condition((*scope, over), over)
    places = [index for index in scope if index.extent == over.extent]
    total = 1 + Sum(iverson(held) * exp(tanh(body)), over)
    above = Sum(exp(tanh(body)) * author.entry((*scope, over), over), over)
    if places and author.draws.random() < 0.7:
        above = exp(tanh(body)).xreplace({over: author.draws.choice(places)})
    return above / total


def _summand(author: Author, scope: Scope, depth: int) -> tuple[Index, Expr]:
    """An index that is not in use, and an expression that has it."""
    over = author.range_within(scope)
    body = author.expression((*scope, over), depth)
    return over, body if over in free_indices(body) else body * author.entry((*scope, over), over)


Production = Callable[[Author, Scope, int], Expr]
PRODUCTIONS: tuple[Production, ...] = (
    _sum_of_two,
    _product,
    _product,
    _quotient,
    _curve,
    _choice,
    _sum,
    _sum,
    _mean,
    _logarithm,
    _weighted_mean,
    _share,
    _share,
    lambda author, scope, _depth: author.entry(scope),
)


def inputs_of(body: Expr) -> list[Tensor | Scalar]:
    """The inputs that an expression names, in a fixed order."""
    found = {part.base if isinstance(part, sympy.Indexed) else part for part in sympy.preorder_traversal(body)}
    known = {extent for symbol in found if isinstance(symbol, Tensor) for extent in symbol.shape}
    # A size that is no axis of an input is one that nobody tells the kernel.
    sizes = {*body.atoms(Dim), *(place.extent for place in body.atoms(Index))}
    found.update(symbol for symbol in FLOATS if len(symbol.shape) == 1 and symbol.shape[0] in sizes - known)
    return [symbol for symbol in (*FLOATS, *LOOK_UPS, *NUMBERS) if symbol in found]

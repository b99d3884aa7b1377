"""What the law tests share: a brute-force reading of expressions at explicit sizes, and random expressions.

`Explicit` is the naive model that the symbolic side is held against. It sums by looping, knows softmax as a quotient of
two loops, and shares no code with the prover, the substitution or the differentiation. Inputs are random numbers of
forty digits, drawn when an entry is first read, so that agreement is no accident of rounding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mpmath as mp
import pytest
import sympy
from hypothesis import strategies as st
from sympy import Abs, Eq, Expr, Ge, Gt, Indexed, Le, Lt, Max, Min, Ne, Rational, erf, exp, log, sign, sin, sqrt, tanh
from sympy.core.relational import Relational

from derive.binders import free_indices, substitute
from derive.functions import Defined, log_softmax, logsumexp, mean, softmax, variance
from derive.language import (
    Dim,
    Flag,
    Index,
    Lengths,
    Product,
    Scalar,
    Sum,
    Tensor,
    Where,
    delta,
    dims,
    flag,
    index,
    indices,
    iverson,
    lengths,
    scalars,
    tensor,
    tensors,
    where,
)

mp.mp.dps = 40
Places = dict[Index, int]


class NoValueError(Exception):
    """The expression has no value here: 0 in a denominator, the log of a negative number, an entry past the end."""


class Explicit:
    """One choice of sizes and inputs, at which expressions have values."""

    def __init__(self, seed: int, *, low: int = 1, high: int = 3, program: Any = None, whole: bool = False) -> None:
        self.random = random.Random(seed)
        self.low, self.high = low, high
        self.program = program
        self.whole = whole  # draw small integers often, so that ties and zeros occur
        self.sizes: dict[str, int] = {}
        self.cells: dict[tuple[str, tuple[int, ...]], Any] = {}

    def places(self, over: Sequence[Index], within: Places | None = None) -> Iterator[Places]:
        """All positions of the given indices, ranges that depend on others after those."""
        start = dict(within or {})
        waiting = [index for index in over if index not in start]
        outer = next((i for i in waiting if not free_indices(i.extent) & set(waiting)), None)
        if outer is None:
            yield start
            return
        for place in range(self.size(outer.extent, start)):
            yield from self.places(waiting, {**start, outer: place})

    def size(self, extent: Expr, places: Places) -> int:
        if isinstance(extent, Dim):
            return self.sizes.setdefault(extent.name, self.random.randint(self.low, self.high))
        return int(self.value(extent, places))

    def value(self, expression: Any, places: Places | None = None) -> Any:
        """The value, read off the definition of each operation."""
        return self._read(expression, places or {})

    # -- entries -----------------------------------------------------------------------------------------------------

    def cell(self, symbol: Any, where_: tuple[int, ...] = ()) -> Any:
        """An entry of an input, or of a definition of the program."""
        key = str(symbol.name), where_
        if key not in self.cells:
            known = self.program.definition(key[0]) if self.program is not None else None
            if known is not None and known.symbol == symbol:
                self.cells[key] = self._read(known.body, dict(zip(known.indices, where_, strict=True)))
            else:
                self.cells[key] = self._drawn(symbol)
        return self.cells[key]

    def _drawn(self, symbol: Any) -> Any:
        if isinstance(symbol, Flag):
            return self.random.random() < 0.5
        if isinstance(symbol, Lengths):
            return self.random.randint(1, 3)
        if isinstance(symbol, Tensor) and symbol.into is not None:
            return self.random.randrange(self.size(symbol.into, {}))
        if symbol.positive if isinstance(symbol, Tensor) else symbol.is_positive:
            return mp.mpf(self.random.uniform(0.2, 2))
        if self.whole and self.random.random() < 0.5:
            return mp.mpf(self.random.randint(-1, 2))
        return mp.mpf(self.random.uniform(-2, 2))

    def _entry(self, node: Indexed, places: Places) -> Any:
        at = tuple(int(self._read(part, places)) for part in node.indices)
        for axis, (place, size) in enumerate(zip(at, node.base.shape, strict=True)):
            ragged = isinstance(size, Lengths)
            end = self.cell(size, at[axis - len(size.shape) : axis]) if ragged else self.size(size, places)
            if not 0 <= place < end:
                raise NoValueError
        return self.cell(node.base, at)

    # -- operations --------------------------------------------------------------------------------------------------

    def _read(self, node: Any, places: Places) -> Any:
        for kind, reader in READERS:
            if isinstance(node, kind):
                return reader(self, node, places)
        raise TypeError(type(node))

    def _power(self, node: Any, places: Places) -> Any:
        base, exponent = (self._read(part, places) for part in node.args)
        whole = exponent == int(exponent)
        if (base == 0 and exponent < 0) or (base < 0 and not whole):
            raise NoValueError
        return base ** (int(exponent) if whole else exponent)

    def _loop(self, node: Any, places: Places) -> Any:
        bound = [limit[0] for limit in reversed(node.limits)]
        outside = {index: place for index, place in places.items() if index not in bound}
        values = [self._read(node.function, inner) for inner in self.places(bound, outside)]
        return mp.fsum(values) if isinstance(node, sympy.Sum) else mp.fprod(values)

    def _defined(self, node: Any, places: Places) -> Any:
        _, body, bound, place, condition = node.args
        at = int(self._read(place, places)) if node.positional else -1
        counted = [
            spot for spot in range(self.size(bound.extent, places)) if self._read(condition, {**places, bound: spot})
        ]
        if not counted:
            raise NoValueError
        values = {spot: self._read(body, {**places, bound: spot}) for spot in {*counted, at} - {-1}}
        if node.name in {"mean", "variance"}:
            middle = mp.fsum(values[spot] for spot in counted) / len(counted)
            spread = mp.fsum((values[spot] - middle) ** 2 for spot in counted) / len(counted)
            return middle if node.name == "mean" else spread
        normaliser = mp.fsum(mp.exp(values[spot]) for spot in counted)
        if node.name == "softmax":
            return mp.exp(values[at]) / normaliser if at in counted else mp.mpf(0)
        return values[at] - mp.log(normaliser) if node.name == "log_softmax" else mp.log(normaliser)

    def _function(self, node: Any, places: Places) -> Any:
        argument = self._read(node.args[0], places)
        if isinstance(node, sympy.log) and argument <= 0:
            raise NoValueError
        return getattr(mp, type(node).__name__)(argument)


RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": lambda a, b: a > b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip
READERS: tuple[tuple[Any, Callable[[Explicit, Any, Places], Any]], ...] = (
    (Index, lambda world, node, places: places[node]),
    (Dim, lambda world, node, places: mp.mpf(world.size(node, places))),
    ((Scalar, Flag), lambda world, node, places: world.cell(node)),
    (Indexed, Explicit._entry),
    (sympy.Rational, lambda world, node, places: mp.mpf(int(node.p)) / int(node.q)),
    (sympy.Float, lambda world, node, places: mp.mpf(str(node))),
    (type(sympy.pi), lambda world, node, places: +mp.pi),
    (type(sympy.E), lambda world, node, places: +mp.e),
    (sympy.logic.boolalg.BooleanAtom, lambda world, node, places: node == sympy.true),
    (sympy.Add, lambda world, node, places: mp.fsum(world._read(part, places) for part in node.args)),
    (sympy.Mul, lambda world, node, places: mp.fprod(world._read(part, places) for part in node.args)),
    (sympy.Pow, Explicit._power),
    ((sympy.Sum, sympy.Product), Explicit._loop),
    (
        sympy.KroneckerDelta,
        lambda world, node, places: mp.mpf(world._read(node.args[0], places) == world._read(node.args[1], places)),
    ),
    (Where, lambda world, node, places: world._read(node.args[1 if world._read(node.args[0], places) else 2], places)),
    (Defined, Explicit._defined),
    (Max, lambda world, node, places: max(world._read(part, places) for part in node.args)),
    (Min, lambda world, node, places: min(world._read(part, places) for part in node.args)),
    (Abs, lambda world, node, places: abs(world._read(node.args[0], places))),
    (sympy.And, lambda world, node, places: all(world._read(part, places) for part in node.args)),
    (sympy.Or, lambda world, node, places: any(world._read(part, places) for part in node.args)),
    (sympy.Not, lambda world, node, places: not world._read(node.args[0], places)),
    (
        Relational,
        lambda world, node, places: RELATIONS[node.rel_op](*(world._read(part, places) for part in node.args)),
    ),
    (sympy.Function, Explicit._function),
)


# ---------------------------------------------------------------------------------------------------------------------
# Random expressions. Names of bound indices are drawn from a short list, so that they clash wherever they may.


class Statements:
    """A fixed set of inputs, and strategies for well-formed expressions over them."""

    T, d, N, V = dims("T d N V")
    L = lengths("L", N)
    x, y = tensors("x y", T)
    p = tensor("p", T, positive=True)
    X = tensor("X", T, T)
    W = tensor("W", T, d)
    E = tensor("E", V, d)
    R = tensor("R", N, L)
    z = tensor("z", N)
    token = tensor("token", T, into=V)
    turn = tensor("turn", T, into=T)
    A, B = scalars("A B")
    P = scalars("P", positive=True)[0]
    F = flag("F")
    free = (*indices("i0 j0", T), index("a0", d), index("n0", N), index("v0", V))
    inputs = (L, x, y, p, X, W, E, R, z, token, turn, A, B, P, F)

    def place(self, draw: Any, scope: Sequence[Index], extent: Expr) -> Any:
        """An index expression over the given extent, from the indices in scope."""
        choices: list[Any] = [index for index in scope if index.extent == extent]
        rows = [index for index in scope if index.extent == self.T]
        choices += [self.turn[index] for index in rows] if extent == self.T else []
        choices += [self.token[index] for index in rows] if extent == self.V else []
        return draw(st.sampled_from(choices)) if choices else sympy.S.Zero

    def leaf(self, draw: Any, scope: Sequence[Index]) -> Any:
        def at(*extents: Expr) -> tuple[Any, ...]:
            return tuple(self.place(draw, scope, extent) for extent in extents)

        ragged = [index for index in scope if isinstance(index.extent, Indexed)]
        makers: list[Callable[[], Any]] = [
            lambda: self.x[at(self.T)], lambda: self.y[at(self.T)], lambda: self.p[at(self.T)],
            lambda: self.X[at(self.T, self.T)], lambda: self.W[at(self.T, self.d)], lambda: self.E[at(self.V, self.d)],
            lambda: self.z[at(self.N)], lambda: draw(st.sampled_from((self.A, self.B, self.P, self.T, self.d))),
            lambda: Rational(draw(st.integers(-3, 3)), draw(st.integers(1, 3))),
            lambda: delta(*at(self.T, self.T)), lambda: delta(*at(self.V, self.V)),
            lambda: iverson(self.condition(draw, scope)),
        ]  # fmt: skip
        if scope:
            makers.append(lambda: draw(st.sampled_from(list(scope))))
        if ragged:
            inner = draw(st.sampled_from(ragged))
            makers += [lambda: self.R[inner.extent.indices[0], inner]] * 4
        return draw(st.sampled_from(makers))()

    def condition(self, draw: Any, scope: Sequence[Index]) -> Any:
        rows = [index for index in scope if index.extent == self.T]
        if len(rows) > 1 and draw(st.booleans()):
            relation = draw(st.sampled_from((Le, Lt, Ge, Gt, Eq, Ne)))
            return relation(*draw(st.permutations(rows))[:2])
        if draw(st.integers(0, 4)) == 0:
            return draw(st.sampled_from((self.F, sympy.Not(self.F))))
        return draw(st.sampled_from((Le, Lt, Ge, Gt)))(self.x[self.place(draw, scope, self.T)], self.A)

    def binder(self, draw: Any, scope: Sequence[Index]) -> Index:
        outer = [index for index in scope if index.extent == self.N]
        extents = [self.T, self.T, self.d, self.N, self.V, *(self.L[index] for index in outer)]
        names = [name for name in ("i", "j", "k", "a") if all(name != index.name for index in scope)]
        return index(draw(st.sampled_from(names)) if names else f"m{len(scope)}", draw(st.sampled_from(extents)))

    def positive(self, draw: Any, scope: Sequence[Index], depth: int) -> Any:
        """An expression that is positive for all inputs."""
        if depth <= 0:
            return draw(st.sampled_from((self.P, self.p[self.place(draw, scope, self.T)], 1 + self.P)))
        inner = self.binder(draw, scope)
        makers: list[Callable[[], Any]] = [
            lambda: self.any(draw, scope, depth - 1) ** 2 + self.P,
            lambda: exp(self.any(draw, scope, depth - 1) / 3),
            lambda: 1 + self.P * iverson(self.condition(draw, scope)),
            lambda: self.positive(draw, scope, depth - 1) * self.positive(draw, scope, depth - 1),
            lambda: self.positive(draw, scope, depth - 1) + self.positive(draw, scope, depth - 1),
            lambda: Sum(self.positive(draw, [*scope, inner], depth - 1), inner),
        ]
        return draw(st.sampled_from(makers))()

    def any(self, draw: Any, scope: Sequence[Index], depth: int) -> Any:
        """An expression that has a value for all inputs."""
        if depth <= 0:
            return self.leaf(draw, scope)
        inner = self.binder(draw, scope)
        same = [index for index in scope if index.extent == inner.extent]

        def some(*, under: bool = False) -> Any:
            return self.any(draw, [*scope, inner] if under else scope, depth - 1)

        def read(function: Any) -> Any:
            node = function(some(under=True), over=inner)
            return substitute(node, {inner: draw(st.sampled_from(same))}) if same else Sum(node, inner)

        makers: list[Callable[[], Any]] = [
            lambda: some() + some(), lambda: some() * some(), lambda: some() * some() - some(),
            lambda: Sum(some(under=True), inner), lambda: Sum(some(under=True) * some(under=True), inner) * some(),
            lambda: some() ** draw(st.sampled_from((2, 3))), lambda: some() / self.positive(draw, scope, depth - 1),
            lambda: exp(some() / 3), lambda: log(self.positive(draw, scope, depth - 1)),
            lambda: self.positive(draw, scope, depth - 1) ** Rational(draw(st.integers(-3, 3)), 2),
            lambda: sqrt(some() ** 2 + self.P), lambda: where(self.condition(draw, scope), some(), some()),
            lambda: draw(st.sampled_from((Max, Min)))(some(), some()),
            lambda: draw(st.sampled_from((tanh, erf, sin, sign)))(some() / 2),
            lambda: read(draw(st.sampled_from((softmax, log_softmax)))),
            lambda: draw(st.sampled_from((mean, variance, logsumexp)))(some(under=True), over=inner),
            lambda: Product(self.positive(draw, [*scope, inner], depth - 1), inner),
            lambda: Product(self.any(draw, [*scope, inner], 0), inner),
        ]  # fmt: skip
        return draw(st.sampled_from(makers))()

    def expressions(self, depth: int = 2) -> st.SearchStrategy[Any]:
        """Well-formed real expressions over some of the free indices."""

        @st.composite
        def drawn(draw: Any) -> Any:
            return self.any(draw, draw(st.lists(st.sampled_from(self.free), unique=True, max_size=4)), depth)

        return drawn()


@pytest.fixture(scope="session")
def statements() -> Statements:
    """Inputs and strategies."""
    return Statements()


@pytest.fixture(scope="session")
def explicit() -> type[Explicit]:
    """The naive model."""
    return Explicit


@pytest.fixture(scope="session")
def no_value() -> type[NoValueError]:
    """What the naive model raises where an expression has no value."""
    return NoValueError

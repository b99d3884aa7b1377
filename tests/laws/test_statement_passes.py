"""The statements of a kernel compute what its definitions were lowered to: every pass on statements keeps values.

After the algebraic passes, which the prover decides (`test_rewrites`), statements are shared, put off, divided and
rearranged. Here both ends are evaluated entry by entry with 30 digits, by an interpreter that shares no code with the
printers: the statements as they were lowered, and those of every schedule of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from codegen.algebra.trace import asked_of
from codegen.checking.sampling import cases_of, draw
from codegen.ir.nodes import (
    Axes,
    Contract,
    Gather,
    Identity,
    Literal,
    Map,
    Node,
    Option,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    Size,
)
from codegen.ir.sharing import Statement
from codegen.planning import schedule
from derive.language import Index
from derive.library import load
from derive.program import Program

PROGRAMS = {program.name: program for program in load() if program.request is not None}
DIGITS = 30
CLOSE = mpmath.mpf(10) ** -20
MOST = 60  # entries of all arrays of a case: every entry is a number of its own here

Places = Mapping[Index, int]
Reading = Callable[[Places], Any]
CONSTANTS = {"inf": mpmath.inf, "pi": mpmath.pi, "E": mpmath.e}


def at(x: Any, terms: Sequence[Any]) -> Any:
    """A polynomial by its coefficients."""
    return mpmath.fsum(term * x**power for power, term in enumerate(terms))


OPERATIONS: dict[str, Any] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "neg": lambda x: -x, "power": lambda x, y: x**y, "square": lambda x: x * x,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "or": lambda x, y: x or y, "and": lambda x, y: x and y, "not": lambda x: not x,
    "finite": lambda x: max(x, -mpmath.mpf(10) ** 30), "at_least_one": lambda x: max(x, 1), "sign": mpmath.sign,
    "expm1": mpmath.expm1, "log1p": mpmath.log1p,
    "maximum": max, "minimum": min, "at_least": max, "at_most": min,
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)), "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "logistic_slope": lambda x: 1 / (2 * mpmath.cosh(x / 2)) ** 2,
    "scaled_logistic": lambda y, x: y / (1 + mpmath.exp(-x)),
    "normal_cdf": mpmath.ncdf, "scaled_normal_cdf": lambda x, y: x * y, "atan": mpmath.atan,
    "exp_at": lambda x, *terms: mpmath.exp(at(x, terms)), "exp_difference": lambda x, y: mpmath.exp(x - y),
    "logistic_at": lambda x, *terms: 1 / (1 + mpmath.exp(-at(x, terms))),
    "logistic_slope_at": lambda x, *terms: 1 / (2 * mpmath.cosh(at(x, terms) / 2)) ** 2,
    "scaled_logistic_at": lambda y, x, *terms: y / (1 + mpmath.exp(-at(x, terms))),
    **{name: getattr(mpmath, name)
       for name in ("sqrt", "exp", "log", "tanh", "sinh", "cosh", "sin", "cos", "erf", "erfc")},
}  # fmt: skip
LOOPS = (Reduce, Contract, Scatter)
FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "max": lambda values: max(values, default=-mpmath.inf),
    "sum": mpmath.fsum, "wide sum": mpmath.fsum, "prod": mpmath.fprod,
}  # fmt: skip


class Values:
    """The entries of named arrays, those that are given and those that statements define, each computed once."""

    def __init__(self, given: Mapping[str, Any], sizes: Mapping[str, int], statements: Sequence[Statement]) -> None:
        self.given = given
        self.sizes = sizes
        self.defined = {statement.name: statement for statement in statements}
        self.known: dict[tuple[str, tuple[int, ...]], Any] = {}
        self.lengths: dict[Any, int] = {}
        self.readings: dict[int, Reading] = {}  # by the node's id: nodes stay as long as statements do

    def entry(self, name: str, place: tuple[int, ...]) -> Any:
        if (name, place) not in self.known:
            self.known[name, place] = self.found(name, place)
        return self.known[name, place]

    def found(self, name: str, place: tuple[int, ...]) -> Any:
        if name in self.given:
            value = self.given[name][place] if place else self.given[name]
            return int(value) if np.asarray(value).dtype.kind in "iub" else mpmath.mpf(float(value))
        statement = self.defined[name]
        return self.reading(statement.node)(dict(zip(statement.axes, place, strict=True)))

    def array(self, name: str) -> dict[tuple[int, ...], Any]:
        return {place: self.entry(name, place) for place in product(*map(self.range, self.defined[name].axes))}

    def range(self, index: Index) -> range:
        return range(self.size(index.extent))

    def size(self, extent: Any) -> int:
        if extent not in self.lengths:
            self.lengths[extent] = self.sizes[str(extent)] if str(extent) in self.sizes else int(extent)
        return self.lengths[extent]

    def over(self, axes: Axes, places: Places) -> Iterator[Places]:
        for place in product(*map(self.range, axes)):
            yield {**places, **dict(zip(axes, place, strict=True))}

    def reading(self, node: Node) -> Reading:
        """The value of a node, by the places of its indices; what loops is worked out once for each place."""
        if id(node) not in self.readings:
            made = self.made(node)
            self.readings[id(node)] = remembered(made, node.axes) if isinstance(node, LOOPS) else made
        return self.readings[id(node)]

    def made(self, node: Node) -> Reading:  # one case a kind of node
        match node:
            case Read():
                name, where = node.name, node.where
                return lambda places: self.entry(name, tuple([places[index] for index in where]))
            case Map():
                operation, operands = OPERATIONS[node.operation], [*map(self.reading, node.operands)]
                return lambda places: operation(*[operand(places) for operand in operands])
            case Literal():
                is_whole = not node.constant and node.denominator == 1
                number = CONSTANTS.get(node.constant, mpmath.mpf(1))
                value = node.numerator if is_whole else number * node.numerator / node.denominator
                return lambda _: value
            case Size():
                size = self.size(node.extent)
                return lambda _: size
            case Option():
                given = self.given[node.name]
                option = given if isinstance(given, (bool, int)) else mpmath.mpf(given)
                return lambda _: option
            case Position():
                return lambda places: places[node.index]
            case Identity():
                return lambda places: int(places[node.row] == places[node.column])
            case Gather():
                positions = [*map(self.reading, node.positions)]
                return lambda places: self.entry(node.name, tuple([int(at(places)) for at in positions]))
            case Select():
                condition, yes, no = map(self.reading, (node.condition, node.yes, node.no))
                return lambda places: yes(places) if condition(places) else no(places)
            case Reduce():
                return self.reduced(node)
            case Contract():
                left, right = self.reading(node.left), self.reading(node.right)
                return lambda places: mpmath.fsum(
                    left(within) * right(within) for within in self.over(node.over, places)
                )
            case Scatter():
                return self.scattered(node)
        raise TypeError(type(node).__name__)

    def reduced(self, node: Reduce) -> Reading:
        operand, fold = self.reading(node.operand), FOLDS[node.operation]
        return lambda places: fold([operand(within) for within in self.over(node.over, places)])

    def scattered(self, node: Scatter) -> Reading:
        free = tuple(dict.fromkeys(index for part in (*node.positions, node.value) for index in part.axes))
        positions, value = [*map(self.reading, node.positions)], self.reading(node.value)
        base = self.reading(node.base) if node.base is not None else lambda _: mpmath.mpf(0)

        def total(places: Places) -> Any:
            wanted = [places[target] for target in node.targets]
            met = (within for within in self.over(free, {}) if [at(within) for at in positions] == wanted)
            return sum(map(value, met), base(places))

        return total


def remembered(reading: Reading, axes: Axes) -> Reading:
    known: dict[tuple[int, ...], Any] = {}

    def value(places: Places) -> Any:
        key = tuple([places[index] for index in axes])
        if key not in known:
            known[key] = reading(places)
        return known[key]

    return value


def lowered(program: Program, monkeypatch: pytest.MonkeyPatch) -> tuple[schedule.Kernel, list[list[Statement]]]:
    """The kernel of a program, and the statements of each of its routines as they were lowered."""
    found: list[list[Statement]] = []
    lower, gather = schedule._lowered, schedule.gathered

    def recorded(*arguments: Any) -> list[Statement]:
        with monkeypatch.context() as patch:
            patch.setattr(schedule, "gathered", lambda node: node)
            found.append(lower(*arguments))
        return lower(*arguments)

    assert schedule.gathered is gather
    monkeypatch.setattr(schedule, "_lowered", recorded)
    kernel = schedule._planned.__wrapped__(asked_of(program))
    return kernel, found


def small_case(program: Program) -> tuple[dict[str, Any], Mapping[str, int], np.random.Generator]:
    """Inputs by name, in the shapes of the statement, and the sizes: of the cases that are small the largest."""

    def entries(case: Any) -> int:
        return sum(int(np.prod(case.shape.flat(symbol))) for symbol in program.all_inputs())

    cases = sorted(cases_of(program), key=entries)
    case = max((case for case in cases if entries(case) <= MOST), key=entries, default=cases[0])
    values, generator = draw(program, case, seed=1)
    for symbol in program.all_inputs():
        name = str(symbol.name)
        if isinstance(values[name], np.ndarray):
            values[name] = values[name].reshape(case.shape.flat(symbol))
    return values, case.shape.sizes, generator


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_statements_compute_what_was_lowered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = PROGRAMS[name]
    kernel, stages = lowered(program, monkeypatch)
    given, sizes, generator = small_case(program)
    if kernel.backward is not None:
        (incoming,) = kernel.backward.parameters
        shape = tuple(int(sizes.get(size, size)) for size in incoming.sizes)
        given[incoming.name] = generator.standard_normal(shape) if shape else float(generator.normal())
    compared = 0
    pair = Values(given, sizes, [*stages[0], *(stages[1] if kernel.backward is not None else ())])
    with mpmath.workdps(DIGITS):
        for routines in (kernel, *kernel.variants):
            statements, old = [*routines.forward.statements], pair
            if routines.backward is not None:
                saved = {statement.name for statement in statements} & {*routines.saved}
                statements += [s for s in routines.backward.statements if s.name not in saved]
            elif routines is not kernel:
                old = Values(given, sizes, [*stages[0], *stages[-1]])
            new = Values(given, sizes, statements)
            for known in statements:
                if known.name in old.defined and set(known.axes) == set(old.defined[known.name].axes):
                    compared += agree(name, known.name, new, old)
    assert compared


def agree(kernel: str, name: str, new: Values, old: Values) -> int:
    """Assert that a named array has the same entries in both; how many there are."""
    found, expected = new.array(name), old.array(name)
    order = [new.defined[name].axes.index(index) for index in old.defined[name].axes]
    for place, value in found.items():
        other = expected[tuple(place[number] for number in order)]
        if mpmath.isnan(other) or mpmath.isinf(other):
            continue
        assert abs(value - other) <= CLOSE * (1 + abs(other)), f"{kernel}: {name}{list(place)}: {value} and {other}"
    return len(found)

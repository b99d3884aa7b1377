"""The statements of a kernel compute what its definitions were lowered to: every pass on statements keeps values.

After the algebraic passes, which the prover decides (`test_rewrites`), statements are shared, put off, divided and
rearranged. Here both ends are evaluated entry by entry with 30 digits, by an interpreter that shares no code with the
printers: the statements as they were lowered, and those of every schedule of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest

from codegen import schedule
from codegen.nodes import (
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
from codegen.sampling import cases_of, draw
from codegen.sharing import Statement
from codegen.trace import asked_of
from derive.language import Index
from derive.library import load
from derive.program import Program

PROGRAMS = {program.name: program for program in load() if program.request is not None}
DIGITS = 30
CLOSE = mpmath.mpf(10) ** -20
MOST = 60  # entries of all arrays of a case: every entry is a number of its own here

Places = Mapping[Index, int]
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


class Values:
    """The entries of named arrays, those that are given and those that statements define, each computed once."""

    def __init__(self, given: Mapping[str, Any], sizes: Mapping[str, int], statements: Sequence[Statement]) -> None:
        self.given = given
        self.sizes = sizes
        self.defined = {statement.name: statement for statement in statements}
        self.known: dict[tuple[str, tuple[int, ...]], Any] = {}
        self.loops: dict[tuple[int, tuple[int, ...]], Any] = {}  # by the node's id: nodes stay as long as statements do

    def entry(self, name: str, place: tuple[int, ...]) -> Any:
        if name in self.given:
            value = self.given[name][place] if place else self.given[name]
            return int(value) if np.asarray(value).dtype.kind in "iub" else mpmath.mpf(float(value))
        if (name, place) not in self.known:
            statement = self.defined[name]
            self.known[name, place] = self.value(statement.node, dict(zip(statement.axes, place, strict=True)))
        return self.known[name, place]

    def array(self, name: str) -> dict[tuple[int, ...], Any]:
        return {place: self.entry(name, place) for place in product(*map(self.range, self.defined[name].axes))}

    def range(self, index: Index) -> range:
        return range(self.size(index.extent))

    def size(self, extent: Any) -> int:
        return self.sizes[str(extent)] if str(extent) in self.sizes else int(extent)

    def over(self, axes: Axes, places: Places) -> Iterator[Places]:
        for place in product(*map(self.range, axes)):
            yield {**places, **dict(zip(axes, place, strict=True))}

    def value(self, node: Node, places: Places) -> Any:
        if not isinstance(node, (Reduce, Contract, Scatter)):
            return self.computed(node, places)
        key = id(node), tuple(places[index] for index in node.axes)
        if key not in self.loops:
            self.loops[key] = self.computed(node, places)
        return self.loops[key]

    def computed(self, node: Node, places: Places) -> Any:  # one case a kind of node
        def inner(child: Node, within: Places = places) -> Any:
            return self.value(child, within)

        match node:  # the most frequent kinds first
            case Read():
                return self.entry(node.name, tuple(places[index] for index in node.where))
            case Map():
                return OPERATIONS[node.operation](*map(inner, node.operands))
            case Literal():
                number = CONSTANTS.get(node.constant, mpmath.mpf(1))
                is_whole = not node.constant and node.denominator == 1
                return node.numerator if is_whole else number * node.numerator / node.denominator
            case Size():
                return self.size(node.extent)
            case Option():
                given = self.given[node.name]
                return given if isinstance(given, (bool, int)) else mpmath.mpf(given)
            case Position():
                return places[node.index]
            case Identity():
                return int(places[node.row] == places[node.column])
            case Gather():
                return self.entry(node.name, tuple(int(inner(position)) for position in node.positions))
            case Select():
                return inner(node.yes) if inner(node.condition) else inner(node.no)
            case Reduce():
                values = [inner(node.operand, within) for within in self.over(node.over, places)]
                if node.operation == "max":
                    return max(values, default=-mpmath.inf)
                return mpmath.fsum(values) if node.operation == "sum" else mpmath.fprod(values)
            case Contract():
                return mpmath.fsum(
                    inner(node.left, within) * inner(node.right, within) for within in self.over(node.over, places)
                )
            case Scatter():
                return self.scattered(node, places)
        raise TypeError(type(node).__name__)

    def scattered(self, node: Scatter, places: Places) -> Any:
        total = self.value(node.base, places) if node.base is not None else mpmath.mpf(0)
        free = tuple(dict.fromkeys(index for part in (*node.positions, node.value) for index in part.axes))
        for within in self.over(free, {}):
            if all(
                self.value(position, within) == places[target]
                for target, position in zip(node.targets, node.positions, strict=True)
            ):
                total += self.value(node.value, within)
        return total


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

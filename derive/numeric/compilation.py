"""Compiling index expressions into code over a frame.

Part of the numeric side, underneath `derive.evaluation`. Every binder gets a place of its own in the frame for its
index, so that no index can be captured. Every definition, sum and function gets a memo, so that nothing is computed
twice at one point: a sum inside another sum is computed once for each combination of the indices it really depends on.

Whatever consists of indices, sizes and integer inputs alone is computed with Python integers and Fractions; the
arithmetic sees only its result. Definitions and branches are evaluated when they are needed and not before, and a
vanishing bracket or delta ends a product, so that what a mask excludes may be undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta, Piecewise
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Boolean, BooleanFalse, BooleanTrue, Not, Or

from derive.binders import free_indices
from derive.errors import StatementError
from derive.functions import Defined, bracketed, unfold
from derive.language import Dim, Flag, Index, Scalar, Sum, Where, iverson
from derive.numeric.arithmetic import UndefinedError
from derive.numeric.closures import (
    ARITHMETIC,
    FIRST_FREE,
    Code,
    Filler,
    Frame,
    Scope,
    checked,
    converted,
    defined_entry,
    exact_power,
    new_memo,
    product,
    remembered,
    together,
    warmer,
)
from derive.numeric.exactness import Exactness, exact_number
from derive.numeric.operations import RULES, cases_of
from derive.statements import Definition
from derive.symbols import size_at

__all__ = ["Compiler", "ordered_indices"]

CHEAP = (sympy.Atom, sympy.Add, sympy.Mul, Indexed, KroneckerDelta, Where, Piecewise)  # not worth remembering
COMPARISONS: dict[type, Callable[[int], bool]] = {
    sympy.Eq: lambda order: order == 0,
    sympy.Ne: lambda order: order != 0,
    sympy.Lt: lambda order: order < 0,
    sympy.Le: lambda order: order <= 0,
    sympy.Gt: lambda order: order > 0,
    sympy.Ge: lambda order: order >= 0,
}


def ordered_indices(indices: Iterable[Index]) -> tuple[Index, ...]:
    """Indices by name, each after those that its range depends on."""
    return tuple(sorted(indices, key=_precedence))


@lru_cache(maxsize=10_000)
def _precedence(index: Index) -> tuple[int, str, str]:
    return _depth(index), index.name, str(index.extent)


def _depth(index: Index) -> int:
    return 1 + max((_depth(other) for other in free_indices(index.extent)), default=0)


def axis_extent(node: Any, axis: int) -> Any:
    """The extent of an axis of an entry's tensor; that of a ragged axis depends on the indices just before it."""
    return size_at(node.base.shape[axis], node.indices[:axis])


class Compiler:
    """Turns expressions into closures; hands out the places of the frame and says how each is filled at a point.

    Where it is `strict`, a product has a value only where all of its factors have one.
    """

    def __init__(self, definitions: Sequence[Definition], *, strict: bool = False) -> None:
        self.definitions = tuple(definitions)
        self.strict = strict
        self.fillers: list[Filler] = []
        self.warmers: list[Callable[[Frame], None]] = []
        self._shared: dict[Any, Code] = {}
        self._named: dict[Any, int] = {}
        self._defined: dict[Any, tuple[int, tuple[int, ...], Code]] = {}
        self._exactness = Exactness({definition.symbol for definition in definitions})
        for definition in definitions:  # in order, so that compiling never recurses from one into the next
            self._define(definition)

    def slot(self, fill: Filler) -> int:
        """A new place in the frame."""
        self.fillers.append(fill)
        return FIRST_FREE + len(self.fillers) - 1

    def place(self) -> int:
        """A new place for the current value of an index."""
        return self.slot(lambda _field, _sizes, _inputs: None)

    def slot_of(self, key: Any, fill: Filler) -> int:
        """The place kept under a key, a new one when there is none yet."""
        if key not in self._named:
            self._named[key] = self.slot(fill)
        return self._named[key]

    def _define(self, definition: Definition) -> None:
        scope = {index: self.place() for index in definition.indices}
        slots, memo = tuple(scope.values()), self.slot(new_memo)
        body = self.value(definition.body, scope)
        self._defined[definition.symbol] = memo, slots, body
        order = ordered_indices(definition.indices)
        extents = [(scope[index], self.exact(index.extent, scope)) for index in order]
        self.warmers.append(warmer(extents, memo, slots, body))

    def code(self, node: Any, scope: Scope) -> Code:
        """Code for an expression, or for a condition."""
        holds = isinstance(node, Flag) or (isinstance(node, Boolean) and not isinstance(node, sympy.Symbol))
        return self.condition(node, scope) if holds else self.value(node, scope)

    # -- sharing -----------------------------------------------------------------------------------------------------

    def value(self, node: Any, scope: Scope) -> Code:
        """Code for the value of an expression."""
        free = ordered_indices(free_indices(node))
        key = node, tuple(scope[index] for index in free)
        if key not in self._shared:
            code = self._value(node, scope)
            self._shared[key] = code if isinstance(node, CHEAP) else remembered(code, key[1], self.slot(new_memo))
        return self._shared[key]

    def _value(self, node: Any, scope: Scope) -> Code:
        if isinstance(node, Defined):
            return self._defined_function(node, scope)
        if isinstance(node, Indexed):
            return self._entry(node, scope)
        if isinstance(node, Scalar):
            return self._scalar(node)
        if self.is_exact(node):
            return self._exact_value(node, scope)
        for kind, rule in RULES:
            if isinstance(node, kind):
                return rule(self, node, scope)
        raise StatementError(f"{node}: {type(node).__name__} has no value; expected an expression of the language")

    def _defined_function(self, node: Any, scope: Scope) -> Code:
        """Code for softmax and its kin by their definition; over an empty index set they have no value, not even 0.

        Nor have they one where what they are of has none. SymPy writes exp(log(x)) as x, and x is a number anywhere.
        """
        code = self.value(unfold(node), scope)
        _, body, bound, _, condition = node.args
        needed = [self.value(Sum(bracketed(body, condition), bound), scope)] if body.has(sympy.log) else []
        if condition == sympy.true and not needed:
            return code
        counted = self.value(Sum(iverson(condition), bound), scope)

        def over_some(frame: Frame) -> Any:
            if frame[ARITHMETIC].same(counted(frame), frame[ARITHMETIC].rational(0)):
                raise UndefinedError(f"{node}: no index meets the condition")
            for part in needed:
                part(frame)
            return code(frame)

        return over_some

    def _exact_value(self, node: Any, scope: Scope) -> Code:
        if node.is_number and not node.args:
            number = exact_number(node)
            return itemgetter(self.slot_of(("value", number), lambda field, _s, _i: field.rational(number)))
        exact = self.exact(node, scope)
        return lambda frame: frame[ARITHMETIC].rational(exact(frame))

    # -- exact numbers -----------------------------------------------------------------------------------------------

    def is_exact(self, node: Any) -> bool:
        """Whether an expression consists of indices, sizes and integer inputs alone, rationally."""
        return self._exactness.of(node)

    def exact(self, node: Any, scope: Scope) -> Code:
        """Code for an exact expression, as a Python integer or Fraction."""
        if isinstance(node, Index):
            return itemgetter(scope[node])
        if node.is_number and not node.args:
            number = exact_number(node)
            return lambda _frame: number
        name = str(getattr(node, "name", ""))
        if isinstance(node, Dim):
            return itemgetter(self.slot_of(("size", name), lambda _f, sizes, _i: sizes[name]))
        if isinstance(node, Scalar):
            return itemgetter(self.slot_of(("raw", name), lambda _f, _s, inputs: inputs[name]))
        if isinstance(node, Indexed):
            return self._table(node, scope, raw=True)
        if isinstance(node, KroneckerDelta):
            left, right = (self.exact(argument, scope) for argument in node.args[:2])
            return lambda frame: int(left(frame) == right(frame))
        if isinstance(node, (Where, Piecewise)):
            return self.choice(node, scope, self.exact)
        parts = [self.exact(argument, scope) for argument in node.args]
        if isinstance(node, sympy.Add):
            return lambda frame: sum(part(frame) for part in parts)
        if isinstance(node, sympy.Mul):
            return lambda frame: product(part(frame) for part in parts)
        base, exponent = parts
        return lambda frame: exact_power(base(frame), exponent(frame))

    # -- leaves ------------------------------------------------------------------------------------------------------

    def _entry(self, node: Any, scope: Scope) -> Code:
        if node.base not in self._defined:
            return self._table(node, scope, raw=False)
        memo, slots, body = self._defined[node.base]
        return defined_entry(memo, slots, body, self._key(node, scope))

    def _scalar(self, node: Any) -> Code:
        if node in self._defined:
            memo, _, body = self._defined[node]
            return remembered(body, (), memo)
        name = str(node.name)
        return itemgetter(self.slot_of(("scalar", name), lambda field, _s, inputs: field.rational(inputs[name])))

    def _positions(self, node: Any, scope: Scope) -> list[Code]:
        """Code for each index of an entry; a fixed position is checked against the size."""
        codes: list[Code] = []
        for axis, part in enumerate(node.indices):
            if part.is_number:
                codes.append(checked(int(part), self.exact(axis_extent(node, axis), scope), str(node)))
            else:
                codes.append(self.exact(part, scope))
        return codes

    def _key(self, node: Any, scope: Scope) -> Code:
        if len(node.indices) > 1 and all(isinstance(part, Index) for part in node.indices):
            return itemgetter(*(scope[part] for part in node.indices))
        return together(self._positions(node, scope))

    def _table(self, node: Any, scope: Scope, *, raw: bool) -> Code:
        """The code that reads an entry of an input, as it was given if `raw`, else as a number of the arithmetic."""
        name = str(node.base.name)
        if raw:
            table = self.slot_of(("raw", name), lambda _f, _s, inputs: inputs[name])
        else:
            table = self.slot_of(("table", name), lambda field, _s, inputs: converted(inputs[name], field.rational))
        plain = all(isinstance(part, Index) for part in node.indices)
        slots = [scope[part] for part in node.indices] if plain else []
        if len(slots) == 1:
            return lambda frame, i=slots[0]: frame[table][frame[i]]  # type: ignore[misc]
        if len(slots) == 2:
            return lambda frame, i=slots[0], j=slots[1]: frame[table][frame[i]][frame[j]]  # type: ignore[misc]
        codes = self._positions(node, scope)

        def read(frame: Frame) -> Any:
            found = frame[table]
            for code in codes:
                found = found[code(frame)]
            return found

        return read

    # -- conditions --------------------------------------------------------------------------------------------------

    def condition(self, node: Any, scope: Scope) -> Code:
        """Code for a condition, giving a bool."""
        if isinstance(node, (BooleanTrue, BooleanFalse)):
            truth = bool(node)
            return lambda _frame: truth
        if isinstance(node, Flag):
            name = str(node.name)
            return itemgetter(self.slot_of(("raw", name), lambda _f, _s, inputs: bool(inputs[name])))
        if isinstance(node, Relational):
            return self._comparison(node, scope)
        parts = [self.condition(argument, scope) for argument in node.args]
        if isinstance(node, And):
            return lambda frame: all(part(frame) for part in parts)
        if isinstance(node, Or):
            return lambda frame: any(part(frame) for part in parts)
        if isinstance(node, Not):
            return lambda frame: not parts[0](frame)
        raise StatementError(f"{node}: expected a comparison, a flag, And, Or or Not, found {type(node).__name__}")

    def _comparison(self, node: Any, scope: Scope) -> Code:
        holds = COMPARISONS[type(node)]
        if self.is_exact(node.lhs) and self.is_exact(node.rhs):
            first, second = self.exact(node.lhs, scope), self.exact(node.rhs, scope)

            def compare_exactly(frame: Frame) -> bool:
                left, right = first(frame), second(frame)
                return holds((left > right) - (left < right))

            return compare_exactly
        low, high = self.value(node.lhs, scope), self.value(node.rhs, scope)
        if not self._exactness.of_inputs(node.lhs) or not self._exactness.of_inputs(node.rhs):
            return lambda frame: holds(frame[ARITHMETIC].order(low(frame), high(frame)))
        sides = self.exact(node.lhs, scope), self.exact(node.rhs, scope)

        def compare(frame: Frame) -> bool:
            try:
                return holds(frame[ARITHMETIC].order(low(frame), high(frame)))
            except UndefinedError:
                left, right = (side(frame) for side in sides)
                if left == right:  # too close to tell as rounded numbers, but as fractions they are equal
                    return holds(0)
                raise

        return compare

    def choice(self, node: Any, scope: Scope, compiled: Callable[[Any, Scope], Code]) -> Code:
        """Code for a Where or a Piecewise; only the branch that is taken is evaluated."""
        branches = [(self.condition(condition, scope), compiled(value, scope)) for condition, value in cases_of(node)]

        def choose(frame: Frame) -> Any:
            for holds, value in branches:
                if holds(frame):
                    return value(frame)
            raise UndefinedError(f"{node}: no condition holds")

        return choose

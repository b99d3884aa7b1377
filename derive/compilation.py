"""Compiling index expressions into closures over a flat list, the *frame*.

Part of the numeric side, underneath `derive.evaluation`. The frame holds everything that a point fixes: the
arithmetic, the sizes, the input tables, the current value of every index, the constants, and a memo for each
definition, sum and function, so that nothing is computed twice at one point: a sum inside another sum is computed once
for each combination of the indices it really depends on. Every binder gets a place of its own for its index, so that no
index can be captured.

Whatever consists of indices, sizes and integer inputs alone is computed with Python integers and Fractions; the
arithmetic sees only its result. Definitions and branches are evaluated when they are needed and not before, and a
vanishing bracket or delta ends a product, so that what a mask excludes may be undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import itemgetter
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta, Piecewise
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Boolean, BooleanFalse, BooleanTrue, Not, Or

from derive.arithmetic import Arithmetic, UndefinedError, Value
from derive.binders import free_indices, scope_of
from derive.errors import BudgetExceededError, StatementError
from derive.functions import Defined, unfold
from derive.language import Dim, Flag, Index, Lengths, Scalar, Where
from derive.program import Definition

__all__ = ["ARITHMETIC", "WORK", "Code", "Compiler", "Frame", "Inputs", "decimal", "ordered_indices"]

Frame = list[Any]
Code = Callable[[Frame], Any]
Scope = Mapping[Index, int]
Inputs = Mapping[str, Any]
Filler = Callable[[Arithmetic, Mapping[str, int], Inputs], Any]

ARITHMETIC, WORK, FIRST_FREE = 0, 1, 2  # places in the frame

COMPARISONS: dict[type, Callable[[int], bool]] = {
    sympy.Eq: lambda order: order == 0,
    sympy.Ne: lambda order: order != 0,
    sympy.Lt: lambda order: order < 0,
    sympy.Le: lambda order: order <= 0,
    sympy.Gt: lambda order: order > 0,
    sympy.Ge: lambda order: order >= 0,
}


def decimal(number: sympy.Float) -> Fraction:
    """The decimal fraction that a Float was written as: 0.1 is 1/10."""
    return Fraction(str(number))


def ordered_indices(indices: Iterable[Index]) -> tuple[Index, ...]:
    """Indices by name, each after those that its range depends on."""
    return tuple(sorted(indices, key=lambda index: (_depth(index), index.name, str(index.extent))))


def _depth(index: Index) -> int:
    return 1 + max((_depth(other) for other in free_indices(index.extent)), default=0)


def cases_of(node: Any) -> list[tuple[Any, Any]]:
    """The (condition, value) pairs of a Where or a Piecewise, in order."""
    if isinstance(node, Where):
        condition, yes, no = node.args
        return [(condition, yes), (sympy.true, no)]
    return [(condition, value) for value, condition in node.args]


class Compiler:
    """Turns expressions into closures; hands out the places of the frame and says how each is filled at a point."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self.fillers: list[Filler] = []
        self.warmers: list[Callable[[Frame], None]] = []
        self._shared: dict[Any, Code] = {}
        self._named: dict[Any, int] = {}
        self._exactness: dict[Any, bool] = {}
        self._defined: dict[Any, tuple[int, tuple[int, ...], Code]] = {}
        self._symbols = {definition.symbol for definition in definitions}
        for definition in definitions:  # in order, so that compiling never recurses from one into the next
            self._define(definition)

    def slot(self, fill: Filler) -> int:
        """A new place in the frame."""
        self.fillers.append(fill)
        return FIRST_FREE + len(self.fillers) - 1

    def place(self) -> int:
        """A new place for the current value of an index."""
        return self.slot(lambda _field, _sizes, _inputs: None)

    def _slot_of(self, key: Any, fill: Filler) -> int:
        if key not in self._named:
            self._named[key] = self.slot(fill)
        return self._named[key]

    def _define(self, definition: Definition) -> None:
        scope = {index: self.place() for index in definition.indices}
        slots, memo = tuple(scope.values()), self.slot(_memo)
        body = self.value(definition.body, scope)
        self._defined[definition.symbol] = memo, slots, body
        order = ordered_indices(definition.indices)
        extents = [(scope[index], self.exact(index.extent, scope)) for index in order]
        self.warmers.append(_warmer(extents, memo, slots, body))

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
            self._shared[key] = code if isinstance(node, CHEAP) else _remembered(code, key[1], self.slot(_memo))
        return self._shared[key]

    def _value(self, node: Any, scope: Scope) -> Code:
        if isinstance(node, Defined):
            return self.value(unfold(node), scope)
        if not isinstance(node, (Indexed, Scalar)) and self.is_exact(node):
            return self._exact_value(node, scope)
        for kind, rule in RULES:
            if isinstance(node, kind):
                return rule(self, node, scope)
        raise StatementError(f"{node}: {type(node).__name__} has no value; expected an expression of the language")

    def _exact_value(self, node: Any, scope: Scope) -> Code:
        if node.is_number and not node.args:
            number = _exact_number(node)
            return itemgetter(self._slot_of(("value", number), lambda field, _s, _i: field.rational(number)))
        exact = self.exact(node, scope)
        return lambda frame: frame[ARITHMETIC].rational(exact(frame))

    # -- exact numbers -----------------------------------------------------------------------------------------------

    def is_exact(self, node: Any) -> bool:
        """Whether an expression consists of indices, sizes and integer inputs alone, rationally."""
        if node not in self._exactness:
            self._exactness[node] = self._is_exact(node)
        return self._exactness[node]

    def _is_exact(self, node: Any) -> bool:
        if isinstance(node, (sympy.Integer, sympy.Rational, sympy.Float, Index, Dim, KroneckerDelta)):
            return True
        if isinstance(node, Scalar):
            return bool(node.is_integer) and node not in self._symbols
        if isinstance(node, Indexed):
            return bool(node.base.label.is_integer) and node.base not in self._symbols
        if isinstance(node, (sympy.Add, sympy.Mul)):
            return all(map(self.is_exact, node.args))
        if isinstance(node, sympy.Pow):
            return self.is_exact(node.base) and self.is_exact(node.exp) and bool(node.exp.is_integer)
        if isinstance(node, (Where, Piecewise)):
            return all(self.is_exact(value) for _, value in cases_of(node))
        return False

    def exact(self, node: Any, scope: Scope) -> Code:
        """Code for an exact expression, as a Python integer or Fraction."""
        if isinstance(node, Index):
            return itemgetter(scope[node])
        if node.is_number and not node.args:
            number = _exact_number(node)
            return lambda _frame: number
        name = str(getattr(node, "name", ""))
        if isinstance(node, Dim):
            return itemgetter(self._slot_of(("size", name), lambda _f, sizes, _i: sizes[name]))
        if isinstance(node, Scalar):
            return itemgetter(self._slot_of(("raw", name), lambda _f, _s, inputs: inputs[name]))
        if isinstance(node, Indexed):
            return self._table(node, scope, raw=True)
        if isinstance(node, KroneckerDelta):
            left, right = (self.exact(argument, scope) for argument in node.args[:2])
            return lambda frame: int(left(frame) == right(frame))
        if isinstance(node, (Where, Piecewise)):
            return self._choice(node, scope, self.exact)
        parts = [self.exact(argument, scope) for argument in node.args]
        if isinstance(node, sympy.Add):
            return lambda frame: sum(part(frame) for part in parts)
        if isinstance(node, sympy.Mul):
            return lambda frame: _product(part(frame) for part in parts)
        base, exponent = parts
        return lambda frame: _exact_power(base(frame), exponent(frame))

    # -- leaves ------------------------------------------------------------------------------------------------------

    def entry(self, node: Any, scope: Scope) -> Code:
        """Code for an entry of a tensor, defined or given."""
        if node.base not in self._defined:
            return self._table(node, scope, raw=False)
        memo, slots, body = self._defined[node.base]
        return _defined_entry(memo, slots, body, self._key(node, scope))

    def scalar(self, node: Any, _scope: Scope) -> Code:
        """Code for a scalar, defined or given."""
        if node in self._defined:
            memo, _, body = self._defined[node]
            return _remembered(body, (), memo)
        name = str(node.name)
        return itemgetter(self._slot_of(("scalar", name), lambda field, _s, inputs: field.rational(inputs[name])))

    def _positions(self, node: Any, scope: Scope) -> list[Code]:
        """Code for each index of an entry; a fixed position is checked against the size."""
        codes: list[Code] = []
        for axis, part in enumerate(node.indices):
            if part.is_number:
                codes.append(_checked(int(part), self.exact(axis_extent(node, axis), scope), str(node)))
            else:
                codes.append(self.exact(part, scope))
        return codes

    def _key(self, node: Any, scope: Scope) -> Code:
        if len(node.indices) > 1 and all(isinstance(part, Index) for part in node.indices):
            return itemgetter(*(scope[part] for part in node.indices))
        codes = self._positions(node, scope)
        return lambda frame: tuple(code(frame) for code in codes)

    def _table(self, node: Any, scope: Scope, *, raw: bool) -> Code:
        name = str(node.base.name)
        if raw:
            table = self._slot_of(("raw", name), lambda _f, _s, inputs: inputs[name])
        else:
            table = self._slot_of(("table", name), lambda field, _s, inputs: _converted(inputs[name], field.rational))
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

    # -- operations --------------------------------------------------------------------------------------------------

    def add(self, node: Any, scope: Scope) -> Code:
        """Code for a sum of terms."""
        terms = [self.value(argument, scope) for argument in node.args]
        return lambda frame: frame[ARITHMETIC].total([term(frame) for term in terms])

    def mul(self, node: Any, scope: Scope) -> Code:
        """Code for a product of factors; brackets come first, and one that vanishes ends it."""
        brackets = [self.exact(argument, scope) for argument in node.args if self._is_bracket(argument)]
        factors = [self.value(argument, scope) for argument in node.args if not self._is_bracket(argument)]
        if not brackets:
            return lambda frame: frame[ARITHMETIC].multiply([factor(frame) for factor in factors])

        def multiply(frame: Frame) -> Value:
            if not all(bracket(frame) for bracket in brackets):
                return frame[ARITHMETIC].rational(0)
            return frame[ARITHMETIC].multiply([factor(frame) for factor in factors])

        return multiply

    def _is_bracket(self, node: Any) -> bool:
        if isinstance(node, (Where, Piecewise)):
            return all(value in (0, 1) for _, value in cases_of(node))
        return isinstance(node, KroneckerDelta)

    def pow(self, node: Any, scope: Scope) -> Code:
        """Code for a power: exact where the exponent is, by square roots of exact numbers where it is a fraction."""
        base, exponent = node.args
        if not self.is_exact(exponent):
            low, high = self.value(base, scope), self.value(exponent, scope)
            return lambda frame: frame[ARITHMETIC].real_power(low(frame), high(frame))
        times = self.exact(exponent, scope)
        if self.is_exact(base):
            number = self.exact(base, scope)
            return lambda frame: frame[ARITHMETIC].rational_power(number(frame), Fraction(times(frame)))
        low = self.value(base, scope)
        return lambda frame: frame[ARITHMETIC].power(low(frame), times(frame))

    def loop(self, node: Any, scope: Scope) -> Code:
        """Code for a Sum or Product over one or more indices."""
        parts = scope_of(node)
        if parts is None:
            raise StatementError(f"{node}: expected a sum or a product over indices")
        inner = dict(scope)
        ranges: list[tuple[int, Code]] = []
        for index in parts.bound:
            extent = self.exact(index.extent, inner)
            inner[index] = self.place()
            ranges.append((inner[index], extent))
        code = self.value(parts.inside[0], inner)
        for slot, extent in reversed(ranges):
            code = _looped(slot, extent, code, isinstance(node, sympy.Sum))
        return code

    def function(self, node: Any, scope: Scope) -> Code:
        """Code for a scalar function of one argument."""
        name, argument = type(node).__name__, self.value(node.args[0], scope)
        return lambda frame: frame[ARITHMETIC].apply(name, argument(frame))

    def constant(self, node: Any, _scope: Scope) -> Code:
        """Code for pi and e."""
        name = type(node).__name__
        return itemgetter(self._slot_of(("value", name), lambda field, _s, _i: _constant(field, name)))

    def extreme(self, node: Any, scope: Scope) -> Code:
        """Code for Max and Min."""
        parts = [self.value(argument, scope) for argument in node.args]
        wanted = 1 if isinstance(node, sympy.Max) else -1

        def choose(frame: Frame) -> Value:
            best, *others = [part(frame) for part in parts]
            for other in others:
                if frame[ARITHMETIC].order(other, best) == wanted:
                    best = other
            return best

        return choose

    def sign(self, node: Any, scope: Scope) -> Code:
        """Code for sign and Abs."""
        part, magnitude = self.value(node.args[0], scope), isinstance(node, sympy.Abs)

        def signed(frame: Frame) -> Value:
            field, number = frame[ARITHMETIC], part(frame)
            sign = field.rational(field.order(number, field.rational(0)))
            return field.multiply([sign, number]) if magnitude else sign

        return signed

    def choice(self, node: Any, scope: Scope) -> Code:
        """Code for a Where or a Piecewise; only the branch that is taken is evaluated."""
        return self._choice(node, scope, self.value)

    def _choice(self, node: Any, scope: Scope, compiled: Callable[[Any, Scope], Code]) -> Code:
        branches = [(self.condition(condition, scope), compiled(value, scope)) for condition, value in cases_of(node)]

        def choose(frame: Frame) -> Any:
            for holds, value in branches:
                if holds(frame):
                    return value(frame)
            raise UndefinedError(f"{node}: no condition holds")

        return choose

    # -- conditions --------------------------------------------------------------------------------------------------

    def condition(self, node: Any, scope: Scope) -> Code:
        """Code for a condition, giving a bool."""
        if isinstance(node, (BooleanTrue, BooleanFalse)):
            truth = bool(node)
            return lambda _frame: truth
        if isinstance(node, Flag):
            name = str(node.name)
            return itemgetter(self._slot_of(("raw", name), lambda _f, _s, inputs: bool(inputs[name])))
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
        return lambda frame: holds(frame[ARITHMETIC].order(low(frame), high(frame)))


CHEAP = (sympy.Atom, sympy.Add, sympy.Mul, Indexed, KroneckerDelta, Where, Piecewise)  # not worth remembering
Rule = Callable[[Compiler, Any, Scope], Code]
RULES: tuple[tuple[Any, Rule], ...] = (
    (Indexed, Compiler.entry),
    (Scalar, Compiler.scalar),
    (sympy.Add, Compiler.add),
    (sympy.Mul, Compiler.mul),
    (sympy.Pow, Compiler.pow),
    ((sympy.Sum, sympy.Product), Compiler.loop),
    ((Where, Piecewise), Compiler.choice),
    ((sympy.Max, sympy.Min), Compiler.extreme),
    ((sympy.Abs, sympy.sign), Compiler.sign),
    (sympy.Function, Compiler.function),
    (sympy.NumberSymbol, Compiler.constant),
)


# ---------------------------------------------------------------------------------------------------------------------
# The closures that are worth a name.


def axis_extent(node: Any, axis: int) -> Any:
    """The extent of an axis of an entry's tensor; that of a ragged axis depends on the indices just before it."""
    size = node.base.shape[axis]
    return size[tuple(node.indices[axis - len(size.shape) : axis])] if isinstance(size, Lengths) else size


def _memo(_field: Arithmetic, _sizes: Mapping[str, int], _inputs: Inputs) -> dict[Any, Any]:
    return {}


def _converted(table: Any, convert: Callable[[Any], Any]) -> Any:
    return [_converted(row, convert) for row in table] if isinstance(table, (tuple, list)) else convert(table)


def _exact_number(node: Any) -> int | Fraction:
    if isinstance(node, sympy.Float):
        return decimal(node)
    return int(node) if node.is_Integer else Fraction(int(node.p), int(node.q))


def _constant(field: Arithmetic, name: str) -> Value:
    return field.apply(name, field.rational(0))


def _product(numbers: Iterable[Any]) -> Any:
    result = 1
    for number in numbers:
        result = result * number
    return result


def _exact_power(base: Any, exponent: Any) -> Any:
    if exponent >= 0:
        return base ** int(exponent)
    if base == 0:
        raise UndefinedError("division by zero")
    return Fraction(base) ** int(exponent)


def _checked(position: int, size: Code, shown: str) -> Code:
    def read(frame: Frame) -> int:
        if position >= size(frame):
            raise UndefinedError(f"{shown}: position {position} lies outside a size of {size(frame)}")
        return position

    return read


def _remembered(code: Code, slots: tuple[int, ...], memo: int) -> Code:
    """The code with its value kept for each combination of the indices in `slots`."""
    key: Code = itemgetter(*slots) if slots else lambda _frame: ()

    def remembered(frame: Frame) -> Any:
        known, at = frame[memo], key(frame)
        if at not in known:
            known[at] = code(frame)
        return known[at]

    return remembered


def _defined_entry(memo: int, slots: tuple[int, ...], body: Code, key: Code) -> Code:
    """An entry of a definition, computed at its own indices when it is first asked for."""

    def read(frame: Frame) -> Any:
        known, at = frame[memo], key(frame)
        if at not in known:
            for slot, value in zip(slots, at, strict=True):
                frame[slot] = value
            known[at] = body(frame)
        return known[at]

    return read


def _looped(slot: int, extent: Code, body: Code, adds: bool) -> Code:
    def run(frame: Frame) -> Value:
        length, field = extent(frame), frame[ARITHMETIC]
        frame[WORK] -= length
        if frame[WORK] < 0:
            raise BudgetExceededError("evaluation: the sums at this point have more terms than the limit allows")
        values = []
        for position in range(length):
            frame[slot] = position
            values.append(body(frame))
        return field.total(values) if adds else field.multiply(values)

    return run


def _warmer(
    extents: Sequence[tuple[int, Code]], memo: int, slots: tuple[int, ...], body: Code
) -> Callable[[Frame], None]:  # fmt: skip
    """Computes all entries of a definition that have a value; the others are left to whoever asks for them."""

    def warm(frame: Frame, depth: int = 0) -> None:
        if depth < len(extents):
            slot, extent = extents[depth]
            for value in range(extent(frame)):
                frame[slot] = value
                warm(frame, depth + 1)
            return
        key = tuple(frame[slot] for slot in slots)
        try:
            value = body(frame)
        except ArithmeticError:
            return
        frame[memo][key] = value

    return warm

"""Forms: expressions with their indices taken out, so that what differs in names of indices alone is one.

What stands at several places of a statement differs there in its indices, those that are summed and those that are not:

    Sum(Q[i, a]*K[j, a], a)   and   Sum(Q[i, a_2]*K[j_2, a_2], a_2)

are one form, read at (i, j) and at (i, j_2). `codegen.algebra.parts` gives such parts a name. A form is known by a
number: two expressions have the same one exactly if their heads are the same, their parts have the same forms, and the
indices of the parts stand at the same places. So it takes one visit to each part, however often it is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sympy import Add, Indexed, Integer, Mul

from derive.binders import scope_of
from derive.functions import Defined
from derive.language import Dim, Index, Tensor


@dataclass(frozen=True)
class Form:
    """The number of an expression's form, and its free indices in the order in which the form has them.

    `plain` says that every entry is read at indices, or where a look-up says, and every index runs over a size.
    """

    number: int
    free: tuple[Index, ...]
    plain: bool

    def at(self, slots: Mapping[Index, int]) -> tuple[int, ...]:
        """What the form is as a part of another: its number, and where its indices stand there."""
        return self.number, *(slots[index] for index in self.free)


@dataclass
class Forms:
    """The forms of the expressions met so far, and how often each is used: what is itself used twice counts once."""

    known: dict[Any, Form] = field(default_factory=dict)
    numbers: dict[Any, int] = field(default_factory=dict)
    uses: Counter[int] = field(default_factory=Counter)

    def of(self, expression: Any) -> Form:
        """The form of an expression."""
        if expression not in self.known:
            self.known[expression] = self._met(expression)
        return self.known[expression]

    def _met(self, expression: Any) -> Form:
        if isinstance(expression, Index):
            kind = "index", expression.extent, expression.leading
            return Form(self._number(kind), (expression,), _is_over_a_size(expression))
        if isinstance(expression, Tensor) or not expression.args:
            return Form(self._number(("leaf", expression)), (), True)
        scope = scope_of(expression)
        bound = scope.bound if scope is not None else ()
        inside = [self.of(child) for child in (scope.inside if scope is not None else expression.args)]
        outside = [self.of(child) for child in (scope.outside if scope is not None else ())]
        if isinstance(expression, (Add, Mul)):  # their order is one of names
            inside.sort(key=lambda form: form.number)
        loose = [index for form in inside for index in form.free if index not in bound]
        free = tuple(dict.fromkeys([*loose, *(index for form in outside for index in form.free)]))
        slots = {index: len(bound) + slot for slot, index in enumerate(free)}
        within = slots | {index: slot for slot, index in enumerate(bound)}
        head = type(expression), expression.name if isinstance(expression, Defined) else "", len(bound)
        sizes = tuple((index.extent, index.leading) for index in (*bound, *free))
        key = head, sizes, *(form.at(within) for form in inside), *(form.at(slots) for form in outside)
        parts = (*inside, *outside)
        if key not in self.numbers:
            self.uses.update(form.number for form in parts)
        plain = all(map(_is_over_a_size, bound)) and all(map(_is_plain, _places(expression)))
        return Form(self._number(key), free, plain and all(form.plain for form in parts))

    def _number(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))


@lru_cache(maxsize=50_000)
def nesting(expression: Any) -> int:
    """How many sums, and functions over a row, lie within each other in an expression."""
    if isinstance(expression, (Index, Tensor)) or not expression.args:
        return 0
    scope = scope_of(expression)
    parts = (*scope.inside, *scope.outside) if scope is not None else expression.args
    return max(map(nesting, parts)) + (scope is not None)


def _is_over_a_size(index: Index) -> bool:
    return isinstance(index.extent, (Dim, Integer))


def _places(expression: Any) -> tuple[Any, ...]:
    """Where an entry, or a function over a row, is read."""
    scope = scope_of(expression)
    return tuple(expression.indices) if isinstance(expression, Indexed) else scope.outside if scope is not None else ()


def _is_plain(place: Any) -> bool:
    """Whether it is an index, a number or a look-up: at a computed place there may not be an entry for all indices."""
    return isinstance(place, (Index, Integer, Indexed))

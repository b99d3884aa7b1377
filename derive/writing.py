"""Formulas as a reader writes them: Sum_j A[i,j]*V[j,c] instead of Sum(A[i, j]*V[j, c], (j, 0, T - 1)).

Used for comments in generated code and for output on a terminal. Deterministic, one line, ASCII.
"""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from derive.language import Index


class _Writer(StrPrinter):
    """SymPy's text printer with sums by their indices, entries without blanks, deltas as brackets."""

    printmethod = "_written"  # not the nodes' own text, which is meant for code

    def _print_Where(self, expression: Any) -> str:  # noqa: N802 - SymPy's naming
        condition, yes, no = map(self._print, expression.args)
        return f"[{condition}]" if (yes, no) == ("1", "0") else f"where({condition}, {yes}, {no})"

    def _print_Defined(self, expression: Any) -> str:  # noqa: N802
        _, body, bound, place, condition = expression.args
        parts = [self._print(body), f"over={bound}"]
        parts += [f"where={self._print(condition)}"] if condition != sympy.true else []
        parts += [f"at={self._print(place)}"] if expression.positional and place != bound else []
        return f"{expression.name}({', '.join(parts)})"

    def _bound(self, expression: Any) -> str:
        return ",".join(str(limit[0]) for limit in reversed(expression.limits))

    def _print_Sum(self, expression: Any) -> str:  # noqa: N802
        return f"Sum_{self._bound(expression)}({self._print(expression.function)})"

    def _print_Product(self, expression: Any) -> str:  # noqa: N802
        return f"Prod_{self._bound(expression)}({self._print(expression.function)})"

    def _print_Indexed(self, expression: Any) -> str:  # noqa: N802
        where = ",".join(self._print(part) for part in expression.indices)
        return f"{expression.base.name}[{where}]"

    def _print_KroneckerDelta(self, expression: Any) -> str:  # noqa: N802
        left, right = expression.args[:2]
        if not isinstance(left, Index):
            left, right = right, left
        return f"[{self._print(left)} = {self._print(right)}]"


def written(expression: Any) -> str:
    """The expression on one line."""
    text = _Writer({"order": "none"}).doprint(expression)
    return str(text)


def written_definition(left: Any, body: Any) -> str:
    """The definition `left = body` on one line."""
    return f"{written(left)} = {written(body)}"

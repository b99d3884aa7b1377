"""What can be computed with Python integers and Fractions, whatever the arithmetic at hand.

Beside `derive.numeric.compilation`, which asks here. What consists of indices, sizes and integer inputs says where
things are, and is never rounded. Comparisons of real inputs may be: two that are equal as fractions are too close to
tell as numbers with errors, and a counterexample may be found just there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta, Piecewise

from derive.language import Dim, Index, Scalar, Where
from derive.numeric.operations import cases_of


@dataclass
class Exactness:
    """Which expressions are exact; `defined` are the names that stand for other expressions."""

    defined: Collection[Any]
    known: dict[Any, bool] = field(default_factory=dict)

    def of(self, node: Any) -> bool:
        """Whether an expression consists of indices, sizes and integer inputs alone, rationally."""
        if node not in self.known:
            self.known[node] = self._of(node)
        return self.known[node]

    def _of(self, node: Any) -> bool:
        if isinstance(node, (sympy.Integer, sympy.Rational, sympy.Float, Index, Dim, KroneckerDelta)):
            return True
        if isinstance(node, Scalar):
            return bool(node.is_integer) and node not in self.defined
        if isinstance(node, Indexed):
            return bool(node.base.label.is_integer) and node.base not in self.defined
        if isinstance(node, (sympy.Add, sympy.Mul)):
            return all(map(self.of, node.args))
        if isinstance(node, sympy.Pow):
            return self.of(node.base) and self.of(node.exp) and bool(node.exp.is_integer)
        if isinstance(node, (Where, Piecewise)):
            return all(self.of(value) for _, value in cases_of(node))
        return False

    def of_inputs(self, node: Any) -> bool:
        """Whether it consists of these and of real inputs, rationally; at a point, all of them are fractions."""
        if isinstance(node, Scalar):
            return node not in self.defined
        if isinstance(node, Indexed):
            return node.base not in self.defined and all(map(self.of, node.indices))
        if isinstance(node, (sympy.Add, sympy.Mul)):
            return all(map(self.of_inputs, node.args))
        if isinstance(node, sympy.Pow):
            return self.of_inputs(node.base) and bool(node.exp.is_Integer)
        return self.of(node)


def exact_number(node: Any) -> int | Fraction:
    """A number of SymPy's as Python's; a decimal is the fraction that it was written as, 0.1 is 1/10."""
    if isinstance(node, sympy.Float):
        return Fraction(str(node))
    return int(node) if node.is_Integer else Fraction(int(node.p), int(node.q))

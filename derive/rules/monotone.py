"""Strictly increasing maps: they change neither which of two values is larger nor where a maximum is.

The set of maximisers of f is the set of maximisers of map(f), for a map that is strictly increasing on an interval that
holds all values of f. What is checked: the map is smooth on the whole interval, its derivative is positive there by
structure, and where the map is stated for positive numbers f is positive. Decreasing maps are refused; `decreasing`
turns maxima into minima and asks for a negative derivative. log is built into the normal form; this rule is for every
other map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import sympy
from sympy import Add, Expr, S

from derive.binders import free_indices, substitute
from derive.differentiation import placed, pull_back
from derive.functions import argmax, argmin
from derive.gradient import influenced_by, inline
from derive.language import Index, Scalar
from derive.normal.signs import reasons_positive
from derive.rules import RuleRefusedError
from derive.rules.obligations import positive, sides_are, written_in
from derive.rules.smoothness import check_smooth
from derive.statements import Claim


@dataclass(frozen=True)
class StrictlyMonotone:
    """argmax(map(f)) = argmax(f), where `map` is an expression in the scalar `of`, which stands for f.

    With `decreasing`, argmin(map(f)) = argmax(f). A scalar that is declared positive makes (0, inf) the interval.
    """

    map: Expr
    of: Scalar
    values: Expr
    over: Index
    among: Index
    decreasing: bool = False
    name: ClassVar[str] = "strictly monotone map"
    statement: ClassVar[str] = (
        "a map whose derivative is positive on an interval is strictly increasing there and keeps the set of "
        "maximisers; one whose derivative is negative turns it into the set of minimisers"
    )
    source: ClassVar[str] = "Rudin 1976, theorem 5.11"

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That the claim's sides are the two sets of maximisers (or minimisers).

        Raises:
            RuleRefusedError: the map is not smooth on the interval or its derivative not known to have the sign, or
                the values are not known to lie in the interval.
        """
        self.hypotheses(claim)
        # A name that depends on the scalar is part of the map, and changes with what stands for the scalar.
        changing = influenced_by(claim.program, [self.of])
        constant = frozenset(known.symbol for known in claim.program.definitions if known.symbol not in changing)
        mapped = substitute(inline(self.map, claim.program, constant), {self.of: self.values})
        image = (argmin if self.decreasing else argmax)(mapped, over=self.over, among=self.among)
        return sides_are(claim, image, argmax(self.values, over=self.over, among=self.among))

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """The declarations that the signs rest on."""
        if self.of.is_integer:
            raise RuleRefusedError(f"{self.of} is an integer; a derivative says nothing about steps between integers")
        map_ = _by_exponentials(written_in(self.map, claim.program))
        if free_indices(map_) & {self.over, self.among}:
            raise RuleRefusedError(f"{self.map} is another map for each {self.over}; expected one map for all")
        check_smooth(map_, self.of, open_domain=False)
        slope = self._slope(map_)
        facts = reasons_positive(-slope if self.decreasing else slope)
        if facts is None:
            wanted, sign = ("decreasing", "negative") if self.decreasing else ("increasing", "positive")
            raise RuleRefusedError(
                f"{self.map} is not known to be strictly {wanted} in {self.of}: its derivative, {slope}, is not known "
                f"to be {sign}"
            )
        own = f"{self.of} > 0"
        inside = positive(self.values, claim.program, f"the values of {self.of}") if self.of.is_positive else []
        return [*(fact for fact in sorted(facts) if fact != own), *inside]

    def _slope(self, map_: Any) -> Expr:
        return Add(*(placed(found, ()) for found in pull_back(map_, S.One, (), lambda leaf: leaf == self.of)))


def _by_exponentials(map_: Any) -> Any:
    """The map with tanh by its definition, 1 - 2/(1 + exp(2 x)), whose derivative shows its sign."""
    return map_.replace(sympy.tanh, lambda x: 1 - 2 / (1 + sympy.exp(2 * x)))

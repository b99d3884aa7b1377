"""Limits of exponentials: exp(-c g) tends to [g = 0] as c grows, for g >= 0, and rational combinations follow.

The body of the limit is stated once more as a *form* over quantities e[...] = exp(-c gap[...]), in which c no longer
occurs: for softmax, numerator and denominator are divided by their largest term. The rule then puts the indicator
[gap = 0] in place of e. Everything else is an obligation: that the body equals the form, that each gap is at least 0
and vanishes where it is said to, and that the form's limit is the claimed one. What is checked here is that the form is
a finite rational combination, and that no denominator tends to 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import sympy
from sympy import Add, Eq, Expr, Indexed, Mul, Pow, Sum, exp

from derive.binders import free_indices
from derive.errors import BudgetExceededError, StatementError
from derive.gradient import inline
from derive.language import Index, Tensor, entry, iverson
from derive.normal.form import normal_form
from derive.normal.ledger import Ledger
from derive.normal.signs import reasons_positive
from derive.operators import Limit
from derive.program import Program
from derive.rules import RuleRefusedError
from derive.rules.obligations import check_unconditional, equality, operator_and_value, written_in
from derive.statements import Claim, Definition


@dataclass(frozen=True)
class Decay:
    """The quantity `symbol` at `indices` is exp(-c gap), with gap >= 0; `vanishes` is 1 where the gap is 0, else 0."""

    symbol: Tensor
    indices: tuple[Index, ...]
    gap: Expr
    vanishes: Expr


@dataclass(frozen=True)
class LimitOfDecays:
    """The limit of a body that equals `form`, a rational combination of decaying exponentials."""

    form: Expr
    decays: tuple[Decay, ...]
    name: ClassVar[str] = "limit of exponentials"
    statement: ClassVar[str] = (
        "for g >= 0, exp(-c g) tends to [g = 0] as c grows; limits pass through finite sums and products, and through "
        "quotients whose denominator does not tend to 0"
    )
    source: ClassVar[str] = "Rudin 1976, theorems 3.3 and 8.6"

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """That the body is the form, that the gaps are at least 0 and vanish where stated, and what the limit is.

        Raises:
            RuleRefusedError: the claim is not limit(body) = value, the form is no rational combination of the decays,
                a condition is about the number that grows or restricts an index of a decay, or a denominator tends to
                0 or is not known not to.
        """
        node, value = operator_and_value(claim, Limit, "limit(body)")
        (grows,) = node.inputs
        check_unconditional(claim, node.inputs)
        self._check_constant(claim, value, grows)
        self._check_indices(claim)
        self._check_rational(self.form)
        exact = self._written_in({d.symbol: exp(-grows * d.gap) for d in self.decays})
        tends = self._written_in({d.symbol: d.vanishes for d in self.decays})
        parts = [equality(claim, "the body is the form", inline(node.body, claim.program), exact)]
        for decay in self.decays:
            parts.append(equality(claim, f"the gap {decay.gap} is at least 0", iverson(decay.gap >= 0), 1))
            zero = f"the gap {decay.gap} is 0 where {decay.vanishes} is 1"
            parts.append(equality(claim, zero, iverson(Eq(decay.gap, 0)), decay.vanishes))
        for denominator in self._denominators(self.form):
            parts += self._apart_from_zero(claim, denominator)
        return [*parts, equality(claim, "the limit of the form", tends, value)]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """None beyond those of the obligations."""
        return []

    def _written_in(self, bodies: dict[Tensor, Expr], form: Expr | None = None) -> Any:
        """The form, or a part of it, with bodies in place of the decaying quantities."""
        definitions = [Definition(d.symbol, d.indices, bodies[d.symbol]) for d in self.decays]
        return inline(self.form if form is None else form, Program("decays", definitions=definitions))

    def _symbols(self) -> set[Tensor]:
        return {decay.symbol for decay in self.decays}

    def _check_constant(self, claim: Claim, value: Any, grows: Any) -> None:
        """Nothing but the decaying quantities may depend on the number that grows."""
        parts = [value, self.form, *(part for d in self.decays for part in (d.gap, d.vanishes))]
        for part in parts:
            if written_in(part, claim.program).has(grows):
                raise RuleRefusedError(f"{part} depends on {grows}; only the body of the limit may")
        for decay in self.decays:
            if (decay.gap.atoms(Tensor) | decay.vanishes.atoms(Tensor)) & self._symbols():
                raise RuleRefusedError(f"the gap of {decay.symbol.name} is stated with a decaying quantity")

    def _check_indices(self, claim: Claim) -> None:
        """An index to which a condition applies at the claim's own position may not be another one in the form."""
        single = free_indices(claim.left) | free_indices(claim.right)
        bound = {limit[0] for node in self.form.atoms(Sum) for limit in node.limits}
        for decay in self.decays:
            for place, index in enumerate(decay.indices):
                if index not in single or not any(index in free_indices(condition) for condition in claim.given):
                    continue
                reads = {found.indices[place] for found in self.form.atoms(Indexed) if found.base == decay.symbol}
                if index in bound or reads - {index}:
                    raise RuleRefusedError(
                        f"the conditions hold at the claim's own {index} only, but the form uses {decay.symbol.name} "
                        f"at others as well; state the decay with an index that the claim does not have"
                    )

    def _check_rational(self, node: Any) -> None:
        if not node.atoms(Tensor) & self._symbols() or isinstance(node, Indexed):
            return
        whole = isinstance(node, Pow) and node.exp.is_Integer
        if not (whole or isinstance(node, (Add, Mul, Sum))):
            raise RuleRefusedError(f"{node} is no rational combination of the decaying quantities")
        for part in (node.base,) if whole else (node.function,) if isinstance(node, Sum) else node.args:
            self._check_rational(part)

    def _denominators(self, node: Any) -> Iterator[Expr]:
        for power in sorted(node.atoms(Pow), key=sympy.default_sort_key):
            if power.exp.is_negative and power.base.atoms(Tensor) & self._symbols():
                yield power.base

    def _apart_from_zero(self, claim: Claim, denominator: Expr) -> list[Claim]:
        """The obligation that a denominator tends to a constant that is not 0; none if its structure shows a sign."""
        tends = self._written_in({d.symbol: d.vanishes for d in self.decays}, denominator)
        if reasons_positive(written_in(tends, claim.program)) is not None:
            return []
        try:
            constant = normal_form(Ledger(seconds=1.0), written_in(tends, claim.program)).constant()
        except (StatementError, BudgetExceededError) as error:
            raise RuleRefusedError(f"the denominator {denominator} tends to {tends}: {error}") from error
        if constant == 0:
            raise RuleRefusedError(f"the denominator {denominator} tends to 0")
        if constant is None:
            raise RuleRefusedError(f"the denominator {denominator} tends to {tends}, which is not known not to be 0")
        return [equality(claim, f"the denominator tends to {constant}", tends, sympy.Rational(str(constant)))]


def decay(symbol: Tensor, *indices: Index, gap: Expr, vanishes: Expr) -> tuple[Decay, Expr]:
    """A decay, and the entry that the form is written with."""
    return Decay(symbol, indices, gap, vanishes), entry(symbol, indices)

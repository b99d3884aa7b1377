"""Expectation over independent entries: linear, multiplicative over independent factors, E[x_a x_b] = delta(a, b).

Every `Expectation` in a claim is worked out: the body is multiplied out into sums of products of random entries, each
product is split by tensor, and the moments are put in. What is left is an equality without random quantities, which is
the obligation. Only means and variances are known; a product of three or more entries of one tensor is refused, and
that is also what becomes of entries that are not independent, because one is computed from the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import sympy
from sympy import Add, Expr, Indexed, Mul, S

from derive.binders import all_names, fresh_index, map_children, substitute
from derive.language import Index, Sum, Tensor, delta
from derive.operators import Expectation
from derive.rules import RuleRefusedError
from derive.rules.obligations import check_unconditional, equality, written_in
from derive.statements import Claim


@dataclass(frozen=True)
class Moments:
    """Expectations by the moments of independent entries with mean 0 and variance 1."""

    name: ClassVar[str] = "moments of independent entries"
    statement: ClassVar[str] = (
        "E is linear, E[x y] = E[x] E[y] for independent x and y, and for independent entries with mean 0 and "
        "variance 1, E[x_a] = 0 and E[x_a x_b] = delta(a, b)"
    )
    source: ClassVar[str] = "Feller 1968, chapter IX"

    def obligations(self, claim: Claim) -> Sequence[Claim]:
        """The claim with every expectation worked out.

        Raises:
            RuleRefusedError: there is no expectation, a condition is about random entries, the body is no polynomial in
                them, or a moment beyond the variance would be needed.
        """
        if not (claim.left.has(Expectation) or claim.right.has(Expectation)):
            raise RuleRefusedError(f"expected a claim about an expectation, found {claim}")
        for node in sorted(claim.left.atoms(Expectation) | claim.right.atoms(Expectation), key=str):
            check_unconditional(claim, node.inputs)
        left, right = (_without_expectations(side, claim) for side in (claim.left, claim.right))
        return [equality(claim, "the claim with its expectations worked out", left, right)]

    def hypotheses(self, claim: Claim) -> Sequence[str]:
        """That the entries are independent, with mean 0 and variance 1."""
        found = {node for side in (claim.left, claim.right) for node in side.atoms(Expectation)}
        names = sorted({str(known.name) for node in found for known in node.inputs})
        return [f"the entries of {' and '.join(names)} are independent, with mean 0 and variance 1"]


def _without_expectations(side: Any, claim: Claim) -> Any:
    if not isinstance(side, Expectation):
        return map_children(side, lambda part: _without_expectations(part, claim))
    body = _without_expectations(written_in(side.body, claim.program), claim)
    taken = set(all_names(sympy.Tuple(claim.left, claim.right, body, *claim.given)))
    return Add(*(_expected(term, side.inputs) for term in _multiplied_out(body, side.inputs, taken)))


@dataclass(frozen=True)
class _Term:
    """The sum over `bound` of a constant coefficient times random entries."""

    bound: tuple[Index, ...]
    coefficient: Expr
    entries: tuple[Indexed, ...]


def _multiplied_out(node: Any, random: tuple[Tensor, ...], taken: set[str]) -> list[_Term]:
    """The terms of an expression; bound indices get names that occur nowhere else."""
    if not node.atoms(Tensor) & set(random):
        return [_Term((), node, ())]
    if isinstance(node, Indexed) and node.base in random:
        return [_Term((), S.One, (node,))]
    if isinstance(node, Add):
        return [term for part in node.args for term in _multiplied_out(part, random, taken)]
    if isinstance(node, Mul):
        return _products([_multiplied_out(part, random, taken) for part in node.args])
    if isinstance(node, sympy.Pow) and node.exp.is_Integer and node.exp > 0:
        return _products([_multiplied_out(node.base, random, taken) for _ in range(int(node.exp))])
    if isinstance(node, sympy.Sum):
        return list(_terms_of_sum(node, random, taken))
    raise RuleRefusedError(f"{node} is no polynomial in the random entries; moments do not give its expectation")


def _products(factors: list[list[_Term]]) -> list[_Term]:
    """The products of one term of each factor."""
    return [
        _Term(
            tuple(index for term in chosen for index in term.bound),
            Mul(*(term.coefficient for term in chosen)),
            tuple(entry for term in chosen for entry in term.entries),
        )
        for chosen in product(*factors)
    ]


def _terms_of_sum(node: Any, random: tuple[Tensor, ...], taken: set[str]) -> Iterator[_Term]:
    names: dict[Any, Any] = {}
    for index, *_ in reversed(node.limits):
        fresh = fresh_index(substitute(index, names), taken)
        taken.add(fresh.name)
        names[index] = fresh
    for term in _multiplied_out(substitute(node.function, names), random, taken):
        yield _Term((*names.values(), *term.bound), term.coefficient, term.entries)


def _expected(term: _Term, random: tuple[Tensor, ...]) -> Expr:
    """The expectation of one term, by the moments of each tensor."""
    factors = [term.coefficient]
    for known in random:
        entries = [entry for entry in term.entries if entry.base == known]
        if len(entries) > 2:
            raise RuleRefusedError(
                f"the expectation of {Mul(*entries)} is a moment of order {len(entries)} of {known.name}, or its "
                "factors are dependent; only mean and variance are known"
            )
        if len(entries) == 1:
            return S.Zero  # the mean
        if entries:
            first, second = (entry.indices for entry in entries)
            factors += [delta(left, right) for left, right in zip(first, second, strict=True)]
    body = Mul(*factors)
    return Sum(body, *term.bound) if term.bound else body

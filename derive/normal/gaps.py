"""Gaps: what is at least 0 by an inequality that everybody knows, with the coefficient that makes a term go.

Each table of `TABLES` reads a polynomial and gives gaps that are worth taking away from it, each with its law. Used by
`derive.normal.bounds`, which looks at what is left. Every gap is at least 0 at all values; weights beside one are at
least 0 by their factors.

- c m b for what a case says of b;
- exp(u) >= exp(v) (1 + u - v);
- a sum of terms that are not negative is at least any one of them;
- (Sum f g)^2 <= Sum f^2 Sum g^2; (Sum f)^2 >= Sum f^2 where f >= 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from derive.normal import positivity, products, renaming, rewriting, sums
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNITY,
    Atom,
    Bracket,
    Exp,
    Exponent,
    Monomial,
    Polynomial,
    Rational,
    Total,
    Var,
    from_atom,
    monomial_key,
    ratio,
    sorted_monomial,
    total,
)

Gap = tuple[str, Polynomial]


def known(ledger: Ledger) -> Iterator[tuple[Polynomial, bool]]:
    """What the branches that are being read say to be positive, which is strict, or not to be negative."""
    for branch in ledger.branches:
        for strict, form in ((True, branch.form), (False, UNITY - branch.form)):
            one = form.single()
            if one is not None and one[1] == 1 and len(one[0]) == 1 and isinstance(one[0][0][0], Bracket):
                yield one[0][0][0].inside.scaled(1 if strict else -1), strict


def _facts(ledger: Ledger, polynomial: Polynomial) -> Iterator[Gap]:
    """Gaps c m b for what the branch that is being read says not to be negative, where a term goes."""
    for fact, _ in known(ledger):
        for monomial, coefficient in fact.ordered():
            for whole, share in polynomial.ordered():
                weight = _quotient(whole, monomial)
                if share * coefficient > 0 and is_weight(weight):
                    scale = share * ratio(coefficient.denominator, coefficient.numerator)
                    yield "the sign that the case says", products.product(ledger, [Polynomial({weight: scale}), fact])


def _quotient(above: Monomial, below: Monomial) -> Monomial:
    """The quotient of two monomials, powers taken away and nothing else."""
    exponents = dict(above)
    for atom, power in below:
        exponents[atom] = exponents.get(atom, 0) - power
    return sorted_monomial(exponents)


def _tangents(ledger: Ledger, polynomial: Polynomial) -> Iterator[Gap]:
    """Gaps c m (e^u - e^v (1 + u - v)) for each term c m e^u, alone or in a sum, and each v of another term, or 0."""
    others = {tuple(pair for pair in m if _is_exponential(pair)) for m in polynomial.terms} | {()}
    for monomial, coefficient in polynomial.ordered():
        summed = [a for a, e in monomial if isinstance(a, Total) and e == 1][:1]
        bound, body = sums.opened(ledger, summed[0]) if summed else ([], Polynomial({monomial: ONE}))
        one = body.single()
        beside = tuple(pair for pair in monomial if summed and pair[0] != summed[0])
        if one is None or coefficient < 0 or not is_nonnegative(beside):
            continue
        upper = tuple(pair for pair in one[0] if _is_exponential(pair))
        weight = Polynomial({tuple(pair for pair in one[0] if pair not in upper): coefficient * one[1]})
        if not positivity.is_nonnegative(weight):
            continue
        for lower in sorted(others - {upper}, key=monomial_key):
            line = UNITY + _exponent(upper) - _exponent(lower)
            above = Polynomial({upper: ONE}) - products.product(ledger, [Polynomial({lower: ONE}), line])
            gap = sums.sum_over(ledger, bound, products.product(ledger, [weight, above]))
            yield "exp(u) >= exp(v) (1 + u - v)", products.product(ledger, [Polynomial({beside: ONE}), gap])


def _is_exponential(factor: tuple[Atom, Exponent]) -> bool:
    return isinstance(factor[0], Exp) and factor[0].positive


def _exponent(exponentials: Monomial) -> Polynomial:
    """The logarithm of a product of exponentials."""
    return total(Polynomial({a.monomial: e}) for a, e in exponentials if isinstance(a, Exp))


def _largest_terms(ledger: Ledger, polynomial: Polynomial) -> Iterator[Gap]:
    """Gaps c m (Sum_i f(i) - f(k)) for a term c m Sum_i f(i), and each free index k that i can be."""
    free = {part for part in rewriting.parts_in(polynomial) if isinstance(part, Var) and part.name in polynomial.free}
    for monomial, coefficient, atom, power, rest in _sums_in(polynomial):
        if coefficient > 0 and power == 1 and len(atom.bound) == 1 and is_nonnegative(atom.monomial):
            for var in sorted(free, key=lambda var: var.key):
                if extents([var]) == extents(atom.bound):
                    entry = products.product(ledger, [Polynomial({rest: coefficient}), body_of(ledger, atom, [var])])
                    law = "a sum of what is at least 0 is at least each of its terms"
                    yield law, Polynomial({monomial: coefficient}) - entry


def _products_of_sums(ledger: Ledger, polynomial: Polynomial) -> Iterator[Gap]:
    """Gaps c m (Sum f^2 Sum g^2 - (Sum f g)^2) for a term - c m (Sum f g)^2, and each sum that Sum f^2 can be."""
    for _, coefficient, atom, power, rest in _sums_in(polynomial):
        if coefficient > 0 or power != 2:
            continue
        bound, body = sums.opened(ledger, atom)
        for other in totals_in(polynomial):
            one, first = body.single(), body_of(ledger, other, bound).single() if _same(other, atom) else None
            if one is None or first is None or one[1] != 1 or first[1] != 1 or not is_nonnegative(first[0]):
                continue
            beyond = _quotient(sorted_monomial({a: 2 * e for a, e in one[0]}), first[0])
            if is_weight(beyond):
                second = products.normal_monomial(ledger, ONE, beyond)
                both = products.product(ledger, [from_atom(other), sums.sum_over(ledger, bound, second)])
                gap = products.product(ledger, [Polynomial({rest: -coefficient}), both - from_atom(atom, power)])
                yield "Cauchy and Schwarz: (Sum f g)^2 <= Sum f^2 Sum g^2", gap


def _squares_of_sums(ledger: Ledger, polynomial: Polynomial) -> Iterator[Gap]:
    """Gaps c m ((Sum f)^2 - Sum f^2) for a term c m (Sum f)^2 of what is not negative."""
    for _, coefficient, atom, power, rest in _sums_in(polynomial):
        if coefficient > 0 and power == 2 and is_nonnegative(atom.monomial):
            bound, body = sums.opened(ledger, atom)
            below = sums.sum_over(ledger, bound, products.product(ledger, [body, body]))
            gap = products.product(ledger, [Polynomial({rest: coefficient}), from_atom(atom, power) - below])
            yield "(Sum f)^2 >= Sum f^2 where f >= 0", gap


def is_square_of_sum(ledger: Ledger, atom: Total) -> bool:
    """Whether a sum is one of squares of sums: of c f(a) f(b), where c is not negative and has neither a nor b.

    Nor has the range of any other index: of c < L(a) and b, one is left out where the other is not.
    """
    ranges = frozenset().union(*(var.extent.free for var in atom.bound))
    for a, b in combinations(atom.bound, 2):
        if {a.name, b.name} & ranges:
            continue
        of = [{var.name for var in (a, b)} & factor.free for factor, _ in atom.monomial]
        if extents([a]) != extents([b]) or any(len(names) == 2 for names in of):
            continue
        first, second, beside = (
            tuple(pair for pair, names in zip(atom.monomial, of, strict=True) if names == wanted)
            for wanted in ({a.name}, {b.name}, set())
        )
        turned = renaming.renamed_monomial(ledger, first, {a.name: b})
        if is_nonnegative(beside) and turned.key == Polynomial({second: ONE}).key:
            return True
    return False


def _same(first: Total, second: Total) -> bool:
    """Whether two sums, which are not one, run over the same ranges."""
    return first != second and extents(first.bound) == extents(second.bound)


def _sums_in(polynomial: Polynomial) -> Iterator[tuple[Monomial, Rational, Total, Exponent, Monomial]]:
    """Each sum in a term, with the term, its coefficient, the sum's power, and what stands beside it, if at least 0."""
    for monomial, coefficient in polynomial.ordered():
        for atom, power in monomial:
            rest = tuple(pair for pair in monomial if pair[0] != atom)
            if isinstance(atom, Total) and is_nonnegative(rest):
                yield monomial, coefficient, atom, power, rest


def is_weight(monomial: Monomial) -> bool:
    """Whether a monomial that is no term has a value everywhere and is never negative: s^2, or 1/w for w > 0."""
    return is_nonnegative(monomial) and all(e >= 0 or a.positive for a, e in monomial)


def is_nonnegative(monomial: Monomial) -> bool:
    """Whether no factor of the monomial can be negative where it has a value."""
    return positivity.is_nonnegative(Polynomial({monomial: ONE}))


def totals_in(polynomial: Polynomial) -> list[Total]:
    """The sums in the terms, each once."""
    return sorted({a for m in polynomial.terms for a, _ in m if isinstance(a, Total)}, key=lambda atom: atom.key)


def body_of(ledger: Ledger, atom: Total, bound: list[Var]) -> Polynomial:
    """What a sum is of, with other names for its indices."""
    names: dict[str, Atom] = {old.name: new for old, new in zip(atom.bound, bound, strict=True)}
    return renaming.renamed_monomial(ledger, atom.monomial, names)


def extents(bound: Sequence[Var]) -> list[str]:
    """The ranges of indices, as text."""
    return [var.extent.key for var in bound]


Table = Callable[[Ledger, Polynomial], Iterator[Gap]]
TABLES: tuple[Table, ...] = (_facts, _tangents, _largest_terms, _products_of_sums, _squares_of_sums)

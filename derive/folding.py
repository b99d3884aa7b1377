"""Folding: what can be written with values already at hand is written with them.

An adjoint comes out of the chain rule in terms of definitions: exp(S[i,j]) / Sum(exp(S[i,k]), k) * dA[i,j]. The
forward pass has named that quotient A[i,j], so the adjoint is A[i,j] * dA[i,j]. Folding looks at each term as a
product of powers and divides by the body of a definition, as often as it goes in: r = (v + eps)^(-1/2) turns (v +
eps)^(-3/2) into r^3. The definition's indices are matched to the term's by unification, so nothing is known about any
particular function.

Folding only ever replaces a body by the name defined as that body. It cannot make a formula wrong, only longer or
shorter; `derive.prove` checks every adjoint against its expansion all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Add, And, Expr, Indexed, KroneckerDelta, Mul, Or, Pow, S
from sympy.core.relational import Relational

from derive.binders import Scope, all_names, free_indices, fresh_index, leaves_of, map_children, scope_of, substitute
from derive.differentiation import contracted_sum
from derive.functions import unfold
from derive.language import Index, Scalar, Tensor, Where, extent_of, is_bracket

if TYPE_CHECKING:
    from derive.statements import Definition

Binding = Mapping[Index, Expr]
Powers = dict[Expr, Expr]
MAX_ARGUMENTS = 5  # of a sum or product that is matched in any order


@dataclass(frozen=True)
class Pattern:
    """A definition's body as a product of powers: value = coefficient * product of base^exponent."""

    definition: Definition
    factors: tuple[tuple[Expr, Expr], ...]
    coefficient: Expr


@dataclass(frozen=True)
class Known:
    """Definitions at hand, found by a symbol of their body: a body can only be met where all its symbols are.

    Without this, folding every adjoint of a program would cost the square of the program's length.
    """

    by_symbol: Mapping[Any, Sequence[tuple[frozenset[Any], Definition]]]

    @classmethod
    def of(cls, definitions: Sequence[Definition]) -> Known:
        """The given definitions, each under the first of its symbols by name."""
        found: dict[Any, list[tuple[frozenset[Any], Definition]]] = {}
        for definition in definitions:
            symbols = _numbers_in(definition.body)
            if symbols:
                found.setdefault(min(symbols, key=lambda symbol: str(symbol.name)), []).append((symbols, definition))
        return cls(found)

    def near(self, expression: Expr) -> list[Definition]:
        """The definitions all of whose symbols occur in the expression, in order of name."""
        present = _numbers_in(expression)
        entries = [entry for symbol in present for entry in self.by_symbol.get(symbol, ())]
        return sorted((d for symbols, d in entries if symbols <= present), key=lambda d: d.name)


def _numbers_in(expression: Expr) -> frozenset[Any]:
    return frozenset(leaf for leaf in leaves_of(expression) if isinstance(leaf, (Tensor, Scalar)))


def fold(expression: Expr, definitions: Sequence[Definition] | Known) -> Expr:
    """The expression with bodies of the given definitions replaced by their names, common factors taken out."""
    known = definitions if isinstance(definitions, Known) else Known.of(definitions)
    patterns = [pattern for definition in known.near(expression) if (pattern := _pattern_of(definition)) is not None]
    return _fold(unfold(expression), patterns)


@lru_cache(maxsize=20_000)
def _pattern_of(definition: Definition) -> Pattern | None:
    """The definition as a pattern, None when its body is no product or too plain to be worth a name."""
    coefficient, powers = _as_powers(unfold(definition.body))
    telling = [
        base for base, exponent in powers.items()
        if isinstance(base, (sympy.Function, sympy.Sum, Where)) or exponent.is_integer is False or exponent.is_negative
    ]  # fmt: skip
    if not telling or any(isinstance(base, KroneckerDelta) for base in powers):
        return None
    first = sorted(powers.items(), key=lambda pair: (pair[0] not in telling, sympy.default_sort_key(pair[0])))
    return Pattern(definition, tuple(first), coefficient)


def _as_powers(term: Expr) -> tuple[Expr, Powers]:
    """(number, {base: exponent}) with term = number * product of base^exponent; exp(c x) counts as exp(x)^c."""
    number: Expr = S.One
    powers: Powers = {}
    for factor in Mul.make_args(term):
        if _is_number(factor):
            number = number * factor
            continue
        if isinstance(factor, sympy.exp):
            exponent, inner = factor.args[0].as_coeff_Mul()
            base = sympy.exp(inner)
        else:
            base, exponent = factor.as_base_exp() if isinstance(factor, Pow) else (factor, S.One)
        powers[base] = S.One if is_bracket(base) and exponent.is_positive else powers.get(base, S.Zero) + exponent
    return number, powers


@lru_cache(maxsize=20_000)
def _is_number(factor: Expr) -> bool:
    # Asked of a sum, SymPy rebuilds it in full: first see whether it can be one.
    return not _fixed_leaves(factor) and bool(factor.is_number)


def _from_powers(number: Expr, powers: Powers) -> Expr:
    return Mul(number, *(base**exponent for base, exponent in powers.items()))


def _fold(expression: Expr, patterns: list[Pattern]) -> Expr:
    """The expression with products, also below sums, divided by what is known, as long as one of them can be."""
    if isinstance(expression, Add):
        return factored([_fold(term, patterns) for term in expression.args])
    if isinstance(expression, (Indexed, sympy.Symbol)) or not expression.args:
        return expression
    number, powers = _as_powers(expression)
    folded = _divide(number, powers, patterns)
    if folded is not None:
        return _fold(folded, patterns)
    spread = _spread(expression)
    if spread is not None:
        body, scope = spread
        divided = _divide(*_as_powers(body), patterns)
        if divided is not None:
            while (again := _divide(*_as_powers(divided), patterns)) is not None:
                divided = again
            return _fold(contracted_sum(divided, scope), patterns)
    return map_children(expression, lambda part: _fold(part, patterns) if isinstance(part, Expr) else part)


def _divide(number: Expr, powers: Powers, patterns: list[Pattern]) -> Expr | None:
    """The product with one pattern divided out as often as it goes; None when none goes in."""
    for pattern in patterns:
        for binding, times, targets in _matches(pattern.factors, powers, {}, None):
            if not binding.keys() >= set(pattern.definition.indices):
                continue  # the body is constant along an index: nothing says where to read it
            left = dict(powers)
            for (_, exponent), target in zip(pattern.factors, targets, strict=True):
                left[target] -= exponent * times
            where = [binding[index] for index in pattern.definition.indices]
            symbol = pattern.definition.symbol
            value = symbol[tuple(where)] if isinstance(symbol, Tensor) else symbol
            return _from_powers(number / pattern.coefficient**times, left) * value**times
    return None


def _matches(
    factors: tuple[tuple[Expr, Expr], ...], powers: Powers, binding: Binding, times: Expr | None
) -> Iterator[tuple[Binding, Expr, tuple[Expr, ...]]]:
    """How the factors go into a product: the indices' values, how often, and what each factor meets."""
    if not factors:
        if times is not None:
            yield binding, times, ()
        return
    (base, exponent), *rest = factors
    for target, present in powers.items():
        ratio = present / exponent
        # The reciprocal of a root, and of nothing else, is written with the root: 1/norm.
        inverse = times is None and not rest and exponent.is_Rational and 0 < exponent < 1
        if not ratio.is_Rational or abs(ratio) < 1 or (ratio < 0 and not inverse):
            continue
        whole = sympy.floor(ratio) if ratio > 0 else sympy.ceiling(ratio)
        goes = whole if times is None else min(times, whole)
        # Sum(x[j], j) and Sum(x[k], k) are two factors that meet alike: what one has met is none of the other's.
        others = {other: power for other, power in powers.items() if other != target}
        for found in unify(base, target, binding):
            for bound, often, targets in _matches(tuple(rest), others, found, goes):
                yield bound, often, (target, *targets)


def _spread(term: Expr) -> tuple[Expr, list[Index]] | None:
    """A product with sums among its factors as one sum of a product: (body, indices); None when there is no sum."""
    scope: list[Index] = []
    taken = set(all_names(term))
    factors: list[Expr] = []
    opened = False
    for factor in Mul.make_args(term):
        if not isinstance(factor, sympy.Sum) or isinstance(factor.function, Add):
            factors.append(factor)
            continue
        opened = True
        names: dict[Any, Any] = {}
        for index, *_ in reversed(factor.limits):
            new = substitute(index, names)
            if index.name in {i.name for i in free_indices(term)} | {i.name for i in scope}:
                new = fresh_index(new, taken)
                taken.add(new.name)
                names[index] = new
            scope.append(new)
        factors.append(substitute(factor.function, names))
    return (Mul(*factors), scope) if opened else None


# ---------------------------------------------------------------------------------------------------------------------
# Unification: the pattern's free indices are the variables.


def unify(pattern: Any, target: Any, binding: Binding) -> Iterator[Binding]:
    """All bindings of the pattern's indices under which it equals the target, bound indices up to renaming."""
    if isinstance(pattern, Index):
        if pattern in binding:
            if binding[pattern] == target:
                yield binding
        elif extent_of(target) == pattern.extent:
            yield {**binding, pattern: target}
        return
    if not pattern.args or isinstance(pattern, Tensor):
        if pattern == target:
            yield binding
        return
    if isinstance(pattern, Relational) and isinstance(target, Relational):
        pattern, target = _upward(pattern), _upward(target)
    if pattern.func is not target.func or len(pattern.args) != len(target.args):
        return
    if not _fixed_leaves(pattern) <= _fixed_leaves(target):  # seen at once, where renaming and permuting take long
        return
    if scope_of(pattern) is not None:
        yield from _unify_binders(pattern, target, binding)
        return
    if isinstance(pattern, (Add, Mul, And, Or)) and len(pattern.args) <= MAX_ARGUMENTS:
        for order in permutations(target.args):
            yield from _unify_all(pattern.args, order, binding)
        return
    yield from _unify_all(pattern.args, target.args, binding)


@lru_cache(maxsize=50_000)
def _fixed_leaves(expression: Any) -> frozenset[Any]:
    """The leaves that unification leaves as they are: all but indices."""
    return frozenset(leaf for leaf in leaves_of(expression) if not isinstance(leaf, Index))


def _upward(relation: Any) -> Any:
    """The relation with the greater side on the right, so that i >= j and j <= i meet."""
    return relation.reversed if isinstance(relation, (sympy.Ge, sympy.Gt)) else relation


def _unify_all(patterns: Sequence[Any], targets: Sequence[Any], binding: Binding) -> Iterator[Binding]:
    if not patterns:
        yield binding
        return
    for found in unify(patterns[0], targets[0], binding):
        yield from _unify_all(patterns[1:], targets[1:], found)


def _unify_binders(pattern: Any, target: Any, binding: Binding) -> Iterator[Binding]:
    left, right = scope_of(pattern), scope_of(target)
    if left is None or right is None or len(left.bound) != len(right.bound):
        return
    taken = set(all_names(pattern) | all_names(target)).union(*map(all_names, binding.values()))
    bound, inside = _renamed_apart(left, taken)
    others, targets = _renamed_apart(right, taken)
    together = dict(zip(bound, others, strict=True))
    for found in _unify_all([*inside, *left.outside], [*targets, *right.outside], {**binding, **together}):
        kept = {index: value for index, value in found.items() if index not in together}
        if not any(free_indices(value) & set(others) for value in kept.values()):
            yield kept


def _renamed_apart(scope: Scope, taken: set[str]) -> tuple[list[Index], list[Any]]:
    """A binder's indices under fresh names, which are added to `taken`; then its ranges and its inside with them."""
    names: dict[Any, Any] = {}
    for index in scope.bound:
        names[index] = fresh_index(substitute(index, names), taken)
        taken.add(names[index].name)
    fresh: list[Index] = list(names.values())
    return fresh, [*(index.extent for index in fresh), *(substitute(part, names) for part in scope.inside)]


def same(left: Any, right: Any) -> bool:
    """Whether two expressions agree up to the names of bound indices."""
    return any(True for _ in unify(left, right, {index: index for index in free_indices(left)}))


def factored(terms: Sequence[Expr]) -> Expr:
    """The sum of the terms with their common factors taken out."""
    parts = [_as_powers(term) for term in Add.make_args(Add(*terms))]
    if len(parts) < 2:
        return Add(*terms)
    common = {
        base: exponent for base, exponent in parts[0][1].items()
        if exponent.is_positive and all(powers.get(base) == exponent for _, powers in parts[1:])
    }  # fmt: skip
    if not common:
        return Add(*terms)
    rest = [_from_powers(number, {b: e for b, e in powers.items() if b not in common}) for number, powers in parts]
    return Mul(_from_powers(S.One, common), Add(*rest))

"""The cheapest form of an expression: other names for parts of it, other associations, terms that are gone.

The engine of the passes `codegen.algebra.reuse` and `codegen.algebra.elimination`. A term may be written in other ways
by three steps, each an identity of real numbers:

    a definition is written in, and the sums merged         Sum_j(A[i,j]*dA[i,j]) = Sum_j,c(A[i,j]*dO[i,c]*V[j,c])
    factors are read from a definition                                           = Sum_c(dO[i,c]*O[i,c])
    a sum that is 0 or 1 in every size is replaced                    Sum_c(xc[n,c]) = 0

What is cheapest at typical sizes is taken; what is at hand (inputs, forward values, other definitions of the routine)
costs no more than reading it. No step is looked up: the first two are unification, and the third asks the prover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul

from codegen.algebra.constants import simplified
from codegen.algebra.estimates import cost_of, cost_of_terms
from codegen.algebra.factoring import collected, difference
from codegen.algebra.networks import Term, merged, names_in, opened, readings, term_of, terms_of, times
from codegen.algebra.rewriting import Changes, Setting, depending, name_of
from derive.binders import free_indices, map_children
from derive.functions import Defined
from derive.language import Index, Scalar
from derive.statements import Definition

DEPTH = 2  # definitions that are written in one after the other
MOST_PARTS = 4  # terms of a definition that is written in


@dataclass(frozen=True)
class Shelf:
    """Definitions that can be read in place of factors, found by the names that these mention.

    A routine has as many definitions as it is long, and a term mentions few of their names: only these are looked at.
    """

    by_name: Mapping[str, Sequence[tuple[int, Definition, Term]]]

    @classmethod
    def of(cls, definitions: Sequence[Definition]) -> Shelf:
        """The definitions, each under one of the names in its body."""
        found: dict[str, list[tuple[int, Definition, Term]]] = {}
        for place, definition in enumerate(definitions):
            form = pattern(definition)
            if form is not None:
                found.setdefault(min(form.names, default=""), []).append((place, definition, form))
        return cls(found)

    def among(self, names: frozenset[str]) -> list[tuple[Definition, Term]]:
        """The definitions that mention no other names, with their bodies as terms, in the order they came in."""
        entries = [entry for name in ("", *names) for entry in self.by_name.get(name, ()) if entry[2].names <= names]
        return [(definition, form) for _, definition, form in sorted(entries, key=lambda entry: entry[0])]


@dataclass
class Search:
    """The cheapest forms of expressions and terms, given what is at hand; forms that were found are kept."""

    setting: Setting
    at_hand: Shelf
    within: Mapping[str, Definition]
    known: dict[Any, Any] = field(default_factory=dict)

    def improved(self, node: Expr) -> tuple[Expr, Changes]:
        """The cheapest form found of an expression, and what was replaced by what; the expression where none is."""
        if node not in self.known:
            best: tuple[Expr, Changes] = (node, ())
            for found in self._candidates(node):
                if self.cost(found[0]) < self.cost(best[0]):
                    best = found
            self.known[node] = best
        return self.known[node]  # type: ignore[no-any-return]

    def _candidates(self, node: Expr) -> Iterator[tuple[Expr, Changes]]:
        kept, changes = self._in_place(node)
        yield kept, changes
        if isinstance(kept, Add):
            yield collected([term_of(term) for term in kept.args]), changes
        if isinstance(node, (Add, Mul, sympy.Sum)):
            yield self._multiplied_out(node)

    def _in_place(self, node: Any) -> tuple[Expr, Changes]:
        """The expression with its parts improved, its structure kept."""
        if not node.has(sympy.Sum, Indexed) or isinstance(node, (Indexed, Defined)):
            return node, ()
        changes: list[tuple[Expr, Expr]] = []

        def part_of(part: Any) -> Any:
            if not isinstance(part, Expr):
                return part
            new, made = self.improved(part)
            changes.extend(made)
            return new

        def with_parts(part: Any) -> Any:
            return map_children(part, part_of)

        if isinstance(node, sympy.log) and _is_mixture(node.args[0]):
            return sympy.log(with_parts(node.args[0])), tuple(changes)
        if not isinstance(node, (Mul, sympy.Sum)):
            return with_parts(node), tuple(changes)
        term = term_of(node)
        inner = {
            base: with_parts(base) if power.is_negative and _is_mixture(base) else part_of(base)
            for base, power in term.factors if not isinstance(base, (Indexed, Scalar))
        }  # fmt: skip
        powers = Mul(*(inner.get(base, base) ** power for base, power in term.factors))
        whole = times(Term(term.coefficient, (), term.scope), term_of(powers)) if inner else term
        after = self.best(whole)
        if after == (term,):
            return node, ()
        if after != (whole,):
            changes.append(difference(whole, after))
        return collected(after), tuple(changes)

    def _multiplied_out(self, node: Expr) -> tuple[Expr, Changes]:
        """The expression as a sum of terms, each in its cheapest form, like terms taken together."""
        terms = terms_of(node)
        after = merged(found for term in terms for found in self.best(term))
        changes = [difference(term, self.best(term)) for term in terms if self.best(term) != (term,)]
        return collected(after), tuple(changes)

    def cost(self, node: Expr) -> int:
        """The cost of an expression at typical sizes."""
        return cost_of(node, self.setting.sizes).at(self.setting.sizes)

    def best(self, term: Term, depth: int = DEPTH) -> tuple[Term, ...]:
        """The cheapest terms found that add up to this one."""
        if (term, depth) not in self.known:
            self.known[term, depth] = (term,)  # what leads back here is no better
            self.known[term, depth] = min(self._forms(term, depth), key=self._total)
        return self.known[term, depth]  # type: ignore[no-any-return]

    def _total(self, terms: Sequence[Term]) -> int:
        return cost_of_terms(terms, self.setting.sizes).at(self.setting.sizes)

    def _forms(self, term: Term, depth: int) -> Iterator[tuple[Term, ...]]:
        term, _ = simplified(term, self.setting)
        if term.coefficient == 0:
            yield ()
            return
        yield (term,)
        for definition, form in self.at_hand.among(term.names):
            for read in readings(term, definition, form):
                yield self.best(read, depth)
        if depth and term.scope:
            for base, _ in term.factors:
                written = self.within.get(name_of(base))
                if written is not None and self._promises(term, base, written, depth):
                    parts = opened(term, base, written)
                    yield tuple(found for part in parts for found in self.best(part, depth - 1))

    def _promises(self, term: Term, base: Expr, definition: Definition, depth: int) -> bool:
        """Whether writing the definition in may lead on: to another definition that can be read, or to a constant sum.

        By names alone, which is quick; the others of its factors are looked through as well, as far as `depth` goes.
        """
        if not is_polynomial(definition):
            return False
        body = names_in(definition.body)
        present = (term.names - {definition.name}) | body
        if depth > 1:
            present = present.union(*(names_in(self.within[name].body) for name in present if name in self.within))
        if any(known != definition and not form.names <= term.names for known, form in self.at_hand.among(present)):
            return True
        where = base.indices if isinstance(base, Indexed) else ()
        summed = {own for own, at in zip(definition.indices, where, strict=True) if at in term.scope}
        given = self.setting.given
        parts = terms_of(definition.body)
        moving = [names_in(*(f for f, _ in part.factors if free_indices(f) & summed)) for part in parts]
        return len(parts) > 1 and any(names <= given for names in moving)


def _is_mixture(node: Expr) -> bool:
    """Whether it is a sum with exponentials; what divides, or has its logarithm taken, is not multiplied out then.

    As (1 - y)(1 - p) + y p it is right where p is small; as 1 - p + (2 p - 1) y it is 0 there.
    """
    return isinstance(node, Add) and node.has(sympy.exp)


@lru_cache(maxsize=5_000)
def pattern(definition: Definition) -> Term | None:
    """The definition's body as the one term that it can be read from; None where a name would hide too little."""
    terms = terms_of(definition.body)
    if len(terms) != 1:
        return None
    (term,) = terms
    entries_only = all(isinstance(base, (Indexed, Scalar)) for base, _ in term.factors)
    worth = bool(term.scope) or len(term.factors) > 1
    return term if entries_only and worth and {*definition.indices} <= _indices(term) else None


def _indices(term: Term) -> set[Index]:
    return set().union(*(free_indices(base) for base, _ in term.factors))


@lru_cache(maxsize=5_000)
def is_polynomial(definition: Definition) -> bool:
    """Whether the body is a sum of few products of entries, so that it can join the products it is read in."""
    terms = terms_of(definition.body)
    return len(terms) <= MOST_PARTS and all(
        isinstance(base, (Indexed, Scalar)) for term in terms for base, _ in term.factors
    )


def search_for(name: str, current: Mapping[str, Definition], setting: Setting, less: str = "") -> Search:
    """The search for forms of one definition: at hand is what does not depend on it."""
    later = depending(name, current)
    others = [known for known in current.values() if known.name not in later and known.name != less]
    return Search(setting, Shelf.of([*setting.forward, *others]), current)

"""Definitions rewritten so that what is at hand is read and not computed: contractions, factors, whole definitions.

The first of the algebraic passes, between the choice of definitions and lowering. Each definition is looked at as a sum
of terms (`codegen.networks`). A term may be written with other names by three steps, each an identity:

    a definition is written in, and the sums merged         Sum_j(A[i,j]*dA[i,j]) = Sum_j,c(A[i,j]*dO[i,c]*V[j,c])
    factors are read from a definition                                           = Sum_c(dO[i,c]*O[i,c])
    a sum that is 0 or 1 in every size is replaced                    Sum_c(xc[n,c]) = 0

What is cheapest at typical sizes is taken; what is at hand (inputs, forward values, other definitions of the routine)
costs no more than reading it. No step is looked up: the first two are unification, and the third asks the prover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, S

from codegen.costs import BYTES, FREE, Cost, Sizes, entries
from codegen.estimates import cost_of, cost_of_terms, definition_cost
from codegen.networks import Term, components, merged, names_in, opened, readings, term_of, terms_of, times
from derive.binders import free_indices, map_children, substitute, unshadowed
from derive.exceptional import empty_index_sets
from derive.functions import Defined
from derive.gradient import inline
from derive.language import Index, Scalar
from derive.program import Definition, Program
from derive.prove import PROVED, prove
from derive.refutation import find_counterexample

DEPTH = 2  # definitions that are written in one after the other
MOST_PARTS = 4  # terms of a definition that is written in
GAIN = 0.999  # what a routine may cost with a name less, as a share of what it did
LEVELS = 3  # of definitions that are written in to see whether a sum is constant
MOST_CONSTANT = 2  # factors of a sum that is asked about
PROOF = 1.0  # seconds for the question whether a sum is constant


@dataclass(frozen=True)
class Setting:
    """What the passes know of a routine.

    `program` has the definitions as they were derived: it says what every name means. `forward` are the definitions
    whose values are at hand when the routine runs, `free` the names that are kept in any case, `wanted` what the
    routine returns.
    """

    program: Program
    forward: tuple[Definition, ...]
    free: frozenset[str]
    wanted: frozenset[str]
    sizes: Sizes
    constants: dict[Expr, Expr | None] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Rewrite:
    """One definition written in another way: the pass, the body before and after, and the parts that differ."""

    name: str
    definition: Definition
    after: Expr
    because: tuple[tuple[Expr, Expr], ...] = ()


Definitions = tuple[Definition, ...]


# ---------------------------------------------------------------------------------------------------------------------
# The cheapest form of an expression, and of a term.

Changes = tuple[tuple[Expr, Expr], ...]


@dataclass
class Search:
    """The cheapest forms of expressions and terms, given what is at hand; forms that were found are kept."""

    setting: Setting
    at_hand: Sequence[Definition]
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

        if not isinstance(node, (Mul, sympy.Sum)):
            return map_children(node, part_of), tuple(changes)
        term = term_of(node)
        inner = {base: part_of(base) for base, _ in term.factors if not isinstance(base, (Indexed, Scalar))}
        powers = Mul(*(inner.get(base, base) ** power for base, power in term.factors))
        whole = times(Term(term.coefficient, (), term.scope), replace(term_of(powers), scope=())) if inner else term
        after = self.best(whole)
        if after == (term,):
            return node, ()
        if after != (whole,):
            changes.append(_reduced_pair(whole, after))
        return collected(after), tuple(changes)

    def _multiplied_out(self, node: Expr) -> tuple[Expr, Changes]:
        """The expression as a sum of terms, each in its cheapest form, like terms taken together."""
        terms = terms_of(node)
        after = merged(found for term in terms for found in self.best(term))
        changes = [_reduced_pair(term, self.best(term)) for term in terms if self.best(term) != (term,)]
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
        term = simplified(term, self.setting)
        if term.coefficient == 0:
            yield ()
            return
        yield (term,)
        for definition in self.at_hand:
            form = pattern(definition)
            if form is not None and form.names <= term.names:
                for read in readings(term, definition, form):
                    yield self.best(read, depth)
        if depth and term.scope:
            for base, _ in term.factors:
                definition = self.within.get(_name(base))
                if definition is not None and is_polynomial(definition):
                    parts = opened(term, base, definition)
                    yield tuple(found for part in parts for found in self.best(part, depth - 1))


def _name(base: Expr) -> str:
    symbol = base.base if isinstance(base, Indexed) else base
    return str(symbol.name) if isinstance(base, (Indexed, Scalar)) else ""


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


# ---------------------------------------------------------------------------------------------------------------------
# Sums that are constant.


def simplified(term: Term, setting: Setting) -> Term:
    """The term with sums that are 0 or 1 in every size replaced, where the prover decides that they are."""
    given = {definition.name for definition in setting.forward}
    for scope, factors in components(term):
        if scope and len(factors) <= MOST_CONSTANT and names_in(*(base for base, _ in factors)) <= given:
            value = constant(Mul(*(base**power for base, power in factors)), scope, setting)
            if value is not None:
                left = tuple(pair for pair in term.factors if pair not in factors)
                term = Term(term.coefficient * value, left, tuple(i for i in term.scope if i not in scope))
    return term


def constant(body: Expr, scope: Sequence[Index], setting: Setting) -> Expr | None:
    """0 or 1 where Sum(body, *scope) is that for all sizes and inputs, else None.

    What an empty index set would change is not constant: the policy for it is the kernel's, not the prover's.
    """
    total = sympy.Sum(body, *((index, 0, index.extent - 1) for index in reversed(scope)))
    if total not in setting.constants:
        setting.constants[total] = _constant(total, setting.program)
    return setting.constants[total]


def _constant(total: Expr, program: Program) -> Expr | None:
    """The constant, asked with the definitions behind the sum written in one level after the other.

    What is still a name then stands for any array: an identity in those holds for the ones that are meant.
    """
    over = sorted(free_indices(total), key=str)
    for _ in range(LEVELS):
        names = frozenset(program[name] for name in names_in(total)) & frozenset(program.bodies)
        if not names or any(empty_index_sets(known) for known in program.definitions if known.symbol in names):
            return None
        total = unshadowed(inline(total, program, frozenset(program.bodies) - names))
        for value in (S.Zero, S.One):
            bare = Program("sums")
            claim = bare.claim("constant", total, value, over=over)
            # Numbers are asked first: nearly all sums are not constant.
            if find_counterexample(claim, budget_s=PROOF) is None and prove(claim, seconds=PROOF).status == PROVED:
                return value
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Terms put together again.


def collected(terms: Sequence[Term]) -> Expr:
    """The sum of the terms, the factor that saves most taken out of those that have it, again and again."""
    shared: dict[Expr, list[int]] = {}
    for place, term in enumerate(terms):
        for part in _loose(term):
            shared.setdefault(part, []).append(place)
    gains = [
        (-(len(places) - 1), -len(free_indices(part)), sympy.default_sort_key(part), part)
        for part, places in shared.items() if len(places) > 1
    ]  # fmt: skip
    if not gains:
        return Add(*(term.expression for term in terms))
    part = min(gains)[-1]
    inside = [_without(terms[place], part) for place in shared[part]]
    others = [term for place, term in enumerate(terms) if place not in shared[part]]
    common = _common_coefficient(inside)
    inside = [replace(term, coefficient=term.coefficient / common) for term in inside]
    return Add(Mul(common, part, collected(inside)), collected(others) if others else S.Zero)


def _loose(term: Term) -> list[Expr]:
    """The factors outside the term's sums, each to the first power, or to the power of -1.

    Exponentials stay together: exp(x)/(1 + exp(x)) is harmless, and exp(x) alone may overflow.
    """
    outside = [factors for scope, factors in components(term) if not scope]
    bases = [(base, exponent) for factors in outside for base, exponent in factors if not base.has(sympy.exp)]
    return [base if exponent > 0 else 1 / base for base, exponent in bases if abs(exponent) >= 1]


def _without(term: Term, part: Expr) -> Term:
    base, step = (part.base, -1) if isinstance(part, sympy.Pow) and part.exp == -1 else (part, 1)
    factors = tuple((b, e - step if b == base else e) for b, e in term.factors)
    return replace(term, factors=tuple((b, e) for b, e in factors if e != 0))


def _common_coefficient(terms: Sequence[Term]) -> Expr:
    """What all coefficients have in common: powers of numbers and of sizes."""
    shared = dict(terms[0].coefficient.as_powers_dict())
    for term in terms[1:]:
        other = term.coefficient.as_powers_dict()
        shared = {base: power for base, power in shared.items() if other.get(base) == power}
    return Mul(*(base**power for base, power in shared.items()))


# ---------------------------------------------------------------------------------------------------------------------
# The passes.


def reused(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions with each term in its cheapest form, and what was rewritten."""
    current = {definition.name: definition for definition in definitions}
    rewrites: list[Rewrite] = []
    for definition in definitions:
        body, changes = _search_for(definition.name, current, setting).improved(definition.body)
        if body != definition.body:
            rewrites.append(Rewrite("contraction reuse", definition, body, changes))
            current[definition.name] = replace(definition, body=body)
    return ordered(tuple(current.values())), tuple(rewrites)


def _search_for(name: str, current: Mapping[str, Definition], setting: Setting, less: str = "") -> Search:
    """The search for a definition: at hand is what does not depend on it."""
    later = _depending(name, current)
    others = [known for known in current.values() if known.name not in later and known.name != less]
    return Search(setting, [*setting.forward, *others], current)


def _depending(name: str, current: Mapping[str, Definition]) -> set[str]:
    """The name, and all others that are computed from it."""
    found, grown = {name}, True
    while grown:
        more = {other for other, known in current.items() if other not in found and names_in(known.body) & found}
        found |= more
        grown = bool(more)
    return found


def _reduced_pair(term: Term, after: Sequence[Term]) -> tuple[Expr, Expr]:
    for part in _loose(term):
        if all(part in _loose(other) for other in after):
            term, after = _without(term, part), [_without(other, part) for other in after]
    scale = term.coefficient if all(other.coefficient == term.coefficient for other in after) else S.One
    term, after = (
        replace(term, coefficient=term.coefficient / scale),
        [replace(other, coefficient=other.coefficient / scale) for other in after],
    )
    return term.expression, collected(after)


def ordered(definitions: Definitions) -> Definitions:
    """The definitions in an order in which each comes after those that it reads, otherwise as they stand."""
    waiting = list(definitions)
    names = {definition.name for definition in definitions}
    placed: list[Definition] = []
    while waiting:
        done = {definition.name for definition in placed}
        ready = next(d for d in waiting if names_in(d.body) & names <= done)
        waiting.remove(ready)
        placed.append(ready)
    return tuple(placed)


def eliminated(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions less those that cost less when they are written in wherever they are read."""
    current = {definition.name: definition for definition in definitions}
    rewrites: list[Rewrite] = []
    for name in [definition.name for definition in definitions if definition.name not in setting.wanted]:
        if _is_stored(current[name], setting):
            continue
        made = _without_definition(current[name], current, setting)
        if made is None:
            continue
        found, changes = made
        # A name is worth a little, and more where exponentials are: what stands beside one is treated with care.
        changed = [current[name].body, *(current[reader].body for reader in changes)]
        share = GAIN if any(body.has(sympy.Function, Defined) for body in changed) else 1
        if total_cost(found.values(), setting) < share * total_cost(current.values(), setting):
            for reader, more in changes.items():
                because = ((current[name].left, current[name].body), *more)
                rewrites.append(Rewrite("writing in", current[reader], found[reader].body, because))
            current = found
    return ordered(tuple(current.values())), tuple(rewrites)


def _is_stored(definition: Definition, setting: Setting) -> bool:
    """Whether the definition is one matrix product, which is stored wherever it stands: nothing is to be gained."""
    is_product = bool(definition_cost(definition, setting.sizes).products.terms)
    return is_product and [bool(scope) for scope, _ in components(term_of(definition.body))] == [True]


def _without_definition(
    gone: Definition, current: Mapping[str, Definition], setting: Setting
) -> tuple[dict[str, Definition], dict[str, Changes]] | None:
    """The definitions with one of them written in wherever it is read, and what that changed besides."""
    found = {name: known for name, known in current.items() if name != gone.name}
    changes: dict[str, Changes] = {}
    for name, reader in list(found.items()):
        if gone.name in names_in(reader.body):
            search = _search_for(name, found, setting, gone.name)
            body, changes[name] = search.improved(written_in(reader.body, gone))
            if gone.name in names_in(body):
                return None
            found[name] = replace(reader, body=body)
    return found, changes


def written_in(node: Any, gone: Definition) -> Any:
    """The expression with a definition written in at every place."""
    if isinstance(node, (Indexed, Scalar)):
        if _name(node) != gone.name:
            return node
        where = node.indices if isinstance(node, Indexed) else ()
        return substitute(gone.body, dict(zip(gone.indices, where, strict=True)))
    return map_children(node, lambda part: written_in(part, gone))


def total_cost(definitions: Iterable[Definition], setting: Setting) -> int:
    """The cost of a routine at typical sizes: its definitions, their results stored, and what is kept for it."""
    return routine_cost(definitions, setting).at(setting.sizes)


def routine_cost(definitions: Iterable[Definition], setting: Setting) -> Cost:
    """The cost of a routine."""
    total, read = FREE, set()
    for definition in definitions:
        read |= names_in(definition.body)
        total = total + definition_cost(definition, setting.sizes)
    for known in setting.forward:
        if known.name in read and known.name not in setting.free:
            total = total + Cost(bytes=entries(known.indices).times(BYTES))
    return total

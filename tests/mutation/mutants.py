"""Mutants: true equalities with one small mistake in them, made by general operators on expression trees.

Each operator is one kind of slip that people make when they derive by hand (a sign, a factor, a transposed index, a
sum over the wrong axis, a normaliser left out, ...). It looks at one node and the indices in scope and says what could
stand there instead; `places` tries it at every node of a side. Nothing here knows a program or a formula by name.

What an operator proposes is a recipe, made only when it is chosen, because many are ill-formed: a transposed entry
whose sizes do not fit is refused by the language itself, and is counted, not tested.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Any

import sympy
from sympy import Add, Indexed, KroneckerDelta, Mul, Pow, S, erf, exp, log, tanh
from sympy.core.relational import Relational
from sympy.logic.boolalg import And, Not, Or

from derive.binders import free_indices, rebuild, scope_of, substitute
from derive.errors import StatementError
from derive.functions import Defined
from derive.gradient import Gradient, inline
from derive.language import Dim, Index, Scalar, Sum, Tensor, Where
from derive.program import Program
from derive.statements import Claim

Recipe = Callable[[], Any]
Proposal = tuple[str, Recipe]  # the operator's name, and how to make what it proposes
CHEAP = 30  # a claim of so many nodes costs no more than a smaller one
ENOUGH = 40  # recipes of a claim that are counted


@dataclass(frozen=True)
class Scene:
    """What an operator may draw on: the indices in scope, and the program's tensors."""

    scope: tuple[Index, ...]
    tensors: tuple[Tensor, ...]

    def within(self, bound: Sequence[Index]) -> Scene:
        """The scene inside a binder."""
        names = {index.name for index in bound}
        return replace(self, scope=(*(index for index in self.scope if index.name not in names), *bound))

    def others(self, index: Any) -> list[Index]:
        """The other indices in scope that run over the same range."""
        if not isinstance(index, Index):
            return []
        return [other for other in self.scope if other != index and other.extent == index.extent]


@dataclass(frozen=True)
class Mutant:
    """A claim with one mistake, and which operator made it."""

    operator: str
    claim: Claim


# ---------------------------------------------------------------------------------------------------------------------
# Operators on terms, factors and powers.


def on_sums_of_terms(node: Any, _scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, Add):
        return
    for place, term in enumerate(node.args):
        rest = [*node.args[:place], *node.args[place + 1 :]]
        yield "sign of a term", lambda rest=rest, term=term: Add(*rest, -term)
        yield "dropped term", lambda rest=rest: Add(*rest)
        yield "doubled term", lambda rest=rest, term=term: Add(*rest, 2 * term)
        yield "half a term", lambda rest=rest, term=term: Add(*rest, term / 2)


def on_products_of_factors(node: Any, _scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, Mul):
        return
    for place, factor in enumerate(node.args):
        rest = [*node.args[:place], *node.args[place + 1 :]]
        normaliser = isinstance(factor, Pow) and isinstance(factor.base, Dim) and factor.exp.is_negative
        named = "missing normaliser" if normaliser else "sign" if factor == -1 else "dropped factor"
        yield named, lambda rest=rest: Mul(*rest)
        if not factor.is_Number:
            yield "wrong power", lambda rest=rest, factor=factor: Mul(*rest, factor**2)


def on_powers(node: Any, _scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, Pow) or not node.exp.is_Rational:
        return
    base, exponent = node.args
    if exponent.q == 2:
        yield "root dropped", lambda: Pow(base, sympy.Integer(1 if exponent > 0 else -1))
    else:
        yield "wrong power", lambda: Pow(base, exponent - 1 if exponent > 0 else exponent + 1)
    yield "wrong power", lambda: Pow(base, exponent + 1 if exponent > 0 else exponent - 1)
    yield "wrong power", lambda: Pow(base, -exponent)


def on_functions(node: Any, _scene: Scene) -> Iterator[Proposal]:
    replaced = {
        exp: lambda x: x, log: lambda x: x, tanh: erf, erf: tanh, sympy.Max: sympy.Min, sympy.Min: sympy.Max,
        sympy.sin: sympy.cos, sympy.cos: sympy.sin, sympy.Abs: lambda x: x,
    }  # fmt: skip
    for kind, other in replaced.items():
        if isinstance(node, kind):
            yield "another function", lambda other=other: other(*node.args)


# ---------------------------------------------------------------------------------------------------------------------
# Operators on entries and their indices.


def on_entries(node: Any, scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, Indexed):
        return
    where = list(node.indices)
    for first in range(len(where)):
        for second in range(first):
            if where[first] != where[second]:
                turned = where.copy()
                turned[first], turned[second] = where[second], where[first]
                yield "transposed indices", lambda turned=turned: node.base[tuple(turned)]
    for place, part in enumerate(where):
        for other in scene.others(part):
            swapped = [*where[:place], other, *where[place + 1 :]]
            yield "swapped index", lambda swapped=swapped: node.base[tuple(swapped)]
        if isinstance(part, Add):
            unshifted = [*where[:place], part.as_independent(Index, Dim)[1], *where[place + 1 :]]
            yield "shift of an index dropped", lambda unshifted=unshifted: node.base[tuple(unshifted)]
    for other in scene.tensors:
        if other != node.base and other.shape == node.base.shape and other.into == node.base.into:
            yield "exchanged tensors", lambda other=other: other[tuple(where)]


def on_deltas(node: Any, scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, KroneckerDelta):
        return
    left, right = node.args[:2]
    yield "delta dropped", lambda: S.One
    for other in scene.others(right):
        yield "swapped index", lambda other=other: KroneckerDelta(left, other)
    for other in scene.others(left):
        yield "swapped index", lambda other=other: KroneckerDelta(other, right)


def on_sums(node: Any, scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, (sympy.Sum, sympy.Product)):
        return
    scope = scope_of(node)
    (body,) = scope.inside
    for bound in scope.bound:
        for other in scene.others(bound):
            exchanged = {bound: other, other: bound}
            yield (
                "wrong axis",
                lambda exchanged=exchanged: rebuild(node, scope.bound, (substitute(body, exchanged),), ()),
            )
    if isinstance(node, sympy.Product):
        yield "a sum for a product", lambda: Sum(body, *scope.bound)


def on_defined_functions(node: Any, scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, Defined):
        return
    name, body, bound, place, condition = node.args
    for other in scene.others(bound):
        if other != place:
            swapped = substitute(body, {bound: other, other: bound})
            yield "wrong axis", lambda other=other, swapped=swapped: Defined(name, swapped, bound, place, condition)
    if condition != sympy.true:
        yield "mask dropped", lambda: Defined(name, body, bound, place, True)
    if node.name == "mean":
        yield "missing normaliser", lambda: Sum(Where(condition, body, S.Zero), bound)
    if node.positional:
        for other in scene.others(place):
            yield "swapped index", lambda other=other: Defined(name, body, bound, other, condition)
    others = {"softmax": "log_softmax", "log_softmax": "softmax", "variance": "mean", "logsumexp": "mean"}
    if node.name in others:
        yield "another function", lambda: Defined(others[node.name], body, bound, place, condition)


def on_selections(node: Any, _scene: Scene) -> Iterator[Proposal]:
    if not isinstance(node, Where):
        return
    condition, yes, no = node.args
    yield "mask dropped", lambda: yes
    yield "mask inverted", lambda: Where(Not(condition), yes, no)


def on_conditions(node: Any, scene: Scene) -> Iterator[Proposal]:
    if isinstance(node, Relational):
        stricter = {sympy.Le: sympy.Lt, sympy.Lt: sympy.Le, sympy.Ge: sympy.Gt, sympy.Gt: sympy.Ge}
        for kind, other in stricter.items():
            if isinstance(node, kind):
                if all(side.is_integer for side in node.args):  # for reals they are the same almost everywhere
                    yield "strict for not strict", lambda other=other: other(*node.args)
                yield "turned comparison", lambda: node.func(*reversed(node.args))
        left, right = node.args
        for other in scene.others(left):
            yield "swapped index", lambda other=other: node.func(other, right)
    elif isinstance(node, (And, Or)):
        for place in range(len(node.args)):
            yield (
                "part of a condition dropped",
                lambda place=place: node.func(*node.args[:place], *node.args[place + 1 :]),
            )


OPERATORS = (
    on_sums_of_terms, on_products_of_factors, on_powers, on_functions, on_entries, on_deltas, on_sums,
    on_defined_functions, on_selections, on_conditions,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Trying them everywhere.


def proposals(node: Any, scene: Scene) -> Iterator[Proposal]:
    """Everything that the operators propose for a node or anything below it, each a recipe for the whole node."""
    for operator in OPERATORS:
        yield from operator(node, scene)
    if isinstance(node, Relational):  # its sides are compared, not computed with: only their indices are mistaken
        for place, part in enumerate(node.args):
            for name, recipe in on_entries(part, scene):
                yield name, _with_argument(node, place, recipe)
        return
    scope = scope_of(node)
    if scope is not None:
        inner = scene.within(scope.bound)
        for place, part in enumerate(scope.inside):
            for name, recipe in proposals(part, inner):
                yield name, _rebuilt(node, scope, place, recipe)
        return
    if isinstance(node, (Indexed, KroneckerDelta)) or not node.args:
        return
    for place, part in enumerate(node.args):
        for name, recipe in proposals(part, scene):
            yield name, _with_argument(node, place, recipe)


def _rebuilt(node: Any, scope: Any, place: int, recipe: Recipe) -> Recipe:
    def made() -> Any:
        inside = (*scope.inside[:place], recipe(), *scope.inside[place + 1 :])
        return rebuild(node, scope.bound, inside, scope.outside)

    return made


def _with_argument(node: Any, place: int, recipe: Recipe) -> Recipe:
    return lambda: node.func(*node.args[:place], recipe(), *node.args[place + 1 :])


def of_a_whole_side(side: Any) -> Iterator[Proposal]:
    yield "sign", lambda: -side
    yield "factor 2", lambda: 2 * side
    yield "factor 1/2", lambda: side / 2


def candidates(claim: Claim) -> Iterator[tuple[str, Callable[[], tuple[Any, Any, tuple[Any, ...]]]]]:
    """Operators' names, with recipes for (left, right, given).

    Each side is mistaken as it stands, and once more with the name that it consists of written in: leaving out a
    summand of an adjoint is a detached path.
    """
    scene = Scene(_indices(claim), _tensors(claim))
    for turn, side in enumerate((claim.right, claim.left)):
        forms = [side]
        written_in = inline(side, claim.program, _not_mentioned(side, claim.program))
        if written_in != side:
            forms.append(written_in)
        for form in forms:
            other = claim.left if turn == 0 else claim.right
            for name, recipe in (*of_a_whole_side(form), *proposals(form, scene)):
                detached = form is not side and name == "dropped term" and isinstance(claim.program, Gradient)
                yield "detached path" if detached else name, _sides(recipe, other, turn, claim.given)
    for place in range(len(claim.given)):
        fewer = (*claim.given[:place], *claim.given[place + 1 :])
        yield "hypothesis dropped", lambda fewer=fewer: (claim.left, claim.right, fewer)


def _sides(recipe: Recipe, other: Any, turn: int, given: tuple[Any, ...]) -> Recipe:
    return lambda: (other, recipe(), given) if turn == 0 else (recipe(), other, given)


def _indices(claim: Claim) -> tuple[Index, ...]:
    return tuple(sorted(free_indices(claim.left) | free_indices(claim.right), key=str))


def _tensors(claim: Claim) -> tuple[Tensor, ...]:
    program = claim.program
    known = [*program.all_inputs(claim.left, claim.right), *(definition.symbol for definition in program.definitions)]
    return tuple(symbol for symbol in known if isinstance(symbol, Tensor))


def _not_mentioned(side: Any, program: Program) -> frozenset[Any]:
    return frozenset({definition.symbol for definition in program.definitions} - side.atoms(Tensor, Scalar))


def shares(claims: Sequence[Claim], total: int) -> list[int]:
    """How many mutants of each claim make `total` of all: one of each, and more where one costs less to decide.

    One recipe in ten is taken to make nothing new.
    """
    most = [sum(1 for _ in islice(candidates(claim), ENOUGH)) * 9 // 10 for claim in claims]
    costs = [max(1.0, nodes_in(claim) / CHEAP) for claim in claims]
    found = [min(1, number) for number in most]
    queue = [(2 * cost, place) for place, cost in enumerate(costs) if most[place] > 1]
    heapify(queue)
    for _ in range(total - sum(found)):
        _, place = queue[0]
        found[place] += 1
        if found[place] < most[place]:
            heapreplace(queue, (costs[place] * (found[place] + 1), place))
        else:
            heappop(queue)
    return found


def nodes_in(claim: Claim) -> int:
    """The nodes of both sides with all names written in: what deciding a mutant costs goes by them, more or less."""
    bodies = {definition.name: definition.body for definition in claim.program.definitions}
    known: dict[str, int] = {}

    def nodes(node: Any) -> int:
        if not isinstance(node, (Indexed, Scalar)):
            return 1 + sum(map(nodes, node.args))
        name = str(node.base.name if isinstance(node, Indexed) else node.name)
        if name in bodies and name not in known:
            known[name] = nodes(bodies[name])
        return 1 + known.get(name, 0)

    return sum(map(nodes, (claim.left, claim.right, *claim.given)))


def mutants_of(claim: Claim, wanted: int) -> tuple[list[Mutant], int]:
    """Up to `wanted` distinct mutants of a claim, and how many recipes made nothing well-formed.

    The operators take turns. Which one begins goes by the claim's text, so that over many claims each has its share,
    and a claim keeps its mutants when others are added.
    """
    first = zlib.crc32(f"{claim.program.name} {claim.id} {claim}".encode())
    over = _indices(claim)
    groups: dict[str, list[Recipe]] = {}
    for name, recipe in candidates(claim):
        groups.setdefault(name, []).append(recipe)
    seen, made, ill_formed = {(claim.left, claim.right, claim.given)}, [], 0
    for name, recipe in _in_turn(groups, first):
        if len(made) >= wanted:
            break
        try:
            left, right, given = recipe()
            if (left, right, given) in seen:
                continue
            seen.add((left, right, given))
            if any(node.args[4] == sympy.false for side in (left, right) for node in side.atoms(Defined)):
                raise StatementError("no index meets the condition, whatever the inputs are")
            probe = replace(claim.program, claims=[])
            mutant = probe.claim(f"{claim.id}~{len(made)}", left, right, name=name, given=given, over=over)
        except StatementError:
            ill_formed += 1
            continue
        made.append(Mutant(name, mutant))
    return made, ill_formed


def _in_turn(groups: dict[str, list[Recipe]], first: int) -> Iterator[Proposal]:
    """One recipe of each operator, then the next of each; those of one operator spread over its places."""
    names = sorted(groups)
    names = names[first % len(names) :] + names[: first % len(names)]
    spread = {name: _spread(groups[name]) for name in names}
    for turn in range(max(map(len, spread.values()), default=0)):
        for name, recipes in spread.items():
            if turn < len(recipes):
                yield name, recipes[turn]


def _spread(recipes: list[Recipe]) -> list[Recipe]:
    """First, last, middle, quarters ... : the first few are far apart."""
    order = sorted(range(len(recipes)), key=lambda place: int(f"{place:016b}"[::-1], 2))
    return [recipes[place] for place in order]

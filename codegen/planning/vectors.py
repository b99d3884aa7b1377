"""A vector leaves a sum: what is summed along an index against a vector is one product of a matrix and the vector.

Between the sharing of values and the printers, for the statements of a backward kernel. An adjoint is often a vector
times an array, under a name that several sums read:

    g[n,c] = v[c]*u[n,c]:     Sum_c(g[n,c])  =  Sum_c(u[n,c] v[c])      Sum_c(g[n,c] x[n,c])  =  Sum_c((u x)[n,c] v[c])

The first is a product with a vector in the place of a sum of what has to be there. The second is worth it where nobody
else reads g, or where the product of the other two is summed along another index as well: then it is computed once, and
both sums are read off it. What is left with one reader is written in there, and a pass over memory is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.ir.insides import with_indices
from codegen.ir.nodes import Axes, Contract, Map, Node, Read, Reduce
from codegen.ir.sharing import Statement, fresh_name
from codegen.ir.trees import walk, with_children
from codegen.planning.factors import factors_of

Pair = frozenset[str]


@dataclass(frozen=True)
class Summed:
    """A sum: the vector that is summed against, if there is one, and one or two other arrays.

    `through` is the name under which the vector and one of the arrays have been multiplied.
    """

    node: Node
    over: Axes
    vector: Node | None
    others: tuple[Read, ...]
    through: str = ""

    @property
    def pair(self) -> Pair:
        """The names of the two other arrays; of one, nothing."""
        return frozenset(read.name for read in self.others) if len(self.others) == 2 else frozenset()


def without_vectors(statements: Sequence[Statement], kept: Collection[str]) -> list[Statement]:
    """The statements with vectors taken out of sums, and products that are written in or shared."""
    products = {s.name: s for s in statements if s.name not in kept and _is_scaled(s.node)}
    found = {summed.node: summed for s in statements for summed in _sums(s.node, products)}
    readers = _readers(statements)
    chosen = {node: summed for node, summed in found.items() if _is_worth_it(summed, found.values(), readers)}
    if not chosen:
        return list(statements)
    shared = {summed.pair for summed in chosen.values() if summed.pair}
    chosen |= {node: summed for node, summed in found.items() if summed.pair in shared and summed.vector is None}
    made = _rewritten(statements, chosen)
    return _written_in(made, {summed.through for summed in chosen.values()} & products.keys(), products)


def _is_scaled(node: Node) -> bool:
    """Whether a node is a product of a vector and an array, both read as they are."""
    above, below = factors_of(node)
    ranks = sorted(len(factor.axes) for factor in above)
    return (
        not below and all(isinstance(factor, Read) for factor in above) and len(ranks) == 2 and 1 == ranks[0] < ranks[1]
    )


def _sums(node: Node, products: Mapping[str, Statement]) -> Iterator[Summed]:
    """The sums inside a node whose factors are arrays as they are, or products with a vector."""
    for inner in walk(node):
        is_sum = isinstance(inner, Contract) or (isinstance(inner, Reduce) and inner.operation == "sum")
        over: Axes = getattr(inner, "over", ())
        if not is_sum:
            continue
        factors, through = _opened([f for child in inner.children for f in factors_of(child)[0]], over, products)
        below = [f for child in inner.children for f in factors_of(child)[1]]
        vectors = [factor for factor in factors if factor.axes == over and len(over) == 1]
        others = tuple(f for f in factors if isinstance(f, Read) and f not in vectors)
        is_plain = not below and len(vectors) <= 1 and len(vectors) + len(others) == len(factors)
        if is_plain and 1 <= len(others) <= 2 and _are_alike(others, over):
            yield Summed(inner, over, vectors[0] if vectors else None, others, through)


def _are_alike(others: Sequence[Read], over: Axes) -> bool:
    """Whether the arrays are different ones of the same axes, those that are summed among more."""
    first, last = others[0], others[-1]
    is_pair = len(others) == 1 or first.name != last.name
    return set(over) < set(first.axes) and first.where == last.where and is_pair


def _opened(factors: Sequence[Node], over: Axes, products: Mapping[str, Statement]) -> tuple[list[Node], str]:
    """The factors with a product that is the summed vector times an array taken apart, and the name of that product."""
    found: list[Node] = []
    through = ""
    for factor in factors:
        known = products.get(factor.name) if isinstance(factor, Read) else None
        if known is None or not isinstance(factor, Read) or through:
            found.append(factor)
            continue
        places = dict(zip(known.axes, factor.where, strict=True))
        parts = [with_indices(part, places) for part in factors_of(known.node)[0]]
        if len(over) == 1 and any(part.axes == over for part in parts):
            through = known.name
            found += parts
        else:
            found.append(factor)
    return found, through


def _is_worth_it(summed: Summed, sums: Collection[Summed], readers: Mapping[str, int]) -> bool:
    """Whether the sum costs less as a product of a matrix and the vector."""
    if summed.vector is None or not isinstance(summed.vector, Read):
        return False
    if len(summed.others) == 1:
        return bool(summed.through)
    if any(other.pair == summed.pair and other.over != summed.over and other.vector is None for other in sums):
        return True
    return not summed.through or readers[summed.through] == 1


def _readers(statements: Sequence[Statement]) -> Counter[str]:
    """How often each name is read."""
    return Counter(n.name for s in statements for n in walk(s.node) if isinstance(n, Read))


def _rewritten(statements: Sequence[Statement], chosen: Mapping[Node, Summed]) -> list[Statement]:
    """The statements with the chosen sums as products with their vectors, and the products of pairs by name."""
    taken = {statement.name for statement in statements} | set(_readers(statements))
    named: dict[tuple[str, ...], Statement] = {}
    layouts: dict[Pair, Axes] = {}
    for summed in chosen.values():
        layouts[summed.pair] = min(layouts.get(summed.pair, summed.others[0].where), summed.others[0].where, key=str)
    result: list[Statement] = []
    for statement in statements:

        def changed(node: Node) -> Node:
            summed = chosen.get(node)
            if summed is None:
                return with_children(node, [changed(child) for child in node.children])
            array = summed.others[0]
            if summed.pair:
                names = tuple(sorted(summed.pair))
                if names not in named:
                    name, axes = fresh_name("_".join(names), taken), layouts[summed.pair]
                    named[names] = Statement(name, Map("mul", tuple(Read(n, axes) for n in names)), axes)
                    # As early as can be: what lies between would only put it out of the cache.
                    place = max((k + 1 for k, other in enumerate(result) if other.name in names), default=0)
                    result.insert(place, named[names])
                array = Read(named[names].name, array.where)
            if summed.vector is None:
                return Reduce("sum", array, summed.over)
            return Contract(array, summed.vector, summed.over)

        node = changed(statement.node)
        result.append(replace(statement, node=node))
    return result


def _written_in(
    statements: Sequence[Statement], names: Collection[str], products: Mapping[str, Statement]
) -> list[Statement]:
    """The statements with the products of these names written in where they have one reader left."""
    readers = _readers(statements)
    once = {name for name in names if readers[name] == 1}

    def opened(node: Node) -> Node:
        if isinstance(node, Read) and node.name in once:
            known = products[node.name]
            return with_indices(known.node, dict(zip(known.axes, node.where, strict=True)))
        return with_children(node, [opened(child) for child in node.children])

    result = []
    for statement in statements:
        if statement.name in once or (statement.name in names and not readers[statement.name]):
            continue
        node = opened(statement.node)
        inside = sorted({n.name for n in walk(statement.node) if isinstance(n, Read) and n.name in once})
        told = [f"{products[name].formula or name} written in" for name in inside]
        result.append(replace(statement, node=node, because="; ".join(filter(None, (statement.because, *told)))))
    return result

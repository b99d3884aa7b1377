"""Exponentials to base 2, where the factor that this takes costs nothing.

    exp(x) = 2^(x / log(2))          (proved in derive/library/base_two.py)

A library may have a faster power of 2 than exponential. The quotient is a pass more, unless the exponent comes from a
product of matrices one factor of which is scaled as it is: then log(2) joins the scale, which is a number. Between
product and exponential the exponents may be masked, capped and compared, and have others subtracted, as long as all of
them are quotients by log(2); logarithms, to base 2, are such quotients of their own accord. It is done for both kernels
of a schedule or for none, so that what one saves means the same to the other.

The statements keep the names of their operations: in these loops "exp" and "log" are printed as those to base 2
(`Library.base_two`). The exponents are off by a rounding of their own size, as they are by those of the product.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace

from codegen.ir.nodes import Contract, Gather, Literal, Map, Node, Read, Reduce, Select, View
from codegen.ir.sharing import Statement, reads
from codegen.ir.trees import descendants, walk, with_children

LOG_2 = Map("log", (Literal(2),))
IDENTITY = "divided by log(2), as exp(x) = 2^(x/log(2))"
LINEAR = frozenset({"add", "sub", "neg", "maximum", "minimum", "finite"})  # f(x/log(2), ...) = f(x, ...)/log(2)
Body = Sequence[Statement]


def in_base_two(loops: Sequence[Body], outside: Body, returned: Collection[str]) -> list[Body] | None:
    """The bodies of a schedule's loops with exponents divided by log(2); None where that is not free, or none is there.

    `outside` are the statements in no loop, `returned` the results; neither may have to do with exponents.
    """
    inside = [statement for body in loops for statement in body]
    if not any(_is_map(node, "exp") for statement in inside for node in walk(statement.node)):
        return None
    known = Exponents(_exponents(inside), _products(inside))
    seen = {name for statement in outside for name in reads(statement.node)}.union(returned)
    if known.names & seen or not known.names <= {statement.name for statement in inside}:
        return None
    changed: list[Body] = []
    for body in loops:
        made = [_divided(statement, known) for statement in body]
        if None in made:
            return None
        changed.append([statement for statement in made if statement is not None])
    return changed


@dataclass(frozen=True)
class Exponents:
    """The names of all values that reach an exponential, and of all that come from a product of matrices."""

    names: Set[str]
    products: Set[str]


def _products(statements: Body) -> set[str]:
    """The names of what comes from a product of matrices, and so has its rounding errors."""
    found: set[str] = set()
    for statement in statements:
        if _has_product(statement.node, found):
            found.add(statement.name)
    return found


def _has_product(node: Node, products: Set[str]) -> bool:
    return any(isinstance(n, Contract) for n in walk(node)) or not reads(node).isdisjoint(products)


def _exponents(statements: Body) -> set[str]:
    """The names of all values that reach an exponential, as they are or added up."""
    waiting = [child for s in statements for n in walk(s.node) if _is_map(n, "exp") for child in n.children]
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Read) and node.name not in found:
            found.add(node.name)
            waiting += [statement.node for statement in statements if statement.name == node.name]
        waiting += _terms(node)
    return found


def _terms(node: Node) -> tuple[Node, ...]:
    """The parts of an exponent that are exponents too."""
    if isinstance(node, Select):
        return node.yes, node.no
    if (isinstance(node, Map) and node.operation in LINEAR) or (isinstance(node, Reduce) and node.operation == "max"):
        return node.children
    return ()


def _divided(statement: Statement, known: Exponents) -> Statement | None:
    """The statement with every exponent divided by log(2); None where that costs something."""
    is_exponent = statement.name in known.names
    node = (_exponent if is_exponent else _value)(statement.node, known)
    if node is None:
        return None
    told = IDENTITY if LOG_2 in descendants(node) else ""
    return replace(statement, node=node, because="; ".join(filter(None, (statement.because, told))))


def _value(node: Node, known: Exponents) -> Node | None:
    """A node that is no exponent, with those in it divided; None where it reads one as anything but that."""
    if _is_map(node, "log") or (isinstance(node, (Read, View, Gather)) and node.name in known.names):
        return None
    inside = _exponent if _is_map(node, "exp") else _value
    return _with(node, [inside(child, known) for child in node.children])


def _exponent(node: Node, known: Exponents) -> Node | None:
    """An exponent, divided by log(2)."""
    if isinstance(node, Read):
        return node if node.name in known.names else None
    if isinstance(node, Literal):
        return node if node.numerator == 0 or node.constant == "inf" else None
    if _is_map(node, "log"):
        return _with(node, [_value(child, known) for child in node.children])  # printed as one to base 2
    terms = _terms(node)
    if terms:
        return _with(node, [(_exponent if child in terms else _value)(child, known) for child in node.children])
    is_rounded = _has_product(node, known.products)
    return _scaled(node) if is_rounded and _value(node, known) is not None else None


def _scaled(node: Node) -> Node | None:
    """A product of matrices, or a multiple of what comes from one, with log(2) in a scale that it has already."""
    if not isinstance(node, Contract):
        return _scaled_by_number(node)
    left, right = _scaled_by_number(node.left), _scaled_by_number(node.right)
    if left is not None:
        return replace(node, left=left)
    return replace(node, right=right) if right is not None else None


def _scaled_by_number(node: Node) -> Node | None:
    """A product with a number, or a quotient by one, divided by log(2); None for any other node."""
    if not isinstance(node, Map) or node.operation not in ("mul", "div"):
        return None
    first, second = node.operands
    if node.operation == "div":
        return Map("div", (first, Map("mul", (second, LOG_2)))) if second.is_host else None
    if first.is_host:
        return Map("mul", (Map("div", (first, LOG_2)), second))
    return Map("mul", (first, Map("div", (second, LOG_2)))) if second.is_host else None


def _is_map(node: Node, operation: str) -> bool:
    return isinstance(node, Map) and node.operation == operation and not node.is_host


def _with(node: Node, children: Sequence[Node | None]) -> Node | None:
    """The node with these children; None if there is no value for one of them."""
    return None if None in children else with_children(node, [child for child in children if child is not None])

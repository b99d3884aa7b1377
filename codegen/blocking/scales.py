"""Exponentials that need no row maximum: below a proved bound of its argument exp cannot overflow.

Part of loop blocking. The maximum of a row is subtracted before the exponential so that nothing overflows; but often a
bound is known before anything is computed. An inner product is at most the product of the norms,

    |Sum_a(q[i,a]*k[j,a])| <= |q[i]| |k[j]|          (Cauchy and Schwarz; proved in derive/library/norm_bound.py)

and norms cost next to nothing. Where the largest argument is small, exp(x) is as exact as exp(x - max x), and the
quotient by the sum is the same number. A loop gets a second body without the maximum, chosen at each call by the bound;
what is not finite has no bound, and takes the first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.blocking.loops import Loop
from codegen.ir.nodes import Contract, Literal, Map, Node, Option, Read, Reduce, Select
from codegen.ir.sharing import Statement, read_later, reads
from codegen.ir.trees import walk, with_children
from codegen.lowering.context import MINUS_INFINITY, ONE, ZERO

Bodies = Mapping[str, Statement]
ENDS = frozenset({"at_least", "at_most", "maximum", "minimum"})


def unshifted(loop: Loop, scaled: Collection[str] = ()) -> tuple[Loop, Node] | None:
    """The loop without its row maxima, and a bound of every argument of an exponential; None where there is none.

    Nor where it reads what is `scaled`, sums of exponentials that were computed before with their maximum taken out.
    """
    bodies = {s.name: s for s in loop.body}
    if any(reads(statement.node) & (set(scaled) - bodies.keys()) for statement in loop.body):
        return None
    bounds: dict[Node, Node] = {}
    freed: set[Node] = set()

    def free(node: Node) -> Node:
        found = shifted(node, bodies)
        if found is not None:
            argument, condition, top = found
            limit = bound(argument, bodies) if condition is None or _is_finite(top) else None
            if limit is not None:
                bounds[argument] = limit
                freed.add(top)
                plain = Map("exp", (argument,))
                return plain if condition is None else Select(condition, plain, ZERO)
        node = with_children(node, [free(child) for child in node.children])
        if isinstance(node, Map) and node.operation == "at_least_one" and bounds:
            return Map("positive", node.operands)
        return node

    body = [replace(statement, node=free(statement.node)) for statement in loop.body]
    if not bounds:
        return None
    zero = [replace(s, node=ZERO) if bodies[s.name].node in freed else s for s in body]
    kept = [*loop.stored, *loop.accumulated]
    left = read_later(_with_nothing_left_of(zero, kept), kept)
    if any(isinstance(n, Reduce) and n.operation == "max" for s in left for n in walk(s.node)):
        return None
    if not all(_hangs_together(loop, top) for top in freed):
        return None
    first, *others = bounds.values()
    for other in others:
        first = Map("add", (first, other))
    return replace(loop, body=tuple(left)), first


def _hangs_together(loop: Loop, top: Node) -> bool:
    """Whether what the loop leaves fits what is computed from it elsewhere, with this maximum taken out or not.

    It does if the maximum is left as well, 0 in its place, or the exponentials themselves. A sum of them alone meets
    exponentials that are computed anew, with the maximum taken out.
    """
    bodies = {s.name: s for s in loop.body}
    names = {s.name for s in loop.body if s.node == top}
    kept = {*loop.stored, *loop.accumulated}
    degrees = _degrees(loop.body, top, names)
    scaled = {name: degrees[name] for name in kept - names if degrees[name] != 0}
    are_there = any(_is_scaled(bodies[name].node, top, bodies) for name in scaled)
    return not scaled or names & kept != set() or (are_there and set(scaled.values()) == {1})


def scaled_names(statements: Sequence[Statement]) -> set[str]:
    """The values of which the exponential of a maximum is a factor, by these statements."""
    operations = {s.name: {n.operation for n in walk(s.node) if isinstance(n, (Map, Reduce))} for s in statements}
    tops = {name for name, found in operations.items() if "max" in found and "exp" not in found}
    return {name for name, degree in _degrees(statements, None, tops).items() if degree != 0}


def _degrees(statements: Sequence[Statement], top: Node | None, names: Collection[str]) -> dict[str, int | None]:
    bodies = {s.name: s for s in statements}
    degrees: dict[str, int | None] = {}
    for statement in statements:
        degrees[statement.name] = _degree(statement.node, Scale(top, names, degrees, bodies))
    return degrees


@dataclass(frozen=True)
class Scale:
    """A maximum that is subtracted in exponents, its names, and how often the exponential of it is in each value.

    Without one, any.
    """

    top: Node | None
    names: Collection[str]
    degrees: Mapping[str, int | None]
    bodies: Bodies


def _is_scaled(node: Node, top: Node | None, bodies: Bodies) -> bool:
    """Whether the node is an exponential with this maximum taken out."""
    found = shifted(node, bodies)
    return found is not None and top in (None, found[2])


def _degree(node: Node, scale: Scale) -> int | None:
    """How often exp(-maximum) is a factor of the node; None where it is something else."""
    if _is_scaled(node, scale.top, scale.bodies):
        return 1
    if isinstance(node, Read):
        return 0 if node.name in scale.names else scale.degrees.get(node.name, 0)
    operation = node.operation if isinstance(node, (Map, Reduce)) else ""
    if operation == "add" and any(isinstance(child, Read) and child.name in scale.names for child in node.children):
        logarithms = [child for child in node.children if isinstance(child, Map) and child.operation == "log"]
        if [_degree(child.operands[0], scale) for child in logarithms] == [1]:
            return 0  # a logsumexp
    below = [_degree(child, scale) for child in node.children]
    known = [degree for degree in below if degree is not None]
    if len(known) < len(below):
        return None
    if not any(known):
        return 0
    if operation == "div":
        return known[0] - known[1]
    if operation == "mul" or isinstance(node, Contract):
        return sum(known)
    if operation in ("sum", "neg", "at_least_one", "positive"):
        return known[0]
    if operation in ("add", "sub", "maximum", "minimum") or isinstance(node, Select):
        return known[-1] if known[-1] == known[-2] else None
    return None


def _with_nothing_left_of(zero: Sequence[Statement], kept: Collection[str]) -> list[Statement]:
    """The statements without those that are 0, and those that are 0 then, but for the ones that are kept."""
    left, gone = list(zero), set[str]()
    while found := {s.name for s in left if s.node == ZERO and s.name not in kept} - gone:
        gone |= found
        left = [replace(s, node=_without(s.node, gone)) for s in left]
    return left


def _without(node: Node, gone: Collection[str]) -> Node:
    """The node with maxima that are gone read as 0, and what is added to 0, or less 0, as it is."""
    if isinstance(node, Read) and node.name in gone:
        return ZERO
    changed = with_children(node, [_without(child, gone) for child in node.children])
    if changed == node or not isinstance(changed, Map) or ZERO not in changed.operands:
        return changed
    if changed.operation in ("finite", "neg") or (changed.operation in ENDS and {*changed.operands} == {ZERO}):
        return ZERO
    if changed.operation == "exp":
        return ONE
    if changed.operation == "add":
        return next((operand for operand in changed.operands if operand != ZERO), ZERO)
    if changed.operation in ("sub", "exp_difference") and changed.operands[1] == ZERO:
        (argument, _), is_exponential = changed.operands, changed.operation == "exp_difference"
        return Map("exp", (argument,)) if is_exponential else argument
    return changed


def _is_finite(top: Node) -> bool:
    """Whether a maximum over nothing counts as 0 already; as -inf it says that a row is empty, and is kept."""
    return isinstance(top, Map) and top.operation == "finite"


def shifted(node: Node, bodies: Bodies) -> tuple[Node, Node | None, Node] | None:
    """(x, condition, maximum) of exp(x - max x), the maximum over those x for which the condition holds."""
    if not (isinstance(node, Map) and node.operation == "exp" and isinstance(node.operands[0], Map)):
        return None
    difference = node.operands[0]
    if difference.operation != "sub":
        return None
    argument, top = difference.operands
    maximum = resolved(top, bodies)
    inner = maximum.operands[0] if isinstance(maximum, Map) and maximum.operation == "finite" else maximum
    inner = resolved(inner, bodies)
    if not (isinstance(inner, Reduce) and inner.operation == "max" and inner.operand == argument):
        return None
    value = resolved(argument, bodies)
    if isinstance(value, Select) and value.no == MINUS_INFINITY:
        return value.yes, value.condition, maximum
    return argument, None, maximum


def resolved(node: Node, bodies: Bodies) -> Node:
    """What a name of the body stands for, where it is read as it is defined; any other node as it is."""
    if isinstance(node, Read) and node.name in bodies and bodies[node.name].axes == node.where:
        return bodies[node.name].node
    return node


# ---------------------------------------------------------------------------------------------------------------------
# Bounds. Each rule gives a number, computed before the loop, that no entry of the node exceeds in magnitude.


def bound(node: Node, bodies: Bodies) -> Node | None:
    """A bound of the magnitude of every entry; None where there is none that can be had from norms."""
    node = resolved(node, bodies)
    if reads(node) & bodies.keys() and not isinstance(node, Map):
        return None
    if isinstance(node, Contract):
        return Map("mul", (_norm(node.left, node), _norm(node.right, node)))
    if isinstance(node, Map) and node.operation == "tanh":
        return Literal(1)
    if isinstance(node, Map) and node.operation in ("add", "sub"):
        sides = [bound(operand, bodies) for operand in node.operands]
        return None if None in sides else Map("add", tuple(side for side in sides if side is not None))
    if isinstance(node, Map) and node.operation in ("mul", "div") and any(o.is_host for o in node.operands):
        place = 1 if node.operands[0].is_host else 0
        if node.operation == "div" and place == 1:
            return None
        inner, number = bound(node.operands[place], bodies), _magnitude(node.operands[1 - place])
        operands = (number, inner) if place == 1 else (inner, number)
        return None if inner is None else Map(node.operation, operands)  # type: ignore[arg-type]
    return None


def _magnitude(host: Node) -> Node:
    """The magnitude of a number of the host."""
    signed = any(isinstance(n, Option) or (isinstance(n, Literal) and n.numerator < 0) for n in walk(host))
    return Map("sqrt", (Map("square", (host,)),)) if signed else host


def _norm(side: Node, product: Contract) -> Node:
    """The largest norm of a row of one factor of a product, numbers taken out of it."""
    if isinstance(side, Map) and side.operation == "div" and side.operands[1].is_host:
        return Map("div", (_norm(side.operands[0], product), _magnitude(side.operands[1])))
    if isinstance(side, Map) and side.operation == "mul" and side.operands[0].is_host:
        return Map("mul", (_magnitude(side.operands[0]), _norm(side.operands[1], product)))
    norms = Map("sqrt", (Contract(side, side, product.over),))
    return Map("number", (Reduce("max", norms, norms.axes) if norms.axes else norms,))

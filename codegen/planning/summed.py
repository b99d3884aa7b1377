"""Last digits that nobody sees: what is only summed up is computed without the care that they take.

Between `codegen.planning.schedule` and `codegen.blocking.loops`, for the libraries that ask for it.
`codegen.stability.tails` writes exponential tails as functions that keep their digits, at the price of several passes
in double precision. Where a value reaches a result as a term of a sum, with other terms beside it, what it is off by in
its own last places is lost in the rounding of the sum. There the functions are spelled out again, by the identities
that they come from:

    normal_cdf(x)           = erfc(-sqrt(1/2) x) / 2
    scaled_normal_cdf(x, p) = x p
    exp_at(x; c)            = exp(c[0] + c[1] x + c[2] x^2 + c[3] x^3)         and likewise for the logistic function

Errors stay relative: a tail is off by tens of units in its last place, never by the size of its neighbours. On the way
to the sum a value may be multiplied, added or selected; under any other function, and in a result, its digits are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from codegen.ir.nodes import Contract, Literal, Map, Node, Read, Reduce, Select
from codegen.ir.sharing import Statement, reads
from codegen.ir.trees import with_children
from codegen.lowering.context import ONE, ZERO
from codegen.planning.routines import Kernel, Routine

PASSING = frozenset(
    {"add", "sub", "neg", "mul", "maximum", "minimum", "at_least", "at_most", "scaled_normal_cdf", "scaled_logistic_at"}
)
HALF = Literal(1, 2)


def with_plain_summands(kernel: Kernel) -> Kernel:
    """The kernel with functions that keep their last digits spelled out where these are not seen."""
    routines = [routine for routine in (kernel.forward, kernel.backward) if routine is not None]
    seen = _seen([s for r in routines for s in r.statements], {p.name for r in routines for p in r.returns})
    plain = [_plain(routine, seen) for routine in routines]
    return replace(kernel, forward=plain[0], backward=plain[1] if kernel.backward is not None else None)


def _plain(routine: Routine, seen: set[str]) -> Routine:
    statements = tuple(
        replace(statement, node=_written(statement.node, is_seen=statement.name in seen))
        for statement in routine.statements
    )
    return routine if statements == routine.statements else replace(routine, statements=statements)


def _seen(statements: Sequence[Statement], results: set[str]) -> set[str]:
    """The names of values whose last digits show in one of the results."""
    found = set(results)
    for statement in reversed(statements):
        # A value that is summed hides the digits of its terms, even where its own are seen.
        for name in sorted(reads(statement.node)):
            if any(_shows(statement.node, name, shown=statement.name in found)):
                found.add(name)
    return found


def _shows(node: Node, name: str, *, shown: bool) -> Iterator[bool]:
    """For each place where the node reads the name, whether its digits are seen there."""
    if isinstance(node, Read):
        yield node.name == name and shown
    elif not node.children and name in reads(node):
        yield True
    for child, is_shown in _below(node, shown=shown):
        yield from _shows(child, name, shown=is_shown)


def _below(node: Node, *, shown: bool) -> Iterator[tuple[Node, bool]]:
    """The operands of a node, each with whether its digits are seen, given whether the node's are."""
    for place, child in enumerate(node.children):
        if isinstance(node, Contract) or (isinstance(node, Reduce) and node.operation == "sum"):
            yield child, False
        else:
            yield child, shown or not _passes_on(node, place)


def _passes_on(node: Node, place: int) -> bool:
    """Whether an error of the operand at this place is one of the node, of the same size in its last places."""
    if isinstance(node, Map):
        return node.operation in PASSING or (node.operation == "div" and place == 0)
    return isinstance(node, Select) and place > 0


def _written(node: Node, *, is_seen: bool) -> Node:
    """The node with the functions of the table spelled out where their digits are not seen."""
    operands = [_written(child, is_seen=shown) for child, shown in _below(node, shown=is_seen)]
    inner = with_children(node, operands)
    spelled = PLAIN.get(inner.operation) if isinstance(inner, Map) and not is_seen else None
    return spelled(*operands) if spelled is not None else inner


def _polynomial(x: Node, *coefficients: Node) -> Node:
    """The sum of coefficients[k] x^k, by Horner's rule; a square where it is one."""
    if [c for c in coefficients if c != ZERO] == [coefficients[2]]:
        return Map("mul", (Map("square", (x,)), coefficients[2]))
    value: Node = ZERO
    for coefficient in reversed(coefficients):
        value = value if value == ZERO else x if value == ONE else Map("mul", (x, value))
        value = coefficient if value == ZERO else value if coefficient == ZERO else Map("add", (value, coefficient))
    return value


def _at(name: str) -> Callable[..., Node]:
    return lambda x, *coefficients: Map(name, (_polynomial(x, *coefficients),))


PLAIN: Mapping[str, Callable[..., Node]] = {
    "normal_cdf": lambda x: Map("mul", (Map("erfc", (Map("mul", (x, Map("neg", (Map("sqrt", (HALF,)),)))),)), HALF)),
    "scaled_normal_cdf": lambda x, known: Map("mul", (x, known)),
    "exp_at": _at("exp"),
    "logistic_at": _at("logistic"),
    "logistic_slope_at": _at("logistic_slope"),
    "scaled_logistic_at": lambda times, *at: Map("mul", (times, _at("logistic")(*at))),
}

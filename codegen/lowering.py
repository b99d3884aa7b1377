"""From the body of a definition to kernel nodes.

Third stage of the compiler (after `codegen.stability`). One row of RULES for each kind of SymPy node. What needs care
is done here and nowhere else: products become contractions in an order chosen by size, brackets become selections,
look-ups gathers and deltas scatters, an exponential of a difference from its own logsumexp the quotient of two values
at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, KroneckerDelta, Mul, Pow, Rational, S
from sympy.core.relational import Relational

from codegen.errors import KernelError
from codegen.nodes import (
    Axes,
    Contract,
    Gather,
    Literal,
    Map,
    Node,
    Option,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    Size,
)
from codegen.stability import Softplus
from derive.binders import free_indices, substitute
from derive.differentiation import contracted_sum
from derive.folding import same
from derive.functions import Defined
from derive.language import Dim, Flag, Index, Scalar, Where, is_bracket

ONE, ZERO = Literal(1), Literal(0)
MINUS_INFINITY = Literal(-1, 1, "inf")


@dataclass(frozen=True)
class Context:
    """What lowering knows: names of host scalars, and the preferred order of axes."""

    program: str
    options: frozenset[str]
    order: Axes


def lower_definition(body: Expr, context: Context) -> Node:
    """The node for the (stable) body of a definition over the indices `context.order`.

    Terms with a delta between one of these indices and a look-up are scattered; everything else is dense.
    """
    dense: list[Expr] = []
    scattered: list[tuple[Expr, KroneckerDelta]] = []
    for term in Add.make_args(_distributed(body)):
        delta = _scattering_delta(term, context)
        if delta is None:
            dense.append(term)
        else:
            scattered.append((term, delta))
    if not scattered:
        return lower(body, context)
    base = lower(Add(*dense), context) if dense else None
    for term, delta in scattered:
        base = _scatter(term, delta, base, context)
    if base is None:
        raise KernelError(f"{context.program}: {body}: nothing to compute")
    return base


def lower(node: Any, context: Context) -> Node:
    """The node for an expression.

    Raises:
        KernelError: the expression has no array form (a ragged range, a product over a range, an unknown function).
    """
    for kind, rule in RULES:
        if isinstance(node, kind):
            return rule(node, context)
    raise KernelError(f"{context.program}: {node}: {type(node).__name__} cannot be compiled")


# ---------------------------------------------------------------------------------------------------------------------
# Leaves.


def _number(node: Any, _context: Context) -> Node:
    value = Rational(str(node)) if isinstance(node, sympy.Float) else node
    return Literal(int(value.p), int(value.q))


def _size(node: Any, context: Context) -> Node:
    if not isinstance(node, (Dim, sympy.Integer)):
        raise KernelError(f"{context.program}: the range {node} is ragged; a kernel needs rectangular arrays")
    return Literal(int(node)) if isinstance(node, sympy.Integer) else Size(node)


def _scalar(node: Any, context: Context) -> Node:
    return Option(str(node.name)) if str(node.name) in context.options else Read(str(node.name), ())


def _entry(node: Any, context: Context) -> Node:
    where = node.indices
    name = str(node.base.name)
    if all(isinstance(part, Index) for part in where) and len(set(where)) == len(where):
        for index in where:
            _size(index.extent, context)
        return Read(name, tuple(where))
    return Gather(name, tuple(_position(part, context) for part in where))


def _position(part: Any, context: Context) -> Node:
    return Position(part) if isinstance(part, Index) else lower(part, context)


# ---------------------------------------------------------------------------------------------------------------------
# Arithmetic.


def _add(node: Any, context: Context) -> Node:
    signed = [(_is_negative(term), lower(-term if _is_negative(term) else term, context)) for term in node.args]
    # The largest arrays first, what is subtracted last: a bias is added to a product, not a product to a bias.
    signed.sort(key=lambda pair: (pair[0], -len(pair[1].axes)))
    (negative, result), *rest = signed
    if negative:
        result = Map("neg", (result,))
    for minus, operand in rest:
        result = Map("sub" if minus else "add", (result, operand))
    return result


def _is_negative(term: Expr) -> bool:
    return bool(term.as_coeff_Mul()[0].is_negative)


def _multiplied(nodes: Sequence[Node]) -> Node:
    """The elementwise product, small operands first, so that little is computed at full size."""
    ordered = sorted((node for node in nodes if node != ONE), key=lambda node: len(node.axes))
    if not ordered:
        return ONE
    result = ordered[0]
    for node in ordered[1:]:
        result = Map("mul", (result, node))
    return result


def _mul(node: Any, context: Context) -> Node:
    coefficient, rest = node.as_coeff_Mul()
    if coefficient == -1:
        return Map("neg", (lower(rest, context),))
    factors = node.args
    brackets = [factor for factor in factors if is_bracket(factor)]
    above: list[Node] = []
    below: list[Node] = []
    for factor in factors:
        base, power = factor.as_base_exp() if isinstance(factor, Pow) else (factor, S.One)
        if is_bracket(factor):
            continue
        if power.is_Rational and power < 0:
            below.append(lower(base**-power, context))
        elif isinstance(factor, sympy.Rational) and factor.q & (factor.q - 1):
            # A fraction that is no binary number stays a division.
            above.append(Literal(int(factor.p)))
            below.append(Literal(int(factor.q)))
        elif isinstance(factor, sympy.exp) and brackets:
            above.append(_exp_where(factor.args[0], sympy.And(*(b.args[0] for b in brackets)), context))
            brackets = []
        else:
            above.append(lower(factor, context))
    result = _quotient(above, below)
    if brackets:
        result = Select(_condition(sympy.And(*(b.args[0] for b in brackets)), context), result, ZERO)
    return result


def _quotient(above: Sequence[Node], below: Sequence[Node]) -> Node:
    """Above / below with everything that is known before the arrays are touched computed once, on the host."""
    host_above = _multiplied([node for node in above if node.is_host])
    host_below = _multiplied([node for node in below if node.is_host])
    array = _multiplied([node for node in above if not node.is_host])
    divisor = _multiplied([node for node in below if not node.is_host])
    if divisor != ONE:
        array = Map("div", (array, divisor))
    if array == ONE:
        return host_above if host_below == ONE else Map("div", (host_above, host_below))
    if host_above == ONE:
        return array if host_below == ONE else Map("div", (array, host_below))
    scale = host_above if host_below == ONE else Map("div", (host_above, host_below))
    return Map("mul", (scale, array))


def _pow(node: Any, context: Context) -> Node:
    base, power = node.args
    if power.is_Rational and power < 0:
        return _quotient([ONE], [lower(base**-power, context)])
    if power == Rational(1, 2):
        return Map("sqrt", (lower(base, context),))
    if power.is_Rational and power.q == 2:
        return Map("mul", (lower(base ** (power - Rational(1, 2)), context), Map("sqrt", (lower(base, context),))))
    if power == 2:
        return Map("square", (lower(base, context),))
    return Map("power", (lower(base, context), lower(power, context)))


# ---------------------------------------------------------------------------------------------------------------------
# Exponentials and functions.


def _exp(node: Any, context: Context) -> Node:
    return _exp_where(node.args[0], sympy.true, context)


def _exp_where(exponent: Expr, condition: Any, context: Context) -> Node:
    """exp(exponent) where the condition holds, else 0: what is left out is -inf before the exponential, not 0 after."""
    for term in Add.make_args(exponent):
        scale = -term
        if isinstance(scale, Defined) and scale.name == "logsumexp":
            quotient = _softened(exponent - term, scale, condition, context)
            if quotient is not None:
                return quotient
    argument = lower(exponent, context)
    if condition != sympy.true:
        argument = Select(_condition(condition, context), argument, MINUS_INFINITY)
    return Map("exp", (argument,))


def _softened(value: Expr, scale: Defined, condition: Any, context: Context) -> Node | None:
    """exp(value - logsumexp(value)) as e / sum(e): the exponential is taken once and its scale cancels."""
    _, body, bound, _, inside = scale.args
    for place in sorted(free_indices(value), key=str):
        if place.extent != bound.extent:
            continue
        moved = substitute(body, {bound: place}), substitute(inside, {bound: place})
        if same(moved[0], value) and (inside == sympy.true or same(moved[1], condition)):
            shifted, total = _scaled_sum(value, place, moved[1], context)
            result = Map("div", (shifted, total))
            if condition != sympy.true and inside == sympy.true:
                return Select(_condition(condition, context), result, ZERO)
            return result
    return None


def _scaled_sum(body: Expr, index: Index, condition: Any, context: Context) -> tuple[Node, Node]:
    """(exp(body - m), its sum over the index) with m the maximum over the index.

    With a condition, an empty index set gives exp = 0 and the sum 1: the policy for the empty set is zero. The sum is
    at least 1 for every other, because the largest term is exp(0).
    """
    value = lower(body, context)
    if condition == sympy.true:
        top: Node = Reduce("max", value, (index,))
        shifted = Map("exp", (Map("sub", (value, top)),))
        return shifted, Reduce("sum", shifted, (index,))
    value = Select(_condition(condition, context), value, MINUS_INFINITY)
    top = Reduce("max", value, (index,))
    shifted = Map("exp", (Map("sub", (value, Map("finite", (top,)))),))
    return shifted, Map("at_least_one", (Reduce("sum", shifted, (index,)),))


def _logsumexp(node: Any, context: Context) -> Node:
    if node.name != "logsumexp":
        raise KernelError(f"{context.program}: {node}: expected an unfolded function")
    _, body, bound, _, condition = node.args
    value = lower(body, context)
    if condition != sympy.true:
        value = Select(_condition(condition, context), value, MINUS_INFINITY)
    top = Reduce("max", value, (bound,))
    _, total = _scaled_sum(body, bound, condition, context)
    return Map("add", (top, Map("log", (total,))))


def _function(node: Any, context: Context) -> Node:
    name = FUNCTIONS.get(type(node))
    if name is None:
        raise KernelError(f"{context.program}: {node}: the function {type(node).__name__} cannot be compiled")
    return Map(name, tuple(lower(argument, context) for argument in node.args))


FUNCTIONS: dict[type, str] = {
    sympy.log: "log",
    sympy.erf: "erf",
    sympy.erfc: "erfc",
    sympy.tanh: "tanh",
    sympy.sinh: "sinh",
    sympy.cosh: "cosh",
    sympy.sin: "sin",
    sympy.cos: "cos",
    sympy.atan: "atan",
    sympy.sign: "sign",
    Softplus: "softplus",
}


# ---------------------------------------------------------------------------------------------------------------------
# Conditions.


def _condition(node: Any, context: Context) -> Node:
    if isinstance(node, Flag):
        return Option(str(node.name))
    if isinstance(node, (sympy.And, sympy.Or, sympy.Not)):
        name = {sympy.And: "and", sympy.Or: "or", sympy.Not: "not"}[type(node)]
        # A flag comes first: it is known before any array is touched.
        parts = sorted(node.args, key=lambda part: bool(free_indices(part)))
        operands = [_condition(part, context) for part in parts]
        result = operands[0] if name != "not" else Map("not", (operands[0],))
        for operand in operands[1:]:
            result = Map(name, (result, operand))
        return result
    if isinstance(node, Relational):
        # Written so that the indices come in the order of the result's axes: i >= j for a result over (i, j).
        ranks = [
            min((context.order.index(i) for i in free_indices(s) if i in context.order), default=-1) for s in node.args
        ]
        relation = node.reversed if ranks[0] > ranks[1] else node
        return Map(COMPARISONS[type(relation)], tuple(_position(side, context) for side in relation.args))
    raise KernelError(f"{context.program}: {node}: expected a condition")


COMPARISONS: dict[type, str] = {
    sympy.StrictGreaterThan: "gt",
    sympy.GreaterThan: "ge",
    sympy.StrictLessThan: "lt",
    sympy.LessThan: "le",
    sympy.Equality: "eq",
    sympy.Unequality: "ne",
}


def _where(node: Any, context: Context) -> Node:
    condition, yes, no = node.args
    return Select(_condition(condition, context), lower(yes, context), lower(no, context))


def _delta(node: Any, context: Context) -> Node:
    return Select(Map("eq", tuple(_position(side, context) for side in node.args[:2])), ONE, ZERO)


# ---------------------------------------------------------------------------------------------------------------------
# Sums: contractions in a good order.


def _sum(node: Any, context: Context) -> Node:
    over = tuple(limit[0] for limit in node.limits)
    body = contracted_sum(node.function, over)
    if not isinstance(body, sympy.Sum) or set(body.limits) != set(node.limits):
        return lower(body, context)
    for index in over:
        _size(index.extent, context)
    if isinstance(node.function, Add):
        terms = [_sum_factors(term, over, context) for term in node.function.args]
        if any(len(term) > 1 for term in terms):
            return lower(Add(*(contracted_sum(term, over) for term in node.function.args)), context)
        return Reduce("sum", lower(node.function, context), over)
    return _contracted(_sum_factors(node.function, over, context), over, context)


def _product(node: Any, context: Context) -> Node:
    over = tuple(limit[0] for limit in node.limits)
    for index in over:
        _size(index.extent, context)
    inside = lower(node.function, context)
    constant = [index for index in over if index not in inside.axes]
    if constant:
        raise KernelError(f"{context.program}: {node}: no factor depends on {constant[0]}; write it as a power")
    for index in over:
        inside = Reduce("prod", inside, (index,))
    return inside


def _sum_factors(body: Expr, over: Axes, context: Context) -> list[Node]:
    """The factors of a summand as nodes: squares twice, what is below a fraction inverted, brackets selected in."""
    brackets: list[Any] = []
    nodes: list[Node] = []
    plain: list[Expr] = []
    for factor in Mul.make_args(body):
        base, power = factor.as_base_exp() if isinstance(factor, Pow) else (factor, S.One)
        if is_bracket(factor):
            brackets.append(factor.args[0])
        elif power == 2 and isinstance(base, (Indexed, Add)):
            nodes += [lower(base, context)] * 2
        elif isinstance(factor, (Indexed, sympy.Sum, Add)) and free_indices(factor) & set(over):
            nodes.append(lower(factor, context))
        else:
            plain.append(factor)
    if plain:
        nodes.append(_masked(Mul(*plain), brackets, context))
    elif brackets:
        held = _condition(sympy.And(*brackets), context)
        widest = max(range(len(nodes)), key=lambda place: len(nodes[place].axes)) if nodes else 0
        if nodes:
            nodes[widest] = Select(held, nodes[widest], ZERO)
        else:
            nodes.append(Select(held, ONE, ZERO))
    return [node for node in nodes if node != ONE] or [ONE]


def _masked(product: Expr, brackets: Sequence[Any], context: Context) -> Node:
    return lower(Mul(product, *(Where(condition, S.One, S.Zero) for condition in brackets)), context)


def _contracted(nodes: list[Node], over: Axes, context: Context) -> Node:
    """The sum of a product of nodes, pairwise: the pair that leaves the smallest array first."""
    left = list(nodes)
    while len(left) > 1:
        first, second = min(combinations(range(len(left)), 2), key=lambda pair: _cost(left, pair, over))
        others = [node for place, node in enumerate(left) if place not in (first, second)]
        left = [*others, _pair(left[first], left[second], others, over, context)]
    (result,) = left
    remaining = tuple(index for index in result.axes if index in over)
    if remaining:
        result = Reduce("sum", result, remaining)
    counted = [index for index in over if not any(index in node.axes for node in nodes)]
    return _quotient([result, *(_size(index.extent, context) for index in counted)], [])


def _finished(nodes: Sequence[Node], others: Sequence[Node], over: Axes) -> Axes:
    """Summed indices that occur in these nodes and in no other."""
    return tuple(
        i for i in over if any(i in node.axes for node in nodes) and not any(i in node.axes for node in others)
    )


def _cost(nodes: Sequence[Node], pair: tuple[int, int], over: Axes) -> tuple[int, int, tuple[int, int]]:
    chosen = [nodes[place] for place in pair]
    others = [node for place, node in enumerate(nodes) if place not in pair]
    indices = {index for node in chosen for index in node.axes}
    return len(indices - set(_finished(chosen, others, over))), len(indices), pair


def _pair(first: Node, second: Node, others: Sequence[Node], over: Axes, context: Context) -> Node:
    done = _finished((first, second), others, over)
    # An index of one operand alone is summed before the product.
    alone = [tuple(i for i in done if i in a.axes and i not in b.axes) for a, b in ((first, second), (second, first))]
    first, second = (
        Reduce("sum", node, indices) if indices else node for node, indices in zip((first, second), alone, strict=True)
    )
    common = tuple(i for i in done if i in first.axes and i in second.axes)
    if not common:
        return _multiplied([first, second])

    def place(node: Node, other: Node) -> int:
        only = [context.order.index(i) for i in node.axes if i in context.order and i not in other.axes]
        return min(only, default=len(context.order))

    if place(second, first) < place(first, second):
        first, second = second, first
    return Contract(first, second, tuple(index for index in second.axes if index in common))


# ---------------------------------------------------------------------------------------------------------------------
# Scatter: a delta between an index of the result and a look-up.


def _distributed(body: Expr) -> Expr:
    """Products multiplied out over sums that have a scattering delta among their terms, and only over those."""
    if isinstance(body, Add):
        return Add(*map(_distributed, body.args))
    if isinstance(body, Mul):
        for factor in body.args:
            if isinstance(factor, Add) and any(term.has(KroneckerDelta) for term in factor.args):
                rest = Mul(*(other for other in body.args if other != factor))
                return _distributed(Add(*(rest * term for term in factor.args)))
    return body


def _sum_parts(term: Expr) -> tuple[Expr, Axes]:
    """A term as (product, indices summed over)."""
    scope: list[Index] = []
    factors: list[Expr] = []
    for factor in Mul.make_args(term):
        if isinstance(factor, sympy.Sum) and not isinstance(factor.function, Add):
            scope += [limit[0] for limit in factor.limits]
            factors += Mul.make_args(factor.function)
        else:
            factors.append(factor)
    return Mul(*factors), tuple(scope)


def _scattering_delta(term: Expr, context: Context) -> KroneckerDelta | None:
    product, scope = _sum_parts(term)
    if len({index.name for index in (*scope, *context.order)}) < len(scope) + len(context.order):
        return None
    for factor in Mul.make_args(product):
        if isinstance(factor, KroneckerDelta):
            plain = [side for side in factor.args[:2] if side in context.order]
            looked_up = [side for side in factor.args[:2] if isinstance(side, Indexed)]
            if len(plain) == 1 and len(looked_up) == 1:
                return factor
    return None


def _scatter(term: Expr, delta: KroneckerDelta, base: Node | None, context: Context) -> Node:
    product, scope = _sum_parts(term)
    target = next(side for side in delta.args[:2] if side in context.order)
    source = next(side for side in delta.args[:2] if side != target)
    rest = substitute(Mul(*(factor for factor in Mul.make_args(product) if factor != delta)), {target: source})
    kept = free_indices(source)
    value = lower(contracted_sum(rest, [index for index in scope if index not in kept]), context)
    positions = tuple(lower(source, context) if index == target else Position(index) for index in context.order)
    return Scatter(context.order, positions, value, base)


Rule = Callable[[Any, Context], Node]
RULES: tuple[tuple[Any, Rule], ...] = (
    ((sympy.Rational, sympy.Float), _number),
    (sympy.NumberSymbol, lambda node, _context: Literal(1, 1, str(node))),
    (Dim, _size),
    (Scalar, _scalar),
    (Index, lambda node, _context: Position(node)),
    (Indexed, _entry),
    (Add, _add),
    (Mul, _mul),
    (Pow, _pow),
    (sympy.exp, _exp),
    (Defined, _logsumexp),
    (sympy.Sum, _sum),
    (sympy.Product, _product),
    (KroneckerDelta, _delta),
    (Where, _where),
    (sympy.Function, _function),
)
